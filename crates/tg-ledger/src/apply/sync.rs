//! The votes of a committee on a result of mode `sync`, and of a watcher on one of mode `optimistic`.
//!
//! A committee is drawn by the seed among the validators. Its members compute the drawn tiles again and *seal* their votes;
//! once all have, or more than two thirds and some time has passed, they *open* them. If more than two thirds vote *right*,
//! with one checksum of what they computed, and nobody accuses, the result is accepted and they share the fee. If too few do,
//! other members are drawn, and from the third time on all validators are asked.
//!
//! An *accusation* names what is wrong, and every validator checks that; those that found the same vote for the block that
//! decides it. If the accusation holds, the provider loses all of its collateral, burned, and each member that voted right
//! loses [`State::accusation_bond`] of its stake: it did not check, or lied. If it does not hold, the accuser loses that bond
//! and the vote continues without it. So nobody is slashed by a majority of votes, nor for a vote that nobody checked. A
//! member with less stake than the bond cannot accuse.
//!
//! A member that was asked and gave no vote that counts *missed* it: after some in a row it has no share of fees, after many
//! it loses its seat.
//!
//! *Who gains by failing on purpose.* Silent members delay a result by the windows of two committees and lose their share;
//! from then on the n - f honest ones are enough. Members that accept a wrong result are caught by one honest member that
//! opens its vote: an accusation needs no majority. A member that accuses a right result burns more than the check costs all
//! validators. Copying a vote is impossible before all are sealed; a member that votes *right* without computing has no
//! checksum, and no share (`docs/adr/0024-votes-show-work.md`).
//!
//! In mode `optimistic` the committee is one *watcher*, which runs the whole program again; its vote for right opens what the
//! provider committed to in place of a trace. Then anybody may *challenge* the result for some time, for the price of a run
//! by all validators. Such a run decides an accusation of the watcher as well as a challenge. If it gives another result the
//! provider loses its collateral, out of which the challenger gets its fee back; if it gives the same, the result is accepted
//! at once, since nothing is left to check. The validators get the fee either way. A run that is too large for that is
//! disputed tile by tile (`dispute`). A provider that shares the key of its watcher still faces the requestor, which can run
//! the program again too (`docs/adr/0027-optimistic.md`).

use std::sync::Arc;

use tg_types::{
    Address, Amount, Digest, Domain, DurationMs, Height, LeaseId, OpenedVote, RunCommitment,
    SealedVote, Tier, TimestampMs, VerificationMode, Vote,
};

use super::Execution;
use super::dispute::{Accusation, tile_dispute_mut};
use super::verdicts::billed;
use crate::canary::{LedgerCanary, is_armed};
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::{COMMITTEE_SEATS, WATCHERS};
use crate::record::{
    Job, Lease, MemberVote, OpenStage, Storage, SyncCheck, SyncStage, VoteRound, VoteState,
    VoteStep, VoteWindows,
};
use crate::state::State;

type Done = Result<(), InvariantError>;

/// From this drawing on all validators are asked.
const WHOLE_SET_FROM: u8 = 2;

/// Looks of a whole model of integers for which its members, who check a twentieth, have a millisecond: four seconds at the bound of mode `sync`.
const LOOKS_PER_MS: u64 = 1 << 22;

/// How long a committee of whose members more than two thirds answered waits for the others.
const VOTE_PATIENCE: DurationMs = DurationMs::from_secs(2);

impl Execution {
    /// What the check of a result begins with.
    pub(super) fn first_check(&self) -> SyncCheck {
        let early = u64::from(is_armed(LedgerCanary::EarlySeed));
        SyncCheck {
            from: Height::new(self.height.get() - early),
            since: self.now,
            stage: SyncStage::AwaitsSeed,
        }
    }

    /// The provider named its opening: validators fetch it, and vote once enough hold it.
    pub(super) fn open_tiles(&mut self, lease: &mut Lease) {
        let Some(check) = &mut lease.check else {
            return;
        };
        if let SyncStage::Challenged { seed, .. } = check.stage {
            check.stage = SyncStage::Opened {
                seed,
                storage: Storage::default(),
            };
        }
        self.begin_vote_if_held(lease);
    }

    /// Draws the first committee once enough validators hold the opening.
    pub(super) fn begin_vote_if_held(&mut self, lease: &mut Lease) {
        let Some(SyncStage::Opened { seed, storage }) = lease.check.as_ref().map(|it| &it.stage)
        else {
            return;
        };
        if self.state.is_held(storage) || is_armed(LedgerCanary::VoteWithoutOpening) {
            let seed = *seed;
            match self.state.is_sealed(lease) {
                true => self.let_requestor_look(lease),
                false => self.begin_vote(lease, seed),
            }
        }
    }

    /// Draws the first committee.
    pub(super) fn begin_vote(&mut self, lease: &mut Lease, seed: Digest) {
        let round = self.draw(&seed, lease, 0);
        if let Some(check) = &mut lease.check {
            check.stage = SyncStage::Voting { seed, round };
        }
    }

    fn draw(&mut self, seed: &Digest, lease: &Lease, number: u8) -> VoteRound {
        let seats = match self.is_watched(lease) {
            true => WATCHERS,
            false => COMMITTEE_SEATS,
        };
        let members = self.state.committee(seed, &lease.id, number, seats);
        self.events.push(Event::CommitteeDrawn {
            lease: lease.id,
            number,
            members: members.clone(),
        });
        VoteRound::new(number, members, self.now)
    }

    /// Takes sealed votes.
    pub(super) fn commit_votes(&mut self, member: Address, votes: &[SealedVote]) -> Done {
        for SealedVote { lease, commitment } in votes {
            self.note_vote(lease, &member, VoteState::Sealed(*commitment))?;
        }
        Ok(())
    }

    /// Takes opened votes.
    pub(super) fn reveal_votes(&mut self, member: Address, votes: &[OpenedVote]) -> Done {
        for OpenedVote { lease, vote, .. } in votes {
            self.note_vote(lease, &member, VoteState::Open(*vote))?;
        }
        Ok(())
    }

    fn note_vote(&mut self, lease: &LeaseId, member: &Address, state: VoteState) -> Done {
        let mut lease = self.lease(lease)?;
        if let Some(check) = &mut lease.check
            && let SyncStage::Voting { round, .. } | SyncStage::Disputed { round, .. } =
                &mut check.stage
        {
            round.note(member, state);
        }
        self.advance_vote(lease, None)
    }

    /// Whether two thirds of a committee may be hostile: one that is drawn from many validators. Stops: those who keep the other members from the chain
    /// for two seconds, and accept what is wrong.
    fn may_be_hostile(&self, lease: &Lease) -> bool {
        let round = lease.check.as_ref().and_then(|it| it.stage.round());
        let size = round.map_or(0, |it| it.votes.len());
        size > 1 && 3 * self.state.faults_max() > 2 * size
    }

    /// Does what follows from the votes on a result; with `now` from how long it lasts too, which is looked at after the
    /// transactions of a block.
    fn advance_vote(&mut self, mut lease: Lease, now: Option<TimestampMs>) -> Done {
        let longest = self.vote_window(&lease);
        let windows = VoteWindows {
            longest,
            patience: match self.may_be_hostile(&lease) {
                true => longest,
                false => VOTE_PATIENCE.saturating_add(self.look_window(&lease)),
            },
        };
        let Some(SyncStage::Voting { seed, round }) = lease.check.as_ref().map(|it| &it.stage)
        else {
            // While every validator looks at what a member says.
            self.state.put_lease(lease);
            return Ok(());
        };
        let (seed, mut round) = (*seed, round.clone());
        let stage = match round.step(now, windows) {
            VoteStep::Wait => SyncStage::Voting { seed, round },
            VoteStep::Open => {
                round.opening_since = Some(self.now);
                SyncStage::Voting { seed, round }
            }
            VoteStep::Redraw => {
                let (absent, size) = (round.absent(&[]), round.votes.len());
                // Stops: more results than anybody has time for, by which all who have a seat would count as away.
                if size == 1 || 3 * absent.len() <= size {
                    self.note_presence(&absent, &[]);
                }
                SyncStage::Voting {
                    seed,
                    round: self.draw(&seed, &lease, round.number.saturating_add(1)),
                }
            }
            VoteStep::Dispute(accuser, vote) => {
                self.dispute(&lease, accuser, vote)?;
                let accusation = Accusation {
                    seed,
                    round,
                    accuser,
                    vote,
                };
                accusation.stage(self.first_step(&lease))
            }
            VoteStep::Accept => {
                let right = round.right();
                self.note_presence(&round.absent(&right), &right);
                if !self.is_watched(&lease) {
                    return self.accept_found(lease);
                }
                let window = self.state.parameters.challenge_window;
                SyncStage::Contestable {
                    seed,
                    round,
                    until: self.now.saturating_add(window),
                }
            }
        };
        if let Some(check) = &mut lease.check {
            check.stage = stage;
        }
        self.state.put_lease(lease);
        Ok(())
    }

    /// A committee found a result right. An answer whose opening was shown n - f validators hold; one that the members of a committee have found
    /// is theirs alone where there are more validators, so the others fetch it before it is paid. Stops: pay for an answer that is with so few that
    /// all who have it may be hostile.
    fn accept_found(&mut self, mut lease: Lease) -> Done {
        let job = self.job(&lease.job)?;
        self.bill_as_stated(&mut lease, &job);
        let is_held = !self.state.is_run_whole(&job.order) || self.state.is_answer_held(&lease);
        match is_held || is_armed(LedgerCanary::PaidBeforeHeld) {
            true => self.accept(job, lease),
            false => self.deliver(job, lease),
        }
    }

    /// How long members have for a step of their vote, beside the time that their look takes.
    fn vote_window(&self, lease: &Lease) -> DurationMs {
        let parameters = &self.state.parameters;
        let least = parameters.least_window(self.state.validators.len());
        least.saturating_add(self.look_window(lease))
    }

    /// How long a member may take to look at a result: a watcher runs the model, as a committee does whose run is short, and may have to of any
    /// float model or program. Of drawn tiles it has the time of what they look at.
    fn look_window(&self, lease: &Lease) -> DurationMs {
        let may_be_whole = lease.receipt().is_some_and(|it| it.tier != Tier::Tgx1);
        let job = self.state.job(&lease.job);
        let is_repeated = job.is_some_and(|it| self.state.is_repeated(&it.order));
        match may_be_whole || is_repeated {
            true => self.state.run_window(lease),
            false => {
                let facts = job.and_then(|it| self.state.active_model(&it.order));
                DurationMs::new(facts.map_or(0, |it| it.looks) / LOOKS_PER_MS)
            }
        }
    }

    /// Whether the result of a lease has a watcher, and may be challenged.
    fn is_watched(&self, lease: &Lease) -> bool {
        let job = self.state.job(&lease.job);
        job.is_some_and(|it| it.order.mode == VerificationMode::Optimistic)
    }

    /// Somebody says that a result is wrong: every validator looks.
    pub(super) fn dispute(&mut self, lease: &Lease, accuser: Address, vote: Vote) -> Done {
        let mut job = self.job(&lease.job)?;
        self.step(&mut job, OpenStage::Disputed(lease.id))?;
        self.save_job(job);
        self.events.push(Event::ResultDisputed {
            lease: lease.id,
            job: lease.job,
            accuser,
            vote,
        });
        Ok(())
    }

    /// Takes a challenge: its fee is the validators', who run the program again, or compute one tile of it.
    pub(super) fn challenge(&mut self, challenger: Address, id: &LeaseId) -> Done {
        let mut lease = self.lease(id)?;
        if let Some(dispute) = tile_dispute_mut(&mut lease) {
            dispute.waiting.push(challenger);
            let held = self.pay_for_challenge(challenger, true)?;
            dispute.held = dispute.held.saturating_add(held);
            self.state.put_lease(lease);
            return Ok(());
        }
        let Some(SyncStage::Voting { seed, round } | SyncStage::Contestable { seed, round, .. }) =
            lease.check.as_ref().map(|it| it.stage.clone())
        else {
            return Ok(());
        };
        let mut first = self.first_step(&lease);
        let held = self.pay_for_challenge(challenger, first.is_some())?;
        if let Some(first) = &mut first {
            first.held = held;
        }
        self.dispute(&lease, challenger, Vote::WrongRun)?;
        let accusation = Accusation {
            seed,
            round,
            accuser: challenger,
            vote: Vote::WrongRun,
        };
        let stage = accusation.stage(first);
        if let Some(check) = &mut lease.check {
            check.stage = stage;
        }
        self.state.put_lease(lease);
        Ok(())
    }

    /// Takes the fee of a challenge. Where the dispute ends at a tile half of it is held for the provider, which runs the model again and waits for
    /// its pay, while validators compute one tile; how much.
    pub(super) fn pay_for_challenge(
        &mut self,
        challenger: Address,
        is_by_tile: bool,
    ) -> Result<Amount, InvariantError> {
        let fee = self.state.parameters.challenge_fee();
        self.debit(challenger, fee)?;
        let held = match is_by_tile {
            true => self.held_of_challenge(),
            false => Amount::ZERO,
        };
        self.fees = self.fees.saturating_add(fee.saturating_sub(held));
        if !held.is_zero() {
            self.events.push(Event::ChallengeHeld { amount: held });
        }
        Ok(held)
    }

    /// What is held of a challenge's fee until the dispute is decided.
    const fn held_of_challenge(&self) -> Amount {
        Amount::new(self.state.parameters.challenge_fee().get() / 2)
    }

    /// A challenge failed: what was held of its fee is the provider's.
    fn pay_challenged(&mut self, lease: &mut Lease) -> Done {
        let share = self.held_of_challenge();
        let Some(dispute) = tile_dispute_mut(lease) else {
            return Ok(());
        };
        let amount = share.min(dispute.held);
        dispute.held = dispute.held.saturating_sub(amount);
        if amount.is_zero() {
            return Ok(());
        }
        self.events.push(Event::ChallengeShared {
            lease: lease.id,
            provider: lease.provider,
            amount,
        });
        self.credit(lease.provider, amount)
    }

    /// Accepts the results that nobody challenged in time, for what their runs took.
    fn accept_unchallenged(&mut self) -> Done {
        let is_over = |lease: &Lease| {
            let stage = lease.check.as_ref().map(|it| &it.stage);
            matches!(stage, Some(SyncStage::Contestable { until, .. }) if *until < self.now)
        };
        let over = self.state.checked_leases();
        let over = over.filter(|(_, lease)| is_over(lease));
        let over: Vec<Lease> = over.map(|(_, lease)| lease.clone()).collect();
        over.into_iter().try_for_each(|mut lease| {
            let job = self.job(&lease.job)?;
            self.bill_as_stated(&mut lease, &job);
            self.accept(job, lease)
        })
    }

    /// Lowers the price of a run to what its receipt says that it took, in the clear beside the trace ([`RunCommitment`]).
    pub(super) fn bill_as_stated(&self, lease: &mut Lease, job: &Job) {
        let took = lease.receipt().map(|it| it.trace);
        self.bill(lease, job, took.map(|it| RunCommitment::read(&it).work));
    }

    /// Lowers the price of a run to what it took of its limit, if its tier counts that.
    pub(super) fn bill(&self, lease: &mut Lease, job: &Job, took: Option<u64>) {
        let facts = self.state.active_model(&job.order);
        // What a sealed run took would say something of its input.
        let is_counted = job.order.mode != VerificationMode::Sealed
            && facts.is_some_and(|it| it.tier != Tier::Tgx1);
        if let Some(took) = took.filter(|_| is_counted) {
            lease.price = billed(lease.price, took, job.macs);
        }
    }

    /// Every validator ran a program again and found what its provider committed to: whoever said otherwise as its watcher loses a part of
    /// its stake, and the result is accepted.
    pub(super) fn uphold(&mut self, id: &LeaseId, took: Option<u64>) -> Done {
        let mut lease = self.lease(id)?;
        let Some(SyncStage::Disputed { round, accuser, .. }) =
            lease.check.as_ref().map(|it| it.stage.clone())
        else {
            return Ok(());
        };
        if is_accusation(&round, &accuser) {
            self.burn_accusation_bond(accuser);
        }
        let mut job = self.job(&lease.job)?;
        self.step(&mut job, OpenStage::Verifying(lease.id))?;
        self.bill(&mut lease, &job, took);
        self.accept(job, lease)
    }

    /// A member accused falsely.
    fn burn_accusation_bond(&mut self, validator: Address) {
        let bond = match is_armed(LedgerCanary::FreeAccusation) {
            true => Amount::ZERO,
            false => self.state.accusation_bond(),
        };
        let burned = self.take_from_stake(&validator, bond);
        self.events
            .push(Event::AccusationRefuted { validator, burned });
    }

    /// What the passing of time does to votes.
    pub(super) fn run_votes(&mut self) -> Done {
        self.accept_unchallenged()?;
        self.lapse_disputes()?;
        let is_voting = |lease: &Lease| {
            let stage = lease.check.as_ref().map(|it| &it.stage);
            lease.delivery().is_none() && matches!(stage, Some(SyncStage::Voting { .. }))
        };
        let voting = self.state.checked_leases();
        let voting = voting.filter(|(_, lease)| is_voting(lease));
        let voting: Vec<Lease> = voting.map(|(_, lease)| lease.clone()).collect();
        voting
            .into_iter()
            .try_for_each(|lease| self.advance_vote(lease, Some(self.now)))
    }

    /// What was said of a result is not so, as every validator found, or nobody showed it in time: a member that said it loses a part of its
    /// stake, and the vote goes on, unless somebody else has challenged the result meanwhile.
    pub(super) fn refute(&mut self, id: &LeaseId) -> Done {
        let mut lease = self.lease(id)?;
        let Some(SyncStage::Disputed {
            seed,
            round,
            accuser,
            ..
        }) = lease.check.as_ref().map(|it| &it.stage)
        else {
            return Ok(());
        };
        let (seed, mut round, accuser) = (*seed, round.clone(), *accuser);
        if is_armed(LedgerCanary::FailedClaimAccepts) && tile_dispute_mut(&mut lease).is_some() {
            return self.uphold(id, None);
        }
        if is_accusation(&round, &accuser) {
            round.note(&accuser, VoteState::Refuted);
            self.burn_accusation_bond(accuser);
        } else {
            self.pay_challenged(&mut lease)?;
        }
        // The others have the time again that the dispute took.
        match &mut round.opening_since {
            Some(since) => *since = self.now,
            None => round.since = self.now,
        }
        if let Some((accuser, dispute)) = self.next_dispute(&lease) {
            let accusation = Accusation {
                seed,
                round,
                accuser,
                vote: Vote::WrongRun,
            };
            if let Some(check) = &mut lease.check {
                check.stage = accusation.stage(Some(dispute));
            }
            self.state.put_lease(lease);
            return Ok(());
        }
        let mut job = self.job(&lease.job)?;
        self.step(&mut job, OpenStage::Verifying(lease.id))?;
        self.save_job(job);
        if let Some(check) = &mut lease.check {
            check.stage = SyncStage::Voting { seed, round };
        }
        self.advance_vote(lease, None)
    }

    /// Every validator found that a result is wrong: whoever found it right did not look, and loses a part of its stake.
    pub(super) fn convict(&mut self, lease: Lease) -> Result<Lease, InvariantError> {
        let round = match lease.check.as_ref().map(|it| &it.stage) {
            Some(SyncStage::Disputed { round, .. }) => round.clone(),
            _ => return Ok(lease),
        };
        let lease = self.side_with_accusers(lease)?;
        let said_right = |it: &&MemberVote| matches!(it.state, VoteState::Open(Vote::Right { .. }));
        let members = round.votes.iter().filter(said_right);
        let wrong: Vec<Address> = members.map(|it| it.member).collect();
        self.note_presence(&wrong, &[]);
        for validator in wrong {
            let burned = self.take_from_stake(&validator, self.state.accusation_bond());
            self.events.push(Event::VoteRefuted {
                lease: lease.id,
                validator,
                burned,
            });
        }
        Ok(lease)
    }

    /// A provider lost a dispute: whoever challenged, or waits to, has its fee back out of the collateral.
    pub(super) fn side_with_accusers(&mut self, mut lease: Lease) -> Result<Lease, InvariantError> {
        let Some(SyncStage::Disputed {
            round,
            accuser,
            by_tile,
            ..
        }) = lease.check.as_ref().map(|it| it.stage.clone())
        else {
            return Ok(lease);
        };
        let first = (!is_accusation(&round, &accuser)).then_some(accuser);
        let (waiting, held) =
            by_tile.map_or((Vec::new(), Amount::ZERO), |it| (it.waiting, it.held));
        if let Some(dispute) = tile_dispute_mut(&mut lease) {
            dispute.held = Amount::ZERO;
        }
        let challengers: Vec<Address> = first.into_iter().chain(waiting).collect();
        let held_each = match held.is_zero() {
            true => Amount::ZERO,
            false => self.held_of_challenge(),
        };
        for challenger in challengers {
            let fee = self.state.parameters.challenge_fee();
            let rest = fee.saturating_sub(held_each).min(lease.locked());
            lease.collateral = lease.collateral.saturating_sub(rest);
            let amount = rest.saturating_add(held_each);
            self.credit(challenger, amount)?;
            self.events.push(Event::ChallengeReturned {
                lease: lease.id,
                provider: lease.provider,
                challenger,
                amount,
                held: held_each,
            });
            self.state.put_lease(lease.clone());
        }
        self.note_presence(&[], &[accuser]);
        Ok(lease)
    }

    /// Burns a part of a validator's stake; how much.
    fn take_from_stake(&mut self, validator: &Address, amount: Amount) -> Amount {
        let taken = self.cut_stake(validator, amount);
        self.burn(taken);
        taken
    }

    /// Takes a part of a validator's stake, for whatever is done with it; how much.
    pub(super) fn cut_stake(&mut self, validator: &Address, amount: Amount) -> Amount {
        let seated = Arc::make_mut(&mut self.state.validators).iter_mut();
        // Who left its seat since answers for what it said in it.
        let left = Arc::make_mut(&mut self.state.seats).unbonding.iter_mut();
        let mut all = seated.chain(left.map(|it| &mut it.validator));
        let Some(found) = all.find(|it| it.address == *validator && !it.stake.is_zero()) else {
            return Amount::ZERO;
        };
        let taken = amount.min(found.stake);
        found.stake = found.stake.saturating_sub(taken);
        taken
    }

    /// Notes who missed a vote, and who did not.
    fn note_presence(&mut self, absent: &[Address], present: &[Address]) {
        let places = |members: &[Address]| -> Vec<usize> {
            let seats = members.iter().filter_map(|it| self.state.seat_of(it));
            seats.map(usize::from).collect()
        };
        let (absent, present) = (places(absent), places(present));
        let height = self.height;
        let book = Arc::make_mut(&mut self.state.seats);
        for place in absent {
            if let Some(seat) = book.seats.get_mut(place) {
                seat.note_missed(height);
            }
        }
        for place in present {
            if let Some(seat) = book.seats.get_mut(place) {
                seat.note_vote(height);
            }
        }
    }

    /// Pays the members that found a result right; gives what cannot be split, all of it for a job of another mode.
    pub(super) fn pay_committee(
        &mut self,
        members: Vec<Address>,
        fee: Amount,
    ) -> Result<Amount, InvariantError> {
        let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let Some((share, rest)) = fee.split(count) else {
            return Ok(fee);
        };
        for member in members.into_iter().filter(|_| !share.is_zero()) {
            self.credit(member, share)?;
            self.events.push(Event::Rewarded {
                validator: member,
                amount: share,
            });
        }
        Ok(rest)
    }
}

/// Who found the result of a lease right and computed the same; nobody for a job of another mode.
pub(super) fn right_votes(lease: &Lease) -> Vec<Address> {
    let round = lease.check.as_ref().and_then(|it| it.stage.round());
    round.map_or_else(Vec::new, VoteRound::right)
}

/// Whether who disputes a result did so as a member, by its vote.
fn is_accusation(round: &VoteRound, accuser: &Address) -> bool {
    matches!(round.vote(accuser), Some(VoteState::Open(vote)) if !vote.is_right())
}

impl State {
    /// The members of a committee, in the order of addresses. The turn of a validator is the hash of seed, lease, number of the
    /// drawing and its address; the first `seats` are members, or all.
    #[must_use]
    pub(crate) fn committee(
        &self,
        seed: &Digest,
        lease: &LeaseId,
        number: u8,
        seats: usize,
    ) -> Vec<Address> {
        let all = self.validators.iter().map(|it| it.address);
        if number >= WHOLE_SET_FROM {
            return all.collect();
        }
        let turn = |member: &Address| {
            let place = [
                seed.as_bytes().as_slice(),
                lease.as_bytes(),
                &[number],
                member.as_bytes(),
            ];
            Digest::of(Domain::Committee, &place.concat())
        };
        let mut turns: Vec<(Digest, Address)> = all.map(|it| (turn(&it), it)).collect();
        turns.sort_unstable();
        turns.truncate(seats);
        let mut members: Vec<Address> = turns.into_iter().map(|(_, member)| member).collect();
        members.sort_unstable();
        members
    }
}
