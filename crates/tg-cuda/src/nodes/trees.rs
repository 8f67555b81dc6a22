//! Decision trees.

use super::launches::{int, operand, output, per_element, per_row};
use crate::plan::{ALIGNMENT, Arguments, Planner};
use tg_ir::TensorId;
use tg_ir::forest::{Child, Forest};

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
