//! Matching of jobs with offers: pure functions that every validator recomputes.
//!
//! Read in this order: [`demand`] (what a job needs and what an offer gives), [`constraint`] (why an offer does not
//! fit), [`record`] (how likely a provider is to fail), [`placement`] (which offer wins, and the explanation).
//!
//! ```
//! use tg_market::{JobDemand, best_offer};
//! use tg_types::{Amount, TimestampMs, VerificationMode};
//!
//! let demand = JobDemand {
//!     macs: 420_000,
//!     memory_bytes: 1 << 20,
//!     mode: VerificationMode::Zk,
//!     max_price: Amount::from_tgrid(1),
//!     now: TimestampMs::new(1_000),
//!     deadline: TimestampMs::new(60_000),
//!     excluded: &[],
//!     tie_seed: [0; 32],
//! };
//! assert!(best_offer(&demand, std::iter::empty()).chosen.is_none());
//! ```
#![deny(clippy::float_arithmetic)]

pub mod baseline;
pub mod cluster;
pub mod constraint;
pub mod demand;
pub mod packing;
pub mod placement;
pub mod record;
pub mod simulate;
pub mod synthetic;
pub mod trace;

#[cfg(test)]
mod tests;

pub use constraint::{Constraint, ConstraintSet, Rejections};
pub use demand::{JobDemand, OfferView};
pub use placement::{Assessment, Placement, Quote, best_offer, explain};
pub use record::TrackRecord;
