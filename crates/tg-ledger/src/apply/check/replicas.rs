//! Whether sealed results of mode `replicate` hold.

use tg_types::transaction::result_seal;
use tg_types::{Address, Amount, Digest, LeaseId, Receipt, VerificationMode};

use super::outcome::{Check, Spent};
use super::{check_claims, held_lease};
use crate::error::TransactionError;
use crate::record::{Job, JobState, Lease, LeaseProgress, ReplicaStage};
use crate::state::State;

/// Whether a member may seal what it found.
pub(super) fn check_seal(state: &State, sender: Address, lease: &LeaseId) -> Spent {
    let (held, job) = held_lease(state, sender, lease, JobState::Running)?;
    if job.order.mode != VerificationMode::Replicate {
        return Err(TransactionError::NoSealedResult { lease: *lease });
    }
    match held.progress() {
        LeaseProgress::Running { .. } => Ok(Amount::ZERO),
        LeaseProgress::Waiting
        | LeaseProgress::Sealed { .. }
        | LeaseProgress::Committed { .. }
        | LeaseProgress::Verifying { .. } => Err(TransactionError::NotSealable { lease: *lease }),
    }
}

/// Whether a member opens what it sealed, and it is about the job.
pub(super) fn check_open(
    state: &State,
    sender: Address,
    lease: &LeaseId,
    (receipt, salt): (&Receipt, &Digest),
) -> Spent {
    let (held, job) = held_lease(state, sender, lease, JobState::Committed)?;
    let LeaseProgress::Sealed { seal, .. } = held.progress() else {
        return Err(TransactionError::NotSealable { lease: *lease });
    };
    // Stops: opening what another member opened before.
    if result_seal(lease, receipt, salt) != *seal {
        return Err(TransactionError::WrongSeal { lease: *lease });
    }
    check_claims(state, job, receipt)
}

/// Whether a lease may commit to its result in the open.
pub(super) fn check_open_result(held: &Lease, job: &Job) -> Check {
    match job.order.mode {
        VerificationMode::Replicate => Err(TransactionError::ResultIsSealed { lease: held.id }),
        _ => Ok(()),
    }
}

/// Whether evidence of mode `replicate` is the answer that all members found; that of other modes is looked at by validators.
pub(super) fn check_answer(held: &Lease, job: &Job, evidence: &Digest) -> Check {
    if job.order.mode != VerificationMode::Replicate {
        return Ok(());
    }
    let agreed = matches!(held.replicas, Some(ReplicaStage::Agreed { .. }));
    let found = held.receipt().filter(|_| agreed);
    let Some(found) = found else {
        return Err(TransactionError::NotSealable { lease: held.id });
    };
    match found.output == *evidence {
        true => Ok(()),
        false => Err(TransactionError::NotTheAnswer {
            lease: held.id,
            expected: found.output,
        }),
    }
}
