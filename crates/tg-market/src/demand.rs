//! What a job needs, and what an offer gives.

use tg_types::{
    Address, Amount, DurationMs, JobNeeds, OfferId, OfferTerms, TimestampMs, VerificationMode,
};

use crate::record::TrackRecord;
use crate::throughput::Correction;
use crate::view::{PackingPrices, Stock};

/// What a waiting job needs.
#[derive(Debug, Clone, Copy)]
pub struct JobDemand<'a> {
    /// Multiply-accumulates of the job.
    pub macs: u64,
    /// Memory it needs at least.
    pub memory_bytes: u64,
    /// How its result is checked.
    pub mode: VerificationMode,
    /// The least that whoever does it puts up, whatever it asks.
    pub stake_min: Amount,
    /// The most the requestor pays the provider.
    pub max_price: Amount,
    /// Block time.
    pub now: TimestampMs,
    /// When the answer is worth nothing any more.
    pub deadline: TimestampMs,
    /// How long before that it must be done by the declared time.
    pub spare: DurationMs,
    /// Providers that failed this job before.
    pub excluded: &'a [Address],
    /// Seed of the order among offers that cost the same; no provider may know it when it names itself.
    pub tie_seed: [u8; 32],
    /// What it needs of a machine, and how it wants to be matched.
    pub needs: &'a JobNeeds,
    /// What is free on the machines; `None` looks at what they have and not at what is taken.
    pub stock: Option<&'a Stock>,
    /// What a placement takes from the work to come; `None` if that does not count.
    pub prices: Option<&'a PackingPrices>,
    /// When it would begin; later than `now` for a booking.
    pub start: TimestampMs,
    /// How many times its declared duration a lease may take.
    pub lease_factor: u16,
    /// What is added to that.
    pub lease_grace: DurationMs,
}

impl JobDemand<'_> {
    /// Until when it must be done by the declared time.
    #[must_use]
    pub const fn ready_by(&self) -> TimestampMs {
        TimestampMs::new(self.deadline.get().saturating_sub(self.spare.get()))
    }
}

/// What the market knows about an offer beside its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfferFacts {
    /// Probability that the provider fails a job of this class, in millionths; `None` goes by its track record.
    pub failure_ppm: Option<u32>,
    /// Whether its reputation is below the floor.
    pub removed: bool,
    /// Whether its reputation is among the top: it goes first among equals.
    pub top: bool,
    /// Whether validators cannot reach it.
    pub offline: bool,
    /// The moving price of a second of its GPUs.
    pub class_price: Amount,
    /// What its GPUs reach relative to the throughput table.
    pub correction: Correction,
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
    /// What the market knows besides.
    pub facts: OfferFacts,
}
