//! A proof that was made once still verifies: format, transcript and parameters have not changed by accident.
//!
//! Both files were written by `tensorgrid model compile models/mlp-digits.onnx --calibrate examples/digit.json` and
//! `tensorgrid prove` on the same input. Writing them again is a breaking change of the proof format.
#![allow(clippy::unwrap_used, reason = "tests")]

use tg_proof::{ExpectedStatement, ProofFile, PublicModel, verify};
use tg_types::Digest;

const MODEL: &[u8] = include_bytes!("../data/mlp-digits.tgv");
const PROOF: &[u8] = include_bytes!("../data/mlp-digits.proof");

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
fn the_kept_ids_are_unchanged() {
    let model = PublicModel::decode(MODEL).unwrap();
    let ids = format!("{}\n{}\n", model.program_id(), model.id());
    assert_eq!(ids, include_str!("../data/mlp-digits.ids"));
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
