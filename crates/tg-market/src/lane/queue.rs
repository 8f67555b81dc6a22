//! Who is next, and whom a job may push out.
//!
//! A job's turn is its offered price for a unit of work times its priority (which multiplies what it is charged), times a
//! factor that grows with its wait, over the time for which it would hold others up: without the wait that is Smith's rule for the
//! least weighted wait. So a short job goes before a long one at the same price. Age alone wins in the end: a job that waited
//! [`AGE_FULL`] and [`AGE_FULL_TIMES`] its own time comes before all that waited less than that, whatever they pay, so at most
//! the jobs whose time came before its own and the jobs that are served meanwhile go before it.

use std::cmp::Reverse;

use tg_types::{Amount, DurationMs, TimestampMs};

/// After this long and [`AGE_FULL_TIMES`] its own time a job's turn depends on its age only.
pub const AGE_FULL: DurationMs = DurationMs::new(30 * 60 * 1_000);

/// See [`AGE_FULL`]. On the trace less of it lets more short jobs wait behind long ones that came before them.
pub const AGE_FULL_TIMES: u64 = 8;

/// How many times its price is added to what a job counts as offering when its turn begins to depend on its age only; in
/// proportion before that. After 5 min a job of no time counts as offering twice its price.
pub const AGE_GAIN: u64 = 6;

/// Added to the time of a job in its turn: to start a job takes a while too, and a second more or less decides nothing.
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
    /// How long it is expected to run on a GPU that all jobs are compared on; 0 if nobody knows.
    pub expected: DurationMs,
}

/// Position in the queue: the least goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Jobs that waited as long as they may, by when they had; none for others.
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
        let patience = self.patience();
        let aged = age >= patience;
        let full_at = self.since.saturating_add(patience);
        Turn {
            aged: (!aged, if aged { full_at } else { TimestampMs::ZERO }),
            weight: Reverse(if aged { 0 } else { self.weight(age) }),
            since: self.since,
            job: self.job,
        }
    }

    /// How long the job waits at most until its turn depends on its age only.
    #[must_use]
    pub const fn patience(&self) -> DurationMs {
        let own = AGE_FULL_TIMES.saturating_mul(self.expected.get());
        DurationMs::new(AGE_FULL.get().saturating_add(own))
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
        let factor = u128::from(age.get()) * u128::from(AGE_GAIN) * 1_000;
        let factor = 1_000 + factor / u128::from(self.patience().get());
        let time = u128::from(TURN_TIME_BASE.get()) + u128::from(self.expected.get());
        // Times 1,000 twice, so that what pays little is told apart.
        let paid = self.charge().get().saturating_mul(1_000);
        paid.saturating_mul(factor) / time
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
