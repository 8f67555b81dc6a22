//! Products of matrices.

use super::NodeCheck;
use super::{Claim, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq, eq_table};
use crate::algebra::layout::log2_ceil;
use crate::algebra::linear::{Along, Reading, Weights};
use crate::algebra::transcript::Challenger;
use crate::plan::Plan;
use crate::verify::messages::MatMulProof;
use p3_field::PrimeCharacteristicRing;
use tg_ir::op;
use tg_ir::{Op, Program, TensorId};

/// A product of matrices, `a(g, m, n) = sum_k L(g, m, k) R(floor(g / r), n, k)`, and a claim on it.
///
/// `v = sum over (g, e, k) of W(g, e) L'(g, e, k) R'(g, e, k)`. If M is a power of two (or there is one matrix) the
/// pixel's point is (r_g, r_m): then `W = eq((r_g, r_e), (g, e))` and L' is L at r_m. Else
/// `L'(g, e, k) = sum_m eq(r_s, g M + m) L(g, m, e, k)` and `W = eq(r_e, e)`. R' is R of matrix floor(g / r) at
/// n = r_c.
#[derive(Debug, Clone)]
pub struct MatMulPoint<'a> {
    /// Left and right tensor.
    pub inputs: [TensorId; 2],
    /// Whether the right tensor holds its matrices with k innermost.
    pub transposed: bool,
    /// Matrices of the left tensor, and how many of them share a right one.
    pub matrices: usize,
    /// See `matrices`.
    pub repeats: usize,
    /// Rows of a left matrix.
    pub rows: usize,
    /// Rows of a right matrix as it is stored.
    pub right_rows: usize,
    /// Pixel, input and channel of the claim.
    pub pixels: &'a [E],
    /// See `pixels`.
    pub batch: &'a [E],
    /// See `pixels`.
    pub channels: &'a [E],
}

impl<'a> MatMulPoint<'a> {
    /// The product of a node and a claim on it.
    ///
    /// # Panics
    /// If the node is no product of matrices.
    #[must_use]
    pub fn new(program: &Program, plan: &Plan, node: usize, claim: &'a [E]) -> Self {
        let Op::MatMul(op::MatMul { inputs, transposed }) = &program.nodes[node].op else {
            unreachable!("the plan follows the program's operators");
        };
        let [left, right] = inputs.map(|input| program.shape(input));
        let (pixels, batch, channels) = plan.layouts[node + 1].split(claim);
        Self {
            inputs: *inputs,
            transposed: *transposed,
            matrices: left.height as usize,
            repeats: (left.height / right.height) as usize,
            rows: left.width as usize,
            right_rows: right.width as usize,
            pixels,
            batch,
            channels,
        }
    }

    /// Variables of the matrix.
    #[must_use]
    pub const fn matrix_vars(&self) -> usize {
        log2_ceil(self.matrices)
    }

    /// Whether the pixel's point splits into one of the matrix and one of the row.
    #[must_use]
    pub const fn is_split(&self) -> bool {
        self.matrices == 1 || self.rows.is_power_of_two()
    }

    /// The point that W is `eq` of, over matrix and input, or over the input alone.
    #[must_use]
    pub fn weight_point(&self) -> Vec<E> {
        if self.is_split() {
            [&self.pixels[..self.matrix_vars()], self.batch].concat()
        } else {
            self.batch.to_vec()
        }
    }

    /// Per (matrix, row) of the left tensor the weight in L', `eq(r_m, m)` or `eq(r_s, g M + m)`.
    #[must_use]
    pub fn left_weights(&self) -> Vec<E> {
        let weights = eq_table(self.pixels);
        if self.is_split() {
            let rows = eq_table(&self.pixels[self.matrix_vars()..]);
            (0..self.matrices)
                .flat_map(|_| rows[..self.rows].iter().copied())
                .collect()
        } else {
            weights[..self.matrices * self.rows].to_vec()
        }
    }

    /// The left side at (matrix, input, k), as a reading of its tensor.
    #[must_use]
    pub fn left(&self, plan: &Plan, matrix: &[E], batch: &[E], inner: &[E]) -> Reading {
        let pixels = if self.is_split() {
            Along::At([matrix, &self.pixels[self.matrix_vars()..]].concat())
        } else {
            let of_matrix = eq_table(matrix);
            let vars = plan.layouts[self.inputs[0].index()].pixel_vars;
            let weights = self.left_weights().into_iter().enumerate();
            let weights = weights.map(|(pixel, weight)| weight * of_matrix[pixel / self.rows]);
            Along::Sum(padded(weights.collect(), vars))
        };
        let channels = Along::At(inner.to_vec());
        Reading::of(self.inputs[0], Weights::Fields { pixels, channels }, batch)
    }

    /// The right side at (matrix, input, k), as a reading of its tensor.
    #[must_use]
    pub fn right(&self, plan: &Plan, matrix: &[E], batch: &[E], inner: &[E]) -> Reading {
        // The row of a stored matrix is n or k, its channel the other.
        let (row, channel) = if self.transposed {
            (self.channels, inner)
        } else {
            (inner, self.channels)
        };
        let right_matrices = self.matrices / self.repeats;
        let aligned = self.repeats.is_power_of_two()
            && (right_matrices == 1 || self.right_rows.is_power_of_two());
        let pixels = if aligned {
            let shared = matrix.len() - log2_ceil(self.repeats);
            Along::At([&matrix[..shared], row].concat())
        } else {
            let (of_matrix, of_row) = (eq_table(matrix), eq_table(row));
            let vars = plan.layouts[self.inputs[1].index()].pixel_vars;
            // Left matrices that share a right one first: their number times that of rows is no step of a verifier's.
            let shared = of_matrix[..self.matrices].chunks(self.repeats);
            let weights = shared.flat_map(|shared| {
                let weight: E = shared.iter().copied().sum();
                let rows = of_row.iter().take(self.right_rows);
                rows.map(move |&of_row| weight * of_row)
            });
            Along::Sum(padded(weights.collect(), vars))
        };
        let channels = Along::At(channel.to_vec());
        Reading::of(self.inputs[1], Weights::Fields { pixels, channels }, batch)
    }
}

fn padded(mut weights: Vec<E>, vars: usize) -> Vec<E> {
    weights.resize(1 << vars, E::ZERO);
    weights
}

impl<A: Arithmetic> Walk<'_, A> {
    pub(super) fn matmul(
        &mut self,
        node: usize,
        claim: &Claim<A::Value>,
        proof: &MatMulProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let MatMulProof {
            products,
            factors,
            reads,
        } = proof;
        let at = MatMulPoint::new(self.program, self.plan, node, &claim.point);
        let inner_vars = self.plan.layouts[at.inputs[0].index()].channel_vars;
        let (matrix_vars, batch_vars) = (at.matrix_vars(), at.batch.len());
        let rounds = matrix_vars + batch_vars + inner_vars;
        let (point, last) = self
            .sumcheck(products, challenger, (rounds, 3), claim.value.clone())
            .ok_or(NodeCheck::Products)?;
        let factors = self.arithmetic.absorb(factors, challenger);
        let (matrix, rest) = point.split_at(matrix_vars);
        let (batch, inner) = rest.split_at(batch_vars);
        let weighed = [if at.is_split() { matrix } else { &[] }, batch].concat();
        let product = self.arithmetic.product(&factors[0], &factors[1]);
        // Stops: a product of other matrices.
        self.equal(last, product * eq(&at.weight_point(), &weighed))
            .ok_or(NodeCheck::Products)?;
        let sides = [
            at.left(self.plan, matrix, batch, inner),
            at.right(self.plan, matrix, batch, inner),
        ];
        for ((side, read), sum) in sides.iter().zip(reads).zip(factors) {
            self.read(side, sum, read, NodeCheck::Sources, challenger)?;
        }
        Ok(())
    }
}
