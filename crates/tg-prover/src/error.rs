//! The reasons for which no proof is made.

use tg_exec::ExecuteError;
use tg_proof::error::PlanError;

/// Why no proof was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProveError {
    /// The program cannot be proved for so many inputs at once.
    #[error("the program cannot be proved for these inputs")]
    Plan(#[from] PlanError),
    /// More memory than allowed.
    #[error("the proof needs about {} MiB, {} are allowed", need >> 20, limit >> 20)]
    Memory {
        /// Bytes it is estimated to need.
        need: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Somebody asked to stop.
    #[error("the proof was cancelled")]
    Cancelled,
    /// The program cannot be executed on the input.
    #[error("the program cannot be executed")]
    Execute(#[from] ExecuteError),
    /// An accumulator outside the range of its segment table: not an execution of this program.
    #[error("node `{node}` has the accumulator {value}, outside its range [{}, {}]", range[0], range[1])]
    Range {
        /// The node.
        node: String,
        /// The accumulator.
        value: i32,
        /// The range.
        range: [i32; 2],
    },
    /// Elements of no input of the file that are not 0, where inputs have modes of their own.
    #[error("an element of the input that belongs to no input of the model's file is not 0")]
    Unnamed,
    /// A kept step is of another witness.
    #[error("the recorded steps belong to another proof or another version of this program")]
    Record,
    /// A message without a pad, or a pad without a message: such a proof would not hide and is not sent.
    #[error("the number of messages differs from the number of pads that hide them")]
    Pads,
    /// Weights that are private, and a proof that would show them.
    #[error("the weights are private: prove in zero knowledge, with their secret")]
    PrivateWeights,
    /// An opening of private weights that may not begin.
    #[error("no proof about these private weights may begin")]
    Opening(#[from] crate::openings::OpeningError),
    /// The commitment scheme failed.
    #[error("the {which} cannot be committed or opened")]
    Commitment {
        /// Witness, weights or pushforwards.
        which: &'static str,
    },
}
