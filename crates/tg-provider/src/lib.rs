//! The agent of a machine that works for the grid: offers, leases, execution, proofs, delivery.
//!
//! Read in this order: [`lease`] (what to do next about one lease: a pure function of what the ledger says and what
//! is at hand), [`worker`] (the work itself, behind a trait), `proving` (the honest one), `session_choice` (the session key that signs for leases), `submit` (transactions in order, by a session key or the account's own), `pull` (files, once for all who
//! wait for them), `ledger_clock` (the ledger's time),
//! [`agent`] (the loop that waits, pulls, works and delivers); [`serve`] (endpoints: requests of one lease, as long as it lives; `unpaid`: what leases before it left unpaid), [`upstream`] (servers
//! of the provider's own, for served models).
//!
//! The ledger is the only memory that counts. An agent that is killed finds its leases again and goes on where they
//! stand; execution is deterministic, so work done twice gives the same receipt.

pub mod agent;
mod float;
pub mod lease;
mod ledger_clock;
pub mod program;
mod proving;
mod pull;
pub mod rent;
pub mod serve;
pub mod session_choice;
pub mod submit;
mod unpaid;
pub mod upstream;
mod work;
pub mod worker;

pub use agent::{Agent, AgentConfig, AgentError, AgentEvent, Shutdown, ShutdownTrigger};
pub use lease::{LeaseTask, Step};
pub use proving::{Entropy, ProvingWorker};
pub use rent::{Renewal, RentPolicy};
pub use session_choice::{SessionChoice, serving_policy};
pub use upstream::{
    ServedUpstream, UpstreamClient, UpstreamConfig, UpstreamError, UpstreamHealth, UpstreamUrl,
    UpstreamWorker,
};
pub use worker::{Execution, PieceTaker, Progress, ServedFuture, Stage, Task, WorkError, Worker};
