//! The provider's agent: offers, leases, execution, proofs and delivery.
//!
//! Suggested reading order:
//! 1. [`lease`] - the next step for one lease: a pure function of what the ledger says and what has been done
//! 2. [`worker`], `proving` - the trait behind which the work is done, and its honest implementation; `float` and
//!    [`program`] - its runs of float models and of WebAssembly programs
//! 3. `work` - one stage of work: download, compute, store, report
//! 4. `pull` - downloads, shared by all leases that wait for them
//! 5. `ledger_clock` - the ledger's time
//! 6. [`session_choice`], [`submit`] - the key that signs, and transactions in the order of their nonces
//! 7. [`rent`] - deposits of the agent's records
//! 8. [`agent`] - the loop around all of it
//! 9. [`serve`], `unpaid` - requests of an endpoint, and what earlier leases left unpaid
//! 10. [`upstream`] - servers of the provider's own, for served models
//!
//! The agent keeps no state of its own that matters. One that is killed finds its leases in the ledger and continues them;
//! execution is deterministic, so work that is done twice gives the same receipt.

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
