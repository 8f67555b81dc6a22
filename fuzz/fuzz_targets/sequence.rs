//! A sequence with its proof.
#![no_main]

use tg_types::codec::Encode;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = tg_proof::SequenceFile::read(bytes) {
        assert_eq!(file.to_bytes(), bytes);
    }
});
