//! Answers that leases ended without paying for: what a requestor that takes and leaves can take from a provider.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Runs of the model that may be answered before a voucher pays for them.
pub(crate) const UNPAID_RUNS_MAX: u64 = 64;

/// The fewest with which a lease begins.
const UNPAID_RUNS_LEAST: u64 = 4;

/// How long a lease that ended is remembered.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// Leases that are remembered; an older one counts for nothing.
const LEASES_MAX: usize = 64;

/// What leases of the last hour ended with and no voucher paid for. In memory: an agent that begins anew has lost nothing yet.
///
/// Stops: a requestor that takes what may be unpaid, ends the lease, and orders again under this name or another. Together
/// such leases get [`UNPAID_RUNS_MAX`] runs in an hour, and [`UNPAID_RUNS_LEAST`] each beyond that.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnpaidRuns(Arc<Mutex<VecDeque<(Instant, u64)>>>);

impl UnpaidRuns {
    /// Runs that a lease which begins now may leave unpaid; with each one that it pays for it may leave one more.
    pub(crate) fn first(&self, now: Instant) -> u64 {
        let ended = self.lock();
        let recent = ended
            .iter()
            .filter(|(at, _)| now.duration_since(*at) < REMEMBERED);
        let lost = recent.fold(0_u64, |sum, (_, runs)| sum.saturating_add(*runs));
        UNPAID_RUNS_MAX.saturating_sub(lost).max(UNPAID_RUNS_LEAST)
    }

    /// Takes note of a lease that ended with so many unpaid runs.
    pub(crate) fn note(&self, now: Instant, runs: u64) {
        if runs == 0 {
            return;
        }
        let mut ended = self.lock();
        if ended.len() >= LEASES_MAX {
            ended.pop_front();
        }
        ended.push_back((now, runs));
    }

    /// A panic of another thread leaves whole values.
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Instant, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn who_takes_and_leaves_gets_less_the_next_time_under_any_name() {
        let (unpaid, now) = (UnpaidRuns::default(), Instant::now());
        let mut taken = 0;
        for _ in 0..10 {
            let first = unpaid.first(now);
            taken += first;
            unpaid.note(now, first);
        }
        assert_eq!(taken, UNPAID_RUNS_MAX + 9 * UNPAID_RUNS_LEAST);
        let now = now + REMEMBERED;
        assert_eq!(unpaid.first(now), UNPAID_RUNS_MAX);
        for _ in 0..10 * LEASES_MAX {
            unpaid.note(now, 1);
        }
        assert_eq!(unpaid.first(now), UNPAID_RUNS_LEAST);
        assert_eq!(unpaid.lock().len(), LEASES_MAX);
        unpaid.note(now, 0);
    }
}
