//! The evidence of mode `sync` of a float model's run, judged about a model and an input.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_float::fuzz::fuzz_trace(bytes);
});
