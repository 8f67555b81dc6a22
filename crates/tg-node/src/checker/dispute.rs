//! Disputes that end at one tile (of a float model at one node, of a program at one call): making the accuser's claim, and
//! deciding about it.

use std::sync::Arc;

use tg_ir::ExecutableModel;
use tg_ledger::{DisputeFiles, Evidence, Outcome, SampleTask};
use tg_proof::{AccuserClaim, ClaimFile, ExpectedClaim, claim_fails, is_ordered};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{Encode as _, Tier};

use super::counted::ArguedRun;
use super::execution::executed;
use super::kept::Executable;
use super::{CODE_CLAIM, ProofChecker, Refusal, rejected, whole};
use crate::blob::BlobStore;
use crate::evidence::CheckError;
use crate::limits::TRACE_EVIDENCE_BYTES_MAX;

impl ProofChecker {
    /// Runs the model of a result again, and stores what all tiles, nodes or calls of a right run are.
    pub(super) fn make_claim(
        &self,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<Evidence, CheckError> {
        let claim = match task.receipt.tier {
            Tier::Tgf1 | Tier::Wasm1 => {
                let (model, input) = self.ordered_counted(task, blobs)?;
                model.claim(&input)?
            }
            Tier::Tgx1 | Tier::Served => {
                let (model, input) = self.ordered(task, blobs)?;
                claim_file(&model, &input)
            }
        };
        let digest = blobs.put(&claim, TRACE_EVIDENCE_BYTES_MAX)?;
        let size = u32::try_from(claim.len()).map_err(|_| CheckError::NotHere)?;
        Ok(Evidence { digest, size })
    }

    /// Whether the accusation of a result fails, as claim and answer show.
    pub(super) fn check_claim(
        &self,
        task: &SampleTask,
        files: &DisputeFiles,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let claim = stated(blobs, &files.claim)?;
        let answer = stated(blobs, &files.answer)?;
        let fails = match task.receipt.tier {
            Tier::Tgf1 | Tier::Wasm1 => {
                let (model, input) = self.ordered_counted(task, blobs)?;
                let digest = task.evidence;
                // As large as the ledger takes it.
                let delivered = whole(blobs, &digest, TRACE_EVIDENCE_BYTES_MAX)?;
                model.claim_fails(ArguedRun {
                    claim: &claim,
                    answer: &answer,
                    lease: &task.lease,
                    input: &input,
                    receipt: &task.receipt,
                    delivered: &delivered.ok_or(CheckError::Missing { digest })?,
                })?
            }
            Tier::Tgx1 | Tier::Served => {
                let (model, input) = self.ordered(task, blobs)?;
                let expected = ExpectedClaim {
                    lease: &task.lease,
                    input: &input,
                    receipt: &task.receipt,
                };
                claim_fails(&model, (&claim, &answer), expected, || runs(&model, &input))
            }
        };
        match fails {
            true => Ok(Outcome::Refuted),
            false => Err(rejected(
                CODE_CLAIM,
                "the answer shows nothing wrong of the accuser's claim",
            )),
        }
    }

    /// The model of a result, and what was ordered of it: n - f validators state that they hold both.
    pub(super) fn ordered(
        &self,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<(Arc<ExecutableModel>, Vec<u8>), CheckError> {
        let weights = &task.weights_blob;
        let model = match self.weighted(weights, blobs) {
            Ok(Executable::Weighted(model)) if model.program.id() == task.program => model,
            Err(Refusal::NotNow(error)) => return Err(error),
            // n - f validators stated that they hold the model of this program: this one does not.
            Ok(_) | Err(Refusal::Rejected(_)) => {
                return Err(CheckError::Missing { digest: *weights });
            }
        };
        let digest = task.receipt.input;
        let input = whole(blobs, &digest, u64::from(INPUT_BYTES_MAX))?;
        Ok((model, input.ok_or(CheckError::Missing { digest })?))
    }
}

/// What all tiles of a right run of a model on what was ordered are, as a claim file, or that it does not run on it. Takes a run on one
/// thread, and hashes all that the nodes give.
#[must_use]
pub fn claim_file(model: &ExecutableModel, input: &[u8]) -> Vec<u8> {
    let claim = match executed(model, input) {
        Err(_) => AccuserClaim::NoRun,
        Ok((trace, written)) => {
            let generation = written.map(|it| it.generation);
            AccuserClaim::Run(ClaimFile::of(model, trace.tensors(), generation))
        }
    };
    claim.to_bytes()
}

/// Whether a model runs on what was ordered: what [`executed`] finds before it computes anything.
#[must_use]
pub fn runs(model: &ExecutableModel, input: &[u8]) -> bool {
    is_ordered(&model.program, input, false)
}

/// The bytes of a file of the stated size; none if it has another size, which n - f cannot have stated to hold.
fn stated(blobs: &BlobStore, file: &Evidence) -> Result<Vec<u8>, CheckError> {
    let Evidence { digest, size } = file;
    let bytes = whole(blobs, digest, TRACE_EVIDENCE_BYTES_MAX)?;
    let bytes = bytes.filter(|it| u32::try_from(it.len()) == Ok(*size));
    Ok(bytes.unwrap_or_default())
}
