//! The entry point: one request, one proof.

use crate::clear;
use crate::error::ProveError;
use crate::limits::Stage;
use crate::model::ProvingModel;
use crate::request::ProveRequest;
use crate::zk;
use tg_exec::Trace;
use tg_proof::ProofFile;

/// Executes a model on a batch of inputs and proves all results in one proof.
///
/// `observe` hears each stage as it starts; the prover itself knows no clock.
///
/// # Errors
/// If there are no inputs or too many, one has the wrong length, a limit is exceeded or a commitment fails. In zero
/// knowledge also if a tensor is too large to be named by a commitment. If the weights are private and the request is not
/// masked, or does not say where openings are counted, or all openings were begun; if they are public and it says so.
pub fn prove(
    model: &ProvingModel,
    request: ProveRequest<'_>,
    observe: &mut (dyn FnMut(Stage) + Send),
) -> Result<(ProofFile, Vec<Trace>), ProveError> {
    let hidden = request.masking.is_some() && request.openings.is_some();
    match (model.private.is_some(), request.masking) {
        (true, _) if !hidden => Err(ProveError::PrivateWeights),
        (false, _) if request.openings.is_some() => {
            Err(ProveError::Commitment { which: "weights" })
        }
        (_, Some(masking)) => zk::prove(model, request, masking, observe),
        (_, None) => clear::prove(model, request, observe),
    }
}
