//! What is asked of whom, and when: a machine without I/O but for the store.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tg_ledger::QuestionTask;
use tg_types::chunks::{CHUNK_BYTES, ChunkTree};
use tg_types::{Decode as _, Digest, DurationMs, TimestampMs};

use super::needs::{Need, NeededFor};
use super::question_fetches::{AskedFetches, AskedFindings};
use super::receiving::Receiving;
use super::trees::ServedTrees;
use crate::blob::{BlobError, BlobStore, PausedBlob};
use crate::limits::{
    BLOB_CHUNK_BYTES, BLOB_CHUNK_PATIENCE, BLOB_CHUNKS_AHEAD, BLOB_RATE_MIN_PER_SECOND,
    BLOB_SERVED_BYTES_PER_SECOND, BLOB_TRANSFERS_MAX, BLOB_TRANSFERS_PER_PEER_MAX,
    BLOBS_WANTED_MAX, span,
};
use crate::peers::Peer;
use crate::wire::BlobMessage;

/// Blobs asked for per second, over all peers.
const STARTS_PER_SECOND: u64 = 512;

/// Asks of one peer that wait for its share of the next second.
const QUEUE_MAX: usize = 64;

/// The wait after the first round in which nobody had a blob.
const ROUND_WAIT: DurationMs = DurationMs::new(100);

/// The longest wait between two rounds.
const ROUND_WAIT_MAX: DurationMs = DurationMs::new(10_000);

/// How long a blob is looked for that only a check asked for.
const URGENT_FOR: DurationMs = DurationMs::new(10_000);

/// How long a peer that was asked for what somebody waits for has to begin, in the first round over all peers; it doubles with each.
const BEGIN_PATIENCE: DurationMs = DurationMs::new(1_000);

/// What a transfer may take beside its bytes.
const TRANSFER_GRACE: DurationMs = DurationMs::new(10_000);

const CHUNK: u64 = BLOB_CHUNK_BYTES as u64;

/// Blobs whose transfer was given up and of which the chunks stay, so that the next peer goes on. They take room of the store.
const ASIDE_MAX: usize = BLOB_TRANSFERS_MAX;

/// A blob that is not here.
#[derive(Debug)]
struct Want {
    need: Need,
    /// Whether the last look at the ledger named it.
    named: bool,
    /// Its place in what the last look named: whose turn it is of several that are needed for the same.
    place: usize,
    /// Until when a check wants it.
    urgent_until: TimestampMs,
    /// Peers that sent what it is not.
    wrong: BTreeSet<Peer>,
    attempts: usize,
    next_try: TimestampMs,
    transfer: Option<Transfer>,
    /// The chunks that earlier transfers brought.
    aside: Option<PausedBlob>,
}

/// A blob on its way.
#[derive(Debug)]
struct Transfer {
    peer: Peer,
    since: TimestampMs,
    last: TimestampMs,
    /// Whether this peer sent something.
    has_begun: bool,
    /// What came; nothing before the first part, and of a large blob before its tree.
    receiving: Option<Receiving>,
    /// Whether the tree of what came is from another peer.
    of_other_tree: bool,
    is_tree_asked: bool,
    /// Up to where parts were asked for.
    asked: u64,
    /// Parts that came before those in front of them.
    early: BTreeMap<u64, Vec<u8>>,
}

/// What a part of a transfer leads to.
enum Step {
    /// More is to come.
    Going,
    /// The blob's tree is to be asked for.
    NeedsTree,
    /// The peer says another size than the one from whom the tree is.
    OtherSize,
    /// All is here and right.
    Done,
    /// The peer sent what the blob is not.
    Wrong,
    /// It cannot be stored here now.
    Local(BlobError),
}

/// What one peer is served.
#[derive(Debug)]
struct Service {
    /// Bytes that it may be sent now.
    budget: u64,
    since: TimestampMs,
    queue: VecDeque<AskedOf>,
}

/// What a peer asks for.
#[derive(Debug, Clone, Copy)]
enum AskedOf {
    /// The part of a blob from this byte on.
    Part(Digest, u64),
    /// The tree of a blob.
    Tree(Digest),
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Fetcher {
    store: Arc<BlobStore>,
    peers: Vec<Peer>,
    wants: BTreeMap<Digest, Want>,
    services: BTreeMap<Peer, Service>,
    starts: u64,
    starts_since: TimestampMs,
    asked: AskedFetches,
    /// Blobs with chunks that are put aside, the oldest first.
    asides: VecDeque<Digest>,
    /// Trees that peers asked for.
    trees: ServedTrees,
    outbox: Vec<(Peer, BlobMessage)>,
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        for paused in self.wants.values_mut().filter_map(|it| it.aside.take()) {
            self.store.leave(paused);
        }
    }
}

impl Fetcher {
    /// A machine that asks nobody yet.
    pub(crate) fn new(store: Arc<BlobStore>) -> Self {
        Self {
            store,
            peers: Vec::new(),
            wants: BTreeMap::new(),
            services: BTreeMap::new(),
            starts: 0,
            starts_since: TimestampMs::ZERO,
            asked: AskedFetches::default(),
            asides: VecDeque::new(),
            trees: ServedTrees::default(),
            outbox: Vec::new(),
        }
    }

    /// Has it ask these peers from now on.
    pub(crate) fn ask(&mut self, peers: Vec<Peer>) {
        self.peers = peers;
    }

    /// Says what the ledger names and this validator lacks; what was named before and is no more is forgotten.
    pub(crate) fn named(&mut self, missing: impl IntoIterator<Item = Need>) {
        for want in self.wants.values_mut() {
            want.named = false;
        }
        for (place, need) in missing.into_iter().enumerate() {
            if let Some(want) = self.want(need) {
                (want.named, want.place) = (true, place);
            }
        }
    }

    /// Says which other validators are asked for what they keep.
    pub(crate) fn questions(&mut self, tasks: Vec<QuestionTask>, now: TimestampMs) {
        self.asked.named(tasks, now);
    }

    /// What was found out about them, if it changed since the last call.
    pub(crate) fn take_findings(&mut self) -> Option<AskedFindings> {
        self.asked.take_findings()
    }

    /// Says that a check waits for a blob.
    pub(crate) fn urgent(&mut self, need: Need, now: TimestampMs) {
        if let Some(want) = self.want(need) {
            want.urgent_until = now.saturating_add(URGENT_FOR);
            // A check that asks for it again is a reason to ask sooner than the doubled waits.
            want.next_try = want.next_try.min(now.saturating_add(ROUND_WAIT));
        }
    }

    fn want(&mut self, need: Need) -> Option<&mut Want> {
        let room = self.wants.len() < BLOBS_WANTED_MAX;
        match self.wants.entry(need.digest) {
            std::collections::btree_map::Entry::Occupied(entry) => {
                let want = entry.into_mut();
                let before = want.need;
                want.need.widen(&need);
                if want.need != before {
                    // What was taken for a lie may have been right.
                    want.wrong.clear();
                }
                Some(want)
            }
            std::collections::btree_map::Entry::Vacant(entry) if room => Some(entry.insert(Want {
                need,
                named: false,
                place: 0,
                urgent_until: TimestampMs::ZERO,
                wrong: BTreeSet::new(),
                attempts: 0,
                next_try: TimestampMs::ZERO,
                transfer: None,
                aside: None,
            })),
            std::collections::btree_map::Entry::Vacant(_) => None,
        }
    }

    /// A message of a peer; an error is a reason to refuse the peer.
    pub(crate) fn message(
        &mut self,
        peer: &Peer,
        bytes: &[u8],
        now: TimestampMs,
    ) -> Result<(), &'static str> {
        let message = BlobMessage::from_bytes(bytes).map_err(|_| "blob message is malformed")?;
        match message {
            BlobMessage::Ask { digest, offset } => {
                self.asks(peer, AskedOf::Part(digest, offset), now);
            }
            BlobMessage::AskTree { digest } => self.asks(peer, AskedOf::Tree(digest), now),
            BlobMessage::Tree { digest, tree } => {
                if self.is_from(&digest, peer)
                    && let Some(want) = self.wants.get_mut(&digest)
                {
                    let step = want.take_tree(&self.store, tree, now);
                    self.step(peer, digest, step, now);
                }
            }
            BlobMessage::Chunk {
                digest,
                offset,
                total,
                bytes,
            } => {
                let part = (offset, total, bytes.as_slice());
                self.asked
                    .chunk((peer, &digest), part, now, &mut self.outbox);
                self.chunk(peer, digest, (offset, total, bytes), now);
            }
            BlobMessage::Absent { digest } => {
                self.asked.absent(peer, &digest, now);
                if self.is_from(&digest, peer) {
                    self.give_up(&digest, now);
                }
            }
        }
        Ok(())
    }

    /// Does what is due, and returns what is to be sent.
    pub(crate) fn turn(&mut self, now: TimestampMs) -> Vec<(Peer, BlobMessage)> {
        let over = self.wants.iter();
        let over = over.filter(|(_, want)| !want.named && want.urgent_until <= now);
        let over: Vec<Digest> = over.map(|(digest, _)| *digest).collect();
        for digest in over {
            self.forget(&digest);
        }
        let late: Vec<Digest> = self
            .wants
            .iter()
            .filter(|(_, want)| want.is_late(self.peers.len(), now))
            .map(|(digest, _)| *digest)
            .collect();
        for digest in late {
            self.give_up(&digest, now);
        }
        self.start(now);
        self.asked.turn(now, &mut self.outbox);
        for peer in self.peers.clone() {
            self.serve(&peer, now);
        }
        self.trees.turn(now, &mut self.outbox);
        std::mem::take(&mut self.outbox)
    }

    /// Requests the blobs that are due: first those a check waits for, then by what they are needed for, of these those that fewest rounds
    /// over all peers were for. Stops: files that nobody has, named in orders, before what others lose collateral for.
    fn start(&mut self, now: TimestampMs) {
        if now.saturating_since(self.starts_since).get() >= 1_000 || now < self.starts_since {
            (self.starts, self.starts_since) = (0, now);
        }
        let mut of_peer: BTreeMap<Peer, usize> = BTreeMap::new();
        for transfer in self.wants.values().filter_map(|it| it.transfer.as_ref()) {
            *of_peer.entry(transfer.peer.clone()).or_default() += 1;
        }
        let mut running: usize = of_peer.values().sum();
        if running >= BLOB_TRANSFERS_MAX || self.starts >= STARTS_PER_SECOND {
            return;
        }
        let peers = self.peers.len().max(1);
        let mut due: Vec<(bool, NeededFor, usize, usize, Digest)> = self
            .wants
            .values()
            .filter(|want| want.transfer.is_none() && want.next_try <= now)
            .map(|want| want.turn(peers, now))
            .collect();
        due.sort_unstable();
        for (.., digest) in due {
            if running >= BLOB_TRANSFERS_MAX || self.starts >= STARTS_PER_SECOND {
                break;
            }
            let Some(want) = self.wants.get_mut(&digest) else {
                continue;
            };
            if want.peer(&self.peers, |_| true).is_none() {
                want.next_try = now.saturating_add(ROUND_WAIT_MAX);
                continue;
            }
            // Stops: a silent peer, of which all that may be asked waits, holding up what another one has.
            let has_room = |peer: &Peer| {
                of_peer
                    .get(peer)
                    .is_none_or(|busy| *busy < BLOB_TRANSFERS_PER_PEER_MAX)
            };
            let Some(peer) = want.peer(&self.peers, has_room) else {
                continue;
            };
            *of_peer.entry(peer.clone()).or_default() += 1;
            running += 1;
            self.starts += 1;
            if want.aside.is_some() {
                self.asides.retain(|it| *it != digest);
            }
            let offset = want.begin(&self.store, peer.clone(), now);
            self.outbox
                .push((peer, BlobMessage::Ask { digest, offset }));
        }
    }

    /// Forgets a blob, with what came of it.
    fn forget(&mut self, digest: &Digest) {
        let Some(mut want) = self.wants.remove(digest) else {
            return;
        };
        want.put_aside(&self.store);
        if let Some(paused) = want.aside {
            self.store.forget(paused);
        }
        self.asides.retain(|it| it != digest);
    }

    fn is_from(&self, digest: &Digest, peer: &Peer) -> bool {
        let transfer = self.wants.get(digest).and_then(|it| it.transfer.as_ref());
        transfer.is_some_and(|transfer| transfer.peer == *peer)
    }

    /// Ends a transfer; the next peer is asked, at once or after a wait when all were.
    fn give_up(&mut self, digest: &Digest, now: TimestampMs) {
        let peers = self.peers.len().max(1);
        let Some(want) = self.wants.get_mut(digest) else {
            return;
        };
        if want.put_aside(&self.store) {
            self.asides.push_back(*digest);
        }
        want.attempts += 1;
        let round = want.attempts / peers;
        want.next_try = now;
        if want.attempts.is_multiple_of(peers) {
            let doubled = ROUND_WAIT.get() << round.min(16);
            let wait = DurationMs::new(doubled.min(ROUND_WAIT_MAX.get()));
            want.next_try = now.saturating_add(wait);
        }
        if self.asides.len() > ASIDE_MAX
            && let Some(oldest) = self.asides.pop_front()
            && let Some(want) = self.wants.get_mut(&oldest)
            && let Some(paused) = want.aside.take()
        {
            self.store.forget(paused);
        }
    }

    fn chunk(&mut self, peer: &Peer, digest: Digest, part: (u64, u64, Vec<u8>), now: TimestampMs) {
        // A late part of a transfer that was given up.
        if !self.is_from(&digest, peer) {
            return;
        }
        let Some(want) = self.wants.get_mut(&digest) else {
            return;
        };
        let step = want.take(&self.store, part, now);
        self.step(peer, digest, step, now);
    }

    /// Does what a part or a tree leads to.
    fn step(&mut self, peer: &Peer, digest: Digest, step: Step, now: TimestampMs) {
        let Some(want) = self.wants.get_mut(&digest) else {
            return;
        };
        match step {
            Step::Going => {
                for offset in want.next_asks() {
                    self.outbox
                        .push((peer.clone(), BlobMessage::Ask { digest, offset }));
                }
            }
            Step::NeedsTree => {
                self.outbox
                    .push((peer.clone(), BlobMessage::AskTree { digest }));
            }
            Step::OtherSize => {
                want.begin_anew();
                self.outbox
                    .push((peer.clone(), BlobMessage::Ask { digest, offset: 0 }));
            }
            Step::Done => {
                tracing::debug!(%digest, %peer, "blob is here");
                self.wants.remove(&digest);
            }
            Step::Wrong => {
                // Stops: a liar that is asked again and again.
                tracing::warn!(%digest, %peer, "peer sent what the blob is not");
                want.wrong.insert(peer.clone());
                self.give_up(&digest, now);
            }
            Step::Local(error) => {
                tracing::warn!(%digest, %error, "blob cannot be stored");
                self.give_up(&digest, now);
                if let Some(want) = self.wants.get_mut(&digest) {
                    want.next_try = now.saturating_add(ROUND_WAIT_MAX);
                }
            }
        }
    }

    fn service(&mut self, peer: &Peer, now: TimestampMs) -> &mut Service {
        let service = self.services.entry(peer.clone()).or_insert(Service {
            budget: BLOB_SERVED_BYTES_PER_SECOND,
            since: now,
            queue: VecDeque::new(),
        });
        let passed = now.saturating_since(service.since).get();
        let earned = passed.saturating_mul(BLOB_SERVED_BYTES_PER_SECOND) / 1_000;
        service.budget = service
            .budget
            .saturating_add(earned)
            .min(BLOB_SERVED_BYTES_PER_SECOND);
        service.since = now;
        service
    }

    /// Notes what a peer asks for.
    fn asks(&mut self, peer: &Peer, asked: AskedOf, now: TimestampMs) {
        let service = self.service(peer, now);
        if service.queue.len() < QUEUE_MAX {
            service.queue.push_back(asked);
        }
        self.serve(peer, now);
    }

    /// Answers what a peer asked for, within its share.
    fn serve(&mut self, peer: &Peer, now: TimestampMs) {
        loop {
            let service = self.service(peer, now);
            if service.budget < CHUNK {
                return;
            }
            let Some(asked) = service.queue.pop_front() else {
                return;
            };
            let cost = match asked {
                AskedOf::Part(digest, offset) => {
                    let (answer, cost) = self.part(digest, offset);
                    self.outbox.push((peer.clone(), answer));
                    cost
                }
                AskedOf::Tree(digest) => {
                    let asked = (peer, digest);
                    self.trees.ask(&self.store, asked, &mut self.outbox)
                }
            };
            let service = self.service(peer, now);
            // An answer without bytes costs a look at the disk too.
            service.budget = service.budget.saturating_sub(cost.max(CHUNK / 16));
        }
    }

    /// A part of a blob for a peer, and what that costs of its share.
    fn part(&self, digest: Digest, offset: u64) -> (BlobMessage, u64) {
        // What cannot be read is not held.
        let part = self.store.part(&digest, offset, BLOB_CHUNK_BYTES);
        let Some((total, bytes)) = part.ok().flatten() else {
            return (BlobMessage::Absent { digest }, 0);
        };
        let cost = bytes.len() as u64;
        let part = BlobMessage::Chunk {
            digest,
            offset,
            total,
            bytes,
        };
        (part, cost)
    }
}

impl Transfer {
    fn is_late(&self, now: TimestampMs) -> bool {
        let total = self.receiving.as_ref().map_or(0, Receiving::total);
        let allowed = TRANSFER_GRACE
            .get()
            .saturating_add(total.saturating_mul(1_000) / BLOB_RATE_MIN_PER_SECOND);
        now.saturating_since(self.last) > span(BLOB_CHUNK_PATIENCE)
            || now.saturating_since(self.since).get() > allowed
    }

    /// Takes the parts that came in order.
    fn go_on(&mut self) -> Step {
        let Some(receiving) = &mut self.receiving else {
            return Step::Going;
        };
        while let Some(bytes) = self.early.remove(&receiving.received()) {
            match receiving.append(&bytes) {
                Ok(true) => {}
                Ok(false) => return Step::Wrong,
                Err(error) => return Step::Local(error),
            }
            if bytes.is_empty() {
                break;
            }
        }
        if receiving.received() < receiving.total() {
            return Step::Going;
        }
        match self.receiving.take().map(Receiving::finish) {
            Some(Err(BlobError::WrongDigest { .. })) => Step::Wrong,
            Some(Err(error)) => Step::Local(error),
            Some(Ok(())) | None => Step::Done,
        }
    }
}

impl Want {
    /// When its turn is, of all that are due: the least first.
    fn turn(&self, peers: usize, now: TimestampMs) -> (bool, NeededFor, usize, usize, Digest) {
        let Need {
            digest, used_for, ..
        } = self.need;
        let rounds = self.attempts / peers;
        (
            self.urgent_until <= now,
            used_for,
            rounds,
            self.place,
            digest,
        )
    }

    /// Whether its transfer takes too long. A message that was lost must not cost what somebody waits for more than the time in which
    /// another peer could have sent it.
    fn is_late(&self, peers: usize, now: TimestampMs) -> bool {
        let Some(transfer) = &self.transfer else {
            return false;
        };
        let round = self.attempts / peers.max(1);
        let begins_by = transfer
            .since
            .saturating_add(DurationMs::new(BEGIN_PATIENCE.get() << round.min(16)));
        let is_waited_for = self.urgent_until > now && !transfer.has_begun;
        transfer.is_late(now) || is_waited_for && now > begins_by
    }

    /// The next peer to ask of those that may be: each starts at another one, and none that lied is asked again.
    fn peer(&self, peers: &[Peer], may_be: impl Fn(&Peer) -> bool) -> Option<Peer> {
        let first = usize::from(self.need.digest.as_bytes()[0]) + self.attempts;
        (0..peers.len())
            .map(|step| &peers[(first + step) % peers.len()])
            .find(|peer| !self.wrong.contains(*peer) && may_be(peer))
            .cloned()
    }

    /// Offsets to ask for now.
    fn next_asks(&mut self) -> Vec<u64> {
        let mut offsets = Vec::new();
        if let Some(transfer) = &mut self.transfer
            && let Some(receiving) = &transfer.receiving
        {
            let ahead = receiving.received() + BLOB_CHUNKS_AHEAD * CHUNK;
            while transfer.asked < receiving.total().min(ahead) {
                offsets.push(transfer.asked);
                transfer.asked += CHUNK;
            }
        }
        offsets
    }

    /// Takes a part of the running transfer.
    fn take(
        &mut self,
        store: &Arc<BlobStore>,
        (offset, total, bytes): (u64, u64, Vec<u8>),
        now: TimestampMs,
    ) -> Step {
        let need = self.need;
        let Some(transfer) = &mut self.transfer else {
            return Step::Going;
        };
        if total > need.limit || need.exact.is_some_and(|exact| exact != total) {
            return Step::Wrong;
        }
        let whole = bytes.len() as u64 == total.saturating_sub(offset).min(CHUNK);
        if !offset.is_multiple_of(CHUNK) || !whole {
            return Step::Wrong;
        }
        transfer.has_begun = true;
        if transfer.receiving.is_none() && total <= CHUNK_BYTES {
            match Receiving::whole(store, need.digest, (total, need.limit)) {
                Ok(receiving) => transfer.receiving = Some(receiving),
                Err(error) => return Step::Local(error),
            }
        }
        let Some(receiving) = &transfer.receiving else {
            // Only the first part is asked for before the tree is here.
            if transfer.asked <= offset {
                return Step::Going;
            }
            transfer.last = now;
            transfer.early.insert(offset, bytes);
            return match std::mem::replace(&mut transfer.is_tree_asked, true) {
                true => Step::Going,
                false => Step::NeedsTree,
            };
        };
        if receiving.total() != total {
            // A tree does not show that a size is wrong by less than a chunk: one of the two lies.
            return match transfer.of_other_tree {
                true => Step::OtherSize,
                false => Step::Wrong,
            };
        }
        // Not asked for, or here already.
        if offset >= transfer.asked || offset < receiving.received() {
            return Step::Going;
        }
        transfer.last = now;
        transfer.early.insert(offset, bytes);
        transfer.go_on()
    }

    /// Takes the tree of a large blob.
    fn take_tree(&mut self, store: &Arc<BlobStore>, tree: ChunkTree, now: TimestampMs) -> Step {
        let need = self.need;
        let Some(transfer) = &mut self.transfer else {
            return Step::Going;
        };
        // Not asked for, or here already.
        if !transfer.is_tree_asked || transfer.receiving.is_some() {
            return Step::Going;
        }
        let total = tree.size();
        let may_be = total <= need.limit && need.exact.is_none_or(|exact| exact == total);
        if !may_be || total <= CHUNK_BYTES || !tree.is_of(&need.digest) {
            return Step::Wrong;
        }
        let receiving = match Receiving::chunks(store, &need.digest, (tree, need.limit)) {
            Ok(receiving) => receiving,
            Err(error) => return Step::Local(error),
        };
        transfer.last = now;
        // What an earlier process or transfer left is not asked for.
        let received = receiving.received();
        transfer.asked = transfer.asked.max(received);
        transfer.early.retain(|offset, _| *offset >= received);
        transfer.receiving = Some(receiving);
        transfer.go_on()
    }

    /// Begins a transfer, and says from which byte on the peer is to be asked.
    fn begin(&mut self, store: &Arc<BlobStore>, peer: Peer, now: TimestampMs) -> u64 {
        let aside = self.aside.take();
        let receiving = aside.and_then(|paused| match Receiving::going_on(store, paused) {
            Ok(receiving) => Some(receiving),
            Err(error) => {
                // It begins anew, with what is found on the disk.
                tracing::warn!(digest = %self.need.digest, %error, "blob cannot be gone on with");
                None
            }
        });
        let offset = receiving.as_ref().map_or(0, Receiving::received);
        self.transfer = Some(Transfer {
            peer,
            since: now,
            last: now,
            has_begun: false,
            of_other_tree: receiving.is_some(),
            receiving,
            is_tree_asked: false,
            asked: offset + CHUNK,
            early: BTreeMap::new(),
        });
        offset
    }

    /// Begins the transfer anew, with the peer's own tree. The chunks stay on the disk, and those that are of that tree are taken.
    fn begin_anew(&mut self) {
        if let Some(transfer) = &mut self.transfer {
            transfer.receiving = None;
            transfer.of_other_tree = false;
            transfer.is_tree_asked = false;
            transfer.asked = CHUNK;
            transfer.early.clear();
        }
    }

    /// Ends the transfer and puts the chunks that came aside; whether there are some.
    fn put_aside(&mut self, store: &BlobStore) -> bool {
        let receiving = self.transfer.take().and_then(|it| it.receiving);
        let aside = receiving.and_then(|it| it.aside(store));
        let is_some = aside.is_some();
        if is_some {
            self.aside = aside;
        }
        is_some
    }
}
