//! The meaning of each operator, one output element at a time.
//!
//! This is what a dispute re-executes and what every fast executor is compared with. It is written to be read, not
//! to be fast. What each operator computes stands in its file of [`crate::op`].

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
    let Node { op, shape, .. } = &program.nodes[node];
    let reads = Reads {
        tensors: program,
        values: tensors,
        output: *shape,
        layer: weights.of_node(program, node),
    };
    let value = op.operator().element(&reads, Place::of(*shape, element));
    i32::try_from(value).expect("the program's bounds keep every value in 32 bits")
}
