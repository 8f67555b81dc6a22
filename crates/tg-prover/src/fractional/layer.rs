//! The levels of the tree, and the passes of a layer's sumcheck over them.

use super::leaves::Leaves;
use super::{Rounds, Value};
use crate::pack::{self, PackedE};
use p3_field::PrimeCharacteristicRing;
use p3_maybe_rayon::prelude::*;
use p3_multi_stark::fractional_gkr::SplitFraction;
use p3_multilinear_util::poly::Poly;
use tg_proof::field::{E, F, eq_table};

/// Vectors that a pass holds at once of each part: few enough for the nearest cache.
pub(super) const TILE: usize = 16;

/// log2 of the elements of a vector.
const LANES: usize = pack::WIDTH.ilog2() as usize;

/// Fractions: those of branch 0, then those of branch 1.
pub(super) type Halves<A> = SplitFraction<Vec<A>>;

/// A level of the tree: vectors as long as each half has at least two of them.
#[derive(Debug)]
pub(super) enum Level {
    Packed(Halves<PackedE>),
    Scalar(Halves<E>),
}

impl Level {
    /// A level from its fractions as vectors.
    pub(super) fn packed(halves: Halves<PackedE>) -> Self {
        if halves.n0.len() > 1 {
            Self::Packed(halves)
        } else {
            Self::Scalar(map(halves, |values| unpack(&values)))
        }
    }

    /// A level from its fractions.
    pub(super) fn of(halves: Halves<E>) -> Self {
        if halves.n0.len() < 2 * pack::WIDTH {
            return Self::Scalar(halves);
        }
        Self::Packed(map(halves, |values| pack::poly(values).into_evals()))
    }

    /// The sums of pairs: fraction i and fraction i + half.
    pub(super) fn reduce(&self) -> Self {
        match self {
            Self::Packed(halves) => Self::packed(reduce(halves)),
            Self::Scalar(halves) => Self::Scalar(reduce(halves)),
        }
    }

    /// Whether these are the root's children.
    pub(super) fn is_pair(&self) -> bool {
        matches!(self, Self::Scalar(halves) if halves.n0.len() == 1)
    }

    /// The first fraction of each half: all there are of the root's children.
    pub(super) fn into_pair(self) -> SplitFraction<E> {
        match self {
            Self::Packed(halves) => map(halves, |values| unpack(&values)[0]),
            Self::Scalar(halves) => map(halves, |values| values[0]),
        }
    }
}

/// Applies a function to the four parts.
pub(super) fn map<T, U>(parts: SplitFraction<T>, mut f: impl FnMut(T) -> U) -> SplitFraction<U> {
    let SplitFraction { n0, d0, n1, d1 } = parts;
    SplitFraction {
        n0: f(n0),
        d0: f(d0),
        n1: f(n1),
        d1: f(d1),
    }
}

fn unpack(values: &[PackedE]) -> Vec<E> {
    pack::unpack(&Poly::new(values.to_vec())).into_evals()
}

fn reduce<A: Value>(halves: &Halves<A>) -> Halves<A> {
    let half = halves.n0.len() / 2;
    let add = |range: std::ops::Range<usize>| -> (Vec<A>, Vec<A>) {
        let (n0, d0) = (&halves.n0[range.clone()], &halves.d0[range.clone()]);
        let (n1, d1) = (&halves.n1[range.clone()], &halves.d1[range]);
        let first = n0.par_iter().zip(d0.par_iter());
        let second = n1.par_iter().zip(d1.par_iter());
        first
            .zip(second)
            .with_min_len(4 * TILE)
            .map(|((&n0, &d0), (&n1, &d1))| sum_of(n0, d0, n1, d1))
            .unzip()
    };
    let (n0, d0) = add(0..half);
    let (n1, d1) = add(half..2 * half);
    SplitFraction { n0, d0, n1, d1 }
}

/// `n0 / d0 + n1 / d1`.
pub(super) fn sum_of<A: Value>(n0: A, d0: A, n1: A, d1: A) -> (A, A) {
    (A::dot_product::<2>(&[d1, d0], &[n0, n1]), d0 * d1)
}

/// Equality weights of the positions of a round: `high[i] * low[j]` at position `i * low.len() + j`.
pub(super) struct Weights<A> {
    pub(super) high: Vec<E>,
    pub(super) low: Vec<A>,
}

impl Weights<PackedE> {
    pub(super) fn packed(point: &[E]) -> Self {
        let vectors = point.len() - LANES;
        let (high, low) = point.split_at(vectors - vectors.min(TILE.ilog2() as usize));
        Self {
            high: eq_table(high),
            low: Poly::new_packed_from_point::<F, E>(low, E::ONE).into_evals(),
        }
    }
}

impl Weights<E> {
    fn scalar(point: &[E]) -> Self {
        let (high, low) = point.split_at(point.len() - point.len().min(TILE.ilog2() as usize));
        Self {
            high: eq_table(high),
            low: eq_table(low),
        }
    }
}

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
        let Self::Level(Level::Scalar(mut halves)) = self else {
            unreachable!("the last round is played on elements");
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

/// The four parts of a tile at the positions where a round's variable is 0 or 1.
pub(super) type Tile<'a, A> = SplitFraction<&'a [A]>;

/// `sum of weight * gate` at 0, and its leading coefficient, over a tile.
pub(super) fn gate_sums<A: Value>(weights: &[A], low: Tile<'_, A>, high: Tile<'_, A>) -> [A; 2] {
    let (mut at_0, mut leading) = (A::ZERO, A::ZERO);
    let count = weights.len();
    let (low, high) = (map(low, |it| &it[..count]), map(high, |it| &it[..count]));
    for (i, &weight) in weights.iter().enumerate() {
        let (n0, d0, n1, d1) = (low.n0[i], low.d0[i], low.n1[i], low.d1[i]);
        at_0 += weight * A::dot_product::<2>(&[d1, d0], &[n0, n1]);
        let (n0, d0) = (high.n0[i] - n0, high.d0[i] - d0);
        let (n1, d1) = (high.n1[i] - n1, high.d1[i] - d1);
        leading += weight * A::dot_product::<2>(&[d1, d0], &[n0, n1]);
    }
    [at_0, leading]
}

/// Adds the sums of tiles, each times its weight.
pub(super) fn total<A: Value>(tiles: Vec<[A; 2]>, weights: &[E]) -> [A; 2] {
    let mut sums = [A::ZERO; 2];
    for (tile, &weight) in tiles.into_iter().zip(weights) {
        let weight = A::from(weight);
        for (sum, value) in sums.iter_mut().zip(tile) {
            *sum += weight * value;
        }
    }
    sums
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
