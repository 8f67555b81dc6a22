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
use tg_types::{JobId, LeaseId};
use tokio::sync::{mpsc, watch};

use super::extract::{SharedState, parse_query};
use crate::error::ApiError;
use crate::event_log::{EventPlace, EventsAfter, RenderedEvent};
use crate::happened::JobEvents;

/// How often a comment keeps a silent stream alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Events that wait for a client to take them. What it is behind by then is told from what is kept.
const WAITING_MAX: usize = 64;

/// Events that a stream looks at before others have their turn: it may have to look at all that are kept, and send none.
const LOOKED_AT_ONCE: usize = 256;

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
    let port = Arc::clone(&shared.port);
    let follower = EventFollower {
        // From now on, or from the first block that comes.
        place: place.or_else(|| shared.job_events.log.end()),
        is_resumed: place.is_some(),
        job,
        leases_of: Box::new(move |job| {
            let state = port.state();
            state.job(job).map(|it| it.leases()).unwrap_or_default()
        }),
        events: Arc::clone(&shared.job_events),
    };
    let messages = EventMessages::of(follower, shared.stopping.clone());
    Ok(Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn place_of(text: &str) -> Result<EventPlace, ApiError> {
    text.parse().map_err(|error| ApiError::Invalid {
        what: "the id of the last event",
        detail: format!("{error}"),
    })
}

/// Messages of a stream, which are made while they are read. Stops: streams that are left at once and go on being made, when the next ones have
/// their places already.
struct EventMessages {
    /// What makes them, until it ends.
    making: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    made: mpsc::Receiver<sse::Event>,
}

impl EventMessages {
    fn of(follower: EventFollower, mut stopping: watch::Receiver<bool>) -> Self {
        let (sender, made) = mpsc::channel(WAITING_MAX);
        let making = async move {
            tokio::select! {
                _ = stopping.wait_for(|&stop| stop) => {}
                () = follower.run(sender) => {}
            }
        };
        Self {
            making: Some(Box::pin(making)),
            made,
        }
    }
}

impl Stream for EventMessages {
    type Item = Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(making) = &mut self.making
            && making.as_mut().poll(context).is_ready()
        {
            // Dropping the sender ends the stream.
            self.making = None;
        }
        self.made.poll_recv(context).map(|it| it.map(Ok))
    }
}

/// The leases of a job.
type LeasesOf = Box<dyn Fn(&JobId) -> Vec<LeaseId> + Send + Sync>;

/// Tells a client what comes after a place.
struct EventFollower {
    /// Nothing as long as no block came: then all that is kept is told.
    place: Option<EventPlace>,
    /// Whether the client said after which event.
    is_resumed: bool,
    job: Option<JobId>,
    /// The leases of a job, as far as blocks are final.
    leases_of: LeasesOf,
    events: Arc<JobEvents>,
}

impl EventFollower {
    /// Goes on for as long as it is polled.
    async fn run(mut self, messages: mpsc::Sender<sse::Event>) {
        let mut noted = self.events.log.noted();
        let begin = self.place.filter(|_| !self.is_resumed);
        if let Some(begin) = begin {
            send(&messages, sse::Event::default().id(begin.to_string())).await;
        }
        loop {
            // What comes while this is told wakes it again.
            let _seen = *noted.borrow_and_update();
            let after = self.events.log.after(self.place);
            if let Some(after) = after {
                self.tell(&messages, after).await;
            }
            if noted.changed().await.is_err() {
                return;
            }
        }
    }

    async fn tell(&mut self, messages: &mpsc::Sender<sse::Event>, after: EventsAfter) {
        self.place = Some(after.end);
        if after.is_lost {
            send(messages, message(&RenderedEvent::of(&lost(&after)))).await;
        }
        let leases = self.job.map(|job| (self.leases_of)(&job));
        let leases = leases.unwrap_or_default();
        let mut looked_at = 0_usize;
        for (block, told) in &after.blocks {
            for (index, event) in block.events.iter().enumerate().skip(*told) {
                looked_at += 1;
                if looked_at.is_multiple_of(LOOKED_AT_ONCE) {
                    tokio::task::yield_now().await;
                }
                if self.is_told(event, &leases) {
                    let id = EventPlace::of(block.height, index).to_string();
                    send(messages, message(event).id(id)).await;
                }
            }
        }
    }

    /// Whether an event is of the job that is asked for, or of its leases.
    fn is_told(&self, event: &RenderedEvent, leases: &[LeaseId]) -> bool {
        match (event.job, event.lease) {
            _ if self.job.is_none() => true,
            (None, Some(lease)) => leases.contains(&lease),
            (job, _) => job == self.job,
        }
    }
}

/// Hands a message over, once there is room. Who takes them polls this, so they are never closed.
async fn send(messages: &mpsc::Sender<sse::Event>, message: sse::Event) {
    let _taken = messages.send(message).await;
}

fn message(event: &RenderedEvent) -> sse::Event {
    let message = sse::Event::default().event(&event.kind);
    message.data(&event.data)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::future::poll_fn;

    use tg_ledger::Event;

    use super::*;
    use crate::port::FinalizedEvents;

    /// A block with so many events of a job.
    fn block(height: u64, job: u8, events: usize) -> FinalizedEvents {
        let event = Event::ReplicasDiffer {
            lease: LeaseId::new([job; 32]),
            job: JobId::new([job; 32]),
        };
        FinalizedEvents {
            height,
            timestamp_ms: height * 1_000,
            events: Arc::new(vec![event; events]),
        }
    }

    fn events_of(events: &Arc<JobEvents>, job: u8) -> (watch::Sender<bool>, EventMessages) {
        let follower = EventFollower {
            place: None,
            is_resumed: true,
            job: Some(JobId::new([job; 32])),
            leases_of: Box::new(|_| Vec::new()),
            events: Arc::clone(events),
        };
        let (stop, stopping) = watch::channel(false);
        (stop, EventMessages::of(follower, stopping))
    }

    async fn next(messages: &mut EventMessages) -> Option<Result<sse::Event, Infallible>> {
        poll_fn(|context| Pin::new(&mut *messages).poll_next(context)).await
    }

    /// The attack: all events that are kept, of a job that has none, again and again on connections that are closed at once.
    #[tokio::test]
    async fn a_look_at_all_events_lets_others_have_their_turn_and_ends_with_its_reader() {
        let events = Arc::new(JobEvents::default());
        for height in 1..=100 {
            events.note(&block(height, 1, 100));
        }
        events.note(&block(101, 2, 1));
        let (_stop, mut messages) = events_of(&events, 2);
        let mut polls = 0;
        let first = poll_fn(|context| {
            polls += 1;
            Pin::new(&mut messages).poll_next(context)
        });
        assert!(first.await.is_some());
        assert!(polls > 10_000 / LOOKED_AT_ONCE, "{polls}");
        // Nothing but the reader's own stream looks at them.
        assert_eq!(Arc::strong_count(&events), 2);
        drop(messages);
        assert_eq!(Arc::strong_count(&events), 1);
    }

    #[tokio::test]
    async fn a_stream_ends_when_the_server_stops() {
        let events = Arc::new(JobEvents::default());
        events.note(&block(1, 1, 1));
        let (stop, mut messages) = events_of(&events, 1);
        assert!(next(&mut messages).await.is_some());
        stop.send(true).unwrap();
        assert!(next(&mut messages).await.is_none());
    }
}
