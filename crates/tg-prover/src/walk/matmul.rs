//! Products of matrices.

use super::Walk;
use super::values::with_values;
use crate::channel::Channel;
use crate::fold::{Dots, Integer, fold};
use crate::sumcheck;
use p3_field::PrimeCharacteristicRing;
use tg_proof::field::{E, eq_table};
use tg_proof::layout::TensorLayout;
use tg_proof::messages::MatMulProof;
use tg_proof::verify::{Claim, MatMulPoint, MatMulShape};

impl Walk<'_> {
    pub(super) fn matmul(
        &mut self,
        node: usize,
        claim: &Claim,
        channel: &mut Channel,
    ) -> MatMulProof {
        let (plan, program) = (self.plan, &self.model.model.program);
        let shape = MatMulShape::of(program, node).expect("a product of matrices");
        let at = MatMulPoint::new(shape, plan, node, &claim.point);
        let [left, right] = at.shape.inputs.map(|input| plan.layouts[input.index()]);
        let cube = Cube {
            matrix_vars: at.shape.matrix_vars(),
            batch_vars: left.batch_vars,
            inner_vars: left.channel_vars,
        };
        let rows_left = with_values!(self.tensor(at.shape.inputs[0]), values => {
            fold_matrices(values, left, at.shape.rows, &at.left_weights())
        });
        let rows_right = with_values!(self.tensor(at.shape.inputs[1]), values => {
            right_rows(values, right, &at)
        });
        let inner = left.channels;
        let left_side = cube.filled(at.shape.matrices, left.batch, inner, |matrix, input, k| {
            rows_left[(matrix * left.batch + input) * inner + k]
        });
        let right_side = cube.filled(at.shape.matrices, left.batch, inner, |matrix, input, k| {
            rows_right[(matrix / at.shape.repeats * left.batch + input) * inner + k]
        });
        let weights = eq_table(&at.weight_point());
        let batch_mask = (1 << cube.batch_vars) - 1;
        let weight = (0..1usize << cube.vars()).map(|index| {
            let row = index >> cube.inner_vars;
            weights[if at.shape.is_split() {
                row
            } else {
                row & batch_mask
            }]
        });
        let factors = [weight.collect(), left_side, right_side];
        let (products, point, [_, left, right]) = sumcheck::triple(factors, claim.value, channel);
        let factors = [left, right];
        let sent = channel.send(factors);
        let (matrix, rest) = point.split_at(cube.matrix_vars);
        let (batch, inner) = rest.split_at(cube.batch_vars);
        let sides = [
            at.left(plan, matrix, batch, inner),
            at.right(plan, matrix, batch, inner),
        ];
        let [left, right] = &sides;
        let reads = [
            self.read(left, factors[0], channel),
            self.read(right, factors[1], channel),
        ];
        MatMulProof {
            products,
            factors: sent,
            reads,
        }
    }
}

/// Variables of (matrix, input, inner index).
struct Cube {
    matrix_vars: usize,
    batch_vars: usize,
    inner_vars: usize,
}

impl Cube {
    const fn vars(&self) -> usize {
        self.matrix_vars + self.batch_vars + self.inner_vars
    }

    fn filled(
        &self,
        matrices: usize,
        batch: usize,
        inner: usize,
        value: impl Fn(usize, usize, usize) -> E,
    ) -> Vec<E> {
        let mut values = vec![E::ZERO; 1 << self.vars()];
        for matrix in 0..matrices {
            for input in 0..batch {
                let row = (matrix << self.batch_vars | input) << self.inner_vars;
                for k in 0..inner {
                    values[row + k] = value(matrix, input, k);
                }
            }
        }
        values
    }
}

/// Per matrix of `rows` pixels the sum of its rows with weights: `[matrix][input][channel]`.
fn fold_matrices<T: Integer>(
    values: &[T],
    layout: TensorLayout,
    rows: usize,
    weights: &[E],
) -> Vec<E> {
    let width = layout.batch * layout.channels;
    let matrices = values.chunks_exact(rows * width).zip(weights.chunks(rows));
    matrices
        .flat_map(|(matrix, weights)| {
            fold(width, weights, |row| Some(&matrix[row * width..][..width]))
        })
        .collect()
}

/// The right matrices at the column's point: `[matrix][input][inner index]`.
fn right_rows<T: Integer>(values: &[T], layout: TensorLayout, at: &MatMulPoint<'_>) -> Vec<E> {
    let weights = eq_table(at.channels);
    let count = at.shape.matrices / at.shape.repeats;
    if at.shape.transposed {
        let weights = weights[..at.shape.right_rows].repeat(count);
        return fold_matrices(values, layout, at.shape.right_rows, &weights);
    }
    // [matrix][k][input] from rows of columns.
    let dots = Dots::new(&weights[..layout.channels]).dot_rows(layout.channels, values);
    let mut rows = Vec::with_capacity(dots.len());
    for matrix in dots.chunks_exact(at.shape.right_rows * layout.batch) {
        for input in 0..layout.batch {
            rows.extend(matrix.iter().skip(input).step_by(layout.batch));
        }
    }
    rows
}
