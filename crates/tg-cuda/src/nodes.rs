//! Each operator as kernels with their arguments.
//!
//! The order of arguments is that of the C structure of the same name in `kernels/`.

mod arithmetic;
mod conv;
mod dense;
mod linear;
mod matmul;
mod movement;
mod norm;
mod pairwise;
mod pool;
mod ranking;
mod reduction;
mod requantise;
mod softmax;
mod table;
mod trees;

use super::plan::{Address, Arguments, Launch, NoKernel, Planner};
use arithmetic::add;
use conv::convolution;
use dense::dense;
use matmul::matrices;
use movement::{concat, gather, pad, view};
use norm::norm;
use pairwise::pairwise;
use pool::pool;
use ranking::rank;
use reduction::{reduce, running_sum};
use requantise::requantise;
use softmax::softmax;
use table::embed;
use tg_ir::op::{self, Extreme, Ranked, Relation};
use tg_ir::{Axis, ElementType, Op, Rescale, Shape, TensorId, Window};
use trees::trees;

/// Threads of a block that computes one element per thread.
const ELEMENT_THREADS: u32 = 256;
/// Most threads of a block that reduces a row.
const ROW_THREADS: u32 = 256;
/// Terms and axes that the C structures hold.
const SLOTS: usize = 8;

/// Adds the kernels of one node to a plan.
///
/// # Errors
/// If its operator has no kernel; every operator of today has one. An operator without returns [`NoKernel`] here until
/// it has: programs with it then run on the CPU, and say so.
pub(crate) fn launch(planner: &mut Planner<'_>, node: usize) -> Result<(), NoKernel> {
    let program = planner.program;
    match &program.nodes[node].op {
        Op::Conv(_) => convolution(planner, node),
        Op::Dense(op::Dense { input }) => dense(planner, node, *input),
        Op::MatMul(op::MatMul { inputs, transposed }) => {
            matrices(planner, node, *inputs, *transposed)
        }
        Op::Parameter(op::Parameter) => {
            let address = weights(planner, node, 1, 1);
            planner.place(node, address);
        }
        Op::Embed(op::Embed { input, rows }) => embed(planner, node, *input, *rows),
        Op::Add(op::Add {
            inputs,
            multipliers,
            bias,
        }) => add(planner, node, inputs, multipliers, *bias),
        Op::Requantise(op::Unary { input, how }) => requantise(planner, node, *input, how),
        Op::Mul(op::Mul { inputs }) => pairwise(planner, node, None, *inputs, 0),
        Op::Extremum(op::Extremum { inputs, which }) => {
            let operation = match which {
                Extreme::Greater => 1,
                Extreme::Lesser => 2,
            };
            pairwise(planner, node, None, *inputs, operation);
        }
        Op::Compare(op::Compare { inputs, relation }) => {
            let operation = match relation {
                Relation::Equal => 3,
                Relation::Greater => 4,
                Relation::GreaterOrEqual => 5,
            };
            pairwise(planner, node, None, *inputs, operation);
        }
        Op::Select(op::Select { condition, inputs }) => {
            pairwise(planner, node, Some(*condition), *inputs, 6)
        }
        Op::WindowSum(op::WindowSum { input, window }) => pool(planner, node, *input, window, true),
        Op::MaxPool(op::MaxPool { input, window }) => pool(planner, node, *input, window, false),
        Op::Reduce(op::Reduce {
            input,
            reduction,
            axis,
        }) => reduce(planner, node, *input, *reduction, *axis),
        Op::RunningSum(op::RunningSum { input, axis }) => running_sum(planner, node, *input, *axis),
        Op::ArgMax(op::ArgMax { input }) => rank(planner, node, *input, Ranked::Channels),
        Op::TopK(op::TopK { input, give }) => rank(planner, node, *input, *give),
        Op::Softmax(op::Unary { input, how }) => softmax(planner, node, *input, how),
        Op::Norm(op::Unary { input, how }) => norm(planner, node, *input, *how),
        Op::View(op::Unary { input, how }) => view(planner, node, *input, how),
        Op::Concat(op::Concat { inputs, axis }) => concat(planner, node, inputs, *axis),
        Op::Pad(op::Pad {
            input,
            before,
            value,
            ..
        }) => pad(planner, node, *input, *before, *value),
        Op::Gather(op::Gather {
            input,
            axis,
            indices,
        }) => gather(planner, node, *input, *axis, indices),
        Op::Trees(op::Trees { input, forest }) => trees(planner, node, *input, forest),
    }
    Ok(())
}

/// A tensor's address, type and shape.
struct Operand {
    address: Option<Address>,
    kind: i32,
    shape: Shape,
}

fn kind_of(kind: ElementType) -> i32 {
    match kind {
        ElementType::I8 => 0,
        ElementType::I16 => 1,
        ElementType::I32 => 2,
    }
}

fn operand(planner: &Planner<'_>, tensor: TensorId) -> Operand {
    Operand {
        address: planner.address(tensor),
        kind: kind_of(planner.program.element_type(tensor)),
        shape: planner.program.shape(tensor),
    }
}

/// Memory for a node's output.
fn output(planner: &mut Planner<'_>, node: usize) -> Operand {
    let tensor = TensorId::of_node(node);
    planner.reserve(tensor);
    operand(planner, tensor)
}

/// A count that fits 31 bits: axes, elements and weights of a valid program do.
fn int(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}

fn elements(shape: Shape) -> i32 {
    int(shape.elements())
}

/// A count of a valid program, which fits 32 bits.
fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn per_element(node: usize, kernel: &'static str, count: usize, arguments: Arguments) -> Launch {
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
fn per_row(
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
fn weights(planner: &mut Planner<'_>, node: usize, depth: usize, run: usize) -> Address {
    let layer = planner.weights.of_node(planner.program, node);
    let list = layer.map_or(&[][..], |layer| layer.weights);
    let padding = depth.next_multiple_of(run) - depth;
    let rows = list.chunks(depth.max(1)).flat_map(move |row| {
        let bytes = row.iter().map(|weight| weight.cast_unsigned());
        bytes.chain(std::iter::repeat_n(0, padding))
    });
    planner.constant(rows)
}

fn bias(planner: &mut Planner<'_>, node: usize) -> Address {
    let layer = planner.weights.of_node(planner.program, node);
    let list = layer.map_or(&[][..], |layer| layer.bias);
    planner.constant(list.iter().flat_map(|value| value.to_ne_bytes()))
}

/// `struct Window`.
fn window_words(window: &Window, input: Shape) -> [i32; 13] {
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

fn pair_word(rescale: Rescale) -> u32 {
    rescale.multiplier() | rescale.shift() << 16
}

/// Elements from one index of an axis to the next.
fn inner_of(shape: Shape, axis: Axis) -> usize {
    match axis {
        Axis::Rows => shape.width as usize * shape.channels as usize,
        Axis::Columns => shape.channels as usize,
        Axis::Channels => 1,
    }
}
