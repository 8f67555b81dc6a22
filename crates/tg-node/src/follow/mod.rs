//! A node without a vote, which follows the chain that others make: what a gateway is.
//!
//! It asks nodes ([`ChainSource`]) for final blocks, checks what shows that they are final, executes them, and keeps them as a
//! validator does, behind the same [`NodeHandle`]. Transactions are checked here and handed on; blobs are fetched when
//! they are asked for. `docs/adr/0017-gateways-follow-the-chain.md` has the reasons, and what a source can do at worst.
//!
//! - `source`: what is asked of another node
//! - `beginning`: from where it follows
//! - `chain`: pages become the state; a snapshot to begin at
//! - `sources`: which source is asked, and what is known of each
//! - `transactions`: those that wait, until they are final
//! - `blobs`: what is fetched
//!

mod beginning;
mod blobs;
mod chain;
mod source;
mod sources;
mod transactions;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tg_ledger::{Genesis, PROTOCOL_VERSION};
use tg_types::chain::{ChainPage, Checkpoint};
use tg_types::{Heartbeat, TimestampMs};
use tokio::sync::mpsc;

use crate::blob::{BlobStore, DISK_RESERVE_BYTES_DEFAULT};
use crate::clock::WallClock;
use crate::fetch::Need;
use crate::handle::{NodeHandle, NodeStatus};
use crate::limits::{BLOB_TOTAL_BYTES_DEFAULT, BLOBS_URGENT_MAX, HEARTBEATS_MAX, MAILBOX_MAX};
use crate::store::{Location, OpenError};
use crate::submit::Submission;
use crate::validator::lock_folder;
use sources::{GivenPage, SourceList};
use transactions::WaitingTransactions;

pub use beginning::Beginning;
pub use chain::{FollowedChain, PageError};
pub use source::{ChainSource, SourceError, SourceFuture};

/// How long a source may wait for a block before it answers that there is none.
const PAGE_WAIT: Duration = Duration::from_secs(2);

/// The database within a follower's folder.
const DATABASE: &str = "chain.redb";

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
        let path = directory.join(DATABASE);
        let beginning = Beginning {
            genesis: &genesis,
            validator,
            location: Location::File(&path),
            snapshot,
            checkpoint,
            now: now(&wall),
            speaks,
        };
        let blobs = BlobStore::open(&directory.join("blobs"), blob_bytes_max)?;
        let blobs = Arc::new(blobs.with_disk_reserve(disk_reserve_bytes));
        let chain = FollowedChain::open(beginning, &sources).await?;
        let (store, node_status) = (chain.store.clone(), chain.node_status.clone());
        let (sender, submissions) = mpsc::channel(MAILBOX_MAX);
        let (urgent, asked) = mpsc::channel(BLOBS_URGENT_MAX);
        let (heartbeats, beats) = mpsc::channel(HEARTBEATS_MAX);
        let status = node_status.clone();
        let handle = NodeHandle::new(status, store, blobs.clone(), sender, urgent, heartbeats);
        // So many that one of them is honest.
        let enough = (chain.root.seats().len().max(1) - 1) / 3 + 1;
        Ok(Self {
            handle,
            sources: Arc::new(SourceList::new(sources, node_status.clone())),
            waiting: WaitingTransactions::new(&chain.tip, node_status.clone(), enough),
            chain,
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

/// The wall clock in the ledger's unit.
fn now(wall: &WallClock) -> TimestampMs {
    let since = wall.read(SystemTime::now()).duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    TimestampMs::new(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Takes page after page. Ends with the reason when this node must stop.
async fn follow(
    mut chain: FollowedChain,
    node_status: &NodeStatus,
    sources: &SourceList,
    waiting: &WaitingTransactions,
) -> String {
    loop {
        let source = sources.preferred().await;
        let Some((page, given)) = ask(sources, &source, chain.tip.height() + 1).await else {
            continue;
        };
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
            // Nothing that is not here.
            Ok(executed) if executed.is_empty() => {
                sources.failed(&source, "it gives blocks that it was not asked for");
            }
            Ok(executed) => {
                sources.gave(&source, chain.tip.height(), &given);
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

/// Asks a source for blocks from a height on, and takes note if it gives none.
async fn ask(
    sources: &SourceList,
    source: &Arc<dyn ChainSource>,
    from: u64,
) -> Option<(ChainPage, GivenPage)> {
    let claimed = sources.claimed(source);
    let asked = Instant::now();
    let patience = sources.patience(source, from, PAGE_WAIT);
    let answer = tokio::time::timeout(patience, source.page(from, PAGE_WAIT)).await;
    let page = match answer {
        Ok(Ok(page)) => page,
        Ok(Err(error)) => {
            sources.failed(source, &error.to_string());
            return None;
        }
        Err(_) => {
            sources.failed(source, "it does not answer");
            return None;
        }
    };
    if page.blocks.is_empty() {
        if page.tip.max(claimed) >= from {
            sources.failed(source, "it says that it has blocks, and gives none");
        } else {
            sources.heard(source, page.tip);
        }
        return None;
    }
    let given = GivenPage::of(&page, (from, claimed), asked.elapsed());
    Some((page, given))
}
