//! The evidence of mode `sync` of a program's run, judged about a program and an input.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_wasm::fuzz::fuzz_trace(bytes);
});
