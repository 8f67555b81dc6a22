//! Connections: how many there may be, in which stage each is, and which one ends when another needs its place.
//!
//! A server without a limit dies of descriptors and memory; one that refuses newcomers at its limit is held by whoever
//! came first and does nothing. Here a newcomer is let in and the connection that has done nothing for longest ends:
//! honest ones send their request at once and read the answer at once, so they are never that one while anybody idles.
//!
//! Of all places one peer may hold a quarter, loopback apart: on one machine all processes share 127.0.0.1, and a share
//! would make honest agents pay for their neighbour. A peer is an IPv4 address or the first 64 bits of an IPv6 one.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// One part in so many of anything is the most that one peer may hold, loopback apart.
pub(crate) const SHARE: usize = 4;

/// A connection that moved no byte for this long is stalled: an honest one moves some in every round trip.
const STALLED: Duration = Duration::from_secs(1);

/// Who takes its answer and is behind the least rate by this much gives way as one does that is stalled.
pub(crate) const BEHIND: Duration = Duration::from_secs(2);

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PeerAddress {
    /// This machine.
    Loopback,
    /// A network: an IPv4 address, or 64 bits of an IPv6 one.
    Remote([u8; 8]),
}

impl PeerAddress {
    /// The peer of an address.
    pub(crate) fn of(address: SocketAddr) -> Self {
        let ip = address.ip().to_canonical();
        if ip.is_loopback() {
            return Self::Loopback;
        }
        let mut network = [0; 8];
        match ip {
            IpAddr::V4(ip) => network[4..].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => network.copy_from_slice(&ip.octets()[..8]),
        }
        Self::Remote(network)
    }

    /// The network of 48 bits in which an IPv6 peer is: as much as providers give to one host.
    pub(crate) const fn site(self) -> Option<[u8; 6]> {
        match self {
            // No public IPv6 network begins with 32 zeros, as all IPv4 addresses do here.
            Self::Loopback | Self::Remote([0, 0, 0, 0, ..]) => None,
            Self::Remote([a, b, c, d, e, f, _, _]) => Some([a, b, c, d, e, f]),
        }
    }

    /// Most of `limit` things that this peer may hold.
    pub(crate) const fn share(self, limit: usize) -> usize {
        self.part(limit, SHARE)
    }

    /// As [`Self::share`], where one peer may hold one part in so many.
    pub(crate) const fn part(self, limit: usize, parts: usize) -> usize {
        match self {
            Self::Loopback => limit,
            Self::Remote(_) => limit.div_ceil(parts),
        }
    }
}

/// What a connection is doing, in the order in which they give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Stage {
    /// It has not sent its first request yet.
    New,
    /// It waits for another request.
    Idle,
    /// A body arrives.
    Body,
    /// An answer leaves.
    Sending,
    /// A request is being answered, or events are followed.
    Working,
}

impl Stage {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::New,
            1 => Self::Idle,
            2 => Self::Body,
            3 => Self::Sending,
            _ => Self::Working,
        }
    }

    /// Whether a connection in this stage may be ended for another one after `still` without a byte, `behind` the least rate by so much.
    fn gives_way(self, still: Duration, behind: Duration) -> bool {
        match self {
            Self::New | Self::Idle => true,
            Self::Body => still >= STALLED,
            // Stops: peers that take some bytes now and then, and hold the places of all who take their answers.
            Self::Sending => still >= STALLED || behind >= BEHIND,
            Self::Working => false,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Who is at the other end.
    pub(crate) peer: PeerAddress,
    stage: AtomicU8,
    moved_ms: AtomicU64,
    /// By how much the other end is behind the least rate.
    behind_ms: AtomicU64,
    /// The least rate of this connection's answer in bytes a second, if it is higher than that of others.
    rate_min: AtomicU64,
    started: Instant,
    end: Notify,
}

impl Connection {
    /// Enters a stage.
    pub(crate) fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
        self.moved();
    }

    /// Notes that bytes moved.
    pub(crate) fn moved(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(now, Ordering::Relaxed);
    }

    /// Notes by how much the other end is behind the least rate.
    pub(crate) fn fell_behind(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.behind_ms.store(by, Ordering::Relaxed);
    }

    /// Says the least rate of the answer that follows, in bytes a second; zero for that of all.
    pub(crate) fn set_rate_min(&self, bytes_per_second: u64) {
        self.rate_min.store(bytes_per_second, Ordering::Relaxed);
    }

    /// The least rate of its answer in bytes a second, if it is higher than that of all.
    pub(crate) fn rate_min(&self) -> u64 {
        self.rate_min.load(Ordering::Relaxed)
    }

    /// Returns once the connection has to end for another one.
    pub(crate) async fn ordered_to_end(&self) {
        self.end.notified().await;
    }

    fn stage(&self) -> Stage {
        Stage::of(self.stage.load(Ordering::Relaxed))
    }

    fn still(&self) -> Duration {
        let moved = Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(moved)
    }

    fn behind(&self) -> Duration {
        Duration::from_millis(self.behind_ms.load(Ordering::Relaxed))
    }

    fn gives_way(&self) -> bool {
        self.stage().gives_way(self.still(), self.behind())
    }
}

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    started: Instant,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Arc<Connection>>,
    /// How many of them each peer has: a newcomer costs the same however many there are.
    peers: BTreeMap<PeerAddress, usize>,
}

/// A place among the connections; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    connections: Arc<Connections>,
    number: u64,
    /// The connection.
    pub(crate) connection: Arc<Connection>,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        // It may have had to end for another one.
        let _gone = self.connections.table().remove(self.number);
    }
}

impl Connections {
    /// Room for `limit` connections.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            started: Instant::now(),
            table: Mutex::default(),
        }
    }

    /// A place for a new connection, for which another one may have to end; nothing if none gives way.
    pub(crate) fn admit(self: &Arc<Self>, peer: PeerAddress) -> Option<ConnectionPlace> {
        let mut table = self.table();
        let own = table.peers.get(&peer).copied().unwrap_or_default();
        if own >= peer.share(self.limit) {
            table.make_room(Some(peer))?;
        } else if table.open.len() >= self.limit {
            let greatest = table.greatest();
            table.make_room(greatest)?;
        }
        let connection = Arc::new(Connection {
            peer,
            stage: AtomicU8::new(Stage::New as u8),
            moved_ms: AtomicU64::new(0),
            behind_ms: AtomicU64::new(0),
            rate_min: AtomicU64::new(0),
            started: self.started,
            end: Notify::new(),
        });
        connection.moved();
        let number = table.insert(Arc::clone(&connection));
        drop(table);
        Some(ConnectionPlace {
            connections: Arc::clone(self),
            number,
            connection,
        })
    }

    /// Ends the connections that are stalled for longest in a stage, `most` at most. It looks at all connections.
    pub(crate) fn end_stalled(&self, stage: Stage, most: usize) {
        // Nothing is looked for among calls that may do nothing for as long as they like.
        if stage.gives_way(Duration::MAX, Duration::ZERO) {
            self.table().end_stalled(stage, most);
        }
    }

    /// Ends all of them.
    pub(crate) fn end_all(&self) {
        let open = self.table().take_all();
        open.values()
            .for_each(|connection| connection.end.notify_one());
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, connection: Arc<Connection>) -> u64 {
        let number = self.next;
        self.next += 1;
        *self.peers.entry(connection.peer).or_default() += 1;
        self.open.insert(number, connection);
        number
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Connection>> {
        let connection = self.open.remove(&number)?;
        if let Some(count) = self.peers.get_mut(&connection.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&connection.peer);
            }
        }
        Some(connection)
    }

    fn take_all(&mut self) -> BTreeMap<u64, Arc<Connection>> {
        self.peers.clear();
        std::mem::take(&mut self.open)
    }

    fn end_stalled(&mut self, stage: Stage, most: usize) {
        let of_stage = self.open.iter().filter(|(_, it)| it.stage() == stage);
        let mut stalled: Vec<(Duration, u64)> = of_stage
            .map(|(number, it)| (it.still(), it.behind(), *number))
            .filter(|(still, behind, _)| stage.gives_way(*still, *behind))
            .map(|(still, _, number)| (still, number))
            .collect();
        stalled.sort_unstable_by_key(|(still, _)| std::cmp::Reverse(*still));
        for (_, number) in stalled.into_iter().take(most) {
            if let Some(ended) = self.remove(number) {
                ended.end.notify_one();
            }
        }
    }

    /// The peer with the most connections.
    fn greatest(&self) -> Option<PeerAddress> {
        let greatest = self.peers.iter().max_by_key(|(_, count)| **count);
        greatest.map(|(peer, _)| *peer)
    }

    /// Ends the connection that gives way first among those of a peer, or of all; nothing if there is none.
    fn make_room(&mut self, peer: Option<PeerAddress>) -> Option<()> {
        let candidates = self
            .open
            .iter()
            .filter(|(_, it)| peer.is_none_or(|peer| it.peer == peer) && it.gives_way());
        let first = candidates.min_by_key(|(_, it)| (it.stage(), std::cmp::Reverse(it.still())));
        let number = *first?.0;
        let ended = self.remove(number)?;
        ended.end.notify_one();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn remote(last: u8) -> PeerAddress {
        PeerAddress::of(SocketAddr::from(([10, 0, 0, last], 1)))
    }

    fn is_open(place: &ConnectionPlace) -> bool {
        place.connections.table().open.contains_key(&place.number)
    }

    #[test]
    fn a_peer_is_an_address_or_a_network_and_loopback_is_one() {
        let of = |text: &str| PeerAddress::of(text.parse().unwrap());
        assert_eq!(of("127.0.0.1:5"), of("[::1]:9"));
        assert_eq!(of("[::ffff:10.0.0.1]:1"), of("10.0.0.1:2"));
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::2:3]:1"));
        let (one, other) = (of("[2001:db8:0:1::1]:1"), of("[2001:db8::1]:1"));
        assert_ne!(one, other);
        assert!(one.site().is_some() && one.site() == other.site());
        assert_ne!(of("[2001:db8:1::1]:1").site(), other.site());
        assert_eq!(
            (of("10.0.0.1:1").site(), of("[::1]:9").site()),
            (None, None)
        );
        assert_eq!(
            (of("127.0.0.1:5").share(8), of("10.0.0.1:1").share(8)),
            (8, 2)
        );
    }

    #[test]
    fn whoever_did_nothing_for_longest_gives_way() {
        let connections = Arc::new(Connections::new(3));
        let places: Vec<ConnectionPlace> = (0..3)
            .map(|_| connections.admit(PeerAddress::Loopback).unwrap())
            .collect();
        places[0].connection.enter(Stage::Working);
        places[1].connection.enter(Stage::Idle);
        let newcomer = connections.admit(PeerAddress::Loopback).unwrap();
        // The one that never sent a request goes before the one that did.
        assert_eq!(
            [&places[0], &places[1], &places[2]].map(is_open),
            [true, true, false]
        );
        newcomer.connection.enter(Stage::Body);
        let second = connections.admit(PeerAddress::Loopback).unwrap();
        assert!(!is_open(&places[1]) && is_open(&newcomer));
        // A body that arrives and a request that is worked on give no way.
        second.connection.enter(Stage::Working);
        assert!(connections.admit(PeerAddress::Loopback).is_none());
        connections.end_stalled(Stage::Body, 1);
        assert!(is_open(&newcomer));
    }

    #[test]
    fn who_is_behind_the_least_rate_gives_way_to_who_needs_its_place() {
        let connections = Arc::new(Connections::new(4));
        let places = [0, 1, 2].map(|last| connections.admit(remote(last)).unwrap());
        for place in &places {
            place.connection.enter(Stage::Sending);
        }
        let almost = BEHIND - Duration::from_millis(1);
        places[0].connection.fell_behind(almost);
        places[1].connection.fell_behind(BEHIND);
        for _ in 0..2 {
            connections.end_stalled(Stage::Sending, 9);
            let open = [&places[0], &places[1], &places[2]].map(is_open);
            assert_eq!(open, [true, false, true]);
        }
    }

    #[test]
    fn those_that_are_stalled_for_longest_end_together() {
        let connections = Arc::new(Connections {
            limit: 8,
            started: Instant::now() - Duration::from_secs(5),
            table: Mutex::default(),
        });
        let admit = |stage: Stage, moved_ms: u64| {
            let place = connections.admit(PeerAddress::Loopback).unwrap();
            place.connection.enter(stage);
            place.connection.moved_ms.store(moved_ms, Ordering::Relaxed);
            place
        };
        let places = [
            admit(Stage::Sending, 3_000),
            admit(Stage::Sending, 1_000),
            admit(Stage::Body, 0),
            admit(Stage::Sending, 2_000),
            admit(Stage::Working, 0),
            admit(Stage::Sending, 60_000),
        ];
        let open = || places.each_ref().map(is_open);
        connections.end_stalled(Stage::Sending, 2);
        assert_eq!(open(), [true, false, true, false, true, true]);
        // One that moved lately is not stalled, and one that is at work never is.
        connections.end_stalled(Stage::Sending, 9);
        connections.end_stalled(Stage::Working, 9);
        assert_eq!(open(), [false, false, true, false, true, true]);
    }

    #[test]
    fn a_remote_peer_holds_a_quarter_and_pays_for_its_own_newcomers() {
        let connections = Arc::new(Connections::new(8));
        let honest = connections.admit(remote(1)).unwrap();
        let greedy: Vec<ConnectionPlace> = (0..5)
            .map(|_| connections.admit(remote(2)).unwrap())
            .collect();
        assert_eq!(greedy.iter().filter(|it| is_open(it)).count(), 2);
        assert!(is_open(&honest));
    }
}
