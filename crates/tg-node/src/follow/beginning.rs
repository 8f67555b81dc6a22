//! From where a node without a vote follows the chain: from what its disk has, a snapshot that a source gives, or genesis.

use std::sync::Arc;

use tg_ledger::Genesis;
use tg_types::chain::{Checkpoint, CheckpointError, HeadTooOld, NetworkTrust, SnapshotHead};
use tg_types::{Height, TimestampMs};

use super::chain::{AwaitedCheckpoint, FollowedChain, Learnt, PageError, begin_at, learn};
use super::source::ChainSource;
use crate::chain::{self as ledger_chain, Executed};
use crate::handle::NodeStatus;
use crate::open;
use crate::store::{Location, OpenError, Store, Voting};

/// The key under which a follower's database is bound: it has none.
const NO_KEY: [u8; 32] = [0; 32];

/// What a node without a vote begins with. The loops of [`super::Follower`] and a simulation, which has loops of its own, begin alike.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// The network.
    pub genesis: &'a Genesis,
    /// The consensus key for which it follows, if it is to have a seat.
    pub validator: Option<[u8; 32]>,
    /// Where its database lives.
    pub location: Location<'a>,
    /// Whether an empty database begins at a source's snapshot.
    pub snapshot: bool,
    /// A block that somebody vouches for.
    pub checkpoint: Option<Checkpoint>,
    /// The time by its own clock.
    pub now: TimestampMs,
    /// The newest version of the protocol that it executes.
    pub speaks: u16,
}

/// The seats of a set cannot be read.
fn no_seats() -> OpenError {
    let key = "of the seats".to_owned();
    OpenError::ValidatorKey { key }
}

impl FollowedChain {
    /// Opens what a node without a vote has of the chain; an empty database may take a snapshot from one of the sources first, which
    /// takes as long as it takes to arrive. If no source has one that is shown to be true, it begins at genesis.
    ///
    /// # Errors
    /// [`OpenError`] if the database is in use, belongs to another network or format, or cannot be opened, or if what it begins from is
    /// too old.
    pub async fn open(
        beginning: Beginning<'_>,
        sources: &[Arc<dyn ChainSource>],
    ) -> Result<Self, OpenError> {
        let Beginning {
            genesis,
            validator,
            location,
            snapshot,
            checkpoint,
            now,
            speaks,
        } = beginning;
        let start = ledger_chain::genesis(genesis)?;
        let trust = genesis.trust().map_err(|_| no_seats())?;
        let key = validator.unwrap_or(NO_KEY);
        let store = Arc::new(Store::open(location, start.id.as_bytes(), &key)?);
        // Nobody knows what it signed before its folder was empty. Looked at anew while nothing is in it: power may fail between.
        if validator.is_some() && store.height()? == 0 && store.voting()? == Voting::default() {
            store.abstain_until(0)?;
        }
        let trusted = Trusted {
            trust,
            checkpoint,
            now,
        };
        let (mut tip, mut last_snapshot) = open::replay(&store, &start, speaks)?;
        let mut awaited = trusted.awaited(&store, &tip)?;
        if snapshot && tip.height() == 0 {
            take_snapshot(&store, &trusted.trust, awaited.as_ref(), sources).await;
            (tip, last_snapshot) = open::replay(&store, &start, speaks)?;
            awaited = trusted.awaited(&store, &tip)?;
        }
        open::present_term(&store, &tip, start.id)?;
        let root = tip.state.trust_root().map_err(|_| no_seats())?;
        let program = (speaks, open::own_signatures());
        let node_status = Arc::new(NodeStatus::new(key, root.seats().len(), &tip, program));
        Ok(Self {
            root,
            store,
            tip,
            snapshot: last_snapshot,
            awaited,
            node_status,
        })
    }
}

/// What a follower trusts before it has heard anything.
struct Trusted {
    trust: NetworkTrust,
    checkpoint: Option<Checkpoint>,
    now: TimestampMs,
}

impl Trusted {
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
