//! The messages of a proof in zero knowledge, its openings and hidden columns included, and the commitments that
//! statements name.
#![no_main]

use tg_proof::{Part, Parts};
use tg_types::codec::Decode;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for witness in [Part::Absent, Part::Committed] {
        for weights in [Part::Absent, Part::Committed] {
            let parts = Parts { weights, witness };
            if let Some(proof) = tg_proof::zk::ZkProof::decode(bytes, parts) {
                assert_eq!(proof.encode(), bytes);
            }
        }
    }
    let _ = tg_proof::ajtai::TensorCommitment::from_bytes(bytes);
});
