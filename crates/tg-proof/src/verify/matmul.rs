//! Products of matrices.

use super::NodeCheck;
use super::read::ReadClaim;
use super::{ClaimIn, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq, eq_table};
use crate::algebra::layout::{TensorLayout, log2_ceil};
use crate::algebra::linear::{Along, ReadShape, Reading, Weights};
use crate::algebra::tally::{PublicWork, Theorem};
use crate::argument::sumcheck::SumShape;
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
    /// The product.
    pub shape: MatMulShape,
    /// Pixel, input and channel of the claim.
    pub pixels: &'a [E],
    /// See `pixels`.
    pub batch: &'a [E],
    /// See `pixels`.
    pub channels: &'a [E],
}

/// A product of matrices: what of it does not depend on a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatMulShape {
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
}

impl MatMulShape {
    /// The product of a node, if it is one.
    #[must_use]
    pub fn of(program: &Program, node: usize) -> Option<Self> {
        let Op::MatMul(op::MatMul { inputs, transposed }) = &program.nodes[node].op else {
            return None;
        };
        let [left, right] = inputs.map(|input| program.shape(input));
        Some(Self {
            inputs: *inputs,
            transposed: *transposed,
            matrices: left.height as usize,
            repeats: (left.height / right.height) as usize,
            rows: left.width as usize,
            right_rows: right.width as usize,
        })
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

    /// Whether the pixel of the right tensor is the point of its matrix and that of its row.
    const fn is_aligned(&self) -> bool {
        let right_matrices = self.matrices / self.repeats;
        self.repeats.is_power_of_two() && (right_matrices == 1 || self.right_rows.is_power_of_two())
    }

    /// The shapes of both sides' readings.
    #[must_use]
    pub fn sides(&self) -> [ReadShape; 2] {
        let side = |side: usize, whole: bool| ReadShape {
            inputs: vec![self.inputs[side]],
            summed: [!whole, false],
            unscaled: true,
        };
        [side(0, self.is_split()), side(1, self.is_aligned())]
    }

    /// What the weights of both sides take: tables of pixels and channels of the output and both inputs.
    fn tables(&self, layouts: &[TensorLayout], node: usize) -> PublicWork {
        let of =
            |layout: &TensorLayout| (1u64 << layout.pixel_vars) + (1u64 << layout.channel_vars);
        let inputs = self.inputs.map(|input| of(&layouts[input.index()]));
        PublicWork::tables(of(&layouts[node + 1]) + 2 * (inputs[0] + inputs[1]))
    }
}

impl<'a> MatMulPoint<'a> {
    /// The product of a node of a plan, and a claim on it.
    #[must_use]
    pub fn new(shape: MatMulShape, plan: &Plan, node: usize, claim: &'a [E]) -> Self {
        let (pixels, batch, channels) = plan.layouts[node + 1].split(claim);
        Self {
            shape,
            pixels,
            batch,
            channels,
        }
    }

    /// The point that W is `eq` of, over matrix and input, or over the input alone.
    #[must_use]
    pub fn weight_point(&self) -> Vec<E> {
        if self.shape.is_split() {
            [&self.pixels[..self.shape.matrix_vars()], self.batch].concat()
        } else {
            self.batch.to_vec()
        }
    }

    /// Per (matrix, row) of the left tensor the weight in L', `eq(r_m, m)` or `eq(r_s, g M + m)`.
    #[must_use]
    pub fn left_weights(&self) -> Vec<E> {
        let weights = eq_table(self.pixels);
        if self.shape.is_split() {
            let rows = eq_table(&self.pixels[self.shape.matrix_vars()..]);
            (0..self.shape.matrices)
                .flat_map(|_| rows[..self.shape.rows].iter().copied())
                .collect()
        } else {
            weights[..self.shape.matrices * self.shape.rows].to_vec()
        }
    }

    /// The left side at (matrix, input, k), as a reading of its tensor.
    #[must_use]
    pub fn left(&self, plan: &Plan, matrix: &[E], batch: &[E], inner: &[E]) -> Reading {
        let pixels = if self.shape.is_split() {
            Along::At([matrix, &self.pixels[self.shape.matrix_vars()..]].concat())
        } else {
            let of_matrix = eq_table(matrix);
            let vars = plan.layouts[self.shape.inputs[0].index()].pixel_vars;
            let weights = self.left_weights().into_iter().enumerate();
            let weights =
                weights.map(|(pixel, weight)| weight * of_matrix[pixel / self.shape.rows]);
            Along::Sum(padded(weights.collect(), vars))
        };
        let channels = Along::At(inner.to_vec());
        Reading::of(
            self.shape.inputs[0],
            Weights::Fields { pixels, channels },
            batch,
        )
    }

    /// The right side at (matrix, input, k), as a reading of its tensor.
    #[must_use]
    pub fn right(&self, plan: &Plan, matrix: &[E], batch: &[E], inner: &[E]) -> Reading {
        // The row of a stored matrix is n or k, its channel the other.
        let (row, channel) = if self.shape.transposed {
            (self.channels, inner)
        } else {
            (inner, self.channels)
        };
        let pixels = if self.shape.is_aligned() {
            let shared = matrix.len() - log2_ceil(self.shape.repeats);
            Along::At([&matrix[..shared], row].concat())
        } else {
            let (of_matrix, of_row) = (eq_table(matrix), eq_table(row));
            let vars = plan.layouts[self.shape.inputs[1].index()].pixel_vars;
            // Left matrices that share a right one first: their number times that of rows is no step of a verifier's.
            let shared = of_matrix[..self.shape.matrices].chunks(self.shape.repeats);
            let weights = shared.flat_map(|shared| {
                let weight: E = shared.iter().copied().sum();
                let rows = of_row.iter().take(self.shape.right_rows);
                rows.map(move |&of_row| weight * of_row)
            });
            Along::Sum(padded(weights.collect(), vars))
        };
        let channels = Along::At(channel.to_vec());
        Reading::of(
            self.shape.inputs[1],
            Weights::Fields { pixels, channels },
            batch,
        )
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
        claim: &ClaimIn<A>,
        sent: Option<&MatMulProof>,
    ) -> Result<(), NodeCheck> {
        let plan = self.plan;
        let shape = MatMulShape::of(self.program, node).ok_or(NodeCheck::Messages)?;
        let left = plan.layouts[shape.inputs[0].index()];
        let (matrix_vars, batch_vars) = (shape.matrix_vars(), left.batch_vars);
        let of_sum = SumShape {
            rounds: matrix_vars + batch_vars + left.channel_vars,
            degree: 3,
            theorem: Theorem::Products,
        };
        let (point, last) = self
            .sumcheck(sent.map(|sent| &sent.products), of_sum, claim.value.clone())
            .ok_or(NodeCheck::Products)?;
        let factors = self.array(sent.map(|sent| sent.factors.as_slice()), 2)?;
        let work = shape.tables(&plan.layouts, node).and(PublicWork::EQ);
        let made = self.channel.public(work, |look| {
            let claimed = A::coordinates(look, &claim.point);
            let at = MatMulPoint::new(shape, plan, node, claimed);
            let (matrix, rest) = A::coordinates(look, &point).split_at(matrix_vars);
            let (batch, inner) = rest.split_at(batch_vars);
            let weighed = [if shape.is_split() { matrix } else { &[] }, batch].concat();
            let sides = [
                at.left(plan, matrix, batch, inner),
                at.right(plan, matrix, batch, inner),
            ];
            Some((eq(&at.weight_point(), &weighed), sides))
        });
        let (weight, sides) = made.unzip();
        let product = self.channel.arithmetic.product(&factors[0], &factors[1]);
        // Stops: a product of other matrices.
        self.equal(last, product * weight.unwrap_or_default())
            .ok_or(NodeCheck::Products)?;
        let readings = match &sides {
            Some([left, right]) => [Some(left), Some(right)],
            None => [None, None],
        };
        let [first, second] = shape.sides();
        for (side, (shape, sum)) in [&first, &second].into_iter().zip(factors).enumerate() {
            let read = ReadClaim {
                shape,
                reading: readings[side],
                sum,
                failed: NodeCheck::Sources,
            };
            self.read(read, sent.map(|sent| &sent.reads[side]))?;
        }
        Ok(())
    }
}
