//! What a gateway says that a final state has.
#![no_main]

use tg_types::chain::{FinalityCertificate, StateAnswer};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = <StateAnswer as tg_types::codec::Decode>::from_bytes(bytes);
    let _ = FinalityCertificate::read(bytes);
});
