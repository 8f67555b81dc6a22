//! What a job needs, and what an offer gives.

use tg_types::{Address, Amount, OfferId, OfferTerms, TimestampMs, VerificationMode};

use crate::record::TrackRecord;

/// What a waiting job needs.
#[derive(Debug, Clone, Copy)]
pub struct JobDemand<'a> {
    /// Multiply-accumulates of the job.
    pub macs: u64,
    /// Memory it needs at least.
    pub memory_bytes: u64,
    /// How its result is checked.
    pub mode: VerificationMode,
    /// The most the requestor pays the provider.
    pub max_price: Amount,
    /// Block time.
    pub now: TimestampMs,
    /// When the answer is worth nothing any more.
    pub deadline: TimestampMs,
    /// Providers that failed this job before.
    pub excluded: &'a [Address],
    /// Seed of the order among offers that cost the same; no provider may know it when it names itself.
    pub tie_seed: [u8; 32],
}

/// An offer as it stands now.
#[derive(Debug, Clone, Copy)]
pub struct OfferView<'a> {
    /// The offer.
    pub offer: OfferId,
    /// Whose it is.
    pub provider: Address,
    /// What was posted.
    pub terms: &'a OfferTerms,
    /// Slots without a lease.
    pub slots_free: u16,
    /// What the provider could lock as collateral, its fees for one lease set aside.
    pub funds: Amount,
    /// Until when the provider gets no leases.
    pub suspended_until: TimestampMs,
    /// How the provider did so far.
    pub record: TrackRecord,
}
