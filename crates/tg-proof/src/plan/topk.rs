//! The k greatest elements along channels, in order, or their channels.
//!
//! Per row, rank j has a value v_j; per element a flag b_j for each rank. Exactly one flag of each rank is set, where the
//! element is v_j: c_j, the sum of flag times channel, is its channel. Ranks are in strict order of (value, channel):
//! `c_j - c_(j+1) = (2 t_j - 1) (m_j + 1)` makes t_j say whether the later rank has the lower channel, and
//! `v_j - v_(j+1) - t_j` is of limbs. So the ranks name k different elements. An element of no rank comes after the last:
//! `(1 - sum of b_j) (v_k - in - u) = distance` with u = 1 on the channels below c_k alone (as for the channel of the
//! greatest) and distance of limbs. *Stops: an element that is not there, one twice, another order, an element left out
//! that is greater, the later ones of equal elements.*

use super::CompareShape;
use super::PlanError;
use super::draft::{Draft, Gadget};
use super::stage::{StageDraft, rows_of};
use crate::plan::staged::{Constraint, Linear, Mask, Public, Staged};
use tg_ir::op::Ranked;
use tg_ir::{Program, TensorId};

/// Most ranks of a row that are proved: each is a column of flags.
pub const RANKS_MAX: usize = 32;

/// What the columns of the greatest elements are cut by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankShape {
    /// Ranks.
    pub ranks: usize,
    /// Bits of a value and of a difference of two; `count` of a difference of two channels.
    pub bits: CompareShape,
}

/// Limbs of an integer in `[-2^(bits - 1), 2^(bits - 1))`.
fn signed(limbs: &[usize], bits: u32) -> Linear {
    Linear::limbs(limbs, 12).and(-(1 << (bits - 1)))
}

impl Draft {
    pub(super) fn plan_ranks(
        &mut self,
        program: &Program,
        node: usize,
        input: TensorId,
        give: Ranked,
    ) -> Result<(RankShape, Gadget), PlanError> {
        let layout = self.layouts[input.index()];
        let ranks = program.nodes[node].shape.channels as usize;
        if ranks > RANKS_MAX {
            let why = "it gives more than 32 elements of a row";
            return Err(PlanError::unprovable(program, node, why));
        }
        let bits = self.along_channels(program, node, input)?;
        let shape = RankShape { ranks, bits };
        let rows = StageDraft::new(self, program, node, rows_of(layout), Mask::ALL)?;
        let (rows, sums) = rank_rows(rows, &shape, give);
        let (rows, row_columns) = rows.finish(self, program, node)?;
        let mut elements = StageDraft::new(self, program, node, layout, Mask::ALL)?;
        let input = elements.tensor(input);
        let limbs = super::limb_classes(bits.value).len();
        let values: Vec<Linear> = (0..ranks)
            .map(|rank| elements.row_limbs(&row_columns, rank * limbs, bits.value))
            .map(|limbs| signed(&limbs, bits.value))
            .collect();
        rank_elements(&mut elements, &shape, input, &values);
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

/// Values in order, and where they stand.
fn rank_rows(mut rows: StageDraft, shape: &RankShape, give: Ranked) -> (StageDraft, Vec<usize>) {
    let (of, linear) = (Linear::of, Constraint::linear);
    let CompareShape {
        difference,
        value,
        count,
    } = shape.bits;
    let values: Vec<Linear> = (0..shape.ranks).map(|_| rows.signed(value)).collect();
    let mut sums = Vec::new();
    let mut places = Vec::new();
    for value in &values {
        let [flags, place] = std::array::from_fn(|_| rows.variable());
        sums.extend([flags, place]);
        places.push(place);
        // Stops: a value that no element has.
        rows.vanishes(linear(of(flags).and(-1)));
        rows.output(linear(match give {
            Ranked::Values => value.clone(),
            Ranked::Channels => of(place),
        }));
    }
    for (values, places) in values.windows(2).zip(places.windows(2)) {
        let later = rows.limb(1);
        let apart = Linear::limbs(&rows.limbs(count), 12).and(1);
        let gap = Linear::limbs(&rows.limbs(difference), 12);
        // Stops: one element twice, and a bit that does not say which channel is lower.
        let moved = linear(of(places[0]).plus(places[1], -1).plus_form(&apart, 1));
        rows.vanishes(moved.times(Linear::default().plus(later, -2), apart));
        // Stops: another order, and the later ones of equal elements first.
        let order = values[0].clone().plus_form(&values[1], -1).plus(later, -1);
        rows.vanishes(linear(order.plus_form(&gap, -1)));
    }
    let [before, triangle] = std::array::from_fn(|_| rows.variable());
    sums.extend([before, triangle]);
    let place = places[shape.ranks - 1];
    rows.vanishes(linear(of(before).plus(place, -1)));
    let triangle = Linear::default().plus(triangle, 2).plus(place, 1);
    let negative = Linear::default().plus(place, -1);
    rows.vanishes(linear(triangle).times(negative, of(place)));
    (rows, sums)
}

/// Flags of the ranks, and how far every other element lies below the last.
fn rank_elements(elements: &mut StageDraft, shape: &RankShape, input: usize, values: &[Linear]) {
    let (of, linear) = (Linear::of, Constraint::linear);
    let channel = elements.public(Public::Channel);
    let mut others = Linear::default().and(1);
    for value in values {
        let flag = elements.limb(1);
        others = others.plus(flag, -1);
        // Stops: a flag at another value.
        let apart = value.clone().plus(input, -1);
        elements.vanishes(Constraint::default().times(of(flag), apart));
        elements.sum(linear(of(flag)));
        elements.sum(Constraint::default().times(of(flag), of(channel)));
    }
    let before = elements.limb(1);
    let distance = Linear::limbs(&elements.limbs(shape.bits.difference), 12);
    elements.sum(linear(of(before)));
    elements.sum(Constraint::default().times(of(before), of(channel)));
    // Stops: an element left out that comes before the last rank.
    let below = values[shape.ranks - 1]
        .clone()
        .plus(input, -1)
        .plus(before, -1);
    let rest = linear(Linear::default().plus_form(&distance, -1));
    elements.vanishes(rest.times(others, below));
}
