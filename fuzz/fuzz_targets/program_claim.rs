//! A claim about a run of a program, and the answer to one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_wasm::fuzz::fuzz_claim(bytes);
});
