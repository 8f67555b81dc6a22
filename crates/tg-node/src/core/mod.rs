//! The application of one validator as a machine without I/O of its own: inputs come with the time, effects go to an
//! outbox, only the database is written directly. The same machine runs on tokio and in simulations.
//!
//! - `machine`: its state and its turns
//! - `tree`: blocks that are not final; `execution`: the states they lead to
//! - `ballot`: proposals and votes
//! - `finality`: final blocks become the state
//! - `exchange` and `fetches`: blocks and transactions to and from peers, and answers to `submit`
//! - `seeds`: the key of seeds, and the seeds themselves
//! - `tests`: the machine alone, step by step

mod ballot;
mod exchange;
mod execution;
mod fetches;
mod finality;
mod machine;
mod seeds;
#[cfg(test)]
mod tests;
mod tree;

pub use machine::Fatal;
pub(crate) use machine::{Core, Effect, Pace, Start};
