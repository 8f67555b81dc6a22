//! Why no accumulator can leave the field.
//!
//! Every relation the prover shows holds modulo p = 2^31 - 2^24 + 1. It holds over the integers because both sides
//! are at most [`FIELD_BOUND`] in absolute value, for every admissible weight and activation. The weights are
//! private, so the bound checked here uses only their declared range, [-127, 127], and the bias range of
//! [`crate::weights`].

use crate::program::{Op, Program};
use crate::weights::{BIAS_MAX, WEIGHT_MAX};

/// B = (p - 1) / 2 for the KoalaBear prime: the greatest absolute value that has one representative.
pub const FIELD_BOUND: i64 = 1_065_353_216;
/// Greatest absolute value of an activation.
pub const ACTIVATION_MAX: i64 = 128;

/// A node whose accumulator could leave the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "node {node} `{name}` ({op}) may reach {bound} in absolute value, above the field bound {FIELD_BOUND}"
)]
pub struct BoundError {
    /// Index of the node.
    pub node: usize,
    /// Its name.
    pub name: String,
    /// The operator.
    pub op: &'static str,
    /// What it may reach.
    pub bound: i64,
}

/// The greatest absolute value of a node's output, for all admissible weights and activations.
#[must_use]
pub fn of_node(program: &Program, node: usize) -> i64 {
    let products = i64::try_from(program.reduction(node)).unwrap_or(i64::MAX);
    match &program.nodes[node].op {
        Op::Conv { .. } | Op::Dense { .. } => products
            .saturating_mul(i64::from(WEIGHT_MAX) * ACTIVATION_MAX)
            .saturating_add(i64::from(BIAS_MAX)),
        Op::WindowSum { window, .. } => i64::try_from(window.positions())
            .unwrap_or(i64::MAX)
            .saturating_mul(ACTIVATION_MAX),
        Op::Add { multipliers, .. } => multipliers
            .iter()
            .map(|&m| i64::from(m) * ACTIVATION_MAX)
            .sum(),
        Op::Requantise { .. } | Op::MaxPool { .. } | Op::Permute { .. } => ACTIVATION_MAX,
    }
}

/// Checks every node of a program, and that the ranges its segment tables cover lie within the field too (a segment
/// is at most 2^16 wide).
///
/// # Errors
/// The first node that could leave the field.
pub fn check(program: &Program) -> Result<(), BoundError> {
    for (node, description) in program.nodes.iter().enumerate() {
        let mut bound = of_node(program, node);
        if let Op::Requantise { how, .. } = &description.op {
            let reach = how
                .range
                .iter()
                .map(|&value| i64::from(value).abs())
                .max()
                .unwrap_or(0);
            bound = bound.max(reach + (1 << crate::segment::SEGMENT_BITS_MAX));
        }
        if bound > FIELD_BOUND {
            return Err(BoundError {
                node,
                name: description.name.clone(),
                op: description.op.name(),
                bound,
            });
        }
    }
    Ok(())
}
