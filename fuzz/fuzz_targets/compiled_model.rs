//! A program with weights (.tgm).
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tg_ir::CompiledModel::read(bytes);
});
