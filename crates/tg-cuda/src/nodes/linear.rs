//! Matrix products: convolutions, dense layers, batches of matrices, with the requantisation that reads them.

use super::{ELEMENT_THREADS, elements, int, window_words};
use super::{Operand, bias, kind_of, narrow, operand, output, pair_word, per_element, weights};
use crate::plan::{Address, Arguments, Launch, Planner};
use tg_ir::op;
use tg_ir::{ElementType, Op, Requantise, TensorId, Window};

/// Most blocks along the third axis of a grid.
const GRID_DEPTH_MAX: u32 = 65_535;
/// Groups of fewer outputs are computed without tiles.
const TILED_OUTPUTS_MIN: u32 = 8;
/// Elements that kernels read at once.
const RUN: u32 = 16;

/// `struct Finish`: a requantisation to `out` with the sums to `sums`.
pub(super) fn finish_words(
    planner: &mut Planner<'_>,
    arguments: &mut Arguments,
    sums: Option<Address>,
    requantised: Option<(Operand, &Requantise)>,
) {
    let Some((out, how)) = requantised else {
        let none = [None, sums, None, None];
        none.into_iter().for_each(|address| {
            arguments.address(address);
        });
        arguments.words(&[0; 6]);
        return;
    };
    let pairs = how.channel_pairs.iter();
    let words = pairs.map(|&pair| pair_word(how.pairs[usize::from(pair)]));
    let pairs = planner.constant(words.flat_map(u32::to_ne_bytes));
    let table = how.table.as_ref().map(|table| {
        let entries = table.iter().flat_map(|entry| entry.to_ne_bytes());
        planner.constant(entries)
    });
    arguments.address(out.address).address(sums);
    arguments.address(Some(pairs)).address(table);
    arguments.words(&[
        i32::from(how.channel_pairs.len() == 1),
        i32::from(how.zero),
        i32::from(how.clamp[0]),
        i32::from(how.clamp[1]),
        out.kind,
        0,
    ]);
}

/// `struct Finish` of a linear node, with the requantisation that reads it if there is one.
fn finish_of(planner: &mut Planner<'_>, arguments: &mut Arguments, node: usize) {
    let (fused, keeps_sums) = planner.fuse(node);
    let sums = keeps_sums.then(|| planner.reserve(TensorId::of_node(node)));
    let program = planner.program;
    let requantised = fused.and_then(|fused| match &program.nodes[fused].op {
        Op::Requantise(op::Unary { how, .. }) => Some((output(planner, fused), how)),
        _ => None,
    });
    finish_words(planner, arguments, sums, requantised);
}

/// The sizes of a matrix product: `struct GemmArguments` after `finish`.
struct Gemm {
    rows: u32,
    columns: u32,
    depth: u32,
    batches: u32,
    a_row: u32,
    a_batch: u32,
    a_wide: bool,
    a_fill: i16,
    b_kind: i32,
    b_row: u32,
    b_batch: u32,
    b_wide: bool,
    b_repeat: u32,
    b_across: bool,
    out_row: u32,
    out_batch: u32,
    channel_batch: u32,
    out_width: u32,
    group_channels: u32,
    window: Option<[i32; 13]>,
}

fn gemm(
    planner: &mut Planner<'_>,
    node: usize,
    a: &Operand,
    b: Option<Address>,
    bias: Option<Address>,
    sizes: &Gemm,
) {
    let mut arguments = Arguments::default();
    arguments.address(a.address).address(b).address(bias);
    finish_of(planner, &mut arguments, node);
    arguments.words(&[
        int(sizes.rows),
        int(sizes.columns),
        int(sizes.depth),
        int(sizes.batches),
        a.kind,
        int(sizes.a_row),
        int(sizes.a_batch),
        i32::from(sizes.a_wide),
        i32::from(sizes.a_fill),
        sizes.b_kind,
        int(sizes.b_row),
        int(sizes.b_batch),
        i32::from(sizes.b_wide),
        int(sizes.b_repeat),
        i32::from(sizes.b_across),
        int(sizes.out_row),
        int(sizes.out_batch),
        int(sizes.channel_batch),
        int(sizes.out_width),
        i32::from(sizes.window.is_some()),
        int(sizes.group_channels),
    ]);
    arguments.words(&sizes.window.unwrap_or([0; 13]));
    let batches = sizes.batches.min(GRID_DEPTH_MAX);
    let blocks = |side: u32| {
        [
            sizes.rows.div_ceil(side),
            sizes.columns.div_ceil(side),
            batches,
        ]
    };
    let large = blocks(128);
    let fills = large.iter().map(|&count| u64::from(count)).product::<u64>()
        >= u64::from(planner.multiprocessors);
    let (kernel, grid, threads) = if !(sizes.a_wide && sizes.b_wide) {
        ("tg_gemm_gather", blocks(64), 128)
    } else if fills {
        ("tg_gemm_large", large, 256)
    } else {
        ("tg_gemm_small", blocks(64), 128)
    };
    planner.push(Launch {
        node,
        kernel,
        grid,
        threads,
        arguments,
    });
}

pub(super) fn convolution(planner: &mut Planner<'_>, node: usize) {
    let description = &planner.program.nodes[node];
    let Op::Conv(op::Conv {
        input,
        window,
        groups,
        zero,
    }) = &description.op
    else {
        return;
    };
    let (input, out, groups) = (operand(planner, *input), description.shape, *groups);
    let is_point = window.positions() == 1 && window.pads == [0; 4];
    if groups == 1 && is_point && input.shape.pixels() == 1 {
        return vector_product(planner, node, &input);
    }
    let channels = input.shape.channels / groups;
    let outputs = out.channels / groups;
    if groups > 1 && outputs < TILED_OUTPUTS_MIN {
        return direct(planner, node, &input, window, groups, *zero);
    }
    let depth = narrow(window.positions()) * channels;
    let padded = depth.next_multiple_of(RUN);
    let b = weights(planner, node, depth as usize, RUN as usize);
    let bias = bias(planner, node);
    let is_matrix = is_point && window.stride == [1; 2] && window.spread == [1; 2];
    let sizes = Gemm {
        rows: narrow(out.pixels()),
        columns: outputs,
        depth,
        batches: groups,
        a_row: input.shape.channels,
        a_batch: channels,
        a_wide: channels.is_multiple_of(RUN),
        a_fill: *zero,
        b_kind: kind_of(ElementType::I8),
        b_row: padded,
        b_batch: outputs * padded,
        b_wide: true,
        b_repeat: 1,
        b_across: false,
        out_row: out.channels,
        out_batch: outputs,
        channel_batch: outputs,
        out_width: out.width,
        group_channels: channels,
        window: (!is_matrix).then(|| window_words(window, input.shape)),
    };
    gemm(planner, node, &input, Some(b), Some(bias), &sizes);
}

/// `struct DirectArguments`.
fn direct(
    planner: &mut Planner<'_>,
    node: usize,
    input: &Operand,
    window: &Window,
    groups: u32,
    zero: i16,
) {
    let out = planner.program.nodes[node].shape;
    let list = weights(planner, node, 1, 1);
    let bias = bias(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(Some(list));
    arguments.address(Some(bias));
    finish_of(planner, &mut arguments, node);
    arguments.words(&[
        input.kind,
        i32::from(zero),
        int(input.shape.channels / groups),
        int(out.channels / groups),
        int(out.channels),
        int(out.width),
        elements(out),
    ]);
    arguments.words(&window_words(window, input.shape));
    planner.push(per_element(
        node,
        "tg_conv_direct",
        out.elements(),
        arguments,
    ));
}

pub(super) fn dense(planner: &mut Planner<'_>, node: usize, input: TensorId) {
    let input = operand(planner, input);
    vector_product(planner, node, &input);
}

/// `struct DenseArguments`.
fn vector_product(planner: &mut Planner<'_>, node: usize, input: &Operand) {
    const WARPS: u32 = ELEMENT_THREADS / 32;
    let outputs = planner.program.nodes[node].shape.channels;
    let depth = input.shape.elements();
    let list = weights(planner, node, depth, RUN as usize);
    let bias = bias(planner, node);
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(Some(list));
    arguments.address(Some(bias));
    finish_of(planner, &mut arguments, node);
    let row = depth.next_multiple_of(RUN as usize);
    arguments.words(&[input.kind, int(depth), int(row), int(outputs)]);
    planner.push(Launch {
        node,
        kernel: "tg_dense",
        grid: [outputs.div_ceil(WARPS), 1, 1],
        threads: ELEMENT_THREADS,
        arguments,
    });
}

pub(super) fn matrices(
    planner: &mut Planner<'_>,
    node: usize,
    inputs: [TensorId; 2],
    transposed: bool,
) {
    let [left, right] = inputs.map(|input| operand(planner, input));
    let (a, b) = (left.shape, right.shape);
    let depth = a.channels;
    let columns = planner.program.nodes[node].shape.channels;
    let is_wide = depth.is_multiple_of(RUN);
    let sizes = Gemm {
        rows: a.width,
        columns,
        depth,
        batches: a.height,
        a_row: depth,
        a_batch: a.width * depth,
        a_wide: is_wide,
        a_fill: 0,
        b_kind: right.kind,
        b_row: b.channels,
        b_batch: b.width * b.channels,
        b_wide: transposed && is_wide,
        b_repeat: a.height / b.height,
        b_across: !transposed,
        out_row: columns,
        out_batch: a.width * columns,
        channel_batch: 0,
        out_width: 1,
        group_channels: 1,
        window: None,
    };
    gemm(planner, node, &left, right.address, None, &sizes);
}
