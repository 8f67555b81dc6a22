//! Makes the proofs that `tg-proof` verifies: witness, sumchecks, lookups, openings.
//!
//! Suggested reading order:
//! 1. `request`, [`prove`](mod@prove), [`model`], `limits`, `error` - what callers use
//! 2. `clear`, [`zk`] - a proof from start to end, in the clear and in zero knowledge
//! 3. `witness`, `columns`, `sections` - the committed columns of an execution and of weights, cut into sections
//! 4. `sumcheck`, `relation`, `zero_product`, `fold`, `pack` - the provers of single rounds
//! 5. `walk` - the nodes from the output to the input, in step with the verifier
//! 6. `lookup`, `fractional`, `pushforward` - the lookup argument and its second commitment
//! 7. [`registration`] - the proof that weights are in range
//! 8. [`hiding`], `masking`, `private`, [`openings`] - what a proof in zero knowledge hides, and private weights
//! 9. [`estimate`], `workers` - memory and work, known in advance; threads
//! 10. `record`, `channel` - steps kept for a proof that is resumed; where messages are sent
//!
//! The prover expects a true execution; on a false one it either reports an error or makes a proof that does not verify. The
//! tests of this crate do exactly that on purpose.

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
