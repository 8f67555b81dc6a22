//! The walk over the nodes, from the output to the input, and all checks of a proof.
//!
//! `walk` holds the open claims and hands each node to its gadget: `merge` (several claims become one), `products`
//! (convolutions and dense nodes), `read` (public linear maps, on which most gadgets end), `matmul` and `mul` (products
//! of two tensors), `weights` (parameters and embeddings), `requantise`, `maximum`, `staged` (all others: gadgets as data). `public` evaluates input and output,
//! `openings` binds what the gadgets used to the commitments.

mod matmul;
mod maximum;
mod merge;
mod mul;
mod openings;
mod products;
mod public;
mod read;
mod requantise;
mod staged;
mod walk;
mod weights;

pub use matmul::MatMulPoint;
pub use public::{evaluate_tensor, interleaved};
pub use requantise::{padded_pair, padding_pair};
pub use walk::{Claim, ColumnClaim, Walk, WeightClaims};
pub use weights::{token_row, token_weights};

use crate::commitment::Challenger;
use crate::error::VerifyError;
use crate::field::{E, point};
use crate::file::{ExpectedStatement, ProofFile};
use crate::messages::{self, InferenceProof, Sumcheck};
use crate::model::PublicModel;
use crate::{lookup, transcript};
use p3_commit::MultilinearPcs;
use p3_field::PrimeCharacteristicRing;
use p3_multilinear_util::point::Point;

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
    let batch = file.statement.batch;
    let refused = || VerifyError::Batch { batch };
    let (input, output) = public::tensors(model.program(), file)?;
    // Stops: a batch whose proofs cost more than is admitted, or reach less than the security level.
    let shape = model.shape_of(batch as usize).map_err(|_| refused())?;
    // Stops: weights in no range, for which no accumulator has a bound.
    model.verify_registration()?;
    let proof: InferenceProof = messages::decode(&file.proof).ok_or(VerifyError::Encoding)?;
    let mut challenger = transcript::inference(model.program_id(), &file.statement);
    model
        .weights_scheme()
        .observe_commitment(&model.weights_commitment().root, &mut challenger);
    shape
        .witness_scheme
        .observe_commitment(&proof.witness, &mut challenger);
    let mut walk = Walk::new(model.program(), &shape.plan, &input);
    walk.run(&proof.nodes, &output, &mut challenger)?;
    // Stops: a proof about another input.
    let layout = walk.plan.layouts[0];
    for claim in &walk.claims[0] {
        if evaluate_tensor(&input, layout, &claim.point) != claim.value {
            return Err(VerifyError::Input);
        }
    }
    let lookup_point = lookup::verify(&shape, &walk.pulled, &proof.lookup, &mut challenger)?;
    openings::check_witness(&shape, &proof, &walk, &lookup_point, &mut challenger)?;
    openings::check_weights(model, &proof, &walk, &mut challenger)
}

/// Runs a sumcheck and checks its claimed sum; nothing if it does not close.
pub(crate) fn sumcheck(
    proof: &Sumcheck,
    challenger: &mut Challenger,
    rounds: usize,
    degree: usize,
    sum: E,
) -> Option<(Vec<E>, E)> {
    if proof.claimed_sum != sum {
        return None;
    }
    let (point, last) = proof.verify(challenger, rounds, degree, 0).ok()?;
    Some((point.as_slice().to_vec(), last))
}

/// A claim's point for a column that is padded in front.
#[must_use]
pub fn padded_point(at: &[E], vars: usize) -> Point<E> {
    point(&[vec![E::ZERO; vars - at.len()], at.to_vec()].concat())
}
