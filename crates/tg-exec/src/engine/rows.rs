//! Along an axis: reductions, rankings, probabilities, normalisation.

use super::context::Context;
use super::values::{Values, ValuesMut, each, same, wide};
use crate::kernels::memory::of_thread;
use std::cmp::Reverse;
use tg_ir::op::{
    Norm, PROBABILITY_ONE, Ranked, Reduce, Reduction, RunningSum, Softmax, root_above,
};
use tg_ir::{Axis, Program, Rescale, Shape, TensorId};

/// A reduction along an axis.
#[derive(Debug)]
pub(super) struct Reduced {
    reduce: Reduce,
    shape: Shape,
}

/// Elements before, along and after an axis.
pub(super) fn around(shape: Shape, axis: Axis) -> [usize; 3] {
    let [height, width, channels] =
        [shape.height, shape.width, shape.channels].map(|side| side as usize);
    match axis {
        Axis::Rows => [1, height, width * channels],
        Axis::Columns => [height, width, channels],
        Axis::Channels => [height * width, channels, 1],
    }
}

impl Reduced {
    pub(super) fn new(program: &Program, reduce: &Reduce) -> Self {
        Self {
            reduce: reduce.clone(),
            shape: program.shape(reduce.input),
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let [_, length, inner] = around(self.shape, self.reduce.axis);
        let input = context.reads.get(self.reduce.input);
        match self.reduce.reduction {
            Reduction::Sum => {
                let ValuesMut::I32(out) = out else {
                    unreachable!("sums are accumulators")
                };
                each!(input, values => context.cpu.vectorised(|| {
                    fold(values, out, [length, inner], wide, |sum, value| {
                        *sum = sum.wrapping_add(wide(value));
                    });
                }));
            }
            Reduction::Greatest => same!(out, out, [input => values], {
                fold(values, out, [length, inner], |value| value, |best, value| {
                    *best = (*best).max(value);
                });
            }),
            Reduction::Least => same!(out, out, [input => values], {
                fold(values, out, [length, inner], |value| value, |best, value| {
                    *best = (*best).min(value);
                });
            }),
        }
    }
}

#[inline(always)]
fn fold<S: Copy, T>(
    values: &[S],
    out: &mut [T],
    [length, inner]: [usize; 2],
    first: impl Fn(S) -> T,
    step: impl Fn(&mut T, S),
) {
    let outer = values.chunks_exact(length * inner);
    for (out, values) in out.chunks_exact_mut(inner).zip(outer) {
        for (out, &value) in out.iter_mut().zip(values) {
            *out = first(value);
        }
        for slice in values.chunks_exact(inner).skip(1) {
            for (out, &value) in out.iter_mut().zip(slice) {
                step(out, value);
            }
        }
    }
}

/// Sums of the elements so far along an axis.
#[derive(Debug)]
pub(super) struct Running {
    sum: RunningSum,
    shape: Shape,
}

impl Running {
    pub(super) fn new(program: &Program, sum: &RunningSum) -> Self {
        Self {
            sum: sum.clone(),
            shape: program.shape(sum.input),
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let ValuesMut::I32(out) = out else {
            unreachable!("sums are accumulators")
        };
        let [_, length, inner] = around(self.shape, self.sum.axis);
        let input = context.reads.get(self.sum.input);
        each!(input, values => context.cpu.vectorised(|| accumulate(values, out, [length, inner])));
    }
}

#[inline(always)]
fn accumulate<S: Copy + Into<i32>>(values: &[S], out: &mut [i32], [length, inner]: [usize; 2]) {
    for (out, &value) in out.iter_mut().zip(values) {
        *out = wide(value);
    }
    for slices in out.chunks_exact_mut(length * inner) {
        for at in inner..slices.len() {
            slices[at] = slices[at].wrapping_add(slices[at - inner]);
        }
    }
}

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
    order.sort_unstable_by_key(|&channel| (Reverse(row[channel as usize]), channel));
}

/// Probabilities of rows of scores.
#[derive(Debug)]
pub(super) struct Probabilities {
    input: TensorId,
    width: usize,
    channels: usize,
    rescale: Rescale,
    table: Vec<i32>,
    causal: Option<usize>,
}

impl Probabilities {
    pub(super) fn new(program: &Program, input: TensorId, how: &Softmax) -> Self {
        let shape = program.shape(input);
        Self {
            input,
            width: shape.width as usize,
            channels: shape.channels as usize,
            rescale: how.rescale,
            table: how.table.iter().map(|&entry| i32::from(entry)).collect(),
            causal: how.causal.map(|offset| offset as usize),
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let ValuesMut::I16(out) = out else {
            unreachable!("probabilities have 16 bits")
        };
        let (cpu, channels) = (context.cpu, self.channels);
        let input = context.reads.get(self.input);
        let buffers = context.scratch.threads(cpu.threads());
        cpu.pool()
            .run_parts(out, channels * 8, &|thread, index, out| {
                let mut buffer = of_thread(buffers, thread);
                let buffer = buffer.numbers_mut::<i32>(channels);
                cpu.vectorised(|| {
                    for (row, out) in out.chunks_exact_mut(channels).enumerate() {
                        let pixel = index * 8 + row;
                        let taking_part = self.causal.map_or(channels, |offset| {
                            channels.min(pixel % self.width + offset + 1)
                        });
                        let scores = pixel * channels..pixel * channels + taking_part;
                        let exponentials = &mut buffer[..taking_part];
                        each!(input, values => self.exponentials(&values[scores], exponentials));
                        let (inside, outside) = out.split_at_mut(taking_part);
                        divide(exponentials, inside);
                        outside.fill(0);
                    }
                });
            });
    }

    #[inline(always)]
    fn exponentials<S: Copy + Ord + Into<i32>>(&self, scores: &[S], out: &mut [i32]) {
        let greatest: i32 = scores.iter().copied().max().expect("one takes part").into();
        let (multiplier, shift) = (i64::from(self.rescale.multiplier()), self.rescale.shift());
        let round = 1i64 << (shift - 1);
        let last = self.table.len() as i64 - 1;
        for (out, &score) in out.iter_mut().zip(scores) {
            let distance = i64::from(greatest) - i64::from(score.into());
            let index = ((distance * multiplier + round) >> shift).min(last);
            *out = index as i32;
        }
        for out in out {
            *out = self.table[out.cast_unsigned() as usize];
        }
    }
}

/// `floor((e * 32767 + floor(S / 2)) / S)` for each e, S being their sum, below 2^30.
///
/// The numerator is below 2^31, so an estimate in `f64` is off by at most one, and the remainder says which way.
#[inline(always)]
fn divide(exponentials: &[i32], out: &mut [i16]) {
    let sum: i32 = exponentials.iter().sum();
    let inverse = 1.0 / f64::from(sum);
    for (out, &e) in out.iter_mut().zip(exponentials) {
        let numerator = e * i32::from(PROBABILITY_ONE) + sum / 2;
        let mut quotient = (f64::from(numerator) * inverse) as i32;
        let rest = numerator - quotient * sum;
        quotient += i32::from(rest >= sum) - i32::from(rest < 0);
        *out = quotient as i16;
    }
}

/// Normalised rows.
#[derive(Debug)]
pub(super) struct Normalised {
    input: TensorId,
    channels: usize,
    how: Norm,
}

impl Normalised {
    pub(super) const fn new(input: TensorId, channels: usize, how: Norm) -> Self {
        Self {
            input,
            channels,
            how,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let ValuesMut::I16(out) = out else {
            unreachable!("normalised values have 16 bits")
        };
        let (cpu, channels) = (context.cpu, self.channels);
        let input = context.reads.get(self.input);
        cpu.pool().run_parts(out, channels * 8, &|_, index, out| {
            cpu.vectorised(|| {
                for (row, out) in out.chunks_exact_mut(channels).enumerate() {
                    let first = (index * 8 + row) * channels;
                    each!(input, values => normalise(self.how, &values[first..first + channels], out));
                }
            });
        });
    }
}

/// `floor(((n x - s) 2^(k+f) + floor(r / 2)) / r)` for each x of a row.
///
/// The result fits 16 bits, so an estimate in `f64` is off by at most one, and the remainder says which way.
#[inline(always)]
fn normalise<S: Copy + Into<i32>>(how: Norm, row: &[S], out: &mut [i16]) {
    let n = row.len() as i64;
    let mut sum = 0i64;
    let mut squares = 0i64;
    for &x in row {
        let x = i64::from(x.into());
        sum += x;
        squares += x * x;
    }
    if !how.centred {
        sum = 0;
    }
    let variance = n * squares - sum * sum + how.epsilon.cast_signed();
    let root = root_above(variance << (2 * how.precision));
    let inverse = 1.0 / root as f64;
    let (bits, half) = (how.precision + how.fraction, root / 2);
    for (out, &x) in out.iter_mut().zip(row) {
        let numerator = ((n * i64::from(x.into()) - sum) << bits) + half;
        let mut quotient = (numerator as f64 * inverse) as i64;
        let rest = numerator - quotient * root;
        quotient += i64::from(rest >= root) - i64::from(rest < 0);
        *out = quotient as i16;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::sample::Numbers;

    #[test]
    fn quotients_are_floors_even_next_to_whole_numbers() {
        let mut numbers = Numbers::new(1);
        for _ in 0..2_000 {
            let count = usize::try_from(numbers.between(1, 60)).unwrap();
            let reach = [1, 3, 100, 32_767][usize::try_from(numbers.between(0, 3)).unwrap()];
            let exponentials: Vec<i32> = (0..count)
                .map(|index| i32::try_from(numbers.between(i64::from(index == 0), reach)).unwrap())
                .collect();
            let sum: i64 = exponentials.iter().map(|&e| i64::from(e)).sum();
            let mut out = vec![0; count];
            divide(&exponentials, &mut out);
            for (&got, &e) in out.iter().zip(&exponentials) {
                assert_eq!(i64::from(got), (i64::from(e) * 32_767 + sum / 2) / sum);
            }
        }
    }

    #[test]
    fn normalised_values_are_floors() {
        let mut numbers = Numbers::new(2);
        for case in 0..2_000 {
            let count = usize::try_from(numbers.between(1, 50)).unwrap();
            let reach = [3, 100, 32_767][case % 3];
            let row: Vec<i16> = (0..count)
                .map(|_| i16::try_from(numbers.between(-reach, reach)).unwrap())
                .collect();
            let how = Norm {
                centred: case % 2 == 0,
                epsilon: u64::try_from(numbers.between(0, 1_000)).unwrap(),
                precision: u8::try_from(numbers.between(0, 8)).unwrap(),
                fraction: u8::try_from(numbers.between(0, 11)).unwrap(),
            };
            let (n, k, f) = (count as i64, how.precision, how.fraction);
            let sum: i64 = row.iter().map(|&x| i64::from(x)).sum();
            let sum = if how.centred { sum } else { 0 };
            let squares: i64 = row.iter().map(|&x| i64::from(x) * i64::from(x)).sum();
            let variance = n * squares - sum * sum + how.epsilon.cast_signed();
            let root = root_above(variance << (2 * k));
            let mut out = vec![0; count];
            normalise(how, &row, &mut out);
            for (&got, &x) in out.iter().zip(&row) {
                let numerator = ((n * i64::from(x) - sum) << (k + f)) + root / 2;
                assert_eq!(
                    i64::from(got),
                    numerator.div_euclid(root),
                    "{how:?} {row:?}"
                );
            }
        }
    }

    #[test]
    fn ties_rank_the_lowest_channel_first() {
        let mut order = Vec::new();
        rank(&[3, 9, 9, -1, 3], 3, &mut order);
        assert_eq!(order[..3], [1, 2, 0]);
        rank(&[3, 9, 9, -1, 3], 1, &mut order);
        assert_eq!(order, [1]);
    }
}
