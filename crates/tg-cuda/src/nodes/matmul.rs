//! Products of matrices.

use super::launches::operand;
use super::linear::{Gemm, RUN, gemm};
use crate::plan::Planner;
use tg_ir::TensorId;

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
        b_wide: if transposed {
            is_wide
        } else {
            columns.is_multiple_of(RUN)
        },
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
