//! The input and the result of running a program again.

use tg_ledger::SampleTask;
use tg_types::{
    Digest, JobId, LeaseId, ModelId, ProgramId, Receipt, RunCommitment, trace_checksum,
};

/// What is run again: the model of a lease, on what was ordered.
#[derive(Debug, Clone, Copy)]
pub(super) struct RepeatedRun<'a> {
    pub(super) model: ModelId,
    pub(super) program: ProgramId,
    pub(super) public_blob: &'a Digest,
    pub(super) weights_blob: &'a Digest,
    pub(super) receipt: &'a Receipt,
    /// Its input, where the one that the receipt names is sealed.
    pub(super) opened: Option<&'a [u8]>,
}

/// What a run gives.
#[derive(Debug)]
pub(super) struct Rerun {
    pub(super) answer: Vec<u8>,
    pub(super) trace: Digest,
    /// What it took of its limit, in a tier that counts it.
    pub(super) work: Option<u64>,
}

impl<'a> RepeatedRun<'a> {
    pub(super) fn of(task: &'a SampleTask) -> Self {
        Self {
            model: task.model,
            program: task.program,
            public_blob: &task.public_blob,
            weights_blob: &task.weights_blob,
            receipt: &task.receipt,
            opened: None,
        }
    }

    /// Whether receipt and lease are about this program and this model.
    pub(super) fn is_of(&self, program: ProgramId, model: ModelId) -> bool {
        self.receipt.program == self.program
            && self.receipt.model == self.model
            && program == self.program
            && model == self.model
    }
}

impl Rerun {
    /// What a provider states in the place of the trace where whoever checks runs it whole.
    pub(super) fn commitment(&self, lease: &LeaseId) -> RunCommitment {
        let work = self.work.unwrap_or_default();
        RunCommitment::of(lease, trace_checksum(&self.trace), work)
    }

    /// What the members of a job of mode `replicate` state in the place of the trace.
    pub(super) fn replica_commitment(&self, job: &JobId) -> RunCommitment {
        let work = self.work.unwrap_or_default();
        RunCommitment::of_replica(job, trace_checksum(&self.trace), work)
    }
}
