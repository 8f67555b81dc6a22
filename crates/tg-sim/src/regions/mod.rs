//! How soon blocks are final between ten regions of the world: the validators of production on the deterministic runtime, with
//! links that take half of the published round trip between the regions of both seats.
//!
//! - `table`: the round trips, and where they are from
//!
//! Nothing fails, nothing is lost, and blocks have no transactions: what is measured is the proposal on its way, two rounds of votes, and
//! what the actors of a validator hand to each other. Every turn of the runtime takes [`RegionalPlan::step`] of simulated time, which
//! is all the time that work takes here. Real processors, disks and queues are not in these figures.

mod table;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use commonware_p2p::simulated::{self, Control, Link, Oracle};
use commonware_runtime::{Clock as _, Runner as _, Spawner as _, Supervisor as _, deterministic};
use commonware_utils::{NZUsize, Probability};
use tg_ledger::{ConsensusKey, Genesis, PROTOCOL_VERSION, Parameters, Validator};
use tg_node::engine::{self, Channels, Parts};
use tg_node::limits::{MESSAGE_BYTES_MAX, Timers};
use tg_node::open::{self, Opening};
use tg_node::store::Location;
use tg_node::wire::channel;
use tg_node::{BlobStore, History, NodeHandle, Peer, ProofChecker, ValidatorKey, WallClock};
use tg_types::{Amount, CheckedSignatures, TimestampMs, Wallet};

use crate::grid::{Context, now_ms};
use crate::run::scratch;
use crate::world::QUOTA;

pub use table::{ANCHOR, REGIONS, ROUND_TRIPS_US, SOURCE, one_way_us};

/// Blocks at the start that are not counted: the validators have just found each other.
const WARM_UP_BLOCKS: u64 = 8;

/// Simulated time that a block may take on average. A run that takes longer has failed.
const BLOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How often the run looks whether all blocks are there.
const TURN: Duration = Duration::from_millis(50);

/// Seats in one region at most: a network has no more than 64 validators.
pub const SEATS_PER_REGION_MAX: u8 = 6;

const _: () =
    assert!(REGIONS.len() * SEATS_PER_REGION_MAX as usize <= tg_ledger::limits::VALIDATORS_MAX);

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct RegionalPlan {
    /// The seed of the runtime: in which order tasks that are ready have their turn.
    pub seed: u64,
    /// Validators in each of the ten regions, at most [`SEATS_PER_REGION_MAX`].
    pub seats_per_region: u8,
    /// Blocks that are counted.
    pub blocks: u64,
    /// Standard deviation of the way of a message.
    pub jitter: Duration,
    /// Simulated time of one turn of the runtime, in which each task that is ready does something.
    pub step: Duration,
}

/// What came out of it.
#[derive(Debug, Clone)]
pub struct RegionalReport {
    /// Validators.
    pub seats: usize,
    /// Blocks that were counted.
    pub blocks: u64,
    /// Views of the whole run, with those at the start.
    pub views: u64,
    /// Blocks of the whole run, with those at the start.
    pub height: u64,
    /// Simulated time of the whole run in milliseconds.
    pub simulated_ms: u64,
    /// Microseconds from the proposal to the time at which its proposer knew that it is final, ascending.
    pub at_proposer_us: Vec<u64>,
    /// The same of every seat and block.
    pub at_seats_us: Vec<u64>,
}

/// The value below which so many of a hundred are. The values are ascending.
#[must_use]
pub fn percentile(ascending: &[u64], percent: usize) -> Option<u64> {
    let last = ascending.len().checked_sub(1)?;
    ascending.get(last * percent / 100).copied()
}

/// When a seat knew that a block is final.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    height: u64,
    /// Whether the seat had proposed it.
    is_own: bool,
    /// Microseconds since the time of the block, which is when it was proposed, rounded down to a millisecond.
    took_us: u64,
}

/// What the seats have seen.
type Sightings = Arc<Mutex<Vec<Sighting>>>;

/// Runs a plan.
///
/// # Panics
/// If there are no seats or too many, if no folder for temporary files can be made, or if blocks do not become final in time.
#[must_use]
pub fn measure(plan: &RegionalPlan) -> RegionalReport {
    assert!(
        (1..=SEATS_PER_REGION_MAX).contains(&plan.seats_per_region),
        "a region has 1 to {SEATS_PER_REGION_MAX} seats"
    );
    let folder = scratch();
    // Empty: nothing is ordered, so that one does for all.
    let blobs = BlobStore::open(folder.path(), 0).expect("an empty folder is a store");
    let blobs = Arc::new(blobs);
    let blocks = u32::try_from(plan.blocks + WARM_UP_BLOCKS).unwrap_or(u32::MAX);
    let config = deterministic::Config::new()
        .with_seed(plan.seed)
        .with_cycle(plan.step)
        .with_timeout(Some(BLOCK_PATIENCE.saturating_mul(blocks)));
    let runner = deterministic::Runner::new(config);
    runner.start(|context| play(context, *plan, blobs))
}

/// The run itself.
async fn play(context: Context, plan: RegionalPlan, blobs: Arc<BlobStore>) -> RegionalReport {
    let count = REGIONS.len() * usize::from(plan.seats_per_region);
    let keys = (0..count).map(|seat| ValidatorKey::from_seed(seat as u64));
    let keys: Vec<ValidatorKey> = keys.collect();
    let peers: Vec<Peer> = keys.iter().map(ValidatorKey::peer).collect();
    let genesis = genesis(&keys);
    let oracle = network(context.child("network"), &peers).await;
    link(&oracle, &peers, plan.jitter).await;
    let signatures = open::own_signatures();
    let sightings = Sightings::default();
    let mut nodes: Vec<NodeHandle> = Vec::new();
    for (seat, key) in keys.iter().enumerate() {
        let (node, parts) = opened(&genesis, key, (&blobs, &signatures));
        watch(&context, (seat, key), &node, &sightings);
        let control = oracle.control(peers[seat].clone());
        let channels = channels(&control).await;
        let own = context.child("validator").with_attribute("index", seat);
        engine::start(own, parts, channels, control);
        nodes.push(node);
    }
    let wanted = plan.blocks + WARM_UP_BLOCKS;
    while nodes.iter().any(|node| node.status().height < wanted) {
        context.sleep(TURN).await;
    }
    // The height is told before the block is.
    context.sleep(TURN).await;
    let simulated_ms = now_ms(&context);
    let statuses = nodes.iter().map(NodeHandle::status);
    let (views, height) = statuses.fold((0, 0), |(views, height), it| {
        (it.view.max(views), it.height.max(height))
    });
    let seen = sightings.lock().unwrap_or_else(PoisonError::into_inner);
    let counted = |it: &&Sighting| (WARM_UP_BLOCKS + 1..=wanted).contains(&it.height);
    let sorted = |own_only: bool| {
        let seen = seen.iter().filter(counted);
        let seen = seen.filter(|it| it.is_own || !own_only);
        let mut all: Vec<u64> = seen.map(|it| it.took_us).collect();
        all.sort_unstable();
        all
    };
    RegionalReport {
        seats: count,
        blocks: plan.blocks,
        views,
        height,
        simulated_ms,
        at_proposer_us: sorted(true),
        at_seats_us: sorted(false),
    }
}

/// The account of a validator.
fn account(key: &ValidatorKey) -> Wallet {
    Wallet::from_seed(&key.public())
}

fn genesis(keys: &[ValidatorKey]) -> Genesis {
    let validators = keys.iter().map(|key| Validator {
        address: account(key).address(),
        key: ConsensusKey::new(key.public()),
        stake: Amount::from_tgrid(1_000),
    });
    let mut validators: Vec<Validator> = validators.collect();
    validators.sort_unstable_by_key(|it| it.address);
    Genesis {
        domain: tg_ledger::development_domain(),
        parameters: Parameters::development().wide_enough_for(keys.len()),
        timestamp: TimestampMs::new(1),
        accounts: Vec::new(),
        validators,
    }
}

/// A validator with the timers of production and a database in memory.
fn opened(
    genesis: &Genesis,
    key: &ValidatorKey,
    (blobs, signatures): (&Arc<BlobStore>, &Arc<CheckedSignatures>),
) -> (NodeHandle, Parts) {
    let opening = Opening {
        genesis,
        key: key.clone(),
        location: Location::Memory,
        blobs: Arc::clone(blobs),
        checker: Arc::new(ProofChecker::default()),
        timers: Timers::default(),
        history: History::New,
        wall: WallClock::of_runtime(),
        speaks: PROTOCOL_VERSION,
        signatures: Arc::clone(signatures),
    };
    open::open(opening).expect("a new validator opens")
}

/// Notes when a seat hears that a block is final.
fn watch(
    context: &Context,
    (seat, key): (usize, &ValidatorKey),
    node: &NodeHandle,
    sightings: &Sightings,
) {
    let (own, sightings) = (account(key).address(), Arc::clone(sightings));
    let mut blocks = node.subscribe();
    let context = context.child("watch").with_attribute("index", seat);
    context.spawn(move |context| async move {
        while let Ok(block) = blocks.recv().await {
            let header = &block.block.header;
            let now = context.current().duration_since(UNIX_EPOCH);
            let proposed = Duration::from_millis(header.timestamp.get());
            let took = now.unwrap_or_default().saturating_sub(proposed);
            let sighting = Sighting {
                height: header.height.get(),
                is_own: header.proposer == own,
                took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            };
            let mut all = sightings.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(sighting);
        }
    });
}

/// A network without links.
async fn network(context: Context, peers: &[Peer]) -> Oracle<Peer, Context> {
    let config = simulated::Config {
        max_size: MESSAGE_BYTES_MAX,
        max_peers_per_set: NZUsize!(tg_ledger::limits::VALIDATORS_MAX),
        disconnect_on_block: true,
        tracked_peer_sets: NZUsize!(1),
    };
    let (network, oracle) =
        simulated::Network::new_with_peers(context, config, peers.to_vec()).await;
    network.start();
    oracle
}

/// Links all seats. Seat `n` is in region `n` modulo their number.
async fn link(oracle: &Oracle<Peer, Context>, peers: &[Peer], jitter: Duration) {
    for (from, sender) in peers.iter().enumerate() {
        for (to, receiver) in peers.iter().enumerate().filter(|(to, _)| *to != from) {
            let link = Link {
                latency: Duration::from_micros(one_way_us(from, to)),
                jitter,
                success_rate: Probability::new(1, 1).expect("all messages arrive"),
            };
            let (sender, receiver) = (sender.clone(), receiver.clone());
            let added = oracle.add_link(sender, receiver, link).await;
            added.expect("a new network has no links");
        }
    }
}

async fn channels(
    control: &Control<Peer, Context>,
) -> Channels<simulated::Sender<Peer, Context>, simulated::Receiver<Peer>> {
    let register = async |number| {
        let registered = control.register(number, QUOTA).await;
        registered.expect("the network runs")
    };
    Channels {
        votes: register(channel::VOTES).await,
        certificates: register(channel::CERTIFICATES).await,
        resolver: register(channel::RESOLVER).await,
        blocks: register(channel::BLOCKS).await,
        transactions: register(channel::TRANSACTIONS).await,
        blobs: register(channel::BLOBS).await,
        seeds: register(channel::SEED).await,
    }
}
