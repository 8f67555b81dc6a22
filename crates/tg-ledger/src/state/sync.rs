//! What validators have to do for results of modes `sync` and `optimistic`.

use imbl::OrdMap;
use tg_types::{Address, Amount, DurationMs, JobOrder, LeaseId, VerificationMode};

use super::State;
use crate::record::{
    DisputeStep, Evidence, Job, Lease, ModelState, SeatSet, Storage, SyncStage, VoteRound,
    VoteState,
};
use crate::verdict::{DisputeFiles, RevealedKey, SampleTask};

/// How many times the verification fee a false accusation costs: the look that it causes takes every validator less than the check
/// that the fee pays for.
const ACCUSATION_BOND_FACTOR: u64 = 100;

/// What a member of a committee has to do next about a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteTask {
    /// The result.
    pub sample: SampleTask,
    /// How many committees were drawn before.
    pub number: u8,
    /// What to do.
    pub step: VoteDuty,
}

/// A step of a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteDuty {
    /// Compute the drawn tiles again, and seal what was found.
    Seal,
    /// Open the vote that was sealed.
    Open,
}

impl State {
    /// Whether a committee of mode `sync` runs the model of an order whole. Then its receipt commits to the run
    /// ([`tg_types::RunCommitment`]), and nothing is shown beside the answer.
    #[must_use]
    pub fn is_run_whole(&self, order: &JobOrder) -> bool {
        let facts = self.active_model(order);
        let most = self.parameters.whole_run_macs_max;
        order.mode == VerificationMode::Sync && facts.is_some_and(|it| it.is_run_whole(most))
    }

    /// Whether whoever checks the result of an order runs its model whole: a committee ([`Self::is_run_whole`]) or a watcher.
    pub(crate) fn is_repeated(&self, order: &JobOrder) -> bool {
        let is_whole = matches!(
            order.mode,
            VerificationMode::Optimistic | VerificationMode::Sealed
        );
        is_whole || self.is_run_whole(order)
    }

    /// What an accusation costs its member if every validator finds that it is not so, and a vote for right if one is so; who has less at stake cannot accuse. At most
    /// the bond of a seat: with a fee so high that more were asked for, nobody could accuse, and every lie would be paid.
    #[must_use]
    pub fn accusation_bond(&self) -> Amount {
        let fee = self.parameters.verification_fee_zk;
        fee.saturating_mul(ACCUSATION_BOND_FACTOR)
            .min(self.parameters.seat_bond)
    }

    /// How many accusations of a validator are not decided yet: votes that are open, on results that others dispute now too.
    pub(crate) fn open_accusations(&self, validator: &Address) -> u64 {
        let is_its = |lease: &Lease| {
            let round = lease.check.as_ref().and_then(|it| it.stage.round());
            let vote = round.and_then(|it| it.vote(validator));
            matches!(vote, Some(VoteState::Open(vote)) if !vote.is_right())
        };
        let leases = self.checked_leases();
        leases.filter(|(_, lease)| is_its(lease)).count() as u64
    }

    /// What a validator has at stake.
    pub(crate) fn at_stake(&self, validator: &Address) -> Amount {
        let found = self.validators().iter().find(|it| it.address == *validator);
        found.map_or(Amount::ZERO, |it| it.stake)
    }

    /// How many results more a validator may accuse now, for what it has at stake.
    #[must_use]
    pub fn accusations_left(&self, validator: &Address) -> usize {
        let most = self.at_stake(validator).get() / self.accusation_bond().get().max(1);
        let open = self.open_accusations(validator);
        usize::try_from(most.saturating_sub(u128::from(open))).unwrap_or(usize::MAX)
    }

    /// What a validator has to do about the results that it votes on, the oldest job first.
    pub fn vote_tasks(&self, member: &Address) -> Vec<VoteTask> {
        let tasks = self.checked_leases().filter_map(|(job, lease)| {
            let stage = &lease.check.as_ref()?.stage;
            let (SyncStage::Voting { round, .. } | SyncStage::Disputed { round, .. }) = stage
            else {
                return None;
            };
            // Nothing of one whose answer is delivered, which has no evidence any more: a vote on it would be refused, and all others with it.
            let sample = self.sample_task(job, lease)?;
            // No votes are sealed during a dispute: one refused vote would make the whole transaction fail.
            let may_seal = matches!(stage, SyncStage::Voting { .. });
            let step = match (round.vote(member)?, round.opening_since) {
                (VoteState::Silent, None) if may_seal => VoteDuty::Seal,
                (VoteState::Sealed(_), Some(_)) => VoteDuty::Open,
                _ => return None,
            };
            Some(VoteTask {
                sample,
                number: round.number,
                step,
            })
        });
        tasks.collect()
    }

    /// Notes whether the result of a lease is checked, before the lease is put.
    pub(super) fn note_checked(&mut self, lease: &Lease) {
        let was = self.lease(&lease.id).is_some_and(is_checked);
        let is = is_checked(lease);
        let job = self.job(&lease.job).filter(|_| was != is);
        let Some(sequence) = job.map(|it| it.sequence) else {
            return;
        };
        match is {
            true => self.checked.insert(sequence, lease.id),
            false => self.checked.remove(&sequence),
        };
    }

    /// [`Self::checked`](State), derived from the leases.
    pub(crate) fn rebuilt_checked(&self) -> OrdMap<u64, LeaseId> {
        let checked = self.leases.iter().filter(|it| is_checked(it));
        let place = |it: &Lease| Some((self.job(&it.job)?.sequence, it.id));
        checked.filter_map(place).collect()
    }

    /// The tiles of a lease's result that were drawn, once the provider has named their opening.
    pub(crate) fn sample_task(&self, job: &Job, lease: &Lease) -> Option<SampleTask> {
        let seed = lease.check.as_ref()?.stage.seed()?;
        let (receipt, evidence) = (lease.receipt()?, lease.evidence()?);
        let model = self.model(&job.order.model)?;
        let ModelState::Active(facts) = &model.state else {
            return None;
        };
        Some(SampleTask {
            lease: lease.id,
            model: model.id,
            mode: job.order.mode,
            is_repeated: self.is_repeated(&job.order),
            run: match self.is_repeated(&job.order) {
                true => facts.run_window(),
                false => DurationMs::ZERO,
            },
            public_blob: model.public_blob,
            weights_blob: model.weights_blob,
            program: facts.program,
            receipt: Box::new(receipt.clone()),
            seed,
            evidence: evidence.digest,
            size: evidence.size,
            dispute: lease.judged(),
            revealed: RevealedKey::of(job, lease).map(Box::new),
        })
    }

    /// A lease of which a validator has to hold a file before its check goes on.
    pub(crate) fn opened_lease(&self, id: &LeaseId) -> Option<&Lease> {
        let lease = self.lease(id).filter(|it| it.end().is_none())?;
        lease.wanted().map(|_| lease)
    }

    /// A lease about which a validator may state that it holds a file: one that waits for it, or whose answer was delivered. Else the first
    /// quorum would spoil the reports of all others, which are sent in the same moment and name many subjects.
    pub(crate) fn stated_lease(&self, id: &LeaseId) -> Option<&Lease> {
        let delivered = |it: &&Lease| it.delivered().is_some();
        let opened = self.opened_lease(id);
        opened.or_else(|| self.lease(id).filter(delivered))
    }

    /// Which validators have the answer of a lease: those that state so, and those of its committee that ran its model whole and found it
    /// right, which keep what a run gives before they vote. A vote promises nothing for the time after it is paid.
    #[must_use]
    pub fn answer_held_by(&self, lease: &Lease) -> SeatSet {
        let mut held = lease
            .delivery()
            .map_or_else(SeatSet::default, |(_, storage)| storage.held);
        let round = lease.check.as_ref().and_then(|it| it.stage.round());
        let right = round.map_or_else(Vec::new, VoteRound::right);
        let seats = right.iter().filter_map(|it| self.seat_of(it));
        seats.for_each(|seat| held.insert(seat));
        held
    }

    /// Whether enough validators have the answer of a lease, so that it may be paid.
    pub(crate) fn is_answer_held(&self, lease: &Lease) -> bool {
        self.is_held(&Storage {
            held: self.answer_held_by(lease),
            recheck: None,
        })
    }

    /// The results whose accuser `account` is and has to say what a right run gives.
    #[must_use]
    pub fn claim_tasks(&self, account: &Address) -> Vec<SampleTask> {
        let tasks = self.checked_leases().filter_map(|(job, lease)| {
            let SyncStage::Disputed {
                accuser,
                by_tile: Some(dispute),
                ..
            } = &lease.check.as_ref()?.stage
            else {
                return None;
            };
            let is_mine = accuser == account && dispute.step == DisputeStep::Claiming;
            self.sample_task(job, lease).filter(|_| is_mine)
        });
        tasks.collect()
    }
}

/// Whether the result of a lease is being checked by some of the validators, or fetched.
fn is_checked(lease: &Lease) -> bool {
    lease.end().is_none() && (lease.check.is_some() || lease.delivery().is_some())
}

impl Lease {
    /// Who holds the file that validators have to hold before its job goes on: an answer that is to be paid, or [`Self::wanted_file`].
    pub(crate) fn wanted(&self) -> Option<&Storage> {
        let answer = self.delivery().map(|(_, storage)| storage);
        answer.or_else(|| self.wanted_file().map(|(_, storage)| storage))
    }

    /// The file that validators have to hold before its check goes on, and who does: an opening, or what was handed in in a dispute.
    pub(crate) fn wanted_file(&self) -> Option<(Evidence, &Storage)> {
        match &self.check.as_ref()?.stage {
            SyncStage::Opened { storage, .. } => Some((self.evidence()?, storage)),
            stage => stage.tile_dispute()?.step.wanted(),
        }
    }

    /// The files by which a dispute that ends at one tile is decided, once both are held.
    fn judged(&self) -> Option<DisputeFiles> {
        match self.check.as_ref()?.stage.tile_dispute()?.step {
            DisputeStep::Judged { claim, answer } => Some(DisputeFiles { claim, answer }),
            _ => None,
        }
    }
}
