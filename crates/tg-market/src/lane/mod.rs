//! The lanes of the market: how a job's price and its turn are decided.
//!
//! * [`auction`]: sealed bids cleared together, one price for each class of capacity.
//! * [`deadline`]: work admitted only if its time is reserved, at prices that rise as time runs out.
//! * [`backfill`]: which machine is held back for whoever waited long enough, and what that costs.
//! * [`queue`]: who is next: paid priority that ages, and whom a job may push out.

pub mod auction;
pub mod backfill;
pub mod deadline;
pub mod queue;

#[cfg(test)]
mod auction_tests;
#[cfg(test)]
mod tests;
