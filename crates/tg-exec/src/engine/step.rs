//! What one step of an engine computes.

use super::element::{Combine, Mapped, Product, Requantised, Weighted};
use super::linear::{Convolution, Dense, Matrices};
use super::movement::{Embedded, Joined, Moved, Padded, Picked};
use super::prepare::Finish;
use super::rows::{Greatest, Normalised, Probabilities, Reduced};
use super::values::{Place, Reads, ValuesMut};
use crate::kernels::{Cpu, Requantiser, Scratch, Sliding, max_pool, window_sum};
use tg_ir::op::Ranked;
use tg_ir::{CompiledModel, Forest, Op, TensorId};

/// What a step runs with.
pub(super) struct Context<'a> {
    pub cpu: &'a Cpu,
    pub scratch: &'a mut Scratch,
    pub reads: Reads<'a>,
}

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
    MaxPool {
        input: TensorId,
        sliding: Sliding,
        channels: usize,
    },
    Weighted(Weighted),
    Product(Product),
    Requantised(Requantised),
    Mapped(Mapped),
    Combine(Combine),
    Reduced(Reduced),
    Greatest(Greatest),
    Probabilities(Probabilities),
    Normalised(Normalised),
    Moved(Moved),
    Joined(Joined),
    Padded(Padded),
    Picked(Picked),
    Trees {
        input: TensorId,
        forest: Forest,
    },
}

/// Sums of windows, and their requantisation.
#[derive(Debug)]
pub(super) struct WindowSum {
    input: TensorId,
    sliding: Sliding,
    channels: usize,
    how: Option<(Requantiser, Vec<i32>)>,
}

impl Kernel {
    /// Prepares a node, fused with a requantisation or not.
    pub(super) fn new(model: &CompiledModel, cpu: &Cpu, node: usize, how: Finish<'_>) -> Self {
        let program = &model.program;
        let description = &program.nodes[node];
        let shape = description.shape;
        let channels = shape.channels as usize;
        let finish = how.map(|how| Requantiser::new(how, channels));
        let sliding = |input: TensorId, window| {
            let image = program.shape(input);
            Sliding::of_window([image.height as usize, image.width as usize], window)
        };
        match &description.op {
            Op::Conv { .. } => {
                Self::Convolution(Box::new(Convolution::new(model, cpu, node, finish)))
            }
            Op::Dense { input } => {
                Self::Dense(Box::new(Dense::new(model, cpu, (node, *input), finish)))
            }
            Op::MatMul { inputs, transposed } => {
                let matrices = Matrices::new(program, cpu, *inputs, *transposed, finish);
                Self::Matrices(Box::new(matrices))
            }
            Op::Parameter => Self::Constant(weights_of(model, node)),
            Op::Embed { input, rows } => Self::Embedded(Embedded {
                input: *input,
                rows: *rows,
                channels,
                table: weights_of(model, node),
            }),
            Op::WindowSum { input, window } => Self::WindowSum(WindowSum {
                input: *input,
                sliding: sliding(*input, window),
                channels,
                how: finish.map(|how| (how, vec![0; shape.elements()])),
            }),
            Op::MaxPool { input, window } => Self::MaxPool {
                input: *input,
                sliding: sliding(*input, window),
                channels,
            },
            Op::Add {
                inputs,
                multipliers,
                bias,
            } => Self::Weighted(Weighted {
                terms: inputs
                    .iter()
                    .copied()
                    .zip(multipliers.iter().copied())
                    .collect(),
                bias: *bias,
                channels,
                how: finish,
            }),
            Op::Mul { inputs } => Self::Product(Product {
                inputs: *inputs,
                channels,
                how: finish,
            }),
            op => Self::without_products(model, node, op),
        }
    }

    fn without_products(model: &CompiledModel, node: usize, op: &Op) -> Self {
        let program = &model.program;
        let shape = program.nodes[node].shape;
        match op {
            Op::Requantise { input, how } => {
                let kind = program.element_type(*input);
                match Mapped::of_bytes(*input, kind, how) {
                    Some(mapped) => Self::Mapped(mapped),
                    None => Self::Requantised(Requantised {
                        input: *input,
                        channels: shape.channels as usize,
                        how: Requantiser::new(how, shape.channels as usize),
                    }),
                }
            }
            Op::Extremum { inputs, which } => Self::Combine(Combine::Extremum(*inputs, *which)),
            Op::Compare { inputs, relation } => Self::Combine(Combine::Compare(*inputs, *relation)),
            Op::Select { condition, inputs } => Self::Combine(Combine::Select(*condition, *inputs)),
            Op::Reduce {
                input,
                reduction,
                axis,
            } => Self::Reduced(Reduced {
                input: *input,
                shape: program.shape(*input),
                reduction: *reduction,
                axis: *axis,
            }),
            Op::ArgMax { input } => {
                Self::Greatest(Greatest::new(program, *input, 1, Ranked::Channels))
            }
            Op::TopK { input, give } => {
                let count = shape.channels as usize;
                Self::Greatest(Greatest::new(program, *input, count, *give))
            }
            Op::Softmax { input, how } => {
                Self::Probabilities(Probabilities::new(program, *input, how))
            }
            Op::Norm { input, how } => Self::Normalised(Normalised {
                input: *input,
                channels: shape.channels as usize,
                how: *how,
            }),
            Op::View { input, view } => Self::Moved(Moved::new(*input, view)),
            Op::Concat { inputs, axis } => Self::Joined(Joined::new(program, inputs, *axis)),
            Op::Pad {
                input,
                before,
                value,
                ..
            } => Self::Padded(Padded::new(program, *input, (shape, *before, *value))),
            Op::Gather {
                input,
                axis,
                indices,
            } => Self::Picked(Picked::new(program, *input, *axis, indices)),
            Op::Trees { input, forest } => Self::Trees {
                input: *input,
                forest: forest.clone(),
            },
            Op::Conv { .. }
            | Op::Dense { .. }
            | Op::MatMul { .. }
            | Op::Parameter
            | Op::Embed { .. }
            | Op::WindowSum { .. }
            | Op::MaxPool { .. }
            | Op::Add { .. }
            | Op::Mul { .. } => unreachable!("prepared by the caller"),
        }
    }

    pub(super) fn run(&mut self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        match self {
            Self::Convolution(kernel) => kernel.run(context, out),
            Self::Dense(kernel) => kernel.run(context, out),
            Self::Matrices(kernel) => kernel.run(context, out),
            Self::Constant(values) => out.copy_from(super::values::Values::I8(values)),
            Self::Embedded(kernel) => kernel.run(context, out),
            Self::WindowSum(kernel) => kernel.run(context, out),
            Self::MaxPool {
                input,
                sliding,
                channels,
            } => {
                use super::values::Values;
                match (context.reads.get(*input), out) {
                    (Values::I8(image), ValuesMut::I8(out)) => {
                        max_pool(context.cpu, sliding, *channels, image, out);
                    }
                    (Values::I16(image), ValuesMut::I16(out)) => {
                        max_pool(context.cpu, sliding, *channels, image, out);
                    }
                    _ => unreachable!("a valid program pools activations"),
                }
            }
            Self::Weighted(kernel) => kernel.run(context, out),
            Self::Product(kernel) => kernel.run(context, out),
            Self::Requantised(kernel) => kernel.run(context, out),
            Self::Mapped(kernel) => kernel.run(context, out),
            Self::Combine(kernel) => kernel.run(context, out),
            Self::Reduced(kernel) => kernel.run(context, out),
            Self::Greatest(kernel) => kernel.run(context, out),
            Self::Probabilities(kernel) => kernel.run(context, out),
            Self::Normalised(kernel) => kernel.run(context, out),
            Self::Moved(kernel) => kernel.run(context, out),
            Self::Joined(kernel) => kernel.run(context, out),
            Self::Padded(kernel) => kernel.run(context, out),
            Self::Picked(kernel) => kernel.run(context, out),
            Self::Trees { input, forest } => {
                let ValuesMut::I32(out) = out else {
                    unreachable!("trees give accumulators")
                };
                let values = context.reads.get(*input);
                out.copy_from_slice(&forest.bias);
                for tree in 0..forest.roots.len() {
                    let leaf = forest.leaf(tree, |feature| values.at(feature));
                    let leaf = &forest.leaves[leaf * out.len()..][..out.len()];
                    for (sum, value) in out.iter_mut().zip(leaf) {
                        *sum += value;
                    }
                }
            }
        }
    }
}

impl WindowSum {
    fn run(&mut self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        use super::values::Values;
        let (cpu, channels) = (context.cpu, self.channels);
        let sum = |sums: &mut [i32]| match context.reads.get(self.input) {
            Values::I8(image) => window_sum(cpu, &self.sliding, channels, image, sums),
            Values::I16(image) => window_sum(cpu, &self.sliding, channels, image, sums),
            Values::I32(_) => unreachable!("a valid program sums activations"),
        };
        match (&mut self.how, out) {
            (None, ValuesMut::I32(out)) => sum(out),
            (Some((how, sums)), out) => {
                sum(sums);
                how.requantise(cpu, sums, channels, super::element::activations(out));
            }
            (None, _) => unreachable!("sums are accumulators"),
        }
    }
}

fn weights_of(model: &CompiledModel, node: usize) -> Vec<i8> {
    let layer = model.weights.of_node(&model.program, node);
    layer
        .expect("a node with weights has some")
        .weights
        .to_vec()
}
