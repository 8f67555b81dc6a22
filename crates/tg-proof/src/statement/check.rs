//! Checking a proof file: statement, tensors and registration first, then the messages.

use crate::statement::file::{ExpectedStatement, ProofFile};
use crate::statement::model::PublicModel;
use crate::statement::shown;
use crate::verify::messages;
use crate::verify::zk::{self, Checked, ZkProof, ZkShape};
use crate::verify::{ShownTensor, VerifyError, check_proof};

/// Checks a proof file against a registered model.
///
/// The model's registration is checked first, once per [`PublicModel`].
///
/// # Errors
/// The check that failed.
pub fn verify(
    model: &PublicModel,
    file: &ProofFile,
    expected: &ExpectedStatement,
) -> Result<(), VerifyError> {
    if let Some(field) = expected.mismatch(model.id(), &file.statement) {
        return Err(VerifyError::Statement { field });
    }
    if file.statement.zk.is_some() {
        return verify_zk(model, file);
    }
    // Stops: a proof that would open a commitment of another kind.
    if model.private_weights().is_some() {
        return Err(VerifyError::PrivateWeights);
    }
    let batch = file.statement.batch;
    let refused = || VerifyError::Batch { batch };
    let (input, outputs) = shown::tensors(model.program(), file)?;
    // Stops: a batch whose proofs cost more than is admitted, or reach less than the security level.
    let shape = model.shape_of(batch as usize).map_err(|_| refused())?;
    // Stops: weights in no range, for which no accumulator has a bound.
    model.verify_registration()?;
    let parts = model.parts(&shape.plan);
    let proof = messages::decode_inference(&file.proof, parts).ok_or(VerifyError::Encoding)?;
    let statement = file.statement.digest(model.program_id(), parts);
    check_proof(
        (model.program(), model.registered()),
        &shape,
        (statement, parts),
        (&input, &outputs),
        &proof,
    )
}

/// Checks a proof in zero knowledge; statement and registration are checked already.
///
/// # Errors
/// The check that failed.
fn verify_zk(model: &PublicModel, file: &ProofFile) -> Result<(), VerifyError> {
    let batch = file.statement.batch;
    let tensors = shown::shown(model.program(), file)?;
    // Stops: a batch whose proofs cost more than is admitted, or reach less than the security level.
    let shape = model
        .zk_shape_of(batch as usize, file.statement.modes())
        .map_err(|_| VerifyError::Batch { batch })?;
    model.verify_registration()?;
    let proof =
        ZkProof::decode(&file.proof, model.sent(&shape.plan)).ok_or(VerifyError::Encoding)?;
    verify_zk_messages(model, &shape, file, &tensors, &proof)
}

/// The checks of the messages of a proof in zero knowledge, for a shape. `tensors` are what is shown of the input, then of each output.
///
/// # Errors
/// The check that failed.
pub fn verify_zk_messages(
    model: &PublicModel,
    shape: &ZkShape,
    file: &ProofFile,
    tensors: &[ShownTensor],
    proof: &ZkProof,
) -> Result<(), VerifyError> {
    let parts = model.parts(&shape.plan);
    let checked = Checked {
        program: model.program(),
        weights: model.registered(),
        private: model.private_anchor(),
        statement: file.statement.digest(model.program_id(), parts),
    };
    zk::verify(&checked, shape, tensors, proof)
}
