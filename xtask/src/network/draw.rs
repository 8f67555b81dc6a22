//! Numbers that a seed draws.

use tg_types::draw::SplitMix64;

/// A generator of numbers: the same seed draws the same.
#[derive(Debug, Clone)]
pub(crate) struct SeededDraw(SplitMix64);

impl SeededDraw {
    /// The generator of a seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next number below `bound`, which is not zero.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// The next number from `least` on and below `most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least)
    }
}
