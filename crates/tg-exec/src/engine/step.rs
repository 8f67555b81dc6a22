//! What one step of an engine computes.

use super::arithmetic::{Product, Weighted};
use super::comparison::Combine;
use super::context::{Context, Finish};
use super::conv::Convolution;
use super::dense::Dense;
use super::matmul::Matrices;
use super::movement::{Joined, Moved, Padded, Picked};
use super::norm::Normalised;
use super::pool::{MaxPool, WindowSum};
use super::ranking::Greatest;
use super::reduction::{Reduced, Running};
use super::requantise::{Mapped, Requantised};
use super::softmax::Probabilities;
use super::table::Embedded;
use super::values::{Place, Values, ValuesMut};
use crate::kernels::{Cpu, Requantiser};
use tg_ir::op::{self, Ranked};
use tg_ir::{CompiledModel, Node, Op};

/// One computation and where its result goes.
#[derive(Debug)]
pub(super) struct Step {
    pub kernel: Kernel,
    pub output: Place,
}

impl Step {
    pub(super) fn run(&mut self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        self.kernel.run(context, out);
    }
}

/// A node, or two fused ones, made ready.
#[derive(Debug)]
pub(super) enum Kernel {
    Convolution(Box<Convolution>),
    Dense(Box<Dense>),
    Matrices(Box<Matrices>),
    Constant(Vec<i8>),
    Embedded(Embedded),
    WindowSum(WindowSum),
    MaxPool(MaxPool),
    Weighted(Weighted),
    Product(Product),
    Requantised(Requantised),
    Mapped(Mapped),
    Combine(Combine),
    Reduced(Reduced),
    Running(Running),
    Greatest(Greatest),
    Probabilities(Probabilities),
    Normalised(Normalised),
    Moved(Moved),
    Joined(Joined),
    Padded(Padded),
    Picked(Picked),
    Trees(op::Trees),
}

impl Kernel {
    /// Prepares a node, fused with a requantisation or not.
    pub(super) fn new(model: &CompiledModel, cpu: &Cpu, node: usize, how: Finish<'_>) -> Self {
        let program = &model.program;
        let Node { op, shape, .. } = &program.nodes[node];
        let channels = shape.channels as usize;
        let finish = how.map(|how| Requantiser::new(how, channels));
        let layer = || {
            let layer = model.weights.of_node(program, node);
            layer.expect("a node with weights has some")
        };
        match op {
            Op::Conv(conv) => {
                let conv = Convolution::new(program, cpu, (conv, channels, layer()), finish);
                Self::Convolution(Box::new(conv))
            }
            Op::Dense(dense) => {
                Self::Dense(Box::new(Dense::new(program, cpu, (dense, layer()), finish)))
            }
            Op::MatMul(product) => {
                Self::Matrices(Box::new(Matrices::new(program, cpu, product, finish)))
            }
            Op::Parameter(_) => Self::Constant(layer().weights.to_vec()),
            Op::Embed(embed) => Self::Embedded(Embedded::new(embed, channels, layer())),
            Op::WindowSum(sum) => Self::WindowSum(WindowSum::new(program, sum, *shape, finish)),
            Op::MaxPool(pool) => Self::MaxPool(MaxPool::new(program, pool)),
            Op::Add(add) => Self::Weighted(Weighted::new(add, channels, finish)),
            Op::Mul(mul) => Self::Product(Product::new(mul, channels, finish)),
            Op::Requantise(op::Unary { input, how }) => {
                match Mapped::of_bytes(*input, program.element_type(*input), how) {
                    Some(mapped) => Self::Mapped(mapped),
                    None => Self::Requantised(Requantised::new(*input, how, channels)),
                }
            }
            Op::Extremum(extremum) => Self::Combine(Combine::Extremum(extremum.clone())),
            Op::Compare(compare) => Self::Combine(Combine::Compare(compare.clone())),
            Op::Select(select) => Self::Combine(Combine::Select(select.clone())),
            Op::Reduce(reduce) => Self::Reduced(Reduced::new(program, reduce)),
            Op::RunningSum(sum) => Self::Running(Running::new(program, sum)),
            Op::ArgMax(op::ArgMax { input }) => {
                Self::Greatest(Greatest::new(program, *input, 1, Ranked::Channels))
            }
            Op::TopK(op::TopK { input, give }) => {
                Self::Greatest(Greatest::new(program, *input, channels, *give))
            }
            Op::Softmax(op::Unary { input, how }) => {
                Self::Probabilities(Probabilities::new(program, *input, how))
            }
            Op::Norm(op::Unary { input, how }) => {
                Self::Normalised(Normalised::new(*input, channels, *how))
            }
            Op::View(op::Unary { input, how }) => Self::Moved(Moved::new(*input, how)),
            Op::Concat(concat) => Self::Joined(Joined::new(program, concat)),
            Op::Pad(pad) => Self::Padded(Padded::new(program, pad, *shape)),
            Op::Gather(gather) => Self::Picked(Picked::new(program, gather)),
            Op::Trees(trees) => Self::Trees(trees.clone()),
        }
    }

    /// Tells a kernel made for slices which steps of a sequence it runs for.
    pub(super) fn at(&mut self, first: usize, until: usize) {
        match self {
            Self::Probabilities(kernel) => kernel.at(first),
            Self::Matrices(kernel) => kernel.until = until,
            _ => {}
        }
    }

    /// Tells a kernel made for slices on which axis the steps of a sequence are, and how many entries for each: a product of its
    /// right factor, a softmax of its input.
    pub(super) fn reads_steps(&mut self, axis: Option<(tg_ir::Axis, usize)>) {
        match self {
            Self::Matrices(kernel) => kernel.reads_steps(axis),
            Self::Probabilities(kernel) => {
                kernel.in_columns = axis == Some((tg_ir::Axis::Columns, 1));
            }
            _ => {}
        }
    }

    pub(super) fn run(&mut self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        match self {
            Self::Convolution(kernel) => kernel.run(context, out),
            Self::Dense(kernel) => kernel.run(context, out),
            Self::Matrices(kernel) => kernel.run(context, out),
            Self::Constant(values) => out.copy_from(Values::I8(values)),
            Self::Embedded(kernel) => kernel.run(context, out),
            Self::WindowSum(kernel) => kernel.run(context, out),
            Self::MaxPool(kernel) => kernel.run(context, out),
            Self::Weighted(kernel) => kernel.run(context, out),
            Self::Product(kernel) => kernel.run(context, out),
            Self::Requantised(kernel) => kernel.run(context, out),
            Self::Mapped(kernel) => kernel.run(context, out),
            Self::Combine(kernel) => kernel.run(context, out),
            Self::Reduced(kernel) => kernel.run(context, out),
            Self::Running(kernel) => kernel.run(context, out),
            Self::Greatest(kernel) => kernel.run(context, out),
            Self::Probabilities(kernel) => kernel.run(context, out),
            Self::Normalised(kernel) => kernel.run(context, out),
            Self::Moved(kernel) => kernel.run(context, out),
            Self::Joined(kernel) => kernel.run(context, out),
            Self::Padded(kernel) => kernel.run(context, out),
            Self::Picked(kernel) => kernel.run(context, out),
            Self::Trees(trees) => super::trees::run(trees, context, out),
        }
    }
}
