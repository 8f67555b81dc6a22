//! Comparisons and selections, element by element and along channels.
//!
//! A comparison is a committed bit and the magnitude of the difference in limbs: `a - b = m` or `-m` (or `m + 1`, where the
//! bit must say which). Magnitudes are below 2^29, so that both sides are integers of one representative and the bit has
//! one value, unless both values of it give the same output. The greater one is (a + b + m) / 2; a selected element is committed,
//! so that outputs are linear in committed columns.
//!
//! Along channels, M is the greatest (or least) element of a row: every distance to it is of limbs, and a flag that is 1 only
//! where the distance is 0 sums to at least 1. The channel k of the greatest: exactly one flag, at channel k = the sum of
//! flag times channel; bits u sum to k, and u times channel sums to k (k - 1) / 2, which only the bits of the channels
//! below k do (any other k channels sum to more); the distance of those is at least 1. *Stops: an element greater than the
//! greatest, a greatest that is no element, the second of equal ones.*

use super::PlanError;
use super::draft::{Draft, Gadget};
use super::stage::{StageDraft, rows_of};
use super::tables::LookupTable;
use crate::algebra::field::F;
use crate::plan::staged::{Constraint, Linear, Mask, Public, Slot, Staged};
use p3_field::PrimeField32;
use tg_ir::op::{self, Extreme, Reduction, Relation};
use tg_ir::{Op, Program, TensorId};

/// Most bits of a difference that is compared.
const DIFFERENCE_BITS_MAX: u32 = 29;
/// 1/2 modulo p.
const HALF: i128 = (F::ORDER_U32 as i128 + 1) / 2;
/// Most channels that are compared along: n (n - 1) / 2, the sum of all channels, is below p, so that sums of flagged channels
/// that are equal modulo p are equal.
const CHANNELS_MAX: usize = 65_279;
const _: () = assert!((CHANNELS_MAX as u64) * (CHANNELS_MAX as u64 - 1) / 2 < F::ORDER_U32 as u64);

/// What the columns of a comparison are cut by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompareShape {
    /// Bits of a difference of two elements.
    pub difference: u32,
    /// Bits of the greatest or least element, signed.
    pub value: u32,
    /// Bits of a number of channels.
    pub count: u32,
}

fn bits(value: i64) -> u32 {
    i64::BITS - value.leading_zeros()
}

impl Draft {
    pub(super) fn plan_compare(
        &mut self,
        program: &Program,
        node: usize,
    ) -> Result<(CompareShape, Gadget), PlanError> {
        let layout = self.layouts[node + 1];
        let op = &program.nodes[node].op;
        let [a, b] = match op {
            Op::Extremum(op::Extremum { inputs, .. }) | Op::Compare(op::Compare { inputs, .. }) => {
                *inputs
            }
            _ => return Err(no_gadget(program, node)),
        };
        let difference = bits(self.magnitudes[a.index()] + self.magnitudes[b.index()] + 1);
        let shape = self.compare_shape(program, node, difference)?;
        let mut draft = StageDraft::new(self, program, node, layout, Mask::ALL)?;
        let [a, b] = [a, b].map(|input| draft.tensor(input));
        let (of, linear) = (Linear::of, Constraint::linear);
        let minus = || of(a).plus(b, -1);
        let magnitude = Linear::limbs(&draft.limbs(difference), 12);
        let above = draft.limb(1);
        let twice = || Linear::default().plus(above, -2);
        let signed = minus().plus_form(&magnitude, 1);
        match op {
            Op::Extremum(op::Extremum { which, .. }) => {
                let sign = match which {
                    Extreme::Greater => HALF,
                    Extreme::Lesser => -HALF,
                };
                let mean = Linear::default().plus(a, HALF).plus(b, HALF);
                draft.output(linear(mean.plus_form(&magnitude, sign)));
                // Stops: the other of the two.
                draft.vanishes(linear(signed).times(twice(), magnitude));
            }
            Op::Compare(op::Compare {
                relation: Relation::Equal,
                ..
            }) => {
                let below = draft.limb(1);
                // Stops: unequal called equal, and equal called unequal.
                let sign = Linear::default().plus(above, -1).plus(below, 1);
                draft.vanishes(linear(minus()).times(sign, magnitude.and(1)));
                draft.vanishes(Constraint::default().times(of(above), of(below)));
                let neither = Linear::default().and(1).plus(above, -1).plus(below, -1);
                draft.output(linear(neither));
            }
            Op::Compare(op::Compare { relation, .. }) => {
                let strict = matches!(relation, Relation::Greater);
                let signed = signed.plus(above, -1).and(i128::from(!strict));
                // Stops: a relation that does not hold, and one that does and is denied.
                draft.vanishes(linear(signed).times(twice(), magnitude));
                draft.output(linear(of(above)));
            }
            _ => return Err(no_gadget(program, node)),
        }
        self.elements_alone(draft, program, node, shape)
    }

    pub(super) fn plan_select(
        &mut self,
        program: &Program,
        node: usize,
        condition: TensorId,
        inputs: [TensorId; 2],
    ) -> Result<(CompareShape, Gadget), PlanError> {
        let layout = self.layouts[node + 1];
        let most = inputs.map(|input| self.magnitudes[input.index()]);
        let shape = CompareShape {
            value: bits(most[0].max(most[1])) + 1,
            ..self.compare_shape(program, node, bits(most[0] + most[1]))?
        };
        let values = (-128..128).collect();
        let flags = (-128..128).map(|value| i64::from(value != 0)).collect();
        let table = LookupTable::of_integers(vec![values, flags]);
        let table = self.shared_table(program, node, table)?;
        let mut draft = StageDraft::new(self, program, node, layout, Mask::ALL)?;
        let condition = draft.tensor(condition);
        let [first, second] = inputs.map(|input| draft.tensor(input));
        let [value, flag] = [draft.variable(), draft.variable()];
        draft.lookup(table, vec![Slot::Variable(value), Slot::Variable(flag)]);
        let (of, linear) = (Linear::of, Constraint::linear);
        // Stops: the flag of another condition.
        draft.vanishes(linear(of(value).plus(condition, -1)));
        let chosen = draft.signed(shape.value);
        draft.output(linear(chosen.clone()));
        // Stops: the other of the two.
        let other = of(second).plus_form(&chosen, -1);
        draft.vanishes(linear(other).times(of(flag), of(first).plus(second, -1)));
        self.elements_alone(draft, program, node, shape)
    }

    pub(super) fn plan_greatest(
        &mut self,
        program: &Program,
        node: usize,
    ) -> Result<(CompareShape, Gadget), PlanError> {
        let op = &program.nodes[node].op;
        let input = op.inputs()[0];
        let layout = self.layouts[input.index()];
        let shape = self.along_channels(program, node, input)?;
        let ranked = matches!(op, Op::ArgMax(_));
        let rows = StageDraft::new(self, program, node, rows_of(layout), Mask::ALL)?;
        let (rows, sums) = greatest_rows(rows, &shape, ranked);
        let (rows, row_columns) = rows.finish(self, program, node)?;
        let mut elements = StageDraft::new(self, program, node, layout, Mask::ALL)?;
        let input = elements.tensor(input);
        let value = elements.row_limbs(&row_columns, 0, shape.value);
        let value = Linear::limbs(&value, 12).and(-(1 << (shape.value - 1)));
        let least = matches!(
            op,
            Op::Reduce(op::Reduce {
                reduction: Reduction::Least,
                ..
            })
        );
        let distance = if least {
            Linear::of(input).plus_form(&value, -1)
        } else {
            value.plus(input, -1)
        };
        greatest_elements(&mut elements, &shape, distance, ranked);
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

    /// The widths for comparing along the channels of a tensor.
    pub(super) fn along_channels(
        &self,
        program: &Program,
        node: usize,
        input: TensorId,
    ) -> Result<CompareShape, PlanError> {
        let channels = self.layouts[input.index()].channels;
        if channels > CHANNELS_MAX {
            let why = "it compares along more than 65,279 channels";
            return Err(PlanError::unprovable(program, node, why));
        }
        let magnitude = self.magnitudes[input.index()];
        Ok(CompareShape {
            value: bits(magnitude) + 1,
            count: bits(channels as i64),
            ..self.compare_shape(program, node, bits(2 * magnitude + 1))?
        })
    }

    fn compare_shape(
        &self,
        program: &Program,
        node: usize,
        difference: u32,
    ) -> Result<CompareShape, PlanError> {
        if difference > DIFFERENCE_BITS_MAX {
            let why = "it compares elements that differ by 2^29 or more";
            return Err(PlanError::unprovable(program, node, why));
        }
        Ok(CompareShape {
            difference,
            value: 0,
            count: 0,
        })
    }

    fn elements_alone(
        &mut self,
        draft: StageDraft,
        program: &Program,
        node: usize,
        shape: CompareShape,
    ) -> Result<(CompareShape, Gadget), PlanError> {
        let (elements, columns) = draft.finish(self, program, node)?;
        Ok((
            shape,
            Gadget {
                staged: Staged {
                    rows: None,
                    elements,
                },
                row_columns: None,
                columns,
            },
        ))
    }
}

/// The greatest element, and how many elements it is; or the channel of the first one.
fn greatest_rows(
    mut rows: StageDraft,
    shape: &CompareShape,
    ranked: bool,
) -> (StageDraft, Vec<usize>) {
    let (of, linear) = (Linear::of, Constraint::linear);
    let value = rows.signed(shape.value);
    let others = (!ranked).then(|| Linear::limbs(&rows.limbs(shape.count), 12));
    let flags = rows.variable();
    let mut sums = vec![flags];
    // Stops: a greatest element that is none of the elements.
    let count = of(flags).and(-1);
    rows.vanishes(linear(match &others {
        Some(others) => count.plus_form(others, -1),
        None => count,
    }));
    if ranked {
        let [place, before, triangle] = std::array::from_fn(|_| rows.variable());
        sums.extend([place, before, triangle]);
        // Stops: the second of equal ones.
        rows.vanishes(linear(of(before).plus(place, -1)));
        let triangle = Linear::default().plus(triangle, 2).plus(place, 1);
        let negative = Linear::default().plus(place, -1);
        rows.vanishes(linear(triangle).times(negative, of(place)));
        rows.output(linear(of(place)));
    } else {
        rows.output(linear(value));
    }
    (rows, sums)
}

/// Distances to the greatest element, and flags of those that are it.
fn greatest_elements(
    elements: &mut StageDraft,
    shape: &CompareShape,
    mut whole: Linear,
    ranked: bool,
) {
    let (of, linear) = (Linear::of, Constraint::linear);
    let distance = Linear::limbs(&elements.limbs(shape.difference), 12);
    let flag = elements.limb(1);
    whole = whole.plus_form(&distance, -1);
    elements.sum(linear(of(flag)));
    if ranked {
        let before = elements.limb(1);
        let channel = elements.public(Public::Channel);
        whole = whole.plus(before, -1);
        elements.sum(Constraint::default().times(of(flag), of(channel)));
        elements.sum(linear(of(before)));
        elements.sum(Constraint::default().times(of(before), of(channel)));
    }
    // Stops: an element beyond the greatest.
    elements.vanishes(linear(whole));
    // Stops: a flag where the distance is not 0.
    elements.vanishes(Constraint::default().times(of(flag), distance));
}

fn no_gadget(program: &Program, node: usize) -> PlanError {
    PlanError::unprovable(program, node, "no proof of this operator exists yet")
}
