//! The messages of a proof in zero knowledge, its openings and hidden columns included, and the commitments that
//! statements name.
#![no_main]

use tg_types::codec::Decode;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(proof) = tg_proof::messages::decode::<tg_proof::zk::ZkProof>(bytes) {
        assert_eq!(tg_proof::messages::encode(&proof), bytes);
    }
    let _ = tg_proof::ajtai::TensorCommitment::from_bytes(bytes);
});
