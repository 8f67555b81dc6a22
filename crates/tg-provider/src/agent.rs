//! The agent's loop: it waits for leases, pulls their files, has the work done and delivers the results.
//!
//! One task owns all state and talks to the grid; work runs on threads of its own and reports back over a queue. The loop
//! wakes for a finished stage of work, for the next poll, for the next step of a lease, and when it is told to stop. Then
//! the offer is withdrawn, started work is finished, and no new work begins.

mod offer;
mod sealing_key;
mod session;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tg_cuda::ExecutedOn;
use tg_privacy::SealingKey;
use tg_sdk::dto::{LeaseDto, MeterDto, RentKindDto};
use tg_sdk::{Client, ClientError};
use tg_types::{
    Amount, Digest, Domain, Heartbeat, LeaseId, ModelId, NonceLane, OfferId, OfferTerms,
    SignedVoucher, TimestampMs, Transaction, Wallet, with_sources,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::lease::{Evidence, LeaseTask, Message, Step, StopReason, TRIES_MAX};
use crate::ledger_clock::LedgerClock;
use crate::pull::{OwnedTask, Puller};
use crate::rent::RentPolicy;
use crate::serve::{self, LeaseToServe, ServeOrders, ServedFunds};
use crate::session_choice::SessionChoice;
use crate::submit::Submitter;
use crate::unpaid::UnpaidRuns;
use crate::work::{self, Outcome, ServeReport};
use crate::worker::{Progress, Stage, Task, Worker};

/// How often it says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How often the agent looks for leases.
const POLL: Duration = Duration::from_millis(250);

/// Longest wait between two polls while the grid does not answer.
const POLL_MAX: Duration = Duration::from_secs(5);

/// How often the agent checks that its offer is still in the ledger.
const OFFER_CHECK: Duration = Duration::from_secs(5);

/// How often the agent checks the rent of its records; deposits last for days.
const RENT_CHECK: Duration = Duration::from_secs(600);

/// How long a posted offer may take to appear.
const OFFER_APPEARS: Duration = Duration::from_secs(30);

/// How often the agent checks the remaining escrow of an endpoint.
const FUNDS_CHECK: Duration = Duration::from_secs(2);

/// Most reports of work in the queue.
const OUTCOMES_MAX: usize = 1024;

/// What an agent offers and allows.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The terms of its offer.
    pub terms: OfferTerms,
    /// Slows the work to this speed, in million multiply-accumulates a second, and says so: for trying out a grid on one machine.
    pub throttle_mmac_per_s: Option<u64>,
    /// Largest model file it pulls, in bytes.
    pub model_bytes_max: usize,
    /// Where chunks of large models are kept while they are pulled, 1 GiB at most, so that a later run goes on with them.
    pub parts: Option<PathBuf>,
    /// How long it finishes started work after the order to stop.
    pub closing: Duration,
    /// How long beyond that it stays while a result of it is voted on or may be challenged: a provider that does not
    /// answer loses its whole collateral.
    pub judged: Duration,
    /// What it pays so that its offer and its provider's record stay.
    pub rent: RentPolicy,
    /// Models of its own whose rent it pays too.
    pub models: Vec<ModelId>,
    /// Which session key signs what serves its leases.
    pub session: SessionChoice,
    /// Why it can do no work now, if it cannot: its offer is withdrawn meanwhile. Nothing if it always can.
    pub gone: Option<watch::Receiver<Option<String>>>,
}

impl AgentConfig {
    /// Usual limits around given terms, without a session key.
    #[must_use]
    pub fn new(terms: OfferTerms) -> Self {
        Self {
            terms,
            throttle_mmac_per_s: None,
            model_bytes_max: 256 << 20,
            parts: None,
            closing: Duration::from_secs(20),
            judged: Duration::ZERO,
            rent: RentPolicy::default(),
            models: Vec::new(),
            session: SessionChoice::Off,
            gone: None,
        }
    }
}

/// The receiver of the signal to stop, for the agent.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// The sender of the signal to stop. Dropping it sends the signal too.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

impl Shutdown {
    /// Makes a connected sender and receiver.
    #[must_use]
    pub fn channel() -> (ShutdownTrigger, Self) {
        let (sender, receiver) = watch::channel(false);
        (ShutdownTrigger(sender), Self(receiver))
    }

    /// Returns once the signal was sent.
    async fn ordered(&mut self) {
        // An error means that the trigger was dropped, which is the same signal.
        let _ = self.0.wait_for(|&stop| stop).await;
    }
}

impl ShutdownTrigger {
    /// Sends the signal to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// An event of an agent.
#[derive(Debug, Clone)]
pub enum AgentEvent {
    /// The offer is in the ledger.
    Offered(OfferId),
    /// The offer got a lease.
    Leased(Box<LeaseDto>),
    /// Work on a lease progressed.
    Working(LeaseId, Progress),
    /// The model was executed.
    Executed {
        /// The lease.
        lease: LeaseId,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
        /// The device.
        on: ExecutedOn,
    },
    /// The execution was proved and the proof stored.
    Proved {
        /// The lease.
        lease: LeaseId,
        /// The stored proof.
        evidence: Evidence,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
    },
    /// The grid accepted a transaction.
    Submitted(LeaseId, Message),
    /// The ledger ended a lease.
    Ended(Box<LeaseDto>),
    /// The agent gave a lease up without a result.
    Left(LeaseId, StopReason),
    /// How many requests of an endpoint were answered since the last such event.
    Served(LeaseId, u64),
    /// Something failed, and will be tried again.
    Problem(String),
    /// The agent added to the deposit of its offer or of its provider's record.
    RentPaid(RentKindDto, Amount),
    /// The session key that signs for leases from now on; if there is none, the account's own key does.
    SessionKey(Option<Digest>),
    /// The offer was withdrawn.
    Withdrawn,
}

/// Why an agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The offer was refused.
    #[error("post the offer")]
    Offer(#[source] ClientError),
    /// The offer was accepted and never appeared.
    #[error("the offer did not appear in the ledger within {} s", OFFER_APPEARS.as_secs())]
    OfferLost,
}

/// An agent: a wallet, an offer and a way to do the work.
#[derive(Debug)]
pub struct Agent<W> {
    client: Client,
    wallet: Wallet,
    worker: Arc<W>,
    config: AgentConfig,
    events: mpsc::Sender<AgentEvent>,
    submitter: Submitter,
    puller: Puller,
    outcomes: (mpsc::Sender<Outcome>, mpsc::Receiver<Outcome>),
    leases: BTreeMap<LeaseId, Entry>,
    offer: Option<OfferId>,
    /// The time in the last heartbeat.
    beaten_at: TimestampMs,
    /// The ledger's time, by which leases expire.
    clock: LedgerClock,
    /// Answers that endpoints got and did not pay for.
    unpaid: UnpaidRuns,
    /// The key to which keys of sealed jobs are granted.
    sealing: Arc<SealingKey>,
}

/// A lease and the state of its work.
#[derive(Debug)]
struct Entry {
    task: LeaseTask,
    /// The lane of nonces of its last message.
    lane: NonceLane,
    model: ModelId,
    input: (tg_types::Digest, u32),
    pulled: Option<Arc<Task>>,
    /// The evidence, until the lease ends, to be stored again if the node that took it loses it.
    evidence: Option<Arc<[u8]>>,
    /// The answer to the last claim of an accuser, likewise.
    refutation: Option<Arc<[u8]>>,
    requestor: tg_types::Address,
    serving: Option<ServingEntry>,
    /// The task that pulls its files. Stops: an order that is cancelled during the download and continues to use the provider's bandwidth.
    pull: Option<OwnedTask>,
}

/// An endpoint that is served.
#[derive(Debug)]
struct ServingEntry {
    orders: watch::Sender<ServeOrders>,
    /// The last voucher of its requestor.
    voucher: Option<SignedVoucher>,
    looked: Instant,
}

impl Entry {
    fn order(
        &self,
        lease: LeaseId,
        provider: tg_types::Address,
        key: &Arc<SealingKey>,
    ) -> work::Order {
        let sealing = self.task.lease().sealing.as_ref();
        let grant = sealing.and_then(|it| it.grant.clone());
        work::Order {
            lease,
            job: self.task.lease().job,
            provider,
            mode: self.task.mode().into(),
            is_run_whole: self.task.lease().run_whole,
            is_started: self.task.lease().started,
            model: self.model,
            input: self.input.0,
            input_len: self.input.1,
            opening: grant.map(|grant| work::OpeningKey {
                key: Arc::clone(key),
                requestor: self.requestor,
                grant,
            }),
        }
    }
}

impl Entry {
    /// Handles a report of the loop that serves an endpoint. Returns the event to emit, if any.
    fn served(&mut self, lease: LeaseId, report: ServeReport) -> Option<AgentEvent> {
        let (voucher, event) = match report {
            ServeReport::Claim(voucher) => {
                self.task.claim_wanted();
                (voucher, None)
            }
            ServeReport::Ended(voucher) => {
                self.task.served();
                (voucher, None)
            }
            ServeReport::Answered(count) => (None, Some(AgentEvent::Served(lease, count))),
            ServeReport::Problem(what) => (None, Some(AgentEvent::Problem(what))),
        };
        if let Some(serving) = self.serving.as_mut().filter(|_| voucher.is_some()) {
            serving.voucher = voucher;
        }
        event
    }
}

impl<W: Worker> Agent<W> {
    /// An agent for the grid behind `client`. Events are dropped while `events` is full.
    #[must_use]
    pub fn new(
        client: &Client,
        wallet: Wallet,
        worker: Arc<W>,
        config: AgentConfig,
        events: mpsc::Sender<AgentEvent>,
    ) -> Self {
        // Outputs and proofs are stored on this account's behalf.
        let client = client.uploading_as(&wallet);
        let session = config.session.of(&wallet);
        Self {
            submitter: Submitter::new(client.clone(), wallet.clone(), session),
            puller: Puller::new(client.clone(), config.model_bytes_max, config.parts.clone()),
            outcomes: mpsc::channel(OUTCOMES_MAX),
            leases: BTreeMap::new(),
            offer: None,
            beaten_at: TimestampMs::ZERO,
            clock: LedgerClock::new(),
            unpaid: UnpaidRuns::default(),
            sealing: Arc::new(SealingKey::of(&wallet)),
            client,
            wallet,
            worker,
            config,
            events,
        }
    }

    /// Offers and works until the signal to stop, then finishes what it started.
    ///
    /// # Errors
    /// If the offer cannot be posted at all. While the grid cannot be reached the agent waits.
    pub async fn run(mut self, mut shutdown: Shutdown) -> Result<(), AgentError> {
        tokio::select! {
            offered = self.ensure_offer() => offered?,
            () = shutdown.ordered() => return Ok(()),
        }
        let mut poll = POLL;
        let mut looked: Option<Instant> = None;
        let mut closing: Option<Instant> = None;
        let mut offer_checked = Instant::now();
        let mut rent_checked: Option<Instant> = None;
        let mut beaten: Option<Instant> = None;
        loop {
            if beaten.is_none_or(|at| at.elapsed() >= HEARTBEAT) {
                beaten = Some(Instant::now());
                self.send_heartbeat().await;
            }
            if looked.is_none_or(|at| at.elapsed() >= poll) {
                let answered = self.look().await;
                poll = if answered {
                    POLL
                } else {
                    (poll * 2).min(POLL_MAX)
                };
                looked = Some(Instant::now());
            }
            self.drive(closing.is_some()).await;
            let is_over = closing.is_some_and(|until| self.may_leave(until));
            if is_over || (closing.is_some() && self.leases.is_empty()) {
                return Ok(());
            }
            if closing.is_none() {
                self.follow_ability().await;
                self.tend_session().await;
            }
            if closing.is_none() && offer_checked.elapsed() >= OFFER_CHECK {
                offer_checked = Instant::now();
                self.restore_offer().await;
            }
            if closing.is_none() && rent_checked.is_none_or(|at| at.elapsed() >= RENT_CHECK) {
                rent_checked = Some(Instant::now());
                self.renew_rent().await;
            }
            let until_look = poll.saturating_sub(looked.map_or(poll, |at| at.elapsed()));
            let wait = self.wait(until_look, closing.is_some());
            tokio::select! {
                outcome = self.outcomes.1.recv() => {
                    if let Some(outcome) = outcome {
                        self.take(outcome);
                    }
                }
                () = tokio::time::sleep(wait) => {}
                () = shutdown.ordered(), if closing.is_none() => {
                    closing = Some(Instant::now() + self.config.closing);
                    self.withdraw().await;
                }
            }
            while let Ok(outcome) = self.outcomes.1.try_recv() {
                self.take(outcome);
            }
        }
    }

    /// Whether to give up what is not finished; `until` is when the grace period ends.
    fn may_leave(&self, until: Instant) -> bool {
        let mut leases = self.leases.values();
        let is_judged = leases.any(|entry| entry.task.lease().check.is_some());
        let judged = match is_judged {
            true => self.config.judged,
            false => Duration::ZERO,
        };
        Instant::now() >= until + judged
    }

    fn emit(&self, event: AgentEvent) {
        // If the channel is full or closed, the event is dropped and the agent works on.
        let _ = self.events.try_send(event);
    }

    fn problem(&self, what: &str, error: &dyn std::error::Error) {
        self.emit(AgentEvent::Problem(format!(
            "{what}: {}",
            with_sources(error)
        )));
    }

    /// Sends a signed heartbeat.
    async fn send_heartbeat(&mut self) {
        let sent = async {
            let status = self.client.status().await?;
            self.clock.observe_block(status.timestamp_ms);
            // The ledger's time: this machine's clock may be wrong. While no block comes, the next millisecond.
            let at = TimestampMs::new(status.timestamp_ms.max(self.beaten_at.get() + 1));
            self.beaten_at = at;
            let heartbeat = Heartbeat::new(at, &self.wallet, &status.domain.into());
            self.client.heartbeat(&heartbeat).await
        };
        if let Err(error) = sent.await {
            self.problem("say that this provider is there", &error);
        }
    }

    /// Polls the ledger for new, changed and ended leases. Returns whether the grid answered.
    async fn look(&mut self) -> bool {
        let listed = match self.client.leases(self.wallet.address()).await {
            Ok(listed) => listed,
            Err(error) => {
                self.problem("look for leases", &error);
                return false;
            }
        };
        let ended: Vec<LeaseId> = self
            .leases
            .keys()
            .filter(|id| !listed.iter().any(|lease| lease.id == **id))
            .copied()
            .collect();
        for id in ended {
            self.end(id).await;
        }
        for lease in listed {
            if let Some(entry) = self.leases.get_mut(&lease.id) {
                entry.task.seen(lease);
            } else if let Err(error) = self.admit(lease).await {
                self.problem("take a lease", &error);
            }
        }
        true
    }

    /// Adds a new lease.
    async fn admit(&mut self, lease: LeaseDto) -> Result<(), ClientError> {
        // Its times are near, and the last heartbeat may be from before a pause of the ledger.
        let status = self.client.status().await?;
        self.clock.observe_block(status.timestamp_ms);
        let job = self.client.job(lease.job).await?;
        let macs = self
            .client
            .model(job.model)
            .await?
            .facts
            .map_or(0, |facts| facts.macs);
        let work_ms_min = self.config.throttle_mmac_per_s.map_or(0, |speed| {
            // macs / (speed * 10^6 / s) in milliseconds.
            macs.div_ceil(speed.max(1).saturating_mul(1_000))
        });
        self.emit(AgentEvent::Leased(Box::new(lease.clone())));
        let entry = Entry {
            model: job.model,
            input: (job.input, job.input_len),
            pulled: None,
            evidence: None,
            refutation: None,
            requestor: job.requestor,
            serving: None,
            pull: None,
            lane: NonceLane::Account(self.wallet.address()),
            task: LeaseTask::new(lease, job.mode, work_ms_min),
        };
        self.leases.insert(entry.task.lease().id, entry);
        Ok(())
    }

    /// Emits how a lease ended and forgets it.
    async fn end(&mut self, id: LeaseId) {
        let Some(mut entry) = self.leases.remove(&id) else {
            return;
        };
        entry.pull = None;
        let last = entry.task.lease();
        let job = self.client.job(last.job).await;
        let seen = job
            .ok()
            .and_then(|job| job.leases.into_iter().find(|lease| lease.id == id));
        self.emit(AgentEvent::Ended(Box::new(
            seen.unwrap_or_else(|| last.clone()),
        )));
    }

    /// Does every step that is due.
    async fn drive(&mut self, is_closing: bool) {
        self.steer(is_closing).await;
        self.look_for_lost().await;
        let ids: Vec<LeaseId> = self.leases.keys().copied().collect();
        for id in ids {
            while self.drive_one(id, is_closing).await {}
        }
    }

    /// Finds messages that are lost, or wait behind one that is lost, so that they are sent again before a lease is late.
    async fn look_for_lost(&mut self) {
        let now = self.clock.now();
        let mut tasks = self.leases.values().map(|entry| &entry.task);
        if !tasks.any(|task| task.waits_for_effect(now)) {
            return;
        }
        // Without an answer they are sent again after their timeout.
        if let Ok(account) = self.submitter.account().await {
            for entry in self.leases.values_mut() {
                // If a session key was removed, all its messages without an effect yet are lost.
                entry.task.told_nonce(account.next_nonce(&entry.lane));
            }
        }
    }

    /// Does the next step of a lease. Returns whether another one may follow.
    async fn drive_one(&mut self, id: LeaseId, is_closing: bool) -> bool {
        let now = self.clock.now();
        let Some(entry) = self.leases.get_mut(&id) else {
            return false;
        };
        match entry.task.next(now, is_closing) {
            Step::Wait(_) => false,
            Step::Begin(stage) => {
                self.begin(id, stage, now);
                true
            }
            Step::Submit(message) => self.send(id, message, now).await,
            Step::Forget(StopReason::Ended) => {
                self.end(id).await;
                false
            }
            Step::Forget(_) => {
                // A lease that was given up stays listed until the ledger ends it; if it were removed here, it would seem new at the next poll.
                if is_closing {
                    self.leases.remove(&id);
                }
                false
            }
        }
    }

    /// Sends the loops that serve endpoints what they may still earn, and when to stop.
    async fn steer(&mut self, is_closing: bool) {
        for entry in self.leases.values_mut() {
            let (Some(serving), Some(meter)) = (&mut entry.serving, &entry.task.lease().meter)
            else {
                continue;
            };
            let mut next = *serving.orders.borrow();
            next.stop |= is_closing
                || meter.ends_ms.is_some()
                || self.clock.now() >= entry.task.lease().finish_by_ms;
            if serving.looked.elapsed() >= FUNDS_CHECK {
                serving.looked = Instant::now();
                // Without an answer what was known last stands, and time goes on.
                if let Ok(job) = self.client.job(entry.task.lease().job).await {
                    next.funds = Some(ServedFunds {
                        all: meter.paid.saturating_add(job.escrow),
                        time: Amount::ZERO,
                    });
                }
            }
            if let Some(funds) = &mut next.funds {
                funds.time = time_earned(meter, self.clock.now());
            }
            serving.orders.send_if_modified(|orders| {
                let is_new = *orders != next;
                *orders = next;
                is_new
            });
        }
    }

    /// Begins to serve an endpoint.
    fn begin_serving(&mut self, id: LeaseId) {
        let Some(entry) = self.leases.get_mut(&id) else {
            return;
        };
        let Some(task) = entry.pulled.clone() else {
            return;
        };
        let lease = entry.task.lease();
        let (orders, receiver) = watch::channel(ServeOrders {
            stop: false,
            funds: None,
        });
        let served = LeaseToServe {
            task,
            requestor: entry.requestor,
            run: lease.price,
            minute: lease.meter.as_ref().map_or(Amount::ZERO, |it| it.minute),
            claimed: lease.meter.as_ref().map_or(Amount::ZERO, |it| it.vouchers),
            unpaid: self.unpaid.clone(),
        };
        let long_ago = Instant::now().checked_sub(FUNDS_CHECK);
        entry.serving = Some(ServingEntry {
            orders,
            voucher: None,
            looked: long_ago.unwrap_or_else(Instant::now),
        });
        let (client, wallet) = (self.client.clone(), self.wallet.clone());
        let (worker, outcomes) = (Arc::clone(&self.worker), self.outcomes.0.clone());
        tokio::spawn(serve::serve(
            client, wallet, worker, served, receiver, outcomes,
        ));
    }

    fn begin(&mut self, id: LeaseId, stage: Stage, now: u64) {
        let provider = self.wallet.address();
        let Some(entry) = self.leases.get_mut(&id) else {
            return;
        };
        entry.task.begun(stage, now);
        if stage == Stage::Serve {
            self.begin_serving(id);
            return;
        }
        let outcomes = self.outcomes.0.clone();
        let worker = Arc::clone(&self.worker);
        let kept = match stage {
            Stage::Prove => entry.evidence.clone(),
            Stage::Refute => entry.task.refutation().and(entry.refutation.clone()),
            Stage::Deliver => entry.task.execution().map(|it| it.output.as_slice().into()),
            _ => None,
        };
        if let Some(bytes) = kept {
            let client = self.client.clone();
            tokio::spawn(work::store_again(client, (id, bytes), outcomes));
            return;
        }
        match (stage, entry.pulled.clone(), entry.task.execution()) {
            (Stage::Pull, _, _) => {
                let order = entry.order(id, provider, &self.sealing);
                let (client, puller) = (self.client.clone(), self.puller.clone());
                let pull = work::pull(client, puller, order, outcomes);
                entry.pull = Some(OwnedTask::spawn(pull));
            }
            (Stage::Prove, Some(task), Some(execution)) => {
                let work = (task, execution.clone());
                let seed = entry.task.seed();
                tokio::spawn(work::prove(
                    self.client.clone(),
                    worker,
                    work,
                    seed,
                    outcomes,
                ));
            }
            (Stage::Refute, Some(task), Some(execution)) => {
                let work = (task, execution.clone());
                let claim = entry.task.claim().unwrap_or_default();
                let client = self.client.clone();
                tokio::spawn(work::refute(client, worker, work, claim, outcomes));
            }
            (_, pulled, _) => {
                let order = (entry.order(id, provider, &self.sealing), pulled);
                let puller = self.puller.clone();
                let client = self.client.clone();
                let execute = work::execute(client, puller, worker, order, outcomes);
                // After a restart it pulls first.
                entry.pull = Some(OwnedTask::spawn(execute));
            }
        }
    }

    /// Submits a transaction about a lease; returns whether the grid took it.
    async fn send(&mut self, id: LeaseId, message: Message, now: u64) -> bool {
        let Some(entry) = self.leases.get(&id) else {
            return false;
        };
        let voucher = entry.serving.as_ref().and_then(|it| it.voucher);
        let salt = self
            .wallet
            .derived_secret(Domain::ResultSalt, id.as_bytes());
        let Some(transaction) = transaction(&entry.task, message, (voucher, salt)) else {
            return false;
        };
        let result = self.submitter.submit(transaction).await;
        match (result, self.leases.get_mut(&id)) {
            (Ok(sent), Some(entry)) => {
                entry.lane = sent.lane;
                entry.task.submitted(message, sent.nonce, now);
                self.emit(AgentEvent::Submitted(id, message));
                true
            }
            (Err(error), Some(entry)) => {
                entry.task.refused(message, now);
                // The others of a gang may need longer: that is no problem, and the result is sent again.
                if error.code() != Some(PARTS_MISSING) {
                    self.problem("submit a transaction", &error);
                }
                false
            }
            (_, None) => false,
        }
    }

    /// Handles a report of work.
    fn take(&mut self, outcome: Outcome) {
        let (id, report) = outcome;
        let now = self.clock.now();
        let Some(entry) = self.leases.get_mut(&id) else {
            return;
        };
        let event = match report {
            work::Report::Progress(progress) => AgentEvent::Working(id, progress),
            work::Report::Pulled(task) => {
                entry.pulled = Some(task);
                entry.task.pulled();
                return;
            }
            work::Report::Executed(task, execution, elapsed_ms) => {
                entry.pulled = Some(task);
                let on = execution.on.clone();
                entry.task.executed(execution, now);
                AgentEvent::Executed {
                    lease: id,
                    elapsed_ms,
                    on,
                }
            }
            work::Report::Served(report) => {
                if let Some(event) = entry.served(id, report) {
                    self.emit(event);
                }
                return;
            }
            work::Report::Stored => {
                entry.task.stored(now);
                return;
            }
            work::Report::Proved(evidence, bytes, elapsed_ms) => {
                entry.task.proved(evidence, now);
                entry.evidence = Some(bytes);
                AgentEvent::Proved {
                    lease: id,
                    evidence,
                    elapsed_ms,
                }
            }
            work::Report::Refuted(claim, answer, bytes) => {
                entry.task.refuted(claim, answer, now);
                entry.refutation = Some(bytes);
                return;
            }
            work::Report::Unreachable(message) => {
                entry.task.unreachable(now);
                AgentEvent::Problem(message)
            }
            work::Report::Failed(message, missing) => {
                entry.task.failed(now, missing);
                let is_often = entry.task.failures() >= TRIES_MAX;
                // It is looked for as long as there is time to start: that was told.
                if is_often && missing.is_some() && !entry.task.lease().started {
                    return;
                }
                if entry.task.gives_up() {
                    self.emit(AgentEvent::Left(id, StopReason::Failed));
                }
                AgentEvent::Problem(message)
            }
        };
        self.emit(event);
    }

    /// How long to sleep: until the next poll, or something due before it.
    fn wait(&self, poll: Duration, is_closing: bool) -> Duration {
        let now = self.clock.now();
        let due = self
            .leases
            .values()
            .filter_map(|entry| match entry.task.next(now, is_closing) {
                Step::Wait(until) => Some(Duration::from_millis(until.saturating_sub(now))),
                Step::Submit(_) | Step::Begin(_) | Step::Forget(_) => None,
            });
        due.fold(poll, Duration::min)
    }
}

/// What an endpoint has earned by time until `now` (milliseconds), going by the clock.
fn time_earned(meter: &MeterDto, now: u64) -> Amount {
    let end = meter.ends_ms.map_or(now, |at| at.min(now));
    let served = meter.started_ms.map_or(0, |at| end.saturating_sub(at));
    let earned = meter.minute.checked_mul_div_ceil(served, 60_000);
    earned.unwrap_or(Amount::MAX)
}

/// The ledger's code for a gang's result that was sent before all parts.
const PARTS_MISSING: &str = "TG-LED-098";

/// The transaction of a message; `None` if what it is about is not available.
fn transaction(
    task: &LeaseTask,
    message: Message,
    (voucher, salt): (Option<SignedVoucher>, Digest),
) -> Option<Transaction> {
    let lease = task.lease().id;
    Some(match message {
        Message::Start => Transaction::StartLease { lease },
        Message::Decline(reason) => Transaction::DeclineLease { lease, reason },
        Message::Claim | Message::End => {
            let claimed = task.lease().meter.as_ref();
            let claimed = claimed.map_or(Amount::ZERO, |it| it.vouchers);
            Transaction::SettleEndpoint {
                lease,
                voucher: serve::claimable(voucher, claimed),
                ends: message == Message::End,
            }
        }
        Message::Part => Transaction::CommitPart {
            lease,
            receipt: task.execution()?.receipt.clone(),
        },
        Message::Seal | Message::Open => task.sealing(message, salt)?,
        Message::Commit => Transaction::CommitReceipt {
            lease,
            receipt: task.execution()?.receipt.clone(),
        },
        Message::Argue => {
            let Evidence { digest, size } = task.refutation()?;
            Transaction::ArgueResult {
                lease,
                file: digest,
                size,
            }
        }
        Message::Evidence => {
            let Evidence { digest, size } = task.evidence()?;
            Transaction::SubmitEvidence {
                lease,
                evidence: digest,
                size,
            }
        }
    })
}
