//! The evidence that counts today, checked by `tg-proof`: registration proofs of models and proofs of results.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tg_ledger::{EvidenceTask, ModelFacts, Outcome};
use tg_proof::{ExpectedStatement, ProofFile, PublicModel};
use tg_types::{Digest, Label, ModelId};

use crate::blob::BlobStore;
use crate::evidence::{CheckError, EvidenceChecker};
use crate::limits::{EVIDENCE_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX};

/// Public models kept ready: deriving the plan of one takes longer than checking a proof.
const MODELS_READY: usize = 16;

/// Codes of rejections that are not a check of the proof system.
mod code {
    /// The public model's bytes are refused.
    pub(super) const PUBLIC_MODEL: u16 = 80;
    /// The public model is another one than the transaction names.
    pub(super) const MODEL_ID: u16 = 81;
    /// The proof file's bytes are refused.
    pub(super) const PROOF_FILE: u16 = 82;
    /// The receipt names another program than the model's.
    pub(super) const PROGRAM: u16 = 83;
}

/// Checks evidence with the verifiers of `tg-proof`.
#[derive(Debug, Default)]
pub struct ProofChecker {
    ready: Mutex<VecDeque<(Digest, Arc<PublicModel>)>>,
}

impl ProofChecker {
    /// A checker that knows no model yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The public model in a blob, or the outcome that refuses it.
    fn model(
        &self,
        blob: Digest,
        expected: ModelId,
        blobs: &BlobStore,
    ) -> Result<Result<Arc<PublicModel>, Outcome>, CheckError> {
        // A panic of another thread leaves the list whole: it is only moved and pushed.
        let known = {
            let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            ready
                .iter()
                .find(|(digest, _)| *digest == blob)
                .map(|(_, model)| Arc::clone(model))
        };
        let model = if let Some(model) = known {
            model
        } else {
            let bytes = read(blob, PUBLIC_MODEL_BYTES_MAX, blobs)?;
            let model = match PublicModel::decode(&bytes) {
                Ok(model) => Arc::new(model),
                Err(error) => return Ok(Err(rejected(code::PUBLIC_MODEL, &chain(&error)))),
            };
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            if ready.len() >= MODELS_READY {
                ready.pop_front();
            }
            ready.push_back((blob, Arc::clone(&model)));
            model
        };
        if model.id() == expected {
            Ok(Ok(model))
        } else {
            Ok(Err(rejected(
                code::MODEL_ID,
                "the public model has another id than the one registered",
            )))
        }
    }
}

impl EvidenceChecker for ProofChecker {
    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        match task {
            EvidenceTask::Model { model, public_blob } => {
                Ok(match self.model(*public_blob, *model, blobs)? {
                    Err(refused) => refused,
                    Ok(public) => registration(&public),
                })
            }
            EvidenceTask::Lease {
                job,
                provider,
                model,
                public_blob,
                program,
                receipt,
                evidence,
                ..
            } => {
                let public = match self.model(*public_blob, *model, blobs)? {
                    Err(refused) => return Ok(refused),
                    Ok(public) => public,
                };
                // Stops: a receipt that speaks of another program than the one that was proved.
                if receipt.program != *program || public.program_id() != *program {
                    return Ok(rejected(
                        code::PROGRAM,
                        "the receipt names another program than the model's",
                    ));
                }
                let bytes = read(*evidence, EVIDENCE_BYTES_MAX, blobs)?;
                let file = match ProofFile::read(&bytes) {
                    Ok(file) => file,
                    Err(error) => return Ok(rejected(code::PROOF_FILE, &chain(&error))),
                };
                let expected = ExpectedStatement {
                    job: Some(*job),
                    provider: Some(*provider),
                    input: Some(receipt.input),
                    output: Some(receipt.output),
                };
                Ok(match tg_proof::verify(&public, &file, &expected) {
                    Ok(()) => Outcome::LeaseAccepted,
                    Err(error) => rejected(error.code(), &error.to_string()),
                })
            }
        }
    }
}

fn registration(public: &PublicModel) -> Outcome {
    if let Err(error) = public.verify_registration() {
        return rejected(error.code(), &error.to_string());
    }
    let program = public.program();
    let length = |bytes: usize| u32::try_from(bytes).expect("a tensor has fewer than 2^32 bytes");
    Outcome::ModelAccepted(ModelFacts {
        program: public.program_id(),
        macs: program.macs(),
        input_len: length(program.input.shape.elements()),
        output_len: length(program.output_bytes()),
        provable: true,
    })
}

fn read(digest: Digest, limit: u64, blobs: &BlobStore) -> Result<Vec<u8>, CheckError> {
    blobs
        .get(&digest, limit)?
        .ok_or(CheckError::Missing { digest })
}

fn rejected(code: u16, check: &str) -> Outcome {
    Outcome::Rejected {
        code,
        check: Label::lossy(check),
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
