//! Checks of a validator's dealings and votes.

use tg_types::limits::TRACE_EVIDENCE_BYTES_MAX;
use tg_types::{
    Address, Digest, LeaseId, OpenedVote, RunCommitment, SealedVote, VerificationMode, Vote,
    vote_commitment,
};

use super::market::check_validator;
use super::outcome::{Check, Spent};
use crate::canary::{LedgerCanary, is_armed};
use crate::error::TransactionError;
use crate::limits::CHALLENGERS_WAITING_MAX;
use crate::record::{DisputeTurn, Lease, SeedKeyPhase, SyncStage, VoteRound, VoteState};
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
    let mut accusations = state.open_accusations(&sender);
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
        if *commitment != vote_commitment(opened, &sender) || !fits_mode(state, opened) {
            return Err(TransactionError::WrongVote {
                lease: opened.lease,
            });
        }
        // Stops: accusations without end by a member that has nothing left to lose by them, and many at once for the bond of one.
        accusations += u64::from(!opened.vote.is_right());
        let bond = state.accusation_bond().saturating_mul(accusations);
        if !opened.vote.is_right() && state.at_stake(&sender) < bond {
            return Err(TransactionError::NoAccusationBond {
                lease: opened.lease,
                bond,
            });
        }
    }
    Ok(())
}

/// Whether a vote is one that the check of its result takes. Where all of a run is repeated it opens what the provider committed to, which is
/// known only to those who ran the program, or were told by one who did: of mode `optimistic` there may be nobody to compare a checksum with.
fn fits_mode(state: &State, opened: &OpenedVote) -> bool {
    let lease = state.lease(&opened.lease);
    let Some((lease, job)) = lease.and_then(|it| Some((it, state.job(&it.job)?))) else {
        return false;
    };
    let is_repeated = state.is_repeated(&job.order);
    match opened.vote {
        Vote::Right { checksum } if is_repeated && !is_armed(LedgerCanary::AnyChecksum) => {
            let commitment = lease.receipt().map(|it| RunCommitment::read(&it.trace));
            commitment.is_some_and(|it| it.is_opened_by(&lease.id, checksum))
        }
        Vote::Right { .. } => true,
        Vote::WrongForm | Vote::WrongTile(_) => !is_repeated,
        Vote::WrongRun => is_repeated,
    }
}

/// Whether the result of a lease may be challenged; what that costs. While a dispute goes on that ends at one tile, others may wait for theirs.
pub(super) fn check_challenge(state: &State, sender: Address, id: &LeaseId) -> Spent {
    let lease = state.lease(id).filter(|it| it.end().is_none());
    let lease = lease.ok_or(TransactionError::UnknownLease { lease: *id })?;
    let job = state.job(&lease.job);
    let is_watched = job.is_some_and(|it| it.order.mode == VerificationMode::Optimistic);
    let stage = lease.check.as_ref().map(|it| &it.stage);
    // Stops: a member that challenges and accuses by its vote too. Its fee would be nobody's, and no block conserve money any more.
    let accuses = |round: &VoteRound| match round.vote(&sender) {
        Some(VoteState::Sealed(_)) => true,
        Some(VoteState::Open(vote)) => !vote.is_right(),
        Some(VoteState::Silent | VoteState::Refuted) | None => false,
    };
    if stage.and_then(SyncStage::round).is_some_and(accuses) {
        return Err(TransactionError::NotContestable { lease: *id });
    }
    match stage {
        Some(SyncStage::Voting { .. } | SyncStage::Contestable { .. }) if is_watched => {
            Ok(state.parameters.challenge_fee())
        }
        Some(SyncStage::Disputed {
            accuser,
            by_tile: Some(dispute),
            ..
        }) => {
            let waits = *accuser == sender || dispute.waiting.contains(&sender);
            match waits || dispute.waiting.len() >= CHALLENGERS_WAITING_MAX {
                true => Err(TransactionError::NotContestable { lease: *id }),
                false => Ok(state.parameters.challenge_fee()),
            }
        }
        _ => Err(TransactionError::NotContestable { lease: *id }),
    }
}

/// Whether the evidence is the answer that the receipt names, of a result whose dispute ends at one tile. Of other results whoever runs
/// the program sees that.
pub(super) fn check_watched_answer(state: &State, held: &Lease, evidence: &Digest) -> Check {
    if !state.is_disputed_by_tile(held) {
        return Ok(());
    }
    // Stops: a right receipt with other evidence, of which an accuser could claim nothing that the receipt does not say.
    match held.receipt().filter(|it| it.output != *evidence) {
        None => Ok(()),
        Some(receipt) => Err(TransactionError::NotTheAnswer {
            lease: held.id,
            expected: receipt.output,
        }),
    }
}

/// Whether it is the sender's turn to hand in a file in the dispute about a lease.
pub(super) fn check_argument(state: &State, sender: Address, id: &LeaseId, size: u32) -> Check {
    let not_asked = TransactionError::NotAsked { lease: *id };
    let lease = state.lease(id).filter(|it| it.end().is_none());
    let lease = lease.ok_or(TransactionError::UnknownLease { lease: *id })?;
    let Some(SyncStage::Disputed {
        accuser,
        by_tile: Some(dispute),
        ..
    }) = lease.check.as_ref().map(|it| &it.stage)
    else {
        return Err(not_asked);
    };
    let turn = match dispute.step.turn() {
        DisputeTurn::Accuser => Some(*accuser),
        DisputeTurn::Provider => Some(lease.provider),
        DisputeTurn::Validators => None,
    };
    // Stops: another file than the one that validators are fetching.
    if turn != Some(sender) || !dispute.step.waits_for_file() {
        return Err(not_asked);
    }
    let limit = TRACE_EVIDENCE_BYTES_MAX;
    match size {
        0 => Err(TransactionError::EvidenceEmpty),
        size if size > limit => Err(TransactionError::EvidenceTooLarge { size, limit }),
        _ => Ok(()),
    }
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
    // Enough found it right, and only its answer is waited for.
    if lease.delivery().is_some() {
        return None;
    }
    match &lease.check.as_ref()?.stage {
        SyncStage::Voting { round, .. } => Some(round),
        SyncStage::Disputed { round, .. } if dispute == Dispute::GoesOn => Some(round),
        _ => None,
    }
}
