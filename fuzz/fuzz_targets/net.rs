//! The operator-level graph of ONNX bytes, executed within a small budget.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_onnx::fuzz::fuzz_net(bytes);
});
