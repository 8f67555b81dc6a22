//! The routes of completions and chat completions.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use tg_types::{Digest, ServedCall};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::access::{caller, named, orders, parsed};
use super::answer::Frame;
use super::bodies;
use super::error::OpenAiError;
use super::pieces::{LimitedReceiver, limited_pieces};
use super::port::{Completion, CompletionOrder, PieceSender, Requester, TextPiece};
use super::replay::{self, Answer, AnswerId, RequestName, RequestTurn, Waiting};
use super::request::{self, CompletionKind};
use super::served;
use super::stream::{self, StreamPart};
use crate::routes::SharedState;
use crate::shared::Shared;

/// Text that goes on from a prompt, as OpenAI's legacy completions.
#[utoipa::path(
    post,
    path = "/openai/v1/completions",
    tag = "openai",
    request_body(content = bodies::CompletionBody, content_type = "application/json", description = "OpenAI's request; fields that are not served are refused by name"),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's completion, with `tensorgrid`: job, price, verify, receipt; a stream if asked for"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what is wrong, or not served"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: no such model"),
        (status = 413, content_type = "application/json", description = "OpenAI's error object: more bytes than are taken"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: the key's limit is reached"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: the grid cannot serve it now"),
    ),
)]
pub(crate) async fn completions(shared: SharedState, headers: HeaderMap, body: Bytes) -> Response {
    serve(&shared, &headers, body, CompletionKind::Text).await
}

/// The assistant's next words in a conversation, as OpenAI's chat completions.
#[utoipa::path(
    post,
    path = "/openai/v1/chat/completions",
    tag = "openai",
    request_body(content = bodies::ChatBody, content_type = "application/json", description = "OpenAI's request; fields that are not served are refused by name"),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's chat completion, with `tensorgrid`: job, price, verify, receipt; a stream if asked for"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what is wrong, or not served"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: no such model"),
        (status = 413, content_type = "application/json", description = "OpenAI's error object: more bytes than are taken"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: the key's limit is reached"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: the grid cannot serve it now"),
    ),
)]
pub(crate) async fn chat(shared: SharedState, headers: HeaderMap, body: Bytes) -> Response {
    serve(&shared, &headers, body, CompletionKind::Chat).await
}

async fn serve(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
    bytes: Bytes,
    kind: CompletionKind,
) -> Response {
    let name = match request_name(shared, headers, (kind as u8, &bytes)) {
        Ok(name) => name,
        Err(error) => return error.into_response(),
    };
    let call = match kind {
        CompletionKind::Text => ServedCall::Completion,
        CompletionKind::Chat => ServedCall::Chat,
    };
    let is_served = served::is_served(shared, (call, &bytes)).await;
    let body = match parsed(&bytes) {
        Ok(body) => body,
        Err(error) => return error.into_response(),
    };
    // The answer may take minutes.
    drop(bytes);
    if is_served {
        return served::respond(shared, name, call, body).await;
    }
    let begun = request::completion_of(kind, body).and_then(|asked| {
        let (sender, pieces) = limited_pieces();
        let sender = asked.stream.then_some(sender);
        let (id, waiting) = begin(shared, name, asked.order.clone(), sender)?;
        let frame = Frame::new(kind, asked.order.model.clone(), &id);
        Ok((asked, waiting, pieces, frame))
    });
    let (asked, waiting, pieces, frame) = match begun {
        Ok(begun) => begun,
        Err(error) => return error.into_response(),
    };
    if asked.stream {
        return streamed(asked.stream_usage, waiting, pieces, frame);
    }
    match replay::answer(waiting).await {
        Ok(completion) => Json(frame.whole(&completion)).into_response(),
        Err(error) => error.into_response(),
    }
}

/// What names a request of a kind.
pub(super) fn request_name(
    shared: &Shared,
    headers: &HeaderMap,
    (kind, body): (u8, &[u8]),
) -> Result<RequestName, OpenAiError> {
    Ok(RequestName {
        caller: caller(shared.port.as_ref(), headers)?,
        body: Digest::of_blob(&[&[kind], body].concat()),
        key: named(headers, "idempotency-key")?,
        is_retry: named(headers, "x-stainless-retry-count")?.is_some_and(|count| count != "0"),
    })
}

/// Orders what a request asks for, unless it came before. The work goes on if the connection is lost. Of one that came before nothing is sent to
/// `pieces`.
pub(super) fn begin(
    shared: &Arc<Shared>,
    name: RequestName,
    order: CompletionOrder,
    pieces: Option<PieceSender>,
) -> Result<(AnswerId, Waiting<Completion>), OpenAiError> {
    match shared.replays.turn(&name, Instant::now())? {
        RequestTurn::Again(id, waiting) => Ok((id, waiting)),
        RequestTurn::First(first) => {
            let shared = Arc::clone(shared);
            let by = Requester {
                caller: name.caller,
                record: first.record,
            };
            tokio::spawn(async move {
                let answer = complete(&shared, by, order, pieces).await;
                first.sender.send_replace(Some(answer));
            });
            Ok((first.id, first.waiting))
        }
    }
}

async fn complete(
    shared: &Shared,
    by: Requester,
    order: CompletionOrder,
    pieces: Option<PieceSender>,
) -> Answer<Completion> {
    let orders = orders(shared.port.as_ref())?;
    let completion = orders.complete(by, order, pieces).await;
    completion.map(Arc::new)
}

/// An answer in parts: what is sent as it is written, then what is left when all of it is there.
fn streamed(
    with_usage: bool,
    waiting: Waiting<Completion>,
    mut pieces: LimitedReceiver<TextPiece>,
    frame: Frame,
) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut sent: Vec<String> = Vec::new();
        while let Some(TextPiece { choice, text }) = pieces.recv().await {
            if sent.len() <= choice {
                sent.resize(choice + 1, String::new());
            }
            let parts = frame.piece((choice, &text), sent[choice].is_empty());
            sent[choice].push_str(&text);
            let parts = parts.into_iter().map(StreamPart::Data).collect();
            if sender.send(parts).await.is_err() {
                return;
            }
        }
        let parts = match replay::answer(waiting).await {
            Ok(completion) => frame.parts(&completion, with_usage, &sent),
            Err(error) => vec![error.object()],
        };
        let parts = parts.into_iter().map(StreamPart::Data);
        // Nobody may listen any more.
        let _ = sender.send(parts.chain([StreamPart::Done]).collect()).await;
    });
    stream::streamed(receiver)
}
