//! Checks of sealed and opened results of mode `replicate`.

use tg_types::transaction::result_seal;
use tg_types::{Digest, Receipt, VerificationMode};

use super::outcome::Check;
use crate::error::TransactionError;
use crate::record::{Job, Lease, LeaseProgress, ReplicaStage};

/// Whether a member may seal what it found: its job runs.
pub(super) fn check_seal(held: &Lease, job: &Job) -> Check {
    let lease = held.id;
    if job.order.mode != VerificationMode::Replicate {
        return Err(TransactionError::NoSealedResult { lease });
    }
    match held.progress() {
        LeaseProgress::Running { .. } => Ok(()),
        LeaseProgress::Waiting
        | LeaseProgress::Sealed { .. }
        | LeaseProgress::Committed { .. }
        | LeaseProgress::Verifying { .. }
        | LeaseProgress::Delivering { .. } => Err(TransactionError::NotSealable { lease }),
    }
}

/// Whether a member opens what it sealed. Stops: opening what another member opened before.
pub(super) fn check_open(held: &Lease, receipt: &Receipt, salt: &Digest) -> Check {
    let lease = held.id;
    let LeaseProgress::Sealed { seal, .. } = held.progress() else {
        return Err(TransactionError::NotSealable { lease });
    };
    match result_seal(&lease, receipt, salt) == *seal {
        true => Ok(()),
        false => Err(TransactionError::WrongSeal { lease }),
    }
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
