//! The walk over the nodes, from the output to the input, and all checks of a proof.
//!
//! `walk` holds the open claims and hands each node to its gadget: `merge` (several claims become one), `products`
//! (convolutions and dense nodes), `read` (public linear maps, on which most gadgets end), `matmul` and `mul` (products
//! of two tensors), `weights` (parameters and embeddings), `requantise`, `maximum`, `staged` (all others: gadgets as data). `public` evaluates input and output,
//! `openings` binds what the gadgets used to the commitments; `replay` is the walk alone, for a prover that goes on after a crash.

mod hidden;
mod matmul;
mod maximum;
mod merge;
mod mul;
mod openings;
mod products;
mod public;
mod read;
mod replay;
mod requantise;
mod secrets;
mod staged;
mod trees;
mod walk;
mod weights;

pub use hidden::{Batch, Obligations, Walked, walk as walk_hidden};
pub use matmul::MatMulPoint;
pub(crate) use openings::check_weights;
pub use public::{ShownTensor, evaluate_tensor, interleaved};
pub(crate) use public::{integers, shown};
pub use replay::{Replayed, replay};
pub use requantise::{padded_pair, padding_pair};
pub(crate) use secrets::node_bytes;
pub use secrets::secrets;
pub use walk::{Claim, ColumnClaim, Walk, WeightClaims};
pub use weights::{token_row, token_weights};

use crate::arithmetic::{Arithmetic, Clear};
use crate::commitment::{Challenger, Pcs};
use crate::error::VerifyError;
use crate::field::{E, point};
use crate::file::{ExpectedStatement, ProofFile};
use crate::lookup::{self, LookupClaims, LookupMessages};
use crate::messages::{self, InferenceProof, NodeProof};
use crate::model::PublicModel;
use crate::{pushforward, transcript, zk};
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
    if file.statement.zk.is_some() {
        return zk::verify(model, file);
    }
    // Stops: a proof that would open a commitment of another kind.
    if model.private_weights().is_some() {
        return Err(VerifyError::PrivateWeights);
    }
    let batch = file.statement.batch;
    let refused = || VerifyError::Batch { batch };
    let (input, output) = public::tensors(model.program(), file)?;
    // Stops: a batch whose proofs cost more than is admitted, or reach less than the security level.
    let shape = model.shape_of(batch as usize).map_err(|_| refused())?;
    // Stops: weights in no range, for which no accumulator has a bound.
    model.verify_registration()?;
    let proof: InferenceProof =
        messages::decode_inference(&file.proof).ok_or(VerifyError::Encoding)?;
    let mut challenger = transcript::inference(model.program_id(), &file.statement);
    model
        .weights_scheme()
        .observe_commitment(&model.weights_commitment().root, &mut challenger);
    let anchor = openings::observe_witness(&shape, &proof, &mut challenger)?;
    let mut walk = Walk::new(Clear, model.program(), &shape.plan, &input);
    let scheme = shape.pushforwards.as_ref().map(|(scheme, _)| scheme);
    let sums = (proof.sections.sums.as_slice(), proof.sections.tables);
    let lookup = LookupMessages {
        proof: &proof.lookup,
        sums,
    };
    let messages = (proof.nodes.as_slice(), lookup);
    let lookup = walk.check(messages, scheme, &output, &mut challenger)?;
    pushforward::check(&shape, &lookup, &proof.lookup, &mut challenger)?;
    let claimed = (&walk, &lookup, anchor.as_slice());
    openings::check_witness(&shape, &proof, claimed, &mut challenger)?;
    let argument = &proof.weights_opening;
    check_weights(model, &walk.weights, argument, &mut challenger)
}

impl<A: Arithmetic> Walk<'_, A> {
    /// All checks but the openings': the nodes, the input and the lookup argument.
    fn check(
        &mut self,
        (nodes, lookup): (&[NodeProof], LookupMessages<'_>),
        scheme: Option<&Pcs>,
        output: &[i32],
        challenger: &mut Challenger,
    ) -> Result<LookupClaims<A::Value>, VerifyError> {
        self.run(nodes, output, challenger)?;
        lookup::verify(
            &mut self.arithmetic,
            (self.plan, scheme),
            &self.pulled,
            lookup,
            challenger,
        )
    }
}

/// A claim's point for a column that is padded in front.
#[must_use]
pub fn padded_point(at: &[E], vars: usize) -> Point<E> {
    point(&[vec![E::ZERO; vars - at.len()], at.to_vec()].concat())
}
