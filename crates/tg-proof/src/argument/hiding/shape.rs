//! What both sides derive from the public sizes of the columns: where they stand, and the schemes.

use super::bound;
use super::config::{Strength, config};
use super::kept::KeptShape;
use super::scheme::{Config, HidingMmcs, HidingPcs};
use super::stack::{Columns, Stack};
use crate::argument::commitment::CommitmentError;
use crate::argument::soundness::ErrorTerm;
use p3_blake3::Blake3;
use p3_dft::Radix2DFTSmallBatch;
use p3_symmetric::{CompressionFunctionFromHasher, SerializingHasher};
use rand::SeedableRng;
use rand::rngs::StdRng;

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
        bound::report(&self.configs, self.rounds())
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
