//! One stage of work from end to end: pull, compute on a thread of its own, store the result, report.

use std::sync::Arc;
use std::time::Instant;

use tg_sdk::Client;
use tg_types::limits::EVIDENCE_BYTES_MAX;
use tg_types::{Address, Digest, JobId, LeaseId, ModelId};
use tokio::sync::mpsc::Sender;

use crate::agent::chain;
use crate::lease::Evidence;
use crate::pull::Puller;
use crate::worker::{Execution, Progress, Stage, Task, Worker};

/// What a stage reports, and for which lease.
pub(crate) type Outcome = (LeaseId, Report);

/// A report of work.
#[derive(Debug)]
pub(crate) enum Report {
    /// It goes on.
    Progress(Progress),
    /// The model was executed and the output is stored; milliseconds of the execution.
    Executed(Arc<Task>, Execution, u64),
    /// The execution was proved and the proof is stored; milliseconds of the proving.
    Proved(Evidence, u64),
    /// It failed.
    Failed(String),
}

/// What is to be executed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) lease: LeaseId,
    pub(crate) job: JobId,
    pub(crate) provider: Address,
    pub(crate) model: ModelId,
    pub(crate) input: Digest,
    pub(crate) input_len: u32,
}

/// Pulls, executes, stores the output and reports.
pub(crate) async fn execute<W: Worker>(
    client: Client,
    puller: Puller,
    worker: Arc<W>,
    order: Order,
    outcomes: Sender<Outcome>,
) {
    let lease = order.lease;
    let report = match try_execute(&client, &puller, worker, order, &outcomes).await {
        Ok((task, execution, elapsed_ms)) => Report::Executed(task, execution, elapsed_ms),
        Err(error) => Report::Failed(chain(error.as_ref())),
    };
    // A closed queue means that the agent is gone.
    let _ = outcomes.send((lease, report)).await;
}

/// Proves, stores the proof and reports.
pub(crate) async fn prove<W: Worker>(
    client: Client,
    worker: Arc<W>,
    task: Arc<Task>,
    execution: Execution,
    outcomes: Sender<Outcome>,
) {
    let lease = task.lease;
    let report = match try_prove(&client, worker, task, execution, &outcomes).await {
        Ok((evidence, elapsed_ms)) => Report::Proved(evidence, elapsed_ms),
        Err(error) => Report::Failed(chain(error.as_ref())),
    };
    let _ = outcomes.send((lease, report)).await;
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A proof is larger than the grid takes.
#[derive(Debug, thiserror::Error)]
#[error("a proof of {size} bytes is larger than {EVIDENCE_BYTES_MAX}")]
struct EvidenceTooLarge {
    size: usize,
}

async fn try_execute<W: Worker>(
    client: &Client,
    puller: &Puller,
    worker: Arc<W>,
    order: Order,
    outcomes: &Sender<Outcome>,
) -> Result<(Arc<Task>, Execution, u64), Failure> {
    let pull = |permille| Progress {
        stage: Stage::Pull,
        permille,
    };
    report(outcomes, order.lease, pull(0));
    let model_blob = client.model(order.model).await?.weights_blob;
    let model_file = puller.model(model_blob).await?;
    report(outcomes, order.lease, pull(500));
    let input = puller.input(order.input, order.input_len).await?;
    report(outcomes, order.lease, pull(1000));
    let task = Arc::new(Task {
        lease: order.lease,
        job: order.job,
        provider: order.provider,
        model: order.model,
        model_blob,
        model_file,
        input,
    });
    let started = Instant::now();
    let (shared, sender) = (Arc::clone(&task), outcomes.clone());
    let execution = tokio::task::spawn_blocking(move || {
        worker.execute(&shared, &|progress| report(&sender, shared.lease, progress))
    })
    .await??;
    let elapsed_ms = elapsed_ms(started);
    client.put_blob(execution.output.clone()).await?;
    Ok((task, execution, elapsed_ms))
}

async fn try_prove<W: Worker>(
    client: &Client,
    worker: Arc<W>,
    task: Arc<Task>,
    execution: Execution,
    outcomes: &Sender<Outcome>,
) -> Result<(Evidence, u64), Failure> {
    let started = Instant::now();
    let sender = outcomes.clone();
    let proof = tokio::task::spawn_blocking(move || {
        worker.prove(&task, &execution, &|progress| {
            report(&sender, task.lease, progress);
        })
    })
    .await??;
    let elapsed_ms = elapsed_ms(started);
    let size = u32::try_from(proof.len())
        .ok()
        .filter(|size| *size <= EVIDENCE_BYTES_MAX)
        .ok_or(EvidenceTooLarge { size: proof.len() })?;
    let digest = client.put_blob(proof).await?.digest;
    Ok((Evidence { digest, size }, elapsed_ms))
}

/// Reports progress; dropped if the queue is full, because a later one follows.
fn report(outcomes: &Sender<Outcome>, lease: LeaseId, progress: Progress) {
    let _ = outcomes.try_send((lease, Report::Progress(progress)));
}

fn elapsed_ms(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
