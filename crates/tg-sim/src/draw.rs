//! Numbers that a seed gives: one stream for each purpose, so that leaving one part of a run out changes no other.

use tg_types::draw::SplitMix64;

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(crate) struct SeedStream(SplitMix64);

impl SeedStream {
    /// The stream of a seed for a purpose.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("TG/sim/draw/v1");
        hasher.update(&seed.to_be_bytes());
        hasher.update(purpose.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self(SplitMix64::new(u64::from_be_bytes(first)))
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        match (high - low).checked_add(1) {
            Some(count) => low + self.0.next() % count,
            None => self.0.next(),
        }
    }

    /// An index below `count`.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        let last = u64::try_from(count).unwrap_or(u64::MAX) - 1;
        usize::try_from(self.between(0, last)).unwrap_or(0)
    }

    /// True `permille` times of a thousand.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.between(0, 999) < permille
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }
}
