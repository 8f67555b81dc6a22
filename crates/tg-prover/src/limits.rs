//! Limits of a proof, and the stages of proving.

use crate::error::ProveError;
use crate::record::Record;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the prover is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Executing the program.
    Execute,
    /// Computing the witness columns.
    Witness,
    /// Committing them.
    Commit,
    /// Walking the nodes: done, of.
    Nodes(usize, usize),
    /// The lookup argument.
    Lookup,
    /// Opening the witness.
    OpenWitness,
    /// Opening the weights.
    OpenWeights,
    /// Finished.
    Done,
}

/// How a proof is to be made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits<'a> {
    /// Most bytes of memory; a proof that is estimated to need more is refused before anything is computed.
    pub memory: Option<u64>,
    /// Set to stop at the next stage or node.
    pub cancel: Option<&'a AtomicBool>,
    /// Where the steps of the proof are kept, and those of an earlier run. A proof in zero knowledge is not recorded:
    /// its randomness is nowhere but in memory.
    pub record: Option<&'a Record>,
}

impl Limits<'_> {
    pub(crate) fn check(&self) -> Result<(), ProveError> {
        match self.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(ProveError::Cancelled),
            _ => Ok(()),
        }
    }
}
