//! Probabilities of rows of scores.

use super::launches::{int, operand, output, pair_word, per_row};
use crate::plan::{Arguments, Planner};
use tg_ir::TensorId;
use tg_ir::op::Softmax;

/// `SOFTMAX_KEPT`: elements that a thread reads once.
const KEPT: u32 = 8;

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
    // A thread keeps eight elements, so that few threads meet to sum them.
    let threads = shape.channels.div_ceil(KEPT) as usize;
    planner.push(per_row(
        node,
        "tg_softmax",
        shape.pixels(),
        threads,
        arguments,
    ));
}
