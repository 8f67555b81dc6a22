//! Products of matrices.

use super::context::Context;
use super::linear::{elements, sink};
use super::values::ValuesMut;
use crate::kernels::{Cpu, Elements, Matrix, Order, PackedMatrix, Requantiser, Width, gemm_int};
use tg_ir::op;
use tg_ir::{ElementType, Program, TensorId};

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
