//! What a validator says as a member of committees: votes on drawn tiles, sealed and then opened.
//!
//! A vote follows from the files, and what hides it from the account's secret, the lease and the drawing: so a restart in between
//! opens what was sealed before it.

use std::collections::BTreeMap;

use tg_ledger::{Evidence, SampleTask, VoteDuty, VoteTask};
use tg_types::limits::VOTES_MAX;
use tg_types::{Domain, LeaseId, OpenedVote, SealedVote, Transaction, Vote, Wallet};

/// Samples looked at in one turn: each takes up to some seconds.
pub(crate) const SAMPLES_PER_TURN: usize = 4;

/// What was found of the results that are voted on.
#[derive(Debug, Default)]
pub(crate) struct Committees {
    found: BTreeMap<LeaseId, Vote>,
    /// What right runs give, of results that this validator accused.
    claims: BTreeMap<LeaseId, Evidence>,
}

impl Committees {
    /// The samples to look at now. What was found of leases that ended is forgotten.
    pub(crate) fn due(
        &mut self,
        tasks: &[VoteTask],
        is_open: impl Fn(&LeaseId) -> bool,
    ) -> Vec<SampleTask> {
        self.found.retain(|lease, _| is_open(lease));
        let samples = tasks.iter().map(|it| &it.sample);
        let unknown = samples.filter(|it| !self.found.contains_key(&it.lease));
        unknown.take(SAMPLES_PER_TURN).cloned().collect()
    }

    /// The accused results whose right run is to be stored now: one at a time, as each is a whole run.
    pub(crate) fn due_claims(
        &mut self,
        tasks: &[SampleTask],
        is_open: impl Fn(&LeaseId) -> bool,
    ) -> Vec<SampleTask> {
        self.claims.retain(|lease, _| is_open(lease));
        let unknown = tasks.iter().find(|it| !self.claims.contains_key(&it.lease));
        unknown.cloned().into_iter().collect()
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

    /// What to send, of `account`: sealed votes and opened ones, in the order of their leases.
    pub(crate) fn report(&self, tasks: &[VoteTask], account: &Wallet) -> Vec<Transaction> {
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
