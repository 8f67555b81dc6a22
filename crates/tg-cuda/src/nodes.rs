//! Each operator as kernels with their arguments.
//!
//! The order of arguments is that of the C structure of the same name in `kernels/`.

mod arithmetic;
mod conv;
mod dense;
mod launches;
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

use super::plan::{Keep, NoKernel, Plan, Planner};
use arithmetic::add;
use conv::convolution;
use dense::dense;
use launches::weights;
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
use tg_ir::{CompiledModel, Op, TensorId};
use trees::trees;

impl Plan {
    /// Lays out a valid model for a device of a number of multiprocessors.
    ///
    /// # Errors
    /// If a node's operator has no kernel.
    pub(crate) fn of(
        model: &CompiledModel,
        keep: Keep,
        multiprocessors: u32,
    ) -> Result<Self, NoKernel> {
        let CompiledModel { program, weights } = model;
        let mut planner = Planner::new(program, weights, keep, multiprocessors);
        planner.reserve(TensorId::INPUT);
        for node in 0..program.nodes.len() {
            if planner.is_needed(node) {
                launch(&mut planner, node)?;
            }
            planner.release(node);
        }
        Ok(planner.finish())
    }
}

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
