//! Checks of endpoints: whether one can be ordered, and whether its provider may claim.

use tg_types::{Amount, Digest, DurationMs, JobOrder, Lane, SignedVoucher};

use super::outcome::{Check, Spent};
use crate::error::{EndpointProblem, TransactionError, VoucherProblem};
use crate::record::{Job, Lease};
use crate::state::State;

/// Whether an order of an endpoint has nothing that an endpoint cannot have.
pub(super) fn check_order(order: &JobOrder) -> Check {
    let needs = &order.needs;
    let checks = [
        (
            order.input_len == 0 && order.input == Digest::default(),
            EndpointProblem::Input,
        ),
        (
            needs.lane() == Lane::Posted && !needs.preemptible,
            EndpointProblem::Lane,
        ),
        (
            order.retention == DurationMs::ZERO,
            EndpointProblem::Retention,
        ),
    ];
    match checks.into_iter().find(|(holds, _)| !holds) {
        Some((_, problem)) => Err(TransactionError::BadEndpointOrder { problem }),
        None => Ok(()),
    }
}

/// Whether a provider may claim with this voucher: one of the requestor's, of this lease, and later than the last.
pub(super) fn check_settlement(
    state: &State,
    lease: &Lease,
    job: &Job,
    voucher: Option<&SignedVoucher>,
) -> Spent {
    let id = &lease.id;
    let meter = lease
        .meter
        .ok_or(TransactionError::NoEndpoint { lease: *id })?;
    let Some(signed) = voucher else {
        return Ok(Amount::ZERO);
    };
    let refused = |problem| TransactionError::BadVoucher {
        lease: *id,
        problem,
    };
    let said = &signed.voucher;
    if said.lease != *id {
        return Err(refused(VoucherProblem::Lease));
    }
    if !said.is_later_than(meter.vouchers) {
        return Err(refused(VoucherProblem::Old));
    }
    match signed.account(state.domain()) {
        Ok(account) if account == job.requestor => Ok(Amount::ZERO),
        Ok(_) | Err(_) => Err(refused(VoucherProblem::Signature)),
    }
}
