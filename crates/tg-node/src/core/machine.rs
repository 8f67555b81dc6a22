//! The application of one validator as a machine without I/O of its own: inputs come with the time, effects go to an
//! outbox, only the database is written directly. The same machine runs on tokio and in simulations.
//!
//! - `tree`: blocks that are not final, and their execution
//! - `ballot`: proposals and votes
//! - `finality`: final blocks become the state
//! - `exchange`: blocks and transactions to and from peers, and what `submit` answers
//! - `tests`: the machine alone, step by step

mod ballot;
mod exchange;
mod finality;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use commonware_consensus::simplex::types::Context;
use commonware_cryptography::{ed25519, sha256};
use commonware_p2p::Recipients;
use commonware_utils::channel::oneshot;
use tg_types::{Address, BlockId, TimestampMs};

use crate::chain::Executed;
use crate::evidence::Desk;
use crate::handle::Board;
use crate::limits::{HURRY_AT_START, REGOSSIP_INTERVAL, TIP_INTERVAL, TIP_INTERVAL_AT_START};
use crate::mempool::Mempool;
use crate::store::{Store, StoreError};
use tg_ledger::EvidenceTask;

use exchange::Fetches;
use finality::Target;
use tree::Tree;

/// A validator as the network library names it.
pub type Peer = ed25519::PublicKey;

/// The address that names each validator in blocks, by its ed25519 key.
pub(crate) type Addresses = BTreeMap<[u8; 32], Address>;

/// What consensus tells about a proposal: round, leader, parent.
pub(crate) type Proposal = Context<sha256::Digest, Peer>;

/// A failure after which the validator must stop rather than go on.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// The database failed; votes could no longer be kept.
    #[error("write the validator's database")]
    Store(#[from] StoreError),
    /// The ledger could not make a block from a valid state.
    #[error("build a block")]
    Ledger(#[from] Box<tg_ledger::BlockError>),
    /// Two blocks of one height are final, or a final block is invalid: the fault bound of the network is broken.
    #[error("block {id} is final and {reason}: more than a third of the validators is faulty")]
    FaultBound {
        /// The block.
        id: BlockId,
        /// What contradicts it.
        reason: &'static str,
    },
}

/// What the machine wants done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Send a message on the channel of blocks.
    Block(Recipients<Peer>, Vec<u8>),
    /// Send a message on the channel of transactions.
    Transactions(Recipients<Peer>, Vec<u8>),
    /// Check evidence off the loop and tell the result with [`Core::checked`].
    Check(EvidenceTask),
    /// Refuse a peer that sent what no honest validator sends.
    Ban(Peer, &'static str),
}

struct PendingProposal {
    context: Proposal,
    asked_at: TimestampMs,
    reply: oneshot::Sender<sha256::Digest>,
}

struct PendingVote {
    context: Proposal,
    id: BlockId,
    asked_at: TimestampMs,
    reply: oneshot::Sender<bool>,
}

/// How long a proposer waits after the parent's time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// While there is work.
    pub(crate) busy: Duration,
    /// While there is none.
    pub(crate) idle: Duration,
}

/// The machine.
pub(crate) struct Core {
    /// Who this validator is in blocks.
    address: Address,
    addresses: Addresses,
    peers: Vec<Peer>,
    store: Arc<Store>,
    board: Arc<Board>,
    /// The last final block.
    tip: Executed,
    snapshot_height: u64,
    pace: Pace,
    tree: Tree,
    mempool: Mempool,
    desk: Desk,
    proposals: Vec<PendingProposal>,
    votes: Vec<PendingVote>,
    targets: VecDeque<Target>,
    fetches: Fetches,
    outbox: Vec<Effect>,
    next_tip: TimestampMs,
    next_gossip: TimestampMs,
    /// Until when peers are told often that this validator is there; set at the first turn.
    hurry_until: TimestampMs,
    /// Whether the time is trusted: else nothing is proposed and no block voted for.
    clock_is_trusted: bool,
    /// When the machine wants to be called again, set while it makes progress.
    wake: TimestampMs,
}

/// What a machine starts from.
pub(crate) struct Start {
    pub(crate) me: Peer,
    pub(crate) participants: Vec<Peer>,
    pub(crate) addresses: Addresses,
    pub(crate) store: Arc<Store>,
    pub(crate) board: Arc<Board>,
    pub(crate) tip: Executed,
    pub(crate) snapshot_height: u64,
    pub(crate) pace: Pace,
}

impl Core {
    pub(crate) fn new(start: Start) -> Self {
        let Start {
            me,
            participants,
            addresses,
            store,
            board,
            tip,
            snapshot_height,
            pace,
        } = start;
        let address = addresses
            .get(&crate::key::public_bytes(&me))
            .copied()
            .expect("the key was found among the validators when the node was opened");
        Self {
            address,
            addresses,
            peers: participants
                .into_iter()
                .filter(|peer| *peer != me)
                .collect(),
            store,
            board,
            mempool: Mempool::new(tip.state.base_fee()),
            tip,
            snapshot_height,
            pace,
            tree: Tree::default(),
            desk: Desk::default(),
            proposals: Vec::new(),
            votes: Vec::new(),
            targets: VecDeque::new(),
            fetches: Fetches::default(),
            outbox: Vec::new(),
            next_tip: TimestampMs::ZERO,
            next_gossip: TimestampMs::ZERO,
            hurry_until: TimestampMs::ZERO,
            clock_is_trusted: true,
            wake: TimestampMs::ZERO,
        }
    }

    /// Does all that can be done at `now`, and returns when to call again at the latest.
    pub(crate) fn progress(&mut self, now: TimestampMs) -> Result<TimestampMs, Fatal> {
        self.wake = TimestampMs::new(u64::MAX);
        if self.hurry_until == TimestampMs::ZERO {
            self.hurry_until = now.saturating_add(span(HURRY_AT_START));
        }
        self.fetches.begin();
        self.finalise(now)?;
        self.vote(now)?;
        self.propose(now)?;
        for task in self.desk.start(now) {
            self.outbox.push(Effect::Check(task));
        }
        if let Some(due) = self.desk.next_due() {
            self.wake_at(due);
        }
        self.send_fetches(now);
        self.send_periodic(now);
        Ok(self.wake)
    }

    /// Hears whether the time is trusted, and whether it was set: then what is due at a time is due now, since the old
    /// times mean nothing.
    pub(crate) fn clock(&mut self, is_trusted: bool, was_set: bool) {
        self.clock_is_trusted = is_trusted;
        if was_set {
            self.next_tip = TimestampMs::ZERO;
            self.next_gossip = TimestampMs::ZERO;
            self.hurry_until = TimestampMs::ZERO;
            self.fetches = Fetches::default();
            self.desk.retry_now();
            self.board.forget_all();
        }
    }

    /// Takes the effects collected so far.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.outbox)
    }

    fn wake_at(&mut self, at: TimestampMs) {
        self.wake = self.wake.min(at);
    }

    fn send_periodic(&mut self, now: TimestampMs) {
        if now >= self.next_tip {
            // While peers are missing, say often that this one is there: consensus waits for them.
            let all_heard = self.board.peers() >= self.peers.len();
            let interval = if all_heard || now > self.hurry_until {
                TIP_INTERVAL
            } else {
                TIP_INTERVAL_AT_START
            };
            self.next_tip = now.saturating_add(span(interval));
            self.send_tip();
            self.board.forget_silent(now);
        }
        if now >= self.next_gossip {
            self.next_gossip = now.saturating_add(span(REGOSSIP_INTERVAL));
            self.regossip();
        }
        self.wake_at(self.next_tip.min(self.next_gossip));
        let waiting = self.mempool.len();
        self.board.update(|status| status.mempool = waiting);
    }
}

/// A configured duration in the ledger's unit.
pub(crate) fn span(duration: std::time::Duration) -> tg_types::DurationMs {
    tg_types::DurationMs::new(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// A block id as the payload that consensus votes on.
pub(crate) fn payload(id: &BlockId) -> sha256::Digest {
    sha256::Digest::from(*id.as_bytes())
}

/// The block that a payload of consensus names.
pub(crate) fn block_id(payload: &sha256::Digest) -> BlockId {
    BlockId::new(payload.0)
}
