//! Lanes: calls of one kind wait for each other and for nobody else.
//!
//! | lane | calls | bounded by |
//! |---|---|---|
//! | agent | transactions, leases, single records | calls at work; each takes less than a millisecond |
//! | read | lists, quotes, reasons, dry runs, proofs of state | calls at work on threads of their own, and answers on their way |
//! | download | blobs to a client | answers on their way, one piece of each in memory; of these one in eight looks for a blob elsewhere |
//! | upload | blobs from a client | bodies on their way, one piece of each in memory, or one chunk of a MiB |
//! | endpoint | requests to endpoints, and their providers | bodies in memory, and calls at work, most of which wait |
//! | stream | events | streams |
//! | follow | pages of blocks to nodes that follow the chain | calls, most of which wait for a block; the one that waits longest makes room |
//! | completion | the OpenAI routes that order, until their answer is sent | bodies in memory, and calls at work, in all and of each key |
//! | development | inferences on behalf of clients | bodies in memory, and calls at work |
//!
//! Bodies of the first two lanes are small and are read before anything is held; who sends a body or takes an answer
//! too slowly loses its connection, and at a full lane the one that is stalled for longest loses it at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::Method;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::config::ApiConfig;
use crate::connection::{Connections, PeerAddress, SHARE, Stage};
use crate::error::ApiError;

/// How often the calls that wait for a lane look for stalled ones that hold it.
const LOOK: Duration = Duration::from_millis(100);

/// As many calls may wait for a pool as it has places, and at least so many with those: a call that waits holds its
/// connection, and all that wait together must leave connections for others.
const WAITING_MIN: usize = 32;

/// One in so many calls for lists and blobs may look for a blob that is not here, which takes seconds.
const SEARCH_PART: usize = 8;

/// One part in so many of the places of those who follow the chain is the most that one peer may hold: a gateway has one call at each of
/// its sources.
const FOLLOWER_SHARE: usize = 16;

/// All networks of one site hold as much as so many of them, and half of the places at most.
const SITE_PEERS: usize = 4;

/// A kind of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallLane {
    Agent,
    Read,
    Download,
    Upload,
    Stream,
    Follow,
    Endpoint,
    Completion,
    Development,
}

impl CallLane {
    /// The lane of a call. What is unknown is refused in the lane of cheap calls.
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        let mut parts = path.trim_matches('/').split('/');
        let (first, subject, id, rest) = (parts.next(), parts.next(), parts.next(), parts.next());
        if first == Some("openai") {
            return match *method {
                Method::POST => Self::Completion,
                // The bytes of a file, piece by piece.
                _ if id == Some("files") && path.ends_with("/content") => Self::Download,
                _ => Self::Read,
            };
        }
        match (subject.unwrap_or_default(), id, rest) {
            ("blobs", Some(_), None | Some("chunks")) if method == Method::PUT => Self::Upload,
            ("blobs", Some(_), None | Some("chunks")) => Self::Download,
            ("chain", Some("snapshot"), None) => Self::Download,
            ("events", None, _) => Self::Stream,
            // It waits for a block. Stops: readers of events that keep gateways from the chain.
            ("chain", Some("blocks"), None) => Self::Follow,
            ("leases", Some(_), Some("requests" | "serve")) => Self::Endpoint,
            ("dev", Some("infer"), None) => Self::Development,
            ("offers" | "models" | "jobs" | "clouds", None, _)
            | ("jobs", Some("dry-run"), None)
            | ("jobs", Some(_), Some("why" | "receipt"))
            | ("models", Some(_), Some("quotes" | "modes"))
            | ("providers", Some(_), None)
            // They read blocks and certificates from the disk.
            | ("chain", Some("skipped"), None)
            | ("proofs", _, _) => Self::Read,
            _ => Self::Agent,
        }
    }
}

/// The lanes of a server.
#[derive(Debug)]
pub(crate) struct Lanes {
    connections: Arc<Connections>,
    pub(crate) agents: Arc<LanePool>,
    pub(crate) reads: Arc<LanePool>,
    pub(crate) sending: Arc<LanePool>,
    pub(crate) searches: Arc<LanePool>,
    pub(crate) uploads: Arc<LanePool>,
    pub(crate) streams: Arc<LanePool>,
    pub(crate) followers: Arc<LanePool>,
    pub(crate) endpoints: Arc<LanePool>,
    pub(crate) completions: Arc<LanePool>,
    pub(crate) development: Arc<LanePool>,
    /// For large bodies of all lanes.
    pub(crate) bodies: Arc<BodyRoom>,
}

impl Lanes {
    pub(crate) fn new(config: &ApiConfig, connections: Arc<Connections>) -> Self {
        let of = |limit, held_in, share| {
            Arc::new(LanePool::new((limit, share), held_in, config.wait_max))
        };
        let pool = |limit, held_in| of(limit, held_in, SHARE);
        Self {
            connections,
            agents: pool(config.calls_max, Stage::Working),
            reads: pool(config.reads_max, Stage::Working),
            sending: pool(config.answers_max, Stage::Sending),
            searches: pool(config.answers_max.div_ceil(SEARCH_PART), Stage::Working),
            uploads: pool(config.uploads_max, Stage::Body),
            streams: pool(config.streams_max, Stage::Working),
            followers: of(config.followers_max, Stage::Sending, FOLLOWER_SHARE),
            endpoints: pool(config.endpoints_max, Stage::Body),
            completions: pool(config.completions_max, Stage::Body),
            development: pool(config.inferences_max, Stage::Body),
            bodies: Arc::new(BodyRoom::new(config.bodies_bytes_max)),
        }
    }

    /// Waits for a place in a pool.
    pub(crate) async fn enter(
        &self,
        pool: &Arc<LanePool>,
        peer: PeerAddress,
    ) -> Result<Ticket, ApiError> {
        pool.enter(peer, &self.connections).await
    }
}

/// Places for calls of one kind.
#[derive(Debug)]
pub(crate) struct LanePool {
    limit: usize,
    /// One part in so many is the most that one peer may hold.
    share: usize,
    /// The stage in which a call that holds a place may be ended when it stalls.
    held_in: Stage,
    wait_max: Duration,
    places: Arc<Semaphore>,
    peers: Mutex<BTreeMap<PeerAddress, usize>>,
    /// Calls that hold a place and wait for what may never come, in the order in which they began to.
    waits: Mutex<VecDeque<Arc<Notify>>>,
    /// When a call that waits for a place looked for stalled ones.
    looked: Mutex<Option<Instant>>,
}

impl LanePool {
    fn new((limit, share): (usize, usize), held_in: Stage, wait_max: Duration) -> Self {
        Self {
            limit,
            share,
            held_in,
            wait_max,
            places: Arc::new(Semaphore::new(limit)),
            peers: Mutex::default(),
            waits: Mutex::default(),
            looked: Mutex::default(),
        }
    }

    /// Notes that a call which holds a place waits. It ends its wait, with an answer that says so, when another one needs the place.
    pub(crate) fn wait(self: &Arc<Self>) -> WaitingCall {
        let ends = Arc::new(Notify::new());
        self.waits().push_back(Arc::clone(&ends));
        WaitingCall {
            pool: Arc::clone(self),
            ends,
        }
    }

    /// Ends the wait of the call that waits longest, if one does.
    fn end_longest(&self) {
        if let Some(longest) = self.waits().pop_front() {
            longest.notify_one();
        }
    }

    fn waits(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place, for which a stalled call or one that waits itself may have to end.
    async fn enter(
        self: &Arc<Self>,
        peer: PeerAddress,
        connections: &Connections,
    ) -> Result<Ticket, ApiError> {
        let busy = || ApiError::Busy { limit: self.limit };
        if self.limit == 0 {
            return Err(busy());
        }
        let mut counted = Counted::new(self, peer).ok_or_else(busy)?;
        let until = Instant::now() + self.wait_max;
        let mut waiting = Box::pin(Arc::clone(&self.places).acquire_owned());
        loop {
            if let Ok(permit) = tokio::time::timeout(Duration::ZERO, &mut waiting).await {
                counted._permit = Some(permit.map_err(|_| busy())?);
                return Ok(Ticket { _counted: counted });
            }
            if Instant::now() >= until {
                return Err(busy());
            }
            if self.may_look() {
                connections.end_stalled(self.held_in, self.waiting().max(1));
            }
            // Stops: calls that wait for a block of a height that nobody has, and hold all places for good.
            self.end_longest();
            if let Ok(permit) = tokio::time::timeout(LOOK, &mut waiting).await {
                counted._permit = Some(permit.map_err(|_| busy())?);
                return Ok(Ticket { _counted: counted });
            }
        }
    }

    /// Whether nobody looked for stalled calls for a while. Who does looks for all that wait.
    ///
    /// Stops: hundreds of calls that wait, each of which looks at thousands of connections ten times a second.
    fn may_look(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if looked.is_some_and(|it| now.duration_since(it) < LOOK) {
            return false;
        }
        *looked = Some(now);
        true
    }

    /// How many calls wait for a place.
    fn waiting(&self) -> usize {
        let all: usize = self.peers().values().sum();
        all.saturating_sub(self.limit)
    }

    /// A place, if one is free now.
    pub(crate) fn enter_at_once(self: &Arc<Self>, peer: PeerAddress) -> Option<Ticket> {
        let mut counted = Counted::new(self, peer)?;
        counted._permit = Some(Arc::clone(&self.places).try_acquire_owned().ok()?);
        Some(Ticket { _counted: counted })
    }

    /// The limit, if every place is taken.
    pub(crate) fn full(&self) -> Option<usize> {
        (self.places.available_permits() == 0).then_some(self.limit)
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<PeerAddress, usize>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that holds a place and waits; dropping it says that it waits no longer.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    pool: Arc<LanePool>,
    ends: Arc<Notify>,
}

impl WaitingCall {
    /// Returns once another call needs the place.
    pub(crate) async fn ended(&self) {
        self.ends.notified().await;
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.pool.waits().retain(|it| !Arc::ptr_eq(it, &self.ends));
    }
}

/// Memory for the bodies of calls, of which a peer gets its share.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    limit: usize,
    peers: Mutex<BTreeMap<PeerAddress, usize>>,
}

/// The memory of one body; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct BodyPlace {
    room: Arc<BodyRoom>,
    peer: PeerAddress,
    bytes: usize,
}

impl BodyRoom {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            peers: Mutex::default(),
        }
    }

    /// The place of a body of which nothing came yet.
    pub(crate) fn place(self: &Arc<Self>, peer: PeerAddress) -> BodyPlace {
        BodyPlace {
            room: Arc::clone(self),
            peer,
            bytes: 0,
        }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<PeerAddress, usize>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyPlace {
    /// Takes room for more bytes.
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), ApiError> {
        let limit = self.room.limit;
        let mut peers = self.room.peers();
        let all: usize = peers.values().sum();
        let own = peers.get(&self.peer).copied().unwrap_or_default();
        if all + more > limit || own + more > self.peer.share(limit) {
            return Err(ApiError::NoRoom { limit });
        }
        peers.insert(self.peer, own + more);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for BodyPlace {
    fn drop(&mut self) {
        let mut peers = self.room.peers();
        if let Some(bytes) = peers.get_mut(&self.peer) {
            *bytes = bytes.saturating_sub(self.bytes);
            if *bytes == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}

/// A place in a pool; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Ticket {
    _counted: Counted,
}

/// One of a peer's calls that hold a place or wait for one.
#[derive(Debug)]
struct Counted {
    pool: Arc<LanePool>,
    peer: PeerAddress,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Counted {
    /// Counts a call; nothing if the peer has its share.
    fn new(pool: &Arc<LanePool>, peer: PeerAddress) -> Option<Self> {
        let mut peers = pool.peers();
        let all: usize = peers.values().sum();
        let own = peers.get(&peer).copied().unwrap_or_default();
        let room = pool.limit.saturating_mul(2).max(WAITING_MIN);
        if all >= room
            || (peer != PeerAddress::Loopback && own >= peer.part(pool.limit, pool.share))
            || is_site_full(pool, peer, &peers)
        {
            return None;
        }
        peers.insert(peer, own + 1);
        drop(peers);
        Some(Self {
            pool: Arc::clone(pool),
            peer,
            _permit: None,
        })
    }
}

/// Whether the site of a peer holds what all its networks together may.
///
/// Stops: one host that has thousands of networks of 64 bits, each of which counts as a peer.
fn is_site_full(pool: &LanePool, peer: PeerAddress, peers: &BTreeMap<PeerAddress, usize>) -> bool {
    let Some(site) = peer.site() else {
        return false;
    };
    let its = peers.iter().filter(|(it, _)| it.site() == Some(site));
    let all: usize = its.map(|(_, count)| count).sum();
    let most = peer.part(pool.limit, pool.share).saturating_mul(SITE_PEERS);
    all >= most.min(pool.limit.div_ceil(2))
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut peers = self.pool.peers();
        if let Some(count) = peers.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, path: &str, expected: CallLane) {
        assert_eq!(CallLane::of(method, path), expected, "{method} {path}");
    }

    #[test]
    fn large_bodies_share_their_memory_and_no_peer_takes_all_of_it() {
        let room = Arc::new(BodyRoom::new(100));
        let remote = PeerAddress::Remote([1; 8]);
        let (mut far, mut near) = (room.place(remote), room.place(PeerAddress::Loopback));
        assert!(far.grow(25).is_ok() && far.grow(1).is_err());
        assert!(near.grow(75).is_ok() && near.grow(1).is_err());
        drop(far);
        assert!(near.grow(25).is_ok());
        drop(near);
        assert!(room.peers().is_empty());
    }

    #[tokio::test]
    async fn one_call_looks_for_all_that_wait() {
        let config = ApiConfig {
            answers_max: 2,
            wait_max: Duration::from_millis(10),
            ..ApiConfig::default()
        };
        let lanes = Lanes::new(&config, Arc::new(Connections::new(8)));
        let sending = &lanes.sending;
        let enter = || lanes.enter(sending, PeerAddress::Loopback);
        let held = [enter().await, enter().await];
        assert!(held.iter().all(Result::is_ok));
        assert!(sending.looked.lock().is_ok_and(|it| it.is_none()));
        let counted: Vec<Option<Counted>> = (0..3)
            .map(|_| Counted::new(sending, PeerAddress::Loopback))
            .collect();
        assert_eq!(sending.waiting(), 3);
        drop(counted);
        let waits = tokio::join!(enter(), enter());
        assert!(waits.0.is_err() && waits.1.is_err());
        assert!(sending.looked.lock().is_ok_and(|it| it.is_some()));
        // Both have waited for as long as one look is enough.
        assert!(sending.may_look() && !sending.may_look());
        drop(held);
        assert_eq!(sending.waiting(), 0);
    }

    #[tokio::test]
    async fn a_peer_holds_few_of_the_places_of_followers_and_a_full_lane_ends_the_longest_wait() {
        let config = ApiConfig {
            followers_max: 32,
            ..ApiConfig::default()
        };
        let lanes = Lanes::new(&config, Arc::new(Connections::new(8)));
        let mut held = Vec::new();
        for peer in 0..16 {
            let remote = PeerAddress::Remote([peer; 8]);
            for _ in 0..2 {
                let ticket = lanes.enter(&lanes.followers, remote).await;
                held.push((ticket.expect("a place"), lanes.followers.wait()));
            }
            assert!(lanes.enter(&lanes.followers, remote).await.is_err());
        }
        let ended = |call: &WaitingCall| Arc::strong_count(&call.ends) == 1;
        assert!(held.iter().all(|(_, call)| !ended(call)));
        let comes = PeerAddress::Remote([99; 8]);
        let first = held.remove(0);
        let (came, ()) = tokio::join!(lanes.enter(&lanes.followers, comes), async {
            first.1.ended().await;
            drop(first);
        });
        assert!(came.is_ok());
        // One wait for one place.
        assert!(held.iter().all(|(_, call)| !ended(call)));
    }

    /// The attack: one host that calls from all networks that its provider gave it.
    #[tokio::test]
    async fn the_networks_of_one_host_do_not_fill_a_lane() {
        let config = ApiConfig {
            wait_max: Duration::ZERO,
            ..ApiConfig::default()
        };
        let lanes = Lanes::new(&config, Arc::new(Connections::new(8)));
        let network = |site: u8, last: u8| PeerAddress::Remote([32, 1, 13, 184, 0, site, 0, last]);
        for (pool, of_one, of_all) in [(&lanes.followers, 4, 16), (&lanes.sending, 32, 64)] {
            let mut held = Vec::new();
            for last in 0..=u8::MAX {
                while let Ok(ticket) = lanes.enter(pool, network(1, last)).await {
                    held.push(ticket);
                }
                assert_eq!(held.len(), of_all.min(of_one * (usize::from(last) + 1)));
            }
            // A neighbour of another site has its places, and so has one of IPv4.
            assert!(lanes.enter(pool, network(2, 0)).await.is_ok());
            let old = PeerAddress::Remote([0, 0, 0, 0, 10, 0, 0, 1]);
            assert!(lanes.enter(pool, old).await.is_ok());
            drop(held);
            assert!(lanes.enter(pool, network(1, 0)).await.is_ok());
        }
    }

    #[test]
    fn calls_take_their_lane() {
        check(&Method::POST, "/v1/transactions", CallLane::Agent);
        check(&Method::GET, "/v1/providers/0x12/leases", CallLane::Agent);
        check(&Method::GET, "/v1/jobs/0x12", CallLane::Agent);
        check(&Method::GET, "/v1/offers/0x12", CallLane::Agent);
        check(&Method::GET, "/v1/status", CallLane::Agent);
        check(&Method::GET, "/v1/offers", CallLane::Read);
        check(&Method::GET, "/v1/jobs/", CallLane::Read);
        check(&Method::GET, "/v1/clouds", CallLane::Read);
        check(&Method::GET, "/v1/jobs/0x12/why", CallLane::Read);
        check(&Method::POST, "/v1/jobs/dry-run", CallLane::Read);
        check(&Method::GET, "/v1/models/0x12/quotes", CallLane::Read);
        check(&Method::GET, "/v1/providers/0x12", CallLane::Read);
        check(&Method::GET, "/v1/proofs/account/0x12", CallLane::Read);
        check(&Method::GET, "/v1/chain/skipped", CallLane::Read);
        check(&Method::GET, "/v1/blobs/0x12", CallLane::Download);
        check(&Method::GET, "/v1/blobs/0x12/chunks", CallLane::Download);
        check(&Method::GET, "/v1/blobs/0x12/chunks/3", CallLane::Download);
        check(&Method::PUT, "/v1/blobs/0x12", CallLane::Upload);
        check(&Method::PUT, "/v1/blobs/0x12/chunks", CallLane::Upload);
        check(&Method::PUT, "/v1/blobs/0x12/chunks/3", CallLane::Upload);
        check(&Method::GET, "/v1/events", CallLane::Stream);
        check(&Method::GET, "/v1/chain/blocks", CallLane::Follow);
        check(&Method::GET, "/v1/chain/seats", CallLane::Agent);
        check(&Method::GET, "/v1/chain/snapshot", CallLane::Download);
        check(
            &Method::POST,
            "/v1/leases/0x12/requests",
            CallLane::Endpoint,
        );
        check(&Method::POST, "/v1/leases/0x12/serve", CallLane::Endpoint);
        check(&Method::POST, "/v1/dev/infer", CallLane::Development);
        check(&Method::POST, "/v1/dev/faucet", CallLane::Agent);
        let chat = "/openai/v1/chat/completions";
        check(&Method::POST, chat, CallLane::Completion);
        check(&Method::GET, "/openai/v1/models", CallLane::Read);
        let content = "/openai/v1/files/file-1/content";
        check(&Method::GET, content, CallLane::Download);
        check(&Method::DELETE, "/openai/v1/files/file-1", CallLane::Read);
        check(&Method::GET, "/nothing", CallLane::Agent);
    }
}
