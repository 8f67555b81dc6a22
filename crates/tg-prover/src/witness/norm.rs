//! The columns of a normalisation.

use super::sources::{Sources, push_limbs, push_signed};
use p3_maybe_rayon::prelude::*;
use tg_ir::op::root_above;
use tg_proof::plan::{NORM_CARRY_BITS, NormShape, SQUARE_CARRY_BITS, limb_classes};

/// Integers of a row.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    /// 2^k times the sum of the inputs, if it is taken away.
    sum: i128,
    /// Sums of high x high, high x low, low x low halves.
    squares: [i128; 3],
    radicand: i128,
    root: i128,
}

pub(super) struct Filler<'a> {
    sources: &'a Sources<'a>,
    shape: &'a NormShape,
    rows: Vec<Option<Row>>,
}

/// The halves of an input: high, low.
const fn halves(value: i64) -> [i128; 2] {
    [(value >> 8) as i128, (value & 255) as i128]
}

impl<'a> Filler<'a> {
    pub(super) fn new(sources: &'a Sources<'a>, shape: &'a NormShape) -> Self {
        let layout = sources.layout;
        let rows = 0..1usize << (layout.pixel_vars + layout.batch_vars);
        Self {
            sources,
            shape,
            rows: rows
                .into_par_iter()
                .map(|row| of_row(sources, shape, row))
                .collect(),
        }
    }

    pub(super) fn row(&self, row: usize, cells: &mut Vec<u32>) {
        let Some(own) = self.rows[row] else {
            return;
        };
        let shape = self.shape;
        let Row {
            sum,
            squares,
            radicand,
            root,
        } = own;
        let delta = radicand - (root - 1) * (root - 1);
        push_limbs(cells, root, shape.root);
        push_limbs(cells, root / 2, shape.root);
        push_limbs(cells, root & 1, 1);
        push_limbs(cells, delta, shape.root + 1);
        push_limbs(cells, 2 * (root - 1) - delta, shape.root + 1);
        if shape.how.centred {
            push_signed(cells, sum, shape.sum);
        }
        let [high, cross, low] = squares;
        let total = (high << 16) + (cross << 9) + low;
        let square_digits = if shape.split {
            let to_cross = low >> 8;
            let to_high = (2 * cross + to_cross) >> 8;
            push_limbs(cells, total, 8);
            push_limbs(cells, total >> 8, 4);
            push_limbs(cells, total >> 12, 4);
            push_limbs(cells, total >> 16, 8);
            push_limbs(cells, total >> 24, 12);
            push_limbs(cells, total >> 36, 8);
            push_limbs(cells, to_cross, SQUARE_CARRY_BITS[0]);
            push_signed(cells, to_high, SQUARE_CARRY_BITS[1]);
            4
        } else {
            push_limbs(cells, total, shape.squares);
            limb_classes(shape.squares).len()
        };
        let k = u32::from(shape.how.precision);
        let mut root_digits = digits(root, limb_classes(shape.root).len());
        root_digits[0] -= 1;
        let parts = [
            product(
                &digits(i128::from(shape.channels) << (2 * k), 4),
                &digits(total, square_digits),
            ),
            digits(i128::from(shape.how.epsilon) << (2 * k), 6),
            negative(&product(&root_digits, &root_digits)),
            negative(&digits(delta, limb_classes(shape.root + 1).len())),
            if shape.how.centred {
                let sum = digits(sum, limb_classes(shape.sum).len());
                negative(&product(&sum, &sum))
            } else {
                Vec::new()
            },
        ];
        let mut carry = 0;
        for place in 0..shape.places - 1 {
            let here = parts.iter().filter_map(|part| part.get(place));
            carry = (carry + here.sum::<i128>()) >> 12;
            push_signed(cells, carry, NORM_CARRY_BITS);
        }
    }

    pub(super) fn element(&self, index: usize, cells: &mut Vec<u32>) {
        let layout = self.sources.layout;
        let (Some(element), Some(row)) = (
            layout.element_at(index),
            self.rows[index >> layout.channel_vars],
        ) else {
            return;
        };
        let shape = self.shape;
        let (k, f) = (
            u32::from(shape.how.precision),
            u32::from(shape.how.fraction),
        );
        let input = self.sources.input(element);
        let centred =
            ((i128::from(shape.channels) * i128::from(input)) << (k + f)) - (row.sum << f);
        let quotient = i128::from(self.sources.output(element));
        let half = row.root / 2;
        let rest = centred + half - quotient * row.root;
        let shifted = quotient + (1 << (shape.output - 1));
        let low = |value: i128| value & 0xfff;
        let carry = (low(shifted) * low(row.root) + low(rest) - low(half)) >> 12;
        push_limbs(cells, shifted, shape.output);
        push_limbs(cells, rest, shape.root);
        push_limbs(cells, row.root - 1 - rest, shape.root);
        push_limbs(cells, carry, 12);
        if shape.split {
            let [high, low] = halves(input);
            push_limbs(cells, high + 128, 8);
            push_limbs(cells, low, 8);
        }
    }
}

fn of_row(sources: &Sources<'_>, shape: &NormShape, row: usize) -> Option<Row> {
    let elements = sources.row(row)?;
    let k = u32::from(shape.how.precision);
    let inputs = || elements.clone().map(|element| sources.input(element));
    let sum: i64 = if shape.how.centred { inputs().sum() } else { 0 };
    let mut squares = [0i128; 3];
    for value in inputs() {
        if shape.split {
            let [high, low] = halves(value);
            let products = [high * high, high * low, low * low];
            squares.iter_mut().zip(products).for_each(|(s, p)| *s += p);
        } else {
            squares[2] += i128::from(value) * i128::from(value);
        }
    }
    let [high, cross, low] = squares;
    let total = (high << 16) + (cross << 9) + low;
    let sum = i128::from(sum);
    let variance = i128::from(shape.channels) * total - sum * sum + i128::from(shape.how.epsilon);
    let radicand = variance << (2 * k);
    Some(Row {
        sum: sum << k,
        squares,
        radicand,
        root: i128::from(root_above(radicand as i64)),
    })
}

/// Base-2^12 digits, the last one with the sign and all that is left.
fn digits(value: i128, count: usize) -> Vec<i128> {
    (0..count)
        .map(|place| {
            let rest = value >> (12 * place);
            if place + 1 == count {
                rest
            } else {
                rest & 0xfff
            }
        })
        .collect()
}

fn product(left: &[i128], right: &[i128]) -> Vec<i128> {
    let mut product = vec![0; left.len() + right.len()];
    for (i, &a) in left.iter().enumerate() {
        for (j, &b) in right.iter().enumerate() {
            product[i + j] += a * b;
        }
    }
    product
}

fn negative(digits: &[i128]) -> Vec<i128> {
    digits.iter().map(|digit| -digit).collect()
}
