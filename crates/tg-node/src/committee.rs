//! A validator's votes as a member of committees: on drawn parts of runs, sealed and then opened.
//!
//! A vote is a function of the files, and its salt of the account's secret, the lease and the draw. So a validator that
//! restarts between the two steps opens what it sealed before.

use std::collections::BTreeMap;

use tg_ledger::{Evidence, SampleTask, VoteDuty, VoteTask};
use tg_types::limits::VOTES_MAX;
use tg_types::{
    Domain, DurationMs, LeaseId, OpenedVote, SealedVote, TimestampMs, Transaction, Vote, Wallet,
};

/// Samples looked at in one turn: each takes up to some seconds.
pub(crate) const SAMPLES_PER_TURN: usize = 4;

/// A run of which one at a time is looked at.
const LONG_RUN: DurationMs = DurationMs::from_secs(2);

/// How long a result that could not be looked at waits; twice as long each time after.
const LOOK_AGAIN: DurationMs = DurationMs::new(250);

/// Doublings of that: 1 s, a part of the window of a vote, as a look may wait for a file that comes late.
const LOOK_DOUBLINGS_MAX: u32 = 2;

/// Results that could not be checked yet.
#[derive(Debug, Clone, Default)]
pub struct LookedInVain {
    /// Results to vote on.
    pub votes: Vec<LeaseId>,
    /// Results for which this validator claims the right run.
    pub claims: Vec<LeaseId>,
}

/// What was found of the results that are voted on.
#[derive(Debug, Default)]
pub(crate) struct Committees {
    found: BTreeMap<LeaseId, Vote>,
    /// What right runs give, of results that this validator accused.
    claims: BTreeMap<LeaseId, Evidence>,
    votes_wait: Waits,
    claims_wait: Waits,
}

/// Looks that found nothing.
#[derive(Debug, Default)]
struct Waits(BTreeMap<LeaseId, FailedLook>);

/// When a look found nothing the last time, and how often one did.
#[derive(Debug, Clone, Copy)]
struct FailedLook {
    at: TimestampMs,
    times: u32,
}

impl Waits {
    /// Those that may be looked at, first what was never, then what was longest ago.
    /// Stops: results that nobody can look at, or that take long, and keep newer ones out for good.
    fn in_turn<'a>(
        &self,
        samples: impl Iterator<Item = &'a SampleTask>,
        now: TimestampMs,
    ) -> Vec<&'a SampleTask> {
        let last = |task: &SampleTask| self.0.get(&task.lease).map(|it| it.at);
        let is_due = |task: &&SampleTask| {
            self.0.get(&task.lease).is_none_or(|it| {
                let wait = LOOK_AGAIN.get() << it.times.min(LOOK_DOUBLINGS_MAX);
                it.at.saturating_add(DurationMs::new(wait)) <= now
            })
        };
        let mut due: Vec<&SampleTask> = samples.filter(is_due).collect();
        due.sort_by_key(|task| last(task));
        due
    }

    fn note(&mut self, lease: LeaseId, now: TimestampMs) {
        let times = self.0.get(&lease).map_or(0, |it| it.times + 1);
        self.0.insert(lease, FailedLook { at: now, times });
    }
}

impl Committees {
    /// The samples to look at now. What was found of leases that ended is forgotten.
    pub(crate) fn due(
        &mut self,
        tasks: &[VoteTask],
        is_open: impl Fn(&LeaseId) -> bool,
        now: TimestampMs,
    ) -> Vec<SampleTask> {
        self.found.retain(|lease, _| is_open(lease));
        self.votes_wait.0.retain(|lease, _| is_open(lease));
        let samples = tasks.iter().map(|it| &it.sample);
        let unknown = samples.filter(|it| !self.found.contains_key(&it.lease));
        let mut long = 0;
        // Stops: long runs that somebody ordered many of, and that keep short looks out until they are done.
        let has_room = |task: &&SampleTask| {
            let is_long = task.run > LONG_RUN;
            long += usize::from(is_long);
            !is_long || long <= 1
        };
        let due = self.votes_wait.in_turn(unknown, now).into_iter();
        let due = due.filter(has_room).take(SAMPLES_PER_TURN);
        due.cloned().collect()
    }

    /// The accused results whose right run is to be stored now: one at a time, as each is a whole run.
    pub(crate) fn due_claims(
        &mut self,
        tasks: &[SampleTask],
        is_open: impl Fn(&LeaseId) -> bool,
        now: TimestampMs,
    ) -> Vec<SampleTask> {
        self.claims.retain(|lease, _| is_open(lease));
        self.claims_wait.0.retain(|lease, _| is_open(lease));
        let unknown = tasks
            .iter()
            .filter(|it| !self.claims.contains_key(&it.lease));
        let due = self.claims_wait.in_turn(unknown, now).into_iter();
        due.take(1).cloned().collect()
    }

    /// Notes looks that found nothing.
    pub(crate) fn note_failed(&mut self, looked: &LookedInVain, now: TimestampMs) {
        let LookedInVain { votes, claims } = looked;
        for lease in votes {
            self.votes_wait.note(*lease, now);
        }
        for lease in claims {
            self.claims_wait.note(*lease, now);
        }
    }

    /// Notes what a right run gives.
    pub(crate) fn note_claim(&mut self, lease: LeaseId, claim: Evidence) {
        self.claims.insert(lease, claim);
    }

    /// What to hand in in disputes.
    pub(crate) fn claims(&self, tasks: &[SampleTask]) -> Vec<Transaction> {
        let known = tasks
            .iter()
            .filter_map(|it| Some((it.lease, self.claims.get(&it.lease)?)));
        known
            .map(|(lease, claim)| Transaction::ArgueResult {
                lease,
                file: claim.digest,
                size: claim.size,
            })
            .collect()
    }

    /// Notes what a look found.
    pub(crate) fn note(&mut self, lease: LeaseId, vote: Vote) {
        if !vote.is_right() {
            tracing::warn!(%lease, %vote, "a result is wrong");
        }
        self.found.insert(lease, vote);
    }

    /// What to send, of `account`: sealed votes and opened ones, in the order of their leases; of accusations as many as it has a bond for. Stops: one
    /// without its bond, with which all others are refused.
    pub(crate) fn report(
        &self,
        tasks: &[VoteTask],
        account: &Wallet,
        mut accusations: usize,
    ) -> Vec<Transaction> {
        let mut opened: Vec<(VoteDuty, OpenedVote)> = Vec::new();
        for task in tasks {
            let lease = task.sample.lease;
            let Some(vote) = self.found.get(&lease) else {
                continue;
            };
            let subject = [lease.as_bytes().as_slice(), &[task.number]].concat();
            opened.push((
                task.step,
                OpenedVote {
                    lease,
                    vote: *vote,
                    salt: account.derived_secret(Domain::VoteSalt, &subject),
                },
            ));
        }
        opened.sort_by_key(|(_, vote)| vote.lease);
        opened.retain(|(step, opened)| {
            let is_accusation = *step == VoteDuty::Open && !opened.vote.is_right();
            let fits = !is_accusation || accusations > 0;
            accusations -= usize::from(is_accusation && fits);
            fits
        });
        let of = |duty: VoteDuty| {
            let all = opened.iter().filter(move |(step, _)| *step == duty);
            all.map(|(_, vote)| *vote).take(VOTES_MAX)
        };
        let member = account.address();
        let votes: Vec<SealedVote> = of(VoteDuty::Seal).map(|it| it.sealed(&member)).collect();
        let sealed = (!votes.is_empty()).then_some(Transaction::CommitVotes { votes });
        let votes: Vec<OpenedVote> = of(VoteDuty::Open).collect();
        let opened = (!votes.is_empty()).then_some(Transaction::RevealVotes { votes });
        sealed.into_iter().chain(opened).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn sample(number: u8) -> SampleTask {
        crate::evidence::tests::sample_of(LeaseId::new([number; 32]))
    }

    /// Stops: runs of a minute that somebody ordered many of, while which no newer result is voted on.
    #[test]
    fn long_runs_leave_room_for_short_looks() {
        let task = |number: u8, run: u64| VoteTask {
            number: 0,
            step: VoteDuty::Seal,
            sample: SampleTask {
                run: DurationMs::from_secs(run),
                ..sample(number)
            },
        };
        let long = (1..40).map(|it| task(it, 60));
        let tasks: Vec<VoteTask> = long.chain([task(50, 0), task(51, 1)]).collect();
        let due = Committees::default().due(&tasks, |_| true, TimestampMs::new(1_000));
        let due: Vec<LeaseId> = due.into_iter().map(|it| it.lease).collect();
        assert_eq!(due, [1, 50, 51].map(|it| sample(it).lease));
    }

    /// Stops: old results that no look ever decides, before which newer ones are never looked at.
    #[test]
    fn results_that_cannot_be_looked_at_keep_no_others_out() {
        let mut waits = Waits::default();
        let all: Vec<SampleTask> = (1..10).map(sample).collect();
        let mut time = TimestampMs::new(1_000);
        let mut looked = std::collections::BTreeMap::new();
        for _ in 0..200 {
            let due = waits.in_turn(all.iter(), time);
            for task in due.into_iter().take(2) {
                *looked.entry(task.lease).or_insert(0) += 1;
                waits.note(task.lease, time);
            }
            time = time.saturating_add(LOOK_AGAIN);
        }
        assert_eq!(looked.len(), all.len());
        let (least, most) = (
            looked.values().min().unwrap(),
            looked.values().max().unwrap(),
        );
        assert!(*least >= 5 && most < &(2 * least), "{looked:?}");
        // What comes new is first.
        let new = sample(77);
        let tasks: Vec<SampleTask> = all.into_iter().chain([new.clone()]).collect();
        assert_eq!(waits.in_turn(tasks.iter(), time)[0], &new);
    }
}
