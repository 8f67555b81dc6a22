//! Where relations hold, tensors on hypercubes, what checks compute with, and what is absorbed and drawn.
//!
//! The first layer: nothing here knows commitments, programs' plans or proofs.

pub mod arithmetic;
pub mod field;
pub mod layout;
pub mod linear;
pub(crate) mod numbers;
pub(crate) mod oracle;
pub mod receiver;
pub mod tally;
pub mod tape;
pub mod transcript;
