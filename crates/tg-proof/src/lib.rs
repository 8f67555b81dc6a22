//! What counts as evidence and how it is checked: verifiers only. Nothing here makes a proof.
//!
//! The protocol (TGP-1) stands in `docs/PROOF.md`, gadget by gadget, with the error of each. Read in this order:
//! [`field`] (where the relations hold), [`layout`] (tensors on hypercubes), [`plan`] (what a program commits and
//! looks up), [`staged`] (gadgets as data), [`cost`] (what a program may ask of its verifiers), [`size`] and [`facts`] (what its proofs and runs take), [`commitment`] (the polynomial commitment), [`transcript`] (what the challenges depend on),
//! [`parts`] and [`messages`] (what a prover sends), [`arithmetic`] (what checks compute with), [`sumcheck`] and [`fractional`] (the two
//! sums), [`verify`] (the walk over the nodes), [`lookup`] (the one lookup argument) and [`pushforward`] (its second commitment),
//! [`registration`] (weights are in range), [`private`] (weights that nobody sees), [`security`] (the sum of all errors), [`model`] and [`file`] (the two
//! files a user holds), [`hiding`] (a functional of hidden columns), [`tape`] and [`zk`] (proofs in zero knowledge),
//! [`ajtai`] (commitments that their statements name), [`linking`] (what two proofs share), [`sequence`] (what a language
//! model wrote).
//!
//! Everything here is total: any bytes give a verdict, none a panic.

pub mod ajtai;
pub mod arithmetic;
pub mod check;
pub mod commitment;
mod composed;
pub mod cost;
pub mod facts;
pub mod field;
pub mod file;
pub mod fractional;
pub mod hiding;
pub mod layout;
pub mod linear;
pub mod linking;
pub mod lookup;
pub mod messages;
pub mod model;
mod modes;
mod numbers;
mod oracle;
pub mod parts;
pub mod plan;
pub mod private;
pub mod pushforward;
pub mod registration;
pub mod security;
pub mod sequence;
pub mod shape;
mod shown;
pub mod size;
mod soundness;
pub mod staged;
pub mod sumcheck;
pub mod tape;
pub mod transcript;
pub mod verify;
mod wire;
pub mod zk;

/// What can be wrong with a program, a public model, a proof file or a proof. Every check has a stable code.
pub mod error {
    pub use crate::file::ProofFileError;
    pub use crate::model::PublicModelError;
    pub use crate::plan::PlanError;
    pub use crate::registration::RegistrationError;
    pub use crate::sequence::SequenceError;
    pub use crate::verify::{LookupCheck, NodeCheck, VerifyError};
}

pub use check::verify;
pub use cost::{BATCH_MAX, VerifierCost};
pub use facts::Facts;
pub use file::{
    ExpectedStatement, Modes, PROOF_FILE_MAX, ProofFile, ProofFileError, Statement, Visibility,
};
pub use model::{PublicModel, PublicModelError};
pub use parts::{Part, Parts};
pub use plan::PlanError;
pub use security::SecurityReport;
pub use sequence::{SequenceError, SequenceFile, verify_sequence};
pub use verify::VerifyError;
