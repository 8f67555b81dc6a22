//! The passes of a layer's sumcheck over its fractions.

use super::leaves::Leaves;
use super::rounds::Rounds;
use super::tile::{Halves, Level, Value, Weights, gate_sums, map, total, unpack};
use crate::pack;
use p3_maybe_rayon::prelude::*;
use p3_multi_stark::fractional_gkr::SplitFraction;
use tg_proof::field::E;

/// A layer within its sumcheck: in `n0` stands `n0 + lambda d0`.
pub(super) enum Layer<'a> {
    /// The leaves, before the first challenge.
    Leaves(&'a Leaves<'a>),
    /// Any other.
    Level(Level),
}

impl Layer<'_> {
    /// The sums of the first round.
    pub(super) fn start(&mut self, rounds: &Rounds<'_>) -> [E; 2] {
        let (lambda, rest) = (rounds.lambda, rounds.rest());
        match self {
            Self::Leaves(leaves) => leaves.sums(lambda, rest),
            Self::Level(Level::Packed(halves)) => {
                let sums = join_and_sum(halves, lambda.into(), &Weights::packed(rest));
                sums.map(|sum| pack::sum_lanes([sum]))
            }
            Self::Level(Level::Scalar(halves)) => {
                join_and_sum(halves, lambda, &Weights::scalar(rest))
            }
        }
    }

    /// Folds with the challenge of the last round and gives the sums of the next.
    pub(super) fn fold_and_sum(&mut self, challenge: E, rounds: &Rounds<'_>) -> [E; 2] {
        let (lambda, rest) = (rounds.lambda, rounds.rest());
        match self {
            Self::Leaves(leaves) => {
                let (halves, sums) = leaves.fold_and_sum(challenge, lambda, rest);
                *self = Self::Level(Level::packed(halves));
                sums
            }
            Self::Level(Level::Packed(halves)) if halves.n0.len() >= 4 => {
                let sums = fold_and_sum(halves, challenge.into(), &Weights::packed(rest));
                sums.map(|sum| pack::sum_lanes([sum]))
            }
            Self::Level(Level::Packed(halves)) => {
                fold(halves, challenge.into());
                let scalar = map(parts(halves), unpack);
                let sums = sum(&scalar, &Weights::scalar(rest));
                *self = Self::Level(Level::Scalar(scalar));
                sums
            }
            Self::Level(Level::Scalar(halves)) => {
                fold_and_sum(halves, challenge, &Weights::scalar(rest))
            }
        }
    }

    /// The fractions after the last challenge.
    pub(super) fn into_claims(self, challenge: E, lambda: E) -> SplitFraction<E> {
        let mut halves = match self {
            Self::Level(Level::Scalar(halves)) => halves,
            // Vectors of one element, on processors without any longer.
            Self::Level(Level::Packed(halves)) => map(halves, |values| unpack(&values)),
            Self::Leaves(_) => unreachable!("leaves have more than one variable"),
        };
        fold(&mut halves, challenge);
        let mut claims = map(halves, |values| values[0]);
        claims.n0 -= lambda * claims.d0;
        claims
    }
}

fn parts<A>(halves: &Halves<A>) -> SplitFraction<&[A]> {
    let SplitFraction { n0, d0, n1, d1 } = halves;
    SplitFraction { n0, d0, n1, d1 }
}

/// Folds the first variable.
fn fold<A: Value>(halves: &mut Halves<A>, challenge: A) {
    let SplitFraction { n0, d0, n1, d1 } = halves;
    for values in [n0, d0, n1, d1] {
        let half = values.len() / 2;
        let (low, high) = values.split_at_mut(half);
        for (low, &mut high) in low.iter_mut().zip(high) {
            *low += challenge * (high - *low);
        }
        values.truncate(half);
    }
}

/// Puts `n0 + lambda d0` in the place of `n0` and sums the first round.
fn join_and_sum<A: Value>(halves: &mut Halves<A>, lambda: A, weights: &Weights<A>) -> [A; 2] {
    let step = weights.low.len();
    let joined = halves.n0.par_chunks_mut(step);
    joined
        .zip(halves.d0.par_chunks(step))
        .for_each(|(n, d)| n.iter_mut().zip(d).for_each(|(n, &d)| *n += lambda * d));
    sum(halves, weights)
}

/// Sums a round.
fn sum<A: Value>(halves: &Halves<A>, weights: &Weights<A>) -> [A; 2] {
    let step = weights.low.len();
    let tiles = (0..weights.high.len()).into_par_iter().map(|tile| {
        let at = |half: usize| {
            let start = half + tile * step;
            map(parts(halves), |values| &values[start..start + step])
        };
        gate_sums(&weights.low, at(0), at(halves.n0.len() / 2))
    });
    total(tiles.collect(), &weights.high)
}

/// A tile of one part at the four values of two variables; the first is folded in place.
struct Quarters<'a, A> {
    low: &'a mut [A],
    high: &'a mut [A],
    low_one: &'a [A],
    high_one: &'a [A],
}

impl<'a, A: Value> Quarters<'a, A> {
    /// The tiles of a part.
    fn tiles(
        values: &'a mut [A],
        step: usize,
    ) -> impl IndexedParallelIterator<Item = Self> + use<'a, A> {
        let quarter = values.len() / 4;
        let (zero, one) = values.split_at_mut(2 * quarter);
        let (low, high) = zero.split_at_mut(quarter);
        let (low_one, high_one) = one.split_at(quarter);
        let ones = low_one.par_chunks(step).zip(high_one.par_chunks(step));
        let zeros = low.par_chunks_mut(step).zip(high.par_chunks_mut(step));
        zeros
            .zip(ones)
            .map(|((low, high), (low_one, high_one))| Self {
                low,
                high,
                low_one,
                high_one,
            })
    }

    /// Folds and gives the tile at the two values of the next variable.
    fn fold(self, challenge: A) -> (&'a [A], &'a [A]) {
        let pairs = [(self.low, self.low_one), (self.high, self.high_one)];
        let [low, high] = pairs.map(|(zero, one)| {
            for (zero, &one) in zero.iter_mut().zip(one) {
                *zero += challenge * (one - *zero);
            }
            &*zero
        });
        (low, high)
    }
}

/// Folds a round and sums the next, in one pass.
fn fold_and_sum<A: Value>(halves: &mut Halves<A>, challenge: A, weights: &Weights<A>) -> [A; 2] {
    let step = weights.low.len();
    let SplitFraction { n0, d0, n1, d1 } = halves;
    let first = Quarters::tiles(n0, step).zip(Quarters::tiles(d0, step));
    let second = Quarters::tiles(n1, step).zip(Quarters::tiles(d1, step));
    let tiles = first.zip(second).map(|((n0, d0), (n1, d1))| {
        let parts = SplitFraction { n0, d0, n1, d1 };
        let folded = map(parts, |part| part.fold(challenge));
        let low = SplitFraction {
            n0: folded.n0.0,
            d0: folded.d0.0,
            n1: folded.n1.0,
            d1: folded.d1.0,
        };
        let high = map(folded, |(_, high)| high);
        gate_sums(&weights.low, low, high)
    });
    let sums = total(tiles.collect(), &weights.high);
    let half = n0.len() / 2;
    for values in [n0, d0, n1, d1] {
        values.truncate(half);
    }
    sums
}
