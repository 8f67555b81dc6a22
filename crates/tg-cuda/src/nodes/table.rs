//! Rows of tables of weights.

use super::launches::{elements, int, operand, output, per_element, weights};
use crate::plan::{Arguments, Planner};
use tg_ir::TensorId;

/// `struct EmbedArguments`.
pub(super) fn embed(planner: &mut Planner<'_>, node: usize, input: TensorId, rows: u32) {
    let list = weights(planner, node, 1, 1);
    let input = operand(planner, input);
    let out = output(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(Some(list));
    arguments.address(out.address);
    arguments.words(&[
        input.kind,
        int(rows),
        int(out.shape.channels),
        elements(out.shape),
    ]);
    planner.push(per_element(
        node,
        "tg_embed",
        out.shape.elements(),
        arguments,
    ));
}
