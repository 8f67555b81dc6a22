//! What a validator does with a model, measured: it reads the registration, evidence about the model, and its files.

use std::time::Duration;

use tg_exec::IntTensor;
use tg_ir::{CompiledModel, Program, Weights};
use tg_ledger::{EvidenceTask, Outcome};
use tg_node::limits::{EVIDENCE_BYTES_MAX, MODEL_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX};
use tg_node::storage::{self, Holding};
use tg_node::{BlobStore, EvidenceChecker, ProofChecker};
use tg_proof::cost::MEMORY_MAX;
use tg_proof::model::ProofShape;
use tg_proof::plan::{Plan, PlanError};
use tg_proof::{Modes, ProofFile, PublicModel, Statement, Visibility};
use tg_prover::{Masking, ProveRequest, ProvingModel, prove};
use tg_types::{
    Address, Digest, Encode as _, JobId, LeaseId, ModelId, Receipt, Tier, VerificationMode,
    codec::Writer,
};

use crate::allocations;

const JOB: JobId = JobId::new([7; 32]);
const PROVIDER: Address = Address::new([9; 20]);
/// A model whose root stands for those that nobody can make a true registration of.
const KNOWN: &[u8] = include_bytes!("../../../tg-proof/tests/data/mlp-digits.tgv");

/// One thing that a validator does.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    /// What.
    pub(crate) what: &'static str,
    /// What it finds.
    pub(crate) verdict: String,
    /// Processor time of the thread, less that of one BLAKE3 of the bytes.
    pub(crate) time: Duration,
    /// Most bytes held, above those before anything of the model was looked at.
    pub(crate) bytes: u64,
    /// Bytes that [`VerifierCost::memory`] says, if the program is known.
    pub(crate) declared: Option<u64>,
}

/// Bytes that are declared of a phase: of the model's own plan, and of that of another kind of proof, which is held beside it.
/// A plan that is refused was within its limit before.
fn declared_of(program: &Program, what: &str) -> Option<u64> {
    let program = program.check().ok()?;
    let memory = |plan: Result<Plan, PlanError>| plan.map_or(MEMORY_MAX, |plan| plan.cost.memory());
    let other = match what {
        "garbage, batch of 2" => memory(Plan::batched(program, 2)),
        "garbage, batch of 1024" => memory(Plan::batched(program, 1_024)),
        "garbage, masked" | "masked proof" => memory(Plan::hidden(program, 1, Modes::PUBLIC)),
        "garbage, hidden input" => memory(Plan::hidden(program, 1, Modes::HIDDEN_INPUT)),
        "garbage, masked batch of 32" => memory(Plan::hidden(program, 32, Modes::PUBLIC)),
        _ => 0,
    };
    Some(memory(Plan::new(program)) + other)
}

/// How much of what could be proved is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Most work of a proof that is made, in multiply-adds as [`tg_proof::Facts`] counts them.
    pub(crate) work_max: u64,
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// What a validator does, in order.
pub(crate) struct Measured {
    pub(crate) phases: Vec<Phase>,
    checker: ProofChecker,
    blobs: BlobStore,
    before: isize,
    _folder: tempfile::TempDir,
}

impl Measured {
    fn new() -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        let folder = folder.unwrap();
        Self {
            phases: Vec::new(),
            checker: ProofChecker::default(),
            blobs: BlobStore::open(folder.path(), 1 << 30).unwrap(),
            before: 0,
            _folder: folder,
        }
    }

    fn measure(
        &mut self,
        what: &'static str,
        bytes: &[u8],
        work: impl FnOnce(&ProofChecker, &BlobStore) -> String,
    ) {
        let start = processor_time();
        let _ = std::hint::black_box(blake3::hash(bytes));
        let hash = processor_time().saturating_sub(start);
        let start = processor_time();
        let (verdict, most) = allocations::most(|| work(&self.checker, &self.blobs));
        let time = processor_time().saturating_sub(start);
        self.phases.push(Phase {
            what,
            verdict,
            time: time.saturating_sub(hash),
            bytes: u64::try_from(most - self.before).unwrap_or(0),
            declared: None,
        });
    }

    fn register(&mut self, model: ModelId, public: &[u8]) -> (Digest, bool) {
        let public_blob = self.blobs.put(public, PUBLIC_MODEL_BYTES_MAX).unwrap();
        let task = EvidenceTask::Model { model, public_blob };
        self.before = allocations::held();
        let mut accepted = false;
        self.measure("registration", public, |checker, blobs| {
            let outcome = checker.check(&task, blobs).unwrap();
            accepted = matches!(outcome, Outcome::ModelAccepted(_));
            verdict(&outcome)
        });
        (public_blob, accepted)
    }

    fn show(&mut self, what: &'static str, public: (Digest, &PublicModel), file: &ProofFile) {
        let bytes = file.to_bytes();
        let Ok(evidence) = self.blobs.put(&bytes, EVIDENCE_BYTES_MAX) else {
            return;
        };
        let (public_blob, model) = public;
        let task = EvidenceTask::Lease {
            lease: LeaseId::new([1; 32]),
            job: JOB,
            provider: PROVIDER,
            model: model.id(),
            mode: VerificationMode::Proof,
            public_blob,
            weights_blob: Digest::default(),
            program: model.program_id(),
            receipt: Box::new(Receipt {
                program: model.program_id(),
                model: model.id(),
                input: file.statement.input,
                output: file.statement.output,
                trace: Digest::default(),
                tier: Tier::Tgx1,
            }),
            evidence,
            size: u32::try_from(bytes.len()).unwrap(),
        };
        self.measure(what, &bytes, |checker, blobs| {
            verdict(&checker.check(&task, blobs).unwrap())
        });
    }
}

fn verdict(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Rejected { code, check } => format!("{code} {check}"),
        accepted => format!("{accepted:?}")
            .split(['(', ' '])
            .next()
            .unwrap_or_default()
            .to_owned(),
    }
}

/// A file that states what a validator asks for, with a proof that is none.
fn garbage(model: &PublicModel, batch: usize, zk: Option<Modes>, fill: u8) -> Option<ProofFile> {
    let program = model.program();
    let modes = zk.unwrap_or(Modes::PUBLIC);
    let bytes = |public: usize, mode: Visibility| match mode {
        Visibility::Public => vec![
            0;
            public
                .saturating_mul(batch)
                .min(EVIDENCE_BYTES_MAX as usize)
        ],
        Visibility::Committed | Visibility::Hidden | Visibility::Each(_) => Vec::new(),
    };
    let input = bytes(program.input_bytes(), modes.input);
    let output = bytes(program.output_bytes(), modes.output);
    let digest = |bytes: &[u8], mode: Visibility| match mode {
        Visibility::Public | Visibility::Committed | Visibility::Each(_) => Digest::of_blob(bytes),
        Visibility::Hidden => Digest::default(),
    };
    let room = (EVIDENCE_BYTES_MAX as usize).checked_sub(input.len() + output.len() + 512)?;
    Some(ProofFile {
        statement: Statement {
            model: model.id(),
            job: JOB,
            provider: PROVIDER,
            batch: u32::try_from(batch).ok()?,
            input: digest(&input, modes.input),
            output: digest(&output, modes.output),
            zk,
        },
        input,
        output,
        proof: vec![fill; room],
    })
}

/// A public model with a registration that is none.
fn unregistered(program: &Program) -> Option<PublicModel> {
    let shape = ProofShape::new(program.check().ok()?).ok()?;
    let known = PublicModel::decode(KNOWN).ok()?;
    let mut commitment = known.weights_commitment()?.clone();
    if shape.weights.is_none() {
        return PublicModel::new(program.clone(), None, Vec::new()).ok();
    }
    let tables = tg_proof::registration::weight_tables(&shape.plan.weights);
    let columns = tables
        .iter()
        .map(|table| vec![Default::default(); table.columns]);
    commitment.anchor = columns.collect();
    PublicModel::new(program.clone(), commitment, vec![0; 1 << 20]).ok()
}

/// Registers a program and shows whatever may be shown about it.
pub(crate) fn of_program(
    program: &Program,
    weights: Option<Weights>,
    effort: Effort,
) -> Vec<Phase> {
    let mut phases = phases_of(program, weights, effort);
    for phase in &mut phases {
        phase.declared = declared_of(program, phase.what);
    }
    phases
}

fn phases_of(program: &Program, weights: Option<Weights>, effort: Effort) -> Vec<Phase> {
    let mut all = Measured::new();
    let Some(public) = unregistered(program) else {
        // Refused: the bytes that come before the commitment decide.
        let mut writer = Writer::new();
        writer.raw(b"TGV\0");
        writer.u16(tg_proof::model::PUBLIC_MODEL_VERSION);
        program.encode(&mut writer);
        let known = PublicModel::decode(KNOWN).unwrap();
        let commitment = known.weights_commitment().unwrap();
        writer.bytes(&tg_proof::messages::encode(commitment));
        writer.bytes(&[]);
        let bytes = writer.into_bytes();
        if bytes.len() as u64 <= PUBLIC_MODEL_BYTES_MAX {
            all.register(ModelId::default(), &bytes);
        }
        return all.phases;
    };
    let work = public.facts().work();
    let compiled = weights.map(|weights| CompiledModel {
        program: program.clone(),
        weights,
    });
    let proving = compiled
        .filter(|_| work <= effort.work_max)
        .and_then(|compiled| {
            let file = compiled.to_bytes();
            Some((ProvingModel::new(compiled).ok()?, file))
        });
    let Some((proving, file)) = proving else {
        let bytes = public.encode();
        if bytes.len() as u64 <= PUBLIC_MODEL_BYTES_MAX {
            all.register(public.id(), &bytes);
        }
        return all.phases;
    };
    let Ok(public) = proving.register() else {
        return all.phases;
    };
    let bytes = public.encode();
    if bytes.len() as u64 > PUBLIC_MODEL_BYTES_MAX {
        return all.phases;
    }
    let (blob, accepted) = all.register(public.id(), &bytes);
    if accepted {
        evidence(&mut all, (blob, &public), &proving);
        store(&mut all, blob, &file);
    }
    all.phases
}

/// Evidence about an admitted model: none, and true.
fn evidence(all: &mut Measured, public: (Digest, &PublicModel), proving: &ProvingModel) {
    for (what, batch, zk) in [
        ("garbage", 1, None),
        ("garbage, batch of 2", 2, None),
        ("garbage, batch of 1024", 1_024, None),
        ("garbage, masked", 1, Some(Modes::PUBLIC)),
        ("garbage, hidden input", 1, Some(Modes::HIDDEN_INPUT)),
        ("garbage, masked batch of 32", 32, Some(Modes::PUBLIC)),
    ] {
        for fill in [0, 1] {
            if let Some(file) = garbage(public.1, batch, zk, fill) {
                all.show(what, public, &file);
            }
        }
    }
    let program = public.1.program();
    let zeros = vec![0; program.input_bytes()];
    let input = IntTensor::from_bytes(program.input.element_type(), &zeros).unwrap();
    let request = ProveRequest::of(vec![input]).named(JOB, PROVIDER);
    let Ok((file, _)) = prove(proving, request, &mut |_| {}) else {
        return;
    };
    all.show("proof", public, &file);
    let mut bad = file;
    if let Some(last) = bad.proof.len().checked_sub(40) {
        bad.proof[last] ^= 1;
    }
    all.show("proof with an error", public, &bad);
    // In zero knowledge a proof has a shape of its own, beside the model's.
    let zeros = vec![0; program.input_bytes()];
    let input = IntTensor::from_bytes(program.input.element_type(), &zeros).unwrap();
    let masking = Masking::new([3; 32], Modes::PUBLIC);
    let request = ProveRequest::of(vec![input]).named(JOB, PROVIDER);
    if let Ok((file, _)) = prove(proving, request.masked(&masking), &mut |_| {}) {
        all.show("masked proof", public, &file);
    }
}

/// The model's files, which a validator streams before it states that it holds them.
fn store(all: &mut Measured, public: Digest, file: &[u8]) {
    let weights = all.blobs.put(file, MODEL_BYTES_MAX).unwrap();
    all.measure("files", file, |_, blobs| {
        match storage::model(blobs, &public, &weights) {
            Holding::Held => "held".to_owned(),
            other => format!("{other:?}")
                .split('(')
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    });
}

/// What is declared of an admitted program: steps of a verifier, bytes, and the work of a proof.
pub(crate) fn declared(program: &Program) -> Option<[u64; 3]> {
    let shape = ProofShape::new(program.check().ok()?).ok()?;
    let cost = &shape.plan.cost;
    let work = tg_proof::Facts::of(program, &shape).work();
    Some([cost.steps, cost.memory(), work])
}

/// Bytes that somebody calls a public model.
pub(crate) fn of_public(bytes: &[u8]) -> Vec<Phase> {
    let mut all = Measured::new();
    if bytes.len() as u64 <= PUBLIC_MODEL_BYTES_MAX {
        all.register(ModelId::default(), bytes);
    }
    all.phases
}

/// Bytes that somebody calls a proof, with the statement of a true one.
pub(crate) fn of_proof(public: &[u8], file: &ProofFile) -> Vec<Phase> {
    let mut all = Measured::new();
    let model = PublicModel::decode(public).unwrap();
    let (blob, _) = all.register(model.id(), public);
    let mut file = file.clone();
    (file.statement.job, file.statement.provider) = (JOB, PROVIDER);
    all.show("changed proof", (blob, &model), &file);
    all.phases
}
