//! The greatest channels of each pixel.

use super::launches::{int, operand, output, per_row};
use crate::plan::{Arguments, Planner};
use tg_ir::TensorId;
use tg_ir::op::Ranked;

/// `struct RankArguments`.
pub(super) fn rank(planner: &mut Planner<'_>, node: usize, input: TensorId, give: Ranked) {
    let input = operand(planner, input);
    let out = output(planner, node);
    let channels = input.shape.channels;
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    let gives_channels = i32::from(give == Ranked::Channels);
    arguments.words(&[
        input.kind,
        int(channels),
        int(out.shape.channels),
        gives_channels,
    ]);
    let rows = input.shape.pixels();
    planner.push(per_row(node, "tg_rank", rows, channels as usize, arguments));
}
