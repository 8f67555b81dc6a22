//! Dense layers.

use super::launches::{ELEMENT_THREADS, int};
use super::launches::{Operand, bias, operand, weights};
use super::linear::{RUN, finish_of};
use crate::plan::{Arguments, Launch, Planner};
use tg_ir::TensorId;

pub(super) fn dense(planner: &mut Planner<'_>, node: usize, input: TensorId) {
    let input = operand(planner, input);
    vector_product(planner, node, &input);
}

/// `struct DenseArguments`.
pub(super) fn vector_product(planner: &mut Planner<'_>, node: usize, input: &Operand) {
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
