//! The lanes of the market: each one matches the waiting jobs that chose it.
//!
//! [`posted`] one job to the cheapest machine, [`gang`] all members or none, [`deadline`] a reservation or a refusal,
//! [`auction`] sealed bids at one price for each class; [`reserve`] holds machines back for who waited long enough; [`preempt`] makes room for who goes first, [`prices`] moves the
//! prices of offers that follow demand, [`repack`] moves a running job now and then.

mod auction;
mod deadline;
mod gang;
mod posted;
mod preempt;
mod prices;
mod repack;
mod reserve;

pub(super) use preempt::loss_of;
