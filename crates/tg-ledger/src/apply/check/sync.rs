//! Whether a validator may deal, and whether its votes hold.

use tg_types::{Address, Amount, LeaseId, OpenedVote, SealedVote, vote_commitment};

use super::market::check_validator;
use super::outcome::Check;
use crate::error::TransactionError;
use crate::record::{SeedKeyPhase, SyncStage, VoteRound, VoteState};
use crate::state::State;

/// Whether a validator may deal in a round: once, while it lasts.
pub(super) fn check_dealing(state: &State, sender: Address, round: u64) -> Check {
    check_validator(state, sender)?;
    let seeds = state.seeds();
    if round != seeds.round || seeds.phase != SeedKeyPhase::Dealing {
        return Err(TransactionError::NoSuchRound {
            got: round,
            round: seeds.round,
        });
    }
    match seeds.has_dealt(&sender) {
        true => Err(TransactionError::DealtBefore { round }),
        false => Ok(()),
    }
}

/// Whether a member may seal these votes: each once, while the votes of its committee are sealed.
pub(super) fn check_sealed(state: &State, sender: Address, votes: &[SealedVote]) -> Check {
    check_order(state, sender, votes.iter().map(|it| it.lease))?;
    for SealedVote { lease, .. } in votes {
        let no_vote = TransactionError::NoVote { lease: *lease };
        let round = round_of(state, lease, Dispute::Ends).ok_or(no_vote)?;
        match round.vote(&sender) {
            Some(VoteState::Silent) if round.opening_since.is_none() => {}
            _ => return Err(no_vote),
        }
    }
    Ok(())
}

/// Whether a member may open these votes: what it sealed, once nobody may seal any more.
pub(super) fn check_opened(state: &State, sender: Address, votes: &[OpenedVote]) -> Check {
    check_order(state, sender, votes.iter().map(|it| it.lease))?;
    for opened in votes {
        let no_vote = TransactionError::NoVote {
            lease: opened.lease,
        };
        // Stops: an accusation that keeps out the votes that come after it in its block, on other results too.
        let round = round_of(state, &opened.lease, Dispute::GoesOn).ok_or(no_vote)?;
        let Some(VoteState::Sealed(commitment)) = round.vote(&sender) else {
            return Err(no_vote);
        };
        if round.opening_since.is_none() {
            return Err(no_vote);
        }
        // Stops: a vote that is made up after those of others are open.
        if *commitment != vote_commitment(opened, &sender) {
            return Err(TransactionError::WrongVote {
                lease: opened.lease,
            });
        }
        // Stops: accusations without end by a member that has nothing left to lose by them.
        if !opened.vote.is_right() && stake_of(state, &sender) < state.accusation_bond() {
            return Err(TransactionError::NoAccusationBond {
                lease: opened.lease,
                bond: state.accusation_bond(),
            });
        }
    }
    Ok(())
}

/// What a validator has at stake.
fn stake_of(state: &State, validator: &Address) -> Amount {
    let found = state
        .validators()
        .iter()
        .find(|it| it.address == *validator);
    found.map_or(Amount::ZERO, |it| it.stake)
}

/// There are votes, by lease, ascending, of a validator.
fn check_order(state: &State, sender: Address, leases: impl Iterator<Item = LeaseId>) -> Check {
    check_validator(state, sender)?;
    let leases: Vec<LeaseId> = leases.collect();
    match leases.is_empty() {
        true => Err(TransactionError::EmptyReport),
        false if !leases.is_sorted_by(|a, b| a < b) => Err(TransactionError::VotesUnsorted),
        false => Ok(()),
    }
}

/// Whether votes are taken while a member's accusation is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dispute {
    Ends,
    GoesOn,
}

/// The votes on a result, while some are taken.
fn round_of<'a>(state: &'a State, lease: &LeaseId, dispute: Dispute) -> Option<&'a VoteRound> {
    let lease = state.lease(lease).filter(|it| it.end().is_none())?;
    match &lease.check.as_ref()?.stage {
        SyncStage::Voting { round, .. } => Some(round),
        SyncStage::Disputed { round, .. } if dispute == Dispute::GoesOn => Some(round),
        _ => None,
    }
}
