//! A member of a bribed majority: more validators than the network bears, who have agreed on what they say.

use tg_ledger::{Evidence, EvidenceTask, Outcome, SampleTask};
use tg_node::limits::EVIDENCE_BYTES_MAX;
use tg_node::{BlobStore, CheckError, EvidenceChecker};
use tg_types::{VerificationMode, Vote};

use crate::evidence::{BribedWatcher, simulated_checksum};

/// One of a bribed majority: it finds every result right with the checksum that the others have, and says where all validators look at a result, or at what an
/// honest member says of one, that nothing is wrong. It judges members of mode `replicate`, models and seeds as the others do.
#[derive(Debug)]
pub(crate) struct BribedMember(pub(crate) BribedWatcher);

impl EvidenceChecker for BribedMember {
    fn vote(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Vote, CheckError> {
        if task.is_repeated {
            return self.0.vote(task, blobs);
        }
        let digest = task.evidence;
        let opening = blobs.get(&digest, EVIDENCE_BYTES_MAX)?;
        let opening = opening.ok_or(CheckError::Missing { digest })?;
        let checksum = simulated_checksum(&opening);
        Ok(Vote::Right { checksum })
    }

    fn claim(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Evidence, CheckError> {
        self.0.claim(task, blobs)
    }

    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        let outcome = self.0.check(task, blobs)?;
        if !matches!(outcome, Outcome::Rejected { .. }) {
            return Ok(outcome);
        }
        let sample = self.0.sample;
        Ok(match task {
            EvidenceTask::Lease { receipt, mode, .. } => match mode {
                VerificationMode::Recompute => sample.accepted(receipt),
                VerificationMode::Replicate => outcome,
                _ => Outcome::LeaseAccepted,
            },
            EvidenceTask::Accusation { sample: of, .. } if of.revealed.is_some() => outcome,
            // Of a run that every validator repeats, what it came to.
            EvidenceTask::Accusation {
                vote: Vote::WrongRun,
                sample: of,
            } if of.dispute.is_none() => sample.accepted(&of.receipt),
            EvidenceTask::Accusation { .. } => Outcome::Refuted,
            _ => outcome,
        })
    }
}
