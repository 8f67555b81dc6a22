//! A node without a vote, which follows the chain that others make: what a gateway is.
//!
//! It asks nodes ([`ChainSource`]) for final blocks, checks what shows that they are final, executes them, and keeps them as a
//! validator does, behind the same [`NodeHandle`]. Transactions are checked here and handed on; blobs are fetched when
//! they are asked for. `docs/adr/0017-gateways-follow-the-chain.md` has the reasons, and what a source can do at worst.
//!
//! - `source`: what is asked of another node
//! - `chain`: pages become the state; a snapshot to begin at
//! - `sources`: which source is asked, and what is known of each
//! - `transactions`: those that wait, until they are final
//! - `blobs`: what is fetched
//!

mod blobs;
mod chain;
mod source;
mod sources;
mod transactions;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tg_ledger::{Genesis, PROTOCOL_VERSION};
use tg_types::chain::{Checkpoint, CheckpointError, HeadTooOld, NetworkTrust, SnapshotHead};
use tg_types::{Heartbeat, Height, TimestampMs};
use tokio::sync::mpsc;

use crate::blob::{BlobStore, DISK_RESERVE_BYTES_DEFAULT};
use crate::chain::{self as ledger_chain, Executed};
use crate::clock::WallClock;
use crate::fetch::Need;
use crate::handle::{NodeHandle, NodeStatus};
use crate::limits::{BLOB_TOTAL_BYTES_DEFAULT, BLOBS_URGENT_MAX, HEARTBEATS_MAX, MAILBOX_MAX};
use crate::open;
use crate::store::{Location, OpenError, Store, Voting};
use crate::submit::Submission;
use crate::validator::lock_folder;
use chain::{AwaitedCheckpoint, FollowedChain, Learnt, begin_at, learn};
use sources::SourceList;
use transactions::WaitingTransactions;

pub use chain::PageError;
pub use source::{ChainSource, SourceError, SourceFuture};

/// How long a source may wait for a block before it answers that there is none.
const PAGE_WAIT: Duration = Duration::from_secs(2);

/// The database within a follower's folder.
const DATABASE: &str = "chain.redb";

/// The key under which a follower's database is bound: it has none.
const NO_KEY: [u8; 32] = [0; 32];

/// How a follower is started.
#[derive(Debug)]
pub struct FollowerConfig {
    /// The network.
    pub genesis: Genesis,
    /// Where its data live. Created if missing.
    pub directory: PathBuf,
    /// The consensus key for which it follows: the folder is that validator's, which starts there once it has a seat.
    pub validator: Option<[u8; 32]>,
    /// The nodes that it asks, the preferred one first; at least one.
    pub sources: Vec<Arc<dyn ChainSource>>,
    /// Whether an empty folder begins at a source's snapshot. Otherwise every block since genesis is executed.
    pub snapshot: bool,
    /// Room for blobs in bytes.
    pub blob_bytes_max: u64,
    /// Bytes of the disk that blobs leave free.
    pub disk_reserve_bytes: u64,
    /// A block that somebody vouches for: needed once if the newest block here, or genesis in an empty folder, is older than
    /// [`tg_types::chain::trusting_period`].
    pub checkpoint: Option<Checkpoint>,
    /// The wall clock, by which a chain is too old.
    pub wall: WallClock,
    /// The newest version of the protocol that it executes.
    pub speaks: u16,
}

impl FollowerConfig {
    /// The usual room for blobs, and a snapshot at the start.
    #[must_use]
    pub fn new(genesis: Genesis, directory: PathBuf, sources: Vec<Arc<dyn ChainSource>>) -> Self {
        Self {
            genesis,
            directory,
            validator: None,
            sources,
            snapshot: true,
            blob_bytes_max: BLOB_TOTAL_BYTES_DEFAULT,
            disk_reserve_bytes: DISK_RESERVE_BYTES_DEFAULT,
            checkpoint: None,
            wall: WallClock::system(),
            speaks: PROTOCOL_VERSION,
        }
    }
}

/// A follower whose data are open. It follows while [`Follower::run`] is polled.
#[derive(Debug)]
pub struct Follower {
    handle: NodeHandle,
    chain: FollowedChain,
    sources: Arc<SourceList>,
    waiting: WaitingTransactions,
    node_status: Arc<NodeStatus>,
    submissions: mpsc::Receiver<Submission>,
    beats: mpsc::Receiver<Heartbeat>,
    blobs: Arc<BlobStore>,
    asked: mpsc::Receiver<Need>,
    /// Held while the folder is in use.
    _lock: File,
}

/// The seats of a set cannot be read.
fn no_seats() -> OpenError {
    let key = "of the seats".to_owned();
    OpenError::ValidatorKey { key }
}

impl Follower {
    /// Opens the data of a follower; an empty one may take a snapshot from a source first, which takes as long as it takes to
    /// arrive. If no source has one that is shown to be true, it begins at genesis.
    ///
    /// # Errors
    /// [`OpenError`] if the folder is in use, belongs to another network or format, or cannot be opened.
    pub async fn open(config: FollowerConfig) -> Result<Self, OpenError> {
        let FollowerConfig {
            genesis,
            directory,
            validator,
            sources,
            snapshot,
            blob_bytes_max,
            disk_reserve_bytes,
            checkpoint,
            wall,
            speaks,
        } = config;
        let lock = lock_folder(&directory)?;
        let start = ledger_chain::genesis(&genesis)?;
        let trust = genesis.trust().map_err(|_| no_seats())?;
        let blobs = BlobStore::open(&directory.join("blobs"), blob_bytes_max)?;
        let blobs = Arc::new(blobs.with_disk_reserve(disk_reserve_bytes));
        let key = validator.unwrap_or(NO_KEY);
        let path = directory.join(DATABASE);
        let location = Location::File(&path);
        let store = Arc::new(Store::open(location, start.id.as_bytes(), &key)?);
        // Nobody knows what it signed before its folder was empty. Looked at anew while nothing is in it: power may fail between.
        if validator.is_some() && store.height()? == 0 && store.voting()? == Voting::default() {
            store.abstain_until(0)?;
        }
        let beginning = Beginning {
            trust,
            checkpoint,
            now: now(&wall),
        };
        let (mut tip, mut snapshot_height) = open::replay(&store, &start, speaks)?;
        let mut awaited = beginning.awaited(&store, &tip)?;
        if snapshot && tip.height() == 0 {
            take_snapshot(&store, &beginning.trust, awaited.as_ref(), &sources).await;
            (tip, snapshot_height) = open::replay(&store, &start, speaks)?;
            awaited = beginning.awaited(&store, &tip)?;
        }
        open::present_term(&store, &tip, start.id)?;
        let root = tip.state.trust_root().map_err(|_| no_seats())?;
        let program = (speaks, open::own_signatures());
        let node_status = Arc::new(NodeStatus::new(key, root.seats().len(), &tip, program));
        let (sender, submissions) = mpsc::channel(MAILBOX_MAX);
        let (urgent, asked) = mpsc::channel(BLOBS_URGENT_MAX);
        let (heartbeats, beats) = mpsc::channel(HEARTBEATS_MAX);
        let (status, kept) = (node_status.clone(), store.clone());
        let handle = NodeHandle::new(status, kept, blobs.clone(), sender, urgent, heartbeats);
        // So many that one of them is honest.
        let enough = (root.seats().len().max(1) - 1) / 3 + 1;
        Ok(Self {
            handle,
            sources: Arc::new(SourceList::new(sources, node_status.clone())),
            waiting: WaitingTransactions::new(&tip, node_status.clone(), enough),
            chain: FollowedChain {
                root,
                store,
                tip,
                snapshot_height,
                awaited,
                node_status: node_status.clone(),
            },
            node_status,
            submissions,
            beats,
            blobs,
            asked,
            _lock: lock,
        })
    }

    /// What the rest of the process sees of it.
    #[must_use]
    pub const fn handle(&self) -> &NodeHandle {
        &self.handle
    }

    /// Follows until it is dropped, or must stop; its status says why.
    pub async fn run(self) {
        let Self {
            handle: _,
            chain,
            sources,
            waiting,
            node_status,
            submissions,
            beats,
            blobs,
            asked,
            _lock,
        } = self;
        let waiting = Arc::new(waiting);
        let reason = tokio::select! {
            reason = follow(chain, &node_status, &sources, &waiting) => reason,
            () = sources.watch() => "the watch over sources ended".to_owned(),
            () = transactions::hand_on(&sources, &waiting, submissions) => "nobody submits any more".to_owned(),
            () = transactions::tell_heartbeats(&sources, waiting.enough(), beats) => "nobody beats any more".to_owned(),
            () = blobs::fetch(&sources, blobs, asked) => "nobody asks for blobs any more".to_owned(),
        };
        node_status.stop(&reason);
    }
}

/// What a follower may begin from.
struct Beginning {
    trust: NetworkTrust,
    checkpoint: Option<Checkpoint>,
    now: TimestampMs,
}

impl Beginning {
    /// The checkpoint that is above a node's newest block, if one is named; else that block must be young enough.
    fn awaited(
        &self,
        store: &Store,
        tip: &Executed,
    ) -> Result<Option<AwaitedCheckpoint>, OpenError> {
        let (now, period) = (self.now, self.trust.period());
        if let Some(block) = self.checkpoint {
            if block.height.get() > tip.height() {
                return Ok(Some(AwaitedCheckpoint { block, now, period }));
            }
            let known = store.block(block.height.get())?;
            let known = known.and_then(|bytes| ledger_chain::Body::decode(&bytes));
            // Stops: a chain that seats signed whose bonds are returned, followed before the checkpoint was named.
            if let Some(body) = known.filter(|body| body.id != block.block) {
                return Err(OpenError::Checkpoint(CheckpointError::Block {
                    height: block.height,
                    expected: block.block,
                    got: body.id,
                }));
            }
        }
        let timestamp = tip.state.head().timestamp;
        HeadTooOld::check((Height::new(tip.height()), timestamp), now, period)?;
        Ok(None)
    }
}

/// The wall clock in the ledger's unit.
fn now(wall: &WallClock) -> TimestampMs {
    let since = wall.read(SystemTime::now()).duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    TimestampMs::new(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Takes the first snapshot that holds.
async fn take_snapshot(
    store: &Store,
    trust: &NetworkTrust,
    awaited: Option<&AwaitedCheckpoint>,
    sources: &[Arc<dyn ChainSource>],
) {
    for source in sources {
        let name = source.name();
        match source.snapshot().await {
            Ok(Some((head, state))) => {
                let begun = match learn_from(source.as_ref(), trust, awaited, &head).await {
                    Ok(learnt) => begin_at(store, &learnt, &head, &state),
                    Err(error) => Err(error),
                };
                match begun {
                    Ok(height) => {
                        tracing::info!(height, from = name, "began at a snapshot");
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(from = name, error = %tg_types::with_sources(&error), "snapshot is refused");
                    }
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(from = name, %error, "no snapshot"),
        }
    }
    tracing::info!("no snapshot is used: every block since genesis is executed");
}

/// Asks a source how the validators of genesis became those that vouch for a snapshot. A checkpoint below the snapshot must be on
/// the way.
async fn learn_from(
    source: &dyn ChainSource,
    trust: &NetworkTrust,
    awaited: Option<&AwaitedCheckpoint>,
    head: &SnapshotHead,
) -> Result<Learnt, PageError> {
    let body = ledger_chain::Body::decode(&head.block.0);
    let height = body.ok_or(PageError::Malformed { place: 0 })?.height();
    let mut learnt: Learnt = (trust.root.clone(), Vec::new());
    if let Some(awaited) = awaited.filter(|it| it.block.height.get() < height) {
        let at = awaited.block.height.get();
        learn_until(source, &mut learnt, at + 1).await?;
        let told = source
            .checkpoint(at)
            .await?
            .ok_or(PageError::Gap { place: 0 })?;
        // Stops: seats whose bonds are returned, which signed another way to other seats.
        if awaited.root(trust, &told)? != learnt.0 {
            return Err(CheckpointError::Seats.into());
        }
    }
    learn_until(source, &mut learnt, height).await?;
    Ok(learnt)
}

/// Follows changes of the set of validators as long as they are before `height`.
async fn learn_until(
    source: &dyn ChainSource,
    learnt: &mut Learnt,
    height: u64,
) -> Result<(), PageError> {
    loop {
        let above = learnt.1.last().map_or(0, |(at, _)| *at);
        let changes = source.seat_changes(above).await?;
        if !learn(learnt, &changes, height)? {
            return Ok(());
        }
    }
}

/// Takes page after page. Ends with the reason when this node must stop.
async fn follow(
    mut chain: FollowedChain,
    node_status: &NodeStatus,
    sources: &SourceList,
    waiting: &WaitingTransactions,
) -> String {
    loop {
        let source = sources.preferred(chain.tip.height()).await;
        let from = chain.tip.height() + 1;
        let patience = sources.patience(from, PAGE_WAIT);
        let page = match tokio::time::timeout(patience, source.page(from, PAGE_WAIT)).await {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => {
                sources.failed(&source, &error.to_string());
                continue;
            }
            Err(_) => {
                sources.failed(&source, "it does not answer");
                continue;
            }
        };
        sources.heard(&source, page.tip);
        if page.blocks.is_empty() {
            if page.tip >= from {
                sources.failed(&source, "it says that it has blocks, and gives none");
            }
            continue;
        }
        // Executing takes the processor: beside the loops that answer.
        let taken = tokio::task::spawn_blocking(move || {
            let taken = chain.take(&page);
            (chain, taken)
        });
        let (next, taken) = match taken.await {
            Ok(both) => both,
            Err(error) => return tg_types::with_sources(&error),
        };
        chain = next;
        match taken {
            Ok(executed) => {
                // First: what left the pool with a block is final, and not only gone.
                waiting.prune(&chain.tip);
                let seats = chain.root.seats().len();
                node_status.update(|status| status.validators = seats);
                for block in &executed {
                    node_status.publish(block);
                }
                if let Err(unknown) = node_status.executes_after(&chain.tip.state) {
                    return tg_types::with_sources(&unknown);
                }
            }
            Err(PageError::Fatal(error)) => return tg_types::with_sources(&error),
            // What is below it may be forged: somebody must look.
            Err(error @ PageError::Checkpoint(_)) => return tg_types::with_sources(&error),
            Err(error) => {
                tracing::warn!(from = source.name(), error = %tg_types::with_sources(&error), "blocks are refused");
                sources.lied(&source, &error.to_string());
            }
        }
    }
}
