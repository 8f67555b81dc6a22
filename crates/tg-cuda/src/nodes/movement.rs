//! Operators that move elements.

use super::launches::{SLOTS, elements, inner_of, int, operand, output, per_element};
use crate::plan::{Arguments, Planner};
use tg_ir::{Axis, TensorId, View};

/// `struct ViewArguments`.
pub(super) fn view(planner: &mut Planner<'_>, node: usize, input: TensorId, how: &View) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    let axes = int(how.axes.len());
    arguments.words(&[input.kind, elements(out.shape), int(how.offset), axes]);
    let axis = |slot: usize| how.axes.get(slot);
    let sizes: [i32; SLOTS] = std::array::from_fn(|slot| axis(slot).map_or(1, |a| int(a.size)));
    let strides: [i32; SLOTS] = std::array::from_fn(|slot| axis(slot).map_or(0, |a| a.stride));
    arguments.words(&sizes).words(&strides);
    planner.push(per_element(
        node,
        "tg_view",
        out.shape.elements(),
        arguments,
    ));
}

/// `struct ConcatArguments`, once per input.
pub(super) fn concat(planner: &mut Planner<'_>, node: usize, inputs: &[TensorId], axis: Axis) {
    let out = output(planner, node);
    let inner = inner_of(out.shape, axis);
    let mut before = 0;
    for &input in inputs {
        let input = operand(planner, input);
        let count = input.shape.elements();
        let length = input.shape.axis(axis) as usize;
        let mut arguments = Arguments::default();
        arguments.address(input.address).address(out.address);
        arguments.words(&[
            input.kind,
            int(count),
            int(length * inner),
            int(out.shape.axis(axis) as usize * inner),
            int(before * inner),
        ]);
        planner.push(per_element(node, "tg_concat", count, arguments));
        before += length;
    }
}

/// `struct PadArguments`.
pub(super) fn pad(
    planner: &mut Planner<'_>,
    node: usize,
    input: TensorId,
    before: [u32; 3],
    value: i16,
) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    arguments.words(&[
        input.kind,
        elements(out.shape),
        i32::from(value),
        int(out.shape.width),
        int(out.shape.channels),
        int(input.shape.height),
        int(input.shape.width),
        int(input.shape.channels),
    ]);
    arguments.words(&before.map(u32::cast_signed));
    planner.push(per_element(node, "tg_pad", out.shape.elements(), arguments));
}

/// `struct GatherArguments`.
pub(super) fn gather(
    planner: &mut Planner<'_>,
    node: usize,
    input: TensorId,
    axis: Axis,
    indices: &[u32],
) {
    let input = operand(planner, input);
    let list = planner.constant(indices.iter().flat_map(|index| index.to_ne_bytes()));
    let out = output(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(Some(list));
    arguments.address(out.address);
    arguments.words(&[
        input.kind,
        elements(out.shape),
        int(inner_of(out.shape, axis)),
        int(out.shape.axis(axis)),
        int(input.shape.axis(axis)),
    ]);
    planner.push(per_element(
        node,
        "tg_gather",
        out.shape.elements(),
        arguments,
    ));
}
