//! An account that is left until its rent is spent, opened again, and sent its old transactions.
//!
//! The rent of an account is paid for thirty days when it is opened, and ledger time follows the validators' clocks. So in a run of this
//! kind all validators are off at one time, and the clock of each is [`PAUSE`] later when they are on again; the genesis lets ledger time go as far in one
//! block. Every window of a job would be over then, so nobody orders anything in such a run.

use tg_types::DurationMs;

use crate::draw::SeedStream;

/// How long all validators are off by their clocks: a day longer than the rent of an account is paid for.
pub const PAUSE: DurationMs = DurationMs::from_secs(31 * 24 * 3_600);

/// One of so many seeds has such an account.
const SEEDS_APART: u64 = 29;

/// Which of them; not drawn, so that the other runs stay as they were.
const SEED_OF: u64 = 12;

/// An account that is left, and when the pause comes in which its rent is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LapsePlan {
    /// The validator that it and whoever opens it again ask first.
    pub gateway: usize,
    /// How many transactions it sends before it is empty.
    pub transfers: u64,
    /// When all validators go off, in milliseconds of the run, if the account is empty then.
    pub at_ms: u64,
}

impl LapsePlan {
    /// What a seed draws, if these validators are honest.
    pub(super) fn drawn(seed: u64, honest: &[usize]) -> Option<Self> {
        if seed % SEEDS_APART != SEED_OF {
            return None;
        }
        let mut draw = SeedStream::new(seed, "lapse");
        Some(Self {
            gateway: draw.pick(honest),
            transfers: draw.between(1, 5),
            at_ms: draw.between(6_000, 16_000),
        })
    }
}
