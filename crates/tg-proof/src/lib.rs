//! What counts as evidence and how it is checked: verifiers only. Nothing here makes a proof.
//!
//! The protocol (TGP-1) stands in `docs/PROOF.md`, gadget by gadget, with the error of each. The crate has five layers, and
//! a file imports its own and those below ([ADR 11](../../../docs/adr/0011-layers-in-the-proof-crates.md)). Read from below:
//! 1. `algebra`: [`field`] (where the relations hold), [`layout`] (tensors on hypercubes), [`linear`] (public linear maps),
//!    [`transcript`] (what the challenges depend on), [`arithmetic`] and [`tape`] (what checks compute with, in the clear and
//!    in zero knowledge), [`receiver`] and [`tally`] (how they receive and draw, and what is noted of it).
//! 2. `argument`: [`commitment`] (the polynomial commitment), [`sumcheck`] and [`fractional`] (the two sums), [`hiding`] (a
//!    functional of hidden columns), [`ajtai`] (commitments that statements name).
//! 3. [`plan`]: what a program commits and looks up, [`staged`] (gadgets as data), [`cost`] (what a program may ask of its
//!    verifiers), [`parts`] and [`shape`] (what follows of parts and schemes).
//! 4. `verify`: [`messages`] (what a prover sends), the walk over the nodes, [`lookup`] (the one lookup argument) and
//!    [`pushforward`] (its second commitment), [`registration`] (weights are in range), [`private`] (weights that nobody
//!    sees), [`zk`] (proofs in zero knowledge), [`size`] and [`facts`] (what proofs and runs take).
//! 5. `statement`: [`model`] and `file` (the two files a user holds), [`check`] (whether they are right), [`security`] (the
//!    sum of all errors), [`linking`] (what two proofs share), [`sequence`] (what a language model wrote), [`trace`] (drawn parts of an execution), [`claim`] (a whole
//!    execution that somebody says is right, and one tile of it that is not).
//!
//! Everything here is total: any bytes give a verdict, none a panic.

mod algebra;
mod argument;
pub mod plan;
mod statement;
pub mod verify;

pub use algebra::{arithmetic, field, layout, linear, receiver, tally, tape, transcript};
pub use argument::{ajtai, commitment, fractional, hiding, sumcheck};
pub use plan::{cost, parts, shape, staged};
pub use statement::{check, claim, file, linking, model, security, sequence, trace};
pub use verify::{facts, lookup, messages, private, pushforward, registration, size, zk};

/// What can be wrong with a program, a public model, a proof file or a proof. Every check has a stable code.
pub mod error {
    pub use crate::plan::PlanError;
    pub use crate::statement::file::ProofFileError;
    pub use crate::statement::model::PublicModelError;
    pub use crate::statement::sequence::SequenceError;
    pub use crate::verify::registration::RegistrationError;
    pub use crate::verify::{LookupCheck, NodeCheck, VerifyError};
}

pub use check::verify;
pub use claim::{
    AccuserClaim, AccusingClaim, ClaimFile, ClaimFileError, ExpectedClaim, FaultFile, claim_fails,
    fault_of, read_claim,
};
pub use cost::{BATCH_MAX, VerifierCost};
pub use facts::Facts;
pub use file::{
    ExpectedStatement, Modes, PROOF_FILE_MAX, PartModes, ProofFile, ProofFileError, Statement,
    Visibility,
};
pub use model::{PublicModel, PublicModelError};
pub use parts::{Part, Parts};
pub use plan::PlanError;
pub use security::SecurityReport;
pub use sequence::{ExpectedSequence, SequenceError, SequenceFile, verify_answer, verify_sequence};
pub use trace::{
    ExpectedTrace, ORDERED_STEPS_MAX, OrderRule, TraceFile, TraceFileError, accusation_holds,
    is_ordered, is_taken, verify_trace, vote_on,
};
pub use verify::VerifyError;
