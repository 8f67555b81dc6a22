//! Two tensors element by element: products, extremes, relations, selections.

use super::launches::{elements, operand, output, per_element};
use crate::plan::{Arguments, Planner};
use tg_ir::TensorId;

/// `struct PairwiseArguments`; operations count as in `element.cu`.
pub(super) fn pairwise(
    planner: &mut Planner<'_>,
    node: usize,
    condition: Option<TensorId>,
    inputs: [TensorId; 2],
    operation: i32,
) {
    let condition = condition.and_then(|id| planner.address(id));
    let [first, second] = inputs.map(|id| operand(planner, id));
    let out = output(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(condition).address(first.address);
    arguments.address(second.address).address(out.address);
    let kinds = [first.kind, second.kind, out.kind];
    arguments.words(&[operation]).words(&kinds);
    arguments.words(&[elements(out.shape)]);
    planner.push(per_element(
        node,
        "tg_pairwise",
        out.shape.elements(),
        arguments,
    ));
}
