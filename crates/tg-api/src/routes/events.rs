//! Server-sent events: what finalised blocks do.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_core::Stream;
use serde::Deserialize;
use tg_sdk::ErrorBody;
use tg_sdk::dto::EventDto;
use tg_types::JobId;
use tokio::sync::mpsc;

use super::extract::{SharedState, parse_query};
use crate::error::ApiError;
use crate::event_log::{EventPlace, EventsAfter};
use crate::shared::Shared;
use crate::view;

/// How often a comment keeps a silent stream alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Events that wait for a client to take them. What it is behind by then is told from what is kept.
const WAITING_MAX: usize = 64;

/// The kind of an event that no block has: that some may be missing.
const EVENTS_LOST: &str = "events_lost";

/// In it a client that connects again names the last event that came.
const LAST_EVENT_ID: &str = "last-event-id";

/// Which events are wanted.
#[derive(Debug, Deserialize)]
pub(super) struct EventsQuery {
    after: Option<String>,
    job: Option<String>,
}

/// What finalised blocks do, as server-sent events whose data is JSON: from now on, or after an event whose id is given. Ids are the height of
/// the block and the place in it, the same on every node; a message that has an id and no data says where the stream begins. The stream ends
/// when the node stops or the client reads too slowly; a client then connects again and names the last id, as browsers do by themselves. A node
/// keeps the newest events of all: what was between and is not kept is said by an event of kind `events_lost`, after which a client asks
/// for the state.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "grid",
    params(
        ("after" = Option<String>, Query, description = "The id of the last event that came, such as 1200-3, or the height of a block; what follows it is told"),
        ("job" = Option<String>, Query, description = "Only events of this job and its leases"),
        ("Last-Event-ID" = Option<String>, Header, description = "The same as `after`, which it comes before"),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = EventDto, description = "One event after the other"),
        (status = 400, body = ErrorBody, description = "An id is not valid"),
        (status = 503, body = ErrorBody, description = "Too many streams"),
    ),
)]
pub(super) async fn events(
    shared: SharedState,
    query: Result<Query<EventsQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    let Query(EventsQuery { after, job }) = query?;
    let job = parse_query::<JobId>(job.as_deref())?;
    let header = headers.get(LAST_EVENT_ID);
    let last = header.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
    let place = last.or(after).as_deref().map(place_of).transpose()?;
    let (sender, messages) = mpsc::channel(WAITING_MAX);
    let follower = EventFollower {
        // From now on, or from the first block that comes.
        place: place.or_else(|| shared.job_events.log.end()),
        is_resumed: place.is_some(),
        job,
        sender,
        shared: Arc::clone(&shared.0),
    };
    let mut stopping = shared.stopping.clone();
    tokio::spawn(async move {
        tokio::select! {
            // Dropping the sender ends the stream.
            _ = stopping.wait_for(|&stop| stop) => {}
            () = follower.run() => {}
        }
    });
    Ok(Sse::new(EventMessages(messages)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn place_of(text: &str) -> Result<EventPlace, ApiError> {
    text.parse().map_err(|error| ApiError::Invalid {
        what: "the id of the last event",
        detail: format!("{error}"),
    })
}

/// EventMessages of a stream, as they come.
struct EventMessages(mpsc::Receiver<sse::Event>);

impl Stream for EventMessages {
    type Item = Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|it| it.map(Ok))
    }
}

/// The client takes no more.
struct ClientGone;

/// Tells a client what comes after a place.
struct EventFollower {
    /// Nothing as long as no block came: then all that is kept is told.
    place: Option<EventPlace>,
    /// Whether the client said after which event.
    is_resumed: bool,
    job: Option<JobId>,
    sender: mpsc::Sender<sse::Event>,
    shared: Arc<Shared>,
}

impl EventFollower {
    /// Goes on until the client is gone.
    async fn run(mut self) {
        let mut noted = self.shared.job_events.log.noted();
        let begin = self.place.filter(|_| !self.is_resumed);
        let begin = begin.map(|it| sse::Event::default().id(it.to_string()));
        if let Some(begin) = begin
            && self.send(begin).await.is_err()
        {
            return;
        }
        loop {
            // What comes while this is told wakes it again.
            let _seen = *noted.borrow_and_update();
            if let Some(after) = self.shared.job_events.log.after(self.place)
                && self.tell(after).await.is_err()
            {
                return;
            }
            tokio::select! {
                noted = noted.changed() => if noted.is_err() { return },
                () = self.sender.closed() => return,
            }
        }
    }

    async fn tell(&mut self, after: EventsAfter) -> Result<(), ClientGone> {
        self.place = Some(after.end);
        if after.is_lost {
            self.send(message(&lost(&after))).await?;
        }
        for (block, told) in &after.blocks {
            let events = view::events(block).into_iter();
            for (index, event) in events.enumerate().skip(*told) {
                if self.job.is_none_or(|job| self.is_of(&event, job)) {
                    let id = EventPlace::of(event.height, index).to_string();
                    self.send(message(&event).id(id)).await?;
                }
            }
        }
        Ok(())
    }

    /// Whether an event is of a job or its leases.
    fn is_of(&self, event: &EventDto, job: JobId) -> bool {
        let lease = event.lease.filter(|_| event.job.is_none());
        let Some(lease) = lease else {
            return event.job == Some(job);
        };
        let state = self.shared.port.state();
        let job = state.job(&job);
        job.is_some_and(|it| it.leases().contains(&lease))
    }

    async fn send(&self, message: sse::Event) -> Result<(), ClientGone> {
        self.sender.send(message).await.map_err(|_| ClientGone)
    }
}

fn message(event: &EventDto) -> sse::Event {
    let data = serde_json::to_string(event).unwrap_or_default();
    sse::Event::default().event(&event.kind).data(data)
}

/// That events may be missing before those which follow.
fn lost(after: &EventsAfter) -> EventDto {
    EventDto {
        height: after.since,
        timestamp_ms: after.end_ms,
        kind: EVENTS_LOST.to_owned(),
        job: None,
        lease: None,
        model: None,
        account: None,
        amount: None,
        file: None,
        text: format!(
            "events may be missing here: this node keeps those from block {} on",
            after.since
        ),
    }
}
