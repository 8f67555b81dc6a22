//! Products: convolutions, dense layers, and matrices that both change from run to run.

use super::context::Context;
use super::values::{Values, ValuesMut};
use crate::kernels::{
    Conv2d, ConvInt, Cpu, Elements, Matrix, Order, PackedMatrix, Requantiser, Sink, Sliding, Width,
    gemm_int,
};
use tg_ir::op;
use tg_ir::{ElementType, NodeWeights, Program, TensorId};

fn elements(values: Values<'_>) -> Elements<'_> {
    match values {
        Values::I8(values) => Elements::I8(values),
        Values::I16(values) => Elements::I16(values),
        Values::I32(_) => unreachable!("a valid program multiplies activations"),
    }
}

fn width(kind: ElementType) -> Width {
    match kind {
        ElementType::I8 => Width::I8,
        ElementType::I16 => Width::I16,
        ElementType::I32 => unreachable!("a valid program multiplies activations"),
    }
}

/// Where the sums go: accumulators, or activations through a requantisation.
fn sink<'a>(out: ValuesMut<'a>, stride: usize, how: Option<&'a Requantiser>) -> Sink<'a> {
    match (out, how) {
        (ValuesMut::I32(out), None) => Sink::Sums { out, stride },
        (ValuesMut::I8(out), Some(how)) => Sink::I8 { out, stride, how },
        (ValuesMut::I16(out), Some(how)) => Sink::I16 { out, stride, how },
        _ => unreachable!("sums are accumulators, requantised ones activations"),
    }
}

/// A convolution.
#[derive(Debug)]
pub(super) struct Convolution {
    input: TensorId,
    conv: ConvInt,
    how: Option<Requantiser>,
}

impl Convolution {
    /// Of a convolution with so many output channels.
    pub(super) fn new(
        program: &Program,
        cpu: &Cpu,
        (conv, outputs, layer): (&op::Conv, usize, NodeWeights<'_>),
        how: Option<Requantiser>,
    ) -> Self {
        let op::Conv {
            input,
            window,
            groups,
            zero,
        } = conv;
        let image = program.shape(*input);
        let conv = Conv2d {
            sliding: Sliding::of_window([image.height as usize, image.width as usize], window),
            inputs: image.channels as usize,
            outputs,
            groups: *groups as usize,
        };
        let (level, width) = (cpu.level(), width(program.element_type(*input)));
        let bias = Some(layer.bias);
        let conv = ConvInt::new(level, width, *zero, &conv, layer.weights, bias);
        Self {
            input: *input,
            conv: conv.expect("the window of a valid program fits"),
            how,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let image = elements(context.reads.get(self.input));
        let sink = sink(out, self.conv.sizes().outputs, self.how.as_ref());
        self.conv.run(context.cpu, context.scratch, image, sink);
    }
}

/// A dense layer.
#[derive(Debug)]
pub(super) struct Dense {
    input: TensorId,
    weights: PackedMatrix,
    how: Option<Requantiser>,
}

impl Dense {
    pub(super) fn new(
        program: &Program,
        cpu: &Cpu,
        (dense, layer): (&op::Dense, NodeWeights<'_>),
        how: Option<Requantiser>,
    ) -> Self {
        let input = dense.input;
        let size = [layer.bias.len(), program.shape(input).elements()];
        let width = width(program.element_type(input));
        Self {
            input,
            weights: PackedMatrix::from_weights(
                cpu.level(),
                width,
                size,
                layer.weights,
                Some(layer.bias),
            ),
            how,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let rows = Matrix {
            values: elements(context.reads.get(self.input)),
            rows: 1,
            stride: self.weights.k(),
        };
        let sink = sink(out, self.weights.n(), self.how.as_ref());
        gemm_int(context.cpu, context.scratch, &rows, &self.weights, sink);
    }
}

/// Products of two tensors, one for each of their rows.
#[derive(Debug)]
pub(super) struct Matrices {
    inputs: [TensorId; 2],
    order: Order,
    /// Products.
    count: usize,
    /// Products that share one right matrix.
    repeated: usize,
    /// Rows of a product.
    rows: usize,
    /// The right matrix of the product at hand.
    right: PackedMatrix,
    how: Option<Requantiser>,
}

impl Matrices {
    pub(super) fn new(
        program: &Program,
        cpu: &Cpu,
        product: &op::MatMul,
        how: Option<Requantiser>,
    ) -> Self {
        let op::MatMul { inputs, transposed } = *product;
        let [left, right] = inputs.map(|input| program.shape(input));
        let narrow = inputs
            .iter()
            .all(|&input| program.element_type(input) == ElementType::I8);
        let n = if transposed {
            right.width
        } else {
            right.channels
        };
        Self {
            inputs,
            order: if transposed {
                Order::Columns
            } else {
                Order::Rows
            },
            count: left.height as usize,
            repeated: (left.height / right.height) as usize,
            rows: left.width as usize,
            right: PackedMatrix::new(
                cpu.level(),
                if narrow { Width::I8 } else { Width::I16 },
                n as usize,
                left.channels as usize,
            ),
            how,
        }
    }

    pub(super) fn run(&mut self, context: &mut Context<'_>, mut out: ValuesMut<'_>) {
        let [left, right] = self.inputs.map(|input| elements(context.reads.get(input)));
        let (n, k) = (self.right.n(), self.right.k());
        let stride = match self.order {
            Order::Rows => n,
            Order::Columns => k,
        };
        for index in 0..self.count {
            if index % self.repeated == 0 {
                let matrix = part(right, index / self.repeated * n * k, n * k);
                self.right.pack(matrix, self.order, stride);
            }
            let rows = Matrix {
                values: part(left, index * self.rows * k, self.rows * k),
                rows: self.rows,
                stride: k,
            };
            let out = out.part(index * self.rows * n, self.rows * n);
            let sink = sink(out, n, self.how.as_ref());
            gemm_int(context.cpu, context.scratch, &rows, &self.right, sink);
        }
    }
}

fn part(values: Elements<'_>, first: usize, count: usize) -> Elements<'_> {
    match values {
        Elements::I8(values) => Elements::I8(&values[first..first + count]),
        Elements::I16(values) => Elements::I16(&values[first..first + count]),
    }
}
