//! The greatest channels of each pixel.

use super::context::Context;
use super::values::{Values, ValuesMut, each, same};
use std::cmp::Reverse;
use tg_ir::op::Ranked;
use tg_ir::{Program, TensorId};

/// The greatest channels of each pixel.
#[derive(Debug)]
pub(super) struct Greatest {
    input: TensorId,
    channels: usize,
    count: usize,
    give: Ranked,
    order: Vec<u32>,
}

impl Greatest {
    pub(super) fn new(program: &Program, input: TensorId, count: usize, give: Ranked) -> Self {
        let channels = program.shape(input).channels as usize;
        Self {
            input,
            channels,
            count,
            give,
            order: Vec::with_capacity(channels),
        }
    }

    pub(super) fn run(&mut self, context: &mut Context<'_>, mut out: ValuesMut<'_>) {
        let input = context.reads.get(self.input);
        for pixel in 0..input.len() / self.channels {
            let out = out.part(pixel * self.count, self.count);
            let row = pixel * self.channels..(pixel + 1) * self.channels;
            let order = &mut self.order;
            match (self.give, input) {
                (Ranked::Values, Values::I8(values)) => {
                    rank(&values[row.clone()], self.count, order);
                }
                (Ranked::Values, Values::I16(values)) => {
                    rank(&values[row.clone()], self.count, order);
                }
                (Ranked::Values, Values::I32(values)) => {
                    rank(&values[row.clone()], self.count, order);
                }
                (Ranked::Channels, values) => {
                    each!(values, values => rank(&values[row.clone()], self.count, order));
                }
            }
            match (self.give, out) {
                (Ranked::Channels, ValuesMut::I32(out)) => {
                    for (out, &channel) in out.iter_mut().zip(order.iter()) {
                        *out = channel.cast_signed();
                    }
                }
                (Ranked::Channels, _) => unreachable!("channels are 32-bit numbers"),
                (Ranked::Values, out) => same!(out, out, [input => values], {
                    for (out, &channel) in out.iter_mut().zip(order.iter()) {
                        *out = values[row.start + channel as usize];
                    }
                }),
            }
        }
    }
}

/// Channels from the greatest value down, of equal ones the lowest first; at least `count` of them.
fn rank<T: Copy + Ord>(row: &[T], count: usize, order: &mut Vec<u32>) {
    order.clear();
    if count == 1 {
        let mut best = 0;
        for (channel, value) in row.iter().enumerate() {
            if *value > row[best] {
                best = channel;
            }
        }
        order.push(u32::try_from(best).expect("an axis fits 32 bits"));
        return;
    }
    let channels = u32::try_from(row.len()).expect("an axis fits 32 bits");
    order.extend(0..channels);
    if count < row.len() / 4 {
        // The few are found before they are sorted.
        let rank = |&channel: &u32| (Reverse(row[channel as usize]), channel);
        order.select_nth_unstable_by_key(count - 1, rank);
        order.truncate(count);
    }
    order.sort_unstable_by_key(|&channel| (Reverse(row[channel as usize]), channel));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn ties_rank_the_lowest_channel_first() {
        let mut order = Vec::new();
        rank(&[3, 9, 9, -1, 3], 3, &mut order);
        assert_eq!(order[..3], [1, 2, 0]);
        let many: Vec<i16> = (0..50).map(|index| [5, 7, 7, 1, 9][index % 5]).collect();
        rank(&many, 11, &mut order);
        let nines = (0..10).map(|index| 5 * index + 4);
        assert_eq!(order, nines.chain([1]).collect::<Vec<u32>>());
        rank(&[3, 9, 9, -1, 3], 1, &mut order);
        assert_eq!(order, [1]);
    }
}
