//! Payment for gas: what a transaction pays when it is executed, and what a lease prepays and gets back.

use tg_types::{Address, Amount, TransactionKind, VerificationMode, VerifiedTransaction};

use super::Execution;
use crate::error::{InvariantError, TransactionError};
use crate::event::Event;
use crate::gas::{charged_gas, gas_of};
use crate::record::{Job, Lease, LeaseEnd};
use crate::state::State;

type Done = Result<(), InvariantError>;

/// What a transaction pays when it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fee {
    /// The base fee.
    pub(super) burned: Amount,
    /// For the proposer.
    pub(super) tip: Amount,
    /// What counts against the cap of a session key: the fee, and what is locked or paid beside it.
    pub(super) counted: Amount,
}

impl Fee {
    /// What `transaction` pays in the block that follows `state`.
    pub(super) fn of(
        state: &State,
        transaction: &VerifiedTransaction,
    ) -> Result<Self, TransactionError> {
        let gas = charged_gas(transaction.transaction());
        if gas == 0 {
            return Ok(Self {
                burned: Amount::ZERO,
                tip: Amount::ZERO,
                counted: Amount::ZERO,
            });
        }
        let base_fee = state.base_fee();
        let fees = transaction.fees();
        let tip = fees.tip(base_fee).ok_or(TransactionError::FeeTooLow {
            max_fee: fees.max_fee_per_gas,
            base_fee,
        })?;
        Ok(Self {
            burned: base_fee.saturating_mul(gas),
            tip: tip.saturating_mul(gas),
            counted: Amount::ZERO,
        })
    }

    /// All of it.
    pub(super) const fn sum(self) -> Amount {
        self.burned.saturating_add(self.tip)
    }
}

impl Execution {
    /// Takes the fee of a transaction that holds: the base fee is burned, the tip waits for the end of the block.
    pub(super) fn charge_fee(&mut self, sender: Address, fee: Fee) -> Done {
        self.debit(sender, fee.sum())?;
        self.burn(fee.burned);
        self.tips = self.tips.saturating_add(fee.tip);
        Ok(())
    }

    /// Takes what the transactions of a new lease cost from its provider, who has it: it was offered no more than it could
    /// lock beside that.
    pub(super) fn prepay_gas(&mut self, job: &Job, lease: &mut Lease) -> Done {
        let balance = self.state.balance(&lease.provider);
        let most = self.state.lease_fees_of(job.order.mode);
        lease.gas = most.min(balance);
        self.debit(lease.provider, lease.gas)?;
        self.events.push(Event::GasPrepaid {
            lease: lease.id,
            provider: lease.provider,
            amount: lease.gas,
        });
        Ok(())
    }

    /// Burns what a lease prepaid, less what it did not use if it ends without its provider's fault and nobody else pays
    /// for it.
    pub(super) fn settle_gas(&mut self, lease: &Lease, end: &LeaseEnd) -> Done {
        let prepaid = lease.gas_locked();
        let burned = match end {
            LeaseEnd::Fulfilled
            | LeaseEnd::Preempted
            | LeaseEnd::Released
            | LeaseEnd::Declined(_)
            | LeaseEnd::Unavailable => {
                let price = self.state.parameters.base_fee_min;
                let order = self.state.job(&lease.job).map(|it| &it.order);
                let is_whole = order.is_some_and(|it| {
                    it.mode == VerificationMode::Sealed || self.state.is_run_whole(it)
                });
                let used = used_gas(order.map(|it| it.mode), is_whole, lease, end);
                price.saturating_mul(used).min(prepaid)
            }
            // A requestor that takes its job back, or grants no key, pays for the gas.
            LeaseEnd::Cancelled
            | LeaseEnd::Ungranted
            | LeaseEnd::Rejected { .. }
            | LeaseEnd::Late(_)
            | LeaseEnd::Abandoned(_) => prepaid,
        };
        let returned = prepaid.saturating_sub(burned);
        self.burn(burned);
        self.credit(lease.provider, returned)?;
        self.events.push(Event::GasSettled {
            lease: lease.id,
            provider: lease.provider,
            burned,
            returned,
        });
        Ok(())
    }
}

/// The gas of the transactions that a lease has had.
fn used_gas(mode: Option<VerificationMode>, is_whole: bool, lease: &Lease, end: &LeaseEnd) -> u64 {
    let is_replica = mode == Some(VerificationMode::Replicate);
    let is_sealed = is_replica && lease.has_result();
    let has_opened = is_replica && lease.receipt().is_some();
    let did = [
        (
            matches!(end, LeaseEnd::Declined(_)),
            TransactionKind::DeclineLease,
        ),
        (lease.started_at().is_some(), TransactionKind::StartLease),
        (is_sealed, TransactionKind::SealResult),
        (has_opened, TransactionKind::OpenResult),
        (
            lease.receipt().is_some() && !has_opened,
            TransactionKind::CommitReceipt,
        ),
        (
            // Of a run that a committee repeats whole, and of a sealed one, it is named with the receipt.
            lease.evidence().is_some() && !is_whole,
            TransactionKind::SubmitEvidence,
        ),
    ];
    did.into_iter()
        .filter(|(did, _)| *did)
        .map(|(_, kind)| gas_of(kind))
        .sum()
}
