//! What to do next about one lease: a pure function of what the ledger says, what is at hand, and the time.
//!
//! ```text
//!  ledger:  leased ----> running ----> committed ----> verifying ----> (ended)
//!  agent :  submit       execute,      prove, store    wait            forget
//!           start        store output, evidence,
//!                        submit        submit
//!                        commitment    evidence
//! ```
//!
//! Proving starts while the commitment is still on its way into a block. A transaction without effect is sent again
//! after [`RESEND_MS`]; work that fails is tried again after a growing wait, [`TRIES_MAX`] times.
//! A declared throttle holds back the last message until the work has taken as long as a machine of that speed takes.

use tg_sdk::dto::{JobStateDto, LeaseDto, ModeDto};
use tg_types::Digest;

use crate::worker::{Execution, Stage};

/// After how many milliseconds a transaction without effect is sent again: several block times.
pub const RESEND_MS: u64 = 4_000;

/// How often work is tried before the lease is left to end by itself.
pub const TRIES_MAX: u32 = 4;

/// First wait after failed work, in milliseconds; it doubles.
pub const RETRY_MS: u64 = 250;

/// A transaction about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Work begins.
    Start,
    /// The receipt.
    Commit,
    /// The evidence.
    Evidence,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Submit a transaction, then call [`LeaseTask::submitted`].
    Submit(Message),
    /// Begin a stage of work, then call [`LeaseTask::begun`] and, when it ends, one of the outcomes.
    Begin(Stage),
    /// Nothing before this time (milliseconds), unless something changes.
    Wait(u64),
    /// The lease needs nothing more.
    Forget(Farewell),
}

/// Why a lease needs nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// The ledger ended it.
    Ended,
    /// Its time is over; the ledger will end it.
    Late,
    /// The work failed too often.
    Failed,
    /// The agent shuts down and has not started it.
    NotStarted,
}

/// Evidence that is stored where validators find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u32,
}

/// What is at hand for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hand {
    Nothing,
    Executed(Execution),
    Proved(Execution, Evidence),
}

/// Everything the agent knows about one lease.
#[derive(Debug, Clone)]
pub struct LeaseTask {
    lease: LeaseDto,
    mode: ModeDto,
    hand: Hand,
    busy: Option<Stage>,
    sent: Option<(Message, u64)>,
    failures: u32,
    retry_at: u64,
    began_at: Option<u64>,
    work_ms_min: u64,
}

impl LeaseTask {
    /// A lease seen for the first time. `work_ms_min` is how long the work has to take at least: a declared throttle.
    #[must_use]
    pub const fn new(lease: LeaseDto, mode: ModeDto, work_ms_min: u64) -> Self {
        Self {
            lease,
            mode,
            hand: Hand::Nothing,
            busy: None,
            sent: None,
            failures: 0,
            retry_at: 0,
            began_at: None,
            work_ms_min,
        }
    }

    /// The lease as the ledger last showed it.
    #[must_use]
    pub const fn lease(&self) -> &LeaseDto {
        &self.lease
    }

    /// What was executed, once it is.
    #[must_use]
    pub const fn execution(&self) -> Option<&Execution> {
        match &self.hand {
            Hand::Nothing => None,
            Hand::Executed(execution) | Hand::Proved(execution, _) => Some(execution),
        }
    }

    /// The evidence, once it is stored.
    #[must_use]
    pub const fn evidence(&self) -> Option<Evidence> {
        match &self.hand {
            Hand::Proved(_, evidence) => Some(*evidence),
            Hand::Nothing | Hand::Executed(_) => None,
        }
    }

    /// How often the work failed.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// What to do next at `now` (milliseconds). `is_closing` says that the agent takes on nothing new.
    #[must_use]
    pub fn next(&self, now: u64, is_closing: bool) -> Step {
        if self.lease.end.is_some() {
            return Step::Forget(Farewell::Ended);
        }
        if now >= self.lease.finish_by_ms {
            return Step::Forget(Farewell::Late);
        }
        if self.failures >= TRIES_MAX {
            return Step::Forget(Farewell::Failed);
        }
        match self.lease.state {
            JobStateDto::Leased if is_closing && self.sent.is_none() => {
                Step::Forget(Farewell::NotStarted)
            }
            // Booked for later.
            JobStateDto::Leased if now < self.lease.begins_ms => Step::Wait(self.lease.begins_ms),
            // The other members of the gang have yet to start.
            JobStateDto::Leased if self.lease.started => Step::Wait(u64::MAX),
            JobStateDto::Leased => self.submit(Message::Start, now),
            // Another member hands in the result.
            _ if self.lease.lead.is_some() => Step::Wait(u64::MAX),
            JobStateDto::Running => self.next_running(now),
            JobStateDto::Committed => self.next_committed(now),
            JobStateDto::Submitted
            | JobStateDto::Queued
            | JobStateDto::Verifying
            | JobStateDto::Accepted
            | JobStateDto::Paid
            | JobStateDto::Refunded
            | JobStateDto::Disputed
            | JobStateDto::Expired
            | JobStateDto::Cancelled => Step::Wait(u64::MAX),
        }
    }

    fn next_running(&self, now: u64) -> Step {
        if self.hand == Hand::Nothing {
            return self.begin(Stage::Execute, now);
        }
        let commit = match self.mode {
            ModeDto::None => self.submit_throttled(Message::Commit, now),
            ModeDto::Zk => self.submit(Message::Commit, now),
        };
        match (&self.hand, self.mode, &commit) {
            (Hand::Executed(_), ModeDto::Zk, Step::Wait(_)) => self.begin(Stage::Prove, now),
            _ => commit,
        }
    }

    fn next_committed(&self, now: u64) -> Step {
        match (self.mode, &self.hand) {
            (ModeDto::None, _) => Step::Wait(u64::MAX),
            (ModeDto::Zk, Hand::Nothing) => self.begin(Stage::Execute, now),
            (ModeDto::Zk, Hand::Executed(_)) => self.begin(Stage::Prove, now),
            (ModeDto::Zk, Hand::Proved(..)) => self.submit_throttled(Message::Evidence, now),
        }
    }

    const fn begin(&self, stage: Stage, now: u64) -> Step {
        if self.busy.is_some() {
            Step::Wait(u64::MAX)
        } else if now < self.retry_at {
            Step::Wait(self.retry_at)
        } else {
            Step::Begin(stage)
        }
    }

    fn submit(&self, message: Message, now: u64) -> Step {
        match self.sent {
            Some((sent, at)) if sent == message && now < at + RESEND_MS => {
                Step::Wait(at + RESEND_MS)
            }
            _ => Step::Submit(message),
        }
    }

    /// The last message waits until the work has taken its declared time.
    fn submit_throttled(&self, message: Message, now: u64) -> Step {
        let done_at = self.began_at.unwrap_or(0).saturating_add(self.work_ms_min);
        if now < done_at {
            return Step::Wait(done_at);
        }
        self.submit(message, now)
    }

    /// The ledger shows the lease again.
    pub fn seen(&mut self, lease: LeaseDto) {
        self.lease = lease;
    }

    /// A transaction was handed to the grid at `now`.
    pub const fn submitted(&mut self, message: Message, now: u64) {
        self.sent = Some((message, now));
    }

    /// A transaction was refused at `now` for a reason that may pass: it is tried again like lost ones.
    pub const fn refused(&mut self, message: Message, now: u64) {
        self.sent = Some((message, now.saturating_sub(RESEND_MS - RETRY_MS)));
    }

    /// A stage of work began at `now`.
    pub fn begun(&mut self, stage: Stage, now: u64) {
        assert!(self.busy.is_none(), "one stage at a time");
        self.busy = Some(stage);
        self.began_at.get_or_insert(now);
    }

    /// The execution ended and its output is stored.
    pub fn executed(&mut self, execution: Execution) {
        self.busy = None;
        self.hand = Hand::Executed(execution);
    }

    /// The proof ended and is stored.
    pub fn proved(&mut self, evidence: Evidence) {
        self.busy = None;
        if let Hand::Executed(execution) = std::mem::replace(&mut self.hand, Hand::Nothing) {
            self.hand = Hand::Proved(execution, evidence);
        }
    }

    /// A stage of work failed at `now`.
    pub const fn failed(&mut self, now: u64) {
        self.busy = None;
        self.retry_at = now.saturating_add(RETRY_MS << self.failures);
        self.failures += 1;
    }
}

#[cfg(test)]
mod tests;
