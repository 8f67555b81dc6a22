//! Running an integer model again.

use std::sync::Arc;

use tg_exec::execute::Trace;
use tg_exec::generate::{SequenceWriter, Written};
use tg_exec::kernels::Cpu;
use tg_exec::{IntTensor, execute_tensor};
use tg_ir::request::written_bytes;
use tg_ir::{CompiledModel, ExecutableModel, GenerationRequest};
use tg_types::Digest;
use tg_types::limits::INPUT_BYTES_MAX;

use super::kept::{Executable, ReadAs};
use super::run::{RepeatedRun, Rerun};
use super::{
    CODE_MODEL_SIZE, CODE_RECEIPT, CODE_RUN, ProofChecker, Refusal, input_of, read, rejected,
};
use crate::blob::BlobStore;
use crate::limits::MODEL_BYTES_MAX;

impl ProofChecker {
    /// The model in a blob, with its weights.
    pub(super) fn weighted(&self, blob: &Digest, blobs: &BlobStore) -> Result<Executable, Refusal> {
        self.known((*blob, ReadAs::Weighted), || weighted(blob, blobs))
    }

    /// What a model gives again.
    pub(super) fn run_model(
        &self,
        job: &RepeatedRun<'_>,
        blobs: &BlobStore,
    ) -> Result<Rerun, Refusal> {
        let weights = job.weights_blob;
        let Executable::Weighted(model) = self.weighted(weights, blobs)? else {
            return Err(rejected(CODE_RECEIPT, "the model's file"));
        };
        // Stops: a receipt for other work than the lease's, and weights that are not the registered model's. The program's id
        // covers the root of its weights, which was compared when they were read.
        if !job.is_of(model.program.id(), job.model) {
            return Err(rejected(CODE_RECEIPT, "receipt"));
        }
        let limit = u64::from(INPUT_BYTES_MAX);
        let input = input_of(job, blobs, limit)?;
        let (answer, trace) = run(&model, &input)?;
        Ok(Rerun {
            answer,
            trace,
            work: None,
        })
    }
}

/// The model in a blob, with its weights.
fn weighted(blob: &Digest, blobs: &BlobStore) -> Result<Executable, Refusal> {
    let bytes = read(blobs, blob, MODEL_BYTES_MAX, "model size")?;
    let model = CompiledModel::read(&bytes);
    let model = model.map_err(|error| rejected(CODE_MODEL_SIZE, &error.to_string()))?;
    Ok(Executable::Weighted(Arc::new(model)))
}

/// The answer of a model to what was ordered, and the root over its execution. On one thread: checks run beside each other.
fn run(model: &ExecutableModel, input: &[u8]) -> Result<(Vec<u8>, Digest), Refusal> {
    let (trace, written) = executed(model, input)?;
    let answer = match written {
        Some(written) => written_bytes(&written.written()),
        None => trace.output_bytes(),
    };
    Ok((answer, trace.digest()))
}

/// The execution of a model on what was ordered, and what it wrote if that was asked. On one thread.
pub(super) fn executed(
    model: &ExecutableModel,
    input: &[u8],
) -> Result<(Trace, Option<Written>), Refusal> {
    let refused = |error: &dyn std::error::Error| rejected(CODE_RUN, &error.to_string());
    let (tensor, written) = if GenerationRequest::is_for(&model.program, input) {
        let request = GenerationRequest::read(input).map_err(|error| refused(&error))?;
        let writer = SequenceWriter::new(model, Cpu::new(1));
        let mut writer = writer.map_err(|error| refused(&error))?;
        let written = writer.write(&request, &mut |_| true);
        let written = written.map_err(|error| refused(&error))?;
        (written.tokens.clone(), Some(written))
    } else {
        let kind = model.program.input.element_type();
        let tensor = IntTensor::from_bytes(kind, input);
        (
            tensor.ok_or_else(|| rejected(CODE_RUN, "input length"))?,
            None,
        )
    };
    let trace = execute_tensor(model, tensor).map_err(|error| refused(&error))?;
    Ok((trace, written))
}
