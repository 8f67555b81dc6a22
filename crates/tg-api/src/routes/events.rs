//! Server-sent events: what finalised blocks do.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::IntoResponse;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_core::Stream;
use tg_sdk::ErrorBody;
use tg_sdk::dto::EventDto;
use tokio::sync::mpsc;

use super::extract::SharedState;
use crate::port::FinalizedEvents;
use crate::view;

/// How often a comment keeps a silent stream alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What finalised blocks do, from now on, as server-sent events whose data is JSON. The stream ends when the node
/// stops or the client reads too slowly; a client then asks for the state and listens again.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "grid",
    responses(
        (status = 200, content_type = "text/event-stream", body = EventDto, description = "One event after the other"),
        (status = 503, body = ErrorBody, description = "Too many streams"),
    ),
)]
pub(super) async fn events(shared: SharedState) -> impl IntoResponse {
    let (stop_sender, stopped) = mpsc::channel(1);
    let mut stopping = shared.stopping.clone();
    tokio::spawn(async move {
        tokio::select! {
            // Dropping the sender ends the stream.
            _ = stopping.wait_for(|&stop| stop) => {}
            () = stop_sender.closed() => {}
        }
    });
    let stream = Events {
        blocks: shared.port.subscribe(),
        stopped,
        ready: VecDeque::new(),
    };
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Events of blocks as they come.
struct Events {
    blocks: mpsc::Receiver<FinalizedEvents>,
    stopped: mpsc::Receiver<()>,
    ready: VecDeque<EventDto>,
}

impl Stream for Events {
    type Item = Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                let data = serde_json::to_string(&event).unwrap_or_default();
                let message = sse::Event::default().event(event.kind).data(data);
                return Poll::Ready(Some(Ok(message)));
            }
            if self.stopped.poll_recv(context).is_ready() {
                return Poll::Ready(None);
            }
            match self.blocks.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(block)) => self.ready.extend(view::events(&block)),
            }
        }
    }
}
