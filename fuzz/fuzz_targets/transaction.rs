//! A signed transaction.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = <tg_types::SignedTransaction as tg_types::codec::Decode>::from_bytes(bytes);
});
