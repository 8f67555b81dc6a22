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
use crate::commitment::Pcs;
use crate::error::VerifyError;
pub use crate::field::padded_point;
use crate::file::{ExpectedStatement, ProofFile, Statement};
use crate::lookup::{self, LookupClaims, LookupMessages};
use crate::messages::{self, InferenceProof};
use crate::model::PublicModel;
use crate::parts::Parts;
use crate::shape::ProofShape;
use crate::transcript::Challenger;
use crate::{pushforward, transcript, zk};
use p3_commit::MultilinearPcs;

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
    let parts = model.parts(&shape.plan);
    let proof = messages::decode_inference(&file.proof, parts).ok_or(VerifyError::Encoding)?;
    check_proof(
        model,
        &shape,
        (&file.statement, parts),
        [&input, &output],
        &proof,
    )
}

/// The checks of a proof's messages, for a shape and public tensors.
fn check_proof(
    model: &PublicModel,
    shape: &ProofShape,
    (statement, parts): (&Statement, Parts),
    [input, output]: [&[i32]; 2],
    proof: &InferenceProof,
) -> Result<(), VerifyError> {
    // Stops: a part that is not due, or one that is missing. Bytes cannot say so; whoever calls this can.
    if !proof.has(parts) {
        return Err(VerifyError::Encoding);
    }
    let mut challenger = transcript::inference(statement.digest(model.program_id(), parts));
    let weights = model.weights().zip(model.weights_commitment());
    if let Some((shape, own)) = weights {
        shape.scheme.observe_commitment(&own.root, &mut challenger);
    }
    let anchor = openings::observe_witness(shape, proof, &mut challenger)?;
    let mut walk = Walk::new(Clear, model.program(), &shape.plan, input);
    walk.run(&proof.nodes, output, &mut challenger)?;
    if let Some(messages) = &proof.lookup {
        let scheme = shape.pushforwards.as_ref().map(|(scheme, _)| scheme);
        let lookup = LookupMessages {
            proof: messages,
            sums: (proof.sections.sums.as_slice(), proof.sections.tables),
        };
        let lookup = walk.look_up(lookup, scheme, &mut challenger)?;
        pushforward::check(shape, &lookup, messages, &mut challenger)?;
        let claimed = (&walk, &lookup, anchor.as_slice());
        openings::check_witness(shape, proof, claimed, &mut challenger)?;
    }
    match (weights, &proof.weights_opening) {
        (Some((shape, _)), Some(argument)) => {
            check_weights(model, shape, &walk.weights, argument, &mut challenger)
        }
        _ => Ok(()),
    }
}

impl<A: Arithmetic> Walk<'_, A> {
    /// The lookup argument about all that the nodes have pulled.
    fn look_up(
        &mut self,
        lookup: LookupMessages<'_>,
        scheme: Option<&Pcs>,
        challenger: &mut Challenger,
    ) -> Result<LookupClaims<A::Value>, VerifyError> {
        lookup::verify(
            &mut self.arithmetic,
            (self.plan, scheme),
            &self.pulled,
            lookup,
            challenger,
        )
    }
}
