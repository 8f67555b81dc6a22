//! Matching of jobs with offers: pure functions that every validator recomputes.
//!
//! Read in this order: [`demand`] (what a job needs and what an offer gives), [`constraint`] (why an offer does not
//! fit), [`record`] (how likely a provider is to fail), [`view`] (what is free on the machines behind offers), [`placement`] (which offer wins, and the
//! explanation), [`book`] (the same winner without looking at all offers). That is what the ledger calls for each job.
//!
//! For machines with many GPUs and many jobs: [`cluster`] (machines and what is free on them), [`packing`] (where a job
//! does the least harm), [`mig`] (hardware partitions), [`lane`] (auction, deadlines, queue), [`pricing`], [`reputation`],
//! [`throughput`] (which GPU is how fast). What measures all this, without a ledger, is the crate `tg-lab`.
//!
//! ```
//! use tg_market::{JobDemand, best_offer};
//! use tg_types::{Amount, DurationMs, JobNeeds, TimestampMs, VerificationMode};
//!
//! let demand = JobDemand {
//!     macs: 420_000,
//!     memory_bytes: 1 << 20,
//!     mode: VerificationMode::Proof,
//!     stake_min: Amount::ZERO,
//!     max_price: Amount::from_tgrid(1),
//!     now: TimestampMs::new(1_000),
//!     deadline: TimestampMs::new(60_000),
//!     spare: DurationMs::ZERO,
//!     excluded: &[],
//!     tie_seed: [0; 32],
//!     needs: &JobNeeds::ANY_MACHINE,
//!     stock: None,
//!     prices: None,
//!     start: TimestampMs::new(1_000),
//!     lease_factor: 3,
//!     lease_grace: DurationMs::from_secs(20),
//! };
//! assert!(best_offer(&demand, std::iter::empty()).chosen.is_none());
//! ```
#![deny(clippy::float_arithmetic)]

pub mod book;
pub mod cluster;
pub mod constraint;
pub mod demand;
pub mod lane;
pub mod mig;
pub mod packing;
pub mod placement;
pub mod pricing;
pub mod record;
pub mod reputation;
pub mod throughput;
pub mod view;

#[cfg(test)]
mod economy_tests;
#[cfg(test)]
mod mode_tests;
#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod view_tests;

pub use book::OfferBook;
pub use constraint::{Constraint, ConstraintSet, Rejections};
pub use demand::{JobDemand, OfferFacts, OfferView};
pub use placement::{Assessment, Placement, Quote, best_offer, cheapest, explain};
pub use record::TrackRecord;
pub use view::{Hold, HoldError, PackingPrices, PriceAnchor, Room, Stock};
