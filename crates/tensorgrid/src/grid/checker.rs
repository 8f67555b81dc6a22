//! How a validator checks evidence: the registration proof of a model, the TGP-1 proof of a result.
//!
//! The outcome is a function of the blobs' bytes alone, so that honest validators agree. A blob that is damaged or
//! missing gives no outcome: it is tried again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tg_ledger::{EvidenceTask, ModelFacts, Outcome};
use tg_node::limits::{EVIDENCE_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX};
use tg_node::{BlobError, BlobStore, CheckError, EvidenceChecker};
use tg_proof::{ExpectedStatement, ProofFile, PublicModel, VerifyError};
use tg_types::{Address, Digest, JobId, Label, ModelId, Receipt};

/// Public models kept decoded: the ones used last.
const MODELS_KEPT: usize = 16;

/// A public model that is no public model.
const CODE_MODEL_UNREADABLE: u16 = 70;
/// A public model with another id than it was registered under.
const CODE_MODEL_ID: u16 = 71;
/// Evidence that is no proof file.
const CODE_PROOF_UNREADABLE: u16 = 72;
/// Evidence of another size than its provider said.
const CODE_PROOF_SIZE: u16 = 73;
/// A blob above the limit of its kind.
const CODE_TOO_LARGE: u16 = 74;

/// Public models in the order of their last use.
type Kept = VecDeque<(Digest, Arc<PublicModel>)>;

/// Checks evidence with `tg-proof`.
#[derive(Default)]
pub(crate) struct ProofChecker {
    kept: Mutex<Kept>,
}

impl std::fmt::Debug for ProofChecker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProofChecker").finish_non_exhaustive()
    }
}

/// What is shown for a lease.
struct Shown<'a> {
    job: JobId,
    provider: Address,
    public_blob: Digest,
    receipt: &'a Receipt,
    evidence: Digest,
    size: u32,
}

impl EvidenceChecker for ProofChecker {
    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        let outcome = match task {
            EvidenceTask::Model { model, public_blob } => {
                self.check_model(*model, public_blob, blobs)?
            }
            EvidenceTask::Lease {
                job,
                provider,
                public_blob,
                receipt,
                evidence,
                size,
                ..
            } => self.check_lease(
                &Shown {
                    job: *job,
                    provider: *provider,
                    public_blob: *public_blob,
                    receipt,
                    evidence: *evidence,
                    size: *size,
                },
                blobs,
            )?,
        };
        Ok(outcome.unwrap_or_else(|rejected| rejected))
    }
}

/// An accepting outcome, or a rejecting one.
type Verdict = Result<Outcome, Outcome>;

impl ProofChecker {
    fn check_model(
        &self,
        id: ModelId,
        public_blob: &Digest,
        blobs: &BlobStore,
    ) -> Result<Verdict, CheckError> {
        let model = match self.model(public_blob, blobs)? {
            Ok(model) => model,
            Err(rejected) => return Ok(Err(rejected)),
        };
        if model.id() != id {
            return Ok(Err(rejected(CODE_MODEL_ID, "model id")));
        }
        if let Err(error) = model.verify_registration() {
            return Ok(Err(rejected(error.code(), &error.to_string())));
        }
        let program = model.program();
        let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        Ok(Ok(Outcome::ModelAccepted(ModelFacts {
            program: model.program_id(),
            macs: program.macs(),
            input_len: length(program.input.shape.elements()),
            output_len: length(program.output_bytes()),
            provable: true,
        })))
    }

    fn check_lease(&self, shown: &Shown<'_>, blobs: &BlobStore) -> Result<Verdict, CheckError> {
        let bytes = match fetch(blobs, &shown.evidence, EVIDENCE_BYTES_MAX)? {
            Ok(bytes) => bytes,
            Err(rejected) => return Ok(Err(rejected)),
        };
        let model = match self.model(&shown.public_blob, blobs)? {
            Ok(model) => model,
            Err(rejected) => return Ok(Err(rejected)),
        };
        if bytes.len() as u64 != u64::from(shown.size) {
            return Ok(Err(rejected(CODE_PROOF_SIZE, "size of the proof")));
        }
        let Ok(file) = ProofFile::read(&bytes) else {
            return Ok(Err(rejected(CODE_PROOF_UNREADABLE, "proof file")));
        };
        let expected = ExpectedStatement {
            job: Some(shown.job),
            provider: Some(shown.provider),
            input: Some(shown.receipt.input),
            output: Some(shown.receipt.output),
        };
        Ok(match tg_proof::verify(&model, &file, &expected) {
            Ok(()) => Ok(Outcome::LeaseAccepted),
            Err(error) => Err(rejected(error.code(), &describe(&error))),
        })
    }

    /// A decoded public model, or why it is none.
    fn model(
        &self,
        digest: &Digest,
        blobs: &BlobStore,
    ) -> Result<Result<Arc<PublicModel>, Outcome>, CheckError> {
        if let Some(model) = self.known(digest) {
            return Ok(Ok(model));
        }
        let bytes = match fetch(blobs, digest, PUBLIC_MODEL_BYTES_MAX)? {
            Ok(bytes) => bytes,
            Err(rejected) => return Ok(Err(rejected)),
        };
        let Ok(model) = PublicModel::decode(&bytes) else {
            return Ok(Err(rejected(CODE_MODEL_UNREADABLE, "public model file")));
        };
        let model = Arc::new(model);
        // A panic of another thread leaves the list whole: it is only moved and pushed.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MODELS_KEPT {
            kept.pop_front();
        }
        kept.push_back((*digest, Arc::clone(&model)));
        Ok(Ok(model))
    }

    fn known(&self, digest: &Digest) -> Option<Arc<PublicModel>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept.iter().position(|(known, _)| known == digest)?;
        let entry = kept.remove(index)?;
        let model = Arc::clone(&entry.1);
        kept.push_back(entry);
        Some(model)
    }
}

/// A blob's bytes, or that it is above its limit, which is a property of the blob and so a verdict.
fn fetch(
    blobs: &BlobStore,
    digest: &Digest,
    limit: u64,
) -> Result<Result<Vec<u8>, Outcome>, CheckError> {
    match blobs.get(digest, limit) {
        Ok(Some(bytes)) => Ok(Ok(bytes)),
        Ok(None) => Err(CheckError::Missing { digest: *digest }),
        Err(BlobError::TooLarge { .. }) => Ok(Err(rejected(CODE_TOO_LARGE, "size of the blob"))),
        Err(error) => Err(error.into()),
    }
}

/// The failed check, with the field where one is known.
fn describe(error: &VerifyError) -> String {
    match error {
        VerifyError::Statement { field } => format!("{}: {field}", error.check()),
        _ => error.check().to_owned(),
    }
}

fn rejected(code: u16, check: &str) -> Outcome {
    Outcome::Rejected {
        code,
        check: Label::lossy(check),
    }
}
