//! The walk of a proof that is not finished: what its messages leave behind.

use super::VerifyError;
use super::walk::ShownElements;
use super::{ColumnClaim, Walk, WeightClaims};
use crate::algebra::arithmetic::Clear;
use crate::algebra::receiver::Receiver;
use crate::algebra::transcript::Challenger;
use crate::plan::Plan;
use crate::verify::lookup::Pulled;
use crate::verify::messages::NodeProof;
use tg_ir::Program;

/// What is left to show after a walk in the clear.
#[derive(Debug)]
pub struct Replayed {
    /// Per reader group what it pulled.
    pub pulled: Vec<Pulled>,
    /// Per weighted node the claims on its weights.
    pub weights: Vec<Option<WeightClaims>>,
    /// Per witness table the claims besides those of the lookup argument.
    pub opened: Vec<Vec<ColumnClaim>>,
}

/// Plays the messages of all nodes as a verifier does. A prover that kept them goes on from where they end.
///
/// # Errors
/// The check of a node that fails.
pub fn replay(
    program: &Program,
    plan: &Plan,
    shown: ShownElements<'_>,
    nodes: &[NodeProof],
    challenger: &mut Challenger,
) -> Result<Replayed, VerifyError> {
    let channel = Receiver::new(Clear, challenger);
    let mut walk = Walk::new(channel, program, plan, shown);
    walk.run(Some(nodes))?;
    Ok(Replayed {
        pulled: walk.pulled,
        weights: walk.weights,
        opened: walk.opened,
    })
}
