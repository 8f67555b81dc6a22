//! Sums over channels: errors of what is summed that cancel each other are caught.
//!
//! The sum over a hypercube of b variables is 2^b times the extension at (1/2, ..., 1/2). Were the claim handed on at
//! that point, the accumulators before it would be bound there only, where opposite errors cancel; it is shown at a drawn
//! point instead.

use super::models::{Case, Draft, set, window};
use tg_ir::op::{self, Reduction};
use tg_ir::{Axis, Op, Shape, TensorId};
use tg_proof::error::NodeCheck;

/// A convolution, its requantisation and the sum of that over channels, or rows or columns.
fn summed(axis: Axis) -> Case {
    let mut draft = Draft::new(11, Shape::new(2, 3, 3));
    let shape = Shape::new(2, 3, 4);
    let sums = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), shape);
    let input = draft.requantise(sums, 22, [-128, 127]);
    let op = Op::Reduce(op::Reduce {
        input,
        reduction: Reduction::Sum,
        axis,
    });
    draft.push(op, shape.with_axis(axis, 1));
    Case::of(draft.finish())
}

#[test]
fn errors_that_cancel_in_a_sum_are_caught() {
    // The elements of the accumulators that one sum adds up: neighbours along its axis.
    for (axis, pair) in [
        (Axis::Channels, [0, 1]),
        (Axis::Columns, [0, 4]),
        (Axis::Rows, [0, 12]),
    ] {
        let case = summed(axis);
        assert_eq!(case.check(&case.file), Ok(()));
        let honest = case.trace.tensors()[1].widened();
        for change in [1, -77, 5_000, 100_000] {
            let mut tensors = case.trace.tensors().to_vec();
            set(&mut tensors[1], pair[0], honest[pair[0]] + change);
            set(&mut tensors[1], pair[1], honest[pair[1]] - change);
            case.recompute(&mut tensors, 1);
            let witness = case.witness_of(&tensors).unwrap();
            let verdict = case.verdict(&tensors, &witness);
            let caught = case.failed(0, NodeCheck::Products);
            assert_eq!(verdict, caught, "{axis:?} by {change}");
        }
    }
}
