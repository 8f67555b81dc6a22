//! One validator on any commonware runtime and network: simplex wired to the application.
//!
//! [`crate::validator`] runs it on tokio and TCP; simulations run it on the deterministic runtime.

use std::sync::{Arc, Mutex};

use commonware_p2p::{Blocker, Receiver, Sender};
use commonware_runtime::{Clock as RuntimeClock, Handle, Metrics, Spawner, Storage};
use commonware_utils::channel::mpsc;
use rand_core::CryptoRng;
use tg_types::{BlockId, Heartbeat};

use crate::application::{Application, Mailbox, Ports};
use crate::blob::BlobStore;
use crate::chain::{Executed, LastSnapshot};
use crate::clock::{Clock, WallClock};
use crate::core::{Core, Fatal, Pace, Start};
use crate::evidence::EvidenceChecker;
use crate::fetch::{Fetching, Need};
use crate::forge::BlockForger;
use crate::handle::NodeStatus;
use crate::key::ValidatorKey;
use crate::leaders::{Leaders, leaders};
use crate::limits::Timers;
use crate::peers::{Peer, Scheme};
use crate::seed::SeedMachine;
use crate::signer::VoteSigner;
use crate::store::{History, Store};
use crate::submit::Submission;
use crate::term::{SeatTerm, SeatedPeer};
use crate::voting::{Consensus, Lines};

/// Terms that may begin before consensus enters them.
const TERMS_WAITING: usize = 16;

/// An opened validator that was not started: all of it that does not depend on the runtime.
#[derive(Debug)]
pub struct Parts {
    pub(crate) key: ValidatorKey,
    /// Who votes after `tip`.
    pub(crate) term: SeatTerm,
    pub(crate) genesis: BlockId,
    pub(crate) signer: VoteSigner,
    /// Tells whoever dials the others that another set votes.
    pub(crate) seated: mpsc::Sender<Vec<SeatedPeer>>,
    pub(crate) tip: Executed,
    pub(crate) snapshot: LastSnapshot,
    pub(crate) store: Arc<Store>,
    pub(crate) node_status: Arc<NodeStatus>,
    pub(crate) blobs: Arc<BlobStore>,
    pub(crate) checker: Arc<dyn EvidenceChecker>,
    pub(crate) submissions: mpsc::Receiver<Submission>,
    pub(crate) beats: mpsc::Receiver<Heartbeat>,
    pub(crate) urgent: mpsc::Sender<Need>,
    pub(crate) asked: mpsc::Receiver<Need>,
    pub(crate) timers: Timers,
    /// Names the journal of votes within the runtime's storage.
    pub(crate) partition: String,
    pub(crate) history: History,
    pub(crate) wall: WallClock,
    /// What simulations have it propose in the place of its blocks.
    pub(crate) forger: Option<Arc<dyn BlockForger>>,
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
    /// [`BLOBS`](crate::wire::channel::BLOBS).
    pub blobs: (S, R),
    /// [`SEED`](crate::wire::channel::SEED).
    pub seeds: (S, R),
}

impl Parts {
    /// The validator's name on the network.
    #[must_use]
    pub fn peer(&self) -> Peer {
        crate::key::peer(&self.key)
    }

    /// The name of its journal of votes within the runtime's storage, so that simulations can lose it.
    #[must_use]
    pub fn votes_partition(&self) -> &str {
        &self.partition
    }

    /// The same validator with a journal of its own, so that simulations can run a key twice in one storage.
    #[must_use]
    pub fn in_partition(mut self, suffix: &str) -> Self {
        self.partition = format!("{}-{suffix}", self.partition);
        self
    }

    /// The same validator, which proposes in its turn what is made of its blocks, so that simulations can run one whose blocks do not hold.
    #[must_use]
    pub fn forging(mut self, forger: Arc<dyn BlockForger>) -> Self {
        self.forger = Some(forger);
        self
    }

    /// The scheme with which this validator signs votes.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.signer.of(&self.term.participants())
    }

    /// Who leads in the present epoch, so that simulations can run a validator that lies in its turn.
    #[must_use]
    pub fn leaders(&self) -> Leaders {
        leaders(&self.term.ordered_by)
    }

    /// Tells, from now on, the seats of each set of validators that follows. Who runs the network dials them.
    pub fn watch_seats(&mut self) -> mpsc::Receiver<Vec<SeatedPeer>> {
        let (seated, changes) = mpsc::channel(TERMS_WAITING);
        self.seated = seated;
        changes
    }
}

/// Starts consensus and the application. The returned task ends when the validator must stop, and consensus with it.
#[expect(
    clippy::too_many_lines,
    reason = "it hands the parts of a validator to its loops, one after the other"
)]
pub fn start<E, S, R, B>(
    mut context: E,
    parts: Parts,
    channels: Channels<S, R>,
    blocker: B,
) -> Handle<Result<(), Fatal>>
where
    E: RuntimeClock + CryptoRng + Spawner + Storage + Metrics,
    S: Sender<PublicKey = Peer>,
    R: Receiver<PublicKey = Peer>,
    B: Blocker<PublicKey = Peer>,
{
    let Parts {
        key,
        term,
        genesis,
        signer,
        seated,
        tip,
        snapshot,
        store,
        node_status,
        blobs,
        checker,
        submissions,
        beats,
        urgent,
        asked,
        timers,
        partition,
        history,
        wall,
        forger,
    } = parts;
    let (addresses, participants) = (term.addresses(), term.participants());
    let ordered_by = term.ordered_by;
    let seeds = seed_machine(&mut context, &key, (&store, &genesis));
    let (terms, next_terms) = mpsc::channel(TERMS_WAITING);
    let (mailbox, messages) = Mailbox::new(node_status.clone());
    let me = crate::key::peer(&key);
    let address = addresses.get(&key.public()).copied();
    let fetching = Fetching {
        store: blobs.clone(),
        address: address.expect("the key was found among the validators when the node was opened"),
        me: me.clone(),
        node_status: node_status.clone(),
        urgent: asked,
    };
    let application = Application {
        context: context.child("application"),
        core: Core::new(Start {
            me,
            term,
            store: store.clone(),
            node_status: node_status.clone(),
            tip,
            snapshot,
            pace: Pace {
                busy: timers.busy,
                idle: timers.idle,
            },
            seeds,
            forger,
        }),
        node_status: node_status.clone(),
        clock: Clock::new(wall.read(context.current()), context.current()),
        wall,
        jumped: None,
        blobs,
        urgent,
        checker,
        scheme: signer.of(&participants),
        participants: participants.clone(),
        signer: signer.clone(),
        terms,
        seated,
    };
    let ports = Ports {
        messages,
        submissions,
        beats,
        blocks: channels.blocks,
        transactions: channels.transactions,
        seeds: channels.seeds,
        blocker: blocker.clone(),
    };
    let consensus = Consensus {
        store,
        node_status: node_status.clone(),
        signer,
        participants,
        ordered_by,
        terms: next_terms,
        mailbox,
        blocker: Mutex::new(blocker.clone()),
        genesis,
        timers,
        partition,
        history,
    };
    let lines = Lines {
        votes: channels.votes,
        certificates: channels.certificates,
        resolver: channels.resolver,
    };
    context.dedicated().spawn(move |context| async move {
        // Dropped with this task when the application ends: consensus does not outlive it.
        let _consensus = context.child("consensus").spawn(move |context| async move {
            if let Err(error) = consensus.run(context, lines).await {
                tracing::error!(%error, "consensus ended");
                node_status.stop(&tg_types::with_sources(&error));
            }
        });
        // In a thread of its own, since it waits for the disk; it ends with this task too.
        let blobs = context.child("blobs").dedicated();
        let _fetching = blobs.spawn(move |context| fetching.run(context, channels.blobs, blocker));
        application.run(ports).await
    })
}

/// The machine of seeds, which goes on from what was kept. What cannot be read is taken for lost: the validator deals in the next
/// round again.
fn seed_machine(
    random: &mut impl CryptoRng,
    key: &ValidatorKey,
    (store, genesis): (&Store, &BlockId),
) -> SeedMachine {
    let mut entropy = [0; 32];
    random.fill_bytes(&mut entropy);
    let kept = store.seed().unwrap_or_else(|error| {
        tracing::error!(%error, "read what is kept of the seed's key");
        None
    });
    SeedMachine::new(*genesis.as_bytes(), key, entropy, kept.as_deref())
}
