//! The leaves of a fractional sum, made tile by tile.

use super::layer::{Halves, Level, TILE, Weights, gate_sums, sum_of, total};
use crate::pack::{self, PackedE, PackedF};
use p3_field::{PackedFieldExtension, PackedValue, PrimeCharacteristicRing};
use p3_maybe_rayon::prelude::*;
use p3_multi_stark::fractional_gkr::SplitFraction;
use p3_multilinear_util::poly::Poly;
use tg_proof::field::{E, F, eq_table};

/// Elements of a tile.
const TILE_ELEMENTS: usize = TILE * pack::WIDTH;

/// log2 of the leaves from which they are not held: two rounds of the leaves' layer are played on whole tiles.
const TILED_VARS_MIN: usize = (8 * TILE_ELEMENTS).ilog2() as usize;

/// Fractions `numerator / denominator` over a hypercube; those after the last one given are 0 / 1.
#[derive(Debug)]
pub(crate) struct Leaves<'a> {
    vars: usize,
    /// Whole tiles, from the first leaf on; none if the leaves are few.
    blocks: Vec<Block<'a>>,
    /// The tile after each block.
    ends: Vec<usize>,
    /// All leaves, if they are few.
    few: (Vec<E>, Vec<E>),
    /// What a lying prover puts in the place of the last tile.
    #[cfg(test)]
    last: Option<Box<Fractions>>,
}

#[derive(Debug)]
enum Block<'a> {
    /// `weight eq(point, x) / (pole - values[x])`.
    Column {
        values: &'a [F],
        pole: E,
        /// Per tile the weight and the equality weight of the leading coordinates.
        high: Vec<E>,
        /// The equality weights of the others.
        low: Vec<PackedE>,
    },
    /// Numerators and denominators.
    Given(Vec<PackedE>, Vec<PackedE>),
}

/// Leaves in the making. Blocks come largest first, so that each is aligned to its size.
#[derive(Debug)]
pub(crate) struct LeavesBuilder<'a> {
    vars: usize,
    blocks: Vec<Block<'a>>,
    ends: Vec<usize>,
    /// What is shorter than a tile, at the end.
    rest: (Vec<E>, Vec<E>),
}

impl<'a> LeavesBuilder<'a> {
    /// No leaves yet, of 2^vars.
    pub(crate) const fn new(vars: usize) -> Self {
        Self {
            vars,
            blocks: Vec::new(),
            ends: Vec::new(),
            rest: (Vec::new(), Vec::new()),
        }
    }

    /// Adds leaves `weight eq(point, x) / (pole - values[x])`, x over the hypercube of the point.
    pub(crate) fn column(&mut self, weight: E, point: &[E], pole: E, values: &'a [F]) {
        if !self.is_tiled(values.len()) {
            let eq = eq_table(point).into_iter();
            self.rest.0.extend(eq.map(|eq| weight * eq));
            self.rest.1.extend(values.iter().map(|&value| pole - value));
            return;
        }
        let (high, low) = point.split_at(point.len() - TILE_ELEMENTS.ilog2() as usize);
        let high = eq_table(high).into_iter().map(|eq| weight * eq).collect();
        let low = Poly::new_packed_from_point::<F, E>(low, E::ONE).into_evals();
        let block = Block::Column {
            values,
            pole,
            high,
            low,
        };
        self.push(values.len(), block);
    }

    /// Adds given fractions, as many numerators as denominators.
    pub(crate) fn fractions(&mut self, numerators: Vec<E>, denominators: Vec<E>) {
        if self.is_tiled(numerators.len()) {
            let count = numerators.len();
            self.push(
                count,
                Block::Given(packed(&numerators), packed(&denominators)),
            );
        } else {
            self.rest.0.extend(numerators);
            self.rest.1.extend(denominators);
        }
    }

    /// Whether a block of so many leaves is whole tiles.
    const fn is_tiled(&self, count: usize) -> bool {
        self.vars >= TILED_VARS_MIN && count.is_multiple_of(TILE_ELEMENTS)
    }

    fn push(&mut self, count: usize, block: Block<'a>) {
        debug_assert!(self.rest.0.is_empty(), "blocks come largest first");
        let end = self.ends.last().copied().unwrap_or_default() + count / TILE_ELEMENTS;
        self.ends.push(end);
        self.blocks.push(block);
    }

    /// The leaves.
    pub(crate) fn finish(mut self) -> Leaves<'a> {
        let (mut n, mut d) = std::mem::take(&mut self.rest);
        let tiled = self.vars >= TILED_VARS_MIN;
        let whole = if tiled {
            n.len().next_multiple_of(TILE_ELEMENTS)
        } else {
            1 << self.vars
        };
        n.resize(whole, E::ZERO);
        d.resize(whole, E::ONE);
        if tiled && whole > 0 {
            self.push(whole, Block::Given(packed(&n), packed(&d)));
        }
        Leaves {
            vars: self.vars,
            blocks: self.blocks,
            ends: self.ends,
            few: if tiled { Default::default() } else { (n, d) },
            #[cfg(test)]
            last: None,
        }
    }
}

fn packed(values: &[E]) -> Vec<PackedE> {
    let vectors = values.chunks_exact(pack::WIDTH);
    vectors.map(PackedE::from_ext_slice).collect()
}

/// A tile's numerators and denominators.
#[derive(Debug, Clone, Copy)]
struct Fractions {
    n: [PackedE; TILE],
    d: [PackedE; TILE],
    /// Whether all are 0 / 1.
    padding: bool,
}

impl Fractions {
    /// Padding.
    const NONE: Self = Self {
        n: [PackedE::ZERO; TILE],
        d: [PackedE::ONE; TILE],
        padding: true,
    };

    /// The fractions between two tiles at a challenge.
    fn fold(mut self, one: &Self, challenge: PackedE) -> Self {
        self.padding &= one.padding;
        if !self.padding {
            for (zero, &one) in self.n.iter_mut().zip(&one.n) {
                *zero += challenge * (one - *zero);
            }
            for (zero, &one) in self.d.iter_mut().zip(&one.d) {
                *zero += challenge * (one - *zero);
            }
        }
        self
    }

    /// With `n + lambda d` in the place of n.
    fn join(mut self, lambda: PackedE) -> Self {
        for (n, &d) in self.n.iter_mut().zip(&self.d) {
            *n += lambda * d;
        }
        self
    }
}

/// The sums of a tile from the branches' fractions at 0 and 1 of the round's variable, branch 0 joined.
fn sums(weights: &[PackedE], zero: [&Fractions; 2], one: [&Fractions; 2]) -> [PackedE; 2] {
    if one[0].padding && one[1].padding {
        // The gate is then `n0 + lambda d0`, of degree one.
        let terms = weights.iter().zip(&zero[0].n);
        let at_0 = terms.map(|(&weight, &n)| weight * n).sum();
        return [at_0, PackedE::ZERO];
    }
    let at = |variable: usize| SplitFraction {
        n0: &zero[variable].n[..],
        d0: &zero[variable].d[..],
        n1: &one[variable].n[..],
        d1: &one[variable].d[..],
    };
    gate_sums(weights, at(0), at(1))
}

impl Leaves<'_> {
    /// log2 of their number.
    pub(crate) const fn vars(&self) -> usize {
        self.vars
    }

    /// All of them as a level of the tree, if they are few.
    pub(super) fn level(&self) -> Option<Level> {
        let (n, d) = &self.few;
        if n.is_empty() {
            return None;
        }
        let half = n.len() / 2;
        Some(Level::of(SplitFraction {
            n0: n[..half].to_vec(),
            d0: d[..half].to_vec(),
            n1: n[half..].to_vec(),
            d1: d[half..].to_vec(),
        }))
    }

    const fn tiles(&self) -> usize {
        (1 << self.vars) / TILE_ELEMENTS
    }

    /// A tile.
    fn tile(&self, tile: usize) -> Fractions {
        #[cfg(test)]
        if let Some(last) = self.last.as_deref().filter(|_| tile + 1 == self.tiles()) {
            return *last;
        }
        let mut fractions = Fractions::NONE;
        let block = self.ends.partition_point(|&end| end <= tile);
        let Some(source) = self.blocks.get(block) else {
            return fractions;
        };
        fractions.padding = false;
        let start = block.checked_sub(1).map_or(0, |before| self.ends[before]);
        let within = tile - start;
        let Fractions { n, d, .. } = &mut fractions;
        match source {
            Block::Column {
                values,
                pole,
                high,
                low,
            } => {
                let (weight, pole) = (PackedE::from(high[within]), PackedE::from(*pole));
                let values = &values[within * TILE_ELEMENTS..][..TILE_ELEMENTS];
                let places = PackedF::pack_slice(values);
                for (i, (&eq, &place)) in low.iter().zip(places).enumerate() {
                    n[i] = weight * eq;
                    d[i] = pole - place;
                }
            }
            Block::Given(numerators, denominators) => {
                n.copy_from_slice(&numerators[within * TILE..][..TILE]);
                d.copy_from_slice(&denominators[within * TILE..][..TILE]);
            }
        }
        fractions
    }

    /// The sums of pairs: leaf i and leaf i + half.
    pub(super) fn reduce(&self) -> Level {
        let half = self.tiles() / 2;
        let [(n0, d0), (n1, d1)] = [0, half / 2].map(|first| {
            let mut n = PackedE::zero_vec(half / 2 * TILE);
            let mut d = PackedE::zero_vec(half / 2 * TILE);
            let tiles = n.par_chunks_mut(TILE).zip(d.par_chunks_mut(TILE));
            tiles.enumerate().for_each(|(tile, (n, d))| {
                let zero = self.tile(first + tile);
                let one = self.tile(first + tile + half);
                if one.padding {
                    n.copy_from_slice(&zero.n);
                    d.copy_from_slice(&zero.d);
                    return;
                }
                for i in 0..TILE {
                    (n[i], d[i]) = sum_of(zero.n[i], zero.d[i], one.n[i], one.d[i]);
                }
            });
            (n, d)
        });
        Level::packed(SplitFraction { n0, d0, n1, d1 })
    }

    /// The sums of the first round.
    pub(super) fn sums(&self, lambda: E, rest: &[E]) -> [E; 2] {
        let (weights, quarter) = (Weights::packed(rest), self.tiles() / 4);
        let lambda = PackedE::from(lambda);
        let tiles = (0..quarter).into_par_iter().map(|tile| {
            let [zero_0, zero_1] = [0, 1].map(|v| self.tile(v * quarter + tile).join(lambda));
            let [one_0, one_1] = [2, 3].map(|v| self.tile(v * quarter + tile));
            sums(&weights.low, [&zero_0, &zero_1], [&one_0, &one_1])
        });
        let sums = total(tiles.collect(), &weights.high);
        sums.map(|sum| pack::sum_lanes([sum]))
    }

    /// Folds the first round, and sums the second.
    pub(super) fn fold_and_sum(
        &self,
        challenge: E,
        lambda: E,
        rest: &[E],
    ) -> (Halves<PackedE>, [E; 2]) {
        let (weights, eighth) = (Weights::packed(rest), self.tiles() / 8);
        let (challenge, lambda) = (PackedE::from(challenge), PackedE::from(lambda));
        let mut parts: [Vec<PackedE>; 4] =
            std::array::from_fn(|_| PackedE::zero_vec(2 * eighth * TILE));
        let [n0, d0, n1, d1] = parts.each_mut().map(|part| {
            let (zero, one) = part.split_at_mut(eighth * TILE);
            zero.par_chunks_mut(TILE).zip(one.par_chunks_mut(TILE))
        });
        let tiles = n0.zip(d0).zip(n1.zip(d1)).enumerate();
        let tiles = tiles.map(|(tile, ((n0, d0), (n1, d1)))| {
            let at = |branch: usize, second: usize| {
                let [zero, one] = [0, 2].map(|v| {
                    let eighths = 4 * branch + v + second;
                    self.tile(eighths * eighth + tile)
                });
                zero.fold(&one, challenge)
            };
            let [zero_0, zero_1] = [0, 1].map(|second| at(0, second).join(lambda));
            let [one_0, one_1] = [0, 1].map(|second| at(1, second));
            for ((n, d), fractions) in [
                ((n0.0, d0.0), &zero_0),
                ((n0.1, d0.1), &zero_1),
                ((n1.0, d1.0), &one_0),
                ((n1.1, d1.1), &one_1),
            ] {
                n.copy_from_slice(&fractions.n);
                d.copy_from_slice(&fractions.d);
            }
            sums(&weights.low, [&zero_0, &zero_1], [&one_0, &one_1])
        });
        let sums = total(tiles.collect(), &weights.high);
        let [n0, d0, n1, d1] = parts;
        let halves = SplitFraction { n0, d0, n1, d1 };
        (halves, sums.map(|sum| pack::sum_lanes([sum])))
    }
}

#[cfg(test)]
impl Leaves<'_> {
    /// Adds a lie to the last numerator that makes the sum vanish, for provers that lie elsewhere.
    pub(crate) fn close(&mut self) {
        use p3_field::Field;
        let (numerator, denominator) = super::sum(self);
        let lie = |place: E| -numerator * denominator.inverse() * place;
        if let (Some(n), Some(&d)) = (self.few.0.last_mut(), self.few.1.last()) {
            *n += lie(d);
            return;
        }
        let last = self.tile(self.tiles() - 1);
        let Fractions { mut n, d, .. } = last;
        let values = |vector: PackedE| -> Vec<E> {
            <PackedE as PackedFieldExtension<F, E>>::to_ext_iter([vector]).collect()
        };
        let (mut numerators, places) = (values(n[TILE - 1]), values(d[TILE - 1]));
        numerators[pack::WIDTH - 1] += lie(places[pack::WIDTH - 1]);
        n[TILE - 1] = PackedE::from_ext_slice(&numerators);
        let padding = false;
        self.last = Some(Box::new(Fractions { n, d, padding }));
    }
}
