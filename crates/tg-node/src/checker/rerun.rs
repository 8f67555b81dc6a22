//! Running a program again as a whole: by every validator for a job of mode `recompute`, for a disputed result that is not
//! disputed part by part, and where the members of a job of mode `replicate` differ; by the watcher of a result; and by the
//! committee of a short run of mode `sync`.

use tg_ledger::{Outcome, ReplicasTask, SampleTask};
use tg_types::{Digest, Tier, Vote, trace_checksum};

use super::run::{RepeatedRun, Rerun};
use super::{CODE_ANSWER, CODE_PUBLIC_MODEL, CODE_RUN, ProofChecker, Refusal, rejected};
use crate::blob::BlobStore;
use crate::evidence::CheckError;
use crate::limits::EVIDENCE_BYTES_MAX;

impl ProofChecker {
    /// Runs a program again, for a job of mode `recompute`.
    pub(super) fn check_run(
        &self,
        run: &RepeatedRun<'_>,
        evidence: &Digest,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let ran = self.rerun(run, evidence, blobs)?;
        if ran.trace != run.receipt.trace {
            return Err(rejected(CODE_RUN, "another trace"));
        }
        Ok(outcome(&ran))
    }

    /// Runs a program again whose result somebody disputes that runs it whole to check it.
    pub(super) fn check_disputed_run(
        &self,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let ran = self.watched(task, blobs)?;
        Ok(outcome(&ran))
    }

    /// What the watcher of a result finds, or a member of a committee that runs it whole.
    pub(super) fn vote_on_run(
        &self,
        task: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<Vote, CheckError> {
        match self.watched(task, blobs) {
            Ok(ran) => Ok(Vote::Right {
                checksum: trace_checksum(&ran.trace),
            }),
            Err(Refusal::Rejected(_)) => Ok(Vote::WrongRun),
            Err(Refusal::NotNow(error)) => Err(error),
        }
    }

    /// A run that gives what the provider committed to.
    fn watched(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Rerun, Refusal> {
        let run = RepeatedRun::of(task);
        let ran = self.rerun(&run, &task.evidence, blobs)?;
        // Stops: a bill that the run does not give, and a commitment that no watcher could open.
        if ran.commitment(&task.lease).digest() != run.receipt.trace {
            return Err(rejected(CODE_RUN, "another trace or bill"));
        }
        Ok(ran)
    }

    /// Runs a program again whose members found different things; what is right is delivered too.
    pub(super) fn run_for_replicas(
        &self,
        task: &ReplicasTask,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let run = RepeatedRun {
            model: task.model,
            program: task.program,
            public_blob: &task.public_blob,
            weights_blob: &task.weights_blob,
            receipt: &task.receipt,
            opened: None,
        };
        let ran = self.run_of(&run, blobs)?;
        keep(&ran, blobs)?;
        Ok(Outcome::ReplicasRun {
            output: Digest::of_blob(&ran.answer),
            trace: ran.replica_commitment(&task.job).digest(),
        })
    }

    /// A run that gives the answer of its receipt. The answer is kept under the name that the receipt gives it, so that it is delivered
    /// whatever the provider does.
    fn rerun(
        &self,
        run: &RepeatedRun<'_>,
        evidence: &Digest,
        blobs: &BlobStore,
    ) -> Result<Rerun, Refusal> {
        // Stops: evidence beside the answer, which validators would have to hold for nothing.
        if *evidence != run.receipt.output {
            return Err(rejected(CODE_ANSWER, "the evidence is not the answer"));
        }
        let ran = self.run_of(run, blobs)?;
        // Stops: an answer that the program does not give.
        if Digest::of_blob(&ran.answer) != run.receipt.output {
            return Err(rejected(CODE_RUN, "another answer"));
        }
        keep(&ran, blobs)?;
        Ok(ran)
    }

    /// What a program gives again.
    pub(super) fn run_of(
        &self,
        run: &RepeatedRun<'_>,
        blobs: &BlobStore,
    ) -> Result<Rerun, Refusal> {
        match run.receipt.tier {
            Tier::Tgx1 => self.run_model(run, blobs),
            Tier::Tgf1 | Tier::Wasm1 => self.run_counted(run, blobs),
            // Its jobs are endpoints, which have no receipt.
            Tier::Served => Err(rejected(CODE_PUBLIC_MODEL, "a served model")),
        }
    }
}

/// Keeps an answer under the name that its receipt gives it.
fn keep(ran: &Rerun, blobs: &BlobStore) -> Result<(), CheckError> {
    let kept = blobs.put(&ran.answer, EVIDENCE_BYTES_MAX);
    kept.map(|_| ()).map_err(CheckError::Blob)
}

/// What validators say of a run that is right.
fn outcome(ran: &Rerun) -> Outcome {
    match ran.work {
        Some(macs) => Outcome::ProgramAccepted { macs },
        None => Outcome::LeaseAccepted,
    }
}
