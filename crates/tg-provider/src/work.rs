//! One stage of work from start to end: pull, compute on a separate thread, store the result, report.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use tg_ir::CompiledModel;
use tg_privacy::{SealError, SealedFor, SealingKey};
use tg_proof::is_ordered;
use tg_sdk::{Client, ClientError};
use tg_types::limits::{EVIDENCE_BYTES_MAX, TRACE_EVIDENCE_BYTES_MAX};
use tg_types::{
    Address, DeclineReason, Digest, JobId, KeyGrant, LeaseId, ModelId, SignedVoucher,
    VerificationMode, with_sources,
};
use tokio::sync::mpsc::Sender;

use crate::lease::Evidence;
use crate::pull::Puller;
use crate::worker::{Execution, Progress, SealedTask, Stage, Task, Worker};

/// What a stage reports, and for which lease.
pub(crate) type Outcome = (LeaseId, Report);

/// A report of work.
#[derive(Debug)]
pub(crate) enum Report {
    /// It goes on.
    Progress(Progress),
    /// Model and input are at hand.
    Pulled(Arc<Task>),
    /// The model was executed and the output is stored; milliseconds of the execution.
    Executed(Arc<Task>, Execution, u64),
    /// The execution was proved and the proof, these bytes, is stored; milliseconds of the proving.
    Proved(Evidence, Arc<[u8]>, u64),
    /// Where the claim of this name is wrong was found, and is stored.
    Refuted(Digest, Evidence, Arc<[u8]>),
    /// The grid has the answer or the evidence that it was given before.
    Stored,
    /// An endpoint is served.
    Served(ServeReport),
    /// It failed; what could not be pulled, if that was it.
    Failed(String, Option<DeclineReason>),
    /// The grid could not be reached or was too busy: nothing is wrong with the work.
    Unreachable(String),
}

impl Report {
    /// What a failure of work means.
    fn of_failure(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let shared = error.downcast_ref::<Arc<ClientError>>();
            let call = error.downcast_ref::<ClientError>();
            let call = call.or(shared.map(|it| &**it));
            if call.is_some_and(ClientError::is_transient) {
                return Self::Unreachable(with_sources(error));
            }
            cause = error.source();
        }
        Self::Failed(with_sources(error), None)
    }

    /// What it means that something could not be pulled. Of a lease that is started, whose files validators stated to hold, whoever was
    /// asked for them may be behind. Stops: all of the collateral is lost because an agent and its gateway were started again, and the
    /// gateway had to fetch the input first.
    fn of_pull(is_started: bool, (error, missing): (&PullError, Option<DeclineReason>)) -> Self {
        let is_absent = matches!(error, PullError::Client(call) if call.is_not_found());
        match missing {
            Some(_) if is_started && is_absent => Self::Unreachable(with_sources(error)),
            Some(_) => Self::Failed(with_sources(error), missing),
            None => Self::of_failure(error),
        }
    }
}

/// What the loop tells the agent.
#[derive(Debug)]
pub(crate) enum ServeReport {
    /// Claim with this voucher, if it is later than the last one that was claimed.
    Claim(Option<SignedVoucher>),
    /// The loop ended: the same, and the lease ends.
    Ended(Option<SignedVoucher>),
    /// Something failed that is tried again.
    Problem(String),
    /// So many requests were answered since the last word.
    Answered(u64),
}

/// What is to be executed.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) lease: LeaseId,
    pub(crate) job: JobId,
    pub(crate) provider: Address,
    pub(crate) mode: VerificationMode,
    pub(crate) is_run_whole: bool,
    /// Whether its provider has started it, so that it can be declined no more.
    pub(crate) is_started: bool,
    pub(crate) model: ModelId,
    pub(crate) input: Digest,
    pub(crate) input_len: u32,
    /// How its input is opened, of a sealed job.
    pub(crate) opening: Option<OpeningKey>,
}

/// How the input of a sealed job is opened.
#[derive(Debug, Clone)]
pub(crate) struct OpeningKey {
    /// The provider's.
    pub(crate) key: Arc<SealingKey>,
    /// Who sealed it.
    pub(crate) requestor: Address,
    /// The job's key, as it was granted.
    pub(crate) grant: KeyGrant,
}

/// Pulls what a lease needs, checks it and reports.
pub(crate) async fn pull(client: Client, puller: Puller, order: Order, outcomes: Sender<Outcome>) {
    let (lease, is_started) = (order.lease, order.is_started);
    let report = match try_pull(&client, &puller, order, &outcomes).await {
        Ok(task) => Report::Pulled(task),
        Err((error, missing)) => Report::of_pull(is_started, (&error, missing)),
    };
    // A closed queue means that the agent is gone.
    let _ = outcomes.send((lease, report)).await;
}

/// Executes, stores the output and reports; pulls first what an agent that was restarted has lost.
pub(crate) async fn execute<W: Worker>(
    client: Client,
    puller: Puller,
    worker: Arc<W>,
    (order, pulled): (Order, Option<Arc<Task>>),
    outcomes: Sender<Outcome>,
) {
    let (lease, is_started) = (order.lease, order.is_started);
    let pulled = match pulled {
        Some(task) => Ok(task),
        None => try_pull(&client, &puller, order, &outcomes).await,
    };
    let report = match pulled {
        Ok(task) => match try_execute(&client, worker, task, &outcomes).await {
            Ok((task, execution, elapsed_ms)) => Report::Executed(task, execution, elapsed_ms),
            Err(error) => Report::of_failure(error.as_ref()),
        },
        Err((error, missing)) => Report::of_pull(is_started, (&error, missing)),
    };
    // A closed queue means that the agent is gone.
    let _ = outcomes.send((lease, report)).await;
}

/// Proves, or opens what a seed draws, stores the evidence and reports.
pub(crate) async fn prove<W: Worker>(
    client: Client,
    worker: Arc<W>,
    (task, execution): (Arc<Task>, Execution),
    seed: Option<Digest>,
    outcomes: Sender<Outcome>,
) {
    let lease = task.lease;
    let report = match try_prove(&client, worker, (task, execution), seed, &outcomes).await {
        Ok((evidence, bytes, elapsed_ms)) => Report::Proved(evidence, bytes, elapsed_ms),
        Err(error) => Report::of_failure(error.as_ref()),
    };
    let _ = outcomes.send((lease, report)).await;
}

/// Finds where an accuser's claim is wrong, stores that and reports.
pub(crate) async fn refute<W: Worker>(
    client: Client,
    worker: Arc<W>,
    (task, execution): (Arc<Task>, Execution),
    claim: Digest,
    outcomes: Sender<Outcome>,
) {
    let lease = task.lease;
    let report = match try_refute(&client, worker, (task, execution), claim).await {
        Ok((answer, bytes)) => Report::Refuted(claim, answer, bytes),
        Err(error) => Report::of_failure(error.as_ref()),
    };
    let _ = outcomes.send((lease, report)).await;
}

/// Stores an answer or evidence again if whoever the agent asks does not have it any more, and reports.
pub(crate) async fn store_again(
    client: Client,
    (lease, bytes): (LeaseId, Arc<[u8]>),
    outcomes: Sender<Outcome>,
) {
    let stored = async {
        match client.chunk_tree(Digest::of_blob(&bytes)).await {
            Err(error) if error.is_not_found() => client.put_blob(bytes.to_vec()).await.map(|_| ()),
            known => known.map(|_| ()),
        }
    };
    let report = match stored.await {
        Ok(()) => Report::Stored,
        Err(error) => Report::of_failure(&error),
    };
    let _ = outcomes.send((lease, report)).await;
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Why something could not be pulled.
#[derive(Debug, thiserror::Error)]
enum PullError {
    /// The grid did not give it.
    #[error("pull the model and the input")]
    Client(#[source] Arc<ClientError>),
    /// It has another length.
    #[error("the input has {got} bytes, the order says {expected}")]
    Length { expected: u32, got: usize },
    /// The key that was granted does not open the sealed input.
    #[error("open the sealed input with the key that was granted")]
    Sealed(#[source] SealError),
    /// The ledger tells no key of a sealed job.
    #[error("the key of the sealed job is not granted")]
    NoKey,
    /// It was opened, and the model does not take it.
    #[error("the model does not accept the sealed input")]
    NotTaken,
    /// A thread that looked at it ended.
    #[error("check the input")]
    Stopped(#[source] tokio::task::JoinError),
}

/// Evidence is larger than the grid takes.
#[derive(Debug, thiserror::Error)]
#[error("evidence of {size} bytes is larger than {limit}")]
struct EvidenceTooLarge {
    size: usize,
    limit: u32,
}

/// What a lease needs, with the lengths and digests that it should have; else what is missing.
async fn try_pull(
    client: &Client,
    puller: &Puller,
    order: Order,
    outcomes: &Sender<Outcome>,
) -> Result<Arc<Task>, (PullError, Option<DeclineReason>)> {
    let at = |permille| {
        let stage = Stage::Pull;
        report(outcomes, order.lease, Progress { stage, permille });
    };
    let named = |reason, error: Arc<ClientError>| {
        let missing = error.is_not_found().then_some(reason);
        (PullError::Client(error), missing)
    };
    at(0);
    let model = client.model(order.model).await;
    let model_blob = model
        .map_err(|error| named(DeclineReason::ModelMissing, Arc::new(error)))?
        .weights_blob;
    let model_file = puller.model(model_blob).await;
    let model_file = model_file.map_err(|error| named(DeclineReason::ModelMissing, error))?;
    at(500);
    let input = match order.mode {
        // Its inputs come with requests.
        VerificationMode::Endpoint => Ok(Arc::from([])),
        _ => puller.input(order.input, order.input_len).await,
    };
    let input = input.map_err(|error| named(DeclineReason::InputMissing, Arc::new(error)))?;
    // Stops: an order that says another length than its input has, which no execution could take.
    if u32::try_from(input.len()) != Ok(order.input_len) {
        let error = PullError::Length {
            expected: order.input_len,
            got: input.len(),
        };
        return Err((error, Some(DeclineReason::InputMissing)));
    }
    let (input, sealed) = match order.opening.clone() {
        None if order.mode == VerificationMode::Sealed => return Err((PullError::NoKey, None)),
        None => (input, None),
        Some(opening) => opened(&order, opening, (input, Arc::clone(&model_file))).await?,
    };
    at(1000);
    Ok(Arc::new(Task {
        lease: order.lease,
        job: order.job,
        provider: order.provider,
        mode: order.mode,
        is_run_whole: order.is_run_whole,
        model: order.model,
        model_blob,
        model_file,
        input,
        sealed,
    }))
}

/// Opens the input of a sealed job. What cannot be opened, or what the model does not take, is its requestor's fault.
async fn opened(
    order: &Order,
    opening: OpeningKey,
    (sealed, model_file): (Arc<[u8]>, Arc<[u8]>),
) -> Result<(Arc<[u8]>, Option<SealedTask>), (PullError, Option<DeclineReason>)> {
    let OpeningKey {
        key,
        requestor,
        grant,
    } = opening;
    let (lease, input) = (order.lease, order.input);
    let purpose = SealedFor {
        model: order.model,
        requestor,
    };
    let work = tokio::task::spawn_blocking(move || {
        let key = key.open_grant(&lease, &grant).map_err(PullError::Sealed)?;
        let opened = key.open_input(&purpose, &sealed);
        let opened = opened.map_err(PullError::Sealed)?;
        match takes(&model_file, &opened) {
            true => Ok((opened.into(), Some(SealedTask { key, input }))),
            false => Err(PullError::NotTaken),
        }
    });
    match work.await {
        Ok(opened) => opened.map_err(|error| (error, Some(DeclineReason::Key))),
        Err(error) => Err((PullError::Stopped(error), None)),
    }
}

/// Whether a model of integers takes an input, as validators find it; a float model says so in its answer.
fn takes(model_file: &[u8], input: &[u8]) -> bool {
    if tg_wasm::is_program(model_file) || tg_float::job::is_float_file(model_file) {
        return true;
    }
    // A file that is no model fails when it is run.
    CompiledModel::read(model_file).map_or(true, |model| is_ordered(&model.program, input, true))
}

async fn try_execute<W: Worker>(
    client: &Client,
    worker: Arc<W>,
    task: Arc<Task>,
    outcomes: &Sender<Outcome>,
) -> Result<(Arc<Task>, Execution, u64), Failure> {
    let started = Instant::now();
    let (shared, sender) = (Arc::clone(&task), outcomes.clone());
    let execution = tokio::task::spawn_blocking(move || {
        worker.execute(&shared, &|progress| report(&sender, shared.lease, progress))
    })
    .await??;
    let elapsed_ms = elapsed_ms(started);
    let execution = execution.sealed(&task)?;
    client.put_blob(execution.output.clone()).await?;
    Ok((task, execution, elapsed_ms))
}

async fn try_prove<W: Worker>(
    client: &Client,
    worker: Arc<W>,
    (task, execution): (Arc<Task>, Execution),
    seed: Option<Digest>,
    outcomes: &Sender<Outcome>,
) -> Result<(Evidence, Arc<[u8]>, u64), Failure> {
    let started = Instant::now();
    let sender = outcomes.clone();
    let limit = match seed {
        Some(_) => TRACE_EVIDENCE_BYTES_MAX,
        None => EVIDENCE_BYTES_MAX,
    };
    let proof = tokio::task::spawn_blocking(move || {
        if let Some(seed) = seed {
            return worker.open(&task, &execution, &seed);
        }
        worker.prove(&task, &execution, &|progress| {
            report(&sender, task.lease, progress);
        })
    })
    .await??;
    let elapsed_ms = elapsed_ms(started);
    let size = sized(&proof, limit)?;
    let kept: Arc<[u8]> = proof.as_slice().into();
    let digest = client.put_blob(proof).await?.digest;
    Ok((Evidence { digest, size }, kept, elapsed_ms))
}

async fn try_refute<W: Worker>(
    client: &Client,
    worker: Arc<W>,
    (task, execution): (Arc<Task>, Execution),
    claim: Digest,
) -> Result<(Evidence, Arc<[u8]>), Failure> {
    let claim = client
        .blob(claim, TRACE_EVIDENCE_BYTES_MAX as usize)
        .await?;
    let answer = tokio::task::spawn_blocking(move || worker.refute(&task, &execution, &claim));
    let answer = answer.await??;
    let size = sized(&answer, TRACE_EVIDENCE_BYTES_MAX)?;
    let kept: Arc<[u8]> = answer.as_slice().into();
    let digest = client.put_blob(answer).await?.digest;
    Ok((Evidence { digest, size }, kept))
}

/// The size of evidence that the grid takes.
fn sized(evidence: &[u8], limit: u32) -> Result<u32, EvidenceTooLarge> {
    let size = evidence.len();
    let fits = u32::try_from(size).ok().filter(|size| *size <= limit);
    fits.ok_or(EvidenceTooLarge { size, limit })
}

/// Reports progress; dropped if the queue is full, because a later one follows.
fn report(outcomes: &Sender<Outcome>, lease: LeaseId, progress: Progress) {
    let _ = outcomes.try_send((lease, Report::Progress(progress)));
}

fn elapsed_ms(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
