//! Lies about weights: out of range, hidden in padding, miscounted.

use super::models::{case, everything};
use crate::ProvingModel;
use tg_proof::PublicModel;
use tg_proof::error::RegistrationError;
use tg_proof::messages::{self, RegistrationProof};

/// The verdict on a model whose committed columns were changed before the commitment.
fn committed(
    change: impl FnOnce(&mut [crate::columns::NodeColumns]),
) -> Result<(), RegistrationError> {
    let model = ProvingModel::new(everything().0).unwrap();
    let mut columns = model.columns.clone();
    change(&mut columns);
    let model = ProvingModel::commit(model.model, model.shape, columns).unwrap();
    model.register().unwrap().verify_registration()
}

/// The bias digits of a node.
fn bias(columns: &mut crate::columns::NodeColumns) -> &mut [Vec<i8>] {
    columns.bias.as_mut().unwrap()
}

#[test]
fn weights_out_of_range_are_refused() {
    assert_eq!(committed(|_| {}), Ok(()));
    for node in 0..3 {
        let range = Err(RegistrationError::Range);
        assert_eq!(
            committed(|columns| columns[node].pieces[0][1] = -128),
            range
        );
        assert_eq!(
            committed(|columns| bias(&mut columns[node])[2][0] = -128),
            range
        );
    }
}

#[test]
fn weights_hidden_in_padding_are_refused() {
    let padding = Err(RegistrationError::Padding);
    let last = |column: &mut Vec<i8>| *column.last_mut().unwrap() = 1;
    // Input channel 3 of 4, output channels 5 to 7 of 8, kernel positions 9 to 15 of 16.
    assert_eq!(committed(|columns| columns[0].pieces[0][3] = 1), padding);
    assert_eq!(
        committed(|columns| last(&mut columns[1].pieces[0])),
        padding
    );
    assert_eq!(
        committed(|columns| columns[0].pieces[0][9 * 4] = -1),
        padding
    );
    // Four biases in a column of 128.
    for digit in 0..3 {
        assert_eq!(
            committed(|columns| last(&mut bias(&mut columns[2])[digit])),
            padding
        );
        assert_eq!(
            committed(|columns| bias(&mut columns[2])[digit][4] = 1),
            padding
        );
    }
}

/// The public model of the case with changed registration messages.
fn forged(change: impl FnOnce(&mut RegistrationProof)) -> RegistrationError {
    let case = case();
    let mut proof: RegistrationProof = messages::decode(case.public.registration()).unwrap();
    change(&mut proof);
    with_registration(messages::encode(&proof)).unwrap_err()
}

fn with_registration(bytes: Vec<u8>) -> Result<(), RegistrationError> {
    let case = case();
    PublicModel::new(
        case.public.program().clone(),
        case.public.weights_commitment().cloned(),
        bytes,
    )
    .unwrap()
    .verify_registration()
}

#[test]
fn forged_multiplicities_are_refused() {
    let range = RegistrationError::Range;
    assert_eq!(
        forged(|proof| {
            proof.multiplicities[0] += 1;
            proof.multiplicities[127] -= 1;
        }),
        range
    );
    let malformed = RegistrationError::Malformed;
    assert_eq!(forged(|proof| proof.multiplicities[3] += 1), malformed);
    assert_eq!(
        forged(|proof| proof.multiplicities.truncate(254)),
        malformed
    );
    // The same number modulo p: one registration would have two encodings.
    let prime = (1u32 << 31) - (1 << 24) + 1;
    assert_eq!(forged(|proof| proof.multiplicities[5] += prime), malformed);
}

#[test]
fn a_registration_of_another_commitment_is_refused() {
    let model = ProvingModel::new(everything().0).unwrap();
    let mut columns = model.columns.clone();
    columns[0].pieces[0][0] ^= 1;
    let other = ProvingModel::commit(model.model, model.shape, columns).unwrap();
    let public = PublicModel::new(
        case().public.program().clone(),
        other.register().unwrap().weights_commitment().cloned(),
        case().public.registration().to_vec(),
    )
    .unwrap();
    assert_eq!(public.verify_registration(), Err(RegistrationError::Range));
}

/// A root leaves several polynomials open: which one is meant is part of the model, and shown by its registration.
#[test]
fn an_anchor_of_another_polynomial_is_refused() {
    use p3_field::PrimeCharacteristicRing;
    use tg_proof::error::PlanError;
    use tg_proof::field::E;
    let honest = case().public.weights_commitment().unwrap();
    for (table, column) in [(0, 0), (1, 2), (5, 1)] {
        let mut model = ProvingModel::new(everything().0).unwrap();
        model.commitment.as_mut().unwrap().anchor[table][column] += E::ONE;
        // The registration is made for the lie, in step with its transcript.
        let public = model.register().unwrap();
        assert_ne!(public.id(), case().public.id());
        assert_eq!(public.weights_commitment().unwrap().root, honest.root);
        assert_eq!(public.verify_registration(), Err(RegistrationError::Opened));
    }
    let mut commitment = honest.clone();
    commitment.anchor[3].pop();
    let program = case().public.program().clone();
    let refused = PublicModel::new(program, commitment, Vec::new()).unwrap_err();
    assert!(matches!(refused, PlanError::Commitment(_)));
}

#[test]
fn a_proof_about_unregistered_weights_is_refused() {
    use tg_proof::{ExpectedStatement, VerifyError, verify};
    let honest = &case().public;
    for (registration, error) in [
        (Vec::new(), RegistrationError::Malformed),
        (other_registration(), RegistrationError::Range),
    ] {
        let program = honest.program().clone();
        let commitment = honest.weights_commitment().cloned();
        let public = PublicModel::new(program, commitment, registration).unwrap();
        assert_eq!(public.id(), honest.id());
        assert_eq!(
            verify(&public, &case().file, &ExpectedStatement::default()),
            Err(VerifyError::Registration(error))
        );
    }
}

/// The registration of other weights of the same program.
fn other_registration() -> Vec<u8> {
    let model = ProvingModel::new(everything().0).unwrap();
    let mut columns = model.columns.clone();
    columns[0].pieces[0][0] ^= 1;
    let other = ProvingModel::commit(model.model, model.shape, columns).unwrap();
    other.register().unwrap().registration().to_vec()
}

#[test]
fn both_reports_reach_a_hundred_bits() {
    use tg_proof::security::{registration_report, report};
    for report in [report, registration_report] {
        let report = report(&case().public).unwrap();
        assert!(report.bits >= 100.0, "{report:?}");
        assert!(report.terms.iter().all(|term| term.bits > report.bits));
        assert!(
            report
                .terms
                .iter()
                .any(|term| term.label.contains("anchor"))
        );
    }
}

#[test]
fn bytes_that_are_no_registration_are_refused() {
    let malformed = Err(RegistrationError::Malformed);
    let honest = case().public.registration();
    assert_eq!(with_registration(Vec::new()), malformed);
    assert_eq!(with_registration([honest, &[0]].concat()), malformed);
    assert_eq!(
        with_registration(honest[..honest.len() - 1].to_vec()),
        malformed
    );
    assert_eq!(with_registration(honest.to_vec()), Ok(()));
}

#[test]
fn a_public_model_has_one_encoding() {
    let bytes = case().public.encode();
    let read = PublicModel::decode(&bytes).unwrap();
    assert_eq!(read.encode(), bytes);
    assert_eq!(read.id(), case().public.id());
    assert!(PublicModel::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
    assert!(PublicModel::decode(&bytes[..bytes.len() - 1]).is_err());
}
