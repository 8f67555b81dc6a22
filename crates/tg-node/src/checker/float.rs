//! Float models: checking a registration, and decoding.

use std::sync::Arc;

use tg_float::job::{FloatModel, PublicFloatModel};
use tg_ledger::{ModelFacts, Outcome};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{Digest, ModelId, Tier};

use super::kept::{Executable, ReadAs};
use super::{
    CODE_FLOAT_MODEL, CODE_MODEL_ID, CODE_PUBLIC_MODEL, ProofChecker, Refusal, read, rejected,
};
use crate::blob::BlobStore;
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
    pub(super) fn float(
        &self,
        file: &Digest,
        blobs: &BlobStore,
    ) -> Result<Arc<FloatModel>, Refusal> {
        match self.known((*file, ReadAs::Float), || whole(file, blobs))? {
            Executable::Float(model) => Ok(model),
            _ => Err(rejected(CODE_PUBLIC_MODEL, "float model")),
        }
    }
}

/// The float model in a blob, with its constants.
fn whole(blob: &Digest, blobs: &BlobStore) -> Result<Executable, Refusal> {
    let bytes = read(blobs, blob, MODEL_BYTES_MAX, "model size")?;
    let model = FloatModel::read(&bytes);
    let model = model.map_err(|error| rejected(CODE_FLOAT_MODEL, &error.to_string()))?;
    Ok(Executable::Float(Arc::new(model)))
}
