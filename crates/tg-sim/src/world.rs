//! The validators of a run: their network, their disks, what starts and stops them.

mod gateways;
mod newcomers;
mod pause;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use commonware_p2p::simulated::{self, Control, Link, Oracle};
use commonware_runtime::{Clock as _, Handle, Quota, Spawner as _, Storage as _, Supervisor as _};
use commonware_utils::{NZU32, NZUsize, Probability};
use tg_ledger::limits::EPOCH_BLOCKS;
use tg_ledger::{Genesis, PROTOCOL_VERSION, VoteDuty, VoteState};
use tg_node::duties::{DueSamples, Duties, look_at_files, look_at_samples};
use tg_node::engine::{self, Channels, Parts};
use tg_node::limits::{CHANNEL_BURST, CHANNEL_QUOTA_PER_SECOND, DUTIES_INTERVAL, Timers};
use tg_node::open::{self, Opening};
use tg_node::store::{Location, MemoryDisk};
use tg_node::wire::channel;
use tg_node::{
    BlobStore, EvidenceChecker, Fatal, FollowedChain, History, NodeHandle, OpenError, Peer,
    ProofChecker, ValidatorKey, WallClock,
};
use tg_types::limits::VOTES_MAX;
use tg_types::{
    CheckedSignatures, Fees, SealedVote, TimestampMs, Transaction, Wallet, with_sources,
};

use crate::bribed::BribedMember;
use crate::evidence::{
    BribedWatcher, EMPTY_VOTE, FixedVote, LyingChecker, Proving, SampleModel, SimulatedChecker,
    WRONG_TILE,
};
use crate::forger::SimForger;
use crate::gateways::SimGateway;
use crate::grid::{Context, SimGrid, now_ms};
use crate::mangler::Mangled;
use crate::omitter::SeedOmitter;
use crate::plan::{FailureKind, Loss, PlannedFault, SeatRole};

pub(crate) const QUOTA: Quota =
    Quota::per_second(NZU32!(CHANNEL_QUOTA_PER_SECOND)).allow_burst(NZU32!(CHANNEL_BURST));

/// Shorter than in production, so that a run of half a minute has many views.
pub(crate) const TIMERS: Timers = Timers {
    leader: Duration::from_millis(600),
    certification: Duration::from_millis(900),
    retry: Duration::from_millis(900),
    skip: Duration::from_millis(2_000),
    busy: Duration::from_millis(100),
    idle: Duration::from_millis(400),
};

/// What a validator's blob store may hold, in bytes.
const STORE_BYTES: u64 = 1 << 30;

/// A seat of the network, and what is left of it while its validator does not run.
pub(crate) struct SimSeat {
    pub(crate) role: SeatRole,
    /// What the results are of that it looks at.
    sample: &'static SampleModel,
    pub(crate) key: ValidatorKey,
    pub(crate) account: Wallet,
    disk: MemoryDisk,
    folder: PathBuf,
    pub(crate) blobs: Arc<BlobStore>,
    history: History,
    /// The newest version of the protocol that its program executes.
    pub(crate) speaks: u16,
    /// What runs: aborted when the power goes.
    tasks: Vec<Handle<()>>,
    node: Option<NodeHandle>,
    /// The journal of votes, by its name in the runtime's storage.
    partition: String,
    /// The height that it told before the power went, if its chain was kept.
    told: u64,
    /// Where it stands between bond and end.
    place: Arc<SeatPlace>,
    /// The chain as far as a newcomer that has no seat yet has followed it.
    following: Option<FollowedChain>,
    /// How far its wall clock went while all validators were off.
    paused: Duration,
    /// How far its wall clock is ahead, in milliseconds.
    pub(crate) clock_ms: i64,
}

/// Where a validator stands between its bond and the end of its seat.
#[derive(Debug, Default)]
struct SeatPlace {
    /// Whether it had a seat.
    sat: AtomicBool,
    /// Whether it found that it has none any more.
    is_over: AtomicBool,
}

/// The validators and the network between them.
pub(crate) struct SimWorld {
    pub(crate) context: Context,
    pub(crate) grid: Arc<SimGrid>,
    pub(crate) genesis: Genesis,
    pub(crate) seats: Vec<SimSeat>,
    checker: Arc<dyn EvidenceChecker>,
    /// What all validators have looked at: one thread looks once at what each would, and finds the same.
    signatures: Arc<CheckedSignatures>,
    oracle: Oracle<Peer, Context>,
    /// The network of those that were split off, and who they are.
    other_side: Option<(Oracle<Peer, Context>, BTreeSet<usize>)>,
    pub(crate) peers: Vec<Peer>,
    /// Faults that are there now.
    active: BTreeSet<usize>,
    /// Nodes that follow the chain, in the order of the plan.
    gateways: Vec<SimGateway>,
    /// How often a validator was started.
    starts: u64,
    /// Whether a power cut takes the newest votes along.
    pub(crate) loses_votes: bool,
}

impl SimWorld {
    /// A network of seats that do not run yet.
    pub(crate) async fn new(
        context: Context,
        grid: Arc<SimGrid>,
        genesis: Genesis,
        mut seats: Vec<SimSeat>,
    ) -> Self {
        let checker: Arc<dyn EvidenceChecker> = match grid.proving {
            Proving::Simulated => Arc::new(SimulatedChecker(grid.sample())),
            Proving::Real => Arc::new(ProofChecker::default()),
        };
        let signatures = open::own_signatures();
        let founders = grid.plan.seats.len();
        let peers: Vec<Peer> = seats.iter().map(|it| it.key.peer()).collect();
        for seat in &mut seats[..founders] {
            let location = Location::Memory;
            let tools = (checker.clone(), signatures.clone());
            let opening = opening(&genesis, seat, (location, TIMERS), tools);
            let (_, parts) = open::open(opening).expect("a new validator opens");
            parts.votes_partition().clone_into(&mut seat.partition);
            seat.place.sat.store(true, Ordering::Relaxed);
        }
        let oracle = network(context.child("network"), &peers).await;
        let gateways = 0..grid.plan.gateways.len();
        let gateways = gateways.map(|index| SimGateway::new(grid.plan.seed, index));
        let gateways = gateways.collect();
        Self {
            context,
            grid,
            genesis,
            seats,
            checker,
            signatures,
            oracle,
            other_side: None,
            peers,
            active: BTreeSet::new(),
            gateways,
            starts: 0,
            loses_votes: false,
        }
    }

    /// Sets every link to what the faults of the moment make of it.
    pub(crate) async fn relink(&mut self) {
        for from in 0..self.peers.len() {
            for to in (0..self.peers.len()).filter(|to| *to != from) {
                let (sender, receiver) = (self.peers[from].clone(), self.peers[to].clone());
                // There is none at first, and none while a partition lasts.
                let _ = self
                    .oracle
                    .remove_link(sender.clone(), receiver.clone())
                    .await;
                if let Some(link) = self.link(from, to) {
                    let added = self.oracle.add_link(sender, receiver, link).await;
                    added.expect("a link that was removed can be added");
                }
            }
        }
    }

    fn link(&self, from: usize, to: usize) -> Option<Link> {
        let (latency_ms, loss_permille) = self.way(from, to)?;
        let success_rate = Probability::new(1_000 - loss_permille, 1_000);
        Some(Link {
            latency: Duration::from_millis(latency_ms),
            jitter: Duration::from_millis(self.grid.plan.links.jitter_ms),
            success_rate: success_rate.expect("at most all messages are lost"),
        })
    }

    /// How long what one seat sends to another takes now, in milliseconds, and how many of a thousand messages are lost; nothing if none
    /// arrives.
    fn way(&self, from: usize, to: usize) -> Option<(u64, u64)> {
        let has_sat = |seat: usize| self.seats[seat].place.sat.load(Ordering::Relaxed);
        // Nobody dials who has no seat yet.
        if !has_sat(from) || !has_sat(to) {
            return None;
        }
        let links = self.grid.plan.links;
        let mut latency = links.latency_ms;
        let mut loss = links.loss_permille;
        if let SeatRole::Late(ms) = self.seats[from].role {
            latency += ms;
        }
        for fault in &self.active {
            let Some(Some(fault)) = self.grid.plan.faults.get(*fault) else {
                continue;
            };
            match &fault.kind {
                FailureKind::Partition { side, both_ways } => {
                    let (inside, reaches) = (side.contains(&from), side.contains(&to));
                    if inside != reaches && (*both_ways || inside) {
                        return None;
                    }
                }
                FailureKind::Cut { pair: [a, b] } => {
                    if [from, to] == [*a, *b] || [from, to] == [*b, *a] {
                        return None;
                    }
                }
                FailureKind::Loss { permille } => loss = loss.max(*permille),
                FailureKind::Delay { ms } => latency += ms,
                FailureKind::Crash { .. } => {}
            }
        }
        Some((latency, loss))
    }

    /// A fault begins.
    pub(crate) async fn begin(&mut self, index: usize, fault: &PlannedFault) {
        self.active.insert(index);
        let what = format!("fault{index} begins: {:?}", fault.kind);
        self.grid.line(&self.context, "world", &what);
        match &fault.kind {
            FailureKind::Crash { seat, loss } => self.power_off(*seat, *loss).await,
            _ => self.relink().await,
        }
    }

    /// A fault ends.
    pub(crate) async fn end(&mut self, index: usize, fault: &PlannedFault) {
        if !self.active.remove(&index) {
            return;
        }
        let what = format!("fault{index} ends");
        self.grid.line(&self.context, "world", &what);
        match &fault.kind {
            FailureKind::Crash { seat, .. } => {
                if !self.is_off(*seat) {
                    self.power_on(*seat).await;
                }
            }
            _ => self.relink().await,
        }
    }

    /// A validator gets a new release: it is started again with a program that executes the next version of the protocol.
    pub(crate) async fn renew(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        seat.speaks += 1;
        // One that is off gets it meanwhile.
        let is_off = self.is_off(index);
        self.power_off(index, Loss::Unsynced).await;
        if !is_off {
            self.power_on(index).await;
        }
        let what = format!("seat{index} has the new release");
        self.grid.line(&self.context, "world", &what);
    }

    /// Whether a fault keeps a validator off.
    fn is_off(&self, seat: usize) -> bool {
        self.active.iter().any(|other| {
            let other = self.grid.plan.faults.get(*other);
            matches!(other, Some(Some(PlannedFault { kind: FailureKind::Crash { seat: it, .. }, .. })) if *it == seat)
        })
    }

    /// A validator loses power, and something of its disk.
    async fn power_off(&mut self, index: usize, loss: Loss) {
        let seat = &mut self.seats[index];
        if seat.following.is_some() {
            seat.disk = seat.disk.after_power_cut();
            seat.following = None;
            let what = format!("seat{index} off while it follows, {}", loss.name());
            self.grid.line(&self.context, "world", &what);
        }
        let Some(node) = seat.node.take() else {
            return;
        };
        self.grid.down(index);
        let height = node.status().height;
        for task in seat.tasks.drain(..) {
            task.abort();
        }
        drop(node);
        seat.told = match loss {
            Loss::Unsynced | Loss::Votes => height,
            Loss::Chain | Loss::Disk => 0,
        };
        seat.disk = match loss {
            Loss::Unsynced | Loss::Votes => seat.disk.after_power_cut(),
            Loss::Chain | Loss::Disk => MemoryDisk::default(),
        };
        // An aborted task ends when it is looked at next, and only then are those aborted that it had started; consensus
        // is four deep. Seed 624 took the file from a voter that still wrote.
        self.context.sleep(Duration::from_millis(10)).await;
        if matches!(loss, Loss::Votes | Loss::Disk) {
            self.forget_votes(index).await;
        } else if self.loses_votes {
            self.cut_votes(index).await;
        }
        let seat = &mut self.seats[index];
        if loss == Loss::Disk {
            seat.folder = seat.folder.with_extension(format!("{}", self.starts));
            let emptied = BlobStore::open(&seat.folder, STORE_BYTES);
            seat.blobs = Arc::new(emptied.expect("an empty folder is a store"));
            let facts = &mut self.grid.checks().facts;
            facts.unsure += 1;
            facts.stores[index] = Some(seat.blobs.clone());
        }
        if matches!(loss, Loss::Chain | Loss::Disk) {
            seat.history = History::Lost;
        }
        let what = format!("seat{index} off at height {height}, {}", loss.name());
        self.grid.line(&self.context, "world", &what);
    }

    /// Removes the journal of votes.
    async fn forget_votes(&self, index: usize) {
        for partition in self.journals(index) {
            // It is not there before the first vote.
            let _ = self.context.remove(&partition, None).await;
        }
    }

    /// The names that the journal of votes of a validator may have: that of the first epoch, and those of later ones, by the height at
    /// which they begin.
    fn journals(&self, index: usize) -> Vec<String> {
        let partition = &self.seats[index].partition;
        let checks = self.grid.checks();
        let ends = checks.height() / EPOCH_BLOCKS;
        let terms = checks.last.as_ref().map_or(0, |it| it.seats().term);
        let later = (1..=terms).flat_map(|epoch| {
            let begins = (0..=ends).map(|it| it * EPOCH_BLOCKS);
            begins.map(move |from| format!("{partition}-{epoch}-{from}"))
        });
        std::iter::once(partition.clone()).chain(later).collect()
    }

    /// Removes the newest part of the journal of votes: what a disk does that says synced and is not.
    async fn cut_votes(&self, index: usize) {
        for partition in self.journals(index) {
            let mut sections = self.context.scan(&partition).await.unwrap_or_default();
            sections.sort_unstable();
            // An empty journal would be seen as one that is gone.
            if sections.len() > 1
                && let Some(newest) = sections.last()
            {
                let _ = self.context.remove(&partition, Some(newest)).await;
            }
        }
    }

    /// A validator starts, or starts again.
    pub(crate) async fn power_on(&mut self, index: usize) {
        let seat = &self.seats[index];
        let place = &seat.place;
        if seat.node.is_some() || place.is_over.load(Ordering::Relaxed) {
            return;
        }
        self.starts += 1;
        if !place.sat.load(Ordering::Relaxed) {
            return self.begin_to_follow(index).await;
        }
        match seat.role {
            // Those that are two are started by `twins`, and never lose power.
            SeatRole::Silent | SeatRole::Twins | SeatRole::Equivocator => {}
            SeatRole::Honest
            | SeatRole::Late(_)
            | SeatRole::FastClock(_)
            | SeatRole::VerdictLiar
            | SeatRole::StorageLiar
            | SeatRole::LazyMember
            | SeatRole::BribedWatcher
            | SeatRole::BribedMember
            | SeatRole::FalseAccuser
            | SeatRole::Sleeper
            | SeatRole::VoteCopier
            | SeatRole::SeedWithholder
            | SeatRole::FileDropper
            | SeatRole::Mangler
            | SeatRole::Forger
            | SeatRole::SeedOmitter => self.start(index).await,
        }
    }

    async fn start(&mut self, index: usize) {
        let seat = &self.seats[index];
        let location = Location::Disk(&seat.disk);
        let opening = opening(
            &self.genesis,
            seat,
            (location, TIMERS),
            (self.checker.clone(), self.signatures.clone()),
        );
        let (node, parts) = match open::open(opening) {
            Ok(opened) => opened,
            // It starts once it has the new release.
            Err(OpenError::Protocol(unknown)) => {
                let what = format!("seat{index} does not start: {unknown}");
                self.grid.line(&self.context, "world", &what);
                return;
            }
            // It lost power after it knew, and before it stopped.
            Err(OpenError::NotAValidator { .. }) if self.is_unseated(index) => {
                seat.place.is_over.store(true, Ordering::Relaxed);
                let what = format!("seat{index} does not start: it has no seat any more");
                self.grid.line(&self.context, "world", &what);
                return;
            }
            Err(error) => {
                let what = format!("seat{index} does not open its data: {error}");
                let at = now_ms(&self.context);
                self.grid.checks().violated("stopped", at, what);
                return;
            }
        };
        let parts = self.with_forger(index, parts);
        let told = self.look_at_disk(index, &node);
        let context = self.child("validator", index);
        let mut tasks = Vec::new();
        if seat.role == SeatRole::Honest {
            tasks.push(self.watch(index, &node));
        }
        tasks.push(self.perform_duties(index, &node));
        let control = self.control(index);
        let channels = self.channels(index, &control).await;
        let (grid, role, place) = (self.grid.clone(), seat.role, seat.place.clone());
        let partition = parts.votes_partition().to_owned();
        tasks.push(context.spawn(move |context| async move {
            let engine = engine::start(context.child("engine"), parts, channels, control);
            let Ok(Err(fatal)) = engine.await else {
                return;
            };
            if matches!(fatal, Fatal::Protocol(_)) {
                // A process that has ended answers nobody.
                grid.down(index);
                grid.line(&context, "world", &format!("seat{index} stops: {fatal}"));
            } else if matches!(fatal, Fatal::Unseated { .. }) {
                // Whether it has none indeed is looked at when the run ends.
                place.is_over.store(true, Ordering::Relaxed);
                grid.down(index);
                grid.line(&context, "world", &format!("seat{index} stops: {fatal}"));
            } else if role == SeatRole::Honest {
                let what = format!("seat{index} stopped: {}", with_sources(&fatal));
                let at = now_ms(&context);
                grid.checks().violated("stopped", at, what);
            }
        }));
        let seat = &mut self.seats[index];
        seat.partition = partition;
        seat.tasks.extend(tasks);
        seat.node = Some(node.clone());
        if seat.role == SeatRole::Honest {
            self.grid.up(index, node);
        }
        let what = format!("seat{index} on at height {told}");
        self.grid.line(&self.context, "world", &what);
    }

    /// The same validator; one that proposes what does not hold, or leaves seeds out, if its seat is of that kind.
    fn with_forger(&self, index: usize, parts: Parts) -> Parts {
        let seat = &self.seats[index];
        let grid = self.grid.clone();
        match seat.role {
            SeatRole::Forger => {
                let account = seat.account.clone();
                let forger = SimForger::new(grid, (index, self.starts), account);
                parts.forging(Arc::new(forger))
            }
            SeatRole::SeedOmitter => parts.forging(Arc::new(SeedOmitter::new(grid, index))),
            _ => parts,
        }
    }

    /// Checks that a validator that starts again has on disk what it told, if its disk is the old one.
    fn look_at_disk(&self, index: usize, node: &NodeHandle) -> u64 {
        let latest = node.snapshot();
        let height = node.status().height;
        let mut checks = self.grid.checks();
        let known = checks.block(height).copied();
        let seat = &self.seats[index];
        if seat.role == SeatRole::Honest && height < seat.told {
            let what = format!("seat{index} told {}, and starts at {height}", seat.told);
            checks.violated("lost-block", now_ms(&self.context), what);
        }
        if seat.role == SeatRole::Honest && height > 0 && known.is_some_and(|it| it != latest.id) {
            let what = format!("seat{index} starts at another block of height {height}");
            checks.violated("lost-block", now_ms(&self.context), what);
        }
        height
    }

    fn child(&self, name: &'static str, index: usize) -> Context {
        self.context
            .child(name)
            .with_attribute("index", index)
            .with_attribute("start", self.starts)
    }

    /// Passes the blocks of a validator to the checks.
    fn watch(&self, index: usize, node: &NodeHandle) -> Handle<()> {
        let (grid, mut blocks) = (self.grid.clone(), node.subscribe());
        let node = node.clone();
        self.child("watch", index).spawn(move |context| async move {
            while let Ok(block) = blocks.recv().await {
                let height = block.block.header.height.get();
                if grid.checks().wants_certificate(height)
                    // Of blocks that end well with a later one there is none.
                    && let Ok(Some((at, bytes))) = node.certificate(height)
                    && at == height
                {
                    grid.checks().certified(height, block.id, bytes);
                }
                grid.finalised(&context, index, &block);
            }
        })
    }

    /// Sends what a validator has to state.
    fn perform_duties(&self, index: usize, node: &NodeHandle) -> Handle<()> {
        let seat = &self.seats[index];
        let (node, account) = (node.clone(), seat.account.clone());
        let checker = member(seat, Arc::clone(&self.checker));
        let role = seat.role;
        let domain = self.grid.domain;
        self.child("duties", index)
            .spawn(move |context| async move {
                let mut duties = Duties::default();
                loop {
                    let now = || TimestampMs::new(now_ms(&context));
                    let look =
                        |store: Arc<BlobStore>, due| async move { look_at_files(&store, due) };
                    let sample = |store: Arc<BlobStore>, due| {
                        let checker = Arc::clone(&checker);
                        let due = match role {
                            SeatRole::Sleeper => DueSamples::default(),
                            _ => due,
                        };
                        async move { look_at_samples(&*checker, &store, due) }
                    };
                    match role {
                        SeatRole::StorageLiar => {
                            lie(&node, &account, &domain).await;
                        }
                        SeatRole::FileDropper => {
                            if !lie(&node, &account, &domain).await {
                                deny(&node, &account, &domain).await;
                            }
                        }
                        SeatRole::VoteCopier => copy_votes(&node, &account, &domain).await,
                        // Who states and deals nothing.
                        SeatRole::SeedWithholder => {}
                        _ => duties.turn(&node, &account, now, look, sample).await,
                    }
                    context.sleep(DUTIES_INTERVAL).await;
                }
            })
    }

    pub(crate) fn control(&self, index: usize) -> Control<Peer, Context> {
        let other = self.other_side.as_ref();
        let other = other.filter(|(_, seats)| seats.contains(&index));
        let oracle = other.map_or(&self.oracle, |(oracle, _)| oracle);
        oracle.control(self.peers[index].clone())
    }

    /// A seat that is on both sides of a network that was split.
    pub(crate) fn controls(&self, index: usize) -> Vec<(&'static str, Control<Peer, Context>)> {
        let peer = || self.peers[index].clone();
        let other = self.other_side.iter();
        let other = other.map(|(oracle, _)| ("second", oracle.control(peer())));
        let both = std::iter::once(("first", self.oracle.control(peer())));
        both.chain(other).collect()
    }

    /// These seats, and those that are on both sides, have a network of their own from now on.
    pub(crate) async fn split_off(&mut self, seats: &[usize]) {
        let oracle = network(self.context.child("other"), &self.peers).await;
        for from in 0..self.peers.len() {
            for to in (0..self.peers.len()).filter(|to| *to != from) {
                if let Some(link) = self.link(from, to) {
                    let (sender, receiver) = (self.peers[from].clone(), self.peers[to].clone());
                    let added = oracle.add_link(sender, receiver, link).await;
                    added.expect("a new network has no links");
                }
            }
        }
        self.other_side = Some((oracle, seats.iter().copied().collect()));
    }

    pub(crate) async fn channels(
        &self,
        index: usize,
        control: &Control<Peer, Context>,
    ) -> Channels<Mangled<simulated::Sender<Peer, Context>>, simulated::Receiver<Peer>> {
        let register = async |number| {
            let registered = control.register(number, QUOTA).await;
            let (sender, receiver) = registered.expect("the network runs");
            (Mangled::not(sender), receiver)
        };
        let mut blocks = register(channel::BLOCKS).await;
        if self.seats[index].role == SeatRole::Mangler {
            blocks.0 = blocks.0.mangling();
        }
        let mut seeds = register(channel::SEED).await;
        if self.seats[index].role == SeatRole::SeedWithholder {
            seeds.0 = seeds.0.dropping();
        }
        let mut blobs = register(channel::BLOBS).await;
        if self.seats[index].role == SeatRole::FileDropper {
            blobs.0 = blobs.0.dropping();
        }
        let mut votes = register(channel::VOTES).await;
        let has_forger = self.grid.plan.seats.contains(&SeatRole::Forger);
        if has_forger && self.seats[index].role == SeatRole::Honest {
            votes.0 = votes.0.heard_by(self.grid.clone(), index);
        }
        Channels {
            votes,
            certificates: register(channel::CERTIFICATES).await,
            resolver: register(channel::RESOLVER).await,
            blocks,
            transactions: register(channel::TRANSACTIONS).await,
            blobs,
            seeds,
        }
    }

    /// Opens a validator with nothing on its disk, beside the one that the seat has.
    pub(crate) fn open_another(&self, index: usize, timers: Timers) -> (NodeHandle, Parts) {
        let seat = &self.seats[index];
        let location = Location::Memory;
        let opening = opening(
            &self.genesis,
            seat,
            (location, timers),
            (self.checker.clone(), self.signatures.clone()),
        );
        open::open(opening).expect("a new validator opens")
    }

    /// Keeps tasks of a seat, with the duties of one of its validators.
    pub(crate) fn keep(&mut self, index: usize, node: NodeHandle, mut tasks: Vec<Handle<()>>) {
        tasks.push(self.perform_duties(index, &node));
        let seat = &mut self.seats[index];
        seat.node = Some(node);
        seat.tasks.extend(tasks);
    }

    /// What honest validators say of each other that must not be said.
    pub(crate) async fn accusations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let is_honest = |index: usize| self.seats[index].role == SeatRole::Honest;
        for (index, node) in self.grid.nodes() {
            for accused in node.status().equivocators {
                let accused = self.seats.iter().position(|it| it.key.public() == accused);
                if accused.is_none_or(is_honest) {
                    found.push(format!("seat{index} convicts {accused:?} of two votes"));
                }
            }
        }
        let seat_of = |peer: &Peer| self.peers.iter().position(|it| it == peer);
        for (from, to) in self.oracle.blocked().await.unwrap_or_default() {
            if let (Some(from), Some(to)) = (seat_of(&from), seat_of(&to))
                && is_honest(from)
                && is_honest(to)
            {
                found.push(format!("seat{from} refuses what seat{to} sends"));
            }
        }
        found
    }
}

impl SimSeat {
    /// A seat with an empty disk.
    pub(crate) fn new(
        (role, sample): (SeatRole, &'static SampleModel),
        key: ValidatorKey,
        account: Wallet,
        folder: PathBuf,
    ) -> Self {
        let blobs = BlobStore::open(&folder, STORE_BYTES).expect("an empty folder is a store");
        Self {
            role,
            sample,
            key,
            account,
            disk: MemoryDisk::default(),
            folder,
            blobs: Arc::new(blobs),
            history: History::New,
            speaks: PROTOCOL_VERSION,
            tasks: Vec::new(),
            node: None,
            partition: String::new(),
            told: 0,
            place: Arc::default(),
            following: None,
            paused: Duration::ZERO,
            clock_ms: 0,
        }
    }
}

/// A network without links.
async fn network(context: Context, peers: &[Peer]) -> Oracle<Peer, Context> {
    let config = simulated::Config {
        max_size: tg_node::limits::MESSAGE_BYTES_MAX,
        max_peers_per_set: NZUsize!(16),
        disconnect_on_block: true,
        tracked_peer_sets: NZUsize!(1),
    };
    let (network, oracle) =
        simulated::Network::new_with_peers(context, config, peers.to_vec()).await;
    network.start();
    oracle
}

fn opening<'a>(
    genesis: &'a Genesis,
    seat: &SimSeat,
    (location, timers): (Location<'a>, Timers),
    (checker, signatures): (Arc<dyn EvidenceChecker>, Arc<CheckedSignatures>),
) -> Opening<'a> {
    let (paused, clock_ms) = (seat.paused, seat.clock_ms);
    let off = Duration::from_millis(clock_ms.unsigned_abs());
    let wall = match clock_ms {
        0 if paused.is_zero() => WallClock::of_runtime(),
        0.. => WallClock::new(move |steady| steady + paused + off),
        ..0 => WallClock::new(move |steady| steady + paused - off),
    };
    Opening {
        genesis,
        key: seat.key.clone(),
        location,
        blobs: seat.blobs.clone(),
        checker: member(seat, checker),
        timers,
        history: seat.history,
        wall,
        speaks: seat.speaks,
        signatures,
    }
}

/// How a validator looks at evidence and drawn tiles.
fn member(seat: &SimSeat, inner: Arc<dyn EvidenceChecker>) -> Arc<dyn EvidenceChecker> {
    let sample = seat.sample;
    let fixed = |vote, inner| Arc::new(FixedVote { vote, inner });
    match seat.role {
        SeatRole::VerdictLiar => Arc::new(LyingChecker { sample, inner }),
        SeatRole::LazyMember => fixed(EMPTY_VOTE, inner),
        SeatRole::BribedWatcher => Arc::new(BribedWatcher { sample, inner }),
        SeatRole::BribedMember => Arc::new(BribedMember(BribedWatcher { sample, inner })),
        SeatRole::FalseAccuser => fixed(WRONG_TILE, inner),
        _ => inner,
    }
}

/// Seals as its own what other members of its committees sealed.
async fn copy_votes(node: &NodeHandle, account: &Wallet, domain: &tg_types::ChainDomain) {
    let state = node.snapshot().state.clone();
    let me = account.address();
    let copied = state.vote_tasks(&me).into_iter().filter_map(|task| {
        let lease = task.sample.lease;
        let check = state.lease(&lease)?.check.as_ref()?;
        let mut votes = check.stage.round()?.votes.iter();
        let commitment = votes.find_map(|it| match it.state {
            VoteState::Sealed(commitment) => Some(commitment),
            _ => None,
        })?;
        (task.step == VoteDuty::Seal).then_some(SealedVote { lease, commitment })
    });
    let mut votes: Vec<SealedVote> = copied.collect();
    votes.sort_unstable_by_key(|it| it.lease);
    votes.truncate(VOTES_MAX);
    if votes.is_empty() {
        return;
    }
    let sealed = Transaction::CommitVotes { votes };
    let signed = account.sign_with_fees(sealed, state.nonce(&me), Fees::NONE, domain);
    // Refused while the one before waits.
    let _ = node.submit(signed).await;
}

/// States that all is held, whatever it is; whether there is something to state.
async fn lie(node: &NodeHandle, account: &Wallet, domain: &tg_types::ChainDomain) -> bool {
    let state = node.snapshot().state.clone();
    let me = account.address();
    let mut held: Vec<_> = state
        .storage_tasks(&me)
        .iter()
        .map(|it| it.subject)
        .collect();
    held.truncate(tg_types::limits::STORAGE_STATEMENTS_MAX);
    if held.is_empty() {
        return false;
    }
    held.sort_unstable();
    let report = Transaction::ReportStorage {
        held,
        missing: Vec::new(),
    };
    let signed = account.sign_with_fees(report, state.nonce(&me), Fees::NONE, domain);
    // Refused while the one before waits.
    let _ = node.submit(signed).await;
    true
}

/// States of all others that are asked for what they keep that they do not have it.
async fn deny(node: &NodeHandle, account: &Wallet, domain: &tg_types::ChainDomain) {
    let state = node.snapshot().state.clone();
    let me = account.address();
    let tasks = state.question_tasks(&me);
    let Some(task) = tasks.iter().find(|it| it.is_late) else {
        return;
    };
    let report = Transaction::ReportStorage {
        held: Vec::new(),
        missing: vec![task.subject],
    };
    let signed = account.sign_with_fees(report, state.nonce(&me), Fees::NONE, domain);
    // Refused while the one before waits.
    let _ = node.submit(signed).await;
}
