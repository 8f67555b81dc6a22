//! Drawn tiles, computed again: by a member of a committee, and by every validator where a member says that one is wrong.

use std::sync::Arc;

use tg_ir::ExecutableModel;
use tg_ledger::{Outcome, SampleTask};
use tg_proof::trace::challenge;
use tg_proof::{ExpectedTrace, TraceFile, accusation_holds, verify_trace, vote_on};
use tg_types::{Decode as _, Digest, Vote};

use super::{CODE_TRACE_FILE, ProofChecker, Refusal, read, rejected};
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
        let bytes = whole(blobs, &task.evidence, TRACE_EVIDENCE_BYTES_MAX)?;
        // Stops: an opening of another size than the provider said, which n - f cannot have stated to hold.
        let bytes = bytes.filter(|bytes| u32::try_from(bytes.len()) == Ok(task.size));
        Ok(Sample {
            model,
            input,
            challenge: challenge(&task.seed, &task.lease),
            file: bytes.and_then(|bytes| TraceFile::from_bytes(&bytes).ok()),
        })
    }
}

/// The bytes of a blob; nothing if it is larger than it may be.
pub(super) fn whole(
    blobs: &BlobStore,
    digest: &Digest,
    limit: u64,
) -> Result<Option<Vec<u8>>, CheckError> {
    match read(blobs, digest, limit, "size") {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Refusal::Rejected(_)) => Ok(None),
        Err(Refusal::NotNow(error)) => Err(error),
    }
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
