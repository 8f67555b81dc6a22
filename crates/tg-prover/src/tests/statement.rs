//! A proof speaks about one program, model, job, provider, input and output; replayed for another it is refused.

use super::models::{Case, DENSE, JOB, PROVIDER, bytes, case, everything};
use crate::clear::prove_statement;
use std::collections::BTreeSet;
use tg_ir::CompiledModel;
use tg_proof::error::{LookupCheck, NodeCheck, RegistrationError};
use tg_proof::{ExpectedStatement, Parts, ProofFile, Statement, VerifyError, messages, verify};
use tg_types::{Address, Digest, JobId, ModelId};

/// The proof of true tensors under a statement about other bytes.
fn stated(case: &Case, input: Vec<u8>, output: Vec<u8>) -> ProofFile {
    let statement = Statement {
        model: case.model.id(),
        job: JOB,
        provider: PROVIDER,
        batch: 1,
        input: Digest::of_blob(&input),
        output: Digest::of_blob(&output),
        zk: None,
    };
    let proof = prove_statement(
        &case.model,
        case.trace.tensors(),
        &case.witness(),
        &statement,
        &mut |_| {},
    )
    .unwrap();
    ProofFile {
        statement,
        input,
        output,
        proof: messages::encode(&proof),
    }
}

#[test]
fn another_input_is_caught() {
    let case = case();
    for index in [0, 50, 107] {
        let mut input = case.file.input.clone();
        input[index] ^= 1;
        let file = stated(case, input, case.file.output.clone());
        assert_eq!(case.check(&file), Err(VerifyError::Input));
    }
}

#[test]
fn another_output_is_caught() {
    let case = case();
    for index in [0, 5, 15] {
        let mut output = case.file.output.clone();
        output[index] ^= 1;
        let file = stated(case, case.file.input.clone(), output);
        let bound = matches!(case.check(&file), Err(VerifyError::OutputBound { .. }));
        assert!(bound || case.check(&file) == case.failed(DENSE, NodeCheck::Products));
    }
}

#[test]
fn bytes_that_the_statement_does_not_name_are_refused() {
    let case = case();
    let check = |change: fn(&mut ProofFile), expected: VerifyError| {
        let mut file = case.file.clone();
        change(&mut file);
        assert_eq!(case.check(&file), Err(expected));
    };
    check(
        |file| file.input[3] ^= 1,
        VerifyError::Digest { which: "input" },
    );
    check(
        |file| file.output[3] ^= 1,
        VerifyError::Digest { which: "output" },
    );
    let (expected, got) = (108, 107);
    let which = "input";
    check(
        |file| file.input.truncate(107),
        VerifyError::Length {
            which,
            expected,
            got,
        },
    );
    let (which, expected, got) = ("output", 16, 17);
    check(
        |file| file.output.push(0),
        VerifyError::Length {
            which,
            expected,
            got,
        },
    );
}

#[test]
fn a_statement_other_than_expected_is_named() {
    let case = case();
    let Statement {
        job,
        provider,
        input,
        output,
        ..
    } = case.file.statement;
    let right = ExpectedStatement {
        job: Some(job),
        provider: Some(provider),
        input: Some(input),
        output: Some(output),
    };
    assert_eq!(verify(&case.public, &case.file, &right), Ok(()));
    let digest = Digest::of_blob(b"other");
    for (field, expected) in [
        (
            "job",
            ExpectedStatement {
                job: Some(JobId::new([8; 32])),
                ..right
            },
        ),
        (
            "provider",
            ExpectedStatement {
                provider: Some(Address::new([8; 20])),
                ..right
            },
        ),
        (
            "input",
            ExpectedStatement {
                input: Some(digest),
                ..right
            },
        ),
        (
            "output",
            ExpectedStatement {
                output: Some(digest),
                ..right
            },
        ),
    ] {
        assert_eq!(
            verify(&case.public, &case.file, &expected),
            Err(VerifyError::Statement { field })
        );
    }
    let mut file = case.file.clone();
    file.statement.model = ModelId::new([1; 32]);
    assert_eq!(
        case.check(&file),
        Err(VerifyError::Statement { field: "model" })
    );
}

/// The statement is rewritten and the proof kept: every challenge is another one.
#[test]
fn a_proof_replayed_under_another_statement_is_caught() {
    let case = case();
    let check = |change: fn(&mut Statement)| {
        let mut file = case.file.clone();
        change(&mut file.statement);
        assert_eq!(case.check(&file), case.failed(DENSE, NodeCheck::Products));
    };
    check(|statement| statement.job = JobId::new([0; 32]));
    check(|statement| statement.provider = Address::new([0; 20]));
}

#[test]
fn a_proof_replayed_for_another_model_is_caught() {
    let case = case();
    // The same program with other weights, and a program that differs in one attribute only.
    let (
        CompiledModel {
            mut program,
            mut weights,
        },
        input,
    ) = everything();
    weights.layers[0].weights[0] ^= 1;
    program.weights_root = weights.root();
    let other = Case::of((CompiledModel { program, weights }, input));
    let mut file = case.file.clone();
    file.statement.model = other.public.id();
    assert_eq!(other.check(&file), case.failed(DENSE, NodeCheck::Products));
}

#[test]
fn a_proof_file_has_one_encoding() {
    use tg_types::codec::{Decode, Encode};
    let case = case();
    let bytes = case.file.to_bytes();
    assert_eq!(ProofFile::read(&bytes).unwrap(), case.file);
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(ProofFile::from_bytes(&longer).is_err());
    let mut file = case.file.clone();
    file.proof.push(0);
    assert_eq!(case.check(&file), Err(VerifyError::Encoding));
    file.proof.truncate(file.proof.len() - 2);
    assert_eq!(case.check(&file), Err(VerifyError::Encoding));
    file.proof.clear();
    assert_eq!(case.check(&file), Err(VerifyError::Encoding));
}

/// Two proofs of one statement agree up to their openings, whose proof-of-work takes any nonce that is found first.
#[test]
fn proofs_depend_on_chance_in_their_grinding_only() {
    let case = case();
    let before_openings = |file: &ProofFile| {
        let proof = messages::decode_inference(&file.proof, Parts::ALL).unwrap();
        messages::encode(&(proof.witness, proof.nodes, proof.lookup))
    };
    for _ in 0..3 {
        let input = case.trace.tensors()[0].activations().unwrap();
        let request = bytes(&[input]).named(JOB, PROVIDER);
        let (file, _) = crate::prove(&case.model, request, &mut |_| {}).unwrap();
        assert_eq!(case.check(&file), Ok(()));
        assert!(before_openings(&file) == before_openings(&case.file));
    }
}

#[test]
fn every_check_has_its_own_code() {
    let which = "input";
    let node = |check| VerifyError::Node {
        node: 0,
        name: String::new(),
        check,
    };
    let errors = [
        VerifyError::Encoding,
        VerifyError::Statement { field: "job" },
        VerifyError::Length {
            which,
            expected: 0,
            got: 1,
        },
        VerifyError::Digest { which },
        VerifyError::OutputBound { index: 0 },
        VerifyError::Nodes {
            expected: 0,
            got: 1,
        },
        VerifyError::Input,
        VerifyError::Opening { which },
        VerifyError::Batch { batch: 0 },
        node(NodeCheck::Messages),
        node(NodeCheck::Merge),
        node(NodeCheck::Products),
        node(NodeCheck::Sources),
        node(NodeCheck::Addition),
        node(NodeCheck::Attained),
        node(NodeCheck::Permutation),
        VerifyError::Lookup(LookupCheck::Messages),
        VerifyError::Lookup(LookupCheck::Pulled),
        VerifyError::Lookup(LookupCheck::Sum),
        VerifyError::Lookup(LookupCheck::Leaves),
    ];
    let registration = [
        RegistrationError::Malformed,
        RegistrationError::Range,
        RegistrationError::Padding,
        RegistrationError::Opening,
        RegistrationError::Opened,
    ];
    let codes: BTreeSet<u16> = errors
        .iter()
        .map(VerifyError::code)
        .chain(registration.map(RegistrationError::code))
        .chain(registration.map(|error| VerifyError::Registration(error).code()))
        .collect();
    assert_eq!(codes.len(), errors.len() + registration.len());
    let checks: BTreeSet<&str> = errors.iter().map(VerifyError::check).collect();
    assert_eq!(checks.len(), errors.len());
}
