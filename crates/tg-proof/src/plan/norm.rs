//! Normalisation: exact sums, a root between two squares, a rounded division.
//!
//! Per row, s is the sum of the n inputs, Q that of their squares (inputs of 16 bits are 256 a + b, and Q = Qbb + 256 (2
//! Qab) + 65536 Qaa of three sums, each within the field). With t = 2^k s the row stage shows, limb by limb with carries,
//! `4^k n Q + 4^k epsilon - t^2 = (r - 1)^2 + delta` over the integers, and `delta + slack = 2 (r - 1)` with limbs delta and
//! slack: `(r - 1)^2 <= v < r^2`. *Stops: another root, another sum.*
//!
//! On each element `z r + rho = (n in - s) 2^(k+f) + floor(r / 2)` with rho and `r - 1 - rho` of limbs. Both sides exceed the
//! field, so that it is shown twice: modulo p as it stands, and modulo 2^12 by the lowest limbs, `z_0 r_0 + rho_0 - h_0 =
//! 2^12 kappa` with kappa a limb (k + f >= 12: the first term on the right is 0). Both sides differ by less than 2^12 p (a
//! condition on the shapes, below), so that they are equal. *Stops: quotients right modulo p only, rounding the other way.*
//!
//! Conditions, refused by name: k + f >= 12; r below 2^28; 2^k n |in| below 2^29; n <= 2^12 for inputs of 16 bits; and the
//! difference of both sides.

use super::PlanError;
use super::draft::{ColumnSet, Draft, Gadget};
use super::stage::{StageDraft, limb_classes, rows_of};
use crate::algebra::field::F;
use crate::algebra::layout::TensorLayout;
use crate::plan::staged::{Constraint, Linear, Mask, Staged};
use p3_field::PrimeField32;
use tg_ir::Program;
use tg_ir::bounds::FIELD_BOUND;
use tg_ir::op::Norm;

/// Bits of a limb.
const LIMB: u32 = 12;

/// What the columns of a normalisation are cut by: bits of its integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NormShape {
    /// The node's attributes.
    pub how: Norm,
    /// Channels.
    pub channels: u32,
    /// The root, its half, remainders.
    pub root: u32,
    /// 2^k times the sum, signed.
    pub sum: u32,
    /// The sum of squares.
    pub squares: u32,
    /// The output, signed.
    pub output: u32,
    /// Whether the squares are summed by halves of the inputs.
    pub split: bool,
    /// Limb places of the row's equation.
    pub places: usize,
}

/// Bits of the carries of the row's equation, signed.
pub const NORM_CARRY_BITS: u32 = 18;
/// Bits of the carry from Qbb, and of the signed one from 2 Qab.
pub const SQUARE_CARRY_BITS: [u32; 2] = [22, 22];

/// Bits of a non-negative integer.
const fn bits(value: i128) -> u32 {
    i128::BITS - value.leading_zeros()
}

/// The base-2^12 digits of a non-negative integer.
fn digits(mut value: i128) -> Vec<i128> {
    let mut digits = Vec::new();
    while value > 0 {
        digits.push(value & ((1 << LIMB) - 1));
        value >>= LIMB;
    }
    digits
}

impl NormShape {
    /// The widths for inputs of at most `magnitude`, or why such a normalisation is not proved.
    ///
    /// # Errors
    /// The condition that fails.
    pub fn new(how: Norm, channels: u32, magnitude: i64) -> Result<Self, &'static str> {
        let (n, most) = (i128::from(channels), i128::from(magnitude));
        let (k, f) = (u32::from(how.precision), u32::from(how.fraction));
        if k + f < LIMB {
            return Err("its precision and fraction together are below 12 bits");
        }
        let radicand = (n * n * most * most + i128::from(how.epsilon)) << (2 * k);
        let root = i128::try_from(radicand.unsigned_abs().isqrt()).unwrap_or(i128::MAX) + 1;
        let root = bits(root);
        let sum = bits((n * most) << k) + 1;
        let squares = n * most * most;
        let split = squares > i128::from(FIELD_BOUND);
        // Ties of the greatest possible quotient round up to the power of two itself.
        let reach = i128::try_from(((n << (2 * f)).unsigned_abs()).isqrt()).unwrap_or(0) + 1;
        let output = (bits(reach) + 1).max(LIMB + 1);
        if root > 28 || sum > 30 || split && channels > 1 << 12 {
            return Err("its root or its sums have too many bits");
        }
        let quotient = (1i128 << (output - 1)) * (1 << root) + (2 << root);
        let centred = (2 * n * most) << (k + f);
        if quotient + centred >= i128::from(F::ORDER_U32) << LIMB {
            return Err("its division has too many bits");
        }
        let mut shape = Self {
            how,
            channels,
            root,
            sum,
            squares: if split { 0 } else { bits(squares) },
            output,
            split,
            places: 0,
        };
        let factor = digits(n << (2 * k)).len();
        let limbs = |bits: u32| limb_classes(bits).len();
        let products = [
            factor + shape.square_digits() - 1,
            2 * limbs(root) - 1,
            if how.centred { 2 * limbs(sum) - 1 } else { 0 },
            digits(i128::from(how.epsilon) << (2 * k)).len(),
            limbs(root + 1),
        ];
        shape.places = products.into_iter().max().unwrap_or(0);
        Ok(shape)
    }

    /// Base-2^12 digits of the sum of squares.
    fn square_digits(&self) -> usize {
        if self.split {
            4
        } else {
            limb_classes(self.squares).len()
        }
    }
}

/// Variables of a row stage that element stages read again.
struct Rows {
    columns: ColumnSet,
    stage: crate::plan::staged::Stage,
    sums: Vec<usize>,
    /// First columns of root, half and sum.
    first: [usize; 3],
}

impl Draft {
    pub(super) fn plan_norm(
        &mut self,
        program: &Program,
        node: usize,
        how: &Norm,
    ) -> Result<(NormShape, Gadget), PlanError> {
        let layout = self.layouts[node + 1];
        let input = program.nodes[node].op.inputs()[0];
        let magnitude = self.magnitudes[input.index()];
        let shape = NormShape::new(*how, layout.channels as u32, magnitude)
            .map_err(|why| PlanError::unprovable(program, node, why))?;
        let rows = self.norm_rows(program, node, layout, &shape)?;
        let (n, k, f) = (
            i128::from(shape.channels),
            u32::from(how.precision),
            u32::from(how.fraction),
        );
        let (of, linear) = (Linear::of, Constraint::linear);
        let limbs = |limbs: &[usize]| Linear::limbs(limbs, LIMB);

        let mut draft = StageDraft::new(self, program, node, layout, Mask::ALL)?;
        let input = draft.tensor(input);
        let quotient = draft.limbs(shape.output);
        let remainder = draft.limbs(shape.root);
        let slack = draft.limbs(shape.root);
        let carry = draft.limb(LIMB);
        let halves = shape.split.then(|| [draft.limb(8), draft.limb(8)]);
        let [root_first, half_first, sum_first] = rows.first;
        let root = draft.row_limbs(&rows.columns, root_first, shape.root);
        let half = draft.row_limbs(&rows.columns, half_first, shape.root);
        let z = limbs(&quotient).and(-(1 << (shape.output - 1)));
        draft.output(linear(z.clone()));
        // Stops: another quotient, as far as p can see.
        let mut whole = limbs(&remainder).plus(input, -(n << (k + f)));
        whole = whole.plus_form(&limbs(&half), -1);
        if how.centred {
            let sum = draft.row_limbs(&rows.columns, sum_first, shape.sum);
            let sum = limbs(&sum).and(-(1 << (shape.sum - 1)));
            whole = whole.plus_form(&sum, 1 << f);
        }
        draft.vanishes(linear(whole).times(z, limbs(&root)));
        // Stops: one that is right modulo p only.
        let low = of(remainder[0]).plus(half[0], -1).plus(carry, -(1 << LIMB));
        draft.vanishes(linear(low).times(of(quotient[0]), of(root[0])));
        // Stops: a remainder that is not below the root.
        let below = limbs(&remainder).plus_form(&limbs(&slack), 1);
        draft.vanishes(linear(below.plus_form(&limbs(&root), -1).and(1)));
        if how.centred {
            draft.sum(linear(of(input)));
        }
        if let Some([high, low]) = halves {
            // Stops: halves of another input.
            let high = of(high).and(-128);
            let parts = of(low).plus(input, -1).plus_form(&high, 256);
            draft.vanishes(linear(parts));
            let low = of(low);
            for [left, right] in [[&high, &high], [&high, &low], [&low, &low]] {
                draft.sum(Constraint::default().times(left.clone(), right.clone()));
            }
        } else {
            draft.sum(Constraint::default().times(of(input), of(input)));
        }
        let (elements, columns) = draft.finish(self, program, node)?;
        Ok((
            shape,
            Gadget {
                staged: Staged {
                    rows: Some((rows.stage, rows.sums)),
                    elements,
                },
                row_columns: Some(rows.columns),
                columns,
            },
        ))
    }

    fn norm_rows(
        &mut self,
        program: &Program,
        node: usize,
        layout: TensorLayout,
        shape: &NormShape,
    ) -> Result<Rows, PlanError> {
        let k = u32::from(shape.how.precision);
        let linear = Constraint::linear;
        let limbs = |limbs: &[usize]| Linear::limbs(limbs, LIMB);
        let mut draft = StageDraft::new(self, program, node, rows_of(layout), Mask::ALL)?;
        let root_first = draft.next_column();
        let root = draft.limbs(shape.root);
        let half_first = draft.next_column();
        let half = draft.limbs(shape.root);
        let parity = draft.limb(1);
        let delta = draft.limbs(shape.root + 1);
        let slack = draft.limbs(shape.root + 1);
        let doubled = limbs(&half).plus_form(&limbs(&half), 1).plus(parity, 1);
        draft.vanishes(linear(doubled.plus_form(&limbs(&root), -1)));
        // Stops: a root whose square is not above v, or by more than it may.
        let between = limbs(&delta).plus_form(&limbs(&slack), 1);
        draft.vanishes(linear(between.plus_form(&limbs(&root), -2).and(2)));
        let sum_first = draft.next_column();
        let mut sums = Vec::new();
        let mut sum_digits = Vec::new();
        if shape.how.centred {
            let sum = draft.limbs(shape.sum);
            let own = draft.variable();
            sums.push(own);
            // Stops: another sum of the inputs.
            let scaled = limbs(&sum).and(-(1 << (shape.sum - 1)));
            draft.vanishes(linear(scaled.plus(own, -(1 << k))));
            sum_digits = sum.iter().map(|&limb| Linear::of(limb)).collect();
            let top = sum_digits.len() - 1;
            let offset = 1i128 << (shape.sum - 1 - LIMB * top as u32);
            sum_digits[top] = Linear::of(sum[top]).and(-offset);
        }
        let squares = squares(&mut draft, shape, &mut sums);
        let mut root_digits: Vec<Linear> = root.iter().map(|&limb| Linear::of(limb)).collect();
        root_digits[0] = Linear::of(root[0]).and(-1);
        let equation = Equation {
            squares: &squares,
            sum: &sum_digits,
            root: &root_digits,
            delta: &delta,
        };
        equation.place(&mut draft, shape);
        let (stage, columns) = draft.finish(self, program, node)?;
        Ok(Rows {
            columns,
            stage,
            sums,
            first: [root_first, half_first, sum_first],
        })
    }
}

/// The base-2^12 digits of the sum of squares, which is one sum or made of three.
fn squares(draft: &mut StageDraft, shape: &NormShape, sums: &mut Vec<usize>) -> Vec<Linear> {
    let linear = Constraint::linear;
    let of = Linear::of;
    if !shape.split {
        let digits = draft.limbs(shape.squares);
        let own = draft.variable();
        sums.push(own);
        draft.vanishes(linear(Linear::limbs(&digits, LIMB).plus(own, -1)));
        return digits.into_iter().map(of).collect();
    }
    let [high, cross, low] = std::array::from_fn(|_| draft.variable());
    sums.extend([high, cross, low]);
    let first = draft.limb(8);
    let [second, third] = std::array::from_fn(|_| draft.limb(4));
    let [fourth, fifth, sixth] = [8, 12, 8].map(|class| draft.limb(class));
    let to_cross = Linear::limbs(&draft.limbs(SQUARE_CARRY_BITS[0]), LIMB);
    let to_high = draft.signed(SQUARE_CARRY_BITS[1]);
    // Bytes 0 and 1 of the sum, then the rest. Stops: another sum of squares.
    let lowest = of(low).plus(first, -1).plus_form(&to_cross, -256);
    draft.vanishes(linear(lowest));
    let middle = to_cross.plus(cross, 2).plus(second, -1).plus(third, -16);
    draft.vanishes(linear(middle.plus_form(&to_high, -256)));
    let highest = to_high.plus(high, 1).plus(fourth, -1).plus(fifth, -256);
    draft.vanishes(linear(highest.plus(sixth, -(1 << 20))));
    vec![
        of(first).plus(second, 256),
        of(third).plus(fourth, 16),
        of(fifth),
        of(sixth),
    ]
}

/// `4^k n Q + 4^k epsilon - t^2 - (r - 1)^2 - delta = 0` in base 2^12.
struct Equation<'a> {
    squares: &'a [Linear],
    sum: &'a [Linear],
    root: &'a [Linear],
    delta: &'a [usize],
}

impl Equation<'_> {
    fn place(&self, draft: &mut StageDraft, shape: &NormShape) {
        let k = u32::from(shape.how.precision);
        let factor = digits(i128::from(shape.channels) << (2 * k));
        let constant = digits(i128::from(shape.how.epsilon) << (2 * k));
        let mut carry = Linear::default();
        for place in 0..shape.places {
            let mut form = carry.and(constant.get(place).copied().unwrap_or(0));
            for (low, &digit) in factor.iter().enumerate() {
                let square = place.checked_sub(low).and_then(|at| self.squares.get(at));
                if let Some(square) = square {
                    form = form.plus_form(square, digit);
                }
            }
            if let Some(&delta) = self.delta.get(place) {
                form = form.plus(delta, -1);
            }
            carry = Linear::default();
            if place + 1 < shape.places {
                carry = draft.signed(NORM_CARRY_BITS);
                form = form.plus_form(&carry, -(1 << LIMB));
            }
            let mut constraint = Constraint::linear(form);
            for digits in [self.sum, self.root] {
                for (low, left) in digits.iter().enumerate() {
                    let right = place.checked_sub(low).and_then(|at| digits.get(at));
                    if let Some(right) = right {
                        let negative = Linear::default().plus_form(left, -1);
                        constraint = constraint.times(negative, right.clone());
                    }
                }
            }
            draft.vanishes(constraint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn norm(precision: u8, fraction: u8, epsilon: u64) -> Norm {
        Norm {
            centred: true,
            epsilon,
            precision,
            fraction,
        }
    }

    /// The shapes of the usual transformers are provable, and each condition refuses what it names.
    #[test]
    fn conditions_on_the_shapes() {
        for (channels, magnitude, precision, fraction) in [
            (64, 127, 8, 11),
            (64, 32_767, 2, 11),
            (768, 32_767, 2, 10),
            (768, 127, 5, 10),
            (1_024, 16_383, 3, 9),
            (4_096, 2_000, 4, 8),
            (2, 127, 4, 14),
        ] {
            let shape = NormShape::new(norm(precision, fraction, 100), channels, magnitude);
            assert!(shape.is_ok(), "{channels} {magnitude}: {shape:?}");
        }
        let refused = |how, channels, magnitude| NormShape::new(how, channels, magnitude).is_err();
        assert!(refused(norm(1, 10, 0), 768, 127));
        assert!(refused(norm(9, 10, 0), 768, 32_767));
        assert!(refused(norm(3, 9, 0), 1_024, 32_767));
    }

    /// Every place of the row's equation and its carry stay far within the field.
    #[test]
    fn places_stay_within_the_field() {
        for (channels, magnitude, precision, fraction) in [(768, 32_767, 2, 10), (2, 127, 4, 14)] {
            let how = norm(precision, fraction, 1 << 20);
            let shape = NormShape::new(how, channels, magnitude).ok();
            let places = shape.map_or(0, |shape| shape.places) as i64;
            // At most three digits of the factor, four of the squares, three of root and sum each, all below 2^12.
            let most = (3 * (1i64 << 24)) + 2 * 3 * (1 << 24) + (1 << 13);
            assert!(places > 0 && places <= 8);
            let carry = (most >> 12) + 1;
            assert!(carry < 1 << (NORM_CARRY_BITS - 1));
            assert!(most + carry + (carry << 12) < FIELD_BOUND);
        }
    }
}
