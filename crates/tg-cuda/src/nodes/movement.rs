//! Operators that move elements.

use super::launches::{SLOTS, elements, int, operand, output, per_element};
use crate::plan::{Arguments, Planner};
use tg_ir::{Axis, TensorId, View};

/// Elements that are moved together, and the kernels' number for their width: as many as fit 16 bytes and divide every given
/// count and distance. Tensors start at multiples of 256 bytes.
fn together(kind: i32, counts: impl IntoIterator<Item = u64>) -> (u32, i32) {
    let divisor = counts.into_iter().fold(0, gcd);
    // A kind is the logarithm of its bytes.
    let widest = (kind..=4)
        .rev()
        .find(|wide| divisor.is_multiple_of(1 << (wide - kind)));
    let wide = widest.unwrap_or(kind);
    (1 << (wide - kind), wide)
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `struct ViewArguments`.
pub(super) fn view(planner: &mut Planner<'_>, node: usize, input: TensorId, how: &View) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    let last = how.axes.len().saturating_sub(1);
    // Runs along the last axis move together if everything else goes by whole runs.
    let is_run = how.axes.last().is_some_and(|axis| axis.stride == 1);
    let strides = how.axes[..last]
        .iter()
        .map(|axis| u64::from(axis.stride.unsigned_abs()));
    let size = how.axes.last().map_or(1, |axis| u64::from(axis.size));
    let counts = [size, u64::from(how.offset), u64::from(!is_run)];
    let (run, kind) = together(input.kind, strides.chain(counts));
    let count = out.shape.elements() / run as usize;
    let axes = int(how.axes.len());
    arguments.words(&[kind, int(count), int(how.offset / run), axes]);
    let axis = |slot: usize| how.axes.get(slot);
    let sizes: [i32; SLOTS] = std::array::from_fn(|slot| {
        axis(slot).map_or(1, |a| int(if slot == last { a.size / run } else { a.size }))
    });
    let strides: [i32; SLOTS] = std::array::from_fn(|slot| {
        let by = if slot == last { 1 } else { run.cast_signed() };
        axis(slot).map_or(0, |a| a.stride / by)
    });
    arguments.words(&sizes).words(&strides);
    planner.push(per_element(node, "tg_view", count, arguments));
}

/// `struct ConcatArguments`, once per input.
pub(super) fn concat(planner: &mut Planner<'_>, node: usize, inputs: &[TensorId], axis: Axis) {
    let out = output(planner, node);
    let inner = out.shape.stride(axis);
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
        int(out.shape.stride(axis)),
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
