//! Entry points for fuzzers, and a stable smoke test of each: any bytes give a verdict, none a panic.

use super::models::{PROVIDER, case};
use tg_exec::sample::Numbers;
use tg_ir::CompiledModel;
use tg_proof::zk::ZkProof;
use tg_proof::{
    ExpectedStatement, Modes, Parts, ProofFile, PublicModel, SequenceError, SequenceFile,
    Visibility, verify,
};
use tg_types::codec::{Decode, Encode};

/// Reads any bytes as a proof file about a fixed model and checks it; whether it is accepted.
pub(super) fn fuzz_proof(bytes: &[u8]) -> bool {
    let expected = ExpectedStatement {
        provider: Some(PROVIDER),
        ..ExpectedStatement::default()
    };
    ProofFile::read(bytes).is_ok_and(|file| verify(&case().public, &file, &expected).is_ok())
}

/// Reads any bytes as the messages of a proof in zero knowledge, its openings and hidden columns included.
pub(super) fn fuzz_zk_proof(bytes: &[u8]) -> bool {
    ZkProof::decode(bytes, Parts::ALL).is_some_and(|proof| {
        assert_eq!(proof.encode(), bytes, "a proof has one encoding");
        true
    })
}

/// Reads any bytes as a sequence with its proof and checks it; whether it is accepted.
pub(super) fn fuzz_sequence(
    bytes: &[u8],
    verdict: fn(&SequenceFile) -> Result<(), SequenceError>,
) -> bool {
    SequenceFile::read(bytes).is_ok_and(|file| {
        assert_eq!(file.to_bytes(), bytes, "a sequence has one encoding");
        verdict(&file).is_ok()
    })
}

/// Reads any bytes as a public model and checks its registration; whether it is accepted.
pub(super) fn fuzz_public_model(bytes: &[u8]) -> bool {
    PublicModel::decode(bytes).is_ok_and(|model| {
        assert_eq!(model.encode(), bytes, "a public model has one encoding");
        model.verify_registration().is_ok()
    })
}

/// Reads any bytes as a compiled model; whether it is well formed.
pub(super) fn fuzz_compiled_model(bytes: &[u8]) -> bool {
    CompiledModel::read(bytes).is_ok_and(|model| {
        assert_eq!(model.to_bytes(), bytes, "a model has one encoding");
        true
    })
}

/// Truncations, insertions, overwritten runs and noise.
pub(crate) fn corrupt(honest: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut draw = |limit: usize| usize::try_from(numbers.next() % (limit as u64).max(1)).unwrap();
    let mut bytes = honest.to_vec();
    let place = draw(bytes.len());
    match draw(5) {
        0 => bytes.truncate(place),
        1 => bytes.insert(place, u8::try_from(draw(256)).unwrap()),
        2 => {
            let end = (place + 1 + draw(16)).min(bytes.len());
            let fill = u8::try_from(draw(256)).unwrap();
            bytes[place..end].fill(fill);
            if bytes == honest {
                bytes[place] ^= 1;
            }
        }
        3 => {
            bytes.remove(place);
        }
        _ => {
            let len = draw(600);
            bytes = (0..len).map(|_| u8::try_from(draw(256)).unwrap()).collect();
        }
    }
    bytes
}

#[test]
fn one_bit_flips_of_a_proof_are_refused() {
    let honest = case().file.to_bytes();
    assert!(fuzz_proof(&honest));
    let mut numbers = Numbers::new(1);
    let bits = honest.len() as u64 * 8;
    let head = (0..2_400u64).step_by(3);
    let scattered: Vec<u64> = (0..2_400).map(|_| numbers.next() % bits).collect();
    for bit in head.chain(scattered) {
        // A proof for another job is a proof for another job: the smoke test expects this one's provider only.
        let mut bytes = honest.clone();
        bytes[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
        assert!(!fuzz_proof(&bytes), "bit {bit} is not bound");
    }
}

#[test]
fn corrupted_proofs_are_refused() {
    let honest = case().file.to_bytes();
    let mut numbers = Numbers::new(2);
    for _ in 0..600 {
        assert!(!fuzz_proof(&corrupt(&honest, &mut numbers)));
    }
    assert!(!fuzz_proof(&vec![0; tg_proof::PROOF_FILE_MAX + 1]));
    assert!(!fuzz_proof(&[]));
}

/// The same for a proof in zero knowledge whose file has a commitment.
#[test]
fn changed_proofs_in_zero_knowledge_are_refused() {
    let modes = Modes {
        input: Visibility::Committed,
        output: Visibility::Public,
    };
    let file = super::zk::in_modes(case(), modes);
    let honest = file.to_bytes();
    assert!(fuzz_proof(&honest) && fuzz_zk_proof(&file.proof));
    let mut numbers = Numbers::new(5);
    let bits = honest.len() as u64 * 8;
    let head = (0..1_400u64).step_by(3);
    let scattered: Vec<u64> = (0..400).map(|_| numbers.next() % bits).collect();
    for bit in head.chain(scattered) {
        let mut bytes = honest.clone();
        bytes[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
        assert!(!fuzz_proof(&bytes), "bit {bit} is not bound");
    }
    for _ in 0..600 {
        assert!(!fuzz_proof(&corrupt(&honest, &mut numbers)));
        fuzz_zk_proof(&corrupt(&file.proof, &mut numbers));
    }
}

#[test]
fn corrupted_public_models_are_refused() {
    let honest = case().public.encode();
    assert!(fuzz_public_model(&honest));
    let mut numbers = Numbers::new(3);
    for _ in 0..600 {
        assert!(!fuzz_public_model(&corrupt(&honest, &mut numbers)));
    }
    // The program comes first: most of its bits change what the registration is about, the rest make it unreadable.
    for bit in (0..2_000usize).chain((2_000..honest.len() * 8).step_by(997)) {
        let mut bytes = honest.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!fuzz_public_model(&bytes), "bit {bit} is not bound");
    }
}

#[test]
fn corrupted_compiled_models_give_a_verdict() {
    let honest = case().model.compiled().to_bytes();
    assert!(fuzz_compiled_model(&honest));
    let mut numbers = Numbers::new(4);
    let mut accepted = 0;
    for _ in 0..3_000 {
        accepted += u32::from(fuzz_compiled_model(&corrupt(&honest, &mut numbers)));
    }
    // Names and scales are not bound to the weights; everything else is.
    assert!(accepted < 600, "{accepted}");
    for seed in 0..50 {
        let honest = tg_exec::sample::random_model(seed).0.to_bytes();
        assert!(CompiledModel::from_bytes(&honest).is_ok());
        for _ in 0..100 {
            fuzz_compiled_model(&corrupt(&honest, &mut numbers));
        }
    }
}
