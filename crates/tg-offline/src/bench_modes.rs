//! `tensorgrid bench modes`: what each way of checking costs providers and validators, beside one run of the model.

use crate::arguments::BenchModesArguments;
use crate::measure::Moment;
use crate::scratch::ScratchFolder;
use std::sync::Arc;
use tg_compile::suite::Architecture;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_ir::CompiledModel;
use tg_ledger::limits::COMMITTEE_SEATS;
use tg_ledger::{DisputeFiles, Evidence, EvidenceTask, Outcome as Checked, Parameters, SampleTask};
use tg_node::{BlobStore, EvidenceChecker as _, ProofChecker, claim_file};
use tg_prover::ProvingModel;
use tg_provider::{Execution, ProvingWorker, Task, Worker as _};
use tg_types::codec::Encode as _;
use tg_types::{
    Address, Amount, Digest, Fees, JobId, LeaseId, ModelId, ProgramId, TraceForm, Transaction,
    VerificationMode, Vote, Wallet,
};
use tg_wasm::{ProgramFile, ProgramInput, RunLimits, WasmProgram};

/// A program of the examples: points of pi.
const PI: &[u8] = include_bytes!("../../../examples/programs/pi.wasm");

/// Points that it draws: about a tenth of a second of one core.
const POINTS: u64 = 400_000;

/// Chunks that they are asked for in.
const CHUNKS: u64 = 100;

/// The seed of weights and inputs, that of `bench prove --suite`.
const SEED: u64 = 1;

/// Room for models and evidence.
const STORE_BYTES: u64 = 1 << 30;

/// Most bytes of one of them.
const BLOB_BYTES: u64 = 256 << 20;

/// What is run.
struct BenchedModel {
    name: &'static str,
    model: ModelId,
    program: ProgramId,
    /// The file of the provider, and the public one of validators.
    files: [Arc<[u8]>; 2],
    input: Arc<[u8]>,
    modes: &'static [VerificationMode],
}

/// What one way of checking costs: medians of milliseconds of one core.
struct ModeCost {
    mode: VerificationMode,
    /// Of each provider, and how many run it.
    provider_ms: f64,
    providers: u32,
    /// Of each validator that checks, and how many do.
    validator_ms: f64,
    checking: u32,
    /// What is delivered for the check.
    evidence: usize,
}

impl ModeCost {
    /// Of all parties together.
    fn total_ms(&self) -> f64 {
        f64::from(self.providers) * self.provider_ms + f64::from(self.checking) * self.validator_ms
    }
}

const OF_MODELS: &[VerificationMode] = &[
    VerificationMode::None,
    VerificationMode::Sync,
    VerificationMode::Replicate,
    VerificationMode::Optimistic,
    VerificationMode::Recompute,
    VerificationMode::Proof,
];

const OF_PROGRAMS: &[VerificationMode] = &[
    VerificationMode::None,
    VerificationMode::Sync,
    VerificationMode::Replicate,
    VerificationMode::Optimistic,
    VerificationMode::Recompute,
];

/// Measures every way of checking for an image classifier, a large one, a language model and a program.
///
/// # Errors
/// If a run of a subject fails.
pub fn run(arguments: &BenchModesArguments, as_json: bool) -> Outcome {
    let (mut all, mut disputed) = (Vec::new(), Vec::new());
    for subject in subjects(arguments.quick)? {
        say(format_args!("measuring {} ...", subject.name));
        let bench = Bench::of(&subject, arguments.whole_run_macs)?;
        let modes = subject.modes.iter();
        let costs = modes.map(|mode| bench.cost(*mode, arguments));
        all.push((subject.name, costs.collect::<Result<Vec<_>, _>>()?));
        if has_tiles(&subject) {
            disputed.push((subject.name, bench.dispute()?));
        }
    }
    if as_json {
        let rows = all.iter().flat_map(|(name, costs)| {
            let once = once(costs);
            costs.iter().map(move |it| row_json(name, it, once))
        });
        let disputed = disputed.iter().map(|(name, it)| it.row_json(name));
        return Ok(json(&serde_json::Value::Array(
            rows.chain(disputed).collect(),
        ))?);
    }
    line(format_args!(
        "{:<22}{:<12}{:>14}{:>4}{:>15}{:>4}{:>13}{:>12}{:>9}",
        "model", "verify", "provider", "x", "validator", "x", "evidence", "all", "fee"
    ))?;
    for (name, costs) in &all {
        let once = once(costs);
        for cost in costs {
            line(row_text(name, cost, once))?;
        }
    }
    line(format_args!(
        "CPU time, medians of {} runs; all: of providers and validators together, times one run without a check; {} validators of \
         which up to {COMMITTEE_SEATS} look at results of mode sync, {} members; fee: of a development network, TGRID. A run of all where \
         something is disputed, and the transfer of files, come on top.",
        arguments.runs, arguments.validators, arguments.members
    ))?;
    print_disputes(&disputed)
}

/// What a run without a check takes.
fn once(costs: &[ModeCost]) -> f64 {
    let unchecked = costs.iter().find(|it| it.mode == VerificationMode::None);
    unchecked.map_or(f64::NAN, |it| it.provider_ms)
}

fn fee(mode: VerificationMode) -> Amount {
    Parameters::development().verification_fee(mode)
}

fn row_text(name: &str, cost: &ModeCost, once: f64) -> String {
    format!(
        "{:<22}{:<12}{:>11.2} ms{:>4}{:>12.2} ms{:>4}{:>10.1} kB{:>11.2}x{:>9}",
        name,
        cost.mode,
        cost.provider_ms,
        cost.providers,
        cost.validator_ms,
        cost.checking,
        cost.evidence as f64 / 1e3,
        cost.total_ms() / once,
        fee(cost.mode).to_string()
    )
}

fn row_json(name: &str, cost: &ModeCost, once: f64) -> serde_json::Value {
    serde_json::json!({
        "model": name,
        "mode": cost.mode.as_str(),
        "provider_cpu_ms": cost.provider_ms,
        "providers": cost.providers,
        "validator_cpu_ms": cost.validator_ms,
        "validators": cost.checking,
        "evidence_bytes": cost.evidence,
        "total_times_one_run": cost.total_ms() / once,
        "fee": fee(cost.mode).to_string(),
    })
}

fn subjects(is_quick: bool) -> Result<Vec<BenchedModel>, Failure> {
    let models = [
        ("LeNet", Architecture::LeNet),
        ("GPT 0.25M", Architecture::Gpt250k),
        ("ResNet-18", Architecture::ResNet18),
    ];
    let models = models
        .into_iter()
        .filter(|(_, architecture)| !(is_quick && *architecture == Architecture::ResNet18));
    let mut subjects = models
        .map(|(name, architecture)| model_subject(name, architecture))
        .collect::<Result<Vec<_>, _>>()?;
    subjects.push(program_subject()?);
    Ok(subjects)
}

fn model_subject(name: &'static str, architecture: Architecture) -> Result<BenchedModel, Failure> {
    let (compiled, input) = architecture.model(SEED);
    let file = compiled.to_bytes();
    let model = ProvingModel::new(compiled).or_fail(Exit::Failed, "commit the weights")?;
    let public = model.register();
    let public = public.or_fail(Exit::Failed, "prove the weights' range")?;
    Ok(BenchedModel {
        name,
        model: public.id(),
        program: public.program_id(),
        files: [file.into(), public.encode().into()],
        input: input.to_bytes().into(),
        modes: OF_MODELS,
    })
}

fn program_subject() -> Result<BenchedModel, Failure> {
    let limits = RunLimits {
        fuel: 200 * POINTS,
        ..RunLimits::default()
    };
    let file: Arc<[u8]> = ProgramFile::new(PI.to_vec(), limits).encode().into();
    let program = WasmProgram::read(&file).or_fail(Exit::Failed, "read the program")?;
    // As many chunks as there are sections, so that a run is checked in drawn ones.
    let chunk = |index: u64| {
        [SEED + index, POINTS / CHUNKS]
            .map(u64::to_le_bytes)
            .concat()
    };
    Ok(BenchedModel {
        name: "pi (WebAssembly)",
        model: program.model_id(),
        program: program.id(),
        files: [Arc::clone(&file), file],
        input: ProgramInput::steps((0..CHUNKS).map(chunk).collect())
            .encode()
            .into(),
        modes: OF_PROGRAMS,
    })
}

/// Everything that works on one subject.
struct Bench<'a> {
    subject: &'a BenchedModel,
    worker: ProvingWorker,
    checker: ProofChecker,
    blobs: BlobStore,
    digests: [Digest; 2],
    /// Whether a committee of mode sync runs all of it.
    is_run_whole: bool,
    /// Removed with the rest.
    _folder: ScratchFolder,
}

impl<'a> Bench<'a> {
    /// A provider and a validator that have the files of a subject, and a network that repeats runs up to a size whole.
    fn of(subject: &'a BenchedModel, whole_run_macs: u64) -> Result<Self, Failure> {
        let folder = ScratchFolder::new().or_fail(Exit::Failed, "make a folder")?;
        let blobs = BlobStore::open(folder.path(), STORE_BYTES);
        let blobs = blobs.or_fail(Exit::Failed, "open a store")?;
        let put = |bytes: &[u8]| {
            let digest = blobs.put(bytes, BLOB_BYTES);
            digest.or_fail(Exit::Failed, "store a file")
        };
        let digests = [put(&subject.files[0])?, put(&subject.files[1])?];
        put(&subject.input)?;
        let checker = ProofChecker::default();
        let registered = EvidenceTask::Model {
            model: subject.model,
            public_blob: digests[1],
        };
        let facts = match checker.check(&registered, &blobs) {
            Ok(Checked::ModelAccepted(facts)) => Ok(facts),
            Ok(other) => Err(anyhow::anyhow!("{} is refused: {other:?}", subject.name)),
            Err(error) => Err(error.into()),
        };
        let facts = facts.or_fail(Exit::Failed, "register the model")?;
        Ok(Self {
            subject,
            worker: ProvingWorker::new(),
            checker,
            blobs,
            digests,
            is_run_whole: facts.is_run_whole(whole_run_macs),
            _folder: folder,
        })
    }

    fn cost(
        &self,
        mode: VerificationMode,
        arguments: &BenchModesArguments,
    ) -> Result<ModeCost, Failure> {
        // What is made ready once for a model, here and at validators, is not a job's.
        self.once(mode)?;
        let (mut provider, mut validator, mut evidence) = (Vec::new(), Vec::new(), 0);
        for _ in 0..arguments.runs {
            let (made, checked, bytes) = self.once(mode)?;
            provider.push(made);
            validator.push(checked);
            evidence = bytes;
        }
        let validators = u32::from(arguments.validators);
        let committee = u32::try_from(COMMITTEE_SEATS).unwrap_or(u32::MAX);
        Ok(ModeCost {
            mode,
            provider_ms: median(provider),
            providers: match mode {
                VerificationMode::Replicate => u32::from(arguments.members),
                _ => 1,
            },
            validator_ms: median(validator),
            checking: match mode {
                VerificationMode::None | VerificationMode::Endpoint | VerificationMode::Sealed => 0,
                VerificationMode::Optimistic => 1,
                VerificationMode::Sync => validators.min(committee),
                VerificationMode::Proof
                | VerificationMode::Recompute
                | VerificationMode::Replicate => validators,
            },
            evidence,
        })
    }

    /// The work of a provider and of a validator, in milliseconds of one core, and the bytes between them.
    fn once(&self, mode: VerificationMode) -> Result<(f64, f64, usize), Failure> {
        let task = self.task(mode);
        let seed = Digest::of_blob(b"bench modes");
        let start = Moment::now();
        let execution = self.worker.execute(&task, &|_| {});
        let execution = execution.or_fail(Exit::Failed, "execute")?;
        let evidence = match mode {
            VerificationMode::None | VerificationMode::Endpoint | VerificationMode::Sealed => None,
            VerificationMode::Sync | VerificationMode::Optimistic => {
                Some(self.worker.open(&task, &execution, &seed))
            }
            VerificationMode::Proof | VerificationMode::Recompute | VerificationMode::Replicate => {
                Some(self.worker.prove(&task, &execution, &|_| {}))
            }
        };
        let evidence = evidence.transpose();
        let evidence = evidence.or_fail(Exit::Failed, "make the evidence")?;
        let provider = start.cost().cpu_ms;
        let Some(evidence) = evidence else {
            return Ok((provider, 0.0, 0));
        };
        let validator = self.check(&task, &execution, (&seed, &evidence))?;
        // Of a run that a committee repeats whole nothing is handed in beside the receipt.
        let is_shown = mode != VerificationMode::Sync || !task.is_run_whole;
        let bytes = if is_shown { evidence.len() } else { 0 };
        Ok((provider, validator, bytes))
    }

    fn task(&self, mode: VerificationMode) -> Task {
        Task {
            lease: LeaseId::new([1; 32]),
            job: JobId::new([2; 32]),
            provider: Address::new([3; 20]),
            mode,
            is_run_whole: self.is_run_whole,
            model: self.subject.model,
            model_blob: self.digests[0],
            model_file: Arc::clone(&self.subject.files[0]),
            input: Arc::clone(&self.subject.input),
            sealed: None,
        }
    }

    /// What a validator takes to accept the evidence.
    fn check(
        &self,
        task: &Task,
        execution: &Execution,
        (seed, evidence): (&Digest, &[u8]),
    ) -> Result<f64, Failure> {
        let stored = self.blobs.put(evidence, BLOB_BYTES);
        let stored = stored.or_fail(Exit::Failed, "store the evidence")?;
        let size = u32::try_from(evidence.len()).unwrap_or(u32::MAX);
        let [weights_blob, public_blob] = self.digests;
        let receipt = Box::new(execution.receipt.clone());
        let start = Moment::now();
        let is_right = match task.mode {
            VerificationMode::Sync | VerificationMode::Optimistic => {
                let sample = SampleTask {
                    dispute: None,
                    revealed: None,
                    lease: task.lease,
                    model: task.model,
                    mode: task.mode,
                    is_repeated: task.form() == TraceForm::Run,
                    run: tg_types::DurationMs::ZERO,
                    public_blob,
                    weights_blob,
                    program: self.subject.program,
                    receipt,
                    seed: *seed,
                    evidence: stored,
                    size,
                };
                let vote = self.checker.vote(&sample, &self.blobs);
                vote.or_fail(Exit::Failed, "look at the evidence")?
                    .is_right()
            }
            _ => {
                let lease = EvidenceTask::Lease {
                    lease: task.lease,
                    job: task.job,
                    provider: task.provider,
                    model: task.model,
                    mode: task.mode,
                    public_blob,
                    weights_blob,
                    program: self.subject.program,
                    receipt,
                    evidence: stored,
                    size,
                };
                let outcome = self.checker.check(&lease, &self.blobs);
                let outcome = outcome.or_fail(Exit::Failed, "look at the evidence")?;
                !matches!(outcome, tg_ledger::Outcome::Rejected { .. })
            }
        };
        let took = start.cost().cpu_ms;
        match is_right {
            true => Ok(took),
            false => Err(Failure::new(
                Exit::Failed,
                anyhow::anyhow!("a validator rejects what {} gave", self.subject.name),
            )),
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// False claims about one run.
const CLAIMS: usize = 11;

/// What a dispute costs: milliseconds of one core, and bytes.
struct DisputeCost {
    accuser_ms: f64,
    provider_ms: f64,
    validator_ms: f64,
    validator_most_ms: f64,
    claim: usize,
    answer: usize,
    answer_most: usize,
    /// Of the three transactions.
    on_chain: usize,
}

impl Bench<'_> {
    /// Has tiles all over a run claimed to be others than they are.
    fn dispute(&self) -> Result<DisputeCost, Failure> {
        let task = self.task(VerificationMode::Optimistic);
        let model = CompiledModel::read(&task.model_file);
        let model = model.or_fail(Exit::Failed, "read the model")?;
        let execution = self.worker.execute(&task, &|_| {});
        let execution = execution.or_fail(Exit::Failed, "execute")?;
        let start = Moment::now();
        let right = claim_file(&model, &task.input);
        let accuser_ms = start.cost().cpu_ms;
        let leaves = right.len().saturating_sub(execution.output.len()) / 32;
        let (mut refuting, mut judging, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for number in 1..=CLAIMS {
            // The leaves are the end of the file, those of what the run answers the last of them.
            let back = leaves * number / (CLAIMS + 1);
            let mut claim = right.clone();
            let place = claim.len() - 32 * (back + 1 + execution.output.len() / 1_024) - 16;
            claim[place] ^= 1;
            let start = Moment::now();
            let answer = self.worker.refute(&task, &execution, &claim);
            let answer = answer.or_fail(Exit::Failed, "refute a false claim")?;
            refuting.push(start.cost().cpu_ms);
            answers.push(answer.len() as f64);
            let files = DisputeFiles {
                claim: self.stored(&claim)?,
                answer: self.stored(&answer)?,
            };
            let [weights_blob, public_blob] = self.digests;
            let sample = SampleTask {
                dispute: Some(files),
                revealed: None,
                lease: task.lease,
                model: task.model,
                mode: task.mode,
                is_repeated: true,
                run: tg_types::DurationMs::ZERO,
                public_blob,
                weights_blob,
                program: self.subject.program,
                receipt: Box::new(execution.receipt.clone()),
                seed: Digest::of_blob(b"bench modes"),
                evidence: execution.receipt.output,
                size: 0,
            };
            let vote = Vote::WrongRun;
            let accused = EvidenceTask::Accusation { vote, sample };
            let start = Moment::now();
            let outcome = self.checker.check(&accused, &self.blobs);
            let outcome = outcome.or_fail(Exit::Failed, "judge a claim")?;
            judging.push(start.cost().cpu_ms);
            if outcome != Checked::Refuted {
                let text = format!("a false claim about {} stands", self.subject.name);
                return Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)));
            }
        }
        let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        Ok(DisputeCost {
            accuser_ms,
            provider_ms: median(refuting),
            validator_most_ms: most(&judging),
            validator_ms: median(judging),
            claim: right.len(),
            answer_most: most(&answers) as usize,
            answer: median(answers) as usize,
            on_chain: on_chain(task.lease),
        })
    }

    fn stored(&self, bytes: &[u8]) -> Result<Evidence, Failure> {
        let digest = self.blobs.put(bytes, BLOB_BYTES);
        let digest = digest.or_fail(Exit::Failed, "store a file")?;
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Ok(Evidence { digest, size })
    }
}

/// Bytes of a challenge and of the two messages that name a file.
fn on_chain(lease: LeaseId) -> usize {
    let wallet = Wallet::from_seed(b"bench modes");
    let domain = tg_ledger::development_domain();
    let file = Digest::of_blob(b"bench modes");
    let argue = Transaction::ArgueResult {
        lease,
        file,
        size: 1,
    };
    let all = [Transaction::ChallengeResult { lease }, argue.clone(), argue];
    let signed = all.map(|it| wallet.sign_with_fees(it, 0, Fees::NONE, &domain));
    signed.iter().map(|it| it.to_bytes().len()).sum()
}

/// Whether disputes about a subject end at a tile.
fn has_tiles(subject: &BenchedModel) -> bool {
    subject.modes.contains(&VerificationMode::Proof)
}

impl DisputeCost {
    fn row_json(&self, name: &str) -> serde_json::Value {
        serde_json::json!({
            "model": name,
            "dispute": "tile",
            "accuser_cpu_ms": self.accuser_ms,
            "provider_cpu_ms": self.provider_ms,
            "validator_cpu_ms": self.validator_ms,
            "validator_cpu_ms_most": self.validator_most_ms,
            "claim_bytes": self.claim,
            "answer_bytes": self.answer,
            "answer_bytes_most": self.answer_most,
            "chain_bytes": self.on_chain,
        })
    }
}

/// Prints what disputes cost.
fn print_disputes(all: &[(&'static str, DisputeCost)]) -> Outcome {
    line(format_args!(
        "\n{:<22}{:>14}{:>14}{:>15}{:>14}{:>12}{:>13}{:>10}",
        "dispute", "accuser", "provider", "validator", "at most", "claim", "answer", "chain"
    ))?;
    for (name, it) in all {
        line(format_args!(
            "{:<22}{:>11.2} ms{:>11.2} ms{:>12.2} ms{:>11.2} ms{:>9.1} kB{:>10.1} kB{:>8} B",
            name,
            it.accuser_ms,
            it.provider_ms,
            it.validator_ms,
            it.validator_most_ms,
            it.claim as f64 / 1e3,
            it.answer as f64 / 1e3,
            it.on_chain,
        ))?;
    }
    line(format_args!(
        "CPU time, medians of {CLAIMS} false claims, each about another tile of the run, until every validator has seen which it is; \
         chain: a challenge and the two messages that name claim and answer, signed."
    ))?;
    Ok(())
}
