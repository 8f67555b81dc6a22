//! The places at which matching continues in the next block.

use tg_market::lane::queue::{Turn, Waiting};
use tg_types::{Amount, DurationMs, Lane, TimestampMs, fields};

use crate::record::Job;

/// What a unit of work is offered for before priority: all posted prices are the offers', so priority and time order.
const TURN_PRICE: Amount = Amount::new(1 << 32);

/// A waiting job as the queue sees it.
pub(crate) fn waiting_of(job: &Job) -> Waiting {
    let needs = &job.order.needs;
    // What it states is for a whole T4.
    let milli = u64::from(needs.gpu_milli_total()).max(1);
    let expected = DurationMs::new(needs.reference.get().saturating_mul(1_000) / milli);
    waiting_as(job.sequence, needs.priority, job.ordered_at(), expected)
}

/// As [`waiting_of`], of all that counts.
const fn waiting_as(
    sequence: u64,
    priority: u8,
    since: TimestampMs,
    expected: DurationMs,
) -> Waiting {
    Waiting {
        job: sequence,
        price: TURN_PRICE,
        priority,
        since,
        expected,
    }
}

/// A waiting job, as far as its turn follows from it: it may be gone when matching goes on where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Number of the job.
    pub(crate) sequence: u64,
    priority: u8,
    since: TimestampMs,
    expected: DurationMs,
    /// The number of the first job that came when the round that goes on had begun.
    pub(crate) round: u64,
}

impl Cursor {
    fn new(job: &Job, round: u64) -> Self {
        let Waiting {
            job,
            price: _,
            priority,
            since,
            expected,
        } = waiting_of(job);
        Self {
            sequence: job,
            priority,
            since,
            expected,
            round,
        }
    }

    /// The turn at `now` of the job that it was made of.
    pub(crate) fn turn(&self, now: TimestampMs) -> Turn {
        waiting_as(self.sequence, self.priority, self.since, self.expected).turn(now)
    }
}

/// For each lane whose waiting jobs were more than a block could look at, the first of them that it did not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursors {
    pub(crate) posted: Option<Cursor>,
    pub(crate) gang: Option<Cursor>,
    pub(crate) deadline: Option<Cursor>,
}

impl Cursors {
    /// The cursor of a lane.
    pub(crate) const fn of(&self, lane: Lane) -> Option<&Cursor> {
        match lane {
            Lane::Posted => self.posted.as_ref(),
            Lane::Gang => self.gang.as_ref(),
            Lane::Deadline => self.deadline.as_ref(),
            // Where a slot begins follows from its number.
            Lane::Auction => None,
        }
    }

    /// The cursor of a lane that stops at `job` now, where these are those of the last block. If that is a job which the
    /// round that went on had reached, another one began: with all jobs up to the number `next`.
    pub(crate) fn stop_at(&self, job: &Job, was_reached: bool, next: u64) -> Cursor {
        let before = self.of(job.order.needs.lane()).filter(|_| !was_reached);
        Cursor::new(job, before.map_or(next, |it| it.round))
    }

    /// Notes where a lane stopped.
    pub(crate) const fn stop(&mut self, lane: Lane, at: Cursor) {
        match lane {
            Lane::Posted => self.posted = Some(at),
            Lane::Gang => self.gang = Some(at),
            Lane::Deadline => self.deadline = Some(at),
            Lane::Auction => {}
        }
    }
}

fields! { Cursor { sequence, priority, since, expected, round } }

fields! { Cursors { posted, gang, deadline } }
