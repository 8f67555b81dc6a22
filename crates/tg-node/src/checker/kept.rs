//! A cache of registered models: the admitted ones, ready to verify, and the names of the refused ones.
//!
//! Whoever registers a model writes its public part, and can name it in as many registrations as it pays for. Of a refused
//! model only the reason is kept, so that it is decoded once; the memory of admitted models is counted in bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use tg_float::job::{FloatModel, PublicFloatModel};
use tg_ir::ExecutableModel;
use tg_ledger::Outcome;
use tg_proof::PublicModel;
use tg_types::served::CARD_BYTES_MAX;
use tg_types::{Digest, ServedCard};
use tg_wasm::WasmProgram;

/// Most bytes of the models that are kept, the last one apart: some hundred usual ones.
pub(super) const BYTES_MAX: u64 = 256 << 20;
/// Most refused models that are remembered: some hundred bytes each.
const REFUSED_MAX: usize = 1 << 12;

/// What jobs may name.
#[derive(Debug, Clone)]
pub(super) enum Executable {
    /// The public part of a model, whose runs are proved.
    Model(Arc<PublicModel>),
    /// A program, which is run again.
    Program(Arc<WasmProgram>),
    /// A model with its weights, which is run again.
    Weighted(Arc<ExecutableModel>),
    /// The public part of a float model.
    PublicFloat(Arc<PublicFloatModel>),
    /// A float model with its constants, which is run again.
    Float(Arc<FloatModel>),
    /// The card of a served model.
    Card(Arc<ServedCard>),
}

impl Executable {
    /// Bytes that it takes.
    pub(super) fn memory(&self) -> u64 {
        match self {
            Self::Model(model) => model.memory(),
            Self::Program(program) => program.memory(),
            Self::Weighted(model) => model.weights.bytes(),
            Self::PublicFloat(model) => model.memory() - 2 * model.constants_len(),
            Self::Float(model) => model.memory(),
            Self::Card(_) => CARD_BYTES_MAX as u64,
        }
    }
}

/// What a blob is read as. Whoever registers a model names any blob as any part of it: what is found when a blob is read as one thing says
/// nothing of it as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadAs {
    /// The public part of a model, a program or a card.
    Public,
    /// A model of integers with its weights.
    Weighted,
    /// A float model with its constants.
    Float,
}

/// A blob and what it is read as.
pub(super) type Read = (Digest, ReadAs);

/// What was found out about a blob.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    /// It is one that leases may name.
    Admitted(Executable),
    /// It is not, for good: its name fixes its bytes.
    Refused(Outcome),
}

/// The verdicts on the files of models that were last looked at.
#[derive(Debug, Default)]
pub(super) struct Kept {
    admitted: VecDeque<(Read, Executable)>,
    bytes: u64,
    refused: VecDeque<(Read, Outcome)>,
}

impl Kept {
    /// The verdict on a blob, if it is remembered.
    pub(super) fn find(&mut self, blob: &Read) -> Option<Verdict> {
        if let Some(place) = self.admitted.iter().position(|(read, _)| read == blob) {
            // The one that was used last goes last.
            let found = self.admitted.remove(place)?;
            let model = found.1.clone();
            self.admitted.push_back(found);
            return Some(Verdict::Admitted(model));
        }
        let mut refused = self.refused.iter();
        let found = refused.find(|(read, _)| read == blob)?;
        Some(Verdict::Refused(found.1.clone()))
    }

    /// Remembers a verdict, and forgets those that are too many.
    pub(super) fn keep(&mut self, blob: Read, verdict: Verdict) {
        match verdict {
            Verdict::Admitted(model) => {
                // Another check may have decoded it at the same time.
                if self.admitted.iter().any(|(read, _)| *read == blob) {
                    return;
                }
                self.bytes += model.memory();
                self.admitted.push_back((blob, model));
                while self.bytes > BYTES_MAX && self.admitted.len() > 1 {
                    if let Some((_, model)) = self.admitted.pop_front() {
                        self.bytes -= model.memory();
                    }
                }
            }
            Verdict::Refused(outcome) => {
                if self.refused.len() == REFUSED_MAX {
                    self.refused.pop_front();
                }
                self.refused.push_back((blob, outcome));
            }
        }
    }
}
