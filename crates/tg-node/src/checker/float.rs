//! Float models: registering one, and running it again.

use std::sync::Arc;

use tg_float::job::{FloatModel, PublicFloatModel};
use tg_ledger::{ModelFacts, Outcome, SampleTask};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{Digest, Encode as _, ModelId, Tier};

use super::kept::{Executable, ReadAs};
use super::run::{RepeatedRun, Rerun};
use super::sample::whole as sized;
use super::{
    CODE_FLOAT_MODEL, CODE_MODEL_ID, CODE_PUBLIC_MODEL, CODE_RECEIPT, ProofChecker, Refusal, read,
    rejected,
};
use crate::blob::BlobStore;
use crate::evidence::CheckError;
use crate::limits::MODEL_BYTES_MAX;

/// Bytes around the outputs in an answer, at most: the name of the node where a run ended is one of them.
const ANSWER_HEAD: u32 = 4_160;

impl ProofChecker {
    /// The public part of a float model, if it is one that is admitted.
    pub(super) fn public_float(bytes: &[u8]) -> Result<Executable, Refusal> {
        let public = PublicFloatModel::read(bytes);
        let public = public.map_err(|error| rejected(CODE_FLOAT_MODEL, &error.to_string()))?;
        Ok(Executable::PublicFloat(Arc::new(public)))
    }

    /// What is found out about a float model: its limits are what a job on it may take.
    pub(super) fn float_facts(
        public: &PublicFloatModel,
        model: ModelId,
    ) -> Result<Outcome, Refusal> {
        // Stops: registering a model under the id of another one.
        if public.model_id() != model {
            return Err(rejected(CODE_MODEL_ID, "model id"));
        }
        let limits = public.limits();
        Ok(Outcome::ModelAccepted(ModelFacts {
            program: public.id(),
            tier: Tier::Tgf1,
            macs: limits.work,
            input_len: limits.input,
            output_len: limits
                .output
                .saturating_add(ANSWER_HEAD)
                .min(INPUT_BYTES_MAX),
            provable: false,
            proof_bytes: 0,
            work: limits.work,
            memory: limits.memory.saturating_add(public.memory()),
            trace_bytes: public.record_bytes(),
            read_bytes: 0,
            looks: 0,
        }))
    }

    /// The float model in a blob, with its constants.
    fn float(&self, file: &Digest, blobs: &BlobStore) -> Result<Arc<FloatModel>, Refusal> {
        match self.known((*file, ReadAs::Float), || whole(file, blobs))? {
            Executable::Float(model) => Ok(model),
            _ => Err(rejected(CODE_PUBLIC_MODEL, "float model")),
        }
    }

    /// The float model of a result, and what was ordered of it: n - f validators state that they hold both.
    pub(super) fn ordered_float(
        &self,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<(Arc<FloatModel>, Vec<u8>), CheckError> {
        let file = &task.weights_blob;
        let model = match self.float(file, blobs) {
            Ok(model) if model.id() == task.program => model,
            Err(Refusal::NotNow(error)) => return Err(error),
            // n - f validators stated that they hold the model of this program: this one does not.
            Ok(_) | Err(Refusal::Rejected(_)) => return Err(CheckError::Missing { digest: *file }),
        };
        let digest = task.receipt.input;
        let input = sized(blobs, &digest, u64::from(INPUT_BYTES_MAX))?;
        Ok((model, input.ok_or(CheckError::Missing { digest })?))
    }

    /// What a float model gives again.
    pub(super) fn run_float(
        &self,
        job: &RepeatedRun<'_>,
        blobs: &BlobStore,
    ) -> Result<Rerun, Refusal> {
        let model = self.float(job.weights_blob, blobs)?;
        // Stops: a receipt for other work than the lease's, and a file that is not the registered model's. The model's id covers the
        // digest of its constants, which was compared when they were read.
        if !job.is_of(model.id(), model.model_id()) {
            return Err(rejected(CODE_RECEIPT, "receipt"));
        }
        let limit = u64::from(model.limits().input);
        let input = read(blobs, &job.receipt.input, limit, "input size")?;
        let ran = model.run(&input);
        Ok(Rerun {
            answer: ran.answer.to_bytes(),
            trace: ran.trace,
            work: Some(ran.answer.work),
        })
    }
}

/// The float model in a blob, with its constants.
fn whole(blob: &Digest, blobs: &BlobStore) -> Result<Executable, Refusal> {
    let bytes = read(blobs, blob, MODEL_BYTES_MAX, "model size")?;
    let model = FloatModel::read(&bytes);
    let model = model.map_err(|error| rejected(CODE_FLOAT_MODEL, &error.to_string()))?;
    Ok(Executable::Float(Arc::new(model)))
}
