//! Runs that count their work: float models and programs of WebAssembly. Both are run again as a whole, in drawn sections, or
//! at the one part at which a dispute ends; `tg-float` and `tg-wasm` define the parts.

use std::sync::Arc;

use tg_float::job::FloatModel;
use tg_float::job::trace::{ExpectedFloatClaim, ExpectedFloatTrace, FloatTraceFile, float_vote_on};
use tg_ledger::SampleTask;
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{
    Decode as _, Digest, Encode as _, LeaseId, ModelId, ProgramId, Receipt, Tier, Vote,
};
use tg_wasm::trace::{
    ExpectedProgramClaim, ExpectedProgramTrace, ProgramTraceFile, program_vote_on,
};
use tg_wasm::{NoMemory, WasmProgram};

use super::run::{RepeatedRun, Rerun};
use super::{
    CODE_PUBLIC_MODEL, CODE_RECEIPT, CODE_TRACE_FILE, ProofChecker, Refusal, input_of, rejected,
    whole,
};
use crate::blob::BlobStore;
use crate::evidence::CheckError;

/// A float model with its constants, or a program.
#[derive(Debug)]
pub(super) enum CountedModel {
    Float(Arc<FloatModel>),
    Program(Arc<WasmProgram>),
}

/// An opening of a run, and what it must be about.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenedRun<'a> {
    pub(super) lease: &'a LeaseId,
    pub(super) opening: &'a [u8],
    pub(super) input: &'a [u8],
    pub(super) receipt: &'a Receipt,
    pub(super) challenge: &'a Digest,
}

/// The two files of a dispute, and what they must be about.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArguedRun<'a> {
    pub(super) claim: &'a [u8],
    pub(super) answer: &'a [u8],
    pub(super) lease: &'a LeaseId,
    pub(super) input: &'a [u8],
    pub(super) receipt: &'a Receipt,
    /// The evidence of the result.
    pub(super) delivered: &'a [u8],
}

impl CountedModel {
    pub(super) fn id(&self) -> ProgramId {
        match self {
            Self::Float(model) => model.id(),
            Self::Program(program) => program.id(),
        }
    }

    fn model_id(&self) -> ModelId {
        match self {
            Self::Float(model) => model.model_id(),
            Self::Program(program) => program.model_id(),
        }
    }

    fn input_max(&self) -> u32 {
        match self {
            Self::Float(model) => model.limits().input,
            Self::Program(program) => program.limits().input,
        }
    }

    /// What it gives again.
    fn run(&self, input: &[u8]) -> Result<Rerun, CheckError> {
        Ok(match self {
            Self::Float(model) => {
                let ran = model.run(input);
                Rerun {
                    answer: ran.answer.to_bytes(),
                    trace: ran.trace,
                    work: Some(ran.answer.work),
                }
            }
            Self::Program(program) => {
                let ran = program.try_run(input).map_err(no_memory)?;
                Rerun {
                    answer: ran.answer.encode(),
                    trace: ran.trace,
                    work: Some(ran.answer.fuel),
                }
            }
        })
    }

    /// What a member of a committee finds in the sections that were drawn, and the answer if it finds them right.
    pub(super) fn vote(&self, shown: OpenedRun<'_>) -> Result<(Vote, Option<Vec<u8>>), CheckError> {
        let no_file = Ok((Vote::WrongForm, None));
        match self {
            Self::Float(model) => {
                let Ok(file) = FloatTraceFile::from_bytes(shown.opening) else {
                    return no_file;
                };
                let found = model.verify_trace(&file, shown.of_nodes());
                let vote = float_vote_on(found.as_ref().copied());
                Ok((vote, found.is_ok().then_some(file.answer)))
            }
            Self::Program(program) => {
                let Ok(file) = ProgramTraceFile::from_bytes(shown.opening) else {
                    return no_file;
                };
                let found = program.verify_trace(&file, shown.of_calls());
                let found = found.map_err(no_memory)?;
                let vote = program_vote_on(found.as_ref().copied());
                Ok((vote, found.is_ok().then_some(file.answer)))
            }
        }
    }

    /// The code and the words of why what a member says is so, if it is.
    pub(super) fn accusation_holds(
        &self,
        vote: Vote,
        shown: OpenedRun<'_>,
    ) -> Result<Option<(u16, String)>, CheckError> {
        let no_file = match vote {
            Vote::WrongForm => Some((CODE_TRACE_FILE, "not a trace file".to_owned())),
            Vote::Right { .. } | Vote::WrongTile(_) | Vote::WrongRun => None,
        };
        match self {
            Self::Float(model) => {
                let Ok(file) = FloatTraceFile::from_bytes(shown.opening) else {
                    return Ok(no_file);
                };
                let fault = model.float_accusation_holds(&file, shown.of_nodes(), vote);
                Ok(fault.map(|it| (it.code(), it.to_string())))
            }
            Self::Program(program) => {
                let Ok(file) = ProgramTraceFile::from_bytes(shown.opening) else {
                    return Ok(no_file);
                };
                let fault = program.program_accusation_holds(&file, shown.of_calls(), vote);
                let fault = fault.map_err(no_memory)?;
                Ok(fault.map(|it| (it.code(), it.to_string())))
            }
        }
    }

    /// What whoever accuses hands in.
    pub(super) fn claim(&self, input: &[u8]) -> Result<Vec<u8>, CheckError> {
        Ok(match self {
            Self::Float(model) => model.claim(input).to_bytes(),
            Self::Program(program) => program.claim(input).map_err(no_memory)?.to_bytes(),
        })
    }

    /// Whether an accusation fails.
    pub(super) fn claim_fails(&self, argued: ArguedRun<'_>) -> Result<bool, CheckError> {
        let ArguedRun {
            claim,
            answer,
            lease,
            input,
            receipt,
            delivered,
        } = argued;
        match self {
            Self::Float(model) => {
                let expected = ExpectedFloatClaim {
                    lease,
                    input,
                    receipt,
                    delivered,
                };
                Ok(model.claim_fails((claim, answer), expected))
            }
            Self::Program(program) => {
                let expected = ExpectedProgramClaim {
                    lease,
                    input,
                    receipt,
                };
                let fails = program.claim_fails((claim, answer), expected);
                fails.map_err(no_memory)
            }
        }
    }
}

impl<'a> OpenedRun<'a> {
    const fn of_nodes(self) -> ExpectedFloatTrace<'a> {
        ExpectedFloatTrace {
            lease: self.lease,
            input: self.input,
            output: &self.receipt.output,
            trace: &self.receipt.trace,
            challenge: self.challenge,
        }
    }

    const fn of_calls(self) -> ExpectedProgramTrace<'a> {
        ExpectedProgramTrace {
            lease: self.lease,
            input: self.input,
            output: &self.receipt.output,
            trace: &self.receipt.trace,
            challenge: self.challenge,
        }
    }
}

const fn no_memory(_: NoMemory) -> CheckError {
    CheckError::NoMemory
}

impl ProofChecker {
    /// What a float model or a program gives again.
    pub(super) fn run_counted(
        &self,
        run: &RepeatedRun<'_>,
        blobs: &BlobStore,
    ) -> Result<Rerun, Refusal> {
        let model = self.counted(run, blobs)?;
        // Stops: a receipt for other work than the lease's, and a file that is not the registered model's. The model's id covers the
        // digest of its constants, which was compared when they were read.
        if !run.is_of(model.id(), model.model_id()) {
            return Err(rejected(CODE_RECEIPT, "receipt"));
        }
        let limit = u64::from(model.input_max());
        let input = input_of(run, blobs, limit)?;
        Ok(model.run(&input)?)
    }

    /// The float model or the program of a result, and what was ordered of it: n - f validators state that they hold both.
    pub(super) fn ordered_counted(
        &self,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<(CountedModel, Vec<u8>), CheckError> {
        let run = RepeatedRun::of(task);
        let model = match self.counted(&run, blobs) {
            Ok(model) if model.id() == task.program => model,
            Err(Refusal::NotNow(error)) => return Err(error),
            // n - f validators stated that they hold the file of this program: this one does not.
            Ok(_) | Err(Refusal::Rejected(_)) => {
                let digest = match run.receipt.tier {
                    Tier::Wasm1 => *run.public_blob,
                    Tier::Tgx1 | Tier::Tgf1 | Tier::Served => *run.weights_blob,
                };
                return Err(CheckError::Missing { digest });
            }
        };
        let digest = task.receipt.input;
        let input = whole(blobs, &digest, u64::from(INPUT_BYTES_MAX))?;
        Ok((model, input.ok_or(CheckError::Missing { digest })?))
    }

    fn counted(&self, run: &RepeatedRun<'_>, blobs: &BlobStore) -> Result<CountedModel, Refusal> {
        match run.receipt.tier {
            Tier::Tgf1 => Ok(CountedModel::Float(self.float(run.weights_blob, blobs)?)),
            Tier::Wasm1 => Ok(CountedModel::Program(self.program(run.public_blob, blobs)?)),
            Tier::Tgx1 | Tier::Served => Err(rejected(CODE_PUBLIC_MODEL, "counted model")),
        }
    }
}
