//! Softmax: the greatest score attained and greatest, exponentials by a segment table, the division with its remainder.
//!
//! Per row (a pixel of one input): M the greatest score, S the sum of the exponentials e. Elements in use are public (the
//! causal mask). On each of them
//! * `in = M - d`, d >= 0 by a segment of the exponential table and two limbs; the segment gives e, and whether it is {0};
//! * `z S + rho = 32767 e + floor(S / 2)` with rho and `S - 1 - rho` of limbs, z of 15 bits.
//!
//! Per row, with sums along channels in use: S is the sum of the e; the number of elements in the segment {0}, less 1, is a
//! limb, so that some d is 0: M is a score, hence an integer of their range, hence every d is the integer `M - in` (both
//! within B: `2 |in| <= B`), and M is the greatest. *Stops: a greatest score too small (no d), too large (none is 0).*
//!
//! The division holds modulo p: `z S + rho = X + j p` with X = 32767 e + floor(S/2) in [0, p), and j >= 0 since nothing on
//! the left is negative. Summed over the n elements of a row, with Z and R the sums of z and rho,
//! `(Z - 32767) S + R - n floor(S / 2) = p (sum of j)`. The row stage shows that the left side is 0 over the integers: Z -
//! 32767 is within [-2048, 2048) (it is at most n / 2 from 0 for true quotients), and the equation is checked limb by limb
//! of S, floor(S/2) and R with carries, every term below 2^26. So every j is 0. *Stops: quotients right modulo p only,
//! rounding the other way, a sum of other exponentials.*

use super::PlanError;
use super::draft::{Draft, Gadget};
use super::stage::{StageDraft, rows_of};
use super::tables::LookupTable;
use crate::algebra::field::F;
use crate::plan::cost::Added;
use crate::plan::staged::{Constraint, Linear, Mask, Public, Slot, Staged};
use p3_field::PrimeCharacteristicRing;
use std::sync::Arc;
use tg_ir::exponential::ExponentialSegment;
use tg_ir::op::{PROBABILITY_ONE, Softmax};
use tg_ir::{ExponentialTable, Program};
use tg_types::Digest;
use tg_types::codec::{Encode, Writer};

/// Most channels of a softmax that is proved: the sum of a row's probabilities is within 2^11 of 32,767.
pub const SOFTMAX_CHANNELS_MAX: usize = 4_094;
/// Bits of a probability.
pub const PROBABILITY_BITS: u32 = 15;
/// Bits of the greatest score, shifted by 2^30.
pub const SCORE_BITS: u32 = 31;
/// Bits of the carries between the limbs of the row's equation, signed.
pub const SOFTMAX_CARRY_BITS: u32 = 16;
/// Bits of the number of greatest scores less 1, and of the signed difference of the sum of probabilities to 32,767.
pub const SOFTMAX_COUNT_BITS: u32 = 12;

/// What the columns of a softmax are cut by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoftmaxShape {
    /// The exponentials.
    pub table: Arc<ExponentialTable>,
    /// Bits of the sum of a row's exponentials, of its half, of a remainder.
    pub sum_bits: u32,
}

/// Columns of the row stage that the element stage reads again.
#[derive(Default)]
struct RowColumns {
    sum: usize,
    half: usize,
}

impl Draft {
    pub(super) fn plan_softmax(
        &mut self,
        program: &Program,
        node: usize,
        how: &Softmax,
    ) -> Result<(SoftmaxShape, Gadget), PlanError> {
        let unprovable = |why| PlanError::unprovable(program, node, why);
        let layout = self.layouts[node + 1];
        if layout.channels > SOFTMAX_CHANNELS_MAX {
            return Err(unprovable("it has more than 4,094 channels"));
        }
        let input = program.nodes[node].op.inputs()[0];
        let reach = 2 * self.magnitudes[input.index()];
        let reach = u32::try_from(reach).map_err(|_| unprovable("its scores are too large"))?;
        let (table, exponentials) = self.exponentials(program, node, how, reach)?;
        let shape = SoftmaxShape {
            table: exponentials,
            sum_bits: (layout.channels as u32 * u32::from(PROBABILITY_ONE)).ilog2() + 1,
        };
        let width = program.nodes[node].shape.width as usize;
        let mask = Mask {
            causal: how.causal.map(|offset| (width, offset as usize)),
        };
        let mut rows = StageDraft::new(self, program, node, rows_of(layout), Mask::ALL)?;
        let counts = (0..layout.pixels).map(|pixel| F::from_usize(mask.channels(&layout, pixel)));
        let (first, sums) = softmax_rows(&mut rows, &shape, counts.collect());
        let (rows, row_columns) = rows.finish(self, program, node)?;
        let mut elements = StageDraft::new(self, program, node, layout, mask)?;
        let input = elements.tensor(input);
        let bits = shape.sum_bits;
        let greatest = elements.row_limbs(&row_columns, 0, SCORE_BITS);
        let row = [
            limbs(&greatest).and(-(1 << (SCORE_BITS - 1))),
            limbs(&elements.row_limbs(&row_columns, first.sum, bits)),
            limbs(&elements.row_limbs(&row_columns, first.half, bits)),
        ];
        softmax_elements(&mut elements, &shape, (table, input), &row);
        let (elements, columns) = elements.finish(self, program, node)?;
        Ok((
            shape,
            Gadget {
                staged: Staged {
                    rows: Some((rows, sums)),
                    elements,
                },
                row_columns: Some(row_columns),
                columns,
            },
        ))
    }
}

impl Draft {
    /// The exponentials of a softmax for scores that differ by at most `reach`, and the index of their table. Layers share
    /// them: they are made once.
    fn exponentials(
        &mut self,
        program: &Program,
        node: usize,
        how: &Softmax,
        reach: u32,
    ) -> Result<(usize, Arc<ExponentialTable>), PlanError> {
        let mut made_of = Writer::new();
        how.rescale.encode(&mut made_of);
        made_of.u32(reach);
        how.table.iter().for_each(|&entry| made_of.u16(entry));
        let digest = Digest::of_blob(&made_of.into_bytes());
        if let Some(known) = self.exponentials.get(&digest) {
            return Ok(known.clone());
        }
        let scanned = Added {
            scanned: how.table.len() as u64,
            ..Added::default()
        };
        self.cost.add(program, node, scanned)?;
        let made = ExponentialTable::build(how, reach).ok_or_else(|| {
            let why = "its table of exponentials needs more than 2^14 segments";
            PlanError::unprovable(program, node, why)
        })?;
        let table = self.shared_table(program, node, exponential_table(&made))?;
        let own = (table, Arc::new(made));
        self.exponentials.insert(digest, own.clone());
        Ok(own)
    }
}

fn limbs(limbs: &[usize]) -> Linear {
    Linear::limbs(limbs, 12)
}

/// Greatest score, sum of exponentials and its half, and the row's equation; gives the sums along channels.
fn softmax_rows(
    rows: &mut StageDraft,
    shape: &SoftmaxShape,
    counts: Vec<F>,
) -> (RowColumns, Vec<usize>) {
    let (of, linear) = (Linear::of, Constraint::linear);
    rows.limbs(SCORE_BITS);
    let mut first = RowColumns {
        sum: rows.next_column(),
        half: 0,
    };
    let sum = rows.limbs(shape.sum_bits);
    first.half = rows.next_column();
    let half = rows.limbs(shape.sum_bits);
    let parity = rows.limb(1);
    let others = rows.limb(SOFTMAX_COUNT_BITS);
    let excess = rows.signed(SOFTMAX_COUNT_BITS);
    let count = rows.public(Public::PerPixel(counts));
    let mut sums = vec![rows.variable(), rows.variable(), rows.variable()];
    let [exponential_sum, firsts, probabilities] = [sums[0], sums[1], sums[2]];
    // Stops: a sum of other exponentials.
    rows.vanishes(linear(limbs(&sum).plus(exponential_sum, -1)));
    let doubled = limbs(&half).plus_form(&limbs(&half), 1).plus(parity, 1);
    rows.vanishes(linear(doubled.plus_form(&limbs(&sum), -1)));
    // Stops: a greatest score that is none of the scores.
    rows.vanishes(linear(of(firsts).plus(others, -1).and(-1)));
    let off = of(probabilities).plus_form(&excess, -1);
    rows.vanishes(linear(off.and(-i128::from(PROBABILITY_ONE))));
    // Stops: quotients that are right modulo p only.
    let mut carry = Linear::default();
    for limb in 0..sum.len() {
        let remainders = rows.variable();
        sums.push(remainders);
        let mut place = carry.plus(remainders, 1);
        carry = Linear::default();
        if limb + 1 < sum.len() {
            carry = rows.signed(SOFTMAX_CARRY_BITS);
            place = place.plus_form(&carry, -(1 << 12));
        }
        let place = linear(place)
            .times(excess.clone(), of(sum[limb]))
            .times(Linear::default().plus(count, -1), of(half[limb]));
        rows.vanishes(place);
    }
    (first, sums)
}

/// Distance, exponential, probability and remainder of each element.
fn softmax_elements(
    elements: &mut StageDraft,
    shape: &SoftmaxShape,
    (table, input): (usize, usize),
    [greatest, sum, half]: &[Linear; 3],
) {
    let (of, linear) = (Linear::of, Constraint::linear);
    let [base, value, first, low_class] = std::array::from_fn(|_| elements.variable());
    let mut slots = vec![base, value, first, low_class];
    let high_class = shape.table.has_high_limb().then(|| elements.variable());
    slots.extend(high_class);
    elements.lookup(table, slots.into_iter().map(Slot::Variable).collect());
    let mut distance = of(base).plus(elements.limb_of_class(low_class), 1);
    if let Some(class) = high_class {
        distance = distance.plus(elements.limb_of_class(class), 1 << 12);
    }
    let probability = limbs(&elements.limbs(PROBABILITY_BITS));
    let remainder = elements.limbs(shape.sum_bits);
    let slack = limbs(&elements.limbs(shape.sum_bits));
    elements.output(linear(probability.clone()));
    // Stops: a distance that is not the one to the greatest score.
    elements.vanishes(linear(distance.plus(input, 1).plus_form(greatest, -1)));
    // Stops: another quotient.
    let rest = limbs(&remainder).plus(value, -i128::from(PROBABILITY_ONE));
    let rest = linear(rest.plus_form(half, -1));
    elements.vanishes(rest.times(probability.clone(), sum.clone()));
    // Stops: a remainder that is not below the divisor.
    let below = limbs(&remainder).plus_form(&slack, 1).plus_form(sum, -1);
    elements.vanishes(linear(below.and(1)));
    for summed in [of(value), of(first), probability] {
        elements.sum(linear(summed));
    }
    for limb in remainder {
        elements.sum(linear(of(limb)));
    }
}

/// Base, exponential, whether it is the segment {0}, class of the offset's low limb; last the high limb's class.
fn exponential_table(table: &ExponentialTable) -> LookupTable {
    let column =
        |value: fn(&ExponentialSegment) -> i64| table.segments().iter().map(value).collect();
    let mut columns: Vec<Vec<i64>> = vec![
        column(|s| s.base.into()),
        column(|s| s.value.into()),
        column(|s| i64::from(s.base == 0)),
        column(|s| s.class_low().into()),
    ];
    if table.has_high_limb() {
        columns.push(column(|s| s.class_high().into()));
    }
    LookupTable::of_integers(columns)
}
