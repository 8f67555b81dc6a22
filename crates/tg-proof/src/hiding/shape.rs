//! What both sides derive from the public sizes of the columns: where they stand, and the schemes.

use super::bound;
use super::kept::KeptShape;
use super::{Config, HidingMmcs, HidingPcs};
use crate::commitment::{CommitmentError, STACK_VARS_MAX};
use crate::field::{E, EXTENSION_DEGREE, basis};
use crate::layout::log2_ceil;
use crate::soundness::ErrorTerm;
use p3_blake3::Blake3;
use p3_dft::Radix2DFTSmallBatch;
use p3_field::PrimeCharacteristicRing;
use p3_symmetric::{CompressionFunctionFromHasher, SerializingHasher};
use p3_whir::parameters::{FoldingFactor, ProtocolParameters, SecurityAssumption};
use p3_whir::{ZkParameters, ZkWhirConfig};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Variables of the block of uniform cells that hides the value of a stacked polynomial at a drawn point. That value is
/// uniform unless the eq of the point at the block's 128 cells span less than E over F.
pub(super) const BLINDING_VARS: usize = 7;
/// Variables of a coefficient's number: at most 2^6 coefficients of the mask of a sumcheck, one and two per round.
pub const COEFFICIENT_VARS: usize = 6;
/// Variables of a coefficient's cells.
const CELL_VARS: usize = 3;
/// Variables of the block of both vectors of coefficients.
const MASK_VARS: usize = 1 + CELL_VARS + COEFFICIENT_VARS;
/// Least variables of a stacked polynomial: its first code has room for as many random rows as are opened.
pub const STACK_VARS_MIN: usize = 11;

/// The columns of one hiding commitment in the caller's order: column c has 2^vars\[c\] cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// Variables per column.
    pub vars: Vec<usize>,
}

/// Where a column stands in its stacked polynomial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First cell, a multiple of 2^vars.
    pub start: usize,
    /// Variables.
    pub vars: usize,
}

/// How the columns of a commitment and the blocks that hide it are stacked into one polynomial, largest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Per column its place.
    pub columns: Vec<Place>,
    /// The coefficients of the sumcheck's mask, in the first commitment.
    pub mask: Option<Place>,
    /// The random rows of a commitment that is opened more than once: the first cell, and log2 of the cells of a row. All
    /// cells from there on are uniform.
    rows: Option<(usize, usize)>,
    /// The cells that hide the value at a drawn point.
    pub blinding: Place,
    /// Variables of the stacked polynomial.
    pub vars: usize,
}

impl Stack {
    fn of(columns: &Columns, masked: bool) -> Self {
        let blocks = [(BLINDING_VARS, true), (MASK_VARS, masked)];
        let blocks = blocks
            .iter()
            .filter(|(_, used)| *used)
            .map(|(vars, _)| *vars);
        let vars: Vec<usize> = columns.vars.iter().copied().chain(blocks).collect();
        let (mut places, start) = Self::place(&vars);
        let mask = masked.then(|| places.pop()).flatten();
        let blinding = places.pop().unwrap_or(Place { start: 0, vars: 0 });
        Self {
            columns: places,
            mask,
            rows: None,
            blinding,
            vars: log2_ceil(start.min(1 << 40)).max(STACK_VARS_MIN),
        }
    }

    /// Columns one after the other, largest first; the cell after the last.
    pub(super) fn place(vars: &[usize]) -> (Vec<Place>, usize) {
        let mut order: Vec<usize> = (0..vars.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(vars[index]));
        let mut places = vec![Place { start: 0, vars: 0 }; vars.len()];
        let mut start = 0usize;
        for index in order {
            let vars = vars[index];
            places[index] = Place { start, vars };
            start = start.saturating_add(1usize.checked_shl(vars as u32).unwrap_or(usize::MAX));
        }
        (places, start)
    }

    /// Columns in their places, and random rows.
    pub(super) const fn kept(columns: Vec<Place>, rows: (usize, usize), vars: usize) -> Self {
        Self {
            columns,
            mask: None,
            rows: Some(rows),
            blinding: Place { start: 0, vars: 0 },
            vars,
        }
    }

    /// The first cell of the random rows and log2 of the cells of a row, if there are some.
    #[must_use]
    pub const fn rows(&self) -> Option<(usize, usize)> {
        self.rows
    }

    /// A point of the stack as one of the committed polynomial: with random rows the variables within a row lead.
    #[must_use]
    pub fn committed_point(&self, at: &[E]) -> Vec<E> {
        let within = self.rows.map_or(0, |(_, fold)| fold);
        let (row, within) = at.split_at(at.len() - within);
        [within, row].concat()
    }

    /// The point of the stacked polynomial whose value is `(1 - t) c~(z) + t d~(z)`, c and d the two vectors of
    /// coefficients.
    #[must_use]
    pub fn mask_point(&self, t: E, z: &[E]) -> Vec<E> {
        let start = self.mask.map_or(0, |mask| mask.start) >> MASK_VARS;
        let high = (0..self.vars - MASK_VARS).rev();
        let high = high.map(|bit| E::from(crate::field::F::from_bool(start >> bit & 1 == 1)));
        let cells = coefficient_point();
        high.chain([t])
            .chain(cells)
            .chain(z.iter().copied())
            .collect()
    }

    /// The cell of one coefficient: of c or d (`second`), its number, and which of its cells.
    #[must_use]
    pub fn mask_cell(&self, second: bool, coefficient: usize, cell: usize) -> usize {
        let start = self.mask.map_or(0, |mask| mask.start);
        start + ((usize::from(second) << CELL_VARS | cell) << COEFFICIENT_VARS | coefficient)
    }
}

/// A coefficient of a mask is the extension of its eight base cells at this point. The products of its coordinates span
/// E (1, X, X^2, X X^2, X^4), so that uniform cells give a uniform coefficient.
pub(super) fn coefficient_point() -> [E; CELL_VARS] {
    const _: () = assert!(EXTENSION_DEGREE == 5);
    [basis(1), basis(2), basis(4)]
}

/// Per cell its weight in a coefficient.
#[must_use]
pub fn coefficient_weights() -> Vec<E> {
    crate::field::eq_table(&coefficient_point())
}

/// What an opening is to withstand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Strength {
    /// Minus log2 of the sum of its errors, at least.
    pub bits: f64,
    /// Most grinding of one phase in bits.
    pub grinding: usize,
}

impl Strength {
    /// For proofs: two openings, and all else, compose to more than [`crate::soundness::LEVEL`].
    pub const FULL: Self = Self {
        bits: 103.0,
        grinding: crate::commitment::GRINDING_BITS,
    };
}

/// What both sides derive from public sizes.
#[derive(Debug)]
pub struct HidingShape {
    pub(super) stacks: Vec<Stack>,
    pub(super) configs: Vec<Config>,
}

impl HidingShape {
    /// The shape for the columns of some commitments, at least one. The first also holds the mask.
    ///
    /// # Errors
    /// If a commitment is too large or no parameters reach the target.
    pub fn new(commitments: &[Columns]) -> Result<Self, CommitmentError> {
        Self::with_strength(commitments, Strength::FULL)
    }

    /// A shape whose openings withstand less: for statistics over many of them.
    ///
    /// # Errors
    /// Those of [`HidingShape::new`].
    pub fn with_strength(
        commitments: &[Columns],
        strength: Strength,
    ) -> Result<Self, CommitmentError> {
        let stacks = commitments.iter().enumerate();
        let stacks: Vec<Stack> = stacks
            .map(|(index, columns)| Stack::of(columns, index == 0))
            .collect();
        if stacks.is_empty() {
            return Err(CommitmentError::NoParameters { vars: 0 });
        }
        let configs = stacks.iter().map(|stack| config(stack.vars, strength));
        Ok(Self {
            configs: configs.collect::<Result<_, _>>()?,
            stacks,
        })
    }

    /// A commitment that is kept, alone.
    #[must_use]
    pub fn of_kept(kept: &KeptShape) -> Self {
        let (stacks, configs) = (Vec::new(), Vec::new());
        Self { stacks, configs }.and_kept(kept)
    }

    /// The same with one more commitment, the last, that is kept.
    #[must_use]
    pub fn and_kept(mut self, kept: &KeptShape) -> Self {
        self.stacks.push(kept.stack.clone());
        self.configs.push(kept.config.clone());
        self
    }

    /// Per commitment how it is stacked.
    #[must_use]
    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// Per commitment the variables of its polynomial, log2 of the inverse rate of its first code, and log2 of the places
    /// of that code: what a prover keeps.
    pub fn codewords(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        self.configs.iter().map(|config| {
            let (vars, rate) = (
                config.num_variables(),
                config.params().starting_log_inv_rate,
            );
            (vars, rate, vars + rate - config.round_folding_factor(0))
        })
    }

    /// Rounds of the sumcheck.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.stacks
            .iter()
            .map(|stack| stack.vars)
            .max()
            .unwrap_or(0)
    }

    /// Coefficients of the sumcheck's mask: a constant, and a linear and a quadratic one per round.
    #[must_use]
    pub fn coefficients(&self) -> usize {
        1 + 2 * self.rounds()
    }

    /// Every error of a proof about this shape, each with its source.
    #[must_use]
    pub fn report(&self) -> Vec<ErrorTerm> {
        bound::report(self)
    }

    /// log2 of the number of polynomials that the roots leave open together: what is drawn by a caller is charged over
    /// them.
    #[must_use]
    pub fn candidate_bits(&self) -> f64 {
        self.configs.iter().map(bound::candidate_bits).sum()
    }

    /// The scheme of one commitment, its randomness from a seed; a verifier needs none.
    ///
    /// # Panics
    /// If there are fewer commitments.
    #[must_use]
    pub fn scheme(&self, index: usize, mut rng: StdRng) -> HidingPcs {
        let mmcs = HidingMmcs::new(
            SerializingHasher::new(Blake3),
            CompressionFunctionFromHasher::new(Blake3),
            0,
            StdRng::from_rng(&mut rng),
        );
        let dft = Radix2DFTSmallBatch::default();
        HidingPcs::new(self.configs[index].clone(), dft, mmcs, rng)
    }
}

/// Variables that are left for the library's last message.
const LAST_VARS: usize = 6;
/// Most variables of one fold.
const FOLD_MAX: usize = 7;

/// How a polynomial is folded: at most three times, since every fold and every switch to another code commits masks, and
/// every commitment multiplies the candidates that challenges are charged over.
fn folds(vars: usize) -> Vec<usize> {
    let first = vars.saturating_sub(LAST_VARS).clamp(4, FOLD_MAX);
    let rest = vars.saturating_sub(first + LAST_VARS);
    match rest {
        0 => vec![first],
        1..=FOLD_MAX => vec![first, rest],
        _ => vec![first, rest.div_ceil(2), rest / 2],
    }
}

/// The parameters of least level that withstand enough. The library counts queries at the rate of the message; the
/// codes have random rows besides, so that the level it is asked for is found here, by the bound at their true rates.
fn config(vars: usize, strength: Strength) -> Result<Config, CommitmentError> {
    if vars > STACK_VARS_MAX {
        return Err(CommitmentError::TooLarge {
            cells: 1 << vars.min(62),
        });
    }
    let folds = folds(vars);
    // Random rows beside 2^rows ones of a message: fewer of these need a lower rate.
    let rows = vars - folds[0];
    let rate = if rows < 9 { 5 } else { 3 };
    let rates = vec![5; folds.len() - 1];
    least_config(vars, (rate, folds, rates), strength)
}

/// Folds and rates of a commitment whose first fold is given.
pub(super) fn fold_plan(vars: usize, first: usize) -> (Vec<usize>, Vec<usize>) {
    let rest = vars.saturating_sub(first + LAST_VARS);
    let folds = match rest {
        0 => vec![first],
        1..=FOLD_MAX => vec![first, rest],
        _ => vec![first, rest.div_ceil(2), rest / 2],
    };
    let rates = vec![5; folds.len() - 1];
    (folds, rates)
}

/// The parameters of least level that withstand enough, for the first rate, the folds, and the rates of later words.
pub(super) fn least_config(
    vars: usize,
    (rate, folds, rates): (usize, Vec<usize>, Vec<usize>),
    strength: Strength,
) -> Result<Config, CommitmentError> {
    let mask_log_inv_rate = if folds.len() > 2 { 2 } else { 3 };
    let parameters = ProtocolParameters {
        security_level: 0,
        pow_bits: strength.grinding,
        folding_factor: FoldingFactor::PerRound(folds),
        soundness_type: SecurityAssumption::JohnsonBound,
        starting_log_inv_rate: rate,
        round_log_inv_rates: rates,
    };
    let least = strength.bits.ceil() as usize;
    (least..least + 32)
        .find_map(|level| {
            let parameters = ProtocolParameters {
                security_level: level,
                ..parameters.clone()
            };
            let masks = ZkParameters {
                ell_zk: 3,
                mask_log_inv_rate,
            };
            let config = ZkWhirConfig::new(vars, parameters, masks).ok()?;
            let enough =
                config.check_pow_bits() && bound::bits(&bound::opening(&config)) >= strength.bits;
            enough.then_some(config)
        })
        .ok_or(CommitmentError::NoParameters { vars })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_size_has_parameters_that_withstand_enough() {
        for vars in STACK_VARS_MIN..=STACK_VARS_MAX {
            let config = config(vars, Strength::FULL).unwrap();
            let terms = bound::opening(&config);
            assert!(bound::bits(&terms) >= Strength::FULL.bits, "{terms:?}");
            assert!(config.n_rounds() < 3);
        }
    }

    /// Places are aligned, disjoint and within the stack, whatever the order of sizes.
    #[test]
    fn columns_and_blocks_have_places_of_their_own() {
        for vars in [vec![], vec![0, 0, 3], vec![3, 12, 7, 12], vec![10; 5]] {
            for masked in [false, true] {
                let stack = Stack::of(&Columns { vars: vars.clone() }, masked);
                let blocks = stack
                    .columns
                    .iter()
                    .chain(&stack.mask)
                    .chain([&stack.blinding]);
                let mut taken = vec![false; 1 << stack.vars];
                for place in blocks {
                    assert_eq!(place.start % (1 << place.vars), 0);
                    for cell in &mut taken[place.start..place.start + (1 << place.vars)] {
                        assert!(!std::mem::replace(cell, true));
                    }
                }
                assert_eq!(stack.mask.is_some(), masked);
            }
        }
    }

    /// The weights of a coefficient's cells span the extension: a matrix of their coefficients has rank five.
    #[test]
    fn uniform_cells_give_uniform_coefficients() {
        use p3_field::{BasedVectorSpace, Field};
        let mut rows: Vec<Vec<crate::field::F>> = coefficient_weights()
            .iter()
            .map(|weight| weight.as_basis_coefficients_slice().to_vec())
            .collect();
        let mut rank = 0;
        for column in 0..EXTENSION_DEGREE {
            let Some(pivot) = (rank..rows.len()).find(|&row| !rows[row][column].is_zero()) else {
                continue;
            };
            rows.swap(rank, pivot);
            let (own, inverse) = (rows[rank].clone(), rows[rank][column].inverse());
            for row in &mut rows[rank + 1..] {
                let factor = row[column] * inverse;
                row.iter_mut()
                    .zip(&own)
                    .for_each(|(a, &b)| *a -= factor * b);
            }
            rank += 1;
        }
        assert_eq!(rank, EXTENSION_DEGREE);
    }
}
