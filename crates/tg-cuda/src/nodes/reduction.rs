//! Reductions and running sums along an axis.

use super::launches::{int, operand, output, per_element, per_row};
use crate::plan::{Arguments, Planner};
use tg_ir::op::Reduction;
use tg_ir::{Axis, TensorId};

/// `struct ReduceArguments`.
pub(super) fn reduce(
    planner: &mut Planner<'_>,
    node: usize,
    input: TensorId,
    reduction: Reduction,
    axis: Axis,
) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let operation = match reduction {
        Reduction::Sum => 0,
        Reduction::Greatest => 1,
        Reduction::Least => 2,
    };
    let length = input.shape.axis(axis) as usize;
    let count = out.shape.elements();
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    let inner = input.shape.stride(axis);
    arguments.words(&[input.kind, operation, int(length), int(inner), int(count)]);
    planner.push(match axis {
        Axis::Channels => per_row(node, "tg_reduce_row", count, length, arguments),
        Axis::Rows | Axis::Columns => per_element(node, "tg_reduce", count, arguments),
    });
}

/// `struct RunningSumArguments`.
pub(super) fn running_sum(planner: &mut Planner<'_>, node: usize, input: TensorId, axis: Axis) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let length = input.shape.axis(axis) as usize;
    let lines = out.shape.elements() / length;
    let inner = input.shape.stride(axis);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    arguments.words(&[input.kind, int(length), int(inner), int(lines)]);
    planner.push(per_element(node, "tg_running_sum", lines, arguments));
}
