//! Committees looked at from outside: votes are counted again from the transactions of final blocks.

use std::collections::{BTreeMap, BTreeSet};

use tg_ledger::{Event, Lease, LeaseEnd, Outcome, State, Subject, SyncStage, seed_of};
use tg_node::Finalized;
use tg_types::{
    Address, Digest, LeaseId, OpenedVote, RunCommitment, SealedVote, TimestampMs, Transaction,
    TransactionId, VerificationMode, Vote, vote_commitment,
};

use crate::evidence::is_drawn;

/// Members of a committee at most (`docs/LEDGER.md`), but for those that all are asked in.
const COMMITTEE: usize = 16;

/// A false accusation costs so many times the fee for checking a result.
const BOND: u64 = 100;

/// The committee of a lease, and its votes.
#[derive(Debug, Default)]
struct Committee {
    members: BTreeSet<Address>,
    sealed: BTreeMap<Address, Digest>,
    /// The checksums of those who found it right.
    right: BTreeMap<Address, u64>,
    /// What members have to open, where they run all of it.
    commitment: Option<RunCommitment>,
    /// When the last vote was opened.
    opened_at: TimestampMs,
}

impl Committee {
    /// How many found it right with one checksum, and it.
    fn largest(&self) -> Option<(usize, u64)> {
        let count = |checksum: &u64| self.right.values().filter(|it| *it == checksum).count();
        self.right.values().map(|it| (count(it), *it)).max()
    }
}

/// What blocks said of seeds and votes.
#[derive(Debug, Default)]
pub(crate) struct VoteChecks {
    /// The heights of receipts.
    receipts: BTreeMap<LeaseId, u64>,
    /// Seeds by the height of their block.
    seeds: BTreeMap<u64, Digest>,
    committees: BTreeMap<LeaseId, Committee>,
    /// The validators after the block before: those of a block in which the set changes.
    sitting: BTreeSet<Address>,
}

impl VoteChecks {
    /// Whether more than two thirds of a lease's committee found its result right and computed the same.
    pub(crate) fn accepts(&self, lease: &LeaseId) -> bool {
        self.committees.get(lease).is_some_and(|it| {
            it.largest()
                .is_some_and(|(count, _)| 3 * count > 2 * it.members.len())
        })
    }

    /// Whether the watchers of a lease found its result right, and the time to challenge it is over.
    pub(crate) fn stands(&self, block: &Finalized, lease: &LeaseId) -> bool {
        let window = block.state.parameters().challenge_window;
        let opened_at = self.committees.get(lease).map(|it| it.opened_at);
        let now = block.state.head().time;
        self.accepts(lease) && opened_at.is_some_and(|at| now > at.saturating_add(window))
    }

    /// Whether a vote of a member on another result counted in a block: those that it missed in that block do not count then.
    fn has_counted(&self, block: &Finalized, member: &Address, missed: &LeaseId) -> bool {
        let window = block.state.parameters().challenge_window;
        let now = block.state.head().time;
        let is_paid = |lease: &LeaseId| {
            block.events.iter().any(|it| {
                matches!(it, Event::LeaseEnded { lease: of, end: LeaseEnd::Fulfilled, .. } if of == lease)
            })
        };
        let stands = |lease: &LeaseId| {
            let check = block.state.lease(lease).and_then(|it| it.check.as_ref());
            check.is_some_and(|it| {
                matches!(it.stage, SyncStage::Contestable { until, .. } if until == now.saturating_add(window))
            })
        };
        self.committees.iter().any(|(lease, committee)| {
            let accepted = committee.largest().map(|(_, checksum)| checksum);
            lease != missed
                && accepted.is_some()
                && committee.right.get(member).copied() == accepted
                && (is_paid(lease) || stands(lease))
        })
    }

    /// That whoever found a result right and computed nothing missed its vote.
    fn paid(&self, block: &Finalized, lease: &LeaseId) -> Result<(), String> {
        let state = &block.state;
        let Some(committee) = self.committees.get(lease) else {
            return Ok(());
        };
        let accepted = committee.largest().map(|(_, checksum)| checksum);
        for (member, checksum) in &committee.right {
            let seat = state.seat_of(member).map(usize::from);
            let seat = seat.and_then(|seat| state.seats().seats.get(seat));
            if Some(*checksum) != accepted
                && seat.is_some_and(|it| it.missed == 0)
                && !self.has_counted(block, member, lease)
            {
                return Err(format!("{member} is paid for an empty vote on {lease}"));
            }
        }
        Ok(())
    }

    /// Whether the seed of a lease leaves out the part in which its result is wrong, by simulation.
    pub(crate) fn missed(&self, lease: &Lease) -> bool {
        let height = self.receipts.get(&lease.id);
        let seed = height.and_then(|height| self.seeds.get(height));
        seed.is_some_and(|seed| !is_drawn(seed, &lease.id))
    }

    /// Looks at a block; returns the openings that committees vote on from now on.
    pub(crate) fn look(&mut self, block: &Finalized) -> Result<Vec<Digest>, String> {
        let height = block.block.header.height.get();
        for verdict in &block.block.verdicts {
            if let (Subject::Seed(height), Outcome::Seed(signature)) =
                (&verdict.subject, &verdict.outcome)
            {
                self.seeds.insert(height.get(), seed_of(signature));
            }
        }
        let domain = block.state.domain();
        let transactions = block.block.transactions.iter();
        let transactions: BTreeMap<TransactionId, _> =
            transactions.map(|it| (it.id(domain), it)).collect();
        let mut openings = Vec::new();
        let mut fulfilled = Vec::new();
        // In the order of what happened.
        for event in block.events.iter() {
            match event {
                Event::TransactionExecuted { id, .. } => {
                    if let Some(signed) = transactions.get(id) {
                        let at = (height, block.state.head().time);
                        self.transaction(at, signed.sender, &signed.transaction)?;
                    }
                }
                Event::CommitteeDrawn {
                    lease,
                    number,
                    members,
                } => openings.extend(self.drawn(&block.state, lease, (*number, members))?),
                Event::LeaseEnded {
                    lease,
                    end: LeaseEnd::Fulfilled,
                    ..
                } => fulfilled.push(*lease),
                Event::AccusationRefuted { validator, burned } => {
                    let fee = block.state.parameters().verification_fee_zk;
                    if *burned < fee.saturating_mul(BOND) {
                        return Err(format!("{validator} accused falsely for {burned}"));
                    }
                }
                _ => {}
            }
        }
        // With all votes of the block: one that counts after a missed one clears it.
        fulfilled
            .iter()
            .try_for_each(|lease| self.paid(block, lease))?;
        let sitting = block.state.validators().iter();
        self.sitting = sitting.map(|it| it.address).collect();
        Ok(openings)
    }

    fn transaction(
        &mut self,
        (height, time): (u64, TimestampMs),
        sender: Address,
        transaction: &Transaction,
    ) -> Result<(), String> {
        match transaction {
            Transaction::CommitReceipt { lease, .. } => {
                self.receipts.insert(*lease, height);
            }
            Transaction::CommitVotes { votes } => {
                for SealedVote { lease, commitment } in votes {
                    let committee = self.committees.entry(*lease).or_default();
                    committee.sealed.insert(sender, *commitment);
                }
            }
            Transaction::RevealVotes { votes } => {
                votes
                    .iter()
                    .try_for_each(|it| self.opened(sender, it, time))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn opened(
        &mut self,
        member: Address,
        opened: &OpenedVote,
        time: TimestampMs,
    ) -> Result<(), String> {
        let OpenedVote { lease, vote, .. } = opened;
        let committee = self.committees.entry(*lease).or_default();
        if committee.sealed.get(&member) != Some(&vote_commitment(opened, &member)) {
            return Err(format!("{member} opens what it did not seal on {lease}"));
        }
        if !committee.members.contains(&member) {
            return Err(format!("{member} votes on {lease} and is no member"));
        }
        committee.opened_at = time;
        if let Vote::Right { checksum } = vote {
            let is_open = |it: &RunCommitment| it.is_opened_by(lease, *checksum);
            if !committee.commitment.as_ref().is_none_or(is_open) {
                return Err(format!(
                    "{member} did not run what it finds right on {lease}"
                ));
            }
            committee.right.insert(member, *checksum);
        }
        Ok(())
    }

    /// A committee was drawn; returns the opening that it votes on, if anything is shown.
    fn drawn(
        &mut self,
        state: &State,
        id: &LeaseId,
        (number, members): (u8, &[Address]),
    ) -> Result<Option<Digest>, String> {
        let found = state.lease(id).and_then(|it| {
            let seed = it.check.as_ref()?.stage.seed()?;
            let order = &state.job(&it.job)?.order;
            let commitment = RunCommitment::read(&it.receipt()?.trace);
            let is_watched = order.mode == VerificationMode::Optimistic;
            let is_whole = state.is_run_whole(order);
            let commitment = (is_watched || is_whole).then_some(commitment);
            // Of a run that a committee repeats whole members find the answer themselves.
            let opening = (!is_whole).then_some(it.evidence()?.digest);
            Some((seed, opening, commitment, is_watched))
        });
        let (seed, opening, commitment, is_watched) =
            found.ok_or_else(|| format!("{id} is voted on without a seed"))?;
        let height = self.receipts.get(id);
        let known = height.and_then(|height| self.seeds.get(height));
        if known != Some(&seed) {
            return Err(format!(
                "{id} was committed at {height:?}, whose seed is {known:?}, not {seed}"
            ));
        }
        let members: BTreeSet<Address> = members.iter().copied().collect();
        let all: BTreeSet<Address> = state.validators().iter().map(|it| it.address).collect();
        let is_of = |set: &BTreeSet<Address>| {
            let least = match number {
                0 | 1 if is_watched => 1.min(set.len()),
                0 | 1 => COMMITTEE.min(set.len()),
                _ => set.len(),
            };
            members.len() == least && members.is_subset(set)
        };
        if !is_of(&all) && !is_of(&self.sitting) {
            return Err(format!(
                "{id} has a committee of {} of {}",
                members.len(),
                all.len()
            ));
        }
        let committee = Committee {
            members,
            commitment,
            ..Committee::default()
        };
        self.committees.insert(*id, committee);
        Ok(opening)
    }
}
