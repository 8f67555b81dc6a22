//! Why a program cannot be proved.

use crate::argument::commitment::CommitmentError;
use tg_ir::{Program, ProgramError};

/// Why a program cannot be proved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The program itself is not well formed.
    #[error("the program is refused")]
    Program(#[from] ProgramError),
    /// A node outside what the prover covers.
    #[error("node {node} `{name}` ({op}) cannot be proved: {why}")]
    Unprovable {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// The operator.
        op: &'static str,
        /// Why.
        why: &'static str,
    },
    /// A program whose proofs would cost every verifier more than is admitted.
    #[error("node {node} `{name}` brings the {what} to {cost}, at most {limit} are allowed")]
    TooCostly {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// What there is too much of.
        what: &'static str,
        /// How much.
        cost: u64,
        /// The limit.
        limit: u64,
    },
    /// No inputs, or more than one proof may be about.
    #[error("a batch of {got} inputs: at least one and at most {limit} are allowed")]
    Batch {
        /// Inputs asked for.
        got: usize,
        /// The limit.
        limit: usize,
    },
    /// A program whose proofs or registration would fall short of the security level.
    #[error(
        "the program's proofs reach {bits} bits, at least {} are required",
        crate::argument::soundness::LEVEL
    )]
    Insecure {
        /// Bits reached, rounded down.
        bits: u32,
    },
    /// A tensor that is too large to be named by a commitment.
    #[error(
        "a committed input or output has at most {} elements",
        crate::argument::ajtai::ELEMENTS_MAX
    )]
    CommittedTensor,
    /// Modes of other inputs or outputs than the program has.
    #[error(
        "the modes are not one for each input of the program's file, or for each of its outputs"
    )]
    Modes,
    /// The columns do not fit a commitment.
    #[error("the program's columns cannot be committed")]
    Commitment(#[from] CommitmentError),
}

impl PlanError {
    pub(crate) fn unprovable(program: &Program, node: usize, why: &'static str) -> Self {
        let description = &program.nodes[node];
        Self::Unprovable {
            node,
            name: description.name.clone(),
            op: description.op.name(),
            why,
        }
    }
}
