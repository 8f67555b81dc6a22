//! The votes of a committee on the result of a lease of mode `sync`.
//!
//! A committee is drawn by the seed among the validators. Its members compute the drawn tiles again and *seal* what they found;
//! once all have, or more than two thirds and some time has passed, they *open* it. More than two thirds for *right* with one checksum
//! of what they computed, and no accusation: the result is accepted, and they share the fee. Too few: other members are drawn, and
//! from the third time on all validators are asked.
//!
//! An *accusation* names what is wrong, and every validator looks at that; the block that decides it is voted for by those who
//! found the same. If it is so the provider loses its collateral, all of it burned; if not, whoever accused loses
//! [`State::accusation_bond`] of its stake, burned, and the vote goes on without it. Where it is so, whoever had found the result right
//! loses as much: it did not look, or lied. So nobody is slashed by a count of votes. Who has less than that left of its stake cannot accuse.
//!
//! Who was asked and gave nothing that counts *missed* a vote: after some in a row it has no share of fees, after many no seat.
//!
//! *Who gains if it fails on purpose.* Members that are silent delay a result by the windows of two committees and lose their share;
//! from then on the n - f honest ones are enough. Members that accept what is wrong are caught by one honest member that opens its
//! vote: an accusation needs no majority. A member that accuses a right result burns more than the look costs everybody. Copying a
//! vote is impossible before all are sealed; one that votes *right* without computing has no checksum, and no share ([ADR 24]).
//!
//! [ADR 24]: https://github.com/tensorgrid/tensorgrid/blob/main/docs/adr/0024-votes-show-work.md

use std::sync::Arc;

use tg_types::{
    Address, Amount, Digest, Domain, DurationMs, Height, LeaseId, OpenedVote, SealedVote,
    TimestampMs, Vote,
};

use super::Execution;
use crate::canary::{LedgerCanary, is_armed};
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::COMMITTEE_SEATS;
use crate::record::{
    Lease, MemberVote, OpenStage, Storage, SyncCheck, SyncStage, VoteRound, VoteState, VoteStep,
    VoteWindows,
};
use crate::state::State;

type Done = Result<(), InvariantError>;

/// From this drawing on all validators are asked.
const WHOLE_SET_FROM: u8 = 2;

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
            let (seed, id) = (*seed, lease.id);
            let round = self.draw(&seed, &id, 0);
            if let Some(check) = &mut lease.check {
                check.stage = SyncStage::Voting { seed, round };
            }
        }
    }

    fn draw(&mut self, seed: &Digest, lease: &LeaseId, number: u8) -> VoteRound {
        let members = self.state.committee(seed, lease, number);
        self.events.push(Event::CommitteeDrawn {
            lease: *lease,
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

    /// Does what follows from the votes on a result; with `now` from how long it lasts too, which is looked at after the
    /// transactions of a block.
    fn advance_vote(&mut self, mut lease: Lease, now: Option<TimestampMs>) -> Done {
        let windows = VoteWindows {
            longest: self
                .state
                .parameters
                .least_window(self.state.validators.len()),
            patience: VOTE_PATIENCE,
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
                self.note_presence(&round.absent(&[]), &[]);
                SyncStage::Voting {
                    seed,
                    round: self.draw(&seed, &lease.id, round.number.saturating_add(1)),
                }
            }
            VoteStep::Dispute(accuser, vote) => {
                let mut job = self.job(&lease.job)?;
                self.step(&mut job, OpenStage::Disputed(lease.id))?;
                self.save_job(job);
                self.events.push(Event::ResultDisputed {
                    lease: lease.id,
                    job: lease.job,
                    accuser,
                    vote,
                });
                SyncStage::Disputed {
                    seed,
                    round,
                    accuser,
                    vote,
                }
            }
            VoteStep::Accept => {
                let right = round.right();
                self.note_presence(&round.absent(&right), &right);
                let job = self.job(&lease.job)?;
                return self.accept(job, lease);
            }
        };
        if let Some(check) = &mut lease.check {
            check.stage = stage;
        }
        self.state.put_lease(lease);
        Ok(())
    }

    /// What the passing of time does to votes.
    pub(super) fn run_votes(&mut self) -> Done {
        let is_voting = |lease: &Lease| {
            let stage = lease.check.as_ref().map(|it| &it.stage);
            matches!(stage, Some(SyncStage::Voting { .. }))
        };
        let voting = self.state.live_leases();
        let voting = voting.filter(|(_, lease)| is_voting(lease));
        let voting: Vec<Lease> = voting.map(|(_, lease)| lease.clone()).collect();
        voting
            .into_iter()
            .try_for_each(|lease| self.advance_vote(lease, Some(self.now)))
    }

    /// Every validator found that what a member said is not so: it loses a part of its stake, and the vote goes on.
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
        round.note(&accuser, VoteState::Refuted);
        let mut job = self.job(&lease.job)?;
        let bond = match is_armed(LedgerCanary::FreeAccusation) {
            true => Amount::ZERO,
            false => self.state.accusation_bond(),
        };
        let burned = self.take_from_stake(&accuser, bond);
        self.events.push(Event::AccusationRefuted {
            validator: accuser,
            burned,
        });
        self.step(&mut job, OpenStage::Verifying(lease.id))?;
        self.save_job(job);
        // The others have the time again that the dispute took.
        round.opening_since = Some(self.now);
        if let Some(check) = &mut lease.check {
            check.stage = SyncStage::Voting { seed, round };
        }
        self.advance_vote(lease, None)
    }

    /// Every validator found that what a member said is so: whoever found the result right did not look, and loses a part of its stake.
    pub(super) fn convict(&mut self, lease: &Lease) {
        let Some(SyncStage::Disputed { round, accuser, .. }) =
            lease.check.as_ref().map(|it| &it.stage)
        else {
            return;
        };
        let said_right = |it: &&MemberVote| matches!(it.state, VoteState::Open(Vote::Right { .. }));
        let members = round.votes.iter().filter(said_right);
        let wrong: Vec<Address> = members.map(|it| it.member).collect();
        self.note_presence(&wrong, &[*accuser]);
        for validator in wrong {
            let burned = self.take_from_stake(&validator, self.state.accusation_bond());
            self.events.push(Event::VoteRefuted {
                lease: lease.id,
                validator,
                burned,
            });
        }
    }

    /// Burns a part of a validator's stake; how much.
    fn take_from_stake(&mut self, validator: &Address, amount: Amount) -> Amount {
        let validators = Arc::make_mut(&mut self.state.validators);
        let Some(found) = validators.iter_mut().find(|it| it.address == *validator) else {
            return Amount::ZERO;
        };
        let taken = amount.min(found.stake);
        found.stake = found.stake.saturating_sub(taken);
        self.burn(taken);
        taken
    }

    /// Notes who missed a vote, and who did not.
    fn note_presence(&mut self, absent: &[Address], present: &[Address]) {
        let places = |members: &[Address]| -> Vec<usize> {
            let seats = members.iter().filter_map(|it| self.state.seat_of(it));
            seats.map(usize::from).collect()
        };
        let (absent, present) = (places(absent), places(present));
        let book = Arc::make_mut(&mut self.state.seats);
        for place in absent {
            if let Some(seat) = book.seats.get_mut(place) {
                seat.missed = seat.missed.saturating_add(1);
            }
        }
        for place in present {
            if let Some(seat) = book.seats.get_mut(place) {
                seat.missed = 0;
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

impl State {
    /// The members of a committee, in the order of addresses. The turn of a validator is the hash of seed, lease, number of the
    /// drawing and its address; the first [`COMMITTEE_SEATS`] are members, or all.
    #[must_use]
    pub(crate) fn committee(&self, seed: &Digest, lease: &LeaseId, number: u8) -> Vec<Address> {
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
        turns.truncate(COMMITTEE_SEATS);
        let mut members: Vec<Address> = turns.into_iter().map(|(_, member)| member).collect();
        members.sort_unstable();
        members
    }
}
