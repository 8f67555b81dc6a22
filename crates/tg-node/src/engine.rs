//! One validator on any commonware runtime and network: simplex wired to the application.
//!
//! [`crate::validator`] runs it on tokio and TCP; simulations run it on the deterministic runtime.

use std::sync::Arc;
use std::time::Duration;

use commonware_consensus::simplex::{
    self, Engine, Floor, ForwardPolicy, SkipBudget, SkipPolicy, elector::RoundRobin,
};
use commonware_consensus::types::{Epoch, ViewDelta};
use commonware_cryptography::{Sha256, sha256};
use commonware_p2p::{Blocker, Receiver, Sender};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock, Handle, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_utils::channel::mpsc;
use commonware_utils::ordered::Set;
use commonware_utils::{NZDuration, NZU16, NZUsize};
use rand_core::CryptoRng;
use tg_types::BlockId;

use crate::application::{Application, Mailbox, Ports, Scheme};
use crate::blob::BlobStore;
use crate::chain::Executed;
use crate::core::{Addresses, Core, Fatal, Pace, Peer, Start, payload};
use crate::evidence::EvidenceChecker;
use crate::handle::{Board, Submission};
use crate::key::ValidatorKey;
use crate::limits::{BLOCK_INTERVAL_BUSY, BLOCK_INTERVAL_IDLE};
use crate::store::Store;

/// How long consensus waits for what. All validators of a network should use the same.
#[derive(Debug, Clone, Copy)]
pub struct Timers {
    /// For a leader's proposal.
    pub leader: Duration,
    /// For a view's certificate; longer than `leader`.
    pub certification: Duration,
    /// Between repeated votes to leave a view.
    pub retry: Duration,
    /// Silence after which a leader is skipped at once; longer than the others.
    pub skip: Duration,
    /// Between a block and its parent while there is work.
    pub busy: Duration,
    /// Between a block and its parent while there is none; shorter than `leader`.
    pub idle: Duration,
}

/// How long consensus waits for connected peers before it starts without them.
const START_WAIT_MAX: Duration = Duration::from_secs(3);

/// How often it looks.
const START_POLL: Duration = Duration::from_millis(20);

impl Default for Timers {
    fn default() -> Self {
        Self {
            leader: Duration::from_millis(1_500),
            certification: Duration::from_millis(3_000),
            retry: Duration::from_millis(3_000),
            skip: Duration::from_millis(5_000),
            busy: BLOCK_INTERVAL_BUSY,
            idle: BLOCK_INTERVAL_IDLE,
        }
    }
}

/// An opened validator that was not started: all of it that does not depend on the runtime.
#[derive(Debug)]
pub struct Parts {
    pub(crate) key: ValidatorKey,
    pub(crate) participants: Set<Peer>,
    pub(crate) addresses: Addresses,
    pub(crate) genesis: BlockId,
    pub(crate) namespace: Vec<u8>,
    pub(crate) tip: Executed,
    pub(crate) snapshot_height: u64,
    pub(crate) store: Arc<Store>,
    pub(crate) board: Arc<Board>,
    pub(crate) blobs: Arc<BlobStore>,
    pub(crate) checker: Arc<dyn EvidenceChecker>,
    pub(crate) submissions: mpsc::Receiver<Submission>,
    pub(crate) timers: Timers,
    /// Names the journal of votes within the runtime's storage.
    pub(crate) partition: String,
}

/// A sender and a receiver for each channel of [`crate::wire::channel`].
#[derive(Debug)]
pub struct Channels<S, R> {
    /// [`VOTES`](crate::wire::channel::VOTES).
    pub votes: (S, R),
    /// [`CERTIFICATES`](crate::wire::channel::CERTIFICATES).
    pub certificates: (S, R),
    /// [`RESOLVER`](crate::wire::channel::RESOLVER).
    pub resolver: (S, R),
    /// [`BLOCKS`](crate::wire::channel::BLOCKS).
    pub blocks: (S, R),
    /// [`TRANSACTIONS`](crate::wire::channel::TRANSACTIONS).
    pub transactions: (S, R),
}

impl Parts {
    /// The validator's name on the network.
    #[must_use]
    pub fn peer(&self) -> Peer {
        crate::key::peer(&self.key)
    }

    /// The same validator with a journal of its own, so that simulations can run a key twice in one storage.
    #[must_use]
    pub fn in_partition(mut self, suffix: &str) -> Self {
        self.partition = format!("{}-{suffix}", self.partition);
        self
    }

    /// The scheme with which this validator signs votes.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        signer(&self.namespace, &self.participants, &self.key)
    }
}

fn signer(namespace: &[u8], participants: &Set<Peer>, key: &ValidatorKey) -> Scheme {
    Scheme::signer(namespace, participants.clone(), key.private().clone())
        .expect("the key was found among the validators when the node was opened")
}

/// Starts consensus and the application. The returned task ends when the validator must stop, and consensus with it.
pub fn start<E, S, R, B>(
    context: E,
    parts: Parts,
    channels: Channels<S, R>,
    blocker: B,
) -> Handle<Result<(), Fatal>>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    S: Sender<PublicKey = Peer>,
    R: Receiver<PublicKey = Peer>,
    B: Blocker<PublicKey = Peer>,
{
    let Parts {
        key,
        participants,
        addresses,
        genesis,
        namespace,
        tip,
        snapshot_height,
        store,
        board,
        blobs,
        checker,
        submissions,
        timers,
        partition,
    } = parts;
    let scheme = signer(&namespace, &participants, &key);
    let (mailbox, messages) = Mailbox::new(board.clone());
    let me = crate::key::peer(&key);
    let application = Application {
        context: context.child("application"),
        core: Core::new(Start {
            me,
            participants: participants.iter().cloned().collect(),
            addresses,
            store,
            board: board.clone(),
            tip,
            snapshot_height,
            pace: Pace {
                busy: timers.busy,
                idle: timers.idle,
            },
        }),
        board,
        blobs,
        checker,
        scheme: scheme.clone(),
        participants,
    };
    let ports = Ports {
        messages,
        submissions,
        blocks: channels.blocks,
        transactions: channels.transactions,
        blocker: blocker.clone(),
    };
    let config = simplex(scheme, mailbox, blocker, &genesis, timers, partition);
    let quorum = quorum_of_others(application.participants.len());
    context.dedicated().spawn(move |context| async move {
        let board = application.board.clone();
        // Dropped with this task when the application ends: consensus does not outlive it.
        let _consensus = context.child("consensus").spawn(move |context| async move {
            await_peers(&context, &board, quorum).await;
            let engine = Engine::new(context.child("engine"), config);
            let ended = engine
                .start(channels.votes, channels.certificates, channels.resolver)
                .await;
            tracing::error!(?ended, "consensus ended");
        });
        application.run(ports).await
    })
}

/// Votes of the first view would be lost if nobody is connected yet, and the view with them.
async fn await_peers<E: Clock>(context: &E, board: &Board, quorum: usize) {
    let deadline = context.current() + START_WAIT_MAX;
    while board.peers() < quorum && context.current() < deadline {
        context.sleep(START_POLL).await;
    }
}

/// How many others make a quorum together with one validator.
const fn quorum_of_others(validators: usize) -> usize {
    validators - (validators - 1) / 3 - 1
}

fn simplex<B: Blocker<PublicKey = Peer>>(
    scheme: Scheme,
    mailbox: Mailbox,
    blocker: B,
    genesis: &BlockId,
    timers: Timers,
    partition: String,
) -> simplex::Config<
    Scheme,
    RoundRobin<Sha256>,
    B,
    sha256::Digest,
    Mailbox,
    Mailbox,
    Mailbox,
    Sequential,
> {
    simplex::Config {
        scheme,
        elector: RoundRobin::<Sha256>::default(),
        blocker,
        automaton: mailbox.clone(),
        relay: mailbox.clone(),
        reporter: mailbox,
        track_historical_votes: true,
        strategy: Sequential,
        partition,
        mailbox_size: NZUsize!(1024),
        epoch: Epoch::zero(),
        floor: Floor::Genesis(payload(genesis)),
        replay_buffer: NZUsize!(1024 * 1024),
        write_buffer: NZUsize!(64 * 1024),
        page_cache: CacheRef::new(NZU16!(16_384), NZUsize!(32)),
        leader_timeout: timers.leader,
        certification_timeout: timers.certification,
        timeout_retry: timers.retry,
        view_retention: ViewDelta::new(32),
        skip: SkipPolicy::Enabled {
            timeout: timers.skip,
            budget: SkipBudget::Participants,
        },
        fetch_timeout: NZDuration!(Duration::from_secs(1)),
        fetch_retry_delay: Duration::from_millis(100),
        forward: ForwardPolicy::SilentVoters,
    }
}
