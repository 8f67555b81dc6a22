//! The leaves of a fractional sum, made tile by tile.

use super::tile::{Halves, Level, TILE, Tile, Weights, gate_sums, sum_of, total};
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

/// Room for a tile's numerators and denominators. It is filled in place: a copy costs as much as a product.
#[derive(Debug, Clone)]
struct Fractions {
    n: [PackedE; TILE],
    d: [PackedE; TILE],
    /// Whether all are 0 / 1.
    padding: bool,
}

impl Fractions {
    /// Padding.
    const fn none() -> Self {
        Self {
            n: [PackedE::ZERO; TILE],
            d: [PackedE::ONE; TILE],
            padding: true,
        }
    }

    /// With `n + lambda d` in the place of n.
    fn join(&mut self, lambda: PackedE) {
        for (n, &d) in self.n.iter_mut().zip(&self.d) {
            *n += lambda * d;
        }
    }
}

/// A tile of the folded leaves of one branch, and whether it is padding.
struct Folded<'a> {
    n: &'a mut [PackedE],
    d: &'a mut [PackedE],
    padding: bool,
}

impl Folded<'_> {
    /// Between two tiles at a challenge.
    fn fill(&mut self, [zero, one]: [&Fractions; 2], challenge: PackedE) {
        self.padding = zero.padding && one.padding;
        if self.padding {
            self.n.fill(PackedE::ZERO);
            self.d.fill(PackedE::ONE);
            return;
        }
        for i in 0..TILE {
            self.n[i] = zero.n[i] + challenge * (one.n[i] - zero.n[i]);
            self.d[i] = zero.d[i] + challenge * (one.d[i] - zero.d[i]);
        }
    }
}

/// The sums of a tile from branch 0 (joined) and branch 1; of the second it is known whether it is padding.
fn sums(
    weights: &[PackedE],
    low: Tile<'_, PackedE>,
    high: Tile<'_, PackedE>,
    padding: bool,
) -> [PackedE; 2] {
    if !padding {
        return gate_sums(weights, low, high);
    }
    // The gate is then `n0 + lambda d0`, of degree one.
    let terms = weights.iter().zip(low.n0);
    [terms.map(|(&weight, &n)| weight * n).sum(), PackedE::ZERO]
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

    /// Fills a tile.
    fn tile(&self, tile: usize, to: &mut Fractions) {
        #[cfg(test)]
        if let Some(last) = self.last.as_deref().filter(|_| tile + 1 == self.tiles()) {
            to.clone_from(last);
            return;
        }
        let Fractions { n, d, padding } = to;
        let block = self.ends.partition_point(|&end| end <= tile);
        let Some(source) = self.blocks.get(block) else {
            n.fill(PackedE::ZERO);
            d.fill(PackedE::ONE);
            *padding = true;
            return;
        };
        *padding = false;
        let start = block.checked_sub(1).map_or(0, |before| self.ends[before]);
        let within = tile - start;
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
    }

    /// The sums of pairs: leaf i and leaf i + half.
    pub(super) fn reduce(&self) -> Level {
        let half = self.tiles() / 2;
        let [(n0, d0), (n1, d1)] = [0, half / 2].map(|first| {
            let mut n = PackedE::zero_vec(half / 2 * TILE);
            let mut d = PackedE::zero_vec(half / 2 * TILE);
            let tiles = n.par_chunks_mut(TILE).zip(d.par_chunks_mut(TILE));
            let tiles = tiles.enumerate();
            tiles.for_each_init(buffers::<2>, |buffers, (tile, (n, d))| {
                let [zero, one] = &mut **buffers;
                self.tile(first + tile, zero);
                self.tile(first + tile + half, one);
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
        let tiles = (0..quarter).into_par_iter();
        let tiles = tiles.map_init(buffers::<4>, |buffers, tile| {
            for (i, buffer) in buffers.iter_mut().enumerate() {
                self.tile(i * quarter + tile, buffer);
            }
            buffers[..2].iter_mut().for_each(|zero| zero.join(lambda));
            let [low, high] = [0, 1].map(|variable| {
                let (zero, one) = (&buffers[variable], &buffers[2 + variable]);
                SplitFraction {
                    n0: &zero.n[..],
                    d0: &zero.d[..],
                    n1: &one.n[..],
                    d1: &one.d[..],
                }
            });
            let padding = buffers[2].padding && buffers[3].padding;
            sums(&weights.low, low, high, padding)
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
        let tiles = tiles.map_init(buffers::<2>, |buffers, (tile, ((n0, d0), (n1, d1)))| {
            let mut folded = [
                (n0.0, d0.0, 0),
                (n0.1, d0.1, 1),
                (n1.0, d1.0, 4),
                (n1.1, d1.1, 5),
            ]
            .map(|(n, d, eighths)| {
                let [zero, one] = &mut **buffers;
                self.tile(eighths * eighth + tile, zero);
                self.tile((eighths + 2) * eighth + tile, one);
                let mut folded = Folded {
                    n,
                    d,
                    padding: false,
                };
                folded.fill([zero, one], challenge);
                folded
            });
            for Folded { n, d, .. } in &mut folded[..2] {
                let joined = n.iter_mut().zip(d.iter());
                joined.for_each(|(n, &d)| *n += lambda * d);
            }
            let [low, high] = [0, 1].map(|variable| {
                let (zero, one) = (&folded[variable], &folded[2 + variable]);
                SplitFraction {
                    n0: &*zero.n,
                    d0: &*zero.d,
                    n1: &*one.n,
                    d1: &*one.d,
                }
            });
            let padding = folded[2].padding && folded[3].padding;
            sums(&weights.low, low, high, padding)
        });
        let sums = total(tiles.collect(), &weights.high);
        let [n0, d0, n1, d1] = parts;
        let halves = SplitFraction { n0, d0, n1, d1 };
        (halves, sums.map(|sum| pack::sum_lanes([sum])))
    }
}

/// Rooms for tiles, made once per task.
fn buffers<const N: usize>() -> Box<[Fractions; N]> {
    Box::new([const { Fractions::none() }; N])
}

#[cfg(test)]
impl Leaves<'_> {
    /// Adds a lie to the last numerator that makes their sum, which is given, vanish, for provers that lie elsewhere.
    pub(crate) fn close(&mut self, (numerator, denominator): (E, E)) {
        use p3_field::Field;
        let lie = |place: E| -numerator * denominator.inverse() * place;
        if let (Some(n), Some(&d)) = (self.few.0.last_mut(), self.few.1.last()) {
            *n += lie(d);
            return;
        }
        let mut last = Fractions::none();
        self.tile(self.tiles() - 1, &mut last);
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
