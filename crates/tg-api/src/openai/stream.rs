//! Answers in parts.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde_json::Value;
use tokio::sync::mpsc;

/// How often a stream that waits for its job says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// A part of an answer.
#[derive(Debug)]
pub(super) enum StreamPart {
    /// Data without a name, as completions have it.
    Data(Value),
    /// Data whose field `type` names the event, as responses have it.
    Event(Value),
    /// The word that ends a stream of completions.
    Done,
}

impl StreamPart {
    fn event(self) -> sse::Event {
        match self {
            Self::Data(value) => sse::Event::default().data(value.to_string()),
            Self::Event(value) => {
                let name = value["type"].as_str().unwrap_or("error");
                sse::Event::default().event(name).data(value.to_string())
            }
            Self::Done => sse::Event::default().data("[DONE]"),
        }
    }
}

/// An answer whose parts come in groups, until the sender is dropped.
pub(super) fn streamed(receiver: mpsc::Receiver<Vec<StreamPart>>) -> Response {
    let parts = AnswerParts {
        receiver,
        ready: VecDeque::new(),
    };
    Sse::new(parts)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}

struct AnswerParts {
    receiver: mpsc::Receiver<Vec<StreamPart>>,
    ready: VecDeque<StreamPart>,
}

impl Stream for AnswerParts {
    type Item = Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(part.event())));
            }
            match self.receiver.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(parts)) => self.ready.extend(parts),
            }
        }
    }
}
