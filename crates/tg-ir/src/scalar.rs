//! The meaning of each operator, one output element at a time.
//!
//! This is what a dispute re-executes and what every fast executor is compared with. It is written to be read, not
//! to be fast. What each operator computes stands in its file of [`crate::op`].

use std::ops::Range;

pub use crate::op::element::ElementValues;
use crate::op::element::{Place, Reads};
use crate::program::{Node, Program};
use crate::weights::Weights;

/// The tensors of an execution, widened to 32 bits; index 0 is the input.
pub type Tensors = [Vec<i32>];

/// The value of one output element of a node.
///
/// `element` counts in storage order (row, column, channel). `tensors` holds every tensor the node reads.
///
/// # Panics
/// If the program is not valid, the weights are not its own, or a tensor is missing.
#[must_use]
pub fn element(
    program: &Program,
    weights: &Weights,
    node: usize,
    element: usize,
    tensors: &Tensors,
) -> i32 {
    let one = element..element + 1;
    let value = elements(program, weights, node, one, &tensors).next();
    i32::try_from(value.expect("one value"))
        .expect("the program's bounds keep every value in 32 bits")
}

/// The values of some output elements of a node, in storage order. Of values that no execution gives they may leave 32 bits.
///
/// # Panics
/// If the program is not valid, the weights are not its own, or there is no such element.
pub fn elements<'a>(
    program: &'a Program,
    weights: &'a Weights,
    node: usize,
    elements: Range<usize>,
    values: &'a dyn ElementValues,
) -> impl Iterator<Item = i64> + 'a {
    let Node { op, shape, .. } = &program.nodes[node];
    let reads = Reads {
        tensors: program,
        values,
        output: *shape,
        layer: weights.of_node(program, node),
    };
    let operator = op.operator();
    elements.map(move |element| operator.element(&reads, Place::of(*shape, element)))
}
