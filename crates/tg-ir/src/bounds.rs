//! Why no integer of an execution can leave the field.
//!
//! Every relation the prover shows holds modulo p = 2^31 - 2^24 + 1. It holds over the integers because both sides
//! are at most [`FIELD_BOUND`] in absolute value, for every admissible weight and activation. The weights are
//! private, so the bound checked here uses only their declared range, [-127, 127], and the bias range of
//! [`crate::weights`]; activations are bounded by what the node before can give (a clamp, a table), which is why an
//! i16 tensor that a long sum reads is clamped to fewer bits.

pub use crate::limits::{ACTIVATION_MAX, FIELD_BOUND, WIDE_ACTIVATION_MAX};
use crate::op::operator::{Intervals, Magnitudes};
use crate::op::{Op, Unary};
use crate::program::{Coding, Program};
use crate::shape::{ElementType, TensorId};

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

/// The greatest absolute value of the input and of the first `nodes` nodes' outputs, for all admissible weights and
/// inputs.
#[must_use]
pub fn magnitudes(program: &Program, nodes: usize) -> Vec<i64> {
    let mut known = Vec::with_capacity(nodes + 1);
    known.push(match program.element_type(TensorId::INPUT) {
        ElementType::I8 => ACTIVATION_MAX,
        ElementType::I16 => WIDE_ACTIVATION_MAX,
        ElementType::I32 => program.input.greatest(),
    });
    for node in 0..nodes {
        let bound = of_node(program, node, &known);
        known.push(bound);
    }
    known
}

/// The least and greatest value of every tensor, the input first, for all admissible weights and inputs.
///
/// Where only a bound of the absolute value is known it is both ends.
#[must_use]
pub fn intervals(program: &Program) -> Vec<[i64; 2]> {
    let known = magnitudes(program, program.nodes.len());
    let input = match &program.input.coding {
        Coding::Scaled(_) | Coding::PerChannel(_) => [-known[0], known[0]],
        Coding::Ranks(lists) => {
            let most = lists.iter().map(Vec::len).max().unwrap_or(0);
            [0, i64::try_from(most).unwrap_or(i64::MAX)]
        }
        Coding::Tokens(count) => [0, i64::from(*count) - 1],
    };
    let mut intervals = Vec::with_capacity(known.len());
    intervals.push(input);
    for (node, magnitude) in program.nodes.iter().zip(known.into_iter().skip(1)) {
        let interval = node.op.operator().interval(&Intervals {
            tensors: program,
            known: &intervals,
            magnitude,
        });
        intervals.push(interval);
    }
    intervals
}

/// The greatest absolute value of the last node's output, given those of all tensors before it.
///
/// # Panics
/// If the program has no nodes, or a tensor before the last is missing.
#[must_use]
pub fn magnitude(program: &Program, known: &[i64]) -> i64 {
    let last = program.nodes.len().checked_sub(1);
    of_node(program, last.expect("a program has nodes"), known)
}

/// The greatest absolute value of one node's output, given those of all tensors before it.
pub(crate) fn of_node(program: &Program, node: usize, known: &[i64]) -> i64 {
    let operator = program.nodes[node].op.operator();
    operator.magnitude(&Magnitudes {
        tensors: program,
        known,
    })
}

/// Checks every node of a program, given the [`magnitudes`] of all tensors, and that the ranges its segment tables cover lie
/// within the field too (a segment is at most 2^16 wide).
///
/// # Errors
/// The first node that could leave the field.
pub(crate) fn check(program: &Program, known: &[i64]) -> Result<(), BoundError> {
    for (node, description) in program.nodes.iter().enumerate() {
        let mut bound = known[node + 1];
        if let Op::Requantise(Unary { how, .. }) = &description.op {
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
