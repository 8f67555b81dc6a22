//! A graph from ONNX bytes, lowered if it is a good one.
#![no_main]

use tg_onnx::{ReadLimits, read};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(graph) = read(bytes, None, &ReadLimits::default()) {
        tg_compile::fuzz::fuzz_graph(graph);
    }
});
