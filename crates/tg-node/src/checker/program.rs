//! Programs of WebAssembly: checking a registration, and decoding.

use std::sync::Arc;

use tg_ledger::{ModelFacts, Outcome};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{Digest, ModelId, Tier};
use tg_wasm::WasmProgram;

use super::kept::Executable;
use super::{CODE_MODEL_ID, CODE_PUBLIC_MODEL, ProofChecker, Refusal, rejected};
use crate::blob::BlobStore;

/// Bytes around the output in an answer, at most.
const ANSWER_HEAD: u32 = 32;

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
            trace_bytes: program.record_bytes(),
            read_bytes: program.state_bytes(),
            looks: 0,
        }))
    }

    /// The program in a blob.
    pub(super) fn program(
        &self,
        blob: &Digest,
        blobs: &BlobStore,
    ) -> Result<Arc<WasmProgram>, Refusal> {
        match self.executable(blob, blobs)? {
            Executable::Program(program) => Ok(program),
            _ => Err(rejected(CODE_PUBLIC_MODEL, "program")),
        }
    }
}
