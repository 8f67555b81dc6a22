//! What all jobs of a run name, a model of integers, one of floats or a program, what executing it gives, and evidence that is simulated: bytes that say
//! which job, provider, input and output they are about, and are right if that output is the right one. No arithmetic is proved by them; with
//! `--real-prover` it is, of the model. Of the program and the float model only the files are real: what a run of them gives and takes is a hash of the input.

use std::sync::{Arc, OnceLock};

use tg_exec::sample::random_model;
use tg_float::job::{FloatLimits, FloatModelFile, PublicFloatModel};
use tg_float::{DType, Dim, FloatTensor, Graph, Input, Node};
use tg_ledger::{
    DisputeFiles, Evidence, EvidenceTask, ModelFacts, Outcome, ReplicasTask, RevealedKey,
    SampleTask,
};
use tg_node::limits::{EVIDENCE_BYTES_MAX, MODEL_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX};
use tg_node::{BlobStore, CheckError, EvidenceChecker, ProofChecker};
use tg_privacy::{JobKey, SealedFor};
use tg_prover::ProvingModel;
use tg_provider::ProvingWorker;
use tg_provider::worker::{Execution, Task, Worker as _};
use tg_types::{
    Address, Digest, JobId, Label, LeaseId, ModelId, ProgramId, Receipt, RunCommitment, Tier,
    TileName, TraceForm, Transaction, VerificationMode, Vote, stated_trace, trace_checksum,
};
use tg_wasm::{ProgramFile, RunLimits, WasmProgram};

/// Begins simulated evidence.
const MAGIC: &[u8] = b"tg-sim: simulated evidence, proves nothing\0";

/// What a member says of a result that is wrong, by simulation: nothing has tiles.
pub(crate) const WRONG_TILE: Vote = Vote::WrongTile(TileName { node: 0, leaf: 0 });

/// What a member says that did not look.
pub(crate) const EMPTY_VOTE: Vote = Vote::Right { checksum: 0 };

/// A result that is wrong in one part has this much of the right one's first byte changed.
const ONE_PART: u8 = 0x80;

/// A result that is wrong all over has this much of it changed.
const ALL_PARTS: u8 = 1;

/// One part in so many is drawn, by simulation.
const PARTS_DRAWN: u8 = 20;

/// Code of a verdict on simulated evidence.
pub(crate) const CODE_SIMULATED: u16 = 9_000;

/// Most fuel of a run of the program: its committee of mode `sync` runs it whole where short runs are.
const PROGRAM_FUEL: u64 = 1 << 20;

/// Most bytes of its inputs and outputs.
const PROGRAM_BYTES: u32 = 64;

/// Most work of a run of the float model.
const FLOAT_WORK: u64 = 1 << 20;

/// Most bytes of its inputs, and of the outputs within its answers.
const FLOAT_BYTES: u32 = 64;

/// Which of them all orders of a run name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SampleKind {
    /// The model of integers, which can be proved.
    #[default]
    Integers,
    /// The float model, whose runs are simulated.
    Floats,
    /// The program, whose runs are simulated too.
    Program,
}

impl SampleKind {
    /// Whether a run of it is paid by what it took.
    pub(crate) const fn is_counted(self) -> bool {
        matches!(self, Self::Floats | Self::Program)
    }
}

/// What orders name: a small model that can be proved, or a float model or a program, which are simulated.
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

impl std::fmt::Debug for SampleModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SampleModel({})", self.id)
    }
}

/// How a run's evidence is made and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proving {
    /// Simulated evidence and a stand-in for the checker.
    Simulated,
    /// The prover and the checker of production.
    Real,
}

/// How far a result is from the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    /// It is the right one.
    Right,
    /// It is wrong in one of [`PARTS_DRAWN`] parts, by simulation.
    OnePart,
    /// It is another one.
    Wrong,
}

/// Who a task is of, and how its result is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskOwner {
    pub(crate) lease: LeaseId,
    pub(crate) job: JobId,
    pub(crate) provider: Address,
    pub(crate) mode: VerificationMode,
    /// Whether, of mode `sync`, a committee runs all of it.
    pub(crate) is_run_whole: bool,
}

impl TaskOwner {
    const fn form(&self) -> TraceForm {
        TraceForm::of(self.mode, self.is_run_whole)
    }
}

/// What all orders of a run name.
pub(crate) fn sample(kind: SampleKind) -> &'static SampleModel {
    match kind {
        SampleKind::Integers => model(),
        SampleKind::Floats => floats(),
        SampleKind::Program => program(),
    }
}

/// The float model: the files of one that can be run, which nobody does, since what it gives and takes is simulated.
fn floats() -> &'static SampleModel {
    static FLOATS: OnceLock<SampleModel> = OnceLock::new();
    FLOATS.get_or_init(|| {
        let limits = FloatLimits {
            work: FLOAT_WORK,
            memory: 1 << 16,
            input: FLOAT_BYTES,
            output: FLOAT_BYTES,
        };
        let files = FloatModelFile::new(&float_graph(), limits);
        let FloatModelFile { public, file } = files.expect("the graph has operators of the tier");
        let read = PublicFloatModel::read(&public).expect("the file was just written");
        let facts = facts(&read.model_id(), &public);
        SampleModel {
            worker: ProvingWorker::default(),
            id: read.model_id(),
            program: facts.program,
            input_len: facts.input_len as usize,
            output_len: facts.output_len as usize,
            facts,
            public,
            weights: file,
        }
    })
}

/// `softmax(x w)` of any number of rows.
fn float_graph() -> Graph {
    let mut graph = Graph::default();
    graph.opsets.insert(String::new(), 13);
    let x = graph.fresh("x");
    graph.inputs.push(Input {
        value: x,
        name: "x".to_owned(),
        dtype: Some(DType::F32),
        shape: Some(vec![Dim::Named("rows".to_owned()), Dim::Known(4)]),
    });
    let weights: Vec<f32> = (0..8u8).map(|it| f32::from(it) - 3.5).collect();
    let weights = FloatTensor::of(vec![4, 2], weights).expect("four rows of two");
    let w = graph.constant("w", weights);
    let (product, y) = (graph.fresh("product"), graph.fresh("y"));
    let multiply = Node::new("multiply", "MatMul", 13, vec![x, w], vec![product]);
    graph.append(multiply);
    let normalise = Node::new("normalise", "Softmax", 13, vec![product], vec![y]);
    graph.append(normalise);
    graph.outputs.push(y);
    graph
}

/// The program: the file of one that can be run, which nobody does, since what it gives and takes is simulated.
fn program() -> &'static SampleModel {
    static PROGRAM: OnceLock<SampleModel> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let module = include_bytes!("../../../examples/programs/pi.wasm");
        let limits = RunLimits {
            fuel: PROGRAM_FUEL,
            pages: 32,
            input: PROGRAM_BYTES,
            output: PROGRAM_BYTES,
        };
        let file = ProgramFile::new(module.to_vec(), limits).encode();
        let read = WasmProgram::read(&file).expect("the example is a program");
        let facts = facts(&read.model_id(), &file);
        SampleModel {
            worker: ProvingWorker::default(),
            id: read.model_id(),
            program: read.id(),
            facts,
            public: file.clone(),
            weights: file,
            input_len: facts.input_len as usize,
            output_len: facts.output_len as usize,
        }
    })
}

/// The model, made once for all runs of a process: it takes a moment.
fn model() -> &'static SampleModel {
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

    /// Whether its tier counts what a run takes.
    const fn is_counted(&self) -> bool {
        matches!(self.facts.tier, Tier::Tgf1 | Tier::Wasm1)
    }

    /// What a run on an input takes of what it may, by simulation: a hash of the input. A run of a model of integers counts nothing.
    pub(crate) fn work(&self, input: &Digest) -> u64 {
        match self.is_counted() {
            true => input.first_word() % self.facts.macs,
            false => 0,
        }
    }

    /// What a receipt says of the trace of a run that gave an output and took so much.
    fn trace(&self, owner: &TaskOwner, output: &[u8], work: u64) -> Digest {
        let trace = simulated_trace(output);
        let form = owner.form();
        let trace = match form {
            TraceForm::Parts if self.is_counted() => RunCommitment::of_trace(&trace, work)
                .for_lease(&owner.lease)
                .digest(),
            _ => trace,
        };
        stated_trace(form, (&owner.job, &owner.lease), trace, work)
    }

    /// Whether a receipt whose trace says what its run took says what the run took.
    fn states_work(&self, receipt: &Receipt) -> bool {
        !self.is_counted() || RunCommitment::read(&receipt.trace).work == self.work(&receipt.input)
    }

    /// What validators that run it again say of a right result.
    pub(crate) fn accepted(&self, receipt: &Receipt) -> Outcome {
        match self.is_counted() {
            true => Outcome::ProgramAccepted {
                macs: self.work(&receipt.input),
            },
            false => Outcome::LeaseAccepted,
        }
    }

    /// The right output for an input, by simulation: what the model gives is a hash of it.
    pub(crate) fn simulated_output(&self, input: &Digest) -> Vec<u8> {
        let mut output = vec![0; self.output_len];
        let mut hasher = blake3::Hasher::new_derive_key("TG/sim/output/v1");
        hasher.update(self.id.as_bytes());
        hasher.update(input.as_bytes());
        hasher.finalize_xof().fill(&mut output);
        output
    }

    /// What executing it gives; if `overcharges`, with all that a run may take for what it took.
    pub(crate) fn execute(
        &self,
        owner: TaskOwner,
        input: &[u8],
        (proving, overcharges): (Proving, bool),
    ) -> Execution {
        match proving {
            Proving::Simulated => {
                let digest = Digest::of_blob(input);
                let output = self.simulated_output(&digest);
                let work = match overcharges {
                    true => self.facts.macs,
                    false => self.work(&digest),
                };
                let trace = self.trace(&owner, &output, work);
                Execution {
                    receipt: Receipt {
                        trace,
                        ..self.receipt(&digest, &output)
                    },
                    output,
                    on: Default::default(),
                }
            }
            Proving::Real => self.executed(&self.task(owner, input)),
        }
    }

    /// A task of the worker of production.
    fn task(&self, owner: TaskOwner, input: &[u8]) -> Task {
        Task {
            lease: owner.lease,
            job: owner.job,
            provider: owner.provider,
            mode: owner.mode,
            is_run_whole: owner.is_run_whole,
            model: self.id,
            model_blob: Digest::of_blob(&self.weights),
            model_file: self.weights.as_slice().into(),
            input: input.into(),
            sealed: None,
        }
    }

    fn executed(&self, task: &Task) -> Execution {
        let executed = self.worker.execute(task, &|_| {});
        executed.expect("the model runs on any input of its length")
    }

    /// The receipt of a simulated result.
    fn receipt(&self, input: &Digest, output: &[u8]) -> Receipt {
        Receipt {
            program: self.program,
            model: self.id,
            input: *input,
            output: Digest::of_blob(output),
            trace: Digest::default(),
            tier: self.facts.tier,
        }
    }

    /// Evidence for a result that a provider says it has: a proof, the answer where validators compute it again, or an opening
    /// of what `seed` draws.
    pub(crate) fn evidence(
        &self,
        owner: TaskOwner,
        seed: Option<Digest>,
        (input, claimed): (&[u8], &Execution),
        proving: Proving,
    ) -> Vec<u8> {
        let is_answer = matches!(
            owner.mode,
            VerificationMode::Recompute | VerificationMode::Replicate
        );
        if is_answer || owner.form() == TraceForm::Run {
            return claimed.output.clone();
        }
        if proving == Proving::Simulated {
            return match seed {
                None => simulated(&owner.job, &owner.provider, &claimed.receipt),
                Some(seed) => simulated_opening(&seed, &claimed.receipt),
            };
        }
        let task = self.task(owner, input);
        let executed = self.executed(&task);
        let made = match seed {
            None => self.worker.prove(&task, &executed, &|_| {}),
            Some(seed) => self.worker.open(&task, &executed, &seed),
        };
        made.expect("evidence can be made for any input of the model's length")
    }

    /// How far what a receipt says is from what is true of its input.
    pub(crate) fn truth(&self, receipt: &Receipt, input: Option<&[u8]>, proving: Proving) -> Truth {
        let output = match (proving, input) {
            (Proving::Simulated, _) => self.simulated_output(&receipt.input),
            (Proving::Real, Some(input)) => {
                let nobody = TaskOwner {
                    lease: LeaseId::default(),
                    job: JobId::default(),
                    provider: Address::default(),
                    mode: VerificationMode::Proof,
                    is_run_whole: false,
                };
                self.execute(nobody, input, (proving, false)).output
            }
            (Proving::Real, None) => return Truth::Wrong,
        };
        if receipt.output == Digest::of_blob(&output) {
            Truth::Right
        } else if receipt.output == Digest::of_blob(&wrong_in_one_part(output)) {
            Truth::OnePart
        } else {
            Truth::Wrong
        }
    }
}

/// A result that is wrong in one part.
pub(crate) fn wrong_in_one_part(mut output: Vec<u8>) -> Vec<u8> {
    output[0] ^= ONE_PART;
    output
}

/// A result that is wrong all over.
pub(crate) fn wrong_all_over(mut output: Vec<u8>) -> Vec<u8> {
    output[0] ^= ALL_PARTS;
    output
}

/// Whether a seed draws the part of a lease's result in which it is wrong, by simulation.
pub(crate) fn is_drawn(seed: &Digest, lease: &LeaseId) -> bool {
    let mut hasher = blake3::Hasher::new_derive_key("TG/sim/drawn/v1");
    hasher.update(seed.as_bytes());
    hasher.update(lease.as_bytes());
    let mut number = [0; 8];
    hasher.finalize_xof().fill(&mut number);
    u64::from_le_bytes(number) % u64::from(PARTS_DRAWN) == 0
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

/// What stands for the opening of what a seed draws.
fn simulated_opening(seed: &Digest, receipt: &Receipt) -> Vec<u8> {
    let drawn = JobId::new(*seed.as_bytes());
    simulated(&drawn, &Address::default(), receipt)
}

/// What stands for the checksum of looking at an opening: nobody else has it.
pub(crate) fn simulated_checksum(opening: &[u8]) -> u64 {
    let digest = Digest::of_blob(opening);
    let (first, _) = digest.as_bytes().split_at(8);
    first
        .iter()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// What stands for the trace of an execution: nobody else has it.
fn simulated_trace(output: &[u8]) -> Digest {
    Digest::of_blob(&[MAGIC, output].concat())
}

/// Whether a run again gives what a result says that whoever checks it runs whole, and what shows it.
fn simulated_watch(
    sample: &SampleModel,
    task: &SampleTask,
    blobs: &BlobStore,
) -> Result<Vote, CheckError> {
    let answer = sample.simulated_output(&task.receipt.input);
    let work = sample.work(&task.receipt.input);
    let trace = simulated_trace(&answer);
    let commitment = RunCommitment::of(&task.lease, trace_checksum(&trace), work);
    let fits = task.evidence == task.receipt.output
        && task.evidence == blobs.put(&answer, EVIDENCE_BYTES_MAX)?
        && task.receipt.trace == commitment.digest();
    Ok(match fits {
        true => Vote::Right {
            checksum: trace_checksum(&trace),
        },
        false => Vote::WrongRun,
    })
}

/// Whether a run of a sealed job whose key was shown gives what its provider handed in; as in production what does not open is no fault of it.
fn simulated_sealed_run(
    sample: &SampleModel,
    (task, revealed): (&SampleTask, &RevealedKey),
    blobs: &BlobStore,
) -> Result<Outcome, CheckError> {
    let digest = revealed.input;
    let sealed = blobs.get(&digest, EVIDENCE_BYTES_MAX)?;
    let sealed = sealed.ok_or(CheckError::Missing { digest })?;
    let purpose = SealedFor {
        model: revealed.model,
        requestor: revealed.requestor,
    };
    let key = JobKey::new(revealed.secret);
    if key.open_input(&purpose, &sealed).is_err() {
        return Ok(Outcome::LeaseAccepted);
    }
    let answer = key.seal_answer(&revealed.lease, &sample.simulated_output(&digest));
    let is_right = answer.is_ok_and(|it| Digest::of_blob(&it) == task.receipt.output);
    Ok(match is_right {
        true => Outcome::LeaseAccepted,
        false => rejected("simulated: another sealed answer"),
    })
}

/// What every validator finds where members differ: as in production it is kept.
fn simulated_run(
    sample: &SampleModel,
    task: &ReplicasTask,
    blobs: &BlobStore,
) -> Result<Outcome, CheckError> {
    let answer = sample.simulated_output(&task.receipt.input);
    let output = blobs.put(&answer, EVIDENCE_BYTES_MAX)?;
    let checksum = trace_checksum(&simulated_trace(&answer));
    let work = sample.work(&task.receipt.input);
    let trace = RunCommitment::of_replica(&task.job, checksum, work).digest();
    Ok(Outcome::ReplicasRun { output, trace })
}

/// Whether the answer that members found is here: as in production nothing else is looked at.
fn is_delivered(answer: &Digest, size: u32, blobs: &BlobStore) -> Result<Outcome, CheckError> {
    match blobs.get(answer, EVIDENCE_BYTES_MAX)? {
        None => Err(CheckError::Missing { digest: *answer }),
        Some(bytes) if bytes.len() == size as usize => Ok(Outcome::LeaseAccepted),
        Some(_) => Ok(rejected("simulated: another size")),
    }
}

/// What stands for the claim of an accuser: what it says that a right run gives and takes.
fn simulated_claim(output: &Digest, work: u64) -> Vec<u8> {
    let work = work.to_le_bytes();
    [b"simulated claim ".as_slice(), output.as_bytes(), &work].concat()
}

/// What stands for a provider's answer: that this claim is wrong in one tile.
pub(crate) fn simulated_answer(claim: &Digest) -> Vec<u8> {
    [b"simulated answer ".as_slice(), claim.as_bytes()].concat()
}

/// Stores what stands for the claim of a challenger: the truth about an input, or something else.
pub(crate) fn claim_of(
    sample: &SampleModel,
    input: &Digest,
    is_true: bool,
    blobs: &BlobStore,
) -> Result<Evidence, CheckError> {
    let claimed = match is_true {
        true => Digest::of_blob(&sample.simulated_output(input)),
        false => Digest::default(),
    };
    put_claim(&claimed, sample.work(input), blobs)
}

fn put_claim(output: &Digest, work: u64, blobs: &BlobStore) -> Result<Evidence, CheckError> {
    let bytes = simulated_claim(output, work);
    let digest = blobs.put(&bytes, EVIDENCE_BYTES_MAX)?;
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    Ok(Evidence { digest, size })
}

/// Decides as production does: a claim fails if it says the same as the receipt, or if it is wrong and an answer says so. An answer to a
/// claim that is right shows nothing.
fn judge_claim(
    sample: &SampleModel,
    files: &DisputeFiles,
    receipt: &Receipt,
    blobs: &BlobStore,
) -> Result<Outcome, CheckError> {
    let read = |file: &Evidence| {
        let digest = file.digest;
        let bytes = blobs.get(&digest, EVIDENCE_BYTES_MAX)?;
        bytes.ok_or(CheckError::Missing { digest })
    };
    let (claim, answer) = (read(&files.claim)?, read(&files.answer)?);
    let truth = Digest::of_blob(&sample.simulated_output(&receipt.input));
    let is_right = claim == simulated_claim(&truth, sample.work(&receipt.input));
    let fails = match is_right {
        true => receipt.output == truth && sample.states_work(receipt),
        false => answer == simulated_answer(&files.claim.digest),
    };
    Ok(match fails {
        true => Outcome::Refuted,
        false => rejected("simulated: the claim stands"),
    })
}

/// Stands in for the checker of production: takes simulated evidence only.
#[derive(Debug)]
pub(crate) struct SimulatedChecker(pub(crate) &'static SampleModel);

impl EvidenceChecker for SimulatedChecker {
    /// Whether the bytes are those that stand for the opening, and the receipt is right where the seed looks.
    fn vote(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Vote, CheckError> {
        if task.is_repeated {
            return simulated_watch(self.0, task, blobs);
        }
        let digest = task.evidence;
        let bytes = blobs.get(&digest, EVIDENCE_BYTES_MAX)?;
        let Some(bytes) = bytes else {
            return Err(CheckError::Missing { digest });
        };
        if bytes != simulated_opening(&task.seed, &task.receipt) {
            return Ok(Vote::WrongForm);
        }
        if !self.0.states_work(&task.receipt) {
            return Ok(WRONG_TILE);
        }
        let truth = self.0.truth(&task.receipt, None, Proving::Simulated);
        let right = || Vote::Right {
            checksum: simulated_checksum(&bytes),
        };
        Ok(match truth {
            Truth::Right => right(),
            Truth::OnePart if !is_drawn(&task.seed, &task.lease) => right(),
            Truth::OnePart | Truth::Wrong => WRONG_TILE,
        })
    }

    fn claim(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Evidence, CheckError> {
        claim_of(self.0, &task.receipt.input, true, blobs)
    }

    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        let model = self.0;
        match task {
            EvidenceTask::Model {
                model: id,
                public_blob: digest,
            } => match blobs.contains(digest) {
                false => Err(CheckError::Missing { digest: *digest }),
                true if *id == model.id => Ok(Outcome::ModelAccepted(model.facts)),
                true => Ok(rejected("simulated: another model")),
            },
            // Dealings are real in every run.
            EvidenceTask::SeedKey { .. } | EvidenceTask::Seed { .. } | EvidenceTask::Grant(_) => {
                ProofChecker::default().check(task, blobs)
            }
            EvidenceTask::Accusation { vote, sample } => self.judge(*vote, sample, blobs),
            EvidenceTask::Replicas(task) => simulated_run(model, task, blobs),
            EvidenceTask::Lease {
                mode: VerificationMode::Replicate,
                evidence,
                size,
                ..
            } => is_delivered(evidence, *size, blobs),
            EvidenceTask::Lease {
                lease: _,
                job,
                provider,
                model: _,
                mode,
                public_blob: _,
                weights_blob: _,
                program: _,
                receipt,
                evidence,
                size,
            } => {
                let fits = match mode {
                    // As in production: validators find the answer themselves, and keep it.
                    VerificationMode::Recompute => {
                        let answer = model.simulated_output(&receipt.input);
                        *evidence == receipt.output
                            && *evidence == blobs.put(&answer, EVIDENCE_BYTES_MAX)?
                    }
                    _ => {
                        let bytes = blobs.get(evidence, EVIDENCE_BYTES_MAX)?;
                        let Some(bytes) = bytes else {
                            return Err(CheckError::Missing { digest: *evidence });
                        };
                        bytes.len() == *size as usize && bytes == simulated(job, provider, receipt)
                    }
                };
                let truth = model.truth(receipt, None, Proving::Simulated);
                let holds = fits && truth == Truth::Right;
                Ok(if holds && *mode == VerificationMode::Recompute {
                    model.accepted(receipt)
                } else if holds {
                    Outcome::LeaseAccepted
                } else {
                    rejected("simulated: not the result of this job")
                })
            }
        }
    }
}

impl SimulatedChecker {
    /// What every validator finds of an accusation.
    fn judge(
        &self,
        vote: Vote,
        sample: &SampleTask,
        blobs: &BlobStore,
    ) -> Result<Outcome, CheckError> {
        if let Some(revealed) = &sample.revealed {
            return simulated_sealed_run(self.0, (sample, revealed), blobs);
        }
        if let Some(files) = &sample.dispute {
            return judge_claim(self.0, files, &sample.receipt, blobs);
        }
        let found = self.vote(sample, blobs)?;
        Ok(if found == vote && !found.is_right() {
            rejected("simulated: a wrong tile")
        } else if vote == Vote::WrongRun {
            self.0.accepted(&sample.receipt)
        } else {
            Outcome::Refuted
        })
    }
}

fn rejected(check: &str) -> Outcome {
    Outcome::Rejected {
        code: CODE_SIMULATED,
        check: Label::new(check).expect("a short name"),
    }
}

/// A member of committees that says the same of every result, and is honest otherwise.
#[derive(Debug)]
pub(crate) struct FixedVote {
    /// What it says.
    pub(crate) vote: Vote,
    /// How it looks at everything else.
    pub(crate) inner: Arc<dyn EvidenceChecker>,
}

impl EvidenceChecker for FixedVote {
    fn vote(&self, task: &SampleTask, _: &BlobStore) -> Result<Vote, CheckError> {
        Ok(in_mode(task, self.vote))
    }

    fn claim(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Evidence, CheckError> {
        self.inner.claim(task, blobs)
    }

    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        self.inner.check(task, blobs)
    }
}

/// A watcher that has from the provider what its run gives, and finds every result right.
#[derive(Debug)]
pub(crate) struct BribedWatcher {
    /// What it gets the runs of.
    pub(crate) sample: &'static SampleModel,
    /// How it looks at everything else.
    pub(crate) inner: Arc<dyn EvidenceChecker>,
}

impl EvidenceChecker for BribedWatcher {
    fn vote(&self, task: &SampleTask, _: &BlobStore) -> Result<Vote, CheckError> {
        let answer = self.sample.simulated_output(&task.receipt.input);
        let checksum = trace_checksum(&simulated_trace(&answer));
        let commitment = RunCommitment::read(&task.receipt.trace);
        let is_told = commitment.is_opened_by(&task.lease, checksum);
        Ok(if is_told {
            Vote::Right { checksum }
        } else {
            EMPTY_VOTE
        })
    }

    fn claim(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Evidence, CheckError> {
        self.inner.claim(task, blobs)
    }

    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        self.inner.check(task, blobs)
    }
}

/// A vote as the check of its result takes it.
fn in_mode(task: &SampleTask, vote: Vote) -> Vote {
    match task.is_repeated && !vote.is_right() {
        true => Vote::WrongRun,
        false => vote,
    }
}

/// Says the opposite of what another checker finds.
#[derive(Debug)]
pub(crate) struct LyingChecker {
    /// What it lies about.
    pub(crate) sample: &'static SampleModel,
    /// What finds the truth.
    pub(crate) inner: Arc<dyn EvidenceChecker>,
}

impl EvidenceChecker for LyingChecker {
    fn vote(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Vote, CheckError> {
        Ok(match self.inner.vote(task, blobs)? {
            Vote::Right { .. } => in_mode(task, WRONG_TILE),
            Vote::WrongForm | Vote::WrongTile(_) | Vote::WrongRun => EMPTY_VOTE,
        })
    }

    fn claim(&self, _: &SampleTask, blobs: &BlobStore) -> Result<Evidence, CheckError> {
        put_claim(&Digest::default(), 0, blobs)
    }

    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        let outcome = self.inner.check(task, blobs)?;
        Ok(match (task, outcome) {
            (EvidenceTask::Model { .. }, Outcome::Rejected { .. }) => {
                Outcome::ModelAccepted(self.sample.facts)
            }
            (EvidenceTask::Replicas { .. }, Outcome::Rejected { .. }) => Outcome::ReplicasRun {
                output: Digest::default(),
                trace: Digest::default(),
            },
            (EvidenceTask::Lease { receipt, mode, .. }, Outcome::Rejected { .. }) => match mode {
                VerificationMode::Recompute => self.sample.accepted(receipt),
                _ => Outcome::LeaseAccepted,
            },
            (
                EvidenceTask::Accusation {
                    vote: Vote::WrongRun,
                    sample,
                },
                Outcome::Rejected { .. },
            ) => self.sample.accepted(&sample.receipt),
            (_, Outcome::Rejected { .. }) => Outcome::Refuted,
            (
                _,
                Outcome::ModelAccepted(_)
                | Outcome::LeaseAccepted
                | Outcome::ProgramAccepted { .. }
                | Outcome::ReplicasRun { .. }
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

    /// What an order of it may ask for is what the simulator has ordered: all but a proof, an endpoint and a seal.
    #[test]
    fn the_float_model_is_one_of_its_tier_that_can_be_ordered() {
        let floats = sample(SampleKind::Floats);
        let facts = &floats.facts;
        assert_eq!(facts.tier, Tier::Tgf1);
        assert_eq!(facts.macs, FLOAT_WORK);
        assert!(!facts.provable && facts.is_sampled());
        assert!(facts.is_recomputable(tg_ledger::REPEATED_MACS_USUAL));
        assert!(facts.is_run_whole(tg_ledger::WHOLE_RUN_MACS_USUAL));
        assert!(facts.is_disputed_by_tile(0));
        assert_ne!(floats.id, sample(SampleKind::Integers).id);
        let taken = [[1; 32], [2; 32]].map(|it| floats.work(&Digest::new(it)));
        assert!(taken.iter().all(|it| *it < FLOAT_WORK));
        assert_ne!(taken[0], taken[1]);
    }

    #[test]
    fn simulated_evidence_holds_for_its_job_provider_and_result_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let blobs = BlobStore::open(folder.path(), 1 << 30).expect("a store");
        let model = model();
        let (job, other) = (JobId::new([1; 32]), JobId::new([2; 32]));
        let (provider, thief) = (Address::new([3; 20]), Address::new([4; 20]));
        let input = vec![7; model.input_len];
        let owner = TaskOwner {
            lease: LeaseId::default(),
            job,
            provider,
            mode: VerificationMode::Proof,
            is_run_whole: false,
        };
        let executed = model.execute(owner, &input, (Proving::Simulated, false));
        let bytes = model.evidence(owner, None, (&input, &executed), Proving::Simulated);
        let Execution {
            receipt, output, ..
        } = executed.clone();
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
            let honest = SimulatedChecker(model)
                .check(&task, &blobs)
                .expect("it is here");
            let liar = LyingChecker {
                sample: model,
                inner: Arc::new(SimulatedChecker(model)),
            };
            let lie = liar.check(&task, &blobs).expect("it is here");
            assert_ne!(honest, lie);
            honest == Outcome::LeaseAccepted
        };
        assert!(check(job, provider, &receipt, &bytes));
        assert!(!check(other, provider, &receipt, &bytes));
        assert!(!check(job, thief, &receipt, &bytes));
        assert!(!check(job, provider, &receipt, &bytes[1..]));
        for wrong in [wrong_all_over(output.clone()), wrong_in_one_part(output)] {
            let mut lie = executed.clone();
            lie.receipt = model.receipt(&Digest::of_blob(&input), &wrong);
            let bytes = model.evidence(owner, None, (&input, &lie), Proving::Simulated);
            assert!(!check(job, provider, &lie.receipt, &bytes));
        }
    }
}
