//! The OpenAI API: `/openai/v1/...`, beside our own routes. An official client is given `http://HOST/openai/v1` as its base.
//!
//! A completion is a job of the grid like any other: its prompt and how tokens are drawn are the order's input, and the answer
//! says job, price and how it was checked in the object `tensorgrid`. A request's field `tensorgrid` says what is asked
//! for: `verify` (none or proof), `max_price`, `top_k`. A job's tokens are there when its receipt is, so that a stream
//! begins when the job has ended; until then it is kept alive.
//!
//! - [`error`]: OpenAI's error object; [`port`]: what is needed of whoever orders; `request`, `answer`: the bodies;
//!   `replay`: a request that comes again is charged once.

mod answer;
pub mod error;
pub mod port;
mod replay;
mod request;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde_json::{Value, json};
use tg_ledger::ModelState;
use tg_types::Digest;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::routes::SharedState;
use crate::shared::Shared;
use answer::{CompletionKind, Frame};
use error::OpenAiError;
use port::{CompletionOrder, OpenAiPort};
pub(crate) use replay::Replays;
use replay::{Answer, RequestName, RequestTurn};
use request::Asked;

/// How often a stream that waits for its job says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Most bytes of a header that names a request.
const NAME_BYTES_MAX: usize = 256;

/// Most models in the list.
const MODELS_MAX: usize = 1_000;

/// The models that can be ordered from, as OpenAI lists them.
#[utoipa::path(
    get,
    path = "/openai/v1/models",
    tag = "openai",
    responses((status = 200, content_type = "application/json", description = "OpenAI's list of models")),
)]
pub(crate) async fn models(shared: SharedState) -> Json<Value> {
    let state = shared.port.state();
    let active = state.models().iter().filter(|model| {
        matches!(model.state, ModelState::Active(_)) && state.is_held(&model.storage)
    });
    let item = |model: &tg_ledger::Model| {
        json!({
            "id": model.name.to_string(), "object": "model", "created": 0,
            "owned_by": model.owner.to_string(), "tensorgrid": { "model": model.id.to_string() },
        })
    };
    let data: Vec<Value> = active.take(MODELS_MAX).map(item).collect();
    Json(json!({ "object": "list", "data": data }))
}

/// One model, as OpenAI shows it.
#[utoipa::path(
    get,
    path = "/openai/v1/models/{model}",
    tag = "openai",
    params(("model" = String, Path, description = "The model's name")),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's model object"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: there is none of that name"),
    ),
)]
pub(crate) async fn model(
    shared: SharedState,
    axum::extract::Path(name): axum::extract::Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let Json(mut list) = models(shared).await;
    let items = list["data"].as_array_mut().map(std::mem::take);
    let mut items = items.unwrap_or_default().into_iter();
    let found = items.find(|item| item["id"] == name.as_str());
    found.map(Json).ok_or_else(|| OpenAiError::model(&name))
}

/// Text that goes on from a prompt, as OpenAI's legacy completions.
#[utoipa::path(
    post,
    path = "/openai/v1/completions",
    tag = "openai",
    request_body(content_type = "application/json", description = "OpenAI's request; fields that are not served are refused by name"),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's completion, with `tensorgrid`: job, price, verify, receipt; a stream if asked for"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what is wrong, or not served"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: no such model"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: the key's limit is reached"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: the grid cannot serve it now"),
    ),
)]
pub(crate) async fn completions(shared: SharedState, headers: HeaderMap, body: Bytes) -> Response {
    serve(&shared, &headers, &body, CompletionKind::Text).await
}

/// The assistant's next words in a conversation, as OpenAI's chat completions.
#[utoipa::path(
    post,
    path = "/openai/v1/chat/completions",
    tag = "openai",
    request_body(content_type = "application/json", description = "OpenAI's request; fields that are not served are refused by name"),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's chat completion, with `tensorgrid`: job, price, verify, receipt; a stream if asked for"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what is wrong, or not served"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: no such model"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: the key's limit is reached"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: the grid cannot serve it now"),
    ),
)]
pub(crate) async fn chat(shared: SharedState, headers: HeaderMap, body: Bytes) -> Response {
    serve(&shared, &headers, &body, CompletionKind::Chat).await
}

/// Vectors of texts; refused, because no model gives them.
#[utoipa::path(
    post,
    path = "/openai/v1/embeddings",
    tag = "openai",
    responses(
        (status = 400, content_type = "application/json", description = "OpenAI's error object: embeddings are not served"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
    ),
)]
pub(crate) async fn embeddings(
    shared: SharedState,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    caller(orders(&shared)?, &headers)?;
    Err(OpenAiError::unsupported("embeddings"))
}

/// What is not served, with OpenAI's error object.
pub(crate) fn no_such_path(path: &str) -> OpenAiError {
    OpenAiError {
        status: 404,
        code: "unknown_url".to_owned(),
        param: None,
        ..OpenAiError::invalid("path", format!("{path} is not served here"))
    }
}

async fn serve(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
    body: &[u8],
    kind: CompletionKind,
) -> Response {
    match begin(shared, headers, body, kind) {
        Ok((asked, waiting, frame)) => {
            if asked.stream {
                streamed(asked.stream_usage, waiting, frame)
            } else {
                match replay::answer(waiting).await {
                    Ok(completion) => Json(frame.whole(&completion)).into_response(),
                    Err(error) => error.into_response(),
                }
            }
        }
        Err(error) => error.into_response(),
    }
}

type Begun = (Asked, tokio::sync::watch::Receiver<Option<Answer>>, Frame);

/// Reads a request and orders what it asks for, unless it came before. The work goes on if the connection is lost.
fn begin(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
    body: &[u8],
    kind: CompletionKind,
) -> Result<Begun, OpenAiError> {
    let caller = caller(orders(shared)?, headers)?;
    let parsed: Value = serde_json::from_slice(body)
        .map_err(|error| OpenAiError::invalid("body", format!("read the JSON body: {error}")))?;
    let asked = match kind {
        CompletionKind::Text => request::completion(parsed)?,
        CompletionKind::Chat => request::chat(parsed)?,
    };
    let name = RequestName {
        caller: caller.clone(),
        body: Digest::of_blob(&[&[kind as u8], body].concat()),
        key: named(headers, "idempotency-key")?,
        is_retry: named(headers, "x-stainless-retry-count")?.is_some_and(|count| count != "0"),
    };
    let frame = Frame::new(
        kind,
        asked.order.model.clone(),
        &name.body.to_string()[2..26],
    );
    let waiting = match shared.replays.turn(&name, Instant::now())? {
        RequestTurn::Again(waiting) => waiting,
        RequestTurn::First(sender, waiting) => {
            let (shared, order) = (Arc::clone(shared), asked.order.clone());
            tokio::spawn(async move {
                let answer = complete(&shared, caller, order).await;
                sender.send_replace(Some(answer));
            });
            waiting
        }
    };
    Ok((asked, waiting, frame))
}

async fn complete(shared: &Shared, caller: String, order: CompletionOrder) -> Answer {
    let completion = orders(shared)?.complete(caller, order).await;
    completion.map(Arc::new)
}

/// Whoever orders for callers.
fn orders(shared: &Shared) -> Result<&dyn OpenAiPort, OpenAiError> {
    shared.port.openai().ok_or_else(|| {
        let message = "this node orders for nobody: it was started without API keys";
        OpenAiError::unavailable(message.to_owned())
    })
}

fn caller(orders: &dyn OpenAiPort, headers: &HeaderMap) -> Result<String, OpenAiError> {
    let header = headers.get(header::AUTHORIZATION);
    let text = header.and_then(|value| value.to_str().ok());
    let key = text.and_then(|text| text.strip_prefix("Bearer "));
    let caller = key.and_then(|key| orders.caller(key.trim()));
    caller.ok_or_else(OpenAiError::key)
}

/// A header that names a request.
fn named(headers: &HeaderMap, name: &str) -> Result<Option<String>, OpenAiError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = value
        .to_str()
        .ok()
        .filter(|text| text.len() <= NAME_BYTES_MAX);
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        OpenAiError::invalid(
            name,
            format!("{name} is text of at most {NAME_BYTES_MAX} bytes"),
        )
    })
}

/// An answer in parts, once it is there.
fn streamed(
    with_usage: bool,
    waiting: tokio::sync::watch::Receiver<Option<Answer>>,
    frame: Frame,
) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let parts = match replay::answer(waiting).await {
            Ok(completion) => frame.parts(&completion, with_usage),
            Err(error) => vec![error.object()],
        };
        // Nobody may listen any more.
        let _ = sender.send(parts).await;
    });
    let parts = AnswerParts {
        receiver,
        ready: VecDeque::new(),
    };
    Sse::new(parts)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}

/// The parts of an answer, then the word that ends a stream.
struct AnswerParts {
    receiver: mpsc::Receiver<Vec<Value>>,
    ready: VecDeque<String>,
}

impl Stream for AnswerParts {
    type Item = Result<sse::Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(sse::Event::default().data(data))));
            }
            match self.receiver.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(parts)) => {
                    self.ready.extend(parts.iter().map(Value::to_string));
                    self.ready.push_back("[DONE]".to_owned());
                }
            }
        }
    }
}
