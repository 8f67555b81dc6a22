//! Computing drawn parts of a run again: by a member of a committee, and by every validator if a member says that one is
//! wrong. The parts are tiles of an integer model, sections of nodes of a float model, or sections of calls of a program
//! (`counted`).

use std::sync::Arc;

use tg_ir::ExecutableModel;
use tg_ledger::{Outcome, SampleTask};
use tg_proof::trace::challenge;
use tg_proof::{ExpectedTrace, TraceFile, accusation_holds, verify_trace, vote_on};
use tg_types::{Decode as _, Digest, Tier, Vote};

use super::counted::OpenedRun;
use super::{CODE_TRACE_FILE, ProofChecker, Refusal, rejected, whole};
use crate::blob::BlobStore;
use crate::evidence::CheckError;
use crate::limits::{EVIDENCE_BYTES_MAX, TRACE_EVIDENCE_BYTES_MAX};

/// What there is to look at.
struct Sample {
    model: Arc<ExecutableModel>,
    input: Vec<u8>,
    challenge: Digest,
    /// The opening; nothing if the provider named other bytes.
    file: Option<TraceFile>,
}

impl ProofChecker {
    /// What this validator finds in the tiles that were drawn. If it finds them right, it keeps the answer under the name that
    /// the receipt gives it, so that it is delivered whatever the provider does.
    pub(super) fn vote_on_sample(
        &self,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<Vote, CheckError> {
        match task.receipt.tier {
            Tier::Tgf1 | Tier::Wasm1 => return self.vote_on_sections(task, blobs),
            Tier::Tgx1 | Tier::Served => {}
        }
        let sample = self.sample(task, blobs)?;
        let Some(file) = &sample.file else {
            return Ok(Vote::WrongForm);
        };
        let found = verify_trace(&sample.model, file, sample.expected(task));
        if let Ok((answer, _)) = &found {
            blobs.put(answer, EVIDENCE_BYTES_MAX)?;
        }
        Ok(vote_on(found.as_ref().map(|(_, checksum)| *checksum)))
    }

    /// Whether what a member says is so.
    pub(super) fn check_accusation(
        &self,
        vote: Vote,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        match task.receipt.tier {
            Tier::Tgf1 | Tier::Wasm1 => {
                return self.check_section_accusation(vote, task, blobs);
            }
            Tier::Tgx1 | Tier::Served => {}
        }
        let sample = self.sample(task, blobs)?;
        let Some(file) = &sample.file else {
            return match vote {
                Vote::WrongForm => Err(rejected(CODE_TRACE_FILE, "not a trace file")),
                Vote::Right { .. } | Vote::WrongTile(_) | Vote::WrongRun => Ok(Outcome::Refuted),
            };
        };
        match accusation_holds(&sample.model, file, sample.expected(task), vote) {
            Some(fault) => Err(rejected(fault.code(), &fault.to_string())),
            None => Ok(Outcome::Refuted),
        }
    }

    fn sample(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Sample, CheckError> {
        let (model, input) = self.ordered(task, blobs)?;
        Ok(Sample {
            model,
            input,
            challenge: challenge(&task.seed, &task.lease),
            file: opening(task, blobs)?.and_then(|bytes| TraceFile::from_bytes(&bytes).ok()),
        })
    }

    fn vote_on_sections(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Vote, CheckError> {
        let (model, input) = self.ordered_counted(task, blobs)?;
        // No opening is one of no bytes: neither is a trace file.
        let opening = opening(task, blobs)?.unwrap_or_default();
        let (vote, answer) = model.vote(OpenedRun {
            lease: &task.lease,
            opening: &opening,
            input: &input,
            receipt: &task.receipt,
            challenge: &challenge(&task.seed, &task.lease),
        })?;
        if let Some(answer) = answer {
            blobs.put(&answer, EVIDENCE_BYTES_MAX)?;
        }
        Ok(vote)
    }

    fn check_section_accusation(
        &self,
        vote: Vote,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let (model, input) = self.ordered_counted(task, blobs)?;
        let opening = opening(task, blobs)?.unwrap_or_default();
        let fault = model.accusation_holds(
            vote,
            OpenedRun {
                lease: &task.lease,
                opening: &opening,
                input: &input,
                receipt: &task.receipt,
                challenge: &challenge(&task.seed, &task.lease),
            },
        )?;
        match fault {
            Some((code, text)) => Err(rejected(code, &text)),
            None => Ok(Outcome::Refuted),
        }
    }
}

/// The opening that a provider named; nothing if it has another size than was said, which n - f validators cannot have stated to hold.
fn opening(task: &SampleTask, blobs: &BlobStore) -> Result<Option<Vec<u8>>, CheckError> {
    let bytes = whole(blobs, &task.evidence, TRACE_EVIDENCE_BYTES_MAX)?;
    Ok(bytes.filter(|bytes| u32::try_from(bytes.len()) == Ok(task.size)))
}

impl Sample {
    fn expected<'a>(&'a self, task: &'a SampleTask) -> ExpectedTrace<'a> {
        ExpectedTrace {
            input: &self.input,
            receipt: &task.receipt,
            challenge: &self.challenge,
        }
    }
}
