//! A claim about a run of a float model, and the answer to one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_float::fuzz::fuzz_claim(bytes);
});
