//! A call takes its lane before it is answered, and holds its places until the answer is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::config::ApiConfig;
use crate::connection::{Connection, PeerAddress, Stage};
use crate::error::ApiError;
use crate::hosts::ListenerNames;
use crate::incoming::IncomingBody;
use crate::lane::{BodyPlace, BodyRoom, CallLane, LanePool, Lanes, Ticket};
use crate::openai::error::OpenAiError;
use crate::openai::rate::{self, ApiKeyPlace};
use crate::routes;
use crate::shared::Shared;

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
    let began = Instant::now();
    let is_openai = request.uri().path().starts_with("/openai/");
    let count = || shared.rates.count(shared.port.as_ref(), request.headers());
    let rate = is_openai.then(count);
    let rate = rate.flatten();
    let span = tracing::info_span!(
        "request",
        otel.kind = "server",
        http.request.method = %request.method(),
        // The path names jobs and files, so it is no name of a span.
        url.path = request.uri().path(),
        http.response.status_code = tracing::field::Empty,
    );
    let mut held = Vec::new();
    let refused = rate.and_then(|rate| rate.refusal());
    let share = named(&request).and_then(|()| match refused {
        Some(error) => Err(HeadRefusal::OpenAi(error)),
        None => key_share(&shared, &request),
    });
    let mut response = match &share {
        Err(error) => error.answer(is_openai),
        Ok(_) => {
            let answered = answered(&shared, &connection, (request, next), &mut held);
            answered.instrument(span.clone()).await
        }
    };
    span.record("http.response.status_code", response.status().as_u16());
    drop(span);
    if let Some(rate) = rate {
        rate.tell(response.headers_mut());
    }
    shared
        .calls
        .count(response.status().as_u16(), began.elapsed());
    response.map(|body| {
        Body::new(AnswerBody {
            body,
            connection,
            _held: held,
            _share: share.ok().flatten(),
        })
    })
}

/// Why a call is refused by its head, before its lane is taken and its body is read.
enum HeadRefusal {
    Api(ApiError),
    OpenAi(OpenAiError),
}

impl HeadRefusal {
    fn answer(&self, is_openai: bool) -> Response {
        match self {
            Self::Api(error) if is_openai => to_openai(error).into_response(),
            Self::Api(error) => error.clone().into_response(),
            Self::OpenAi(error) => error.clone().into_response(),
        }
    }
}

/// Refuses a call under a name that is not the listener's, and of a page that is not its own.
fn named(request: &Request) -> Result<(), HeadRefusal> {
    let names = request.extensions().get::<Arc<ListenerNames>>();
    names.map_or(Ok(()), |names| {
        names.check(request).map_err(HeadRefusal::Api)
    })
}

/// The place of a call that orders among those of its key: one key does not take all places of the lane. Nothing of other calls.
///
/// Stops: strangers who hold the places of the lane by bodies that come slowly. Without a key that is known no body is read.
fn key_share(shared: &Shared, request: &Request) -> Result<Option<ApiKeyPlace>, HeadRefusal> {
    if CallLane::of(request.method(), request.uri().path()) != CallLane::Completion {
        return Ok(None);
    }
    let caller = rate::caller(shared.port.as_ref(), request.headers());
    let most = shared.config.completions_max.div_ceil(2);
    let place = caller.and_then(|caller| shared.key_shares.take(&caller, most));
    place.map(Some).map_err(HeadRefusal::OpenAi)
}

/// The answer of a call that its lane takes.
async fn answered(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    (request, next): (Request, Next),
    held: &mut Vec<Ticket>,
) -> Response {
    let is_openai = request.uri().path().starts_with("/openai/");
    match prepare(shared, connection, request, held).await {
        Ok((lane, request)) => {
            let response = if lane == CallLane::Read {
                beside(shared, connection.peer, request, next).await
            } else {
                next.run(request).await
            };
            connection.set_rate_min(match lane {
                CallLane::Follow => shared.config.follow_rate_min,
                _ => 0,
            });
            connection.enter(match lane {
                // They wait for what happens, or for a provider.
                CallLane::Stream | CallLane::Completion | CallLane::Endpoint => Stage::Working,
                _ => Stage::Sending,
            });
            response
        }
        Err(error) if is_openai => to_openai(&error).into_response(),
        Err(error) => error.into_response(),
    }
}

/// A refusal before a request of the OpenAI routes was looked at: its body is too large or too slow, or too many calls are at work.
fn to_openai(error: &ApiError) -> OpenAiError {
    let status = error.status().as_u16();
    let kind = match status {
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    OpenAiError {
        status,
        kind,
        code: error.code().to_owned(),
        param: None,
        message: error.to_string(),
    }
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
    let large = (config.body_bytes_max, Some(&lanes.bodies));
    let request = match lane {
        // The handler reads the body piece by piece.
        CallLane::Upload => return Ok((lane, request)),
        CallLane::Development => {
            shared.port.development().ok_or(ApiError::NotDevelopment)?;
            held.push(lanes.enter(&lanes.development, peer).await?);
            read(config, connection, large, request).await?
        }
        CallLane::Completion => {
            held.push(lanes.enter(&lanes.completions, peer).await?);
            read(config, connection, large, request).await?
        }
        CallLane::Endpoint => {
            let limit = routes::endpoint_body(shared, request.uri().path())?;
            held.push(lanes.enter(&lanes.endpoints, peer).await?);
            let limit = limit.min(config.body_bytes_max);
            read(config, connection, (limit, large.1), request).await?
        }
        CallLane::Agent
        | CallLane::Read
        | CallLane::Download
        | CallLane::Stream
        | CallLane::Follow => {
            let small = (config.small_body_bytes_max, None);
            read(config, connection, small, request).await?
        }
    };
    match lane {
        CallLane::Agent => held.push(lanes.enter(&lanes.agents, peer).await?),
        CallLane::Read | CallLane::Download => held.push(lanes.enter(&lanes.sending, peer).await?),
        CallLane::Stream => held.push(enter_now(lanes, &lanes.streams, peer).await?),
        CallLane::Follow => held.push(lanes.enter(&lanes.followers, peer).await?),
        CallLane::Upload | CallLane::Development | CallLane::Completion | CallLane::Endpoint => {}
    }
    Ok((lane, request))
}

/// A place in a pool whose calls stay for long: with none free, whoever comes does not wait for one.
async fn enter_now(
    lanes: &Lanes,
    pool: &Arc<LanePool>,
    peer: PeerAddress,
) -> Result<Ticket, ApiError> {
    if let Some(limit) = pool.full() {
        return Err(ApiError::Busy { limit });
    }
    lanes.enter(pool, peer).await
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

/// Reads the body of a call, at most `limit` bytes and no slower than allowed. Those of large bodies are counted until the handler is done with
/// them.
async fn read(
    config: &ApiConfig,
    connection: &Connection,
    (limit, room): (usize, Option<&Arc<BodyRoom>>),
    request: Request,
) -> Result<Request, ApiError> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let mut body = IncomingBody::new(config, connection, body, limit);
    let declared = parts.headers.get(header::CONTENT_LENGTH);
    body.declared(declared.and_then(|it| it.to_str().ok()?.parse().ok()))?;
    let mut held = HeldBody {
        bytes: Vec::new(),
        place: room.map(|room| room.place(connection.peer)),
    };
    while let Some(piece) = body.next().await? {
        if let Some(place) = &mut held.place {
            place.grow(piece.len())?;
        }
        held.bytes.extend_from_slice(&piece);
    }
    connection.enter(Stage::Working);
    Ok(Request::from_parts(
        parts,
        Body::from(Bytes::from_owner(held)),
    ))
}

/// The body of a call in memory.
struct HeldBody {
    bytes: Vec<u8>,
    place: Option<BodyPlace>,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The body of an answer, with the places it holds until it is sent.
struct AnswerBody {
    body: Body,
    connection: Arc<Connection>,
    _held: Vec<Ticket>,
    _share: Option<ApiKeyPlace>,
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.connection.enter(Stage::Idle);
    }
}

impl HttpBody for AnswerBody {
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
