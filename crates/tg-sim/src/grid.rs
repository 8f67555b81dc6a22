//! What all parties of a run share: the log, the checks, and the way from a client to a validator.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use commonware_runtime::{Clock as _, deterministic};
use tg_ledger::{Event, Outcome, State};
use tg_node::{BlobStore, Finalized, NodeHandle};
use tg_types::{
    Address, ChainDomain, Fees, SignedTransaction, Transaction, TransactionId, Wallet, with_sources,
};

use crate::checks::Checks;
use crate::coverage::FaultCoverage;
use crate::evidence::{Proving, SampleModel, sample};
use crate::log::Log;
use crate::plan::SimPlan;

pub(crate) type Context = deterministic::Context;

/// A client asks another validator if the last block that this one shows is older.
const STALE_MS: u64 = 3_000;

/// How long a message between a client and a validator takes.
const CLIENT_DELAY: Duration = Duration::from_millis(5);

/// What is shared.
#[derive(Debug)]
pub(crate) struct SimGrid {
    pub(crate) plan: SimPlan,
    pub(crate) proving: Proving,
    pub(crate) domain: ChainDomain,
    /// Stores of hostile validators.
    friends: Mutex<Vec<Arc<BlobStore>>>,
    /// Running honest validators by seat.
    nodes: Mutex<BTreeMap<usize, NodeHandle>>,
    /// What running gateways show.
    followed: Mutex<BTreeMap<usize, Arc<State>>>,
    log: Mutex<Log>,
    checks: Mutex<Checks>,
    coverage: Mutex<FaultCoverage>,
    /// Parties that have orders to give, or something else to do before a run may end.
    ordering: Mutex<usize>,
    /// Whether the account that is left is empty, so that all validators may go off.
    is_left_empty: AtomicBool,
    /// How far the clocks of validators went while all of them were off, in milliseconds.
    paused_ms: AtomicU64,
}

/// Milliseconds of the run.
pub(crate) fn now_ms(context: &Context) -> u64 {
    let since = context.current().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

pub(crate) async fn sleep_ms(context: &Context, ms: u64) {
    context.sleep(Duration::from_millis(ms)).await;
}

/// A panic of another task leaves what is behind these locks whole: it ends the run.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimGrid {
    pub(crate) fn new(
        plan: SimPlan,
        proving: Proving,
        domain: ChainDomain,
        (log, checks): (Log, Checks),
    ) -> Self {
        let ordering = plan.requestors.iter().flatten();
        let ordering = ordering.filter(|it| it.orders > 0).count()
            + plan.clients.iter().flatten().count()
            + usize::from(plan.lapse.is_some());
        let coverage = FaultCoverage::new(&plan);
        Self {
            plan,
            proving,
            domain,
            friends: Mutex::default(),
            nodes: Mutex::default(),
            followed: Mutex::default(),
            log: Mutex::new(log),
            checks: Mutex::new(checks),
            coverage: Mutex::new(coverage),
            ordering: Mutex::new(ordering),
            is_left_empty: AtomicBool::new(false),
            paused_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        locked(&self.log)
    }

    pub(crate) fn checks(&self) -> MutexGuard<'_, Checks> {
        locked(&self.checks)
    }

    pub(crate) fn coverage(&self) -> MutexGuard<'_, FaultCoverage> {
        locked(&self.coverage)
    }

    pub(crate) fn line(&self, context: &Context, who: &str, what: &str) {
        self.log().line(now_ms(context), who, what);
    }

    /// What all orders name.
    pub(crate) fn sample(&self) -> &'static SampleModel {
        sample(self.plan.sample())
    }

    /// Notes the stores of hostile validators.
    pub(crate) fn befriend(&self, stores: Vec<Arc<BlobStore>>) {
        *locked(&self.friends) = stores;
    }

    /// The stores of hostile validators.
    pub(crate) fn friends(&self) -> Vec<Arc<BlobStore>> {
        locked(&self.friends).clone()
    }

    /// The account that is left is empty.
    pub(crate) fn left_empty(&self) {
        self.is_left_empty.store(true, Ordering::Relaxed);
    }

    /// Whether the account that is left is empty.
    pub(crate) fn is_left_empty(&self) -> bool {
        self.is_left_empty.load(Ordering::Relaxed)
    }

    /// All validators were off while their clocks went on.
    pub(crate) fn paused(&self, ms: u64) {
        self.paused_ms.store(ms, Ordering::Relaxed);
    }

    /// How far the clocks of validators went while all were off, in milliseconds.
    pub(crate) fn paused_ms(&self) -> u64 {
        self.paused_ms.load(Ordering::Relaxed)
    }

    /// A party has given all its orders.
    pub(crate) fn ordered(&self) {
        *locked(&self.ordering) -= 1;
    }

    /// Whether all orders were given.
    pub(crate) fn is_all_ordered(&self) -> bool {
        *locked(&self.ordering) == 0
    }

    /// A validator runs.
    pub(crate) fn up(&self, seat: usize, node: NodeHandle) {
        locked(&self.nodes).insert(seat, node);
    }

    /// A validator does not run.
    pub(crate) fn down(&self, seat: usize) {
        locked(&self.nodes).remove(&seat);
    }

    /// Running honest validators.
    pub(crate) fn nodes(&self) -> Vec<(usize, NodeHandle)> {
        let nodes = locked(&self.nodes);
        let nodes = nodes.iter().map(|(seat, node)| (*seat, node.clone()));
        nodes.collect()
    }

    /// The validator that a client asks: its own, or the next one that runs and is not behind.
    pub(crate) fn gateway(&self, own: usize, now: u64) -> Option<NodeHandle> {
        let now = now + self.paused_ms();
        let nodes = locked(&self.nodes);
        let in_turn = nodes.range(own..).chain(nodes.range(..own));
        let in_turn: Vec<&NodeHandle> = in_turn.map(|(_, node)| node).collect();
        let is_fresh = |node: &&&NodeHandle| node.status().timestamp.get() + STALE_MS >= now;
        let fresh = in_turn.iter().find(is_fresh).or_else(|| in_turn.first());
        fresh.map(|node| (*node).clone())
    }

    /// A gateway has a state, which is checked and shown from now on.
    pub(crate) fn followed(&self, context: &Context, gateway: usize, state: Arc<State>) {
        self.checks().followed(gateway, &state, now_ms(context));
        locked(&self.followed).insert(gateway, state);
    }

    /// A gateway does not run.
    pub(crate) fn unfollowed(&self, gateway: usize) {
        locked(&self.followed).remove(&gateway);
    }

    /// What a gateway shows, if it runs and is not behind.
    fn followed_state(&self, gateway: usize, now: u64) -> Option<Arc<State>> {
        let followed = locked(&self.followed);
        let state = followed.get(&gateway)?;
        let is_fresh = state.head().timestamp.get() + STALE_MS >= now;
        is_fresh.then(|| Arc::clone(state))
    }

    /// What of an account waits at each honest validator, and where the ledger stands there, for the log.
    pub(crate) fn waiting(&self, address: &Address) -> String {
        let mut text = format!("of {address}");
        for (seat, node) in self.nodes() {
            let state = node.snapshot().state.clone();
            let (settled, base_fee) = (state.nonce(address), state.base_fee());
            let waiting = node.waiting_nonces(address);
            let height = state.head().height.get();
            let _ = write!(
                text,
                " seat{seat} at {height} has {waiting:?} from {settled}, base fee {base_fee};"
            );
        }
        text
    }

    /// How many of all inputs each honest validator holds, for the log.
    pub(crate) fn inputs_held(&self) -> String {
        let checks = self.checks();
        let inputs = &checks.facts.inputs;
        let mut text = format!("{} inputs:", inputs.len());
        for (seat, store) in checks.facts.stores.iter().enumerate() {
            if let Some(store) = store {
                let held = inputs.keys().filter(|it| store.contains(it)).count();
                let _ = write!(text, " seat{seat} {held}");
            }
        }
        let Some(state) = &checks.last else {
            return text;
        };
        for (_, lease) in state.live_leases() {
            let Some(evidence) = lease.evidence() else {
                continue;
            };
            let holds = |(seat, store): (usize, &Option<Arc<tg_node::BlobStore>>)| {
                let store = store.as_ref()?;
                store.contains(&evidence.digest).then_some(seat)
            };
            let stores = checks.facts.stores.iter().enumerate();
            let holders: Vec<usize> = stores.filter_map(holds).collect();
            let _ = write!(text, "; evidence of {} at {holders:?}", lease.id);
            if let Some(check) = &lease.check {
                let _ = write!(text, ", {:?}", check.stage);
            }
        }
        text
    }

    /// Honest validators that hold a blob, by seat.
    pub(crate) fn holders(&self, blob: &tg_types::Digest) -> Vec<usize> {
        let checks = self.checks();
        let stores = checks.facts.stores.iter().enumerate();
        let holds = |store: &Option<Arc<tg_node::BlobStore>>| {
            store.as_ref().is_some_and(|store| store.contains(blob))
        };
        let holders = stores.filter(|(_, store)| holds(store));
        holders.map(|(seat, _)| seat).collect()
    }

    /// A validator has a block: it is checked, and logged if it is the first one that has it.
    pub(crate) fn finalised(&self, context: &Context, seat: usize, block: &Arc<Finalized>) {
        let at_ms = now_ms(context);
        let new = self.checks().finalised(seat, block, at_ms);
        for block in new {
            self.write(at_ms, &block);
            self.write_refused(at_ms, &block);
            self.coverage().block(&block, at_ms);
        }
    }

    /// Logs which blocks that do not hold were proposed for the height of a block, which is final in their place.
    fn write_refused(&self, at_ms: u64, block: &Finalized) {
        let height = block.block.header.height.get();
        let refused = self.checks().take_refused(height);
        for (id, forged) in refused {
            let what = format!(
                "{id} at height {} was refused: {}",
                forged.height, forged.how
            );
            let who = format!("seat{}", forged.seat);
            self.log().line(at_ms, &who, &what);
        }
    }

    /// Logs a block and what happened in it.
    fn write(&self, at_ms: u64, block: &Finalized) {
        let header = &block.block.header;
        let mut log = self.log();
        let (id, root) = (block.id.to_string(), header.state_root.to_string());
        let what = format!(
            "{:>4} {} root {} transactions {} verdicts {}",
            header.height.get(),
            &id[..10],
            &root[..10],
            block.block.transactions.len(),
            block.block.verdicts.len()
        );
        log.line(at_ms, "block", &what);
        for verdict in &block.block.verdicts {
            let kind = match self.proving {
                Proving::Simulated => "simulated",
                Proving::Real => "proved",
            };
            let outcome = match &verdict.outcome {
                Outcome::ModelAccepted(_)
                | Outcome::LeaseAccepted
                | Outcome::ProgramAccepted { .. } => "accepted".to_owned(),
                Outcome::ReplicasRun { output, .. } => format!("run again: {output}"),
                Outcome::SeedKey(_) => "made".to_owned(),
                Outcome::Seed(_) => "signed".to_owned(),
                Outcome::Refuted => "refuted".to_owned(),
                Outcome::Rejected { code, .. } => format!("rejected ({code})"),
            };
            let what = format!("{} {outcome}, {kind}", verdict.subject);
            log.line(at_ms, "verdict", &what);
        }
        for event in block.events.iter() {
            if let Some((who, what)) = told(event) {
                log.line(at_ms, who, &what);
            }
        }
    }
}

/// What of a block's events stands in the log.
fn told(event: &Event) -> Option<(&'static str, String)> {
    Some(match event {
        Event::JobChanged { job, state, .. } => ("job", format!("{job} {state}")),
        Event::JobEnded { job, reason, .. } => ("job", format!("{job} ended: {reason}")),
        Event::LeaseMade {
            lease,
            job,
            provider,
            price,
            ..
        } => (
            "lease",
            format!("{lease} of {job} to {provider} for {price}"),
        ),
        Event::CommitteeDrawn {
            lease,
            number,
            members,
        } => (
            "committee",
            format!("{number} of {lease} has {} members", members.len()),
        ),
        Event::ReplicasDiffer { lease, .. } => {
            ("replicas", format!("the members of {lease} differ"))
        }
        Event::SeedKeyMade { round } => ("seed", format!("key of round {round} is made")),
        Event::SeedRound { round } => ("seed", format!("round {round} begins")),
        Event::LeaseEnded { lease, end, .. } => ("lease", format!("{lease} {end}")),
        Event::Slashed {
            provider, amount, ..
        } => ("slashed", format!("{provider} {amount}")),
        Event::SeatBonded { .. }
        | Event::SeatLeaving { .. }
        | Event::SeatsChanged { .. }
        | Event::StakeReturned { .. } => return told_of_seats(event),
        _ => return told_of_disputes(event),
    })
}

/// What stands there of seats that change hands.
fn told_of_seats(event: &Event) -> Option<(&'static str, String)> {
    let what = match event {
        Event::SeatBonded { validator, amount } => format!("{validator} bonds {amount}"),
        Event::SeatLeaving { validator } => format!("{validator} gives its seat back"),
        Event::SeatsChanged { term, joined, left } => {
            format!("set {term} votes: {joined:?} joined, {left:?} left")
        }
        Event::StakeReturned { validator, amount } => {
            format!("{validator} has its bond of {amount} back")
        }
        _ => return None,
    };
    Some(("seats", what))
}

/// What stands there of accusations and challenges.
fn told_of_disputes(event: &Event) -> Option<(&'static str, String)> {
    Some(match event {
        Event::ResultDisputed {
            lease,
            accuser,
            vote,
            ..
        } => ("committee", format!("{accuser} says of {lease}: {vote}")),
        Event::ResultArgued {
            lease,
            account,
            file,
            ..
        } => (
            "dispute",
            format!("{account} hands in {file} about {lease}"),
        ),
        Event::AccusationRefuted { validator, burned } => (
            "slashed",
            format!("{validator} {burned} for accusing falsely"),
        ),
        Event::AnswerAsked {
            job, seat, asker, ..
        } => ("kept", format!("{asker} asks {seat} for {job}")),
        Event::AnswerQuestionEnded { job, seat, end, .. } => {
            ("kept", format!("{seat} asked for {job}: {end:?}"))
        }
        Event::ChallengeShared {
            lease,
            provider,
            amount,
        } => (
            "challenge",
            format!("{provider} has {amount}: {lease} was challenged wrongly"),
        ),
        Event::ChallengeReturned {
            lease,
            challenger,
            amount,
            ..
        } => (
            "challenge",
            format!("{challenger} has {amount} back: {lease} is wrong"),
        ),
        Event::KeyChanged { lease, step, .. } => ("key", format!("of {lease} {step:?}")),
        Event::VoteRefuted {
            lease,
            validator,
            burned,
        } => (
            "slashed",
            format!("{validator} {burned} for finding {lease} right"),
        ),
        _ => return None,
    })
}

/// An account that sends transactions through a validator, which tells it its nonces, as the agent of production does.
#[derive(Debug)]
pub(crate) struct ClientAccount {
    pub(crate) wallet: Wallet,
    pub(crate) gateway: usize,
    /// The gateway that it asks for the ledger, if there is one.
    pub(crate) follower: Option<usize>,
}

/// A transaction that a validator took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentTransaction {
    pub(crate) id: TransactionId,
    pub(crate) nonce: u64,
}

impl ClientAccount {
    pub(crate) const fn new(wallet: Wallet, gateway: usize) -> Self {
        Self {
            wallet,
            gateway,
            follower: None,
        }
    }

    /// The nonce that the account's validator tells it to use next.
    pub(crate) fn next_nonce(&self, grid: &SimGrid, now: u64) -> Option<u64> {
        let node = grid.gateway(self.gateway, now)?;
        Some(node.next_nonce(&self.wallet.address()))
    }

    /// The last final state that the account's gateway shows, or its validator, if it has none or that one is behind.
    pub(crate) fn state(&self, grid: &SimGrid, context: &Context) -> Option<Arc<State>> {
        let now = now_ms(context);
        let followed = self.follower.and_then(|it| grid.followed_state(it, now));
        if followed.is_some() {
            return followed;
        }
        let node = grid.gateway(self.gateway, now)?;
        Some(node.snapshot().state.clone())
    }

    /// Sends what is signed already; if it was not taken, why not.
    pub(crate) async fn send_signed(
        &self,
        grid: &SimGrid,
        context: &Context,
        signed: SignedTransaction,
    ) -> Result<TransactionId, String> {
        context.sleep(CLIENT_DELAY).await;
        let asked = grid.gateway(self.gateway, now_ms(context));
        let node = asked.ok_or_else(|| "no validator runs".to_owned())?;
        let sent = node.submit(signed).await;
        sent.map_err(|error| with_sources(&error))
    }

    /// Sends a transaction; if it was not taken, why not: it may be sent again.
    pub(crate) async fn send(
        &self,
        grid: &SimGrid,
        context: &Context,
        transaction: Transaction,
    ) -> Result<SentTransaction, String> {
        context.sleep(CLIENT_DELAY).await;
        let now = now_ms(context);
        let asked = grid.gateway(self.gateway, now);
        let node = asked.ok_or_else(|| "no validator runs".to_owned())?;
        let state = node.snapshot().state.clone();
        let fees = if transaction.kind().is_prepaid() {
            Fees::NONE
        } else {
            Fees::from_base_fee(state.base_fee())
        };
        let me = self.wallet.address();
        let nonce = node.next_nonce(&me);
        let signed = self
            .wallet
            .sign_with_fees(transaction, nonce, fees, &grid.domain);
        match node.submit(signed).await {
            Ok(id) => Ok(SentTransaction { id, nonce }),
            Err(error) => Err(format!("nonce {nonce}: {}", with_sources(&error))),
        }
    }
}

/// How a transaction fared, for the log.
pub(crate) fn fate(sent: &Result<SentTransaction, String>) -> String {
    match sent {
        Ok(sent) => format!("taken as nonce {}", sent.nonce),
        Err(error) => format!("not taken: {error}"),
    }
}
