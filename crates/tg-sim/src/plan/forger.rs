//! Runs in which a validator proposes blocks that do not hold.

use crate::draw::SeedStream;

/// One of so many seeds has such a validator, if it has none that gives nothing of what it keeps.
const SEEDS_APART: u64 = 17;

/// Which of them; not drawn, so that the other runs stay as they were. No seed of this kind failed before there were any.
const SEED_OF: u64 = 13;

/// Whether a seed is one of them.
pub(super) const fn is_of(seed: u64) -> bool {
    seed % SEEDS_APART == SEED_OF
}

/// Its seat, of so many, if the seed draws no other hostile one. The first seat is honest.
pub(super) fn seat(seed: u64, count: usize) -> usize {
    1 + SeedStream::new(seed, "forger").index(count - 1)
}
