//! Makes the proofs that `tg-proof` checks: witness, sumchecks, lookups, openings.
//!
//! Read in this order: `witness` (the committed columns of an execution), `sumcheck`, `relation` and `zero_product` (the round provers),
//! `walk` (the nodes from the output to the input, in step with the verifier), `lookup` (the one lookup
//! argument) and `pushforward` (its second commitment), [`registration`] (weights are in range), [`hiding`] (a functional of hidden columns), [`estimate`] (memory and work, known beforehand), `record` (steps kept for a proof that is gone on with), [`model`] and [`prove`](mod@prove) (what callers use).
//!
//! The prover is given a true execution; on a false one it either reports an error or makes a proof that does not
//! verify. The tests of this crate do exactly that on purpose.

pub mod estimate;
pub mod hiding;
pub mod model;
pub mod openings;
pub mod prove;
pub mod registration;
pub mod zk;

mod channel;
mod clear;
mod columns;
mod error;
mod fold;
mod fractional;
mod limits;
mod lookup;
mod masking;
mod pack;
mod private;
mod pushforward;
mod record;
mod relation;
mod request;
mod sections;
mod sumcheck;
mod walk;
mod witness;
mod workers;
mod zero_product;

#[cfg(test)]
mod tests;

pub use error::ProveError;
pub use estimate::Work;
pub use limits::{Limits, Stage};
pub use masking::Masking;
pub use model::{ModelError, ProvingModel, provable};
pub use openings::{OpeningError, Openings, Secret, SecretFile};
pub use prove::prove;
pub use record::{Keep, Record};
pub use request::ProveRequest;
pub use tg_proof::{Modes, PartModes, Visibility};
