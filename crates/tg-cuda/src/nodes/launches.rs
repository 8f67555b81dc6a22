//! What launches are made of: operands, counts, blocks, and the words of C structures.

use crate::plan::{Address, Arguments, Launch, Planner};
use tg_ir::{ElementType, Rescale, Shape, TensorId, Window};

/// Threads of a block that computes one element per thread.
pub(super) const ELEMENT_THREADS: u32 = 256;
/// Most threads of a block that reduces a row.
pub(super) const ROW_THREADS: u32 = 256;
/// Terms and axes that the C structures hold.
pub(super) const SLOTS: usize = 8;

/// A tensor's address, type and shape.
pub(super) struct Operand {
    pub(super) address: Option<Address>,
    pub(super) kind: i32,
    pub(super) shape: Shape,
}

pub(super) fn kind_of(kind: ElementType) -> i32 {
    match kind {
        ElementType::I8 => 0,
        ElementType::I16 => 1,
        ElementType::I32 => 2,
    }
}

pub(super) fn operand(planner: &Planner<'_>, tensor: TensorId) -> Operand {
    Operand {
        address: planner.address(tensor),
        kind: kind_of(planner.program.element_type(tensor)),
        shape: planner.program.shape(tensor),
    }
}

/// Memory for a node's output.
pub(super) fn output(planner: &mut Planner<'_>, node: usize) -> Operand {
    let tensor = TensorId::of_node(node);
    planner.reserve(tensor);
    operand(planner, tensor)
}

/// A count that fits 31 bits: axes, elements and weights of a valid program do.
pub(super) fn int(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}

pub(super) fn elements(shape: Shape) -> i32 {
    int(shape.elements())
}

/// A count of a valid program, which fits 32 bits.
pub(super) fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

pub(super) fn per_element(
    node: usize,
    kernel: &'static str,
    count: usize,
    arguments: Arguments,
) -> Launch {
    let blocks = count.div_ceil(ELEMENT_THREADS as usize);
    Launch {
        node,
        kernel,
        grid: [narrow(blocks), 1, 1],
        threads: ELEMENT_THREADS,
        arguments,
    }
}

/// One block per row of `length` elements.
pub(super) fn per_row(
    node: usize,
    kernel: &'static str,
    rows: usize,
    length: usize,
    arguments: Arguments,
) -> Launch {
    let threads = length.clamp(32, ROW_THREADS as usize).next_power_of_two();
    Launch {
        node,
        kernel,
        grid: [narrow(rows), 1, 1],
        threads: narrow(threads),
        arguments,
    }
}

/// The weights of a node in rows of `depth` bytes, padded with zeros to multiples of `run`.
pub(super) fn weights(planner: &mut Planner<'_>, node: usize, depth: usize, run: usize) -> Address {
    let layer = planner.weights.of_node(planner.program, node);
    let list = layer.map_or(&[][..], |layer| layer.weights);
    let padding = depth.next_multiple_of(run) - depth;
    let rows = list.chunks(depth.max(1)).flat_map(move |row| {
        let bytes = row.iter().map(|weight| weight.cast_unsigned());
        bytes.chain(std::iter::repeat_n(0, padding))
    });
    planner.constant(rows)
}

pub(super) fn bias(planner: &mut Planner<'_>, node: usize) -> Address {
    let layer = planner.weights.of_node(planner.program, node);
    let list = layer.map_or(&[][..], |layer| layer.bias);
    planner.constant(list.iter().flat_map(|value| value.to_ne_bytes()))
}

/// `struct Window`.
pub(super) fn window_words(window: &Window, input: Shape) -> [i32; 13] {
    let Window {
        kernel,
        stride,
        pads,
        dilation,
        spread,
    } = *window;
    [
        input.height,
        input.width,
        input.channels,
        kernel[0],
        kernel[1],
        stride[0],
        stride[1],
        pads[0],
        pads[1],
        dilation[0],
        dilation[1],
        spread[0],
        spread[1],
    ]
    .map(u32::cast_signed)
}

pub(super) fn pair_word(rescale: Rescale) -> u32 {
    rescale.multiplier() | rescale.shift() << 16
}
