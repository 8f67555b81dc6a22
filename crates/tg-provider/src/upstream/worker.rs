//! The worker that answers requests of served models by asking the provider's own servers.
//!
//! A request contains only fields that this crate knows, with the limits by which it is charged: servers have other names for
//! these limits that take precedence over those of the API, and nobody pays for what a server writes beyond them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use serde_json::{Map, Value, json};
use tg_sdk::endpoint::served::{
    AskedTokens, SERVED_ANSWER_BYTES_MAX, ServedAnswer, ServedRequest, written_tokens_max,
};
use tg_types::{Decode as _, Digest, Encode as _, ModelId, ServedCall, ServedCard, TokenUsage};
use tokio::sync::Semaphore;

use super::client::{ERROR_BYTES_MAX, UpstreamClient, UpstreamError};
use super::config::UpstreamConfig;
use super::health::UpstreamHealth;
use super::stream::{AssembledAnswer, EventLines, StreamEvent, StreamFault};
use crate::worker::{Execution, PieceTaker, Progress, ServedFuture, Task, WorkError, Worker};

/// How long one request may take, waiting for its turn included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(900);

/// How often whoever waits for an answer is told that it is being made.
const STILL_HERE: Duration = Duration::from_secs(2);

/// Bytes of a stream, at most: a context of 2^17 tokens in the usual pieces.
const STREAM_BYTES_MAX: usize = 48 << 20;

/// Pieces of a stream beyond one for each token that may come: the role, the end, the usage.
const PIECES_MORE: u32 = 64;

/// Fields of all requests for text that are sent to a server as they are.
const TEXT_FIELDS: [&str; 14] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "repeat_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "response_format",
];

/// Fields of one kind of request that are sent as they are.
const fn own_fields(call: ServedCall) -> &'static [&'static str] {
    match call {
        ServedCall::Chat => &[
            "messages",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "functions",
            "function_call",
            "reasoning_effort",
            "verbosity",
            "chat_template_kwargs",
        ],
        ServedCall::Completion => &["prompt", "suffix", "echo"],
        ServedCall::Embedding => &["input", "encoding_format", "dimensions"],
    }
}

/// Fields that are written anew, or that a server has no use for.
const NOT_SENT: [&str; 13] = [
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "best_of",
    "user",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "store",
    "service_tier",
];

/// A server for one served model.
#[derive(Debug)]
pub struct ServedUpstream {
    card: ServedCard,
    model: String,
    client: UpstreamClient,
    health: UpstreamHealth,
    places: Arc<Semaphore>,
}

impl ServedUpstream {
    /// The server of a configuration, under the card that was registered for it.
    #[must_use]
    pub fn new(
        config: &UpstreamConfig,
        card: ServedCard,
        client: UpstreamClient,
        health: UpstreamHealth,
    ) -> Self {
        Self {
            card,
            model: config.at.model.clone(),
            client,
            health,
            places: Arc::new(Semaphore::new(config.at_once.max(1).into())),
        }
    }
}

/// Answers requests of served models, and does no other work.
#[derive(Debug)]
pub struct UpstreamWorker {
    servers: BTreeMap<ModelId, Arc<ServedUpstream>>,
}

impl UpstreamWorker {
    /// A worker with these servers.
    #[must_use]
    pub fn new(servers: Vec<ServedUpstream>) -> Self {
        let servers = servers.into_iter();
        let servers = servers.map(|it| (it.card.model_id(), Arc::new(it)));
        Self {
            servers: servers.collect(),
        }
    }
}

/// The offer is for served models, and nothing else comes.
#[derive(Debug, thiserror::Error)]
#[error("this provider serves models by a server of its own and does no other work")]
struct NoOtherWork;

impl Worker for UpstreamWorker {
    fn execute(&self, _: &Task, _: &dyn Fn(Progress)) -> Result<Execution, WorkError> {
        Err(WorkError::Execute(NoOtherWork.into()))
    }

    fn answer(&self, _: &Task, _: &mut dyn FnMut(&[u8]) -> bool) -> Result<Vec<u8>, WorkError> {
        Err(WorkError::Execute(NoOtherWork.into()))
    }

    fn serve(&self, task: &Task, pieces: PieceTaker) -> Option<ServedFuture> {
        let server = Arc::clone(self.servers.get(&task.model)?);
        let input = Arc::clone(&task.input);
        Some(Box::pin(async move {
            let answer = answer(&server, &input, pieces).await;
            let answer = answer.map_err(|error| WorkError::Server(error.into()))?;
            Ok(answer.to_bytes())
        }))
    }

    fn open(&self, _: &Task, _: &Execution, _: &Digest) -> Result<Vec<u8>, WorkError> {
        Err(WorkError::Execute(NoOtherWork.into()))
    }

    fn prove(
        &self,
        _: &Task,
        _: &Execution,
        _: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<u8>, WorkError> {
        Err(WorkError::Prove(NoOtherWork.into()))
    }
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    /// The server is gone.
    #[error("the server is gone: {0}")]
    Gone(String),
    /// The request is none.
    #[error("this is no request of the OpenAI API")]
    NoRequest,
    /// The model cannot be asked for that.
    #[error("this model does not serve {}", .0.as_str())]
    NotServed(ServedCall),
    /// It took too long.
    #[error("no answer within {} s", REQUEST_TIME_MAX.as_secs())]
    TooLong,
    /// The server failed.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

/// Asks the server what a request asks.
async fn answer(
    server: &ServedUpstream,
    input: &[u8],
    mut pieces: PieceTaker,
) -> Result<ServedAnswer, AskError> {
    if let Some(reason) = server.health.gone() {
        return Err(AskError::Gone(reason));
    }
    let request = ServedRequest::from_bytes(input).map_err(|_| AskError::NoRequest)?;
    if !server.card.serves(request.call) {
        return Err(AskError::NotServed(request.call));
    }
    let bound = request.bound(&server.card).ok_or(AskError::NoRequest)?;
    let body: Value = serde_json::from_slice(&request.body).map_err(|_| AskError::NoRequest)?;
    // Stops: a server beside the provider that fetches what a stranger names.
    if names_address(&body["messages"]) {
        return Ok(refusal(
            400,
            "content is sent with the request, as a `data:` URL, and not by its address",
        ));
    }
    let body = match body_for(server, &request, body) {
        Ok(body) => body,
        Err(refused) => return Ok(refusal(400, &refused)),
    };
    let asked = async {
        // Nobody closes it.
        let _place = waiting(&mut pieces, server.places.acquire()).await;
        let asking = Asking {
            server,
            request: &request,
            bound,
            pieces,
        };
        asking.answer(body).await
    };
    let asked = tokio::time::timeout(REQUEST_TIME_MAX, asked).await;
    Ok(asked.map_err(|_| AskError::TooLong)??)
}

/// The body as the server takes it: its own name for the model, and whether pieces are wanted.
fn body_for(
    server: &ServedUpstream,
    request: &ServedRequest,
    body: Value,
) -> Result<Vec<u8>, String> {
    let mut fields = sent_fields(request.call, server.card.context, body)?;
    fields.insert("model".to_owned(), json!(server.model));
    if request.stream && request.call != ServedCall::Embedding {
        fields.insert("stream".to_owned(), json!(true));
        let options = json!({ "include_usage": true });
        fields.insert("stream_options".to_owned(), options);
    }
    serde_json::to_vec(&Value::Object(fields)).map_err(|error| error.to_string())
}

/// The fields that are passed on to the server: the known ones, and the charged limits under every name that servers use
/// for them.
///
/// # Errors
/// What of it is not sent to servers.
fn sent_fields(call: ServedCall, context: u32, body: Value) -> Result<Map<String, Value>, String> {
    let no_request = || AskError::NoRequest.to_string();
    let asked = AskedTokens::of(&body).ok_or_else(no_request)?;
    let Value::Object(fields) = body else {
        return Err(no_request());
    };
    let count = |name: &str| fields.get(name).and_then(Value::as_u64).unwrap_or(1);
    if count("best_of") > count("n") {
        return Err("`best_of` above `n` is not sent to a model's server".to_owned());
    }
    let mut sent = Map::new();
    for (name, value) in fields {
        let is_text = call != ServedCall::Embedding && TEXT_FIELDS.contains(&name.as_str());
        if is_text || own_fields(call).contains(&name.as_str()) {
            sent.insert(name, value);
        } else if !NOT_SENT.contains(&name.as_str()) && !value.is_null() {
            // Stops: a server's own names for what limits an answer.
            let call = call.as_str();
            return Err(format!(
                "`{name}` is no field of {call} that is sent to a model's server"
            ));
        }
    }
    if call == ServedCall::Embedding {
        return Ok(sent);
    }
    if asked.choices > 1 {
        sent.insert("n".to_owned(), json!(asked.choices));
    }
    if let Some(each) = asked.each {
        let each = json!(each.min(context));
        sent.insert("max_tokens".to_owned(), each.clone());
        if call == ServedCall::Chat {
            sent.insert("max_completion_tokens".to_owned(), each);
        }
    }
    Ok(sent)
}

/// Whether a part of messages names content by an address: a field `url`, or one that ends in `_url`, that is no `data:` URL.
fn names_address(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(names_address),
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::String(text) if name == "url" || name.ends_with("_url") => {
                !text.trim_start().to_ascii_lowercase().starts_with("data:")
            }
            value => names_address(value),
        }),
        _ => false,
    }
}

/// An error of the API that the caller reads, and that costs nothing.
fn refusal(status: u16, message: &str) -> ServedAnswer {
    ServedAnswer {
        status,
        usage: TokenUsage::default(),
        body: json!({ "error": { "message": message } })
            .to_string()
            .into_bytes(),
    }
}

/// One request on its way.
struct Asking<'a> {
    server: &'a ServedUpstream,
    request: &'a ServedRequest,
    bound: TokenUsage,
    pieces: PieceTaker,
}

impl Asking<'_> {
    async fn answer(mut self, body: Vec<u8>) -> Result<ServedAnswer, UpstreamError> {
        let client = &self.server.client;
        let sent = client.post(self.request.call.path(), body);
        let answer = waiting(&mut self.pieces, sent).await?;
        let status = answer.status().as_u16();
        if !answer.status().is_success() {
            return self.refused(status, answer).await;
        }
        let is_stream = answer
            .headers()
            .get(hyper::header::CONTENT_TYPE)
            .and_then(|it| it.to_str().ok())
            .is_some_and(|it| it.starts_with("text/event-stream"));
        let whole = match is_stream {
            true => self.streamed(answer).await?,
            false => {
                let read = client.read(answer, SERVED_ANSWER_BYTES_MAX);
                let body = waiting(&mut self.pieces, read).await?;
                let whole = serde_json::from_slice::<Value>(&body);
                whole.map_err(|_| client.unreadable("it is no JSON"))?
            }
        };
        self.whole(status, whole)
    }

    /// What the server refuses because of the request is the caller's to read; all else is the provider's fault.
    async fn refused(
        self,
        status: u16,
        answer: Response<Incoming>,
    ) -> Result<ServedAnswer, UpstreamError> {
        let client = &self.server.client;
        if !matches!(status, 400 | 413 | 422) {
            return Err(client.status(status));
        }
        let body = client.read(answer, ERROR_BYTES_MAX).await?;
        let said = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        let message = said["error"]["message"].as_str();
        let message = message
            .or(said["error"].as_str())
            .or(said["message"].as_str());
        let message = message.unwrap_or("the model's server refused the request");
        Ok(refusal(status, message))
    }

    /// The answer that a stream makes; its pieces are given on.
    async fn streamed(&mut self, answer: Response<Incoming>) -> Result<Value, UpstreamError> {
        let client = &self.server.client;
        let fault = |fault: StreamFault| client.unreadable(fault.0);
        let (mut lines, mut assembled) = (EventLines::default(), AssembledAnswer::default());
        let (mut bytes, mut count) = (0, 0);
        let mut body = answer.into_body();
        loop {
            let frame = client.in_time(body.frame());
            let frame = waiting(&mut self.pieces, frame).await?;
            let Some(frame) = frame else {
                // Not every server says that it is done.
                return Ok(assembled.whole(self.request.call));
            };
            let frame = frame.map_err(|error| client.unreachable(error))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            bytes += data.len();
            if bytes > STREAM_BYTES_MAX {
                return Err(client.too_large(STREAM_BYTES_MAX));
            }
            for event in lines.take(&data).map_err(fault)? {
                let StreamEvent::Data(piece) = event else {
                    return Ok(assembled.whole(self.request.call));
                };
                count += 1;
                if count > self.bound.completion.saturating_add(PIECES_MORE) {
                    return Err(
                        client.unreadable("its stream has more pieces than tokens were asked for")
                    );
                }
                if let Some(choices) = assembled.take(piece).map_err(fault)? {
                    (self.pieces)(choices.to_string().as_bytes());
                }
            }
        }
    }

    /// An answer with what is charged for it: nothing if the server does not say. One of more tokens than there can be is not given.
    fn whole(&self, status: u16, mut whole: Value) -> Result<ServedAnswer, UpstreamError> {
        let client = &self.server.client;
        let list = match self.request.call {
            ServedCall::Chat | ServedCall::Completion => "choices",
            ServedCall::Embedding => "data",
        };
        if !whole[list].is_array() {
            return Err(client.unreadable("it has neither `choices` nor `data`"));
        }
        let usage = usage_of(&whole);
        // Stops: an answer that is longer than what it is charged for.
        if usage.completion > self.bound.completion {
            return Err(client.unreadable("it has more tokens than were asked for"));
        }
        whole["model"] = json!(self.server.card.name.as_str());
        let body = whole.to_string().into_bytes();
        if body.len() > SERVED_ANSWER_BYTES_MAX {
            return Err(client.too_large(SERVED_ANSWER_BYTES_MAX));
        }
        // Tokens of a prompt beyond the bound are not charged, as the form that a conversation is given is the server's; neither is what it
        // wrote and does not give.
        let usage = usage.cut_to(TokenUsage {
            completion: self.bound.completion.min(written_tokens_max(&body)),
            ..self.bound
        });
        Ok(ServedAnswer {
            status,
            usage,
            body,
        })
    }
}

/// The tokens that a server says.
fn usage_of(answer: &Value) -> TokenUsage {
    let count = |name: &str| {
        let count = answer["usage"][name].as_u64().unwrap_or(0);
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    TokenUsage {
        prompt: count("prompt_tokens"),
        completion: count("completion_tokens"),
    }
}

/// Waits for something, and says now and then that it is waited for: whoever asked takes silence for a loss.
async fn waiting<T>(pieces: &mut PieceTaker, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(STILL_HERE, &mut work).await {
            Ok(done) => return done,
            Err(_) => pieces(&[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_sent_the_limits_that_the_request_is_charged_by() {
        let sent = |call, body| sent_fields(call, 1_000, body).map(Value::Object);
        // vLLM takes the second, and llama.cpp would take `n_predict`.
        let both =
            json!({"messages": [], "max_tokens": 1, "max_completion_tokens": 8_000, "user": "x"});
        let expected = json!({"messages": [], "max_tokens": 1, "max_completion_tokens": 1});
        assert_eq!(sent(ServedCall::Chat, both), Ok(expected));
        let none = json!({"messages": [], "max_tokens": null, "n": 1, "temperature": 0.5});
        let expected = json!({"messages": [], "temperature": 0.5});
        assert_eq!(sent(ServedCall::Chat, none), Ok(expected));
        let many = json!({"prompt": "a", "n": 2, "best_of": 2, "max_tokens": 7_000});
        let expected = json!({"prompt": "a", "n": 2, "max_tokens": 1_000});
        assert_eq!(sent(ServedCall::Completion, many), Ok(expected));
        let best = json!({"prompt": "a", "n": 2, "best_of": 3});
        assert!(sent(ServedCall::Completion, best).is_err());
        for name in [
            "n_predict",
            "n_cmpl",
            "min_tokens",
            "ignore_eos",
            "num_predict",
            "use_beam_search",
            "prompt",
        ] {
            let refused = sent(ServedCall::Chat, json!({"messages": [], name: 8_000}));
            assert!(refused.is_err_and(|it| it.contains(name)), "{name}");
        }
        assert!(sent(ServedCall::Chat, json!({"max_tokens": 0})).is_err());
        assert!(
            sent(
                ServedCall::Embedding,
                json!({"input": "a", "temperature": 1})
            )
            .is_err()
        );
        let input = json!({"input": "a"});
        assert_eq!(sent(ServedCall::Embedding, input.clone()), Ok(input));
    }

    #[test]
    fn content_by_address_is_found() {
        let content = |part: Value| json!([{"role": "user", "content": [{"type": "text", "text": "see http://x"}, part]}]);
        for (part, is_named) in [
            (
                json!({"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}),
                true,
            ),
            (
                json!({"type": "image_url", "image_url": "file:///etc/passwd"}),
                true,
            ),
            (
                json!({"type": "video_url", "video_url": {"url": " https://example.org/v"}}),
                true,
            ),
            (
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}),
                false,
            ),
            (json!({"type": "text", "text": "http://example.org"}), false),
        ] {
            assert_eq!(names_address(&content(part.clone())), is_named, "{part}");
        }
    }
}
