//! The structure and the constants of a float graph.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tg_float::fuzz::fuzz_graph(bytes);
});
