//! Why no integer of an execution can leave the field.
//!
//! Every relation the prover shows holds modulo p = 2^31 - 2^24 + 1. It holds over the integers because both sides
//! are at most [`FIELD_BOUND`] in absolute value, for every admissible weight and activation. The weights are
//! private, so the bound checked here uses only their declared range, [-127, 127], and the bias range of
//! [`crate::weights`]; activations are bounded by what the node before can give (a clamp, a table), which is why an
//! i16 tensor that a long sum reads is clamped to fewer bits.

use crate::op::{Op, PROBABILITY_ONE, Ranked, Reduction};
use crate::program::{Coding, Program, TensorId};
use crate::shape::ElementType;
use crate::weights::{BIAS_MAX, WEIGHT_MAX};

/// B = (p - 1) / 2 for the KoalaBear prime: the greatest absolute value that has one representative.
pub const FIELD_BOUND: i64 = 1_065_353_216;
/// Greatest absolute value of an i8 activation.
pub const ACTIVATION_MAX: i64 = 128;
/// Greatest absolute value of an i16 activation.
pub const WIDE_ACTIVATION_MAX: i64 = 32_767;

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
        Coding::Scaled(_) => [-known[0], known[0]],
        Coding::Ranks(lists) => {
            let most = lists.iter().map(Vec::len).max().unwrap_or(0);
            [0, i64::try_from(most).unwrap_or(i64::MAX)]
        }
        Coding::Tokens(count) => [0, i64::from(*count) - 1],
    };
    let mut intervals = Vec::with_capacity(known.len());
    intervals.push(input);
    for (node, magnitude) in known.into_iter().skip(1).enumerate() {
        let interval = interval(program, node, magnitude, &intervals);
        intervals.push(interval);
    }
    intervals
}

/// The least and greatest value of one node's output, given those of all tensors before it.
fn interval(program: &Program, node: usize, magnitude: i64, known: &[[i64; 2]]) -> [i64; 2] {
    let of = |id: &TensorId| known[id.index()];
    let hull = |a: [i64; 2], b: [i64; 2]| [a[0].min(b[0]), a[1].max(b[1])];
    match &program.nodes[node].op {
        Op::Requantise { how, .. } => how.outputs().map(i64::from),
        Op::Compare { .. } => [0, 1],
        Op::ArgMax { input }
        | Op::TopK {
            input,
            give: Ranked::Channels,
        } => [0, i64::from(program.shape(*input).channels) - 1],
        Op::Softmax { .. } => [0, magnitude],
        Op::Select { inputs, .. } | Op::Extremum { inputs, .. } => {
            hull(of(&inputs[0]), of(&inputs[1]))
        }
        Op::Reduce {
            input,
            reduction: Reduction::Greatest | Reduction::Least,
            ..
        }
        | Op::TopK { input, .. }
        | Op::MaxPool { input, .. }
        | Op::View { input, .. }
        | Op::Gather { input, .. } => of(input),
        Op::Pad { input, value, .. } => hull(of(input), [i64::from(*value); 2]),
        Op::Concat { inputs, .. } => {
            let all = inputs.iter().map(of);
            all.reduce(hull).unwrap_or([-magnitude, magnitude])
        }
        Op::Add {
            inputs,
            multipliers,
            bias,
        } => {
            let mut ends = [i64::from(*bias); 2];
            for (input, &factor) in inputs.iter().zip(multipliers) {
                let scaled = of(input).map(|end| end.saturating_mul(i64::from(factor)));
                ends[0] = ends[0].saturating_add(scaled[0].min(scaled[1]));
                ends[1] = ends[1].saturating_add(scaled[0].max(scaled[1]));
            }
            ends
        }
        _ => [-magnitude, magnitude],
    }
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
    let of = |id: &TensorId| known[id.index()];
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    match &program.nodes[node].op {
        Op::Conv { input, zero, .. } => count(program.reduction(node))
            .saturating_mul(i64::from(WEIGHT_MAX))
            .saturating_mul(of(input).max(i64::from(*zero).abs()))
            .saturating_add(i64::from(BIAS_MAX)),
        Op::Dense { input } => count(program.reduction(node))
            .saturating_mul(i64::from(WEIGHT_MAX))
            .saturating_mul(of(input))
            .saturating_add(i64::from(BIAS_MAX)),
        Op::MatMul { inputs, .. } => {
            row_sum(program, inputs[0], known).saturating_mul(of(&inputs[1]))
        }
        Op::Parameter | Op::Embed { .. } => i64::from(WEIGHT_MAX),
        Op::WindowSum { input, window } => count(window.positions()).saturating_mul(of(input)),
        Op::Add {
            inputs,
            multipliers,
            bias,
        } => inputs
            .iter()
            .zip(multipliers)
            .map(|(id, m)| of(id).saturating_mul(i64::from(*m).abs()))
            .fold(i64::from(*bias).abs(), i64::saturating_add),
        Op::Mul { inputs } => of(&inputs[0]).saturating_mul(of(&inputs[1])),
        Op::Requantise { how, .. } => {
            let ends = how.outputs().map(|value| i64::from(value).abs());
            ends[0].max(ends[1])
        }
        Op::Compare { .. } => 1,
        Op::Select { inputs, .. } | Op::Extremum { inputs, .. } => {
            of(&inputs[0]).max(of(&inputs[1]))
        }
        Op::Reduce {
            input,
            reduction: Reduction::Sum,
            axis,
        } => i64::from(program.shape(*input).axis(*axis)).saturating_mul(of(input)),
        Op::ArgMax { input }
        | Op::TopK {
            input,
            give: Ranked::Channels,
        } => i64::from(program.shape(*input).channels),
        Op::Softmax { .. } | Op::Norm { .. } => WIDE_ACTIVATION_MAX,
        Op::Reduce { input, .. }
        | Op::TopK { input, .. }
        | Op::MaxPool { input, .. }
        | Op::View { input, .. }
        | Op::Gather { input, .. } => of(input),
        Op::Pad { input, value, .. } => of(input).max(i64::from(*value).abs()),
        Op::Concat { inputs, .. } => inputs.iter().map(of).max().unwrap_or(0),
        Op::Trees { forest, .. } => forest.magnitude(),
    }
}

/// The greatest sum of absolute values over the channels of a pixel: a row of probabilities sums to about 1.
fn row_sum(program: &Program, tensor: TensorId, known: &[i64]) -> i64 {
    let channels = i64::from(program.shape(tensor).channels);
    let apart = channels.saturating_mul(known[tensor.index()]);
    let softmax = tensor
        .index()
        .checked_sub(1)
        .is_some_and(|node| matches!(program.nodes[node].op, Op::Softmax { .. }));
    if softmax {
        // Each of n quotients is rounded up by at most one half.
        apart.min(i64::from(PROBABILITY_ONE) + channels / 2 + 1)
    } else {
        apart
    }
}

/// Checks every node of a program, given the [`magnitudes`] of all tensors, and that the ranges its segment tables cover lie
/// within the field too (a segment is at most 2^16 wide).
///
/// # Errors
/// The first node that could leave the field.
pub(crate) fn check(program: &Program, known: &[i64]) -> Result<(), BoundError> {
    for (node, description) in program.nodes.iter().enumerate() {
        let mut bound = known[node + 1];
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
