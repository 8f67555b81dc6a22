//! A numpy array as a model's input.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_input::fuzz::fuzz_npy(bytes);
});
