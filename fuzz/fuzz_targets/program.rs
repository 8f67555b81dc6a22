//! A program file, or the module in one, and what it does with an input.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_wasm::fuzz::fuzz_program(bytes);
});
