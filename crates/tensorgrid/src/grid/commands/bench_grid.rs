//! `tensorgrid bench grid`: how many jobs validators of one process settle, and how soon.
//!
//! A whole grid runs here: validators over loopback TCP with databases on disk, accounts that order jobs which nobody checks
//! (`--verify none`), and accounts that answer each lease at once with a start and a receipt, so that nothing but the grid is
//! measured. All of it is signed by session keys, as machines do. First as many jobs as settle are found with a fixed number on their way; then orders come at four fifths of that
//! rate, and the time from sending an order to the final block that has it is taken.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use tg_api::ApiConfig;
use tg_ledger::{Event, JobState};
use tg_node::{Finalized, NodeHandle, SubmitError};
use tg_sdk::dto::{CloudPricesDto, ModelDto};
use tg_types::{
    Address, Amount, Digest, Domain, DurationMs, Fees, JobNeeds, JobOrder, Label, Machine, ModeSet,
    OfferTerms, Pricing, Receipt, SessionScope, SessionWallet, Tier, TimestampMs, Transaction,
    TransactionId, VerificationMode, Wallet,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::cli::BenchGridArguments;
use crate::grid::connect::Calling as _;
use crate::grid::embedded::{EmbeddedGrid, EmbeddedOptions, register_bundled};
use tg_console::accounts;
use tg_console::outcome::{Exit, Failure, Outcome, json, line, say};
use tg_offline::bundled::Bundled;
use tg_offline::measure::Moment;
use tg_offline::scratch::ScratchFolder;

/// What each account of the load begins with.
const FUNDS: Amount = Amount::from_tgrid(100_000);

/// Accounts that order, and as many that answer.
const ACCOUNTS: usize = 16;

/// Slots of each offer.
const SLOTS: u16 = 1_000;

/// How long their session keys sign.
const SESSION_MS: u64 = 24 * 3_600_000;

/// How long the offers and the first blocks may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often orders are sent when they come at a rate.
const TICK: Duration = Duration::from_millis(10);

/// One account of the load, the session key that signs for it, and the validator that it speaks to.
struct LoadAccount {
    wallet: Wallet,
    session: SessionWallet,
    /// The next number of the session key.
    nonce: u64,
    node: NodeHandle,
    /// Answers that its validator does not take yet: it may be a block behind the one that told of the lease.
    unsent: VecDeque<Transaction>,
}

impl LoadAccount {
    fn new(name: &str, node: NodeHandle) -> Self {
        let wallet = accounts::wallet(name);
        let secret = wallet.derived_secret(Domain::DevelopmentWallet, b"session key of the load");
        let session = SessionWallet::from_secret(secret.as_bytes(), wallet.address());
        Self {
            wallet,
            session,
            nonce: 0,
            node,
            unsent: VecDeque::new(),
        }
    }

    /// Signs transactions with the account's own key and submits them.
    async fn begin(&self, transactions: Vec<Transaction>) -> Result<(), SubmitError> {
        let snapshot = self.node.snapshot();
        let (domain, fees) = (
            *snapshot.state.domain(),
            Fees::from_base_fee(snapshot.state.base_fee()),
        );
        let first = snapshot.state.nonce(&self.wallet.address());
        for (nonce, transaction) in (first..).zip(transactions) {
            let signed = self
                .wallet
                .sign_with_fees(transaction, nonce, fees, &domain);
            self.node.submit(signed).await?;
        }
        Ok(())
    }

    fn registration(&self, scope: SessionScope) -> Transaction {
        let now = self.node.snapshot().state.head().time;
        Transaction::RegisterSessionKey {
            key: self.session.public(),
            scope,
            cap: FUNDS,
            expires: TimestampMs::new(now.get() + SESSION_MS),
        }
    }

    /// Whether its validator knows the session key; then the first number is known.
    fn is_ready(&mut self) -> bool {
        let snapshot = self.node.snapshot();
        let account = snapshot.state.account(&self.wallet.address());
        let is_known = account.is_some_and(|it| it.session(&self.session.public()).is_some());
        self.nonce = snapshot.state.nonce_in(&self.session.lane());
        is_known
    }

    /// Signs with the session key and submits; the transaction's id, or why it was not taken, and then the number is used by the next one.
    async fn send(
        &mut self,
        transaction: Transaction,
        fees: Fees,
    ) -> Result<TransactionId, SubmitError> {
        let domain = *self.node.snapshot().state.domain();
        let signed = self
            .session
            .sign_with_fees(transaction, self.nonce, fees, &domain);
        let id = self.node.submit(signed).await?;
        self.nonce += 1;
        Ok(id)
    }

    /// Sends the answers that wait, in their order, until one is not taken.
    async fn answer(mut self) -> Sending {
        let mut refused = Refusals::new();
        while let Some(next) = self.unsent.front() {
            match self.send(next.clone(), Fees::NONE).await {
                Ok(_) => {
                    self.unsent.pop_front();
                }
                Err(error) => {
                    *refused.entry(error.code()).or_default() += 1;
                    break;
                }
            }
        }
        Sending {
            account: self,
            sent: Vec::new(),
            refused,
        }
    }

    /// Orders so many jobs, until one is not taken.
    async fn order(mut self, order: JobOrder, count: usize) -> Sending {
        let (mut sent, mut refused) = (Vec::new(), Refusals::new());
        for _ in 0..count {
            let snapshot = self.node.snapshot();
            let order = JobOrder {
                deadline: TimestampMs::new(snapshot.state.head().time.get() + 600_000),
                ..order.clone()
            };
            let fees = Fees::from_base_fee(snapshot.state.base_fee());
            let at = Instant::now();
            match self.send(Transaction::SubmitJob { order }, fees).await {
                Ok(id) => sent.push((id, at)),
                Err(error) => {
                    *refused.entry(error.code()).or_default() += 1;
                    break;
                }
            }
        }
        Sending {
            account: self,
            sent,
            refused,
        }
    }
}

/// How often a validator did not take a transaction at first, by the code that it gave.
type Refusals = BTreeMap<&'static str, u64>;

/// What came of one account's turn, and the account.
struct Sending {
    account: LoadAccount,
    sent: Vec<(TransactionId, Instant)>,
    refused: Refusals,
}

/// What came of one phase.
#[derive(Debug, Default)]
struct Phase {
    settled: u64,
    refused: Refusals,
    seconds: f64,
    cpu_ms: f64,
    blocks: u64,
    /// Milliseconds from sending an order to the final block that has it.
    finality: Vec<f64>,
}

impl Phase {
    fn note(&mut self, refused: Refusals) {
        for (code, count) in refused {
            *self.refused.entry(code).or_default() += count;
        }
    }

    fn rate(&self) -> f64 {
        self.settled as f64 / self.seconds.max(1e-9)
    }

    /// Microseconds of CPU of this process for each settled job and validator, the load's own included.
    fn cpu_us(&self, validators: usize) -> f64 {
        1e3 * self.cpu_ms / (self.settled.max(1) as f64 * validators as f64)
    }

    fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.finality.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let place = (share * last as f64).round() as usize;
        sorted.get(place).copied().unwrap_or(0.0)
    }
}

/// The load: who orders, who answers, and what is on its way.
struct GridLoad {
    requestors: Vec<LoadAccount>,
    providers: HashMap<Address, LoadAccount>,
    order: JobOrder,
    receipt: Receipt,
    sent: HashMap<TransactionId, Instant>,
    /// Whose turn it is to order.
    turn: usize,
}

/// Measures a grid of this process.
pub(crate) async fn run(arguments: &BenchGridArguments, as_json: bool) -> Outcome {
    let folder = ScratchFolder::new()?;
    say("starting a grid; its data are removed afterwards");
    let names = (0..ACCOUNTS).flat_map(|index| [requestor(index), provider(index)]);
    let mut funded: Vec<(String, Amount)> = names.map(|name| (name, FUNDS)).collect();
    funded.push((accounts::REGISTRAR.to_owned(), FUNDS));
    let grid = EmbeddedGrid::start(EmbeddedOptions {
        directory: folder.path().to_owned(),
        api: ApiConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            ..ApiConfig::default()
        },
        tls: None,
        names: Vec::new(),
        clouds: CloudPricesDto::default(),
        validators: arguments.validators.into(),
        repeat_macs: tg_ledger::REPEATED_MACS_USUAL,
        whole_run_macs: tg_ledger::WHOLE_RUN_MACS_USUAL,
        accounts: funded,
        openai_keys: None,
        tokenizers: None,
        new_epoch: false,
    })
    .await?;
    let nodes: Vec<NodeHandle> = grid.nodes().cloned().collect();
    let mut load = GridLoad::prepare(&grid, &nodes).await?;
    let time = Duration::from_secs(arguments.seconds.into());
    say(format_args!(
        "{} jobs on their way, {} s",
        arguments.window,
        time.as_secs()
    ));
    let most = load.closed(&nodes[0], arguments.window, time).await?;
    let rate = 0.8 * most.rate();
    say(format_args!(
        "{rate:.0} orders a second, {} s",
        time.as_secs()
    ));
    let steady = load.open(&nodes[0], rate, time).await?;
    let state = &nodes[0].snapshot().state;
    if !state.money().is_conserved() {
        return Err(Failure::new(
            Exit::Failed,
            anyhow::anyhow!("money is not conserved"),
        ));
    }
    grid.stop().await?;
    tell(&most, &steady, nodes.len(), as_json)
}

fn requestor(index: usize) -> String {
    format!("bench requestor {index}")
}

fn provider(index: usize) -> String {
    format!("bench provider {index}")
}

fn terms() -> OfferTerms {
    OfferTerms {
        hardware: Label::lossy("load generator"),
        price_base: Amount::new(1_000_000_000_000_000),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::from_secs(5),
        speed_mmac_per_s: 1_000,
        memory_bytes: 1 << 40,
        slots: SLOTS,
        collateral_per_lease: Amount::from_tgrid(1),
        modes: ModeSet::UNSEALED,
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

impl GridLoad {
    /// Registers a model, stores an input, posts the offers and waits for them.
    async fn prepare(grid: &EmbeddedGrid, nodes: &[NodeHandle]) -> Result<Self, Failure> {
        let registrar = accounts::wallet(accounts::REGISTRAR);
        let model = register_bundled(grid.client(), &registrar, Bundled::Mlp).await?;
        let (order, receipt, answer) = order_of(&model)?;
        let input = vec![0; order.input_len as usize];
        let uploader = grid.client().uploading_as(&accounts::wallet(&requestor(0)));
        uploader.put_blob(input).await.calling("store the input")?;
        // One answer for all: what is measured of delivery is what validators state, not how bytes travel.
        let stored = uploader.put_blob(answer).await;
        stored.calling("store the answer")?;
        let account = |name: String, index: usize| {
            LoadAccount::new(&name, nodes[index % nodes.len()].clone())
        };
        let (mut requestors, mut answering) = (Vec::new(), Vec::new());
        for index in 0..ACCOUNTS {
            let one = account(requestor(index), index);
            let begun = one.begin(vec![one.registration(SessionScope::Order)]).await;
            begun.map_err(|error| failed("register a session key", &error))?;
            requestors.push(one);
            let one = account(provider(index), index);
            let offer = Transaction::PostOffer { terms: terms() };
            let begun = one
                .begin(vec![one.registration(SessionScope::Serve), offer])
                .await;
            begun.map_err(|error| failed("post an offer", &error))?;
            answering.push(one);
        }
        let since = Instant::now();
        while nodes[0].snapshot().state.offers().iter().count() < ACCOUNTS
            || !requestors.iter_mut().all(LoadAccount::is_ready)
            || !answering.iter_mut().all(LoadAccount::is_ready)
        {
            if since.elapsed() > PATIENCE {
                return Err(Failure::new(
                    Exit::Failed,
                    anyhow::anyhow!("the offers or session keys do not stand"),
                ));
            }
            tokio::time::sleep(TICK).await;
        }
        let providers = answering.into_iter();
        Ok(Self {
            requestors,
            providers: providers.map(|it| (it.wallet.address(), it)).collect(),
            order,
            receipt,
            sent: HashMap::new(),
            turn: 0,
        })
    }

    /// Orders so many jobs, all accounts at once, each its part; how many were taken.
    async fn order(&mut self, count: u64, phase: &mut Phase) -> u64 {
        let mut turns = JoinSet::new();
        let mut accounts = std::mem::take(&mut self.requestors);
        // Whoever ordered less the last time is first now.
        let first = self.turn % accounts.len().max(1);
        accounts.rotate_left(first);
        let (each, more) = (count as usize / ACCOUNTS, count as usize % ACCOUNTS);
        self.turn = more;
        for (place, account) in accounts.into_iter().enumerate() {
            turns.spawn(account.order(self.order.clone(), each + usize::from(place < more)));
        }
        let mut taken = 0;
        for Sending {
            account,
            sent,
            refused,
        } in turns.join_all().await
        {
            taken += sent.len() as u64;
            self.sent.extend(sent);
            phase.note(refused);
            self.requestors.push(account);
        }
        taken
    }

    /// All accounts at once send the answers that wait.
    async fn answer(&mut self, phase: &mut Phase) {
        let mut turns = JoinSet::new();
        for (_, account) in std::mem::take(&mut self.providers) {
            turns.spawn(account.answer());
        }
        for Sending {
            account, refused, ..
        } in turns.join_all().await
        {
            phase.note(refused);
            self.providers.insert(account.wallet.address(), account);
        }
    }

    /// Answers the leases of a block, and counts what is final in it. Gives how many jobs were settled.
    async fn block(&mut self, block: &Finalized, phase: &mut Phase) -> u64 {
        let mut settled = 0;
        phase.blocks += 1;
        for event in block.events.iter() {
            match event {
                Event::TransactionExecuted { id, .. } => {
                    if let Some(at) = self.sent.remove(id) {
                        phase.finality.push(1e3 * at.elapsed().as_secs_f64());
                    }
                }
                Event::LeaseMade {
                    lease, provider, ..
                } => {
                    let Some(account) = self.providers.get_mut(provider) else {
                        continue;
                    };
                    let start = Transaction::StartLease { lease: *lease };
                    let commit = Transaction::CommitReceipt {
                        lease: *lease,
                        receipt: self.receipt.clone(),
                    };
                    account.unsent.extend([start, commit]);
                }
                Event::JobChanged {
                    state: JobState::Paid,
                    ..
                } => settled += 1,
                _ => {}
            }
        }
        phase.settled += settled;
        self.answer(phase).await;
        settled
    }

    /// Keeps so many jobs on their way.
    async fn closed(
        &mut self,
        node: &NodeHandle,
        window: u32,
        time: Duration,
    ) -> Result<Phase, Failure> {
        let mut blocks = node.subscribe();
        let mut phase = Phase::default();
        let mut room = u64::from(window);
        let (since, began) = (Instant::now(), Moment::now());
        while since.elapsed() < time {
            room -= self.order(room, &mut phase).await;
            match tokio::time::timeout(PATIENCE, blocks.recv()).await {
                Ok(Ok(block)) => room += self.block(&block, &mut phase).await,
                Ok(Err(RecvError::Lagged(_))) => {}
                Ok(Err(RecvError::Closed)) | Err(_) => {
                    return Err(Failure::new(
                        Exit::Failed,
                        anyhow::anyhow!("no more blocks"),
                    ));
                }
            }
        }
        Ok(phase.ended(since, &began))
    }

    /// Sends so many orders a second.
    async fn open(
        &mut self,
        node: &NodeHandle,
        rate: f64,
        time: Duration,
    ) -> Result<Phase, Failure> {
        let mut blocks = node.subscribe();
        let mut phase = Phase::default();
        let mut tick = tokio::time::interval(TICK);
        let (since, began) = (Instant::now(), Moment::now());
        let mut ordered = 0;
        self.sent.clear();
        while since.elapsed() < time {
            tokio::select! {
                block = blocks.recv() => match block {
                    Ok(block) => {
                        self.block(&block, &mut phase).await;
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => {
                        return Err(Failure::new(Exit::Failed, anyhow::anyhow!("no more blocks")));
                    }
                },
                _ = tick.tick() => {
                    let due = (rate * since.elapsed().as_secs_f64()) as u64;
                    self.order(due.saturating_sub(ordered), &mut phase).await;
                    ordered = due;
                }
            }
        }
        Ok(phase.ended(since, &began))
    }
}

impl Phase {
    fn ended(mut self, since: Instant, began: &Moment) -> Self {
        self.seconds = since.elapsed().as_secs_f64();
        self.cpu_ms = began.cost().cpu_ms;
        self
    }
}

fn failed(doing: &str, error: &SubmitError) -> Failure {
    Failure::new(Exit::Failed, anyhow::anyhow!("{doing}: {error}"))
}

/// What is ordered, and the receipt that answers it.
fn order_of(model: &ModelDto) -> Result<(JobOrder, Receipt, Vec<u8>), Failure> {
    let facts = model.facts.as_ref();
    let facts = facts
        .ok_or_else(|| Failure::new(Exit::Failed, anyhow::anyhow!("the model is not active")))?;
    let input = vec![0; facts.input_len as usize];
    let order = JobOrder {
        model: model.id,
        input: Digest::of_blob(&input),
        input_len: facts.input_len,
        mode: VerificationMode::None,
        max_price: Amount::from_tgrid(1),
        deadline: TimestampMs::ZERO,
        max_attempts: 3,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds::ANY_MACHINE,
    };
    let answer = vec![1; facts.output_len as usize];
    let receipt = Receipt {
        program: facts.program,
        model: model.id,
        input: order.input,
        output: Digest::of_blob(&answer),
        trace: Digest::default(),
        tier: Tier::Tgx1,
    };
    Ok((order, receipt, answer))
}

fn tell(most: &Phase, steady: &Phase, validators: usize, as_json: bool) -> Outcome {
    let rows = [("as many as settle", most), ("at four fifths", steady)];
    if as_json {
        let rows = rows.map(|(name, phase)| {
            serde_json::json!({
                "phase": name,
                "jobs_per_second": phase.rate(),
                "settled": phase.settled,
                "refused": phase.refused,
                "blocks": phase.blocks,
                "finality_p50_ms": phase.percentile(0.5),
                "finality_p99_ms": phase.percentile(0.99),
                "cpu_us_per_job_and_validator": phase.cpu_us(validators),
            })
        });
        return Ok(json(
            &serde_json::json!({ "validators": validators, "phases": rows }),
        )?);
    }
    line(format_args!(
        "{:<20}{:>8}{:>9}{:>9}{:>8}{:>9}{:>9}{:>22}",
        "phase",
        "jobs/s",
        "settled",
        "refused",
        "blocks",
        "p50 ms",
        "p99 ms",
        "CPU us/job/validator"
    ))?;
    for (name, phase) in rows {
        line(format_args!(
            "{:<20}{:>8.0}{:>9}{:>9}{:>8}{:>9.0}{:>9.0}{:>22.0}",
            name,
            phase.rate(),
            phase.settled,
            phase.refused.values().sum::<u64>(),
            phase.blocks,
            phase.percentile(0.5),
            phase.percentile(0.99),
            phase.cpu_us(validators),
        ))?;
    }
    for (name, phase) in rows {
        for (code, count) in &phase.refused {
            say(format_args!(
                "{name}: {count} times not taken at first, {code}"
            ));
        }
    }
    say(format_args!(
        "{validators} validators and the load in one process; p50 and p99: from sending an order to the final block that has it"
    ));
    Ok(())
}
