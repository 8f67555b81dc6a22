//! Verdicts: the validators' results of verifying evidence, and the evidence that waits for one.
//!
//! The ledger does not verify evidence. Every validator does, from blobs named by content hash. The result is a pure function
//! of the blob, so a voter compares a block's verdicts with its own and votes only when they are equal.

use std::sync::Arc;

use tg_types::{
    Address, BlockId, Digest, Domain, DurationMs, Encode as _, Height, JobId, KeyGrant, Label,
    LeaseId, ModelId, ProgramId, Receipt, SealingPublicKey, VerificationMode, Vote, Writer, fields,
    variants,
};

use crate::record::{
    Dealing, Evidence, Job, Lease, ModelFacts, SEED_KEY_BYTES, SEED_SIGNATURE_BYTES,
};

/// What a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The registration proof of a model.
    Model(ModelId),
    /// The result of a lease.
    Lease(LeaseId),
    /// The key that the validators deal in a round.
    SeedKey(u64),
    /// The seed of a block.
    Seed(Height),
    /// What a member of a committee says is wrong with the result of a lease.
    Accusation(LeaseId, Vote),
    /// What the provider of a sealed job says of the key that was granted to it: that it does not open the input.
    Grant(LeaseId),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(model) => write!(f, "model {model}"),
            Self::Lease(lease) => write!(f, "lease {lease}"),
            Self::SeedKey(round) => write!(f, "key of round {round}"),
            Self::Seed(height) => write!(f, "seed of block {height}"),
            Self::Accusation(lease, vote) => write!(f, "accusation of lease {lease}: {vote}"),
            Self::Grant(lease) => write!(f, "key of lease {lease}"),
        }
    }
}

variants! {
    Subject: "subject" {
        0 = Model(model),
        1 = Lease(lease),
        2 = SeedKey(round),
        3 = Seed(height),
        4 = Accusation(lease, vote),
        5 = Grant(lease),
    }
}

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
    /// What a run again gives, where the members of a job of mode `replicate` found different things.
    ReplicasRun {
        /// BLAKE3 of the answer.
        output: Digest,
        /// What a right receipt states in the place of the trace.
        trace: Digest,
    },
    /// The key that a round's dealings give.
    SeedKey([u8; SEED_KEY_BYTES]),
    /// The signature that the seed of a block is made of.
    Seed([u8; SEED_SIGNATURE_BYTES]),
    /// What a member said is not so.
    Refuted,
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
        4 = SeedKey(key),
        5 = Seed(signature),
        6 = Refuted {},
        7 = ReplicasRun { output, trace },
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
pub(crate) const VERDICT_BYTES_MIN: usize = 1 + 8 + 32 + 1;

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
    /// The members of a job of mode `replicate` found different things: the program runs again.
    Replicas(ReplicasTask),
    /// What the validators dealt: it gives a key, or does not.
    SeedKey {
        /// The network.
        network: BlockId,
        /// The round.
        round: u64,
        /// The consensus keys of all validators, in the order of their addresses.
        seats: Vec<[u8; 32]>,
        /// What was dealt.
        dealings: Arc<[Dealing]>,
        /// Names all of it.
        digest: Digest,
    },
    /// The seed of a block: a signature by the round's key.
    Seed {
        /// The network.
        network: BlockId,
        /// The round.
        round: u64,
        /// The block's height.
        height: Height,
        /// The key.
        key: [u8; SEED_KEY_BYTES],
    },
    /// A member of a committee says that the result of a lease is wrong; every validator looks at what it names.
    Accusation {
        /// What it says.
        vote: Vote,
        /// The result that it says it of.
        sample: SampleTask,
    },
    /// The requestor of a sealed job showed its key, as its provider says that it does not open the input.
    Grant(GrantTask),
}

/// Drawn tiles that are computed again, or a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleTask {
    /// The lease.
    pub lease: LeaseId,
    /// The model.
    pub model: ModelId,
    /// How the result is checked.
    pub mode: VerificationMode,
    /// Whether by a run of all of it, in mode `optimistic` and of short runs of mode `sync`, instead of drawn parts. Nothing is shown then.
    pub is_repeated: bool,
    /// How long whoever looks at it by a run may take for that, zero for drawn parts.
    pub run: DurationMs,
    /// Content hash of the model's public part.
    pub public_blob: Digest,
    /// Content hash of the model with its weights.
    pub weights_blob: Digest,
    /// The model's program.
    pub program: ProgramId,
    /// What the provider committed to.
    pub receipt: Box<Receipt>,
    /// The seed that draws the tiles.
    pub seed: Digest,
    /// Content hash of the opening.
    pub evidence: Digest,
    /// Its size in bytes, as the provider said.
    pub size: u32,
    /// By which files a dispute about it is decided, if it ends at one tile.
    pub dispute: Option<DisputeFiles>,
    /// The key that opens its input and its answer, of a sealed job whose requestor showed it.
    pub revealed: Option<Box<RevealedKey>>,
}

/// The key of a sealed job that its requestor showed, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevealedKey {
    /// The lease.
    pub lease: LeaseId,
    /// The model.
    pub model: ModelId,
    /// Who sealed the input.
    pub requestor: Address,
    /// Content hash of the sealed input.
    pub input: Digest,
    /// How many bytes that has.
    pub input_len: u32,
    /// The key.
    pub secret: [u8; 32],
    /// What names it, in the place of evidence.
    pub name: Digest,
}

impl RevealedKey {
    /// Of a lease, if its job's key was shown.
    pub(crate) fn of(job: &Job, lease: &Lease) -> Option<Self> {
        Some(Self {
            lease: lease.id,
            model: job.order.model,
            requestor: job.requestor,
            input: job.order.input,
            input_len: job.order.input_len,
            secret: *lease.revealed()?,
            name: revealed_name(lease)?,
        })
    }
}

/// What names a key that was shown, in the place of evidence, with all that a verdict on it depends on: another key, another grant and another
/// answer give another verdict. `None` if no key was shown.
#[must_use]
pub(crate) fn revealed_name(lease: &Lease) -> Option<Digest> {
    let secret = lease.revealed()?;
    let (grant, _) = lease.granted()?;
    let output = lease.receipt().map(|it| it.output).unwrap_or_default();
    let named = [
        lease.id.as_bytes().as_slice(),
        secret,
        grant.as_bytes(),
        output.as_bytes(),
    ];
    Some(Digest::of(Domain::RevealedKey, &named.concat()))
}

/// The key of a sealed job, and what was granted of it, before the provider started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantTask {
    /// What was shown.
    pub revealed: Box<RevealedKey>,
    /// To which key it should have been granted.
    pub key: SealingPublicKey,
    /// What was granted.
    pub grant: KeyGrant,
    /// Content hash of the model's public part, which says what inputs it takes.
    pub public_blob: Digest,
}

impl GrantTask {
    /// Of a lease whose provider says that the key does not open the input, if the key was shown.
    pub(crate) fn of(job: &Job, lease: &Lease, public_blob: Digest) -> Option<Self> {
        let sealing = lease
            .sealing
            .as_ref()
            .filter(|_| lease.started_at().is_none())?;
        let (grant, _) = sealing.stage.grant()?;
        Some(Self {
            revealed: Box::new(RevealedKey::of(job, lease)?),
            key: sealing.key.clone(),
            grant: grant.clone(),
            public_blob,
        })
    }
}

/// The files of accuser and provider, in a dispute that ends at one tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisputeFiles {
    /// What the accuser says that a right run gives.
    pub claim: Evidence,
    /// Where that is wrong, as the provider says.
    pub answer: Evidence,
}

impl DisputeFiles {
    /// What names both, in the place of evidence: a verdict on one pair says nothing of another with the same answer.
    #[must_use]
    pub fn name(&self) -> Digest {
        let Self { claim, answer } = self;
        let mut writer = Writer::new();
        for Evidence { digest, size } in [claim, answer] {
            digest.encode(&mut writer);
            size.encode(&mut writer);
        }
        Digest::of(Domain::DisputeFiles, &writer.into_bytes())
    }
}

/// A program that runs again because the members of a job found different things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicasTask {
    /// The lease that leads.
    pub lease: LeaseId,
    /// The job.
    pub job: JobId,
    /// The model.
    pub model: ModelId,
    /// Content hash of the model's public part.
    pub public_blob: Digest,
    /// Content hash of the model with its weights.
    pub weights_blob: Digest,
    /// The model's program.
    pub program: ProgramId,
    /// What one of the members found; the others agree with it on program, model, input and tier.
    pub receipt: Box<Receipt>,
    /// Names what all members found.
    pub claims: Digest,
}

impl EvidenceTask {
    /// What the verdict will be about.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Model { model, .. } => Subject::Model(*model),
            Self::Lease { lease, .. } | Self::Replicas(ReplicasTask { lease, .. }) => {
                Subject::Lease(*lease)
            }
            Self::SeedKey { round, .. } => Subject::SeedKey(*round),
            Self::Seed { height, .. } => Subject::Seed(*height),
            Self::Accusation { vote, sample } => Subject::Accusation(sample.lease, *vote),
            Self::Grant(task) => Subject::Grant(task.revealed.lease),
        }
    }

    /// What the verdict names as evidence:
    /// - of a model or a lease, the content hash of the blob to verify;
    /// - of replicas, what names their results;
    /// - of a seed's key, the digest of what was dealt;
    /// - of a seed, the digest of round and height;
    /// - of an accusation, the content hash of the opening, or of a dispute what names its files;
    /// - of a sealed job, what names the key that was shown.
    #[must_use]
    pub fn evidence(&self) -> Digest {
        match self {
            Self::Model { public_blob, .. } => *public_blob,
            Self::Lease { evidence, .. } => *evidence,
            Self::Replicas(task) => task.claims,
            Self::SeedKey { digest, .. } => *digest,
            Self::Seed { round, height, .. } => seed_subject(*round, *height),
            Self::Accusation { sample, .. } => match (&sample.dispute, &sample.revealed) {
                (Some(dispute), _) => dispute.name(),
                (None, Some(revealed)) => revealed.name,
                (None, None) => sample.evidence,
            },
            Self::Grant(task) => task.revealed.name,
        }
    }

    /// The verdict with this outcome.
    #[must_use]
    pub fn verdict(&self, outcome: Outcome) -> Verdict {
        Verdict {
            subject: self.subject(),
            evidence: self.evidence(),
            outcome,
        }
    }
}

/// What stands for the evidence of a seed: which one it is.
#[must_use]
pub(crate) fn seed_subject(round: u64, height: Height) -> Digest {
    let mut name = [0; 32];
    name[..8].copy_from_slice(&round.to_le_bytes());
    name[8..16].copy_from_slice(&height.get().to_le_bytes());
    Digest::new(name)
}

/// The seed that a signature gives.
#[must_use]
pub fn seed_of(signature: &[u8; SEED_SIGNATURE_BYTES]) -> Digest {
    Digest::of(Domain::Seed, signature)
}
