//! The machine: its state, its turns, and its effects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use commonware_cryptography::sha256;
use commonware_p2p::Recipients;
use commonware_utils::channel::oneshot;
use tg_types::{Address, BlockId, TimestampMs};

use crate::chain::{Executed, LastSnapshot};
use crate::evidence::EvidenceQueue;
use crate::forge::BlockForger;
use crate::handle::NodeStatus;
use crate::limits::{HURRY_AT_START, REGOSSIP_INTERVAL, TIP_INTERVAL, TIP_INTERVAL_AT_START, span};
use crate::mempool::Mempool;
use crate::peers::{Addresses, Peer, Proposal};
use crate::protocol::UnknownProtocol;
use crate::seed::SeedMachine;
use crate::store::{Store, StoreError};
use crate::term::{self, SeatTerm, SeatedPeer};
use tg_ledger::EvidenceTask;

use super::fetches::Fetches;
use super::tree::Tree;

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
    /// This program does not execute the next block.
    #[error(transparent)]
    Protocol(#[from] UnknownProtocol),
    /// The validator has no seat any more.
    #[error(
        "this validator has no seat after block {height}: it gave it back, was silent, or lost its stake; \
         `tensorgrid gateway` follows the chain without one"
    )]
    Unseated {
        /// The last block that it could vote on.
        height: u64,
    },
}

/// What the machine wants done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Send a message on the channel of blocks.
    Block(Recipients<Peer>, Vec<u8>),
    /// Send a message on the channel of transactions.
    Transactions(Recipients<Peer>, Vec<u8>),
    /// Send a message on the channel of seeds.
    Seed(Recipients<Peer>, Vec<u8>),
    /// Check evidence off the loop and tell the result with [`Core::checked`].
    Check(EvidenceTask),
    /// Check the certificate and tell the block with [`Core::finalised`]; no answer if it shows nothing.
    CheckFinal(Vec<u8>),
    /// Another set of validators votes from here on.
    Turn(SeatTerm),
    /// Refuse a peer that sent what no honest validator sends.
    Ban(Peer, &'static str),
}

pub(super) struct PendingProposal {
    pub(super) context: Proposal,
    pub(super) asked_at: TimestampMs,
    pub(super) reply: oneshot::Sender<sha256::Digest>,
}

pub(super) struct PendingVote {
    pub(super) context: Proposal,
    pub(super) id: BlockId,
    pub(super) asked_at: TimestampMs,
    pub(super) reply: oneshot::Sender<bool>,
}

/// A block that consensus finalised and that is not in the state yet.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) id: BlockId,
    pub(super) certificate: Vec<u8>,
    /// The way down from the target to a child of the last final block, as far as bodies are known.
    pub(super) path: Vec<BlockId>,
    /// The next block of the way down.
    pub(super) cursor: BlockId,
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
    pub(super) address: Address,
    pub(super) addresses: Addresses,
    pub(super) peers: Vec<Peer>,
    pub(super) store: Arc<Store>,
    pub(super) node_status: Arc<NodeStatus>,
    /// The consensus epoch.
    pub(super) epoch: u64,
    /// The block at which it began.
    pub(super) anchor: BlockId,
    /// The last final block.
    pub(super) tip: Executed,
    /// The height at the last look whether others are ahead, and whom to ask next.
    pub(super) behind: (u64, usize),
    /// Who was asked last what became final, until it answers.
    pub(super) asked: Option<[u8; 32]>,
    pub(super) snapshot: LastSnapshot,
    pub(super) pace: Pace,
    pub(super) tree: Tree,
    pub(super) mempool: Mempool,
    pub(super) evidence_queue: EvidenceQueue,
    pub(super) seeds: SeedMachine,
    pub(super) proposals: Vec<PendingProposal>,
    pub(super) votes: Vec<PendingVote>,
    pub(super) targets: VecDeque<Target>,
    pub(super) fetches: Fetches,
    pub(super) outbox: Vec<Effect>,
    /// Encoded transactions of clients that the others were not told of yet.
    pub(super) ungossiped: Vec<Vec<u8>>,
    pub(super) next_tip: TimestampMs,
    pub(super) next_gossip: TimestampMs,
    /// Until when peers are told often that this validator is there; set at the first turn.
    pub(super) hurry_until: TimestampMs,
    /// Whether the time is trusted: else nothing is proposed and no block voted for.
    pub(super) clock_is_trusted: bool,
    /// When the machine wants to be called again, set while it makes progress.
    pub(super) wake: TimestampMs,
    /// What simulations have it propose in the place of its blocks.
    pub(super) forger: Option<Arc<dyn BlockForger>>,
}

/// What a machine starts from.
pub(crate) struct Start {
    pub(crate) me: Peer,
    pub(crate) term: SeatTerm,
    pub(crate) store: Arc<Store>,
    pub(crate) node_status: Arc<NodeStatus>,
    pub(crate) tip: Executed,
    pub(crate) snapshot: LastSnapshot,
    pub(crate) pace: Pace,
    pub(crate) seeds: SeedMachine,
    pub(crate) forger: Option<Arc<dyn BlockForger>>,
}

impl Core {
    pub(crate) fn new(start: Start) -> Self {
        let Start {
            me,
            term,
            store,
            node_status,
            tip,
            snapshot,
            pace,
            seeds,
            forger,
        } = start;
        let addresses = term.addresses();
        let participants = term.participants();
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
            epoch: term.epoch,
            anchor: term.anchor.1,
            behind: (0, 0),
            asked: None,
            store,
            mempool: Mempool::new(tip.state.base_fee(), node_status.nonces().clone()),
            node_status,
            tip,
            snapshot,
            pace,
            tree: Tree::default(),
            evidence_queue: EvidenceQueue::default(),
            seeds,
            proposals: Vec::new(),
            votes: Vec::new(),
            targets: VecDeque::new(),
            fetches: Fetches::default(),
            outbox: Vec::new(),
            ungossiped: Vec::new(),
            next_tip: TimestampMs::ZERO,
            next_gossip: TimestampMs::ZERO,
            hurry_until: TimestampMs::ZERO,
            clock_is_trusted: true,
            wake: TimestampMs::ZERO,
            forger,
        }
    }

    /// Does all that can be done at `now`, and returns when to call again at the latest.
    pub(crate) fn progress(&mut self, now: TimestampMs) -> Result<TimestampMs, Fatal> {
        self.wake = TimestampMs::new(u64::MAX);
        if self.hurry_until == TimestampMs::ZERO {
            self.hurry_until = now.saturating_add(span(HURRY_AT_START));
            self.show_seeds(now);
        }
        self.fetches.begin();
        self.finalise(now)?;
        self.run_seeds(now)?;
        self.vote(now)?;
        self.propose(now)?;
        for task in self.evidence_queue.start(now) {
            self.outbox.push(Effect::Check(task));
        }
        if let Some(due) = self.evidence_queue.next_due() {
            self.wake_at(due);
        }
        self.send_fetches(now);
        self.gossip_pending();
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
            self.evidence_queue.retry_now();
            self.node_status.forget_all();
        }
    }

    /// The consensus epoch.
    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The seats of the last final state.
    pub(crate) fn seated(&self) -> Vec<SeatedPeer> {
        term::seated(&self.tip.state)
    }

    /// Takes the effects collected so far.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.outbox)
    }

    pub(super) fn wake_at(&mut self, at: TimestampMs) {
        self.wake = self.wake.min(at);
    }

    fn send_periodic(&mut self, now: TimestampMs) {
        if now >= self.next_tip {
            // While peers are missing, say often that this one is there: consensus waits for them.
            let all_heard = self.node_status.peers() >= self.peers.len();
            let interval = if all_heard || now > self.hurry_until {
                TIP_INTERVAL
            } else {
                TIP_INTERVAL_AT_START
            };
            self.next_tip = now.saturating_add(span(interval));
            self.send_tip();
            self.ask_if_behind();
            self.node_status.forget_silent(now);
        }
        if now >= self.next_gossip {
            self.next_gossip = now.saturating_add(span(REGOSSIP_INTERVAL));
            self.regossip();
        }
        self.wake_at(self.next_tip.min(self.next_gossip));
        let waiting = self.mempool.len();
        self.node_status.update(|status| status.mempool = waiting);
    }
}
