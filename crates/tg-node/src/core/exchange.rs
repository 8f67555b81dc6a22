//! Messages of peers, fetches of missing blocks, and transactions.

use commonware_p2p::Recipients;
use tg_types::chain::{Equivocation, VoteCertificate, VoteKind};
use tg_types::{
    BlockId, Decode as _, DurationMs, Encode as _, Heartbeat, SignedTransaction, TimestampMs,
    TransactionId,
};

use super::fetches::Fetch;
use super::machine::{Core, Effect, Fatal};
use crate::chain::{self, Body};
use crate::evidence::CheckError;
use crate::faults;
use crate::key::public_bytes;
use crate::limits::{
    FETCH_BLOCKS_MAX, FETCH_BYTES_MAX, FETCH_RETRY, FETCHES_MAX, GOSSIP_BYTES,
    GOSSIP_TRANSACTIONS_MAX, HEIGHT_AHEAD_MAX, HEIGHT_EXECUTED_MAX, span,
};
use crate::mempool::{Admission, Arrival, Origin, TransactionStatus};
use crate::peers::Peer;
use crate::store::StoreError;
use crate::store::skipped::{SKIPPED_BYTES_MAX, SkippedLimits};
use crate::submit::{Submission, SubmitError};
use crate::wire::{BlockMessage, TransactionMessage};
use tg_ledger::{EvidenceTask, Outcome, TransactionError};

/// The proposer's own message is usually on its way, so the first fetch waits a little.
const FETCH_FIRST: DurationMs = DurationMs::new(40);

impl Core {
    /// Asks for a body that validators have voted for, and its ancestors, during the coming turns, until it is here or nobody needs it.
    pub(super) fn want(&mut self, id: BlockId, now: TimestampMs) {
        self.ask_for(id, now, true);
    }

    /// The same for one that is only proposed. Stops: a leader that gives it ancestors that nobody made.
    pub(super) fn want_proposed(&mut self, id: BlockId, now: TimestampMs) {
        self.ask_for(id, now, false);
    }

    fn ask_for(&mut self, id: BlockId, now: TimestampMs, is_voted: bool) {
        if self.fetches.missing.len() >= FETCHES_MAX && !self.fetches.missing.contains_key(&id) {
            return;
        }
        let fetch = self.fetches.missing.entry(id).or_insert(Fetch {
            next_try: now.saturating_add(FETCH_FIRST),
            attempts: 0,
            wanted: true,
            is_voted,
        });
        fetch.wanted = true;
        fetch.is_voted |= is_voted;
    }

    pub(super) fn send_fetches(&mut self, now: TimestampMs) {
        self.fetches.missing.retain(|_, fetch| fetch.wanted);
        let mut wake = None;
        for (id, fetch) in &mut self.fetches.missing {
            if fetch.next_try <= now && !self.peers.is_empty() {
                let peer = &self.peers[fetch.attempts % self.peers.len()];
                let message = BlockMessage::Fetch {
                    id: *id.as_bytes(),
                    // Of one that is only proposed its ancestors are not wanted.
                    above: match fetch.is_voted {
                        true => self.tip.height(),
                        false => u64::MAX,
                    },
                };
                self.outbox.push(Effect::Block(
                    Recipients::One(peer.clone()),
                    message.to_bytes(),
                ));
                fetch.attempts += 1;
                fetch.next_try = now.saturating_add(span(FETCH_RETRY));
            }
            wake = Some(wake.map_or(fetch.next_try, |at: TimestampMs| at.min(fetch.next_try)));
        }
        if let Some(at) = wake {
            self.wake_at(at);
        }
    }

    /// A message on the channel of blocks.
    pub(crate) fn block_message(
        &mut self,
        peer: &Peer,
        bytes: &[u8],
        now: TimestampMs,
    ) -> Result<(), Fatal> {
        let Ok(message) = BlockMessage::from_bytes(bytes) else {
            self.ban(peer, "block message is malformed");
            return Ok(());
        };
        match message {
            BlockMessage::Push(bytes) => self.pushed(peer, &bytes),
            BlockMessage::Fetch { id, above } => {
                return self.answer(peer, BlockId::new(id), above, now);
            }
            BlockMessage::Blocks(blocks) => return self.fetched(peer, &blocks),
            BlockMessage::Tip { height } => self.node_status.heard(public_bytes(peer), height, now),
            BlockMessage::Heartbeats(all) => self.heartbeats(peer, &all, now),
            BlockMessage::AskFinal { epoch } => return self.show_final(peer, epoch, now),
            BlockMessage::Final(certificate) => {
                // Stops: certificates unasked, each of which costs the check of a quorum of signatures.
                let from = public_bytes(peer);
                if self.asked.take_if(|asked| *asked == from).is_some() {
                    self.outbox.push(Effect::CheckFinal(certificate));
                }
            }
        }
        Ok(())
    }

    /// Asks one of the others what became final, if they are ahead and nothing became final here since the last look: they may
    /// vote in another epoch, in which this validator hears nothing.
    pub(super) fn ask_if_behind(&mut self) {
        let (before, turn) = self.behind;
        let height = self.tip.height();
        self.behind.0 = height;
        let is_behind = self
            .node_status
            .highest_told()
            .is_some_and(|told| told > height);
        if before != height || !is_behind || self.peers.is_empty() {
            return;
        }
        self.behind.1 = turn.wrapping_add(1);
        let peer = self.peers[turn % self.peers.len()].clone();
        self.asked = Some(public_bytes(&peer));
        let message = BlockMessage::AskFinal { epoch: self.epoch };
        let message = message.to_bytes();
        self.outbox
            .push(Effect::Block(Recipients::One(peer), message));
    }

    /// Answers with what made the last block of an epoch final, or the newest one of this epoch.
    fn show_final(&mut self, peer: &Peer, epoch: u64, now: TimestampMs) -> Result<(), Fatal> {
        if epoch > self.epoch || !self.fetches.may_answer(public_bytes(peer), now) {
            return Ok(());
        }
        let shown = match self.store.term_end(epoch)? {
            Some((height, _)) => self.store.certificate(height)?,
            None => self.store.newest_certificate()?,
        };
        if let Some((_, certificate)) = shown {
            let message = BlockMessage::Final(certificate).to_bytes();
            let peer = Recipients::One(peer.clone());
            self.outbox.push(Effect::Block(peer, message));
        }
        Ok(())
    }

    /// Heartbeats that another validator heard first. One that does not count here may count there: states differ by a block.
    fn heartbeats(&mut self, peer: &Peer, all: &[Heartbeat], now: TimestampMs) {
        for heartbeat in all {
            if !self.fetches.may_beat(public_bytes(peer), now) {
                return;
            }
            if let Err(error) = self.node_status.heartbeat(heartbeat) {
                tracing::debug!(%error, "heartbeat does not count");
            }
        }
    }

    /// Tells the others what reached this validator first.
    pub(crate) fn send_heartbeats(&mut self, all: Vec<Heartbeat>) {
        let message = BlockMessage::Heartbeats(all).to_bytes();
        self.outbox.push(Effect::Block(Recipients::All, message));
    }

    fn pushed(&mut self, peer: &Peer, bytes: &[u8]) {
        let Some(body) = Body::decode(bytes) else {
            self.ban(peer, "pushed block is malformed");
            return;
        };
        let (from, tip) = (public_bytes(peer), self.tip.height());
        match self.fetches.missing.get(&body.id).map(|it| it.is_voted) {
            Some(true) => self.tree.add(body, false),
            Some(false) => self.tree.add_of(body, from, (tip, HEIGHT_EXECUTED_MAX)),
            None => self.tree.add_of(body, from, (tip, HEIGHT_AHEAD_MAX)),
        }
    }

    fn answer(
        &mut self,
        peer: &Peer,
        id: BlockId,
        above: u64,
        now: TimestampMs,
    ) -> Result<(), Fatal> {
        if !self.fetches.may_answer(public_bytes(peer), now) {
            return Ok(());
        }
        let mut blocks = Vec::new();
        let mut size = 0;
        let mut cursor = id;
        while blocks.len() < FETCH_BLOCKS_MAX {
            let body = match self.tree.body(&cursor) {
                Some(body) => body.clone(),
                None => match self.stored(&cursor)? {
                    Some(body) => body,
                    None => break,
                },
            };
            let bytes = chain::encode(&body.block);
            size += bytes.len();
            if size > FETCH_BYTES_MAX || (!blocks.is_empty() && body.height() <= above) {
                break;
            }
            blocks.push(bytes);
            cursor = body.parent();
        }
        if !blocks.is_empty() {
            let message = BlockMessage::Blocks(blocks).to_bytes();
            self.outbox
                .push(Effect::Block(Recipients::One(peer.clone()), message));
        }
        Ok(())
    }

    /// Blocks that were asked for: the first by its name, each next one by the name its child gives.
    fn fetched(&mut self, peer: &Peer, blocks: &[Vec<u8>]) -> Result<(), Fatal> {
        let mut child: Option<(BlockId, u64)> = None;
        let mut bodies = Vec::new();
        for bytes in blocks {
            let Some(body) = Body::decode(bytes) else {
                self.ban(peer, "fetched block is malformed");
                return Ok(());
            };
            let is_voted = match child {
                None => self.fetches.missing.get(&body.id).map(|it| it.is_voted),
                Some((id, height)) => {
                    (body.id == id && body.height() + 1 == height).then_some(true)
                }
            };
            // An answer may come late, after another peer's; only the chain of what is wanted is kept.
            let Some(is_voted) = is_voted.filter(|_| body.height() > self.tip.height()) else {
                break;
            };
            if !is_voted {
                // One that is too far above is of no use yet: it is asked for again, not at once.
                let (id, tip) = (body.id, self.tip.height());
                self.tree
                    .add_of(body, public_bytes(peer), (tip, HEIGHT_EXECUTED_MAX));
                if self.tree.body(&id).is_some() {
                    self.fetches.missing.remove(&id);
                }
                break;
            }
            child = Some((body.parent(), body.height()));
            bodies.push((body, bytes));
        }
        self.store.put_bodies(
            bodies
                .iter()
                .map(|(body, bytes)| (body.id.as_bytes(), body.height(), bytes.as_slice())),
        )?;
        for (body, _) in bodies {
            self.fetches.missing.remove(&body.id);
        }
        Ok(())
    }

    /// A message on the channel of transactions.
    pub(crate) fn transaction_message(&mut self, peer: &Peer, bytes: &[u8], now: TimestampMs) {
        let Ok(TransactionMessage(all)) = TransactionMessage::from_bytes(bytes) else {
            self.ban(peer, "transaction message is malformed");
            return;
        };
        let from = public_bytes(peer);
        // Stops: a peer that has this validator check signatures and do nothing else.
        if !self.fetches.is_looked_at(&from, now) {
            return;
        }
        for bytes in all {
            let Ok(signed) = SignedTransaction::from_bytes(&bytes) else {
                self.ban(peer, "transaction is malformed");
                return;
            };
            match self.admit(signed, now, Origin::Peer) {
                Ok(_) => {}
                // Who tells others of it has checked that: it depends on nothing but the bytes and the network.
                Err(SubmitError::Refused(TransactionError::Signature(_))) => {
                    self.ban(peer, "transaction has a signature that does not hold");
                    return;
                }
                // What is invalid here may have been valid where it came from: states differ by a block.
                Err(error) => {
                    tracing::debug!(%error, "transaction of a peer is not taken");
                    if !self.fetches.may_fail(from, now) {
                        return;
                    }
                }
            }
        }
    }

    /// A transaction from a client of this validator.
    pub(crate) fn submit(&mut self, submission: Submission, now: TimestampMs) {
        let Submission { signed, reply } = submission;
        let bytes = signed.to_bytes();
        let result = self.admit(signed, now, Origin::Local);
        if let Ok((_, Admission::New)) = result {
            self.ungossiped.push(bytes);
        }
        // A client that went away does not take its transaction back.
        let _ = reply.send(result.map(|(id, _)| id));
    }

    fn admit(
        &mut self,
        signed: SignedTransaction,
        now: TimestampMs,
        origin: Origin,
    ) -> Result<(TransactionId, Admission), SubmitError> {
        let state = &self.tip.state;
        let id = chain::check(state, &signed, self.node_status.signatures())?;
        // Only a validator of genesis may be without an account, and it has one as well.
        let sender = signed.sender;
        let standing = chain::standing(state, &signed.lane())
            .ok_or(SubmitError::Refused(TransactionError::NoAccount { sender }))?;
        let arrival = Arrival {
            id,
            takes: tg_ledger::gas::most_taken(state.parameters(), &signed),
            signed,
            at: now,
            origin,
        };
        let admission = self.mempool.insert(arrival, standing);
        self.note_dropped();
        let admission = admission.map_err(SubmitError::Mempool)?;
        if admission == Admission::New {
            self.node_status.note(id, TransactionStatus::Waiting);
        }
        Ok((id, admission))
    }

    /// Tells what left the pool without a block.
    pub(super) fn note_dropped(&mut self) {
        for (id, reason) in self.mempool.take_dropped() {
            self.node_status
                .note(id, TransactionStatus::Dropped(reason));
        }
    }

    /// Tells the others of all transactions that this turn brought, in few messages.
    pub(super) fn gossip_pending(&mut self) {
        let mut ungossiped = std::mem::take(&mut self.ungossiped).into_iter().peekable();
        while ungossiped.peek().is_some() {
            let mut size = 0;
            let mut some = Vec::new();
            while some.len() < GOSSIP_TRANSACTIONS_MAX
                && let Some(bytes) =
                    ungossiped.next_if(|it| size == 0 || size + it.len() <= GOSSIP_BYTES)
            {
                size += bytes.len();
                some.push(bytes);
            }
            self.gossip(some);
        }
    }

    fn gossip(&mut self, transactions: Vec<Vec<u8>>) {
        let message = TransactionMessage(transactions).to_bytes();
        self.outbox
            .push(Effect::Transactions(Recipients::All, message));
    }

    pub(super) fn regossip(&mut self) {
        self.ungossiped
            .extend(self.mempool.local(GOSSIP_TRANSACTIONS_MAX));
        self.gossip_pending();
    }

    pub(super) fn send_tip(&mut self) {
        let message = BlockMessage::Tip {
            height: self.tip.height(),
        };
        self.outbox
            .push(Effect::Block(Recipients::All, message.to_bytes()));
    }

    /// The result of an [`Effect::Check`].
    pub(crate) fn checked(
        &mut self,
        task: &EvidenceTask,
        result: Result<Outcome, CheckError>,
        now: TimestampMs,
    ) {
        match result {
            Ok(outcome) => self.evidence_queue.finished(task, outcome, now),
            Err(error) => {
                tracing::debug!(?task, %error, "evidence cannot be checked yet");
                self.evidence_queue.failed(task, now);
            }
        }
    }

    /// Keeps what convicts a validator on disk.
    pub(crate) fn keep_fault(&self, proof: &Equivocation) -> Result<(), StoreError> {
        self.store.keep_fault(proof)
    }

    /// Compares a certificate whose signatures hold with what is on disk of its view, and keeps it there if it is a nullification.
    pub(crate) fn compare_on_disk(
        &self,
        certificate: (VoteKind, &[u8]),
    ) -> Result<Option<[VoteCertificate; 2]>, StoreError> {
        let limits = SkippedLimits {
            now: self.tip.timestamp(),
            kept_for: self.tip.state.parameters().unbonding,
            bytes_max: SKIPPED_BYTES_MAX,
        };
        faults::on_disk(&self.store, limits, certificate)
    }

    pub(super) fn ban(&mut self, peer: &Peer, reason: &'static str) {
        self.outbox.push(Effect::Ban(peer.clone(), reason));
    }
}
