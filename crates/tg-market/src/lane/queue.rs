//! Who is next, and whom a job may push out.
//!
//! Two orders, one for each kind of queue; one queue uses one of them.
//!
//! **[`Waiting::turn`]**, where nobody knows how long jobs run:
//! A job's turn is its offered price for a unit of work times its priority (which multiplies what it is charged),
//! times a factor that grows with its wait. Age alone wins in the end: a job that waited [`AGE_FULL`] comes before
//! all that did not, oldest first, whatever they pay, so at most the jobs that are older than it and the jobs that
//! are served meanwhile go before it.

//!
//! **[`Waiting::turn_by_time`]**, where it is known: what a job pays (price times priority) over the time it would hold
//! others up, greatest first, which is Smith's rule for the least weighted wait. A short job goes before a long one at
//! the same price, so a long job may wait long, but never longer than [`AGE_FULL_LONG`] and [`AGE_FULL_TIMES`] its own
//! time before it comes ahead of all newer ones.

use std::cmp::Reverse;

use tg_types::{Amount, DurationMs, TimestampMs};

/// After this long a job's turn depends on its age only.
pub const AGE_FULL: DurationMs = DurationMs::new(30 * 60 * 1_000);

/// A wait after which a job counts as offering twice its price.
pub const AGE_DOUBLE: DurationMs = DurationMs::new(5 * 60 * 1_000);

/// After this long and [`AGE_FULL_TIMES`] its own time a job's [turn by time](Waiting::turn_by_time) depends on its
/// age only.
pub const AGE_FULL_LONG: DurationMs = DurationMs::new(24 * 60 * 60 * 1_000);

/// See [`AGE_FULL_LONG`].
pub const AGE_FULL_TIMES: u64 = 2;

/// Added to the time of a job in its [turn by time](Waiting::turn_by_time): to start a job takes a while too, and a
/// second more or less decides nothing.
pub const TURN_TIME_BASE: DurationMs = DurationMs::new(10 * 60 * 1_000);

/// Most that priority multiplies.
pub const PRIORITY_MAX: u8 = 8;

/// A job that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Number of the job; orders what is equal.
    pub job: u64,
    /// Offered price for a unit of work, before priority.
    pub price: Amount,
    /// 1 to [`PRIORITY_MAX`]; multiplies the price in the order and in the charge.
    pub priority: u8,
    /// Since when it waits.
    pub since: TimestampMs,
}

/// Position in the queue: the least goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Jobs that waited as long as they may, by since when; none for others.
    aged: (bool, TimestampMs),
    /// Weight of the others.
    weight: Reverse<u128>,
    since: TimestampMs,
    job: u64,
}

impl Waiting {
    /// The job's turn at `now`.
    #[must_use]
    pub fn turn(&self, now: TimestampMs) -> Turn {
        let age = now.saturating_since(self.since);
        let aged = age >= AGE_FULL;
        Turn {
            aged: (!aged, if aged { self.since } else { TimestampMs::ZERO }),
            weight: Reverse(if aged { 0 } else { self.weight(age) }),
            since: self.since,
            job: self.job,
        }
    }

    /// The job's turn at `now` if it is expected to run for `expected`.
    #[must_use]
    pub fn turn_by_time(&self, now: TimestampMs, expected: DurationMs) -> Turn {
        let patience = AGE_FULL_TIMES.saturating_mul(expected.get());
        let patience = DurationMs::new(AGE_FULL_LONG.get().saturating_add(patience));
        let aged = now.saturating_since(self.since) >= patience;
        let full_at = self.since.saturating_add(patience);
        let time = u128::from(TURN_TIME_BASE.get()) + u128::from(expected.get());
        // Thousandths of thousandths, so that cheap long jobs are told apart.
        let weight = self.charge().get().saturating_mul(1_000_000) / time;
        Turn {
            aged: (!aged, if aged { full_at } else { TimestampMs::ZERO }),
            weight: Reverse(if aged { 0 } else { weight }),
            since: self.since,
            job: self.job,
        }
    }

    /// What is charged for a unit of work: the price times the priority.
    #[must_use]
    pub fn charge(&self) -> Amount {
        Amount::new(self.price.get().saturating_mul(self.priority_factor()))
    }

    fn priority_factor(&self) -> u128 {
        u128::from(self.priority.clamp(1, PRIORITY_MAX))
    }

    fn weight(&self, age: DurationMs) -> u128 {
        let factor = u128::from(AGE_DOUBLE.get() + age.get());
        self.charge().get().saturating_mul(factor) / u128::from(AGE_DOUBLE.get())
    }
}

/// A job that runs and could be pushed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemptible {
    /// Number of the job.
    pub job: u64,
    /// Whether its owner agreed to be pushed out (spot).
    pub consents: bool,
    /// Units that become free.
    pub units: u32,
    /// What is lost with it: work since its last checkpoint, and the move.
    pub loss: Amount,
}

/// Whom to push out so that `needed` units become free: only jobs that agreed, and only if less is lost than `gain`.
/// The choice is cheap and not always the cheapest: by rising loss for a unit, then without those that turn out not
/// to be needed, dearest first.
#[must_use]
pub fn victims(running: &[Preemptible], needed: u32, gain: Amount) -> Option<Vec<u64>> {
    let mut order: Vec<&Preemptible> = running
        .iter()
        .filter(|job| job.consents && job.units > 0)
        .collect();
    order.sort_by(|left, right| {
        let cross =
            |a: &Preemptible, b: &Preemptible| a.loss.get().saturating_mul(u128::from(b.units));
        cross(left, right)
            .cmp(&cross(right, left))
            .then(left.job.cmp(&right.job))
    });
    let mut chosen: Vec<&Preemptible> = Vec::new();
    let mut units = 0_u64;
    for job in order {
        if units >= u64::from(needed) {
            break;
        }
        units += u64::from(job.units);
        chosen.push(job);
    }
    if units < u64::from(needed) {
        return None;
    }
    chosen.sort_by_key(|job| (Reverse(job.loss), job.job));
    let mut kept = Vec::new();
    for job in chosen {
        if units - u64::from(job.units) >= u64::from(needed) {
            units -= u64::from(job.units);
        } else {
            kept.push(job);
        }
    }
    let loss = kept
        .iter()
        .fold(Amount::ZERO, |sum, job| sum.saturating_add(job.loss));
    (loss < gain || needed == 0).then(|| {
        let mut jobs: Vec<u64> = kept.iter().map(|job| job.job).collect();
        jobs.sort_unstable();
        jobs
    })
}
