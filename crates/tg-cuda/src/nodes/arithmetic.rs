//! Weighted sums.

use super::launches::{Operand, SLOTS, elements, int, operand, output, per_element};
use crate::plan::{Arguments, Planner};
use tg_ir::TensorId;

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
