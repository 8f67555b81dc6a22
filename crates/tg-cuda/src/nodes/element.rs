//! Operators element by element, and pooling.

use super::linear::finish_words;
use super::{Operand, SLOTS, elements, int, operand, output, per_element, weights, window_words};
use crate::plan::{Arguments, Planner};
use tg_ir::{Requantise, TensorId, Window};

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

/// `struct AddArguments`.
pub(super) fn add(
    planner: &mut Planner<'_>,
    node: usize,
    inputs: &[TensorId],
    multipliers: &[i32],
    bias: i32,
) {
    let inputs: Vec<Operand> = inputs.iter().map(|&id| operand(planner, id)).collect();
    let out = output(planner, node);
    let mut arguments = Arguments::default();
    for slot in 0..SLOTS {
        arguments.address(inputs.get(slot).and_then(|input| input.address));
    }
    arguments.address(out.address);
    let of = |slot: usize| inputs.get(slot).map_or(0, |input| input.kind);
    let kinds: [i32; SLOTS] = std::array::from_fn(of);
    let factors: [i32; SLOTS] =
        std::array::from_fn(|slot| multipliers.get(slot).copied().unwrap_or(0));
    arguments.words(&kinds).words(&factors);
    arguments.words(&[int(inputs.len()), bias, elements(out.shape)]);
    planner.push(per_element(node, "tg_add", out.shape.elements(), arguments));
}

/// `struct RequantiseArguments`.
pub(super) fn requantise(
    planner: &mut Planner<'_>,
    node: usize,
    input: TensorId,
    how: &Requantise,
) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let shape = out.shape;
    let mut arguments = Arguments::default();
    arguments.address(input.address);
    finish_words(planner, &mut arguments, None, Some((out, how)));
    arguments.words(&[input.kind, int(shape.channels), elements(shape)]);
    planner.push(per_element(
        node,
        "tg_requantise",
        shape.elements(),
        arguments,
    ));
}

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

/// `struct PoolArguments`.
pub(super) fn pool(
    planner: &mut Planner<'_>,
    node: usize,
    input: TensorId,
    window: &Window,
    is_sum: bool,
) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    arguments.words(&[
        input.kind,
        i32::from(is_sum),
        int(out.shape.width),
        elements(out.shape),
    ]);
    arguments.words(&window_words(window, input.shape));
    planner.push(per_element(
        node,
        "tg_pool",
        out.shape.elements(),
        arguments,
    ));
}
