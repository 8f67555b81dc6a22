//! Normalised rows.

use super::context::Context;
use super::values::{ValuesMut, each};
use tg_ir::TensorId;
use tg_ir::op::{Norm, root_above};

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
}
