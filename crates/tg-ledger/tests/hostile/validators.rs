//! Validators: three do their duty, the fourth does the opposite wherever it pays or hurts.

use tg_lab::synthetic::Draws;
use tg_ledger::limits::EPOCH_BLOCKS;
use tg_ledger::{QuestionTask, Schedule, SeedKeyPhase, State, StorageTask, VoteDuty};
use tg_types::chain::{Equivocation, VoteKind};
use tg_types::limits::{LIVENESS_CHANGES_MAX, STORAGE_STATEMENTS_MAX, VOTES_MAX};
use tg_types::{
    Address, BlockId, DealingLog, Digest, LeaseId, OpenedVote, StorageSubject, TileName,
    Transaction, VerificationMode, Vote, Wallet,
};

use crate::files::{Files, HONEST, Holders, ONE, claim};
use crate::net::{Moment, Side};
use crate::outbox::Outbox;
use crate::voter::Voter;

/// Blocks in which an honest validator states at least once what it holds. A window has 30 blocks or more, in which it does so twice, and not
/// both times in the block of one leader, who may leave it out.
const REPORT_BLOCKS: u64 = 13;

/// A validator.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) wallet: Wallet,
    pub(crate) side: Side,
    /// What it signs votes with.
    pub(crate) voter: Voter,
    /// Its bit among [`Holders`].
    bit: Holders,
}

impl Seat {
    pub(crate) fn new(index: u8) -> Self {
        let name = format!("validator {index}");
        Self {
            wallet: Wallet::from_seed(name.as_bytes()),
            side: match index {
                3 => Side::Hostile,
                _ => Side::Honest,
            },
            voter: Voter::new(index),
            bit: 1 << index,
        }
    }

    pub(crate) fn act(
        &self,
        moment: &Moment,
        files: &Files,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let is_hostile = self.side == Side::Hostile && moment.is_hostile;
        // Reports are made together, now and then, and by honest ones never so late that a window ends before.
        let is_drawn = draws.below(5) == 0 && !(is_hostile && draws.below(4) > 0);
        let height = out.state.head().height.get() + u64::from(self.bit);
        let is_due = self.side == Side::Honest && height.is_multiple_of(REPORT_BLOCKS);
        if is_drawn || is_due {
            self.report_storage(files, is_hostile, draws, out);
            self.report_asked(out);
        }
        self.deal(out);
        self.say_ready(out);
        self.vote(files, is_hostile, draws, out);
        for task in out.state.claim_tasks(&self.wallet.address()) {
            // A hostile one may as well claim nothing.
            if self.side == Side::Honest || draws.below(4) == 0 {
                out.send(&self.wallet, claim(task.lease, self.side == Side::Honest));
            }
        }
        if draws.below(24) == 0 {
            self.report_liveness(files, is_hostile, draws, out);
        }
        // Last: what is refused takes those of its lane that come after it with it.
        if is_hostile {
            self.challenge(out);
        }
    }

    /// Challenges a result on which it is to vote, too, of every second lease: what it paid for that may be nobody's.
    fn challenge(&self, out: &mut Outbox<'_>) {
        let tasks = out.state.vote_tasks(&self.wallet.address());
        let leases = tasks.into_iter().filter_map(|it| {
            let is_watched = it.sample.mode == VerificationMode::Optimistic;
            (is_watched && it.sample.lease.as_bytes()[1].is_multiple_of(2))
                .then_some(it.sample.lease)
        });
        let watched: Vec<LeaseId> = leases.collect();
        for lease in watched {
            out.send(&self.wallet, Transaction::ChallengeResult { lease });
        }
    }

    /// Votes for two blocks in one view of the network that begins with `genesis`.
    pub(crate) fn contradicting_votes(&self, genesis: &BlockId) -> Equivocation {
        let vote = |block| self.voter.vote(genesis, VoteKind::Notarize, 9, block);
        Equivocation {
            seat: self.voter.public,
            first: vote(1),
            second: vote(2),
        }
    }

    /// Whether it has a stake to lose.
    pub(crate) fn has_stake(&self, state: &State) -> bool {
        let own = self.wallet.address();
        let mut validators = state.validators().iter();
        validators.any(|it| it.address == own && !it.stake.is_zero())
    }

    /// States that it executes the next version of the protocol, whatever that is.
    fn say_ready(&self, out: &mut Outbox<'_>) {
        let (state, me) = (out.state, self.wallet.address());
        let is_its_turn = state.head().height.get() % EPOCH_BLOCKS == 7 * u64::from(self.bit);
        if is_its_turn && state.seat_of(&me).is_some() && !state.is_ready_for_next(&me) {
            let version = state.head().protocol + 1;
            out.send(&self.wallet, Transaction::ReadyForProtocol { version });
        }
    }

    /// Deals its part of the seed's key: bytes, which the ledger does not read.
    fn deal(&self, out: &mut Outbox<'_>) {
        let (state, me) = (out.state, self.wallet.address());
        let seeds = state.seeds();
        if seeds.phase == SeedKeyPhase::Dealing && !seeds.has_dealt(&me) {
            let log = DealingLog::new(vec![self.bit; 100]).unwrap();
            let round = seeds.round;
            out.send(&self.wallet, Transaction::PostDealing { round, log });
        }
    }

    /// Votes on results as a member of committees: the truth, or anything.
    fn vote(&self, files: &Files, is_hostile: bool, draws: &mut Draws, out: &mut Outbox<'_>) {
        let state = out.state;
        let (mut sealed, mut opened) = (Vec::new(), Vec::new());
        for task in state.vote_tasks(&self.wallet.address()) {
            let Some(truth) = files.vote_on(&task.sample) else {
                continue;
            };
            let lease = task.sample.lease;
            // The same when it is opened: it follows from the lease.
            let is_watched = task.sample.is_repeated;
            let lie = match lease.as_bytes()[0] % 4 {
                0 | 1 if is_watched => Vote::WrongRun,
                2 if is_watched => truth,
                0 => Vote::Right { checksum: 0 },
                1 => Vote::WrongForm,
                2 => Vote::WrongTile(TileName { node: 7, leaf: 7 }),
                _ => truth,
            };
            let vote = OpenedVote {
                lease,
                vote: if self.side == Side::Hostile {
                    lie
                } else {
                    truth
                },
                salt: Digest::new([task.number; 32]),
            };
            match task.step {
                // It may as well say nothing.
                _ if is_hostile && draws.below(3) == 0 => {}
                VoteDuty::Seal => sealed.push(vote.sealed(&self.wallet.address())),
                VoteDuty::Open => opened.push(vote),
            }
        }
        sealed.sort_by_key(|it| it.lease);
        sealed.truncate(VOTES_MAX);
        opened.sort_by_key(|it| it.lease);
        opened.truncate(VOTES_MAX);
        if !sealed.is_empty() {
            out.send(&self.wallet, Transaction::CommitVotes { votes: sealed });
        }
        if !opened.is_empty() {
            out.send(&self.wallet, Transaction::RevealVotes { votes: opened });
        }
    }

    fn report_storage(
        &self,
        files: &Files,
        is_hostile: bool,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let state = out.state;
        let (mut held, mut missing) = (Vec::new(), Vec::new());
        for task in state.storage_tasks(&self.wallet.address()) {
            let holders = files.holders(state, &task.subject);
            // Where the others cannot decide without it, it keeps silent until the question is closed.
            if is_hostile && task.is_recheck && holders & HONEST == ONE {
                continue;
            }
            let has = holders & self.bit != 0;
            // It states what it does not hold, and denies what it does.
            let says_held = match is_hostile {
                true => draws.below(2) == 0,
                false => has,
            };
            let may_deny = task.is_recheck && !self.has_denied(state, &task);
            match (says_held, may_deny) {
                (true, _) => held.push(task.subject),
                (false, true) => missing.push(task.subject),
                (false, false) => {}
            }
        }
        for list in [&mut held, &mut missing] {
            list.truncate(STORAGE_STATEMENTS_MAX);
            list.sort();
        }
        if !held.is_empty() || !missing.is_empty() {
            out.send(&self.wallet, Transaction::ReportStorage { held, missing });
        }
    }

    /// States of others that are asked for what they keep whether they give it: honest ones do, and the hostile one does not, and denies what the
    /// others give.
    fn report_asked(&self, out: &mut Outbox<'_>) {
        let hostile = Voter::new(3).public;
        let tasks = out.state.question_tasks(&self.wallet.address());
        let is_held = |it: &QuestionTask| self.side == Side::Honest && it.seat != hostile;
        let of = |wanted: bool| -> Vec<StorageSubject> {
            let said = tasks.iter().filter(|it| is_held(it) == wanted);
            let said = said.filter(|it| wanted || it.is_late);
            let said = said.map(|it| it.subject);
            said.take(STORAGE_STATEMENTS_MAX).collect()
        };
        let (held, missing) = (of(true), of(false));
        if !held.is_empty() || !missing.is_empty() {
            out.send(&self.wallet, Transaction::ReportStorage { held, missing });
        }
    }

    fn has_denied(&self, state: &State, task: &StorageTask) -> bool {
        let storage = match &task.subject {
            StorageSubject::Job(job) => state.job(job).map(|it| &it.storage),
            StorageSubject::Model(model) => state.model(model).map(|it| &it.storage),
            StorageSubject::Lease(_) | StorageSubject::Answer(_) | StorageSubject::Question(_) => {
                None
            }
        };
        let recheck = storage.and_then(|it| it.recheck.as_ref());
        let seat = state.seat_of(&self.wallet.address());
        recheck.is_some_and(|it| seat.is_some_and(|seat| it.missing.contains(seat)))
    }

    fn report_liveness(
        &self,
        files: &Files,
        is_hostile: bool,
        draws: &mut Draws,
        out: &mut Outbox<'_>,
    ) {
        let state = out.state;
        let address = self.wallet.address();
        let epoch = Schedule::epoch(state.head().height.next());
        let report = state.liveness_reports().get(&address);
        if report.is_some_and(|it| it.epoch >= epoch) {
            return;
        }
        let known = report.map(|it| it.lost.clone()).unwrap_or_default();
        let (mut lost, mut back): (Vec<Address>, Vec<Address>) = (Vec::new(), Vec::new());
        for provider in state.providers().iter() {
            // It says of anybody that it is gone.
            let is_gone = match is_hostile {
                true => draws.below(2) == 0,
                false => files.offline.contains(&provider.address),
            };
            if is_gone && !known.contains(&provider.address) {
                lost.push(provider.address);
            }
        }
        for provider in known {
            let is_gone = files.offline.contains(&provider) && state.provider(&provider).is_some();
            if !is_gone && !is_hostile {
                back.push(provider);
            }
        }
        lost.truncate(LIVENESS_CHANGES_MAX);
        back.truncate(LIVENESS_CHANGES_MAX);
        if !lost.is_empty() || !back.is_empty() || draws.below(4) == 0 {
            out.send(
                &self.wallet,
                Transaction::ReportLiveness { epoch, lost, back },
            );
        }
    }
}
