//! One run: faults for half a minute, in which nothing that the checks look at may break, then none, and all that was begun
//! must come to its end.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use commonware_runtime::{Runner as _, Spawner as _, Supervisor as _, deterministic};
use tg_ledger::limits::EPOCH_BLOCKS;
use tg_ledger::{ConsensusKey, Genesis, Parameters, State, StorageRule, Validator};
use tg_node::ValidatorKey;
use tg_types::chain::NetworkTrust;
use tg_types::{Address, Amount, BlockId, DurationMs, TimestampMs, Wallet};

use crate::canary::{self, Canary};
use crate::checks::{Checks, KnownFacts, PaidResults, Violation};
use crate::clients::SimClient;
use crate::coverage::FaultCoverage;
use crate::evidence::{Proving, sample};
use crate::grid::{ClientAccount, Context, SimGrid, now_ms, sleep_ms};
use crate::keys;
use crate::lapse::LeftAccount;
use crate::log::Log;
use crate::plan::{
    PAUSE, PlannedFault, PlannedSeats, ProviderRole, RequestorPlan, RequestorRole, SeatRole,
    SimPlan,
};
use crate::provider::SimProvider;
use crate::requestor::SimRequestor;
use crate::seat_checks::SeatChecks;
use crate::seat_holders::{hold, joining, leaving};
use crate::twins;
use crate::world::{SimSeat, SimWorld};

/// How long everything may take to end after faults have, in milliseconds: a job that was ordered last has 40 s to get a provider
/// and as long to be done, and its result may be sampled by three committees in turn, opened late, and challenged in its last second.
const LIVENESS_MS: u64 = 120_000;

/// How much longer it may take where seats change hands: a newcomer waits for the end of an epoch to get its seat, and for another one
/// to vote; a bond comes back after its time.
const SEATS_MS: u64 = 90_000;

/// How long bonds answer for votes in runs in which seats change hands: longer than every window, and over before the run is.
const UNBONDING: DurationMs = DurationMs::from_secs(15);

/// How long seats have that are asked for what they keep, in runs in which they are.
const ASK_WINDOW: DurationMs = DurationMs::from_secs(32);

/// Blocks that must come after faults have ended.
const LIVENESS_BLOCKS: u64 = 20;

/// How often the world looks at what is due.
const TURN_MS: u64 = 50;

/// How a run is made.
#[derive(Debug, Clone, Copy)]
pub struct SimOptions {
    /// How evidence is made.
    pub proving: Proving,
    /// Whether the lines of the log are kept.
    pub keeps_log: bool,
    /// The mistake to make.
    pub canary: Option<Canary>,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            proving: Proving::Simulated,
            keeps_log: false,
            canary: None,
        }
    }
}

/// What came out of a run.
#[derive(Debug, Clone)]
pub struct SimReport {
    /// What the seed drew.
    pub plan: SimPlan,
    /// What must not be and was.
    pub violations: Vec<Violation>,
    /// The hash of all that happened.
    pub hash: String,
    /// The log, if it was kept.
    pub lines: Vec<String>,
    /// Final blocks.
    pub height: u64,
    /// Simulated time in milliseconds.
    pub simulated_ms: u64,
    /// Jobs ordered.
    pub jobs: usize,
    /// Jobs paid.
    pub paid: usize,
    /// How long they took from order to payment, all together, in milliseconds.
    pub paid_ms: u64,
    /// Which faults were there while jobs were in which state.
    pub coverage: FaultCoverage,
    /// What providers have at the end, in the order of the plan.
    pub providers: Vec<PartyReport>,
    /// What seats have at the end.
    pub seats: Vec<PartyReport>,
    /// Leases that were made.
    pub leases: usize,
    /// Epochs of the ledger that ended.
    pub epochs: u64,
    /// How often the set of validators changed.
    pub set_changes: u64,
    /// How often a state that a gateway had was compared with those of validators.
    pub followed: u64,
}

/// How a party came out of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartyReport {
    /// What it had at the beginning, stake included.
    pub before: Amount,
    /// What it has at the end, stake included.
    pub after: Amount,
    /// Leases that it took.
    pub leases: usize,
    /// What it was paid for.
    pub results: PaidResults,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: &SimPlan, options: SimOptions) -> SimReport {
    canary::arm(options.canary);
    let plan = &match options.canary {
        Some(Canary::QuorumOfTwoFaults) => plan.with_two_sides(),
        _ => plan.clone(),
    };
    // Programs and floats are simulated: with the prover of production orders name the model of integers.
    let is_simulated = options.proving == Proving::Simulated;
    let plan = &SimPlan {
        programs: plan.programs && is_simulated,
        floats: plan.floats && is_simulated,
        seals: plan.seals && is_simulated,
        ..plan.clone()
    };
    // Made before the run: it is the same for all.
    sample(plan.sample());
    let folder = scratch();
    let config = deterministic::Config::new()
        .with_seed(plan.seed)
        .with_timeout(Some(Duration::from_secs(600)));
    let genesis = genesis(plan);
    let checks = checks(plan, &genesis, options);
    let log = Log::new(options.keeps_log);
    let grid = Arc::new(SimGrid::new(
        plan.clone(),
        options.proving,
        genesis.domain,
        (log, checks),
    ));
    let shared = Arc::clone(&grid);
    let ran = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let runner = deterministic::Runner::new(config);
        runner.start(|context| play(context, shared, genesis, folder.path(), options.canary))
    }));
    canary::arm(None);
    let (auditor, simulated_ms) = ran.unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
        let what = what.unwrap_or_else(|| "something panicked".to_owned());
        grid.checks().violated("panic", 0, what);
        (String::new(), 0)
    });
    let checks = grid.checks();
    let mut log = grid.log();
    SimReport {
        plan: plan.clone(),
        violations: checks.violations.clone(),
        hash: log.hash(&auditor),
        lines: log.take_lines(),
        height: checks.height(),
        simulated_ms,
        jobs: checks.all_jobs(),
        paid: checks.paid_jobs(),
        paid_ms: checks.paid_ms,
        coverage: grid.coverage().clone(),
        providers: parties(&checks, plan.providers.len(), "provider"),
        seats: parties(&checks, plan.seats.len(), "validator"),
        leases: checks
            .last
            .as_ref()
            .map_or(0, |it| it.leases().iter().count()),
        epochs: checks.height() / EPOCH_BLOCKS,
        set_changes: checks.last.as_ref().map_or(0, |it| it.seats().term),
        followed: checks.looks_at_gateways,
    }
}

/// How parties of a kind came out of a run, by the state of the last block.
fn parties(checks: &Checks, count: usize, kind: &str) -> Vec<PartyReport> {
    let (Some(first), Some(last)) = (&checks.first, &checks.last) else {
        return Vec::new();
    };
    let worth = |state: &State, address: &Address| {
        let stakes = state.validators().iter().chain(state.seats().bonds());
        let stakes = stakes
            .filter(|it| it.address == *address)
            .map(|it| it.stake);
        let leases = state.leases().iter().filter(|it| it.provider == *address);
        let locked = leases.flat_map(|it| [it.locked(), it.gas_locked()]);
        let offers = state.offers().iter().filter(|it| it.provider == *address);
        let rent = offers.map(|it| it.rent.deposit);
        (stakes.chain(locked).chain(rent)).fold(state.balance(address), Amount::saturating_add)
    };
    let party = |index| {
        let address = wallet(kind, index).address();
        let leases = last.leases().iter();
        PartyReport {
            before: worth(first, &address),
            after: worth(last, &address),
            leases: leases.filter(|it| it.provider == address).count(),
            results: checks.results.get(&address).copied().unwrap_or_default(),
        }
    };
    (0..count).map(party).collect()
}

/// A folder for the blobs of a run: in memory, if there is such a place.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = tempfile::Builder::new().prefix("tg-sim").tempdir_in(memory);
    made.or_else(|_| tempfile::tempdir())
        .expect("a folder for temporary files")
}

fn wallet(kind: &str, index: usize) -> Wallet {
    Wallet::from_seed(format!("tg-sim {kind} {index}").as_bytes())
}

fn key(index: usize) -> ValidatorKey {
    ValidatorKey::from_seed(u64::try_from(index).unwrap_or(u64::MAX))
}

/// Windows of seconds, so that what is late ends within the run; all of them as long as faulty leaders can keep somebody
/// out.
fn parameters(plan: &SimPlan) -> Parameters {
    let usual = Parameters::development();
    Parameters {
        repeated_macs_max: match plan.by_tile {
            true => 0,
            false => usual.repeated_macs_max,
        },
        whole_run_macs_max: match plan.run_whole {
            true => usual.whole_run_macs_max,
            false => 0,
        },
        storage: StorageRule::Stated,
        // Longer than faults last, as six hours are: what is asked for is given once they are over.
        ask_window: match plan.retains {
            true => ASK_WINDOW,
            false => usual.ask_window,
        },
        leader_timeout: DurationMs::new(600),
        lease_grace: DurationMs::from_secs(8),
        grant_window: DurationMs::from_secs(8),
        verification_timeout: DurationMs::from_secs(12),
        // The other runs stay as they were.
        unbonding: match plan.seat_changes.is_empty() {
            true => usual.unbonding,
            false => UNBONDING,
        },
        // One block comes a month after the one before where all validators are off for so long.
        time_step_max: match plan.lapse {
            Some(_) => PAUSE,
            None => usual.time_step_max,
        },
        ..usual
    }
}

fn genesis(plan: &SimPlan) -> Genesis {
    let rich = Amount::from_tgrid(10_000);
    let mut accounts: Vec<(Address, Amount)> = vec![(wallet("registrar", 0).address(), rich)];
    let providers = (0..plan.providers.len()).map(|it| wallet("provider", it));
    let requestors = (0..plan.requestors.len()).map(|it| wallet("requestor", it));
    accounts.extend(providers.chain(requestors).map(|it| (it.address(), rich)));
    accounts.extend(
        holders(plan)
            .into_iter()
            .map(|it| (wallet("validator", it).address(), rich)),
    );
    if plan.lapse.is_some() {
        accounts.push((wallet("left", 0).address(), Amount::from_tgrid(1)));
        accounts.push((wallet("opener", 0).address(), rich));
    }
    accounts.sort_unstable_by_key(|(address, _)| *address);
    let validators = (0..plan.seats.len()).map(|index| Validator {
        address: wallet("validator", index).address(),
        key: ConsensusKey::new(key(index).public()),
        stake: Amount::from_tgrid(1_000),
    });
    let mut validators: Vec<Validator> = validators.collect();
    validators.sort_unstable_by_key(|it| it.address);
    Genesis {
        domain: tg_ledger::development_domain(),
        parameters: parameters(plan),
        timestamp: TimestampMs::new(1),
        accounts,
        validators,
    }
}

/// Validators, by seat, that pay for what they send: those that bond, and those that give their seat back.
fn holders(plan: &SimPlan) -> BTreeSet<usize> {
    let leavers = plan.seat_changes.leavers.iter().flatten();
    let newcomers = plan.seat_changes.newcomers.iter().enumerate();
    let newcomers = newcomers.filter(|(_, it)| it.is_some());
    let newcomers = newcomers.map(|(index, _)| plan.seats.len() + index);
    leavers.map(|it| it.seat).chain(newcomers).collect()
}

fn checks(plan: &SimPlan, genesis: &Genesis, options: SimOptions) -> Checks {
    let honest = plan.providers.iter().enumerate().filter_map(|(index, it)| {
        let is_honest = it.is_some_and(|it| it.role == ProviderRole::Honest);
        is_honest.then(|| wallet("provider", index).address())
    });
    let facts = KnownFacts {
        honest: honest.collect::<BTreeSet<_>>(),
        droppers: (plan.seats.iter().enumerate())
            .filter(|(_, role)| **role == SeatRole::FileDropper)
            .map(|(index, _)| wallet("validator", index).address())
            .collect(),
        bribed: plan.seats.contains(&SeatRole::BribedWatcher),
        outvoted: plan.is_outvoted(),
        friends: (plan.requestors.iter().enumerate())
            .filter(|(_, it)| it.is_some_and(|it| it.role == RequestorRole::Friend))
            .map(|(index, _)| wallet("requestor", index).address())
            .collect(),
        unsure: plan
            .seats
            .iter()
            .filter(|it| **it != SeatRole::Honest)
            .count(),
        proving: Some(options.proving),
        sample: plan.sample(),
        ..KnownFacts::default()
    };
    let minted = genesis.minted().unwrap_or(Amount::MAX);
    Checks::new(minted, facts, seat_checks(plan, genesis))
}

/// What is known of seats before the first block.
fn seat_checks(plan: &SimPlan, genesis: &Genesis) -> SeatChecks {
    let seats = plan.seats.iter().enumerate();
    let honest = seats.filter(|(_, role)| **role == SeatRole::Honest);
    // A silent newcomer loses nothing within a run either.
    let honest = honest.map(|(index, _)| index).chain(holders(plan));
    let leavers = plan.seat_changes.leavers.iter().flatten();
    let address = |index: usize| wallet("validator", index).address();
    SeatChecks::new(
        genesis,
        honest.map(address).collect(),
        leavers.map(|it| address(it.seat)).collect(),
    )
}

/// The run itself; returns what the runtime says of it and how long it took by its clock.
async fn play(
    context: Context,
    grid: Arc<SimGrid>,
    genesis: Genesis,
    folder: &Path,
    canary: Option<Canary>,
) -> (String, u64) {
    let plan = grid.plan.clone();
    let newcomers = plan.seat_changes.newcomers.len();
    let roles = plan.seats.iter().copied();
    let roles = roles.chain(std::iter::repeat_n(SeatRole::Honest, newcomers));
    let seats = roles.enumerate().map(|(index, role)| {
        let account = wallet("validator", index);
        let folder = folder.join(format!("{index}"));
        let mut seat = SimSeat::new((role, grid.sample()), key(index), account, folder);
        // Who comes later has the newest release.
        let is_new = index >= plan.seats.len() && !plan.release.is_empty();
        seat.speaks += u16::from(is_new);
        seat.clock_ms = plan.clock_ms(index);
        seat
    });
    let seats: Vec<SimSeat> = seats.collect();
    let id = genesis.id();
    let trust = genesis.trust().expect("each validator has its own key");
    let stores = seats.iter().map(|seat| {
        let is_honest = seat.role == SeatRole::Honest;
        is_honest.then(|| seat.blobs.clone())
    });
    grid.checks().facts.stores = stores.collect();
    let hostile = seats.iter().filter(|it| it.role != SeatRole::Honest);
    grid.befriend(hostile.map(|it| it.blobs.clone()).collect());
    let mut world = SimWorld::new(context.child("world"), grid.clone(), genesis, seats).await;
    world.loses_votes = canary == Some(Canary::VoteBeforeDurable);
    world.relink().await;
    if canary == Some(Canary::QuorumOfTwoFaults) {
        twins::start_on_two_sides(&mut world).await;
    } else {
        for index in 0..plan.seats.len() {
            match plan.seats[index] {
                SeatRole::Twins | SeatRole::Equivocator => twins::start(&mut world, index).await,
                _ => world.power_on(index).await,
            }
        }
    }
    start_parties(&context, &grid);
    start_holders(&context, &grid, &id);
    start_left(&context, &grid);
    start_clients(&context, &grid, &trust);
    safety(&mut world, &plan).await;
    if grid.checks().violations.is_empty() {
        liveness(&mut world).await;
    }
    (context.auditor().state(), now_ms(&context))
}

/// The account of a provider or requestor, which asks a validator; every second one asks a gateway what the ledger has, if there is one.
/// What is sent goes to the validator, which gives out nonces and keeps files.
fn account(kind: &str, (index, gateway): (usize, usize), plan: &SimPlan) -> ClientAccount {
    let gateways = plan.gateways.len();
    ClientAccount {
        follower: (index % 2 == 1 && gateways > 0).then(|| index / 2 % gateways),
        ..ClientAccount::new(wallet(kind, index), gateway)
    }
}

/// Registrar, providers and requestors.
fn start_parties(context: &Context, grid: &Arc<SimGrid>) {
    let plan = &grid.plan;
    let registrar = ClientAccount::new(wallet("registrar", 0), 0);
    let shared = grid.clone();
    context
        .child("registrar")
        .spawn(move |context| register(context, shared, registrar));
    for (index, provider) in plan.providers.iter().enumerate() {
        if let Some(provider) = provider {
            let account = account("provider", (index, provider.gateway), plan);
            let provider = SimProvider::new(index, *provider, account, plan.seed);
            let (shared, context) = (grid.clone(), context.child("provider"));
            let context = context.with_attribute("index", index);
            context.spawn(move |context| provider.run(shared, context));
        }
    }
    for (index, requestor) in plan.requestors.iter().enumerate() {
        if let Some(requestor) = requestor {
            let account = account("requestor", (index, requestor.gateway), plan);
            start_keys(context, grid, (index, *requestor));
            let requestor = SimRequestor::new(index, *requestor, account, plan.seed);
            let (shared, context) = (grid.clone(), context.child("requestor"));
            let context = context.with_attribute("index", index);
            context.spawn(move |context| requestor.run(shared, context));
        }
    }
}

/// What a requestor does with the keys of its sealed jobs, if it does anything. It asks a validator, as keys are waited for.
fn start_keys(context: &Context, grid: &Arc<SimGrid>, (index, plan): (usize, RequestorPlan)) {
    if !grid.plan.seals || plan.role == RequestorRole::KeyWithholder {
        return;
    }
    let account = ClientAccount::new(wallet("requestor", index), plan.gateway);
    let (shared, context) = (grid.clone(), context.child("keys"));
    let context = context.with_attribute("index", index);
    context.spawn(move |context| keys::keep(context, shared, (index, plan.role), account));
}

/// Those that bond for a seat or give theirs back.
fn start_holders(context: &Context, grid: &Arc<SimGrid>, genesis: &BlockId) {
    let PlannedSeats { newcomers, leavers } = &grid.plan.seat_changes;
    let newcomers = newcomers.iter().enumerate().filter_map(|(index, it)| {
        let (index, plan) = (grid.plan.seats.len() + index, (*it)?);
        let wallet = wallet("validator", index);
        let bond = joining(index, &key(index), (genesis, &wallet.address()));
        Some((
            index,
            plan.at_ms,
            ClientAccount::new(wallet, plan.gateway),
            bond,
        ))
    });
    let leavers = leavers.iter().flatten().map(|it| {
        let account = ClientAccount::new(wallet("validator", it.seat), it.seat);
        (it.seat, it.at_ms, account, leaving(&key(it.seat)))
    });
    for (index, at_ms, account, transaction) in newcomers.chain(leavers) {
        let shared = Arc::clone(grid);
        let context = context.child("holder").with_attribute("index", index);
        context.spawn(move |context| hold(context, shared, (index, at_ms), account, transaction));
    }
}

/// The account that is left until its rent is spent.
fn start_left(context: &Context, grid: &Arc<SimGrid>) {
    let Some(plan) = grid.plan.lapse else {
        return;
    };
    let account = |kind: &str| ClientAccount::new(wallet(kind, 0), plan.gateway);
    let left = LeftAccount::new(plan, account("left"), account("opener"));
    let shared = Arc::clone(grid);
    let context = context.child("left");
    context.spawn(move |context| left.run(shared, context));
}

/// Clients to which gateways lie.
fn start_clients(context: &Context, grid: &Arc<SimGrid>, trust: &NetworkTrust) {
    let plan = &grid.plan;
    let voters = plan.seats.len() + plan.seat_changes.newcomers.len();
    for (index, client) in plan.clients.iter().enumerate() {
        if let Some(client) = client {
            let client = SimClient::new((index, *client), trust.clone(), (plan.seed, voters));
            let shared = Arc::clone(grid);
            let context = context.child("client").with_attribute("index", index);
            context.spawn(move |context| client.run(shared, context));
        }
    }
}

/// Registers the model, and gives its files to the validator that is asked.
async fn register(context: Context, grid: Arc<SimGrid>, registrar: ClientAccount) {
    loop {
        if let Some(node) = grid.gateway(registrar.gateway, now_ms(&context)) {
            grid.sample().put(node.blobs());
            if node.snapshot().state.model(&grid.sample().id).is_some() {
                return;
            }
        }
        // Sent again until it is there.
        let _ = registrar
            .send(&grid, &context, grid.sample().registration())
            .await;
        sleep_ms(&context, 2_000).await;
    }
}

/// Faults come and go.
async fn safety(world: &mut SimWorld, plan: &SimPlan) {
    let mut due: Vec<(u64, usize, bool, &PlannedFault)> = Vec::new();
    for (index, fault) in plan.faults.iter().enumerate() {
        if let Some(fault) = fault {
            due.push((fault.at_ms, index, true, fault));
            let end = (fault.at_ms + fault.for_ms).min(plan.heal_ms);
            due.push((end, index, false, fault));
        }
    }
    due.sort_by_key(|(at, index, begins, _)| (*at, !*begins, *index));
    let mut due = due.into_iter().peekable();
    let mut renewals = plan.release.iter().peekable();
    let mut told_at = 0;
    while now_ms(&world.context) < plan.heal_ms && !is_over(world).await {
        let now = now_ms(&world.context);
        tell_held(world, &mut told_at);
        world.turn_newcomers().await;
        world.turn_gateways().await;
        world.turn_pause().await;
        while let Some((_, index, begins, fault)) = due.next_if(|(at, ..)| *at <= now) {
            if begins {
                world.begin(index, fault).await;
            } else {
                world.end(index, fault).await;
            }
        }
        while let Some(renewal) = renewals.next_if(|it| it.at_ms <= now) {
            world.renew(renewal.seat).await;
        }
        let next = due.peek().map_or(u64::MAX, |(at, ..)| *at);
        let next = next.min(renewals.peek().map_or(u64::MAX, |it| it.at_ms));
        let wait = next.saturating_sub(now).clamp(1, TURN_MS);
        sleep_ms(&world.context, wait).await;
    }
    for renewal in renewals {
        world.renew(renewal.seat).await;
    }
    for (_, index, begins, fault) in due {
        if !begins {
            world.end(index, fault).await;
        }
    }
}

/// Says every five seconds which validator holds how much.
fn tell_held(world: &SimWorld, told_at: &mut u64) {
    let now = now_ms(&world.context);
    if now >= *told_at + 5_000 {
        *told_at = now;
        let what = world.grid.inputs_held();
        world.grid.line(&world.context, "blobs", &what);
    }
}

/// Whether something was found that ends the run.
async fn is_over(world: &SimWorld) -> bool {
    let accused = world.accusations().await;
    let mut checks = world.grid.checks();
    for what in accused {
        checks.violated("accused", now_ms(&world.context), what);
    }
    let is_over = !checks.violations.is_empty();
    drop(checks);
    if is_over {
        tell_waiting(world);
    }
    is_over
}

/// Says what of each provider waits where: why something came too late, if it did.
fn tell_waiting(world: &SimWorld) {
    let Some((_, node)) = world.grid.nodes().into_iter().next() else {
        return;
    };
    let state = node.snapshot().state.clone();
    for offer in state.offers().iter() {
        let what = world.grid.waiting(&offer.provider);
        world.grid.line(&world.context, "waiting", &what);
    }
}

/// Without faults, all that was begun comes to its end and the chain goes on.
async fn liveness(world: &mut SimWorld) {
    let grid = world.grid.clone();
    let healed = grid.checks().height();
    grid.line(&world.context, "world", "no more faults");
    let has_seats = !grid.plan.seat_changes.is_empty();
    let until = grid.plan.heal_ms + LIVENESS_MS + if has_seats { SEATS_MS } else { 0 };
    let mut told_at = 0;
    loop {
        tell_held(world, &mut told_at);
        world.turn_newcomers().await;
        world.turn_gateways().await;
        world.turn_pause().await;
        let open = grid.checks().open_jobs();
        let target = healed + LIVENESS_BLOCKS;
        let behind: Vec<usize> = grid
            .nodes()
            .iter()
            .filter(|(_, node)| node.status().height < target)
            .map(|(seat, _)| *seat)
            .collect();
        let abstains = grid.nodes();
        let abstains = abstains.iter();
        let abstains = abstains.filter(|(_, it)| it.status().abstains_until.is_some());
        let abstains = abstains.count();
        // Seats that hostile ones lost are no part of what must end.
        let changing = if has_seats {
            world.seats_to_change()
        } else {
            0
        };
        let asked = grid.checks().open_questions();
        let gateways = world.gateways_behind(target);
        let is_done = open == 0
            && asked == 0
            && behind.is_empty()
            && gateways.is_empty()
            && grid.is_all_ordered()
            && abstains == 0
            && changing == 0;
        if is_done {
            for seat in world.wrongly_unseated() {
                let what = format!("seat{seat} stopped for want of a seat, and has one");
                grid.checks()
                    .violated("stopped", now_ms(&world.context), what);
            }
        }
        if is_done || is_over(world).await {
            return;
        }
        let now = now_ms(&world.context);
        if now > until {
            let what = format!(
                "{open} jobs and {asked} questions open, validators behind {target}: {behind:?}, gateways: {gateways:?}, {abstains} abstain, {changing} seats or bonds did not change hands, all ordered: {}",
                grid.is_all_ordered()
            );
            grid.checks().violated("liveness", now, what);
            return;
        }
        sleep_ms(&world.context, TURN_MS).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_with_another_state_than_the_others_is_found() {
        let plan = SimPlan::drawn(0);
        let mut other = plan.clone();
        other.requestors.push(None);
        let state = |plan: &SimPlan| State::genesis(&genesis(plan)).expect("a genesis has a state");
        let mut checks = checks(&plan, &genesis(&plan), SimOptions::default());
        checks.followed(0, &state(&plan), 0);
        checks.followed(1, &state(&plan), 0);
        assert!(checks.violations.is_empty(), "{:?}", checks.violations);
        checks.followed(1, &state(&other), 0);
        let rules: Vec<&str> = checks.violations.iter().map(|it| it.rule).collect();
        assert_eq!(rules, ["agreement", "agreement"], "its block and its state");
        assert_eq!(checks.looks_at_gateways, 3);
    }

    #[test]
    fn every_second_party_asks_a_gateway_where_there_is_one() {
        let with = (0..100)
            .map(SimPlan::drawn)
            .find(|it| it.gateways.len() == 2);
        let mut plan = with.expect("some seed has two");
        let asked = |plan: &SimPlan| {
            let of = |index| account("provider", (index, 0), plan).follower;
            (0..5).map(of).collect::<Vec<_>>()
        };
        assert_eq!(asked(&plan), [None, Some(0), None, Some(1), None]);
        plan.gateways.clear();
        assert_eq!(asked(&plan), [None; 5]);
    }
}
