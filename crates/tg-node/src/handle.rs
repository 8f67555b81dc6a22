//! The interface of a validator to the rest of the process: submit, read, subscribe.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tg_types::Decode as _;
use tg_types::{
    Address, BlockId, CheckedSignatures, Digest, Domain, Heartbeat, NonceLane, SignedTransaction,
    TimestampMs, Transaction, TransactionId, keccak256_of,
};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::blob::BlobStore;
use crate::chain::{self, Body, Executed};
use crate::fetch::{AskedFindings, Need, NeededFor};
use crate::limits::{MODEL_BYTES_MAX, PEER_SILENCE_MAX, SUBSCRIBER_LAG_MAX};
use crate::liveness::{HeartbeatError, Watch, steady_now};
use crate::mempool::{Statuses, TransactionStatus};
use crate::nonces::WaitingNonces;
use crate::protocol::{self, UnknownProtocol};
use crate::store::{Store, StoreError};
use crate::submit::{Submission, SubmitError};
use tg_ledger::limits::EPOCH_BLOCKS;
use tg_ledger::{Block, Event, State};
use tg_types::chain::{
    BlockBytes, ChainPage, CheckpointBlock, Equivocation, FinalityProof, HEADERS_MAX,
    PAGE_BLOCKS_MAX, PAGE_BYTES_MAX, SEAT_CHANGES_MAX, SeatChange, SeatChanges, SnapshotHead,
};

/// A final block with the state after it and the events that it caused.
#[derive(Debug, Clone)]
pub struct Finalized {
    /// The block's name.
    pub id: BlockId,
    /// The block.
    pub block: Arc<Block>,
    /// The state after it.
    pub state: Arc<State>,
    /// What happened in it, in order. Empty for the block a validator starts from.
    pub events: Arc<Vec<Event>>,
}

impl From<&Executed> for Finalized {
    fn from(executed: &Executed) -> Self {
        Self {
            id: executed.id,
            block: executed.block.clone(),
            state: executed.state.clone(),
            events: executed.events.clone(),
        }
    }
}

/// Where a validator stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its public key.
    pub validator: [u8; 32],
    /// The last final height.
    pub height: u64,
    /// The time of the last final block.
    pub timestamp: TimestampMs,
    /// The highest consensus view in which something was decided.
    pub view: u64,
    /// Other validators heard during the last seconds.
    pub peers: usize,
    /// All validators of the network.
    pub validators: usize,
    /// The highest final height that a peer told; above `height` while catching up.
    pub peer_height: u64,
    /// Transactions waiting here.
    pub mempool: usize,
    /// Validators whose conflicting votes were seen, by public key.
    pub equivocators: Vec<[u8; 32]>,
    /// Whether the validator runs. False after a stop or a failure.
    pub running: bool,
    /// Why it stopped by itself.
    pub stopped: Option<String>,
    /// The height up to which it signs nothing, because it does not know what it signed; 0 before that height is known.
    pub abstains_until: Option<u64>,
    /// By how many milliseconds its wall clock has jumped; meanwhile it neither proposes nor votes for blocks.
    pub clock_jumped_ms: Option<i64>,
}

/// What the validator's loop writes and handles read.
#[derive(Debug)]
pub(crate) struct NodeStatus {
    /// The newest version of the protocol that this node executes.
    speaks: u16,
    latest: RwLock<Arc<Finalized>>,
    finalized: broadcast::Sender<Arc<Finalized>>,
    status: Mutex<Status>,
    heard: Mutex<BTreeMap<[u8; 32], (TimestampMs, u64)>>,
    providers: Mutex<Watch>,
    transactions: Mutex<Statuses>,
    nonces: WaitingNonces,
    signatures: Arc<CheckedSignatures>,
    /// What shows that a validator signed contradicting votes, one for each.
    faults: Mutex<Vec<Equivocation>>,
    /// Where validators are dialled, by key.
    endpoints: Mutex<BTreeMap<[u8; 32], String>>,
    /// What this validator dealt of the seed's key and the final state does not have: round and log.
    dealing: Mutex<Option<(u64, Vec<u8>)>>,
    /// What this validator found out about others that are asked for what they keep.
    asked: Mutex<AskedFindings>,
}

/// The (`faults` + 1)-th greatest of the heights that were told. If at most `faults` of the tellers lie, it is at least the
/// least and at most the greatest height of an honest one.
/// Nothing before `2 faults + 1` have told theirs, so that as many lies below it leave an honest one at this place.
fn honest_height(mut told: Vec<u64>, faults: usize) -> Option<u64> {
    told.sort_unstable_by(|a, b| b.cmp(a));
    let is_enough = told.len() > 2 * faults;
    told.get(faults).copied().filter(|_| is_enough)
}

impl NodeStatus {
    pub(crate) fn new(
        validator: [u8; 32],
        validators: usize,
        tip: &Executed,
        (speaks, signatures): (u16, Arc<CheckedSignatures>),
    ) -> Self {
        Self {
            speaks,
            latest: RwLock::new(Arc::new(Finalized::from(tip))),
            finalized: broadcast::Sender::new(SUBSCRIBER_LAG_MAX),
            status: Mutex::new(Status {
                validator,
                height: tip.height(),
                timestamp: tip.timestamp(),
                view: 0,
                peers: 0,
                validators,
                peer_height: 0,
                mempool: 0,
                equivocators: Vec::new(),
                running: true,
                stopped: None,
                abstains_until: None,
                clock_jumped_ms: None,
            }),
            heard: Mutex::default(),
            providers: Mutex::default(),
            transactions: Mutex::default(),
            nonces: WaitingNonces::default(),
            signatures,
            faults: Mutex::default(),
            endpoints: Mutex::default(),
            dealing: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    /// Whether this node executes the block after a state.
    pub(crate) fn executes_after(&self, state: &State) -> Result<(), UnknownProtocol> {
        protocol::check(state, self.speaks)
    }

    pub(crate) fn publish(&self, executed: &Executed) {
        let finalized = Arc::new(Finalized::from(executed));
        *self.latest.write().unwrap_or_else(PoisonError::into_inner) = finalized.clone();
        self.update(|status| {
            status.height = executed.height();
            status.timestamp = executed.timestamp();
        });
        for event in executed.events.iter() {
            if let Event::TransactionExecuted { id, .. } = event {
                let height = executed.height();
                self.note(*id, TransactionStatus::Final { height });
            }
        }
        // Without subscribers there is nobody to tell.
        let _ = self.finalized.send(finalized);
    }

    /// Notes a heartbeat; false if it is not newer than the last one of its provider.
    pub(crate) fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<bool, HeartbeatError> {
        let account = Watch::provider_of(heartbeat, &self.latest().state)?;
        let watch = self.providers.lock();
        let mut watch = watch.unwrap_or_else(PoisonError::into_inner);
        Ok(watch.beat(account, heartbeat.at, steady_now()))
    }

    /// The last final block.
    pub(crate) fn latest(&self) -> Arc<Finalized> {
        let latest = self.latest.read();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes what convicts a validator; false if it was convicted before.
    pub(crate) fn convict(&self, proof: Equivocation) -> bool {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.iter().any(|it| it.seat == proof.seat) {
            return false;
        }
        faults.push(proof);
        drop(faults);
        self.update(|status| status.equivocators.push(proof.seat));
        true
    }

    /// Notes where a transaction stands.
    pub(crate) fn note(&self, id: TransactionId, status: TransactionStatus) {
        let mut all = self
            .transactions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.set(id, status);
    }

    /// Where a transaction stands.
    pub(crate) fn transaction(&self, id: &TransactionId) -> Option<TransactionStatus> {
        let all = self.transactions.lock();
        all.unwrap_or_else(PoisonError::into_inner).get(id)
    }

    /// Signatures of transactions that this node has looked at: each waits, and comes again in a block.
    pub(crate) fn signatures(&self) -> &CheckedSignatures {
        &self.signatures
    }

    /// The nonces that wait in this node's pool.
    pub(crate) const fn nonces(&self) -> &WaitingNonces {
        &self.nonces
    }

    /// Notes that the validator has stopped by itself, and why; the first reason stays.
    pub(crate) fn stop(&self, reason: &str) {
        self.update(|status| {
            status.running = false;
            status.stopped.get_or_insert_with(|| reason.to_owned());
        });
    }

    /// The highest final height that another validator has told.
    pub(crate) fn highest_told(&self) -> Option<u64> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.values().map(|(_, height)| *height).max()
    }

    /// A final height that honest ones of `seats` have told, of which at most `faults` lie ([`honest_height`]).
    pub(crate) fn honestly_told(
        &self,
        seats: impl Iterator<Item = [u8; 32]>,
        faults: usize,
    ) -> Option<u64> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let told = seats.filter_map(|seat| heard.get(&seat).map(|(_, height)| *height));
        honest_height(told.collect(), faults)
    }

    /// The key of this validator; zeros of a node without a seat.
    pub(crate) fn validator(&self) -> [u8; 32] {
        let status = self.status.lock();
        status.unwrap_or_else(PoisonError::into_inner).validator
    }

    /// Notes where validators are dialled.
    pub(crate) fn dials(&self, seats: impl Iterator<Item = ([u8; 32], String)>) {
        *self
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = seats.collect();
    }

    /// Other validators heard during the last seconds.
    pub(crate) fn peers(&self) -> usize {
        self.status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .peers
    }

    /// Notes a sign of life of a peer.
    pub(crate) fn heard(&self, peer: [u8; 32], height: u64, now: TimestampMs) {
        self.heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(peer, (now, height));
        self.forget_silent(now);
    }

    /// Forgets when peers were heard: the clock was set.
    pub(crate) fn forget_all(&self) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.clear();
    }

    /// Notes what this validator has to put on the chain of the seed's key.
    pub(crate) fn deals(&self, dealing: Option<(u64, Vec<u8>)>) {
        *self.dealing.lock().unwrap_or_else(PoisonError::into_inner) = dealing;
    }

    /// Notes what was found out about others that are asked for what they keep.
    pub(crate) fn found_asked(&self, findings: AskedFindings) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = findings;
    }

    /// Counts the peers that are still there.
    pub(crate) fn forget_silent(&self, now: TimestampMs) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let silence_max = u64::try_from(PEER_SILENCE_MAX.as_millis()).unwrap_or(u64::MAX);
        heard.retain(|_, (at, _)| now.saturating_since(*at).get() <= silence_max);
        let (peers, peer_height) = (
            heard.len(),
            heard.values().map(|(_, height)| *height).max().unwrap_or(0),
        );
        drop(heard);
        self.update(|status| {
            status.peers = peers;
            status.peer_height = peer_height;
        });
    }
}

/// A validator as seen by the process that runs it. Cheap to clone; usable from any thread and any tokio runtime.
#[derive(Debug, Clone)]
pub struct NodeHandle {
    node_status: Arc<NodeStatus>,
    store: Arc<Store>,
    blobs: Arc<BlobStore>,
    submissions: mpsc::Sender<Submission>,
    urgent: mpsc::Sender<Need>,
    heartbeats: mpsc::Sender<Heartbeat>,
}

impl NodeHandle {
    pub(crate) const fn new(
        node_status: Arc<NodeStatus>,
        store: Arc<Store>,
        blobs: Arc<BlobStore>,
        submissions: mpsc::Sender<Submission>,
        urgent: mpsc::Sender<Need>,
        heartbeats: mpsc::Sender<Heartbeat>,
    ) -> Self {
        Self {
            node_status,
            store,
            blobs,
            submissions,
            urgent,
            heartbeats,
        }
    }

    /// Asks the other validators for a blob that is missing or damaged here. It is looked for during some seconds; with
    /// many asked for at once, this one may be left out.
    pub fn needs_blob(&self, digest: tg_types::Digest) {
        let need = Need {
            digest,
            limit: MODEL_BYTES_MAX,
            exact: None,
            used_for: NeededFor::Results,
        };
        // The loop that fetches may have stopped, or be busy with others.
        let _ = self.urgent.try_send(need);
    }

    /// Notes that a provider is there, and tells the other validators: what they report
    /// its liveness by. One that is not newer than the last does nothing.
    ///
    /// # Errors
    /// [`HeartbeatError`] if it does not count.
    pub fn heartbeat(&self, heartbeat: Heartbeat) -> Result<(), HeartbeatError> {
        if self.node_status.heartbeat(&heartbeat)? {
            // With many at once one may be left out; the next follows in ten seconds.
            let _ = self.heartbeats.try_send(heartbeat);
        }
        Ok(())
    }

    /// What convicts validators whose stake the last final state has still, of those too that have left and wait for it.
    #[must_use]
    pub fn unpunished(&self) -> Vec<Equivocation> {
        let state = self.node_status.latest().state.clone();
        let faults = self.node_status.faults.lock();
        let faults = faults.unwrap_or_else(PoisonError::into_inner);
        let has_stake = |proof: &&Equivocation| {
            let leaving = state.seats().unbonding.iter().map(|it| &it.validator);
            let mut validators = state.validators().iter().chain(leaving);
            validators.any(|it| *it.key.as_bytes() == proof.seat && !it.stake.is_zero())
        };
        faults.iter().filter(has_stake).copied().collect()
    }

    /// What the validator of an account says of the next version of the protocol.
    pub(crate) fn readiness(&self, state: &State, me: &Address) -> Option<Transaction> {
        protocol::readiness(state, me, self.node_status.speaks)
    }

    /// What this validator dealt of the seed's key, for the chain.
    pub(crate) fn dealing(&self) -> Option<(u64, Vec<u8>)> {
        let dealing = self.node_status.dealing.lock();
        dealing.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What this validator found out about others that are asked for what they keep.
    pub(crate) fn asked_findings(&self) -> AskedFindings {
        let asked = self.node_status.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the providers that were heard.
    pub(crate) fn watch<T>(&self, look: impl FnOnce(&mut Watch) -> T) -> T {
        let providers = self.node_status.providers.lock();
        look(&mut providers.unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands a transaction to the validator, which tells the others. `Ok` means that it is in the pool, not that it
    /// is in a block: follow [`Self::subscribe`] for that. Submitting the same transaction again is `Ok` while it
    /// waits. A transaction whose nonce is ahead waits for the missing ones.
    ///
    /// # Errors
    /// [`SubmitError::Refused`] with the ledger's typed error (checked on the last final state, a wrong signature
    /// included), [`SubmitError::Mempool`] if the pool cannot hold it, [`SubmitError::Busy`] if the validator has
    /// no time, [`SubmitError::Stopped`] if it does not run. Nothing is kept after an error.
    pub async fn submit(&self, signed: SignedTransaction) -> Result<TransactionId, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.submissions
            .try_send(Submission { signed, reply })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => SubmitError::Busy,
                mpsc::error::TrySendError::Closed(_) => SubmitError::Stopped,
            })?;
        answer.await.unwrap_or(Err(SubmitError::Stopped))
    }

    /// The last final block and the state after it.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Finalized> {
        self.node_status.latest()
    }

    /// Every block that becomes final from now on, in order. A receiver that lags more than
    /// [`SUBSCRIBER_LAG_MAX`] blocks is told how many it missed and finds them with [`Self::block`].
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Finalized>> {
        self.node_status.finalized.subscribe()
    }

    /// Where a transaction stands, as far as this validator remembers; `None` if it never saw it, or long ago.
    #[must_use]
    pub fn transaction_status(&self, id: &TransactionId) -> Option<TransactionStatus> {
        self.node_status.transaction(id)
    }

    /// The nonce of the next transaction of an account: the first that is neither final nor waits in this node's pool.
    #[must_use]
    pub fn next_nonce(&self, address: &Address) -> u64 {
        self.next_nonce_in(&NonceLane::Account(*address))
    }

    /// The same of an account or of a session key.
    #[must_use]
    pub fn next_nonce_in(&self, lane: &NonceLane) -> u64 {
        let settled = self.node_status.latest().state.nonce_in(lane);
        self.node_status.nonces.next(lane, settled)
    }

    /// The nonces of an account that wait in this node's pool, in order.
    #[must_use]
    pub fn waiting_nonces(&self, address: &Address) -> Vec<u64> {
        let lane = NonceLane::Account(*address);
        self.node_status.nonces.waiting(&lane)
    }

    /// The content-addressed store.
    #[must_use]
    pub const fn blobs(&self) -> &Arc<BlobStore> {
        &self.blobs
    }

    /// Where the validator stands.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut status = self
            .node_status
            .status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        status.running = status.running && !self.submissions.is_closed();
        status
    }

    /// The final block at a height, from disk; `None` for genesis and heights that are not final yet.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn block(&self, height: u64) -> Result<Option<Arc<Block>>, StoreError> {
        Ok(self
            .store
            .block(height)?
            .and_then(|bytes| Body::decode(&bytes))
            .map(|body| body.block))
    }

    /// What shows that the block at a height is final: a certificate, and headers from its block down to that one, each the
    /// parent of the one before; nothing if no certificate within [`HEADERS_MAX`] blocks is known.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn shown_final(&self, height: u64) -> Result<Option<FinalityProof>, StoreError> {
        let Some((certified, certificate)) = self.certificate(height)? else {
            return Ok(None);
        };
        if certified - height >= HEADERS_MAX as u64 {
            return Ok(None);
        }
        let mut headers = Vec::new();
        for height in (height..=certified).rev() {
            let Some(block) = self.block(height)? else {
                return Ok(None);
            };
            headers.push(block.header);
        }
        Ok(Some(FinalityProof {
            certificate,
            headers,
        }))
    }

    /// Final blocks from a height on, as a follower asks for them; none if the height is not final yet. Nothing if what
    /// shows them is not known here: of blocks that were fetched from others, only some have certificates.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn chain_page(&self, from: u64) -> Result<Option<ChainPage>, StoreError> {
        let tip = self.node_status.latest().block.header.height.get();
        let from = from.max(1);
        let mut page = ChainPage::empty(tip);
        let mut bytes = 0;
        // A page ends with an epoch: whoever follows learns there whose certificates count for what comes.
        let last = from.div_ceil(EPOCH_BLOCKS).saturating_mul(EPOCH_BLOCKS);
        for height in (from..=tip.min(last)).take(PAGE_BLOCKS_MAX) {
            let Some(block) = self.store.block(height)? else {
                break;
            };
            bytes += block.len();
            if bytes > PAGE_BYTES_MAX {
                break;
            }
            page.blocks.push(BlockBytes(block));
        }
        if page.blocks.is_empty() {
            // Either all is known, or the blocks below a snapshot were never here.
            return Ok((from > tip).then_some(page));
        }
        let last = from + page.blocks.len() as u64 - 1;
        let shown = match self.shown_final(last)? {
            Some(proof) => Some((last, proof)),
            // No certificate follows soon: the page ends at its first one.
            None => match self.certificate(from)?.filter(|it| it.0 <= last) {
                Some((certified, _)) => self.shown_final(certified)?.map(|it| (certified, it)),
                None => None,
            },
        };
        let Some((last, proof)) = shown else {
            return Ok(None);
        };
        page.blocks
            .truncate(usize::try_from(last + 1 - from).unwrap_or(usize::MAX));
        page.proof = proof;
        Ok(Some(page))
    }

    /// Where this node dials validators, by consensus key; empty for a node without a seat.
    #[must_use]
    pub fn seat_endpoints(&self) -> BTreeMap<[u8; 32], String> {
        let endpoints = self.node_status.endpoints.lock();
        endpoints.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether consensus could begin with what is here: the block at which the present term began, or a certificate of it.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn can_begin_consensus(&self) -> Result<bool, StoreError> {
        let since = self.snapshot().state.seats().since.get();
        self.store.can_begin_consensus(since)
    }

    /// Changes of the set of validators above a height, ascending, each with what shows it to somebody who knows the set before.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn seat_changes(&self, above: u64) -> Result<SeatChanges, StoreError> {
        let known = self.store.changes_above(above, SEAT_CHANGES_MAX)?;
        let known = known
            .iter()
            .filter_map(|it| SeatChange::from_bytes(it).ok());
        let mut changes: Vec<SeatChange> = known.collect();
        let room = SEAT_CHANGES_MAX - changes.len();
        for (height, seats) in self.store.term_ends_above(above, room)? {
            // Of what was before a snapshot only the change is here, not the block.
            if let Some(proof) = self.shown_final(height)? {
                changes.push(SeatChange { proof, seats });
            }
        }
        Ok(SeatChanges(changes))
    }

    /// The final block of a height, or the newest, with the validators after it, for whoever takes it as a checkpoint; nothing if
    /// one of the two is not here. Validators of genesis are left out when others vote.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn checkpoint(&self, height: Option<u64>) -> Result<Option<CheckpointBlock>, StoreError> {
        let tip = self.snapshot();
        let height = height.unwrap_or_else(|| tip.block.header.height.get());
        let Some(header) = self.block(height)?.map(|block| block.header) else {
            return Ok(None);
        };
        let names =
            |seats: &[u8]| Digest::new(keccak256_of(Domain::SeatSet, seats)) == header.seats;
        let now = chain::encode_seats(tip.state.validators());
        if names(&now) {
            return Ok(Some(CheckpointBlock { header, seats: now }));
        }
        // Those of the last change, or of genesis, if none was before.
        let seats = self.store.seats_after(height)?.unwrap_or_default();
        let is_known =
            names(&seats) || (seats.is_empty() && tip.state.seats().since.get() > height);
        Ok(is_known.then_some(CheckpointBlock { header, seats }))
    }

    /// A state for a follower to begin at, with its bytes: the newest snapshot. Nothing before the first one, or if what shows
    /// its block is not known here.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn chain_snapshot(&self) -> Result<Option<(SnapshotHead, Vec<u8>)>, StoreError> {
        let Some((height, state)) = self.store.snapshot()? else {
            return Ok(None);
        };
        let (block, proof) = (self.store.block(height)?, self.shown_final(height)?);
        Ok(block.zip(proof).map(|(block, proof)| {
            let head = SnapshotHead {
                block: BlockBytes(block),
                proof,
            };
            (head, state)
        }))
    }

    /// The certificate by which a view of a consensus epoch was skipped, if it was, and bonds answer for its votes: a commonware simplex
    /// `Nullification`, which [`tg_types::chain::VoteCertificate`] reads. Only validators have them.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn skipped_view(&self, round: (u64, u64)) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.skipped(round)
    }

    /// The first finality certificate at or above a height, with its height: two thirds of the validators signed
    /// that block and, through its ancestry, all below it. The bytes are a commonware simplex `Finalization` with
    /// ed25519 signatures.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub fn certificate(&self, height: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        self.store.certificate(height)
    }
}

#[cfg(test)]
mod tests {
    use super::honest_height;

    #[test]
    fn liars_move_a_height_only_between_honest_ones() {
        for (told, faults, height) in [
            (vec![], 0, None),
            (vec![7], 0, Some(7)),
            (vec![7, 9], 0, Some(9)),
            (vec![0, 9], 1, None),
            (vec![0, 8, 9], 1, Some(8)),
            (vec![u64::MAX, 8, 9], 1, Some(9)),
            (vec![0, 0, 7, 8, 9], 2, Some(7)),
            (vec![u64::MAX, u64::MAX, 7, 8, 9], 2, Some(9)),
        ] {
            assert_eq!(
                honest_height(told.clone(), faults),
                height,
                "{told:?} {faults}"
            );
        }
    }
}
