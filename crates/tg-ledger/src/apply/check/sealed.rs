//! Checks of everything about the key of a sealed job.

use tg_types::{
    Address, Amount, CapacityTier, DeclineReason, JobNeeds, JobOrder, Lane, LeaseId, ModeSet,
    TimestampMs, VerificationMode,
};

use super::outcome::{Check, Spent};
use crate::error::{NeedsProblem, TransactionError};
use crate::limits::PROVIDERS_MAX;
use crate::record::{Lease, ModelFacts, Sealing, SealingStage, SyncStage};
use crate::rent::{RentCategory, SEALING_KEY_BYTES_CHARGED};
use crate::state::State;

/// What registering a sealing key costs: the first one of a provider makes its record longer.
pub(super) fn check_register(state: &State, sender: Address) -> Spent {
    let record = state.provider_charge(&sender);
    if record.bytes > 0 && !state.has_room(RentCategory::Providers, &record) {
        return Err(TransactionError::TooManyProviders {
            limit: PROVIDERS_MAX,
        });
    }
    let has_one = state
        .provider(&sender)
        .is_some_and(|it| it.sealing.is_some());
    if has_one {
        return Ok(Amount::ZERO);
    }
    let key = state.charge(RentCategory::Providers, SEALING_KEY_BYTES_CHARGED);
    Ok(record.total().saturating_add(key.total()))
}

/// Whether a provider may offer these modes. Stops: leases of sealed jobs whose provider nobody can grant a key.
pub(super) fn check_modes(state: &State, provider: Address, modes: ModeSet) -> Check {
    let seals = modes.contains(VerificationMode::Sealed);
    let has_key = || {
        state
            .provider(&provider)
            .is_some_and(|it| it.sealing.is_some())
    };
    match seals && !has_key() {
        true => Err(TransactionError::NoSealingKey { provider }),
        false => Ok(()),
    }
}

/// Whether an order may be of mode `sealed`, and its input is of the length that its model reads, sealed.
pub(super) fn check_order(order: &JobOrder, facts: &ModelFacts) -> Check {
    check_needs(&order.needs)?;
    let plain = order
        .input_len
        .checked_sub(tg_types::sealing::SEALED_INPUT_OVERHEAD);
    match plain.is_some_and(|it| facts.takes(it)) {
        true => Ok(()),
        false => Err(TransactionError::WrongInputLength {
            expected: facts
                .input_len
                .saturating_add(tg_types::sealing::SEALED_INPUT_OVERHEAD),
            got: order.input_len,
        }),
    }
}

/// One provider, one key, one time at which it is needed.
fn check_needs(needs: &JobNeeds) -> Check {
    let fits =
        needs.gang == 1 && needs.lane() == Lane::Posted && needs.tier == CapacityTier::OnDemand;
    match fits {
        true => Ok(()),
        false => Err(TransactionError::BadNeeds {
            problem: NeedsProblem::Sealed,
        }),
    }
}

/// Whether a lease has the key that its start needs.
pub(super) fn check_start(lease: &Lease) -> Check {
    match lease.sealing.as_ref().map(|it| &it.stage) {
        None | Some(SealingStage::Granted { .. }) => Ok(()),
        Some(SealingStage::AwaitsKey) => Err(TransactionError::KeyNotGranted { lease: lease.id }),
        Some(SealingStage::Questioned { .. } | SealingStage::Revealed { .. }) => {
            Err(TransactionError::KeyInQuestion { lease: lease.id })
        }
    }
}

/// Whether a lease may be declined for a reason: because of a key only one that has a key, and once.
pub(super) fn check_decline(lease: &Lease, reason: DeclineReason) -> Check {
    let id = lease.id;
    match (lease.sealing.as_ref().map(|it| &it.stage), reason) {
        (None, DeclineReason::Key) => Err(TransactionError::NotSealed { lease: id }),
        (Some(SealingStage::AwaitsKey), DeclineReason::Key) => {
            Err(TransactionError::KeyNotGranted { lease: id })
        }
        (Some(SealingStage::Questioned { .. } | SealingStage::Revealed { .. }), _) => {
            Err(TransactionError::KeyInQuestion { lease: id })
        }
        (None | Some(SealingStage::AwaitsKey | SealingStage::Granted { .. }), _) => Ok(()),
    }
}

/// Whether a requestor may take a job back. Stops: taking back what would else cost it as much as its provider.
pub(super) fn check_cancel(lease: &Lease) -> Check {
    match lease.sealing.as_ref().map(|it| &it.stage) {
        Some(SealingStage::Questioned { .. } | SealingStage::Revealed { .. }) => {
            Err(TransactionError::KeyInQuestion { lease: lease.id })
        }
        Some(SealingStage::AwaitsKey | SealingStage::Granted { .. }) | None => Ok(()),
    }
}

/// Whether the sender may grant the key of a lease's job: once, while time is left for the work.
pub(super) fn check_grant(state: &State, now: TimestampMs, sender: Address, id: &LeaseId) -> Spent {
    let lease = sealed_lease(state, sender, id)?;
    let awaited = lease
        .sealing
        .as_ref()
        .filter(|it| it.stage == SealingStage::AwaitsKey);
    // Stops: a key that comes when it is too late for the work, which would cost the provider what is at risk. A match leaves time for it; an outage
    // may take that away.
    let has_time = |it: &Sealing| now.saturating_add(it.declared) <= lease.deadline;
    match awaited.is_some_and(|it| has_time(it)) {
        true => Ok(Amount::ZERO),
        false => Err(TransactionError::KeyNotAwaited { lease: *id }),
    }
}

/// Whether the sender may show the key of a lease's job; what that costs.
pub(super) fn check_reveal(state: &State, sender: Address, id: &LeaseId) -> Spent {
    let lease = sealed_lease(state, sender, id)?;
    let stage = lease.sealing.as_ref().map(|it| &it.stage);
    if let Some(SealingStage::Questioned { .. }) = stage {
        return Ok(Amount::ZERO);
    }
    match lease.check.as_ref().map(|it| &it.stage) {
        Some(SyncStage::Contestable { .. }) => Ok(state.parameters.challenge_fee()),
        _ => Err(TransactionError::RevealNotAwaited { lease: *id }),
    }
}

/// A live lease of a sealed job of the sender.
fn sealed_lease<'a>(
    state: &'a State,
    sender: Address,
    id: &LeaseId,
) -> Result<&'a Lease, TransactionError> {
    let unknown = TransactionError::UnknownLease { lease: *id };
    let lease = state.lease(id).ok_or(unknown)?;
    let job = state
        .job(&lease.job)
        .ok_or(TransactionError::UnknownLease { lease: *id })?;
    if job.requestor != sender {
        return Err(TransactionError::NotRequestor {
            job: job.id,
            requestor: job.requestor,
        });
    }
    if let Some(end) = lease.end() {
        return Err(TransactionError::LeaseEnded {
            lease: *id,
            end: end.as_str(),
        });
    }
    match lease.sealing {
        Some(_) => Ok(lease),
        None => Err(TransactionError::NotSealed { lease: *id }),
    }
}
