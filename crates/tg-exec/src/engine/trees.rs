//! Sums of decision trees.

use super::context::Context;
use super::values::ValuesMut;
use tg_ir::op::Trees;

/// Adds the leaves that an input falls into.
pub(super) fn run(trees: &Trees, context: &Context<'_>, out: ValuesMut<'_>) {
    let Trees { input, forest } = trees;
    let ValuesMut::I32(out) = out else {
        unreachable!("trees give accumulators")
    };
    let values = context.reads.get(*input);
    out.copy_from_slice(&forest.bias);
    for tree in 0..forest.roots.len() {
        let leaf = forest.leaf(tree, |feature| values.at(feature));
        let leaf = &forest.leaves[leaf * out.len()..][..out.len()];
        for (sum, value) in out.iter_mut().zip(leaf) {
            *sum += value;
        }
    }
}
