//! A proof that was made once still verifies: format, transcript and parameters have not changed by accident.
//!
//! Both files were written by `tensorgrid model compile models/mlp-digits.onnx --calibrate examples/digit.json` and
//! `tensorgrid prove` on the same input. Writing them again is a breaking change of the proof format.
#![allow(clippy::unwrap_used, reason = "tests")]

mod costly;
mod hostile;

use tg_proof::ajtai::{self, TensorCommitment};
use tg_proof::messages::{self, Pushforwards};
use tg_proof::plan::Plan;
use tg_proof::{
    ExpectedStatement, Modes, PartModes, Parts, PlanError, ProofFile, PublicModel, Visibility,
    verify,
};
use tg_types::Digest;
use tg_types::codec::{Decode, Encode};

const MODEL: &[u8] = include_bytes!("../data/mlp-digits.tgv");
const PROOF: &[u8] = include_bytes!("../data/mlp-digits.proof");
/// In zero knowledge, with a committed input under a salt of zeros that end in a 7.
const COMMITTED: &[u8] = include_bytes!("../data/mlp-digits-committed.proof");

#[test]
fn the_kept_proof_verifies() {
    let model = PublicModel::decode(MODEL).unwrap();
    let file = ProofFile::read(PROOF).unwrap();
    assert_eq!(model.encode(), MODEL);
    let expected = ExpectedStatement {
        input: Some(Digest::of_blob(&file.input)),
        output: Some(Digest::of_blob(&file.output)),
        ..ExpectedStatement::default()
    };
    assert_eq!(verify(&model, &file, &expected), Ok(()));
}

#[test]
fn the_kept_proof_in_zero_knowledge_verifies() {
    let model = PublicModel::decode(MODEL).unwrap();
    let (file, clear) = (
        ProofFile::read(COMMITTED).unwrap(),
        ProofFile::read(PROOF).unwrap(),
    );
    assert_eq!(file.to_bytes(), COMMITTED);
    let (input, output) = (Visibility::Committed, Visibility::Public);
    assert_eq!(file.statement.zk, Some(Modes { input, output }));
    assert_eq!(verify(&model, &file, &ExpectedStatement::default()), Ok(()));
    // The commitment is of the input that the proof in the clear shows.
    let elements: Vec<i32> = clear
        .input
        .iter()
        .map(|&byte| i32::from(byte.cast_signed()))
        .collect();
    let kind = model.program().input.element_type();
    let digits = ajtai::digits(kind, &elements);
    let mut salt = [0; 32];
    salt[31] = 7;
    let blinding = ajtai::blinding(kind, &digits, &salt);
    let commitment = ajtai::commit(kind, &digits, &blinding);
    assert_eq!(TensorCommitment::from_bytes(&file.input), Ok(commitment));
    assert_eq!(file.statement.output, clear.statement.output);
}

/// A model with private weights, whose registration and proof show nothing of them. Written by
/// `cargo run -p tg-prover --example private -- --keep crates/tg-proof/tests/data`.
#[test]
fn the_kept_proof_with_private_weights_verifies() {
    const MODEL: &[u8] = include_bytes!("../data/private.tgv");
    const PROOF: &[u8] = include_bytes!("../data/private.proof");
    let model = PublicModel::decode(MODEL).unwrap();
    let file = ProofFile::read(PROOF).unwrap();
    assert_eq!(
        (model.encode().as_slice(), file.to_bytes().as_slice()),
        (MODEL, PROOF)
    );
    assert_eq!(model.private_weights().unwrap().proofs, 1);
    assert_eq!(verify(&model, &file, &ExpectedStatement::default()), Ok(()));
    // Without the number of proofs it is another model, and not read as one with public weights.
    let mut public = MODEL.to_vec();
    public[4] = 3;
    assert!(PublicModel::decode(&public).is_err());
}

/// A proof that says one thing of one input and another of the next, and likewise of outputs. Written by
/// `cargo run -p tg-prover --example lists -- crates/tg-proof/tests/data`.
#[test]
fn the_kept_proof_with_lists_of_modes_verifies() {
    const MODEL: &[u8] = include_bytes!("../data/lists.tgv");
    const PROOF: &[u8] = include_bytes!("../data/lists.proof");
    use Visibility::{Committed, Hidden, Public};
    let model = PublicModel::decode(MODEL).unwrap();
    let file = ProofFile::read(PROOF).unwrap();
    assert_eq!(file.to_bytes(), PROOF);
    let each = |modes| Visibility::Each(PartModes::new(modes).unwrap());
    let modes = Modes {
        input: each(&[Public, Committed]),
        output: each(&[Hidden, Public]),
    };
    assert_eq!(file.statement.zk, Some(modes));
    assert_eq!(verify(&model, &file, &ExpectedStatement::default()), Ok(()));
    let [inputs, outputs] = file
        .listed(model.program())
        .map(|parts| parts.into_iter().map(<[u8]>::len).collect::<Vec<_>>());
    let half = model.program().input_bytes() / 2;
    let last = model.program().last();
    let shown = model.program().shape(last).elements() * model.program().element_type(last).bytes();
    assert_eq!(inputs, [half, ajtai::COMMITMENT_BYTES]);
    assert_eq!(outputs, [0, shown]);
    // The list of another kind of proof, and none.
    let at = 6 + 152;
    assert_eq!(PROOF[at..at + 6], [2, 0, 1, 2, 2, 0]);
    for (place, mode) in [
        (1, 1),
        (1, 2),
        (2, 0),
        (2, 2),
        (4, 0),
        (4, 1),
        (5, 1),
        (5, 2),
    ] {
        let mut bytes = PROOF.to_vec();
        bytes[at + place] = mode;
        let changed = ProofFile::read(&bytes);
        let verdict = changed.map(|file| verify(&model, &file, &ExpectedStatement::default()));
        assert!(!matches!(verdict, Ok(Ok(()))), "{place} {mode}");
    }
}

/// A proof whose tables are so large that their pushforwards are committed.
#[test]
fn the_kept_proof_with_committed_pushforwards_verifies() {
    let model = PublicModel::decode(include_bytes!("../data/large-tables.tgv")).unwrap();
    let file = ProofFile::read(include_bytes!("../data/large-tables.proof")).unwrap();
    let proof = messages::decode_inference(&file.proof, Parts::ALL).unwrap();
    let pushforwards = proof.lookup.unwrap().pushforwards;
    let committed = matches!(pushforwards, Pushforwards::Committed(_));
    assert!(committed);
    assert_eq!(verify(&model, &file, &ExpectedStatement::default()), Ok(()));
}

#[test]
fn the_kept_ids_are_unchanged() {
    let model = PublicModel::decode(MODEL).unwrap();
    let ids = format!("{}\n{}\n", model.program_id(), model.id());
    assert_eq!(ids, include_str!("../data/mlp-digits.ids"));
}

/// A proof without a lookup argument, of inputs that come to 2^32 rows: where these wrap to none, nothing shows what the
/// requantisation sends, and every output is accepted. The plan refuses it on every machine.
#[test]
fn rows_that_wrap_in_32_bits_are_refused_by_the_plan() {
    let model = PublicModel::decode(include_bytes!("../data/wrapped-rows.tgv")).unwrap();
    let file = ProofFile::read(include_bytes!("../data/wrapped-rows.proof")).unwrap();
    assert_eq!(file.statement.batch, 1_024);
    assert!(verify(&model, &file, &ExpectedStatement::default()).is_err());
    let planned = |batch| Plan::batched(model.program().check().unwrap(), batch);
    assert!(planned(1).is_ok());
    let refused = planned(512).unwrap_err();
    assert!(matches!(refused, PlanError::Commitment(_)), "{refused}");
    let refused = planned(1_024).unwrap_err();
    let PlanError::TooCostly { what, limit, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!((what, limit), ("variables of a tensor", 31));
}

/// Files of earlier versions are refused by their version, not misread.
#[test]
fn earlier_versions_are_refused_by_their_version() {
    for earlier in [1, 2, 3] {
        let refused = |file: &[u8]| {
            let mut bytes = file.to_vec();
            assert_eq!(bytes[5], 0);
            assert!(bytes[4] > earlier);
            bytes[4] = earlier;
            bytes
        };
        let value = u64::from(earlier);
        let version = |field| tg_types::DecodeError::Invalid { field, value };
        let error = ProofFile::read(&refused(PROOF)).unwrap_err();
        assert_eq!(error, version("proof file version").into());
        if earlier == 3 {
            continue;
        }
        let error = PublicModel::decode(&refused(MODEL)).unwrap_err();
        assert_eq!(error, version("public model version").into());
    }
}
