//! Normalised rows.

use super::launches::{int, operand, output, per_row};
use crate::plan::{Arguments, Planner};
use tg_ir::TensorId;
use tg_ir::op::Norm;

/// `struct NormArguments`.
pub(super) fn norm(planner: &mut Planner<'_>, node: usize, input: TensorId, how: Norm) {
    let Norm {
        centred,
        epsilon,
        precision,
        fraction,
    } = how;
    let input = operand(planner, input);
    let out = output(planner, node);
    let shape = out.shape;
    let mut arguments = Arguments::default();
    arguments.address(input.address).address(out.address);
    arguments.words(&[
        input.kind,
        int(shape.channels),
        i32::from(centred),
        i32::from(precision),
        i32::from(fraction),
        (epsilon as u32).cast_signed(),
        ((epsilon >> 32) as u32).cast_signed(),
    ]);
    let channels = shape.channels as usize;
    planner.push(per_row(
        node,
        "tg_norm",
        shape.pixels(),
        channels,
        arguments,
    ));
}
