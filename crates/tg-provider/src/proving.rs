//! The honest worker: executes models under TGX-1 and proves runs with TGP-1. Programs and float models are only executed.
//!
//! The receipt is about the execution on the device of [`ProvingWorker::on`]. A proof is made on the CPU, from an execution
//! there: both give the same bits, and the proof is checked against the receipt before it is sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tg_cuda::{Answered, CpuAnswers, Executed, ExecutionDevice, ExecutionError};
use tg_exec::generate::{GenerateError, SequenceWriter, Written};
use tg_exec::kernels::Cpu;
use tg_exec::{ExecuteError, IntTensor, execute_tensor};
use tg_ir::request::written_bytes;
use tg_ir::{CompiledModel, Generation, GenerationRequest};
use tg_proof::trace::challenge;
use tg_proof::{
    ExpectedClaim, ExpectedSequence, ExpectedStatement, ExpectedTrace, FaultFile, ProofFile,
    PublicModel, SequenceFile, TraceFile, claim_fails, fault_of, read_claim, verify_trace,
};
use tg_prover::{Masking, Modes, ProveRequest, ProvingModel};
use tg_types::limits::EVIDENCE_BYTES_MAX;
use tg_types::{Digest, Encode, ProgramId, Receipt, Tier, TraceForm, VerificationMode};

use crate::worker::{Execution, Progress, Stage, Task, WorkError, Worker};
use crate::{float, program};

/// Models kept ready, with their weights committed: the ones used last.
const MODELS_READY: usize = 4;

/// Where a worker that masks its proofs has its randomness from: 32 fresh bytes of the operating system for each.
pub type Entropy = fn() -> std::io::Result<[u8; 32]>;

/// Executes a model exactly and proves it. A model's weights are committed when it is first used, and kept.
#[derive(Debug, Default)]
pub struct ProvingWorker {
    ready: Mutex<VecDeque<(Digest, Arc<Ready>)>>,
    masking: Option<Entropy>,
    device: ExecutionDevice,
}

#[derive(Debug)]
struct Ready {
    model: ProvingModel,
    /// What checks the proofs that are made here.
    public: PublicModel,
    program: ProgramId,
    /// What answers on the CPU without giving every tensor.
    answers: CpuAnswers,
    /// What writes, made at the first generation.
    writer: Mutex<Option<SequenceWriter>>,
}

/// The file holds another model than the job names.
#[derive(Debug, thiserror::Error)]
#[error("the file holds the model {got}")]
struct OtherModel {
    got: tg_types::ModelId,
}

impl ProvingWorker {
    /// A worker without models that executes on the CPU.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A worker whose proofs are in zero knowledge: they show input and output, which the job names, and hide what the model
    /// computes in between.
    #[must_use]
    pub fn masking(entropy: Entropy) -> Self {
        Self {
            masking: Some(entropy),
            ..Self::default()
        }
    }

    /// The same worker, executing on a device.
    #[must_use]
    pub fn on(self, device: ExecutionDevice) -> Self {
        Self { device, ..self }
    }

    /// The task's model with its weights committed.
    fn ready(&self, task: &Task) -> Result<Arc<Ready>, WorkError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| WorkError::Model {
            model: task.model,
            source,
        };
        // A panic of another thread leaves the list whole: it is only moved and pushed.
        let mut kept = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|(blob, _)| *blob == task.model_blob);
        if let Some(entry) = known.and_then(|index| kept.remove(index)) {
            kept.push_back(entry);
        } else {
            let compiled = CompiledModel::read(&task.model_file).map_err(|e| failed(e.into()))?;
            let program = compiled.program.id();
            let model = ProvingModel::of_checked(compiled).map_err(|e| failed(e.into()))?;
            if kept.len() >= MODELS_READY {
                kept.pop_front();
            }
            // A few times the cost of the commitment, once for a model.
            let public = model.register().map_err(|e| failed(e.into()))?;
            let ready = Ready {
                model,
                public,
                program,
                answers: CpuAnswers::default(),
                writer: Mutex::default(),
            };
            kept.push_back((task.model_blob, Arc::new(ready)));
        }
        let (_, ready) = kept.back().expect("an entry was pushed");
        if ready.model.id() != task.model {
            let got = ready.model.id();
            return Err(failed(OtherModel { got }.into()));
        }
        Ok(Arc::clone(ready))
    }
}

impl ProvingWorker {
    /// Proves a run, masked if that is wanted and possible: a proof that cannot be masked, or is larger then than evidence may be, is made in the
    /// clear, as nothing would cost all that was put up.
    fn proof(
        &self,
        ready: &Ready,
        task: &Task,
        input: &IntTensor,
        observe: &mut (dyn FnMut(tg_prover::Stage) + Send),
    ) -> Result<ProofFile, WorkError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| WorkError::Prove(error);
        let request = || ProveRequest::of(vec![input.clone()]).named(task.job, task.provider);
        let seed = self.masking.map(|entropy| entropy()).transpose();
        if let Some(seed) = seed.map_err(|error| failed(error.into()))? {
            let masking = Masking::new(seed, Modes::PUBLIC);
            let masked = request().masked(&masking);
            match tg_prover::prove(&ready.model, masked, observe) {
                Ok((file, _)) if file.to_bytes().len() <= EVIDENCE_BYTES_MAX as usize => {
                    return Ok(file);
                }
                Ok((file, _)) => {
                    let bytes = file.to_bytes().len();
                    tracing::warn!(job = %task.job, bytes, "the masked proof is larger than evidence may be: proving in the clear");
                }
                Err(error) => {
                    tracing::warn!(job = %task.job, %error, "the proof cannot be masked: proving in the clear");
                }
            }
        }
        let proved = tg_prover::prove(&ready.model, request(), observe);
        let (file, _) = proved.map_err(|error| failed(error.into()))?;
        Ok(file)
    }
}

/// The input's bytes as the executor reads them.
fn tensor(ready: &Ready, task: &Task) -> Result<IntTensor, WorkError> {
    let program = &ready.model.compiled().program;
    IntTensor::from_bytes(program.input.element_type(), &task.input).ok_or_else(|| {
        WorkError::Input {
            expected: program.input_bytes(),
            got: task.input.len(),
        }
    })
}

/// What the model runs on, and what it wrote if that is what was asked: the sequence is then the input.
fn run_input(ready: &Ready, task: &Task) -> Result<(IntTensor, Option<Written>), WorkError> {
    if !GenerationRequest::is_for(&ready.model.compiled().program, &task.input) {
        return Ok((tensor(ready, task)?, None));
    }
    let written = write(ready, task, &mut |_| true)?;
    Ok((written.tokens.clone(), Some(written)))
}

/// Whether a task's model is one of integers.
fn is_compiled(task: &Task) -> bool {
    !tg_wasm::is_program(&task.model_file) && !tg_float::job::is_float_file(&task.model_file)
}

/// Writes what a request asks, and gives each token to `token` as it comes, until that says that it is enough.
fn write(
    ready: &Ready,
    task: &Task,
    token: &mut dyn FnMut(u32) -> bool,
) -> Result<Written, WorkError> {
    let request = GenerationRequest::read(&task.input);
    let request = request.map_err(|error| WorkError::Execute(error.into()))?;
    let failed = |error: GenerateError| WorkError::Execute(error.into());
    // A panic of another thread leaves a writer that begins anew.
    let mut kept = ready.writer.lock().unwrap_or_else(PoisonError::into_inner);
    let mut writer = match kept.take() {
        Some(writer) => writer,
        None => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            SequenceWriter::new(ready.model.compiled(), Cpu::new(threads)).map_err(failed)?
        }
    };
    let written = writer.write(&request, token);
    *kept = Some(writer);
    drop(kept);
    written.map_err(failed)
}

/// The evidence of a generation, checked as validators will.
fn sequence(
    ready: &Ready,
    task: &Task,
    (execution, generation): (&Execution, Generation),
    proof: ProofFile,
) -> Result<Vec<u8>, WorkError> {
    let expected = ExpectedSequence {
        job: task.job,
        provider: task.provider,
        request: execution.receipt.input,
        written: execution.receipt.output,
    };
    let file = SequenceFile { generation, proof };
    tg_proof::verify_answer(&ready.public, &file, &expected)
        .map_err(|error| WorkError::Check(error.into()))?;
    Ok(file.to_bytes())
}

impl Worker for ProvingWorker {
    fn execute(&self, task: &Task, progress: &dyn Fn(Progress)) -> Result<Execution, WorkError> {
        let _span = tracing::info_span!("execute", job = %task.job, mode = ?task.mode).entered();
        if tg_wasm::is_program(&task.model_file) {
            return program::execute(task);
        }
        if tg_float::job::is_float_file(&task.model_file) {
            return float::execute(task);
        }
        let at = |permille| Progress {
            stage: Stage::Execute,
            permille,
        };
        progress(at(0));
        let ready = self.ready(task)?;
        progress(at(500));
        let model = ready.model.compiled();
        let wrong_length = || WorkError::Input {
            expected: model.program.input_bytes(),
            got: task.input.len(),
        };
        let (input, written) = run_input(&ready, task)?;
        let executed = self.device.execute(model, input);
        let Executed { trace, on } = executed.map_err(|error| match error {
            ExecutionError::Input(ExecuteError::InputLength { .. }) => wrong_length(),
            other => WorkError::Execute(other.into()),
        })?;
        let output = match written {
            Some(written) => written_bytes(&written.written()),
            None => trace.output_bytes(),
        };
        progress(at(1000));
        Ok(Execution {
            receipt: Receipt {
                program: ready.program,
                model: task.model,
                input: Digest::of_blob(&task.input),
                output: Digest::of_blob(&output),
                trace: task.stated_trace(trace.digest(), 0),
                tier: Tier::Tgx1,
            },
            output,
            on,
        })
    }

    fn prepare(&self, task: &Task) {
        if is_compiled(task) {
            let _made_or_told_later = self.ready(task);
        }
    }

    fn takes_tokens(&self, task: &Task) -> bool {
        let ready = is_compiled(task).then(|| self.ready(task).ok()).flatten();
        ready.is_some_and(|it| GenerationRequest::is_taken_by(&it.model.compiled().program))
    }

    fn answer(
        &self,
        task: &Task,
        piece: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Vec<u8>, WorkError> {
        if !is_compiled(task) {
            return Ok(self.execute(task, &|_| {})?.output);
        }
        let ready = self.ready(task)?;
        if GenerationRequest::is_for(&ready.model.compiled().program, &task.input) {
            let written = write(&ready, task, &mut |token| piece(&token.to_le_bytes()))?;
            return Ok(written_bytes(&written.written()));
        }
        let input = tensor(&ready, task)?;
        let model = ready.model.compiled();
        let answered = self.device.answer(model, &input, &ready.answers);
        let Answered { outputs, .. } =
            answered.map_err(|error| WorkError::Execute(error.into()))?;
        Ok(outputs.iter().flat_map(IntTensor::to_bytes).collect())
    }

    fn open(
        &self,
        task: &Task,
        execution: &Execution,
        seed: &Digest,
    ) -> Result<Vec<u8>, WorkError> {
        if task.form() == TraceForm::Run {
            // Whoever checks runs it again: the answer is all there is to show.
            return Ok(execution.output.clone());
        }
        let challenge = challenge(seed, &task.lease);
        if tg_wasm::is_program(&task.model_file) {
            return program::open(task, execution, &challenge);
        }
        if tg_float::job::is_float_file(&task.model_file) {
            return float::open(task, execution, &challenge);
        }
        let ready = self.ready(task)?;
        let (input, written) = run_input(&ready, task)?;
        let model = ready.model.compiled();
        // Executed again, on the CPU: keeping every trace until its seed comes would take memory for each lease.
        let trace = execute_tensor(model, input).map_err(|e| WorkError::Execute(e.into()))?;
        let generation = written.map(|it| it.generation);
        let file = TraceFile::of(model, trace.tensors(), generation, &challenge);
        let expected = ExpectedTrace {
            input: &task.input,
            receipt: &execution.receipt,
            challenge: &challenge,
        };
        verify_trace(model, &file, expected).map_err(|error| WorkError::Open(error.into()))?;
        Ok(file.to_bytes())
    }

    fn refute(
        &self,
        task: &Task,
        execution: &Execution,
        claim: &[u8],
    ) -> Result<Vec<u8>, WorkError> {
        if tg_wasm::is_program(&task.model_file) {
            return program::refute(task, execution, claim);
        }
        if tg_float::job::is_float_file(&task.model_file) {
            return float::refute(task, execution, claim);
        }
        let ready = self.ready(task)?;
        let model = ready.model.compiled();
        let expected = ExpectedClaim {
            lease: &task.lease,
            input: &task.input,
            receipt: &execution.receipt,
        };
        // What is no claim everybody sees as such.
        let Ok(read) = read_claim(model, claim, expected) else {
            return Ok(FaultFile::Claim.to_bytes());
        };
        let trace = execute_tensor(model, read.input.clone());
        let trace = trace.map_err(|error| WorkError::Execute(error.into()))?;
        let fault = fault_of(model, &read, trace.tensors()).ok_or(WorkError::NoFault)?;
        let answer = fault.to_bytes();
        match claim_fails(model, (claim, &answer), expected, || true) {
            true => Ok(answer),
            false => Err(WorkError::NoFault),
        }
    }

    fn prove(
        &self,
        task: &Task,
        execution: &Execution,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<u8>, WorkError> {
        let _span = tracing::info_span!("prove", job = %task.job, mode = ?task.mode).entered();
        if matches!(
            task.mode,
            VerificationMode::Recompute | VerificationMode::Replicate
        ) {
            // Validators run it again, or others did: the answer is all there is to show.
            return Ok(execution.output.clone());
        }
        let ready = self.ready(task)?;
        let mut observe = |stage| {
            progress(Progress {
                stage: Stage::Prove,
                permille: permille(stage),
            });
        };
        let (input, written) = run_input(&ready, task)?;
        let file = self.proof(&ready, task, &input, &mut observe)?;
        if let Some(written) = written {
            return sequence(&ready, task, (execution, written.generation), file);
        }
        let expected = ExpectedStatement {
            job: Some(task.job),
            provider: Some(task.provider),
            input: Some(execution.receipt.input),
            output: Some(execution.receipt.output),
        };
        // A proof that does not hold costs the collateral: whatever went wrong, it stays here.
        tg_proof::verify(&ready.public, &file, &expected)
            .map_err(|error| WorkError::Check(error.into()))?;
        Ok(file.to_bytes())
    }
}

/// How far a proof is, by the measured shares of its stages (commitments and openings take most of the time).
fn permille(stage: tg_prover::Stage) -> u16 {
    match stage {
        tg_prover::Stage::Execute => 0,
        tg_prover::Stage::Witness => 20,
        tg_prover::Stage::Commit => 60,
        tg_prover::Stage::Nodes(done, all) => {
            let share = 200 * done / all.max(1);
            300 + u16::try_from(share).unwrap_or(200)
        }
        tg_prover::Stage::Lookup => 500,
        tg_prover::Stage::OpenWitness => 650,
        tg_prover::Stage::OpenWeights => 850,
        tg_prover::Stage::Done => 1000,
    }
}
