//! What is outside of the ledger: blobs, who holds them, and what is true about them. Simulated: no byte exists.

use std::collections::{BTreeMap, BTreeSet};

use tg_ledger::{
    EvidenceTask, ModelFacts, Outcome, RefusedBecause, SEED_KEY_BYTES, SEED_SIGNATURE_BYTES,
    SampleTask, State, Verdict,
};
use tg_types::{
    Address, Digest, JobId, Label, LeaseId, ModelId, ProgramId, SignedVoucher, StorageSubject,
    TileName, Transaction, Vote,
};

use crate::keys;

/// Validators, a bit for each, in the order of their names.
pub(crate) type Holders = u8;

/// The three honest validators.
pub(crate) const HONEST: Holders = 0b0111;

/// One of them.
pub(crate) const ONE: Holders = 0b0001;

/// The fourth.
pub(crate) const HOSTILE: Holders = 0b1000;

/// What is true about a registered model.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    /// What its public part shows; none if the registration proof is wrong.
    pub(crate) facts: Option<ModelFacts>,
    /// Whether validators get its public part.
    pub(crate) is_delivered: bool,
    /// Who holds its files.
    pub(crate) holders: Holders,
    /// Whether anybody can finish a job of it in time: what registration should have refused.
    pub(crate) can_be_served: bool,
}

/// What is true about a piece of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    Right,
    Wrong,
    /// Named and never delivered.
    Absent,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) inputs: BTreeMap<Digest, Holders>,
    pub(crate) models: BTreeMap<ModelId, Truth>,
    pub(crate) evidence: BTreeMap<Digest, Proof>,
    /// The last voucher that the requestor of an endpoint signed for a lease.
    pub(crate) vouchers: BTreeMap<LeaseId, SignedVoucher>,
    /// Providers whose machines validators cannot reach.
    pub(crate) offline: BTreeSet<Address>,
}

/// The facts of a model of `macs` multiply-accumulates, whose program has the model's bytes for a name.
pub(crate) const fn facts(model: &ModelId, macs: u64) -> ModelFacts {
    ModelFacts {
        program: ProgramId::new(*model.as_bytes()),
        tier: tg_types::Tier::Tgx1,
        macs,
        input_len: INPUT_LEN,
        output_len: 10,
        provable: true,
        proof_bytes: 40_000,
        work: macs,
        memory: 4_096,
        trace_bytes: 4_096,
        read_bytes: 4_096,
        looks: 0,
    }
}

/// The answer of a job, which all members of mode `replicate` find that do not lie.
pub(crate) fn answer_of(job: &JobId) -> Digest {
    let mut bytes = *job.as_bytes();
    bytes.reverse();
    Digest::new(bytes)
}

/// Multiply-accumulates of models whose runs all validators repeat; of the others a dispute ends at a tile.
pub(crate) const REPEATED_MACS: u64 = 400_000;

/// What an accuser hands in that says the truth of a run, or something else.
pub(crate) fn claim(lease: LeaseId, is_true: bool) -> Transaction {
    let file = Digest::new(if is_true { TRUE_CLAIM } else { FALSE_CLAIM });
    Transaction::ArgueResult {
        lease,
        file,
        size: 100,
    }
}

/// What a provider hands in against a claim: that it is wrong in one tile.
pub(crate) fn answer(lease: LeaseId) -> Transaction {
    Transaction::ArgueResult {
        lease,
        file: Digest::new([0xa0; 32]),
        size: 100,
    }
}

const TRUE_CLAIM: [u8; 32] = [0xc1; 32];
const FALSE_CLAIM: [u8; 32] = [0xc0; 32];

/// Bytes of every input.
pub(crate) const INPUT_LEN: u32 = 784;

impl Files {
    /// Who holds what a statement names.
    pub(crate) fn holders(&self, state: &State, subject: &StorageSubject) -> Holders {
        match subject {
            StorageSubject::Job(job) => {
                let input = state.job(job).map(|it| it.order.input);
                let holders = input.and_then(|it| self.inputs.get(&it));
                holders.copied().unwrap_or(0)
            }
            // An opening, which is named as its lease is.
            StorageSubject::Lease(lease) => {
                match self.evidence.get(&Digest::new(*lease.as_bytes())) {
                    Some(Proof::Right | Proof::Wrong) => HONEST | HOSTILE,
                    Some(Proof::Absent) | None => 0,
                }
            }
            StorageSubject::Model(model) => self.models.get(model).map_or(0, |it| it.holders),
            // Of what is kept honest validators have what they state.
            StorageSubject::Answer(_) | StorageSubject::Question(_) => HONEST,
        }
    }

    /// Whether a provider gets something from the honest validators: those who only state something give nothing.
    pub(crate) const fn is_served(holders: Holders) -> bool {
        holders & HONEST != 0
    }

    /// What an honest validator finds in the evidence that waits.
    pub(crate) fn verdicts(&self, state: &State) -> Vec<Verdict> {
        let tasks = state.pending_evidence();
        tasks.filter_map(|task| self.verdict(&task)).collect()
    }

    fn verdict(&self, task: &EvidenceTask) -> Option<Verdict> {
        let rejected = || Outcome::Rejected {
            code: 7,
            check: Label::lossy("sumcheck of layer 2"),
        };
        let outcome = match task {
            EvidenceTask::Model { model, .. } => {
                let truth = self.models.get(model).filter(|it| it.is_delivered)?;
                truth.facts.map_or_else(rejected, Outcome::ModelAccepted)
            }
            EvidenceTask::Lease { evidence, .. } => match self.evidence.get(evidence)? {
                Proof::Right => Outcome::LeaseAccepted,
                Proof::Wrong => rejected(),
                Proof::Absent => return None,
            },
            EvidenceTask::Replicas(replicas) => Outcome::ReplicasRun {
                output: answer_of(&replicas.job),
                trace: Digest::default(),
            },
            EvidenceTask::Grant(task) => keys::judge(task),
            EvidenceTask::SeedKey { .. } => Outcome::SeedKey([1; SEED_KEY_BYTES]),
            EvidenceTask::Seed { height, .. } => {
                let mut signature = [0; SEED_SIGNATURE_BYTES];
                signature[..8].copy_from_slice(&height.get().to_le_bytes());
                Outcome::Seed(signature)
            }
            EvidenceTask::Accusation {
                sample:
                    SampleTask {
                        dispute: Some(files),
                        evidence,
                        ..
                    },
                ..
            } => {
                // A claim falls if it says the same as a right result, or if the answer shows where it is wrong.
                let is_right = self.evidence.get(evidence)? == &Proof::Right;
                match is_right || files.claim.digest == Digest::new(FALSE_CLAIM) {
                    true => Outcome::Refuted,
                    false => rejected(),
                }
            }
            // With another key than the input's nothing is shown against the result.
            EvidenceTask::Accusation { sample, .. }
                if (sample.revealed.as_ref()).is_some_and(|it| !keys::is_key(&it.secret)) =>
            {
                Outcome::LeaseAccepted
            }
            EvidenceTask::Accusation { vote, sample } => match self.vote_on(sample)? {
                found if found == *vote && !found.is_right() => rejected(),
                _ if *vote == Vote::WrongRun => Outcome::LeaseAccepted,
                _ => Outcome::Refuted,
            },
        };
        Some(task.verdict(outcome))
    }

    /// What an honest member of a committee finds in an opening, if it is there.
    pub(crate) fn vote_on(&self, sample: &SampleTask) -> Option<Vote> {
        match self.evidence.get(&sample.evidence)? {
            Proof::Right => Some(Vote::Right { checksum: CHECKSUM }),
            Proof::Wrong if sample.is_repeated => Some(Vote::WrongRun),
            Proof::Wrong => Some(Vote::WrongTile(TileName { node: 0, leaf: 0 })),
            Proof::Absent => None,
        }
    }

    /// Forgets what no open job and no model needs any more.
    pub(crate) fn sweep(&mut self, state: &State) {
        let waiting = state.submitted_jobs().chain(state.queued_jobs());
        let live = state.live_leases().map(|(job, _)| job);
        let needed: BTreeSet<Digest> = waiting.chain(live).map(|it| it.order.input).collect();
        self.inputs.retain(|digest, _| needed.contains(digest));
        let lives = |lease: &LeaseId| state.lease(lease).is_some_and(|it| it.end().is_none());
        self.vouchers.retain(|lease, _| lives(lease));
        let mut pending: BTreeSet<Digest> = state
            .pending_evidence()
            .map(|task| task.evidence())
            .collect();
        let live = state.live_leases();
        pending.extend(live.filter_map(|(_, lease)| Some(lease.evidence()?.digest)));
        let delivered = state.live_leases().map(|(_, lease)| lease);
        let delivered = delivered.filter(|it| it.delivery().is_some());
        pending.extend(delivered.map(|it| evidence_of(&it.id)));
        self.evidence.retain(|digest, _| pending.contains(digest));
        self.models.retain(|id, _| state.model(id).is_some());
    }
}

/// What whoever looks at a result computes.
pub(crate) const CHECKSUM: u64 = 5;

/// What the evidence of a lease is called.
pub(crate) fn evidence_of(lease: &LeaseId) -> Digest {
    Digest::new(*lease.as_bytes())
}

/// The end of a registration, for the coverage.
pub(crate) const fn refusal(because: &RefusedBecause) -> &'static str {
    match because {
        RefusedBecause::Check { .. } => "model refused: proof rejected",
        RefusedBecause::NotDelivered => "model refused: not delivered in time",
    }
}
