//! Makes the proofs that `tg-proof` checks: witness, sumchecks, lookups, openings.
//!
//! Read in this order:
//! 1. `witness` - the committed columns of an execution
//! 2. `sumcheck`, `relation`, `zero_product` - the provers of single rounds
//! 3. `walk` - the nodes from the output to the input, in step with the verifier
//! 4. `lookup`, `pushforward` - the lookup argument and its second commitment
//! 5. [`registration`] - weights are in range
//! 6. [`hiding`] - a functional of hidden columns
//! 7. [`estimate`] - memory and work, known beforehand
//! 8. `record` - steps kept for a proof that is resumed
//! 9. [`model`], [`prove`](mod@prove) - what callers use
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
