//! The columns of comparisons and selections.

use super::sources::{Sources, push_limbs, push_signed};
use tg_ir::Op;
use tg_ir::op::{self, Reduction, Relation};
use tg_proof::layout::TensorLayout;
use tg_proof::plan::CompareShape;

/// Magnitude and bits of a comparison of two elements.
pub(super) fn compared(
    sources: &Sources<'_>,
    shape: &CompareShape,
    index: usize,
    cells: &mut Vec<u32>,
) {
    let Some(element) = sources.layout.element_at(index) else {
        return;
    };
    let [a, b] = [0, 1].map(|input| i128::from(sources.input_of(input, element)));
    let (above, below) = (a > b, a < b);
    let magnitude = (a - b).abs();
    let (magnitude, bits) = match sources.op() {
        Op::Compare(op::Compare { relation, .. }) => match relation {
            Relation::Equal => {
                let less = i128::from(above || below);
                (magnitude - less, vec![above, below])
            }
            Relation::Greater => (magnitude - i128::from(above), vec![above]),
            Relation::GreaterOrEqual => (magnitude - i128::from(below), vec![!below]),
        },
        _ => (magnitude, vec![above]),
    };
    push_limbs(cells, magnitude, shape.difference);
    cells.extend(bits.into_iter().map(u32::from));
}

/// The position of a condition in its table, and what is selected.
pub(super) fn selected(
    sources: &Sources<'_>,
    shape: &CompareShape,
    index: usize,
    cells: &mut Vec<u32>,
) {
    if let Some(element) = sources.layout.element_at(index) {
        cells.push((sources.input_of(0, element) + 128) as u32);
        push_signed(cells, sources.output(element).into(), shape.value);
    }
}

/// Greatest or least elements of rows.
pub(super) struct Filler<'a> {
    sources: &'a Sources<'a>,
    shape: &'a CompareShape,
    /// Of the input.
    layout: TensorLayout,
    sign: i64,
    ranked: bool,
}

impl<'a> Filler<'a> {
    pub(super) fn new(sources: &'a Sources<'a>, shape: &'a CompareShape) -> Self {
        let op = sources.op();
        let least = matches!(
            op,
            Op::Reduce(op::Reduce {
                reduction: Reduction::Least,
                ..
            })
        );
        Self {
            sources,
            shape,
            layout: sources.plan.layouts[op.inputs()[0].index()],
            sign: if least { -1 } else { 1 },
            ranked: matches!(op, Op::ArgMax(_)),
        }
    }

    /// The elements of a row that is in use, and its greatest: the output, or the element at it.
    fn of_row(&self, row: usize) -> Option<(usize, i64)> {
        let first = self.layout.element_at(row << self.layout.channel_vars)?;
        let output = self.sources.output(first / self.layout.channels);
        if !self.ranked {
            return Some((first, output));
        }
        let channel = usize::try_from(output).unwrap_or(0);
        let channel = channel.min(self.layout.channels - 1);
        Some((first, self.sources.input(first + channel)))
    }

    pub(super) fn row(&self, row: usize, cells: &mut Vec<u32>) {
        let Some((first, value)) = self.of_row(row) else {
            return;
        };
        push_signed(cells, value.into(), self.shape.value);
        if !self.ranked {
            let elements = first..first + self.layout.channels;
            let equal = elements.filter(|&element| self.sources.input(element) == value);
            push_limbs(cells, equal.count() as i128 - 1, self.shape.count);
        }
    }

    pub(super) fn element(&self, index: usize, cells: &mut Vec<u32>) {
        let (Some(element), Some((first, value))) = (
            self.layout.element_at(index),
            self.of_row(index >> self.layout.channel_vars),
        ) else {
            return;
        };
        let own = self.sources.input(element);
        let channel = (element - first) as i64;
        let output = self.sources.output(first / self.layout.channels);
        let before = self.ranked && channel < output;
        let distance = self.sign * (value - own) - i64::from(before);
        let flag = if self.ranked {
            channel == output
        } else {
            own == value
        };
        push_limbs(cells, distance.into(), self.shape.difference);
        cells.push(flag.into());
        if self.ranked {
            cells.push(before.into());
        }
    }
}
