//! Markets to measure by: traces, generated machines and jobs, rules of the literature, and runs of them.
//!
//! [`ledger_market`] is what a block of the ledger executes, without a ledger; [`baseline`] has the rules it is compared with.
//! [`trace`] reads published traces, [`synthetic`] draws machines, offers and jobs. [`simulate`] places jobs that come and
//! stay, [`mod@compare`] serves jobs that come and go.
//!
//! ```
//! use tg_lab::{baseline::Policy, simulate, synthetic::synthetic_trace};
//!
//! let trace = synthetic_trace(1, 10, 40);
//! let placements = simulate::simulate(&trace, Policy::Tensorgrid, 1);
//! assert_eq!(simulate::Outcome::of(&trace, &placements).needless, 0);
//! ```
#![deny(clippy::float_arithmetic)]

pub mod baseline;
pub mod compare;
pub mod ledger_market;
pub mod simulate;
pub mod synthetic;
pub mod trace;
