//! The lanes of the market. Each lane matches the waiting jobs that chose it:
//!
//! - [`posted`]: one job on the cheapest machine, at the posted price
//! - [`gang`]: all members or none
//! - [`deadline`]: a reservation or a refusal
//! - [`auction`]: sealed bids, at one price for each class
//!
//! Beside them [`reserve`] holds machines back for jobs that waited long enough, [`preempt`] makes room for jobs with
//! precedence, [`prices`] moves the prices of offers that follow demand, and [`repack`] moves a running job now and then.

mod auction;
mod deadline;
mod gang;
mod posted;
mod preempt;
mod prices;
mod repack;
mod reserve;

pub(super) use preempt::{loss_of, loss_since};
