//! Convolutions.

use super::dense::vector_product;
use super::launches::{Operand, bias, kind_of, narrow, operand, per_element, weights};
use super::launches::{elements, int, window_words};
use super::linear::{Gemm, RUN, TILED_OUTPUTS_MIN, finish_of, gemm};
use crate::plan::{Arguments, Planner};
use tg_ir::op;
use tg_ir::{ElementType, Op, Window};

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
