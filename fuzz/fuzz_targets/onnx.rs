//! A graph from ONNX bytes, lowered if it is a good one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_model::fuzz::fuzz_onnx(bytes);
});
