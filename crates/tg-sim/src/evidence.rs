//! The model that all jobs name, what executing it gives, and evidence that is simulated: bytes that say which job, provider,
//! input and output they are about, and are right if that output is the right one. No arithmetic is proved by them; with
//! `--real-prover` it is.

use std::sync::{Arc, OnceLock};

use tg_exec::sample::random_model;
use tg_ledger::{EvidenceTask, ModelFacts, Outcome, SampleTask};
use tg_node::limits::{EVIDENCE_BYTES_MAX, MODEL_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX};
use tg_node::{BlobStore, CheckError, EvidenceChecker, ProofChecker};
use tg_prover::ProvingModel;
use tg_provider::ProvingWorker;
use tg_provider::worker::{Execution, Task, Worker as _};
use tg_types::{
    Address, Digest, JobId, Label, LeaseId, ModelId, ProgramId, Receipt, Tier, TileName,
    Transaction, VerificationMode, Vote,
};

/// Begins simulated evidence.
const MAGIC: &[u8] = b"tg-sim: simulated evidence, proves nothing\0";

/// Bytes of simulated evidence.
const LENGTH: usize = MAGIC.len() + 32 + 20 + 32 + 32 + 32;

/// What a member says of a result that is wrong, by simulation: nothing has tiles.
const WRONG_TILE: Vote = Vote::WrongTile(TileName { node: 0, leaf: 0 });

/// Code of a verdict on simulated evidence.
pub(crate) const CODE_SIMULATED: u16 = 9_000;

/// A small model that can be proved.
pub(crate) struct SampleModel {
    worker: ProvingWorker,
    pub(crate) id: ModelId,
    pub(crate) program: ProgramId,
    pub(crate) facts: ModelFacts,
    pub(crate) public: Vec<u8>,
    pub(crate) weights: Vec<u8>,
    pub(crate) input_len: usize,
    pub(crate) output_len: usize,
}

/// How a run's evidence is made and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proving {
    /// Simulated evidence and a stand-in for the checker.
    Simulated,
    /// The prover and the checker of production.
    Real,
}

/// The model, made once for all runs of a process: it takes a moment.
pub(crate) fn model() -> &'static SampleModel {
    static MODEL: OnceLock<SampleModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let (proving, weights) = (0..)
            .find_map(|seed| {
                let (compiled, _) = random_model(seed);
                let weights = tg_types::Encode::to_bytes(&compiled);
                Some((ProvingModel::new(compiled).ok()?, weights))
            })
            .expect("some small model can be proved");
        let public = proving.register().expect("it can be registered");
        let bytes = public.encode();
        let facts = facts(&public.id(), &bytes);
        SampleModel {
            id: public.id(),
            program: public.program_id(),
            input_len: facts.input_len as usize,
            output_len: facts.output_len as usize,
            facts,
            public: bytes,
            weights,
            worker: ProvingWorker::default(),
        }
    })
}

/// What the checker of production says of the model.
fn facts(id: &ModelId, public: &[u8]) -> ModelFacts {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let blobs = BlobStore::open(folder.path(), 1 << 30).expect("an empty folder is a store");
    let public_blob = blobs
        .put(public, PUBLIC_MODEL_BYTES_MAX)
        .expect("there is room for a small file");
    let task = EvidenceTask::Model {
        model: *id,
        public_blob,
    };
    match ProofChecker::default().check(&task, &blobs) {
        Ok(Outcome::ModelAccepted(facts)) => facts,
        other => panic!("the sample is a model that can be registered, got {other:?}"),
    }
}

impl SampleModel {
    /// The transaction that registers it.
    pub(crate) fn registration(&self) -> Transaction {
        Transaction::RegisterModel {
            model: self.id,
            public_blob: Digest::of_blob(&self.public),
            weights_blob: Digest::of_blob(&self.weights),
            name: Label::new("sample").expect("a short name"),
        }
    }

    /// Gives its files to a store.
    pub(crate) fn put(&self, store: &BlobStore) {
        for (bytes, limit) in [
            (&self.public, PUBLIC_MODEL_BYTES_MAX),
            (&self.weights, MODEL_BYTES_MAX),
        ] {
            store.put(bytes, limit).expect("there is room for a model");
        }
    }

    /// The right output for an input, by simulation: what the model gives is a hash of it.
    fn simulated_output(&self, input: &Digest) -> Vec<u8> {
        let mut output = vec![0; self.output_len];
        let mut hasher = blake3::Hasher::new_derive_key("TG/sim/output/v1");
        hasher.update(self.id.as_bytes());
        hasher.update(input.as_bytes());
        hasher.finalize_xof().fill(&mut output);
        output
    }

    /// What executing the model gives.
    pub(crate) fn execute(&self, input: &[u8], proving: Proving) -> Vec<u8> {
        match proving {
            Proving::Simulated => self.simulated_output(&Digest::of_blob(input)),
            Proving::Real => {
                let task = self.task((JobId::default(), Address::default()), input);
                self.executed(&task).output
            }
        }
    }

    /// A task of the worker of production.
    fn task(&self, (job, provider): (JobId, Address), input: &[u8]) -> Task {
        Task {
            lease: LeaseId::default(),
            job,
            provider,
            mode: VerificationMode::Proof,
            model: self.id,
            model_blob: Digest::of_blob(&self.weights),
            model_file: self.weights.as_slice().into(),
            input: input.into(),
        }
    }

    fn executed(&self, task: &Task) -> Execution {
        let executed = self.worker.execute(task, &|_| {});
        executed.expect("the model runs on any input of its length")
    }

    /// The receipt of a result.
    pub(crate) fn receipt(&self, input: &Digest, output: &[u8]) -> Receipt {
        Receipt {
            program: self.program,
            model: self.id,
            input: *input,
            output: Digest::of_blob(output),
            trace: Digest::default(),
            tier: Tier::Tgx1,
        }
    }

    /// Evidence for a result that a provider says it has.
    pub(crate) fn evidence(
        &self,
        (job, provider): (JobId, Address),
        (input, output): (&[u8], &[u8]),
        proving: Proving,
    ) -> Vec<u8> {
        match proving {
            Proving::Simulated => {
                let receipt = self.receipt(&Digest::of_blob(input), output);
                simulated(&job, &provider, &receipt)
            }
            Proving::Real => {
                let task = self.task((job, provider), input);
                let executed = self.executed(&task);
                let proved = self.worker.prove(&task, &executed, &|_| {});
                proved.expect("the model can be proved on any input of its length")
            }
        }
    }

    /// Whether a receipt says what is true of its input.
    pub(crate) fn is_right(
        &self,
        receipt: &Receipt,
        input: Option<&[u8]>,
        proving: Proving,
    ) -> bool {
        let output = match (proving, input) {
            (Proving::Simulated, _) => self.simulated_output(&receipt.input),
            (Proving::Real, Some(input)) => self.execute(input, proving),
            (Proving::Real, None) => return false,
        };
        receipt.output == Digest::of_blob(&output)
    }
}

fn simulated(job: &JobId, provider: &Address, receipt: &Receipt) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(job.as_bytes());
    bytes.extend_from_slice(provider.as_bytes());
    bytes.extend_from_slice(receipt.model.as_bytes());
    bytes.extend_from_slice(receipt.input.as_bytes());
    bytes.extend_from_slice(receipt.output.as_bytes());
    bytes
}

/// Stands in for the checker of production: takes simulated evidence only.
#[derive(Debug, Default)]
pub(crate) struct SimulatedChecker;

impl EvidenceChecker for SimulatedChecker {
    /// Whether the receipt is right; the bytes that stand for an opening show nothing.
    fn vote(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Vote, CheckError> {
        if !blobs.contains(&task.evidence) {
            return Err(CheckError::Missing {
                digest: task.evidence,
            });
        }
        Ok(
            match model().is_right(&task.receipt, None, Proving::Simulated) {
                true => Vote::Right,
                false => WRONG_TILE,
            },
        )
    }

    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        let model = model();
        match task {
            EvidenceTask::Model {
                model: id,
                public_blob,
            } => {
                if !blobs.contains(public_blob) {
                    return Err(CheckError::Missing {
                        digest: *public_blob,
                    });
                }
                Ok(if *id == model.id {
                    Outcome::ModelAccepted(model.facts)
                } else {
                    rejected("simulated: another model")
                })
            }
            // Dealings are real in every run.
            EvidenceTask::SeedKey { .. } | EvidenceTask::Seed { .. } => {
                ProofChecker::default().check(task, blobs)
            }
            EvidenceTask::Accusation { vote, sample } => {
                let found = self.vote(sample, blobs)?;
                Ok(if found == *vote && found != Vote::Right {
                    rejected("simulated: a wrong tile")
                } else {
                    Outcome::Refuted
                })
            }
            EvidenceTask::Lease {
                lease: _,
                job,
                provider,
                model: _,
                mode: _,
                public_blob: _,
                weights_blob: _,
                program: _,
                receipt,
                evidence,
                size,
            } => {
                let bytes = blobs.get(evidence, EVIDENCE_BYTES_MAX)?;
                let Some(bytes) = bytes else {
                    return Err(CheckError::Missing { digest: *evidence });
                };
                let fits = bytes.len() == *size as usize
                    && bytes.len() == LENGTH
                    && bytes == simulated(job, provider, receipt);
                let holds = fits && model.is_right(receipt, None, Proving::Simulated);
                Ok(if holds {
                    Outcome::LeaseAccepted
                } else {
                    rejected("simulated: not the result of this job")
                })
            }
        }
    }
}

fn rejected(check: &str) -> Outcome {
    Outcome::Rejected {
        code: CODE_SIMULATED,
        check: Label::new(check).expect("a short name"),
    }
}

/// Says the opposite of what another checker finds.
#[derive(Debug)]
pub(crate) struct LyingChecker(pub(crate) Arc<dyn EvidenceChecker>);

impl EvidenceChecker for LyingChecker {
    fn vote(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Vote, CheckError> {
        Ok(match self.0.vote(task, blobs)? {
            Vote::Right => WRONG_TILE,
            Vote::WrongForm | Vote::WrongTile(_) => Vote::Right,
        })
    }

    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        let outcome = self.0.check(task, blobs)?;
        Ok(match (task, outcome) {
            (EvidenceTask::Model { .. }, Outcome::Rejected { .. }) => {
                Outcome::ModelAccepted(model().facts)
            }
            (EvidenceTask::Lease { .. }, Outcome::Rejected { .. }) => Outcome::LeaseAccepted,
            (_, Outcome::Rejected { .. }) => Outcome::Refuted,
            (
                _,
                Outcome::ModelAccepted(_)
                | Outcome::LeaseAccepted
                | Outcome::ProgramAccepted { .. }
                | Outcome::SeedKey(_)
                | Outcome::Seed(_)
                | Outcome::Refuted,
            ) => rejected("simulated: a lie"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_evidence_holds_for_its_job_provider_and_result_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let blobs = BlobStore::open(folder.path(), 1 << 30).expect("a store");
        let model = model();
        let (job, other) = (JobId::new([1; 32]), JobId::new([2; 32]));
        let (provider, thief) = (Address::new([3; 20]), Address::new([4; 20]));
        let input = vec![7; model.input_len];
        let output = model.execute(&input, Proving::Simulated);
        let receipt = model.receipt(&Digest::of_blob(&input), &output);
        let bytes = model.evidence((job, provider), (&input, &output), Proving::Simulated);
        let check = |job, provider, receipt: &Receipt, bytes: &[u8]| {
            let evidence = blobs.put(bytes, EVIDENCE_BYTES_MAX).expect("room");
            let task = EvidenceTask::Lease {
                lease: tg_types::LeaseId::new([5; 32]),
                job,
                provider,
                model: model.id,
                mode: VerificationMode::Proof,
                public_blob: Digest::default(),
                weights_blob: Digest::default(),
                program: model.program,
                receipt: Box::new(receipt.clone()),
                evidence,
                size: u32::try_from(bytes.len()).expect("small"),
            };
            let honest = SimulatedChecker.check(&task, &blobs).expect("it is here");
            let liar = LyingChecker(Arc::new(SimulatedChecker));
            let lie = liar.check(&task, &blobs).expect("it is here");
            assert_ne!(honest, lie);
            honest == Outcome::LeaseAccepted
        };
        assert!(check(job, provider, &receipt, &bytes));
        assert!(!check(other, provider, &receipt, &bytes));
        assert!(!check(job, thief, &receipt, &bytes));
        assert!(!check(job, provider, &receipt, &bytes[1..]));
        let mut wrong = output;
        wrong[0] ^= 1;
        let receipt = model.receipt(&Digest::of_blob(&input), &wrong);
        let bytes = model.evidence((job, provider), (&input, &wrong), Proving::Simulated);
        assert!(!check(job, provider, &receipt, &bytes));
    }
}
