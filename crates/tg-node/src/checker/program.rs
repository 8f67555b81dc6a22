//! Programs of WebAssembly: registering one, and running it again, whole or in drawn sections.

use std::sync::Arc;

use tg_ledger::{ModelFacts, Outcome, SampleTask};
use tg_proof::trace::challenge;
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{Decode as _, Digest, ModelId, Tier, Vote};
use tg_wasm::WasmProgram;
use tg_wasm::trace::{ExpectedProgramTrace, ProgramTraceFile, program_vote_on};

use super::kept::Executable;
use super::run::{RepeatedRun, Rerun};
use super::sample::{opening, whole};
use super::{
    CODE_MODEL_ID, CODE_PUBLIC_MODEL, CODE_RECEIPT, CODE_TRACE_FILE, ProofChecker, Refusal, read,
    rejected,
};
use crate::blob::BlobStore;
use crate::evidence::CheckError;
use crate::limits::EVIDENCE_BYTES_MAX;

/// Bytes around the output in an answer, at most.
const ANSWER_HEAD: u32 = 32;

/// What there is to look at of a run.
struct CallsSample {
    program: Arc<WasmProgram>,
    input: Vec<u8>,
    challenge: Digest,
    /// The opening; nothing if the provider named other bytes.
    file: Option<ProgramTraceFile>,
}

impl ProofChecker {
    /// What is found out about a program: its limits are what a job on it may take.
    pub(super) fn program_facts(program: &WasmProgram, model: ModelId) -> Result<Outcome, Refusal> {
        // Stops: registering a program under the id of another one.
        if program.model_id() != model {
            return Err(rejected(CODE_MODEL_ID, "model id"));
        }
        let limits = program.limits();
        Ok(Outcome::ModelAccepted(ModelFacts {
            program: program.id(),
            tier: Tier::Wasm1,
            macs: limits.fuel,
            input_len: limits.input,
            output_len: limits
                .output
                .saturating_add(ANSWER_HEAD)
                .min(INPUT_BYTES_MAX),
            provable: false,
            proof_bytes: 0,
            work: limits.fuel,
            memory: u64::from(limits.pages) * (64 << 10) + program.memory(),
            trace_bytes: 0,
            read_bytes: 0,
            looks: 0,
        }))
    }

    /// What a program gives again.
    pub(super) fn run_program(
        &self,
        run: &RepeatedRun<'_>,
        blobs: &BlobStore,
    ) -> Result<Rerun, Refusal> {
        let program = self.program(run.public_blob, blobs)?;
        // Stops: a receipt for other work than the lease's.
        if !run.is_of(program.id(), program.model_id()) {
            return Err(rejected(CODE_RECEIPT, "receipt"));
        }
        let limit = u64::from(program.limits().input);
        let input = read(blobs, &run.receipt.input, limit, "input size")?;
        let ran = program.try_run(&input).map_err(|_| CheckError::NoMemory)?;
        Ok(Rerun {
            answer: ran.answer.encode(),
            trace: ran.trace,
            work: Some(ran.answer.fuel),
        })
    }

    /// What this validator finds in the sections of a run that were drawn. If it finds them right, it keeps the answer under the name that the
    /// receipt gives it, so that it is delivered whatever the provider does.
    pub(super) fn vote_on_calls(
        &self,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<Vote, CheckError> {
        let sample = self.calls_sample(task, blobs)?;
        let Some(file) = &sample.file else {
            return Ok(Vote::WrongForm);
        };
        let found = sample.program.verify_trace(file, sample.expected(task));
        let found = found.map_err(|_| CheckError::NoMemory)?;
        if found.is_ok() {
            blobs.put(&file.answer, EVIDENCE_BYTES_MAX)?;
        }
        Ok(program_vote_on(found.as_ref().copied()))
    }

    /// Whether what a member says of a run is so.
    pub(super) fn check_call_accusation(
        &self,
        vote: Vote,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let sample = self.calls_sample(task, blobs)?;
        let Some(file) = &sample.file else {
            return match vote {
                Vote::WrongForm => Err(rejected(CODE_TRACE_FILE, "not a trace file")),
                Vote::Right { .. } | Vote::WrongTile(_) | Vote::WrongRun => Ok(Outcome::Refuted),
            };
        };
        let expected = sample.expected(task);
        let found = sample
            .program
            .program_accusation_holds(file, expected, vote);
        match found.map_err(|_| CheckError::NoMemory)? {
            Some(fault) => Err(rejected(fault.code(), &fault.to_string())),
            None => Ok(Outcome::Refuted),
        }
    }

    fn calls_sample(
        &self,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<CallsSample, CheckError> {
        let file = &task.public_blob;
        let program = match self.program(file, blobs) {
            Ok(program) if program.id() == task.program => program,
            Err(Refusal::NotNow(error)) => return Err(error),
            // n - f validators stated that they hold the program: this one does not.
            Ok(_) | Err(Refusal::Rejected(_)) => return Err(CheckError::Missing { digest: *file }),
        };
        let digest = task.receipt.input;
        let input = whole(blobs, &digest, u64::from(INPUT_BYTES_MAX))?;
        let opening = opening(task, blobs)?;
        Ok(CallsSample {
            program,
            input: input.ok_or(CheckError::Missing { digest })?,
            challenge: challenge(&task.seed, &task.lease),
            file: opening.and_then(|bytes| ProgramTraceFile::from_bytes(&bytes).ok()),
        })
    }

    /// The program in a blob.
    fn program(&self, blob: &Digest, blobs: &BlobStore) -> Result<Arc<WasmProgram>, Refusal> {
        match self.executable(blob, blobs)? {
            Executable::Program(program) => Ok(program),
            _ => Err(rejected(CODE_PUBLIC_MODEL, "program")),
        }
    }
}

impl CallsSample {
    fn expected<'a>(&'a self, task: &'a SampleTask) -> ExpectedProgramTrace<'a> {
        ExpectedProgramTrace {
            input: &self.input,
            output: &task.receipt.output,
            trace: &task.receipt.trace,
            challenge: &self.challenge,
        }
    }
}
