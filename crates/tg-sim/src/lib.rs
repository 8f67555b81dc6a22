//! The whole grid in one thread from one seed: validators, providers and requestors on simulated disks and links, with faults
//! and hostile parties that the seed draws too, and checks of every final block from outside.
//!
//! The code under test is that of production: consensus, mempool, blocks, blobs, storage and recovery of `tg-node`, the
//! ledger, the lease logic of `tg-provider`. What is simulated is time, the network between validators (commonware's), disks,
//! the way from clients to validators, and in most runs evidence: bytes that say what they show, and a checker that takes
//! them. The log says `simulated` beside every verdict on such evidence.
//!
//! Read in this order: [`plan`] (what a seed draws, and what it never does), [`run`](mod@run) (the phases), `world` (validators and
//! disks; `newcomers` in it, which have no seat yet, and `gateways`, which never have one), `twins`, `mangler`, `omitter` and `forger` (hostile ones; `forged` is what the checks know of the last), `provider`, `requestor`, `keys` (of sealed jobs), `seat_holders`, `lapse` (an account that is left), `clients` and `lies` (gateways that lie), `evidence`, `bribed` (a majority of one mind), [`checks`] and `seat_checks` (what must hold), [`coverage`],
//! [`shrink`](mod@shrink), [`canary`] (mistakes that the checks must find); by itself [`regions`] (how soon blocks are final between regions of the world).
//!
//! ```no_run
//! use tg_sim::{SimOptions, SimPlan, run};
//!
//! let report = run(&SimPlan::drawn(7), SimOptions::default());
//! assert!(report.violations.is_empty(), "{:?}", report.violations);
//! println!("{}", report.hash);
//! ```

mod bribed;
pub mod canary;
pub mod cheats;
pub mod checks;
mod clients;
pub mod coverage;
mod draw;
mod evidence;
mod forged;
mod forger;
mod gateways;
mod grid;
mod keys;
mod lapse;
mod lies;
mod log;
mod mangler;
mod omitter;
pub mod plan;
mod provider;
pub mod regions;
mod requestor;
pub mod run;
mod sealed;
mod seat_checks;
mod seat_holders;
pub mod shrink;
mod twins;
mod votes;
mod world;

pub use canary::Canary;
pub use cheats::{CheatKind, CheatReport};
pub use checks::Violation;
pub use coverage::FaultCoverage;
pub use evidence::Proving;
pub use plan::{
    ClientPlan, GatewayPlan, LapsePlan, PlanPart, ProviderPlan, ProviderRole, SeatRole, SimPlan,
};
pub use run::{PartyReport, SimOptions, SimReport, run};
pub use shrink::shrink;
