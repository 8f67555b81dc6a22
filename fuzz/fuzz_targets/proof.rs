//! A proof file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tg_proof::ProofFile::read(bytes);
});
