//! The columns of a softmax.

use super::sources::{Sources, push_limbs, push_signed};
use crate::error::ProveError;
use p3_maybe_rayon::prelude::*;
use tg_ir::Op;
use tg_ir::op::{self, PROBABILITY_ONE, Softmax};
use tg_proof::plan::{
    PROBABILITY_BITS, SCORE_BITS, SOFTMAX_CARRY_BITS, SOFTMAX_COUNT_BITS, SoftmaxShape,
    limb_classes,
};

pub(super) struct Filler<'a> {
    sources: &'a Sources<'a>,
    shape: &'a SoftmaxShape,
    /// Whether an offset takes a high limb: a look at the whole table.
    high_limb: bool,
    /// Per row the number of channels in use, the greatest score and the sum of exponentials.
    rows: Vec<(usize, i64, i64)>,
}

impl<'a> Filler<'a> {
    pub(super) fn new(sources: &'a Sources<'a>, shape: &'a SoftmaxShape) -> Self {
        let how = how(sources);
        let layout = sources.layout;
        let width = sources.program.nodes[sources.node].shape.width as usize;
        let rows = 0..1usize << (layout.pixel_vars + layout.batch_vars);
        let of = |row: usize| {
            let Some(elements) = sources.row(row) else {
                return (0, 0, 0);
            };
            let reach = how.causal.map_or(layout.channels, |offset| {
                sources.pixel(row) % width + offset as usize + 1
            });
            let used = reach.min(layout.channels);
            let scores = || elements.clone().take(used).map(|e| sources.input(e));
            let greatest = scores().max().unwrap_or(0);
            let exponentials = scores().map(|score| i64::from(how.exponential(greatest - score)));
            (used, greatest, exponentials.sum())
        };
        Self {
            sources,
            shape,
            high_limb: shape.table.has_high_limb(),
            rows: rows.into_par_iter().map(of).collect(),
        }
    }

    /// A probability and the remainder of its division.
    fn division(&self, element: usize, (_, greatest, sum): (usize, i64, i64)) -> (i128, i128) {
        let exponential = how(self.sources).exponential(greatest - self.sources.input(element));
        let numerator = i128::from(exponential) * i128::from(PROBABILITY_ONE);
        let probability = i128::from(self.sources.output(element));
        let sum = i128::from(sum);
        (probability, numerator + sum / 2 - probability * sum)
    }

    pub(super) fn row(&self, row: usize, cells: &mut Vec<u32>) {
        let Some(elements) = self.sources.row(row) else {
            return;
        };
        let own @ (used, greatest, sum) = self.rows[row];
        let bits = self.shape.sum_bits;
        let (half, one) = (sum / 2, i128::from(PROBABILITY_ONE));
        let elements = elements.take(used);
        let firsts = elements
            .clone()
            .filter(|&e| self.sources.input(e) == greatest);
        let others = firsts.count() as i128 - 1;
        let divisions: Vec<(i128, i128)> = elements.map(|e| self.division(e, own)).collect();
        let total: i128 = divisions.iter().map(|&(probability, _)| probability).sum();
        push_limbs(cells, i128::from(greatest) + (1 << 30), SCORE_BITS);
        push_limbs(cells, sum.into(), bits);
        push_limbs(cells, half.into(), bits);
        push_limbs(cells, (sum & 1).into(), 1);
        push_limbs(cells, others, SOFTMAX_COUNT_BITS);
        push_signed(cells, total - one, SOFTMAX_COUNT_BITS);
        let classes = limb_classes(bits);
        let limb = |value: i128, place: usize| value >> (12 * place) & ((1 << classes[place]) - 1);
        let mut carry = 0;
        for place in 0..classes.len() - 1 {
            let remainders: i128 = divisions.iter().map(|&(_, rest)| limb(rest, place)).sum();
            let halves = used as i128 * limb(half.into(), place);
            carry = (carry + (total - one) * limb(sum.into(), place) + remainders - halves) >> 12;
            push_signed(cells, carry, SOFTMAX_CARRY_BITS);
        }
    }

    pub(super) fn element(&self, index: usize, cells: &mut Vec<u32>) -> Result<(), ProveError> {
        let layout = self.sources.layout;
        let row = index >> layout.channel_vars;
        let own @ (used, greatest, sum) = self.rows[row];
        let Some(element) = layout.element_at(index) else {
            return Ok(());
        };
        if element % layout.channels >= used {
            return Ok(());
        }
        let value = self.sources.input(element);
        let found = u32::try_from(greatest - value).ok();
        let found = found.and_then(|distance| Some((self.shape.table.find(distance)?, distance)));
        let (found, distance) = found.ok_or_else(|| ProveError::Range {
            node: self.sources.program.nodes[self.sources.node].name.clone(),
            value: value as i32,
            range: [i32::MIN, greatest as i32],
        })?;
        let segment = self.shape.table.segments()[found];
        let offset = distance - segment.base;
        cells.push(found as u32);
        cells.push((1 << segment.class_low()) - 1 + (offset & 0xfff));
        if self.high_limb {
            cells.push((1 << segment.class_high()) - 1 + (offset >> 12));
        }
        let (probability, rest) = self.division(element, own);
        push_limbs(cells, probability, PROBABILITY_BITS);
        push_limbs(cells, rest, self.shape.sum_bits);
        push_limbs(cells, i128::from(sum) - 1 - rest, self.shape.sum_bits);
        Ok(())
    }
}

fn how<'a>(sources: &'a Sources<'a>) -> &'a Softmax {
    match sources.op() {
        Op::Softmax(op::Unary { how, .. }) => how,
        _ => unreachable!("the plan follows the program's operators"),
    }
}
