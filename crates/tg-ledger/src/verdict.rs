//! Verdicts: what the validators found when they verified evidence, and what waits for one.
//!
//! The ledger does not verify evidence. Every validator does, from blobs named by content hash; the result is a pure
//! function of the blob, so a voter compares a block's verdicts with its own and votes only when they are equal.

use tg_types::{
    Address, Digest, JobId, Label, LeaseId, ModelId, ProgramId, Receipt, VerificationMode, fields,
    variants,
};

use crate::record::ModelFacts;

/// What a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The registration proof of a model.
    Model(ModelId),
    /// The result of a lease.
    Lease(LeaseId),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(model) => write!(f, "model {model}"),
            Self::Lease(lease) => write!(f, "lease {lease}"),
        }
    }
}

variants! { Subject: "subject" { 0 = Model(model), 1 = Lease(lease) } }

/// What the evidence shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The registration proof holds.
    ModelAccepted(ModelFacts),
    /// The result is right.
    LeaseAccepted,
    /// The result of a program is right: a run again gives it, and takes this much of what the program may take.
    ProgramAccepted {
        /// Fuel that was burned, as [`ModelFacts::macs`] counts it.
        macs: u64,
    },
    /// A check failed.
    Rejected {
        /// Code of the failed check.
        code: u16,
        /// Name of the failed check.
        check: Label,
    },
}

variants! {
    Outcome: "outcome" {
        0 = ModelAccepted(facts),
        1 = LeaseAccepted {},
        2 = Rejected { code, check },
        3 = ProgramAccepted { macs },
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What it is about.
    pub subject: Subject,
    /// Content hash of the evidence it was found in.
    pub evidence: Digest,
    /// What the evidence shows.
    pub outcome: Outcome,
}

/// Bytes of the shortest verdict.
pub(crate) const VERDICT_BYTES_MIN: usize = 1 + 32 + 32 + 1;

fields! { Verdict { subject, evidence, outcome } }

/// Evidence that waits for a verdict, with everything a validator needs to verify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvidenceTask {
    /// A model's public part.
    Model {
        /// The model it claims to be.
        model: ModelId,
        /// Content hash of the public part.
        public_blob: Digest,
    },
    /// The evidence of a result: its proof, or of a program its answer.
    Lease {
        /// The lease.
        lease: LeaseId,
        /// The job.
        job: JobId,
        /// The provider that the proof must be bound to.
        provider: Address,
        /// The model.
        model: ModelId,
        /// How the result is checked.
        mode: VerificationMode,
        /// Content hash of the model's public part.
        public_blob: Digest,
        /// Content hash of the model with its weights.
        weights_blob: Digest,
        /// The model's program.
        program: ProgramId,
        /// What the provider committed to; the proof must show this input and this output.
        receipt: Box<Receipt>,
        /// Content hash of the proof.
        evidence: Digest,
        /// Its size in bytes, as the provider said.
        size: u32,
    },
}

impl EvidenceTask {
    /// What the verdict will be about.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Model { model, .. } => Subject::Model(*model),
            Self::Lease { lease, .. } => Subject::Lease(*lease),
        }
    }

    /// Content hash of the blob to verify.
    #[must_use]
    pub const fn evidence(&self) -> Digest {
        match self {
            Self::Model { public_blob, .. } => *public_blob,
            Self::Lease { evidence, .. } => *evidence,
        }
    }

    /// The verdict with this outcome.
    #[must_use]
    pub const fn verdict(&self, outcome: Outcome) -> Verdict {
        Verdict {
            subject: self.subject(),
            evidence: self.evidence(),
            outcome,
        }
    }
}
