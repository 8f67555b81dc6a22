//! The columns of the greatest elements along channels.

use super::sources::{Sources, push_limbs, push_signed};
use tg_ir::Op;
use tg_ir::op::{self, Ranked};
use tg_proof::layout::TensorLayout;
use tg_proof::plan::RankShape;

/// A row that is in use.
struct Row {
    /// Its first element.
    first: usize,
    /// The value and the channel of each rank.
    ranks: Vec<(i64, usize)>,
}

pub(super) struct Filler<'a> {
    sources: &'a Sources<'a>,
    shape: &'a RankShape,
    /// Of the input.
    layout: TensorLayout,
    rows: Vec<Option<Row>>,
}

impl<'a> Filler<'a> {
    pub(super) fn new(sources: &'a Sources<'a>, shape: &'a RankShape) -> Self {
        let layout = sources.plan.layouts[sources.op().inputs()[0].index()];
        let rows = 0..1usize << (layout.pixel_vars + layout.batch_vars);
        let rows = rows.map(|row| ranks(sources, shape, layout, row)).collect();
        Self {
            sources,
            shape,
            layout,
            rows,
        }
    }

    pub(super) fn row(&self, row: usize, cells: &mut Vec<u32>) {
        let Some(Row { ranks, .. }) = &self.rows[row] else {
            return;
        };
        let bits = self.shape.bits;
        for &(value, _) in ranks {
            push_signed(cells, value.into(), bits.value);
        }
        for pair in ranks.windows(2) {
            let [(value, channel), (next, later)] = [pair[0], pair[1]];
            let lower = later < channel;
            push_limbs(cells, lower.into(), 1);
            push_limbs(cells, channel.abs_diff(later) as i128 - 1, bits.count);
            let gap = i128::from(value) - i128::from(next) - i128::from(lower);
            push_limbs(cells, gap, bits.difference);
        }
    }

    pub(super) fn element(&self, index: usize, cells: &mut Vec<u32>) {
        let (Some(element), Some(Row { first, ranks })) = (
            self.layout.element_at(index),
            &self.rows[index >> self.layout.channel_vars],
        ) else {
            return;
        };
        let channel = element - first;
        let own = self.sources.input(element);
        let mut chosen = false;
        for &(_, place) in ranks {
            chosen |= place == channel;
            cells.push((place == channel).into());
        }
        let Some(&(value, place)) = ranks.last() else {
            return;
        };
        let before = channel < place;
        cells.push(before.into());
        let distance = if chosen {
            0
        } else {
            i128::from(value) - i128::from(own) - i128::from(before)
        };
        push_limbs(cells, distance, self.shape.bits.difference);
    }
}

/// The ranks of a row that is in use: what the output gives, the rest from the input.
fn ranks(
    sources: &Sources<'_>,
    shape: &RankShape,
    layout: TensorLayout,
    row: usize,
) -> Option<Row> {
    let first = layout.element_at(row << layout.channel_vars)?;
    let outputs = (0..shape.ranks).map(|rank| {
        let output = first / layout.channels * shape.ranks + rank;
        sources.output(output)
    });
    let give = match sources.op() {
        Op::TopK(op::TopK { give, .. }) => *give,
        _ => unreachable!("the plan follows the program's operators"),
    };
    let ranks = match give {
        Ranked::Channels => outputs
            .map(|place| {
                let place = usize::try_from(place).unwrap_or(0).min(layout.channels - 1);
                (sources.input(first + place), place)
            })
            .collect(),
        Ranked::Values => {
            let mut places: Vec<usize> = (0..layout.channels).collect();
            // A stable sort: equal elements stay in the order of their channels.
            places.sort_by_key(|place| std::cmp::Reverse(sources.input(first + place)));
            outputs.zip(places).collect()
        }
    };
    Some(Row { first, ranks })
}
