//! The ledger's time, by which its limits hold, estimated from the times of its blocks.

use std::time::Instant;

use tg_sdk::clock;

/// By how much the time is set back at most when a block has an earlier one, in milliseconds: a block is observed some time after it was
/// made, and this machine counts seconds a little too fast or too slowly.
const BACK_MAX_MS: i64 = 100;

/// A block whose time is earlier by more than this, in milliseconds, was not delayed: an earlier observation was wrong.
const WRONG_MS: i64 = 30_000;

/// The ledger's time: that of the last observed block, plus what has passed since. The clock of the machine is not used once a block was
/// observed. Stops: a clock that is minutes ahead, by which every lease is late while the ledger waits, and all collateral is lost.
#[derive(Debug)]
pub(crate) struct LedgerClock {
    begun: Instant,
    /// The time of the last observed block.
    block_ms: u64,
    /// The ledger's time when this began.
    at_begin_ms: Option<i64>,
}

impl LedgerClock {
    /// A clock that has not observed a block.
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            block_ms: 0,
            at_begin_ms: None,
        }
    }

    /// Sets the time from the newest block, observed now.
    pub(crate) fn observe_block(&mut self, block_ms: u64) {
        self.observe_block_at(block_ms, self.passed_ms());
    }

    /// The ledger's time in milliseconds; before a block was observed, that of this machine.
    pub(crate) fn now(&self) -> u64 {
        let now = self.now_at(self.passed_ms());
        now.unwrap_or_else(|| clock::now().get())
    }

    fn passed_ms(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn observe_block_at(&mut self, block_ms: u64, passed_ms: i64) {
        // The same block again says nothing about the time.
        if block_ms == self.block_ms {
            return;
        }
        self.block_ms = block_ms;
        let observed = i64::try_from(block_ms).unwrap_or(i64::MAX);
        let observed = observed.saturating_sub(passed_ms);
        self.at_begin_ms = Some(match self.at_begin_ms {
            Some(known) if (1..=WRONG_MS).contains(&known.saturating_sub(observed)) => {
                observed.max(known.saturating_sub(BACK_MAX_MS))
            }
            _ => observed,
        });
    }

    fn now_at(&self, passed_ms: i64) -> Option<u64> {
        let now = self.at_begin_ms?.saturating_add(passed_ms);
        Some(u64::try_from(now).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_blocks_and_goes_on_between_them() {
        let mut clock = LedgerClock::new();
        assert_eq!(clock.now_at(7), None);
        clock.observe_block_at(1_000_000, 50);
        assert_eq!(clock.now_at(50), Some(1_000_000));
        assert_eq!(clock.now_at(2_050), Some(1_002_000));
        // The same block later says nothing.
        clock.observe_block_at(1_000_000, 9_050);
        assert_eq!(clock.now_at(9_050), Some(1_009_000));
        // A later time is taken at once: the first block was an old one.
        clock.observe_block_at(1_060_000, 10_050);
        assert_eq!(clock.now_at(10_050), Some(1_060_000));
        // An earlier one step by step: it was observed late.
        clock.observe_block_at(1_069_000, 20_050);
        assert_eq!(clock.now_at(20_050), Some(1_069_900));
        clock.observe_block_at(1_079_880, 30_050);
        assert_eq!(clock.now_at(30_050), Some(1_079_880));
    }

    /// Stops: a gateway that once showed a time of next year, by which every lease is late for ever.
    #[test]
    fn a_wrong_time_does_not_last() {
        let mut clock = LedgerClock::new();
        clock.observe_block_at(1_000_000, 0);
        clock.observe_block_at(u64::MAX, 1_000);
        assert!(clock.now_at(1_000) > Some(2_000_000));
        clock.observe_block_at(1_002_000, 2_000);
        assert_eq!(clock.now_at(2_000), Some(1_002_000));
    }

    /// This machine's clock is decades ahead of the ledger's, or an hour behind.
    #[test]
    fn the_machines_clock_is_not_used_once_a_block_was_observed() {
        for block in [5_000, clock::now().get() + 3_600_000] {
            let mut clock = LedgerClock::new();
            clock.observe_block(block);
            let now = clock.now();
            assert!((block..block + 60_000).contains(&now), "{now}");
        }
    }
}
