//! Limits on unpaid answers: what a requestor that takes answers and never pays can cost a provider.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tg_types::LeaseId;
use tokio::time::Instant;

/// Runs of the model that may be answered before a voucher pays for them.
pub(crate) const UNPAID_RUNS_MAX: u64 = 64;

/// The fewest with which a lease begins.
const UNPAID_RUNS_LEAST: u64 = 4;

/// How long a lease that ended is remembered.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// Leases that are remembered; an older one counts for nothing.
const LEASES_MAX: usize = 64;

/// A lease and what it leaves unpaid.
#[derive(Debug, Clone, Copy)]
struct UnpaidLease {
    lease: LeaseId,
    /// When it ended; nothing of one that lives.
    ended: Option<Instant>,
    /// Runs that no voucher paid for; of a lease that lives, those that it might leave so.
    runs: u64,
}

impl UnpaidLease {
    fn counts(&self, now: Instant) -> bool {
        self.ended
            .is_none_or(|at| now.duration_since(at) < REMEMBERED)
    }
}

/// What leases that live may leave unpaid, and what those of the last hour ended with and no voucher paid for. In memory: an agent that
/// begins anew has lost nothing yet.
///
/// Stops: a requestor that takes what may be unpaid, ends the lease, and orders again under this name or another, or has many leases at once.
/// Together such leases get [`UNPAID_RUNS_MAX`] runs in an hour, and [`UNPAID_RUNS_LEAST`] each beyond that.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnpaidRuns(Arc<Mutex<VecDeque<UnpaidLease>>>);

impl UnpaidRuns {
    /// Runs that a lease which begins now may leave unpaid; with each one that it pays for it may leave one more. They count as lost
    /// until the lease has ended.
    pub(crate) fn first(&self, lease: LeaseId, now: Instant) -> u64 {
        let mut leases = self.lock();
        leases.retain(|it| it.lease != lease);
        let counted = leases.iter().filter(|it| it.counts(now));
        let lost = counted.fold(0_u64, |sum, it| sum.saturating_add(it.runs));
        let runs = UNPAID_RUNS_MAX.saturating_sub(lost).max(UNPAID_RUNS_LEAST);
        keep(
            &mut leases,
            UnpaidLease {
                lease,
                ended: None,
                runs,
            },
        );
        runs
    }

    /// Takes note that a lease ended with so many unpaid runs.
    pub(crate) fn note(&self, lease: LeaseId, now: Instant, runs: u64) {
        let mut leases = self.lock();
        leases.retain(|it| it.lease != lease);
        if runs > 0 {
            keep(
                &mut leases,
                UnpaidLease {
                    lease,
                    ended: Some(now),
                    runs,
                },
            );
        }
    }

    /// A panic of another thread leaves whole values.
    fn lock(&self) -> MutexGuard<'_, VecDeque<UnpaidLease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a lease; for one too many the first that has ended goes.
fn keep(leases: &mut VecDeque<UnpaidLease>, lease: UnpaidLease) {
    if leases.len() >= LEASES_MAX {
        let ended = leases.iter().position(|it| it.ended.is_some());
        leases.remove(ended.unwrap_or(0));
    }
    leases.push_back(lease);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(number: u64) -> LeaseId {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        LeaseId::new(bytes)
    }

    #[test]
    fn who_takes_and_leaves_gets_less_the_next_time_under_any_name() {
        let (unpaid, now) = (UnpaidRuns::default(), Instant::now());
        let mut taken = 0;
        for number in 0..10 {
            let first = unpaid.first(lease(number), now);
            taken += first;
            unpaid.note(lease(number), now, first);
        }
        assert_eq!(taken, UNPAID_RUNS_MAX + 9 * UNPAID_RUNS_LEAST);
        let now = now + REMEMBERED;
        assert_eq!(unpaid.first(lease(10), now), UNPAID_RUNS_MAX);
        unpaid.note(lease(10), now, 0);
        for number in 0..10 * LEASES_MAX as u64 {
            unpaid.note(lease(100 + number), now, 1);
        }
        assert_eq!(unpaid.first(lease(11), now), UNPAID_RUNS_LEAST);
        assert_eq!(unpaid.lock().len(), LEASES_MAX);
    }

    #[test]
    fn leases_that_live_together_share_what_may_be_unpaid() {
        let (unpaid, now) = (UnpaidRuns::default(), Instant::now());
        let firsts = |of: std::ops::Range<u64>| -> Vec<u64> {
            of.map(|number| unpaid.first(lease(number), now)).collect()
        };
        let least = UNPAID_RUNS_LEAST;
        assert_eq!(firsts(0..4), [UNPAID_RUNS_MAX, least, least, least]);
        // However long they live.
        let later = now + REMEMBERED * 2;
        assert_eq!(unpaid.first(lease(4), later), least);
        // Served anew, a lease is counted once.
        assert_eq!(
            unpaid.first(lease(0), later),
            UNPAID_RUNS_MAX - 4 * UNPAID_RUNS_LEAST
        );
        // Those that paid for all have taken nothing.
        for number in 0..5 {
            unpaid.note(lease(number), later, 0);
        }
        assert!(unpaid.lock().is_empty());
        assert_eq!(unpaid.first(lease(5), later), UNPAID_RUNS_MAX);
        // A lease that lives is not forgotten for one that ended.
        for number in 0..10 * LEASES_MAX as u64 {
            unpaid.note(lease(100 + number), later, 1);
        }
        let lives = unpaid.lock().iter().any(|it| it.lease == lease(5));
        assert!(lives);
    }
}
