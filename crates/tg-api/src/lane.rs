//! Lanes: calls of one kind wait for each other and for nobody else.
//!
//! | lane | calls | bounded by |
//! |---|---|---|
//! | agent | transactions, leases, single records | calls at work; each takes less than a millisecond |
//! | read | lists, quotes, reasons, dry runs | calls at work on threads of their own, and answers on their way |
//! | download | blobs to a client | answers on their way, one piece of each in memory |
//! | upload | blobs from a client | bodies on their way, one piece of each in memory |
//! | stream | events | streams |
//! | development | inferences on behalf of clients | bodies in memory, and calls at work |
//!
//! Bodies of the first two lanes are small and are read before anything is held; who sends a body or takes an answer
//! too slowly loses its connection, and at a full lane the one that is stalled for longest loses it at once.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::connection::{Connection, Connections, PeerAddress, Stage};
use crate::error::ApiError;
use crate::server::{ApiConfig, Shared};

/// How often a call that waits for its lane looks for stalled ones that hold it.
const LOOK: Duration = Duration::from_millis(100);

/// As many calls may wait for a pool as it has places, and at least so many with those: a call that waits holds its
/// connection, and all that wait together must leave connections for others.
const WAITING_MIN: usize = 32;

/// A kind of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallLane {
    Agent,
    Read,
    Download,
    Upload,
    Stream,
    Development,
}

impl CallLane {
    /// The lane of a call. What is unknown is refused in the lane of cheap calls.
    fn of(method: &Method, path: &str) -> Self {
        let mut parts = path.trim_matches('/').split('/');
        let (_, subject, id, rest) = (parts.next(), parts.next(), parts.next(), parts.next());
        match (subject.unwrap_or_default(), id, rest) {
            ("blobs", Some(_), None) if method == Method::PUT => Self::Upload,
            ("blobs", Some(_), None) => Self::Download,
            ("events", None, _) => Self::Stream,
            ("dev", Some("infer"), None) => Self::Development,
            ("offers" | "models" | "jobs", None, _)
            | ("jobs", Some("dry-run"), None)
            | ("jobs", Some(_), Some("why" | "receipt"))
            | ("models", Some(_), Some("quotes"))
            | ("providers", Some(_), None) => Self::Read,
            _ => Self::Agent,
        }
    }
}

/// The lanes of a server.
#[derive(Debug)]
pub(crate) struct Lanes {
    connections: Arc<Connections>,
    agents: Arc<LanePool>,
    reads: Arc<LanePool>,
    sending: Arc<LanePool>,
    pub(crate) uploads: Arc<LanePool>,
    streams: Arc<LanePool>,
    development: Arc<LanePool>,
}

impl Lanes {
    pub(crate) fn new(config: &ApiConfig, connections: Arc<Connections>) -> Self {
        let pool = |limit, held_in| Arc::new(LanePool::new(limit, held_in, config.wait_max));
        Self {
            connections,
            agents: pool(config.calls_max, Stage::Working),
            reads: pool(config.reads_max, Stage::Working),
            sending: pool(config.answers_max, Stage::Sending),
            uploads: pool(config.uploads_max, Stage::Body),
            streams: pool(config.streams_max, Stage::Working),
            development: pool(config.inferences_max, Stage::Body),
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
    /// The stage in which a call that holds a place may be ended when it stalls.
    held_in: Stage,
    wait_max: Duration,
    places: Arc<Semaphore>,
    peers: Mutex<BTreeMap<PeerAddress, usize>>,
}

impl LanePool {
    fn new(limit: usize, held_in: Stage, wait_max: Duration) -> Self {
        Self {
            limit,
            held_in,
            wait_max,
            places: Arc::new(Semaphore::new(limit)),
            peers: Mutex::default(),
        }
    }

    /// Waits for a place, for which a stalled call may have to end.
    async fn enter(
        self: &Arc<Self>,
        peer: PeerAddress,
        connections: &Connections,
    ) -> Result<Ticket, ApiError> {
        let busy = || ApiError::Busy { limit: self.limit };
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
            connections.end_stalled(self.held_in);
            if let Ok(permit) = tokio::time::timeout(LOOK, &mut waiting).await {
                counted._permit = Some(permit.map_err(|_| busy())?);
                return Ok(Ticket { _counted: counted });
            }
        }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<PeerAddress, usize>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
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
        if all >= room || (peer != PeerAddress::Loopback && own >= peer.share(pool.limit)) {
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

/// Sends a call through its lane.
pub(crate) async fn through(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(connection) = request.extensions().get::<Arc<Connection>>().cloned() else {
        return next.run(request).await;
    };
    connection.enter(Stage::Working);
    let mut held = Vec::new();
    let response = match prepare(&shared, &connection, request, &mut held).await {
        Ok((lane, request)) => {
            let response = if lane == CallLane::Read {
                beside(&shared, connection.peer, request, next).await
            } else {
                next.run(request).await
            };
            connection.enter(match lane {
                CallLane::Stream => Stage::Working,
                _ => Stage::Sending,
            });
            response
        }
        Err(error) => error.into_response(),
    };
    response.map(|body| {
        Body::new(Answer {
            body,
            connection,
            _held: held,
        })
    })
}

/// Reads the body and takes the places that the lane of a call asks for.
async fn prepare(
    shared: &Shared,
    connection: &Arc<Connection>,
    request: Request,
    held: &mut Vec<Ticket>,
) -> Result<(CallLane, Request), ApiError> {
    let lane = CallLane::of(request.method(), request.uri().path());
    let (config, lanes, peer) = (&shared.config, &shared.lanes, connection.peer);
    let request = match lane {
        // The handler reads the body piece by piece.
        CallLane::Upload => return Ok((lane, request)),
        CallLane::Development => {
            held.push(lanes.enter(&lanes.development, peer).await?);
            read(config, connection, config.body_bytes_max, request).await?
        }
        CallLane::Agent | CallLane::Read | CallLane::Download | CallLane::Stream => {
            read(config, connection, config.small_body_bytes_max, request).await?
        }
    };
    match lane {
        CallLane::Agent => held.push(lanes.enter(&lanes.agents, peer).await?),
        CallLane::Read | CallLane::Download => held.push(lanes.enter(&lanes.sending, peer).await?),
        CallLane::Stream => {
            let full = lanes.streams.places.available_permits() == 0;
            if full {
                let limit = lanes.streams.limit;
                return Err(ApiError::Busy { limit });
            }
            held.push(lanes.enter(&lanes.streams, peer).await?);
        }
        CallLane::Upload | CallLane::Development => {}
    }
    Ok((lane, request))
}

/// Answers a call on a thread of its own: it may walk over every record, and must not hold those that wait for I/O.
async fn beside(shared: &Shared, peer: PeerAddress, request: Request, next: Next) -> Response {
    let lanes = &shared.lanes;
    let ticket = match lanes.enter(&lanes.reads, peer).await {
        Ok(ticket) => ticket,
        Err(error) => return error.into_response(),
    };
    let runtime = Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        let response = runtime.block_on(next.run(request));
        drop(ticket);
        response
    });
    match work.await {
        Ok(response) => response,
        Err(error) => ApiError::Failed {
            detail: error.to_string(),
        }
        .into_response(),
    }
}

/// Reads the body of a call, at most `limit` bytes and no slower than allowed.
async fn read(
    config: &ApiConfig,
    connection: &Connection,
    limit: usize,
    request: Request,
) -> Result<Request, ApiError> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let mut body = IncomingBody::new(config, connection, body, limit);
    let declared = parts.headers.get(header::CONTENT_LENGTH);
    body.declared(declared.and_then(|it| it.to_str().ok()?.parse().ok()))?;
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await? {
        bytes.extend_from_slice(&piece);
    }
    connection.enter(Stage::Working);
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// A body that arrives: bounded in size, and in time by its size.
pub(crate) struct IncomingBody<'a> {
    config: &'a ApiConfig,
    connection: &'a Connection,
    body: Body,
    limit: usize,
    received: usize,
    started: Instant,
}

impl<'a> IncomingBody<'a> {
    /// The body of a connection's request.
    pub(crate) fn new(
        config: &'a ApiConfig,
        connection: &'a Connection,
        body: Body,
        limit: usize,
    ) -> Self {
        connection.enter(Stage::Body);
        Self {
            config,
            connection,
            body,
            limit,
            received: 0,
            started: Instant::now(),
        }
    }

    /// Refuses a body by its declared length before anything is read.
    pub(crate) fn declared(&self, length: Option<usize>) -> Result<(), ApiError> {
        match length {
            Some(length) if length > self.limit => Err(ApiError::TooLarge { limit: self.limit }),
            _ => Ok(()),
        }
    }

    /// The next piece; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let patience = self.config.body_time_max;
            let until = self.started + patience + self.config.pace().time_of(self.received);
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context));
            let frame =
                tokio::time::timeout_at(until, frame)
                    .await
                    .map_err(|_| ApiError::TooSlow {
                        limit_s: patience.as_secs(),
                    })?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| ApiError::Invalid {
                what: "the body",
                detail: error.to_string(),
            })?;
            // Trailers are ignored.
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            self.connection.moved();
            self.received += piece.len();
            if self.received > self.limit {
                return Err(ApiError::TooLarge { limit: self.limit });
            }
            return Ok(Some(piece));
        }
    }
}

/// The body of an answer, with the places it holds until it is sent.
struct Answer {
    body: Body,
    connection: Arc<Connection>,
    _held: Vec<Ticket>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.enter(Stage::Idle);
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, path: &str, expected: CallLane) {
        assert_eq!(CallLane::of(method, path), expected, "{method} {path}");
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
        check(&Method::GET, "/v1/jobs/0x12/why", CallLane::Read);
        check(&Method::POST, "/v1/jobs/dry-run", CallLane::Read);
        check(&Method::GET, "/v1/models/0x12/quotes", CallLane::Read);
        check(&Method::GET, "/v1/providers/0x12", CallLane::Read);
        check(&Method::GET, "/v1/blobs/0x12", CallLane::Download);
        check(&Method::PUT, "/v1/blobs/0x12", CallLane::Upload);
        check(&Method::GET, "/v1/events", CallLane::Stream);
        check(&Method::POST, "/v1/dev/infer", CallLane::Development);
        check(&Method::POST, "/v1/dev/faucet", CallLane::Agent);
        check(&Method::GET, "/nothing", CallLane::Agent);
    }
}
