//! The levels of the tree, and sums over tiles of them.

use crate::pack::{self, PackedE};
use p3_field::PrimeCharacteristicRing;
use p3_maybe_rayon::prelude::*;
use p3_multi_stark::fractional_gkr::SplitFraction;
use p3_multilinear_util::poly::Poly;
use tg_proof::field::{E, F, eq_table};

/// Vectors and elements, as the passes over them see both.
pub(super) trait Value: PrimeCharacteristicRing + Copy + Send + Sync + From<E> {}
impl<T: PrimeCharacteristicRing + Copy + Send + Sync + From<E>> Value for T {}

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

pub(super) fn unpack(values: &[PackedE]) -> Vec<E> {
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
    pub(super) fn scalar(point: &[E]) -> Self {
        let (high, low) = point.split_at(point.len() - point.len().min(TILE.ilog2() as usize));
        Self {
            high: eq_table(high),
            low: eq_table(low),
        }
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
