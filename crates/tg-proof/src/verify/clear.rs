//! The checks of a proof in the clear.

use super::openings::{self, Registered, check_weights};
use super::{VerifyError, Walk, node_bytes};
use crate::algebra::arithmetic::Clear;
use crate::algebra::transcript;
use crate::plan::parts::Parts;
use crate::plan::shape::ProofShape;
use crate::verify::lookup::LookupMessages;
use crate::verify::messages::{self, InferenceProof};
use crate::verify::pushforward;
use p3_commit::MultilinearPcs;
use tg_ir::Program;
use tg_types::Digest;

/// The checks of a proof's messages, for the digest of a statement, a shape and public tensors.
///
/// # Errors
/// The check that failed.
pub(crate) fn check_proof(
    (program, weights): (&Program, Option<Registered<'_>>),
    shape: &ProofShape,
    (statement, parts): (Digest, Parts),
    [input, output]: [&[i32]; 2],
    proof: &InferenceProof,
) -> Result<(), VerifyError> {
    // Stops: a part that is not due, or one that is missing. Bytes cannot say so; whoever calls this can.
    if !proof.has(parts) {
        return Err(VerifyError::Encoding);
    }
    let mut challenger = transcript::inference(statement);
    if let Some(own) = &weights {
        let root = &own.commitment.root;
        own.shape.scheme.observe_commitment(root, &mut challenger);
    }
    let anchor = openings::observe_witness(shape, proof, &mut challenger)?;
    let mut walk = Walk::new(Clear, program, &shape.plan, input);
    walk.run(&proof.nodes, output, &mut challenger)?;
    walk.debug_check_draws();
    debug_assert_eq!(
        messages::encode(&proof.nodes).len() as u64,
        node_bytes(program, &shape.plan),
        "bytes of the nodes' messages"
    );
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
        (Some(own), Some(argument)) => {
            check_weights(&own, &walk.weights, argument, &mut challenger)
        }
        _ => Ok(()),
    }
}
