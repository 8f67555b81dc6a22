//! One job done by the agent, and what it does when the grid or the work misbehaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tg_api::{ApiConfig, ApiServer, GridPort};
use tg_cuda::ExecutedOn;
use tg_exec::sample::random_model;
use tg_ledger::ModelFacts;
use tg_proof::{ExpectedStatement, ProofFile, PublicModel};
use tg_prover::ProvingModel;
use tg_provider::{
    Agent, AgentConfig, AgentError, AgentEvent, Execution, Progress, ProvingWorker, RentPolicy,
    Shutdown, ShutdownTrigger, Task, WorkError, Worker,
};
use tg_sdk::Client;
use tg_sdk::dto::{JobStateDto, LeaseEndDto, ModelStateDto, RentKindDto};
use tg_types::{
    Amount, Digest, DurationMs, Encode, JobId, JobNeeds, JobOrder, Label, Machine, ModeSet,
    ModelId, OfferTerms, Pricing, TimestampMs, Transaction, VerificationMode,
};
use tokio::sync::mpsc;

use crate::grid::{Grid, wallet};

/// A model, an input for it, and a grid that verifies its proofs.
pub(crate) struct Fixture {
    grid: Arc<Grid>,
    server: ApiServer,
    pub(crate) client: Client,
    pub(crate) model: ModelId,
    pub(crate) input: Vec<u8>,
    pub(crate) proving: ProvingModel,
}

pub(crate) fn terms() -> OfferTerms {
    OfferTerms {
        hardware: Label::new("a test").unwrap(),
        price_base: Amount::from_tgrid(1),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::new(2_000),
        speed_mmac_per_s: 1,
        memory_bytes: 1 << 30,
        slots: 2,
        collateral_per_lease: Amount::from_tgrid(5),
        modes: ModeSet::UNSEALED,
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

pub(crate) async fn fixture() -> Fixture {
    let (compiled, input, proving) = (0..)
        .map(random_model)
        .find_map(|(compiled, input)| {
            let proving = ProvingModel::new(compiled.clone()).ok()?;
            Some((compiled, input, proving))
        })
        .unwrap();
    let public = proving.register().unwrap();
    let bytes = public.encode();
    let facts = ModelFacts {
        program: public.program_id(),
        tier: tg_types::Tier::Tgx1,
        macs: public.program().macs(),
        input_len: u32::try_from(input.len()).unwrap(),
        output_len: u32::try_from(public.program().output_bytes()).unwrap(),
        provable: true,
        proof_bytes: 1 << 20,
        work: public.facts().work(),
        memory: public.facts().memory(),
        trace_bytes: 4_096,
        read_bytes: 4_096,
        looks: 0,
    };
    let verifier = PublicModel::decode(&bytes).unwrap();
    let judge = move |evidence: &[u8]| {
        ProofFile::read(evidence).is_ok_and(|file| {
            tg_proof::verify(&verifier, &file, &ExpectedStatement::default()).is_ok()
        })
    };
    let grid = Grid::with(Box::new(judge), facts, true);
    let (server, client) = grid.serve(ApiConfig::default()).await;
    let weights = client.put_blob(compiled.to_bytes()).await.unwrap().digest;
    let register = Transaction::RegisterModel {
        model: proving.id(),
        public_blob: client.put_blob(bytes).await.unwrap().digest,
        weights_blob: weights,
        name: Label::new("sample").unwrap(),
    };
    let bob = wallet("bob");
    client.sign_and_submit(&bob, register).await.unwrap();
    let model = proving.id();
    until(async || client.model(model).await.unwrap().state == ModelStateDto::Active).await;
    Fixture {
        grid,
        server,
        client,
        model,
        input: input.iter().map(|value| value.cast_unsigned()).collect(),
        proving,
    }
}

pub(crate) async fn until(mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..1500 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen within 15 s");
}

impl Fixture {
    pub(crate) async fn order(&self, mode: VerificationMode) -> JobId {
        let input = self.client.put_blob(self.input.clone()).await.unwrap();
        let status = self.client.status().await.unwrap();
        let order = JobOrder {
            model: self.model,
            input: input.digest,
            input_len: u32::try_from(self.input.len()).unwrap(),
            mode,
            max_price: Amount::from_tgrid(2),
            deadline: TimestampMs::new(status.timestamp_ms + 60_000),
            max_attempts: 2,
            retention: tg_types::DurationMs::ZERO,
            needs: JobNeeds::ANY_MACHINE,
        };
        let alice = wallet("alice");
        let signed = self
            .client
            .sign_and_submit(&alice, Transaction::SubmitJob { order })
            .await
            .unwrap();
        tg_types::signed::job_id(signed.id(&status.domain.into()))
    }

    pub(crate) async fn ends(&self, job: JobId, state: JobStateDto) {
        until(async || {
            self.client
                .job(job)
                .await
                .is_ok_and(|job| job.state == state)
        })
        .await;
    }

    /// An agent of carol with its own worker.
    pub(crate) fn agent<W: Worker>(&self, worker: W, config: AgentConfig) -> Running {
        let (sender, events) = mpsc::channel(4096);
        let (trigger, shutdown) = Shutdown::channel();
        let client = self.client.clone();
        let agent = Agent::new(&client, wallet("carol"), Arc::new(worker), config, sender);
        Running {
            trigger,
            events,
            task: tokio::spawn(agent.run(shutdown)),
        }
    }
}

pub(crate) struct Running {
    trigger: ShutdownTrigger,
    events: mpsc::Receiver<AgentEvent>,
    pub(crate) task: tokio::task::JoinHandle<Result<(), AgentError>>,
}

impl Running {
    /// Stops the agent and returns everything it told.
    pub(crate) async fn stop(mut self) -> Vec<AgentEvent> {
        self.trigger.stop();
        self.task.await.unwrap().unwrap();
        let mut told = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            told.push(event);
        }
        told
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proved_job_is_paid_and_the_offer_withdrawn_at_the_end() {
    let fixture = fixture().await;
    let running = fixture.agent(ProvingWorker::new(), AgentConfig::new(terms()));
    let job = fixture.order(VerificationMode::Proof).await;
    fixture.ends(job, JobStateDto::Paid).await;
    let receipt = fixture.client.job_receipt(job).await.unwrap();
    let proof = fixture
        .client
        .blob(receipt.evidence.unwrap(), 1 << 20)
        .await
        .unwrap();
    let file = ProofFile::read(&proof).unwrap();
    assert_eq!(Digest::of_blob(&file.output), receipt.receipt.output);
    let output = fixture.client.blob(receipt.receipt.output, 1 << 20).await;
    assert_eq!(output.unwrap(), file.output);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let told = running.stop().await;
    let ended = told.iter().any(|event| {
        matches!(event, AgentEvent::Ended(lease) if lease.end == Some(LeaseEndDto::Fulfilled))
    });
    assert!(ended, "{told:?}");
    let executed = told.iter().find_map(|event| match event {
        AgentEvent::Executed { on, .. } => Some(on),
        _ => None,
    });
    assert_eq!(executed, Some(&ExecutedOn::Cpu), "{told:?}");
    assert!(
        matches!(told.last(), Some(AgentEvent::Withdrawn)),
        "{told:?}"
    );
    assert!(fixture.client.offers().await.unwrap().is_empty());
}

/// A masking worker answers the same job by a proof in zero knowledge.
#[tokio::test(flavor = "multi_thread")]
async fn a_masked_proof_is_paid_like_another() {
    let fixture = fixture().await;
    // A provider's is the operating system's.
    let entropy = || Ok([7; 32]);
    let _running = fixture.agent(ProvingWorker::masking(entropy), AgentConfig::new(terms()));
    let job = fixture.order(VerificationMode::Proof).await;
    fixture.ends(job, JobStateDto::Paid).await;
    let receipt = fixture.client.job_receipt(job).await.unwrap();
    let proof = fixture.client.blob(receipt.evidence.unwrap(), 1 << 20);
    let file = ProofFile::read(&proof.await.unwrap()).unwrap();
    assert_eq!(file.statement.zk, Some(tg_proof::Modes::PUBLIC));
    assert_eq!(file.statement.input, receipt.receipt.input);
    assert_eq!(Digest::of_blob(&file.output), receipt.receipt.output);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_job_is_paid_for_its_receipt() {
    let fixture = fixture().await;
    let _running = fixture.agent(ProvingWorker::new(), AgentConfig::new(terms()));
    let job = fixture.order(VerificationMode::None).await;
    fixture.ends(job, JobStateDto::Paid).await;
    let receipt = fixture.client.job_receipt(job).await.unwrap();
    assert_eq!(receipt.evidence, None);
    let output = fixture.client.blob(receipt.receipt.output, 1 << 20).await;
    assert!(output.is_ok());
}

/// The first deposit lasts seven days; whoever wants more pays for it, and the ledger's records have it.
#[tokio::test(flavor = "multi_thread")]
async fn the_offer_and_the_provider_are_kept_by_paying_their_rent() {
    let fixture = fixture().await;
    let day = Duration::from_secs(24 * 3600);
    let config = AgentConfig {
        rent: RentPolicy {
            lasts_min: day * 30,
            term: day * 40,
            ..RentPolicy::default()
        },
        ..AgentConfig::new(terms())
    };
    let running = fixture.agent(ProvingWorker::new(), config);
    until(async || !fixture.client.offers().await.unwrap().is_empty()).await;
    let offer = fixture.client.offers().await.unwrap().remove(0).id;
    let carol = wallet("carol").address();
    let lasts = async |record: String| fixture.client.rent(record).await.unwrap().lasts_ms;
    let long = 39 * 24 * 3_600_000;
    until(async || lasts(offer.to_string()).await > long && lasts(carol.to_string()).await > long)
        .await;
    let rent = fixture.client.rent(carol).await.unwrap();
    assert_eq!((rent.kind, rent.payer), (RentKindDto::Provider, carol));
    let told = running.stop().await;
    let paid = told.iter().filter_map(|event| match event {
        AgentEvent::RentPaid(kind, _) => Some(*kind),
        _ => None,
    });
    let paid: Vec<_> = paid.collect();
    assert_eq!(paid, [RentKindDto::Offer, RentKindDto::Provider]);
}

/// Rent beyond what the operator allows is not paid, and the operator hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn rent_that_is_too_dear_is_told_and_not_paid() {
    let fixture = fixture().await;
    let config = AgentConfig {
        rent: RentPolicy {
            per_day_max: Amount::ZERO,
            lasts_min: Duration::MAX,
            ..RentPolicy::default()
        },
        ..AgentConfig::new(terms())
    };
    let running = fixture.agent(ProvingWorker::new(), config);
    until(async || !fixture.client.offers().await.unwrap().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let told = running.stop().await;
    let problems = told.iter().filter(
        |event| matches!(event, AgentEvent::Problem(text) if text.contains("it lapses in 16")),
    );
    assert_eq!(problems.count(), 2, "{told:?}");
    let paid = told.iter().any(|it| matches!(it, AgentEvent::RentPaid(..)));
    assert!(!paid, "{told:?}");
}

/// Fails a few times, then works.
struct Flaky {
    inner: ProvingWorker,
    failures_left: AtomicU32,
}

impl Flaky {
    fn fails(&self) -> bool {
        let left = |left: u32| left.checked_sub(1);
        self.failures_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
            .is_ok()
    }
}

impl Worker for Flaky {
    fn takes_tokens(&self, task: &Task) -> bool {
        self.inner.takes_tokens(task)
    }

    fn answer(
        &self,
        task: &Task,
        piece: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Vec<u8>, WorkError> {
        self.inner.answer(task, piece)
    }

    fn execute(&self, task: &Task, progress: &dyn Fn(Progress)) -> Result<Execution, WorkError> {
        if self.fails() {
            return Err(WorkError::Execute("the device fell off the bus".into()));
        }
        self.inner.execute(task, progress)
    }

    fn open(
        &self,
        task: &Task,
        execution: &Execution,
        seed: &Digest,
    ) -> Result<Vec<u8>, WorkError> {
        self.inner.open(task, execution, seed)
    }

    fn prove(
        &self,
        task: &Task,
        execution: &Execution,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<u8>, WorkError> {
        assert!(!self.fails(), "a worker that panics is a worker that fails");
        self.inner.prove(task, execution, progress)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_fails_is_tried_again() {
    let fixture = fixture().await;
    let worker = Flaky {
        inner: ProvingWorker::new(),
        failures_left: AtomicU32::new(2),
    };
    let running = fixture.agent(worker, AgentConfig::new(terms()));
    let job = fixture.order(VerificationMode::Proof).await;
    fixture.ends(job, JobStateDto::Paid).await;
    let told = running.stop().await;
    let problem = told.iter().any(
        |event| matches!(event, AgentEvent::Problem(text) if text.contains("fell off the bus")),
    );
    assert!(problem, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_survives_a_restart_of_the_api() {
    let fixture = fixture().await;
    let _running = fixture.agent(ProvingWorker::new(), AgentConfig::new(terms()));
    until(async || !fixture.client.offers().await.unwrap().is_empty()).await;
    let job = fixture.order(VerificationMode::Proof).await;
    let Fixture {
        grid,
        server,
        client,
        ..
    } = fixture;
    let listen = server.address();
    server.stop(Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let config = ApiConfig {
        listen,
        ..ApiConfig::default()
    };
    let port: Arc<dyn GridPort> = Arc::clone(&grid) as _;
    let _server = ApiServer::start(port, config).await.unwrap();
    until(async || {
        let job = client.job(job).await;
        job.is_ok_and(|job| job.state == JobStateDto::Paid)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_process_takes_over_what_the_first_left() {
    let fixture = fixture().await;
    let slow = AgentConfig {
        throttle_mmac_per_s: Some(1),
        ..AgentConfig::new(terms())
    };
    let first = fixture.agent(ProvingWorker::new(), slow);
    let job = fixture.order(VerificationMode::Proof).await;
    until(async || {
        let job = fixture.client.job(job).await;
        job.is_ok_and(|job| !job.leases.is_empty())
    })
    .await;
    first.task.abort();
    let second = fixture.agent(ProvingWorker::new(), AgentConfig::new(terms()));
    fixture.ends(job, JobStateDto::Paid).await;
    let paid = fixture.client.job(job).await.unwrap();
    assert_eq!(paid.leases.len(), 1, "the same lease was finished");
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_money_says_so() {
    let fixture = fixture().await;
    let (sender, _events) = mpsc::channel(16);
    let (_trigger, shutdown) = Shutdown::channel();
    let agent = Agent::new(
        &fixture.client,
        wallet("pauper"),
        Arc::new(ProvingWorker::new()),
        AgentConfig::new(terms()),
        sender,
    );
    let error = agent.run(shutdown).await.unwrap_err();
    let AgentError::Offer(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.status(), Some(422));
}
