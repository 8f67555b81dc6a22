//! An offer as it stands, and what all offers share.

use tg_types::{Address, Amount, GpuModel, JobClass, OfferId, OfferTerms, TimestampMs};

use crate::demand::{OfferFacts, OfferView};
use crate::record::TrackRecord;
use crate::throughput::{Correction, ThroughputMatrix};
use crate::view::{gpu_class, work_kind};

/// What the market knows of a provider's work with one class of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mark {
    /// Probability that it fails a job, in millionths.
    pub failure_ppm: u32,
    /// Whether its reputation is below the floor.
    pub removed: bool,
    /// Whether its reputation is among the top.
    pub top: bool,
}

/// An offer with all that belongs to it alone; what all offers share is in [`Rates`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The offer.
    pub offer: OfferId,
    /// Whose it is.
    pub provider: Address,
    /// What was posted.
    pub terms: OfferTerms,
    /// Slots without a lease.
    pub slots_free: u16,
    /// What the provider could lock as collateral, its fees for one lease set aside.
    pub funds: Amount,
    /// Until when the provider gets no leases.
    pub suspended_until: TimestampMs,
    /// How the provider did so far.
    pub record: TrackRecord,
    /// What is known of it with each class of jobs, in the order of their tags.
    pub marks: [Mark; JobClass::ALL.len()],
    /// Whether validators cannot reach it.
    pub offline: bool,
}

/// What all offers share: moving prices, and how fast GPUs turned out to be.
#[derive(Debug, Clone, Copy)]
pub struct Rates<'a> {
    /// The moving price of a second of each GPU model, in the order of tags.
    pub class_prices: &'a [Amount; GpuModel::ALL.len()],
    /// What GPUs reach relative to the throughput table.
    pub throughput: &'a ThroughputMatrix,
}

impl Rates<'_> {
    pub(super) fn class_price(&self, model: GpuModel) -> Amount {
        let price = self.class_prices.get(usize::from(model.tag()));
        price.copied().unwrap_or_default()
    }

    pub(super) fn correction(&self, model: GpuModel, class: JobClass) -> Correction {
        gpu_class(model).map_or_else(Correction::default, |gpu| {
            self.throughput.correction(gpu, work_kind(class))
        })
    }
}

impl Standing {
    /// The offer as a job of `class` sees it.
    #[must_use]
    pub fn view(&self, class: JobClass, rates: &Rates<'_>) -> OfferView<'_> {
        let mark = self.mark(class);
        let model = self.terms.machine.gpu;
        OfferView {
            offer: self.offer,
            provider: self.provider,
            terms: &self.terms,
            slots_free: self.slots_free,
            funds: self.funds,
            suspended_until: self.suspended_until,
            record: self.record,
            facts: OfferFacts {
                failure_ppm: Some(mark.failure_ppm),
                removed: mark.removed,
                top: mark.top,
                offline: self.offline,
                class_price: rates.class_price(model),
                correction: rates.correction(model, class),
            },
        }
    }

    pub(super) const fn mark(&self, class: JobClass) -> &Mark {
        &self.marks[class.tag() as usize]
    }

    /// Whether some job could have it now, as far as the provider is concerned.
    pub(super) fn is_open(&self) -> bool {
        self.slots_free > 0 && self.terms.collateral_per_lease <= self.funds && !self.offline
    }
}
