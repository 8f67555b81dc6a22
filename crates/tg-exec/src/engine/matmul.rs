//! Products of matrices.

use super::context::Context;
use super::element::activations;
use super::linear::{elements, sink};
use super::values::{ValuesMut, each};
use crate::kernels::{Cpu, Elements, Matrix, Order, PackedMatrix, Requantiser, Width, gemm_int};
use tg_ir::op;
use tg_ir::{Axis, ElementType, Program, TensorId};

/// Most rows of a product for which the right matrix is read as it lies: packing it would cost more than the product.
const ROWS_DIRECT: usize = 4;

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
    /// Whether the right matrix's rows and columns are steps of a sequence, and how many steps of it there are.
    steps: [bool; 2],
    pub until: usize,
    sums: Vec<i32>,
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
            steps: [false; 2],
            until: usize::MAX,
            sums: Vec::new(),
        }
    }

    /// Of the right factor only the steps so far are read, if it has one entry of an axis for each.
    pub(super) fn reads_steps(&mut self, axis: Option<(Axis, usize)>) {
        self.steps = [Axis::Columns, Axis::Channels].map(|side| axis == Some((side, 1)));
    }

    pub(super) fn run(&mut self, context: &mut Context<'_>, mut out: ValuesMut<'_>) {
        if self.rows <= ROWS_DIRECT {
            return self.run_direct(context, out);
        }
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

impl Matrices {
    /// The products row by row, without packing.
    fn run_direct(&mut self, context: &mut Context<'_>, mut out: ValuesMut<'_>) {
        let [left, right] = self.inputs.map(|input| context.reads.get(input));
        let (n, k) = (self.right.n(), self.right.k());
        let mut sums = std::mem::take(&mut self.sums);
        sums.resize(n, 0);
        for index in 0..self.count {
            let matrix = right.part(index / self.repeated * n * k, n * k);
            for row in 0..self.rows {
                let row = index * self.rows + row;
                let factors = left.part(row * k, k);
                context.cpu.vectorised(|| {
                    each!(factors, factors => each!(matrix, matrix => self.row(factors, matrix, &mut sums)));
                });
                let out = out.part(row * n, n);
                match (out, &self.how) {
                    (ValuesMut::I32(out), None) => out.copy_from_slice(&sums),
                    (out, Some(how)) => {
                        how.requantise_part(context.cpu, &sums, n, activations(out));
                    }
                    _ => unreachable!("sums are accumulators"),
                }
            }
        }
        self.sums = sums;
    }

    /// One row of a product; sums beyond the steps so far are 0.
    #[inline(always)]
    fn row<L, R>(&self, factors: &[L], matrix: &[R], sums: &mut [i32])
    where
        L: Copy + Into<i32>,
        R: Copy + Into<i32>,
    {
        let (n, k) = (sums.len(), factors.len());
        let limit = |is_steps: bool, length: usize| match is_steps {
            true => self.until.min(length),
            false => length,
        };
        sums.fill(0);
        match self.order {
            Order::Rows => {
                let [terms, columns] = [limit(self.steps[0], k), limit(self.steps[1], n)];
                let rows = factors.iter().zip(matrix.chunks_exact(n)).take(terms);
                for (&factor, row) in rows {
                    let factor: i32 = factor.into();
                    if factor != 0 {
                        multiply_add(&mut sums[..columns], factor, row);
                    }
                }
            }
            Order::Columns => {
                let [columns, terms] = [limit(self.steps[0], n), limit(self.steps[1], k)];
                let rows = matrix.chunks_exact(k).take(columns);
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = dot(&factors[..terms], row);
                }
            }
        }
    }
}

#[inline(always)]
fn multiply_add<R: Copy + Into<i32>>(sums: &mut [i32], factor: i32, row: &[R]) {
    for (sum, &value) in sums.iter_mut().zip(row) {
        *sum = sum.wrapping_add(factor.wrapping_mul(value.into()));
    }
}

#[inline(always)]
fn dot<L: Copy + Into<i32>, R: Copy + Into<i32>>(left: &[L], right: &[R]) -> i32 {
    let pairs = left.iter().zip(right);
    pairs.fold(0, |sum: i32, (&a, &b)| {
        sum.wrapping_add(a.into().wrapping_mul(b.into()))
    })
}

fn part(values: Elements<'_>, first: usize, count: usize) -> Elements<'_> {
    match values {
        Elements::I8(values) => Elements::I8(&values[first..first + count]),
        Elements::I16(values) => Elements::I16(&values[first..first + count]),
    }
}
