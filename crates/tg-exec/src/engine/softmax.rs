//! Probabilities of rows of scores.

use super::context::Context;
use super::values::{ValuesMut, each};
use crate::kernels::memory::of_thread;
use tg_ir::op::{PROBABILITY_ONE, Softmax};
use tg_ir::{Program, Rescale, TensorId};

/// Probabilities of rows of scores.
#[derive(Debug)]
pub(super) struct Probabilities {
    input: TensorId,
    width: usize,
    channels: usize,
    rescale: Rescale,
    table: Vec<i32>,
    causal: Option<usize>,
    /// The column in the whole tensor of the first one here.
    first_column: usize,
    /// Whether columns are steps of a sequence.
    pub in_columns: bool,
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
            first_column: 0,
            in_columns: false,
        }
    }

    /// Tells which step of a sequence is the first.
    pub(super) const fn at(&mut self, first: usize) {
        if self.in_columns {
            self.first_column = first;
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
                            let column = self.first_column + pixel % self.width;
                            channels.min(column + offset + 1)
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
}
