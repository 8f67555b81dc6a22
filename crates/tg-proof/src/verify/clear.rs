//! The checks of a proof in the clear.

use super::argue::SentMessages;
use super::openings::{self, Registered, WitnessClaims, check_weights};
use super::walk::ShownElements;
use super::{VerifyError, Walk};
use crate::algebra::arithmetic::Clear;
use crate::algebra::receiver::Receiver;
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
    (input, outputs): (&[i32], &[Vec<i32>]),
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
    let shown = ShownElements { input, outputs };
    let channel = Receiver::new(Clear, &mut challenger);
    let mut walk = Walk::new(channel, program, &shape.plan, shown);
    let sent = SentMessages {
        nodes: &proof.nodes,
        lookup: proof.lookup.as_ref().map(|messages| LookupMessages {
            proof: messages,
            sections: &proof.sections.sums,
            tables: proof.sections.tables,
        }),
    };
    let scheme = shape.pushforwards.as_ref().map(|(scheme, _)| scheme);
    let argued = walk.argue(Some(sent), scheme)?;
    walk.debug_check_count(&argued);
    debug_assert_eq!(
        messages::encode(&proof.nodes).len() as u64,
        argued.nodes.bytes(),
        "bytes of the nodes' messages"
    );
    let Walk {
        weights: claimed,
        opened,
        ..
    } = walk;
    if let (Some(lookup), Some(messages)) = (&argued.lookup, &proof.lookup) {
        pushforward::open(shape, argued.shown.as_ref(), messages, &mut challenger)?;
        let claimed = WitnessClaims {
            opened: &opened,
            lookup,
            anchor: &anchor,
        };
        openings::check_witness(shape, proof, claimed, &mut challenger)?;
    }
    match (weights, &proof.weights_opening) {
        (Some(own), Some(argument)) => check_weights(&own, &claimed, argument, &mut challenger),
        _ => Ok(()),
    }
}
