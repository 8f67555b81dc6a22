//! Operators over rows, and decision trees.

use super::{inner_of, int, operand, output, pair_word, per_element, per_row};
use crate::plan::{ALIGNMENT, Arguments, Planner};
use tg_ir::forest::{Child, Forest};
use tg_ir::op::{Norm, Ranked, Reduction, Softmax};
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
    let inner = inner_of(input.shape, axis);
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
    let inner = inner_of(input.shape, axis);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    arguments.words(&[input.kind, int(length), int(inner), int(lines)]);
    planner.push(per_element(node, "tg_running_sum", lines, arguments));
}

/// `struct RankArguments`.
pub(super) fn rank(planner: &mut Planner<'_>, node: usize, input: TensorId, give: Ranked) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let channels = input.shape.channels;
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    let gives_channels = i32::from(give == Ranked::Channels);
    arguments.words(&[
        input.kind,
        int(channels),
        int(out.shape.channels),
        gives_channels,
    ]);
    let rows = input.shape.pixels();
    planner.push(per_row(node, "tg_rank", rows, channels as usize, arguments));
}

/// `struct SoftmaxArguments`.
pub(super) fn softmax(planner: &mut Planner<'_>, node: usize, input: TensorId, how: &Softmax) {
    let Softmax {
        rescale,
        table,
        causal,
    } = how;
    let input = operand(planner, input);
    let entries = table.iter().flat_map(|entry| entry.to_ne_bytes());
    let list = planner.constant(entries);
    let out = output(planner, node);
    let shape = out.shape;
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(Some(list));
    arguments.address(out.address);
    arguments.words(&[
        input.kind,
        int(shape.channels),
        int(shape.width),
        int(table.len()),
        pair_word(*rescale).cast_signed(),
        // A greater offset masks nothing either.
        causal.map_or(-1, |offset| int(offset.min(shape.channels))),
    ]);
    let channels = shape.channels as usize;
    planner.push(per_row(
        node,
        "tg_softmax",
        shape.pixels(),
        channels,
        arguments,
    ));
}

/// `struct NormArguments`.
pub(super) fn norm(planner: &mut Planner<'_>, node: usize, input: TensorId, how: Norm) {
    let Norm {
        centred,
        epsilon,
        precision,
        fraction,
    } = how;
    let input = operand(planner, input);
    let out = output(planner, node);
    let shape = out.shape;
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    arguments.words(&[
        input.kind,
        int(shape.channels),
        i32::from(centred),
        i32::from(precision),
        i32::from(fraction),
        (epsilon as u32).cast_signed(),
        ((epsilon >> 32) as u32).cast_signed(),
    ]);
    let channels = shape.channels as usize;
    planner.push(per_row(
        node,
        "tg_norm",
        shape.pixels(),
        channels,
        arguments,
    ));
}

/// `struct LeafArguments`, then `struct TreeSumArguments`.
pub(super) fn trees(planner: &mut Planner<'_>, node: usize, input: TensorId, forest: &Forest) {
    const LEAF: u32 = 1 << 31;
    let word = |child: &Child| match *child {
        Child::Branch(index) => index,
        Child::Leaf(index) => index | LEAF,
    };
    let branches = forest.branches.iter().flat_map(|branch| {
        let head = u32::from(branch.feature) | u32::from(branch.threshold.cast_unsigned()) << 16;
        [head, word(&branch.below), word(&branch.above)].map(u32::to_le_bytes)
    });
    let branches = planner.constant(branches.flatten());
    let roots = forest
        .roots
        .iter()
        .flat_map(|root| word(root).to_le_bytes());
    let roots = planner.constant(roots);
    let numbers = |list: &[i32]| list.iter().flat_map(|value| value.to_le_bytes()).collect();
    let leaves: Vec<u8> = numbers(&forest.leaves);
    let leaves = planner.constant(leaves);
    let bias: Vec<u8> = numbers(&forest.bias);
    let bias = planner.constant(bias);
    let count = forest.roots.len();
    let input = operand(planner, input);
    let out = output(planner, node);
    let leaf_of = planner.scratch((4 * count).next_multiple_of(ALIGNMENT));
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(Some(branches));
    arguments.address(Some(roots)).address(Some(leaf_of));
    arguments.words(&[input.kind, int(count)]);
    planner.push(per_element(node, "tg_tree_leaves", count, arguments));
    let mut arguments = Arguments::default();
    arguments.address(Some(leaf_of)).address(Some(leaves));
    arguments.address(Some(bias)).address(out.address);
    arguments.words(&[int(count), int(forest.outputs())]);
    planner.push(per_row(
        node,
        "tg_tree_sums",
        forest.outputs(),
        count,
        arguments,
    ));
}
