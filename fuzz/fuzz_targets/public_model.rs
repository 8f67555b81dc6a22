//! A public model with its registration proof (.tgv).
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tg_proof::PublicModel::decode(bytes);
});
