//! What happened in a block, in the order it happened.

use tg_types::{Address, Amount, JobId, LeaseId, ModelId, OfferId, TransactionId, TransactionKind};

use crate::record::{EndReason, JobState, LeaseEnd, ModelState, Settlement};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A transaction was executed.
    TransactionExecuted {
        /// The transaction.
        id: TransactionId,
        /// Who signed it.
        sender: Address,
        /// What it asked for.
        kind: TransactionKind,
    },
    /// Money went from one account to another.
    Transferred {
        /// Who paid.
        from: Address,
        /// Who was paid.
        to: Address,
        /// How much.
        amount: Amount,
    },
    /// A model entered a state.
    ModelChanged {
        /// The model.
        model: ModelId,
        /// The state.
        state: ModelState,
    },
    /// An offer was posted.
    OfferPosted {
        /// The offer.
        offer: OfferId,
        /// Whose it is.
        provider: Address,
    },
    /// An offer was taken back.
    OfferWithdrawn {
        /// The offer.
        offer: OfferId,
        /// Whose it was.
        provider: Address,
    },
    /// A job entered a state.
    JobChanged {
        /// The job.
        job: JobId,
        /// Who ordered it.
        requestor: Address,
        /// The state.
        state: JobState,
    },
    /// A job was matched with an offer, and the provider's collateral locked.
    LeaseMade {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// The offer.
        offer: OfferId,
        /// Whose offer.
        provider: Address,
        /// What the provider is paid if its result is accepted.
        price: Amount,
        /// What was locked.
        collateral: Amount,
    },
    /// A lease ended.
    LeaseEnded {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// Whose lease it was.
        provider: Address,
        /// How.
        end: LeaseEnd,
    },
    /// Collateral was taken from a provider and burned.
    Slashed {
        /// The lease.
        lease: LeaseId,
        /// Whose collateral.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// Collateral was taken from a provider and added to the job's prize.
    Forfeited {
        /// The lease.
        lease: LeaseId,
        /// The job that has the prize.
        job: JobId,
        /// Whose collateral.
        provider: Address,
        /// How much.
        amount: Amount,
    },
    /// A job ended, and its money was settled.
    JobEnded {
        /// The job.
        job: JobId,
        /// Who ordered it.
        requestor: Address,
        /// Who was paid, if anyone.
        provider: Option<Address>,
        /// Why it ended.
        reason: EndReason,
        /// Where the money went.
        settlement: Settlement,
    },
    /// A validator got its share of the block's fees.
    Rewarded {
        /// The validator.
        validator: Address,
        /// How much.
        amount: Amount,
    },
}
