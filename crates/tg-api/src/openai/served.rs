//! Requests of served models: a provider's own server answers them, so they go through as they were written, and what comes back does too.
//! What is checked here is what costs money: who asks, what it may cost, and that it is asked once.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tg_sdk::endpoint::served::SERVED_CHOICES_MAX;
use tg_types::{Address, ServedCall};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::access::orders;
use super::error::OpenAiError;
use super::fields::BodyFields;
use super::pieces::{LimitedReceiver, limited_pieces};
use super::port::{AskedBody, ChoiceSender, Requester, ServedOrder, ServedReply};
use super::replay::{self, Answer, AnswerId, RequestName, RequestTurn, Waiting};
use super::request::ours;
use super::stream::{self, StreamPart};
use crate::json::{JsonLimit, read_json};
use crate::shared::Shared;

/// Fields that say nothing to the model: they are not sent to a provider.
const KEPT_HERE: [&str; 6] = [
    "user",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "store",
    "service_tier",
];

/// Providers that a request may name.
const PROVIDERS_MAX: usize = 64;

/// A request, and how its answer is sent.
#[derive(Debug, Clone, PartialEq)]
struct AskedServed {
    order: ServedOrder,
    stream_usage: bool,
}

/// The model that a body names; of its other fields nothing is made.
#[derive(Deserialize)]
struct NamedModel<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
}

/// Whether the model that a body names is a served one for this call. The body waits as its bytes for what the grid says.
pub(super) async fn is_served(shared: &Shared, (call, body): (ServedCall, &[u8])) -> bool {
    let named = read_json::<NamedModel<'_>>(body, &JsonLimit::REQUEST);
    let (Ok(named), Ok(orders)) = (named, orders(shared.port.as_ref())) else {
        return false;
    };
    orders.is_served(&named.model, call).await.unwrap_or(false)
}

/// Reads a request.
fn asked(call: ServedCall, body: Value) -> Result<AskedServed, OpenAiError> {
    let mut fields = BodyFields::of(body)?;
    let missing = || OpenAiError::invalid("model", "`model` is missing");
    let model = fields.text("model")?.ok_or_else(missing)?;
    let stream = fields.flag("stream")? && call != ServedCall::Embedding;
    let stream_usage = match fields.take("stream_options") {
        None => false,
        Some(options) => BodyFields::of(options)?.flag("include_usage")?,
    };
    let mut ours = ours(&mut fields)?;
    if ours.text("verify")?.is_some_and(|mode| mode != "none") {
        let message = format!(
            "`{model}` is served by a provider's own server: nobody can check its answers; leave `verify` out, or say none"
        );
        return Err(OpenAiError::invalid("tensorgrid.verify", message));
    }
    let max_price = ours.amount("max_price")?;
    let providers = providers(ours.take("providers"))?;
    ours.finish()?;
    for name in ["n", "best_of"] {
        let count = fields.count(name)?;
        if count.is_some_and(|count| count > SERVED_CHOICES_MAX) {
            let message = format!("`{name}` is at most {SERVED_CHOICES_MAX}");
            return Err(OpenAiError::invalid(name, message));
        }
        if let Some(count) = count {
            fields.put(name, json!(count));
        }
    }
    for name in ["max_tokens", "max_completion_tokens"] {
        if let Some(count) = fields.count(name)? {
            fields.put(name, json!(count));
        }
    }
    for name in KEPT_HERE {
        fields.take(name);
    }
    Ok(AskedServed {
        order: ServedOrder {
            model,
            call,
            stream,
            body: AskedBody::of(fields.rest()),
            max_price,
            providers,
        },
        stream_usage,
    })
}

/// The providers that may be asked; any if none is named.
fn providers(value: Option<Value>) -> Result<Vec<Address>, OpenAiError> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    let named = items
        .iter()
        .map(|item| item.as_str().and_then(Address::from_hex));
    let named: Option<Vec<Address>> = named.collect();
    let named = named.filter(|named| (1..=PROVIDERS_MAX).contains(&named.len()));
    named.ok_or_else(|| {
        let message = format!("`providers` is a list of 1 to {PROVIDERS_MAX} addresses");
        OpenAiError::invalid("tensorgrid.providers", message)
    })
}

/// Reads a request and forgets it.
pub(super) fn read(call: ServedCall, body: Value) {
    let _asked = asked(call, body);
}

/// Answers a request of a served model.
pub(super) async fn respond(
    shared: &Arc<Shared>,
    name: RequestName,
    call: ServedCall,
    body: Value,
) -> Response {
    let begun = asked(call, body).and_then(|asked| {
        let (sender, pieces) = limited_pieces();
        let sender = asked.order.stream.then_some(sender);
        let (id, waiting) = begin(shared, name, asked.order.clone(), sender)?;
        Ok((asked, id, waiting, pieces))
    });
    let (asked, id, waiting, pieces) = match begun {
        Ok(begun) => begun,
        Err(error) => return error.into_response(),
    };
    let frame = ServedFrame::new(call, asked.order.model, &id);
    if asked.order.stream {
        return streamed(asked.stream_usage, waiting, pieces, frame);
    }
    match replay::answer(waiting).await {
        Ok(reply) => Json(frame.whole(&reply)).into_response(),
        Err(error) => error.into_response(),
    }
}

/// Asks what a request asks, unless it came before.
fn begin(
    shared: &Arc<Shared>,
    name: RequestName,
    order: ServedOrder,
    pieces: Option<ChoiceSender>,
) -> Result<(AnswerId, Waiting<ServedReply>), OpenAiError> {
    match shared.served.turn(&name, Instant::now())? {
        RequestTurn::Again(id, waiting) => Ok((id, waiting)),
        RequestTurn::First(first) => {
            let shared = Arc::clone(shared);
            let by = Requester {
                caller: name.caller,
                record: first.record,
            };
            tokio::spawn(async move {
                let answer = serve(&shared, by, order, pieces).await;
                first.sender.send_replace(Some(answer));
            });
            Ok((first.id, first.waiting))
        }
    }
}

async fn serve(
    shared: &Shared,
    by: Requester,
    order: ServedOrder,
    pieces: Option<ChoiceSender>,
) -> Answer<ServedReply> {
    let reply = orders(shared.port.as_ref())?.serve(by, order, pieces).await;
    reply.map(Arc::new)
}

/// An answer in parts: what is sent as it is written, then what is left when all of it is there.
fn streamed(
    with_usage: bool,
    waiting: Waiting<ServedReply>,
    mut pieces: LimitedReceiver<Vec<u8>>,
    frame: ServedFrame,
) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut sent = SentChoices::default();
        while let Some(piece) = pieces.recv().await {
            let parts = sent.take(&piece).into_iter();
            let parts = parts.map(|it| StreamPart::Data(frame.part(&it)));
            if sender.send(parts.collect()).await.is_err() {
                return;
            }
        }
        let parts = match replay::answer(waiting).await {
            Ok(reply) => frame.rest(&reply, with_usage, &sent),
            Err(error) => vec![error.object()],
        };
        let parts = parts.into_iter().map(StreamPart::Data);
        // Nobody may listen any more.
        let _gone = sender.send(parts.chain([StreamPart::Done]).collect()).await;
    });
    stream::streamed(receiver)
}

/// What all parts of one answer share.
#[derive(Debug, Clone)]
struct ServedFrame {
    call: ServedCall,
    /// The model as the request named it.
    model: String,
    id: String,
    created: u64,
}

impl ServedFrame {
    fn new(call: ServedCall, model: String, id: &AnswerId) -> Self {
        let prefix = match call {
            ServedCall::Chat => "chatcmpl",
            ServedCall::Completion => "cmpl",
            ServedCall::Embedding => "embd",
        };
        Self {
            call,
            model,
            id: format!("{prefix}-{}", id.name),
            created: id.created,
        }
    }

    /// The whole answer: what the server said, under this request's name, with what was counted and paid.
    fn whole(&self, reply: &ServedReply) -> Value {
        let mut body = reply.body.json();
        let usage = reply.usage_object(&body);
        if self.call != ServedCall::Embedding {
            body["id"] = json!(self.id);
            body["created"] = json!(self.created);
        }
        body["model"] = json!(self.model);
        body["usage"] = usage;
        body["tensorgrid"] = reply.stands_behind();
        body
    }

    fn part(&self, choices: &Value) -> Value {
        let object = match self.call {
            ServedCall::Chat => "chat.completion.chunk",
            ServedCall::Completion | ServedCall::Embedding => "text_completion",
        };
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model,
            "choices": choices,
        })
    }

    /// The parts after what was sent: what is missing, how each choice ended, and the usage if it was asked for.
    fn rest(&self, reply: &ServedReply, with_usage: bool, sent: &SentChoices) -> Vec<Value> {
        let body = reply.body.json();
        let choices = body["choices"].as_array();
        let choices = choices.map_or(&[][..], Vec::as_slice);
        let rest = choices.iter().flat_map(|it| sent.rest(it, self.call));
        let mut parts: Vec<Value> = rest.map(|it| self.part(&json!([it]))).collect();
        if let Some(last) = parts.last_mut() {
            last["tensorgrid"] = reply.stands_behind();
        }
        if with_usage {
            let mut part = self.part(&json!([]));
            part["usage"] = reply.usage_object(&body);
            parts.push(part);
        }
        parts
    }
}

/// What of an answer's choices was sent.
#[derive(Debug, Default)]
struct SentChoices {
    texts: BTreeMap<u64, String>,
    called: BTreeSet<u64>,
}

/// The text of a choice or of a piece of one.
fn text_of(choice: &Value) -> &str {
    let texts = [
        &choice["delta"]["content"],
        &choice["message"]["content"],
        &choice["text"],
    ];
    texts.iter().find_map(|it| it.as_str()).unwrap_or_default()
}

/// Fields of a choice in a piece that callers are given.
const PIECE_FIELDS: [&str; 4] = ["index", "delta", "text", "logprobs"];

/// The choices of a piece, of the fields that callers are given; nothing of what is none.
fn choices_of(piece: &[u8]) -> Vec<Map<String, Value>> {
    let choices = read_json::<Vec<Map<String, Value>>>(piece, &JsonLimit::PIECE);
    let mut choices = choices.unwrap_or_default();
    // No request asks for more.
    choices.retain(|it| index_of(it) < u64::from(SERVED_CHOICES_MAX));
    for choice in &mut choices {
        choice.retain(|name, _| PIECE_FIELDS.contains(&name.as_str()));
    }
    choices
}

fn index_of(choice: &Map<String, Value>) -> u64 {
    choice.get("index").and_then(Value::as_u64).unwrap_or(0)
}

impl SentChoices {
    /// Takes note of a piece, and gives what of it is sent now: how a choice ended is said when all is there.
    fn take(&mut self, piece: &[u8]) -> Option<Value> {
        let mut sent = Vec::new();
        for mut choice in choices_of(piece) {
            let index = index_of(&choice);
            choice.insert("finish_reason".to_owned(), Value::Null);
            let choice = Value::Object(choice);
            self.texts
                .entry(index)
                .or_default()
                .push_str(text_of(&choice));
            if choice["delta"]["tool_calls"].is_array() {
                self.called.insert(index);
            }
            sent.push(choice);
        }
        (!sent.is_empty()).then_some(Value::Array(sent))
    }

    /// What of a choice was not sent, and how it ended.
    fn rest(&self, choice: &Value, call: ServedCall) -> Vec<Value> {
        let index = choice["index"].as_u64().unwrap_or(0);
        let sent = self.texts.get(&index);
        let text = text_of(choice);
        // Pieces that found no room on their way are missing at the end of what was sent.
        let missing = text.strip_prefix(sent.map_or("", String::as_str));
        let missing = missing.unwrap_or_default();
        let piece = |delta: Value, text: &str, finish: &Value| match call {
            ServedCall::Chat => json!({
                "index": index, "delta": delta, "logprobs": null, "finish_reason": finish,
            }),
            ServedCall::Completion | ServedCall::Embedding => json!({
                "index": index, "text": text, "logprobs": null, "finish_reason": finish,
            }),
        };
        let mut parts = Vec::new();
        let mut delta = Map::new();
        if sent.is_none() {
            delta.insert("role".to_owned(), json!("assistant"));
        }
        if !missing.is_empty() || sent.is_none() {
            delta.insert("content".to_owned(), json!(missing));
        }
        let calls = choice["message"]["tool_calls"].as_array();
        if let Some(calls) = calls.filter(|_| !self.called.contains(&index)) {
            let numbered = calls.iter().enumerate().map(|(number, it)| {
                let mut it = it.clone();
                it["index"] = json!(number);
                it
            });
            delta.insert("tool_calls".to_owned(), numbered.collect());
        }
        if !delta.is_empty() {
            parts.push(piece(Value::Object(delta), missing, &Value::Null));
        }
        parts.push(piece(json!({}), "", &choice["finish_reason"]));
        parts
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::openai::port::ServedBody;
    use tg_types::{Amount, JobId, ModelId, TokenUsage};

    /// A field of numbers takes many times its bytes in memory, and what no caller reads is not kept at all.
    #[test]
    fn of_an_answer_the_fields_of_the_api_are_kept_as_bytes() {
        let zeros = vec![0; 500_000];
        let answer = json!({"id": "a", "choices": [{"text": "b"}], "x": zeros, "usage": null});
        let body = ServedBody::read(answer.to_string().as_bytes()).unwrap();
        assert_eq!(body.json(), json!({"id": "a", "choices": [{"text": "b"}]}));
        assert!(body.len() < 100);
        for none in [
            "",
            "[]",
            "5",
            "{",
            "null",
            "[null,null,null,null,null,null,null]",
        ] {
            assert_eq!(ServedBody::read(none.as_bytes()), None, "{none}");
        }
    }

    /// A request waits for a provider up to sixteen minutes.
    #[test]
    fn a_request_that_waits_is_kept_as_bytes() {
        let body = |text: &str| asked(ServedCall::Chat, serde_json::from_str(text).unwrap());
        let read = body(r#"{"model": "m", "messages": [{"a": [1, "x"]}]}"#).unwrap();
        let body = read.order.body;
        assert_eq!(body.with(None), br#"{"messages":[{"a":[1,"x"]}]}"#);
        assert_eq!(body.len(), body.with(None).len());
        let limited = body.with(Some(("max_tokens", 7)));
        assert_eq!(limited, br#"{"max_tokens":7,"messages":[{"a":[1,"x"]}]}"#);
        let empty = AskedBody::of(Map::new());
        assert_eq!(empty.with(Some(("n", 1))), br#"{"n":1}"#);
        let named = |text: &'static str| {
            let named = read_json::<NamedModel<'_>>(text.as_bytes(), &JsonLimit::REQUEST);
            named.ok().map(|it| it.model.into_owned())
        };
        assert_eq!(
            named(r#"{"x": [{}], "model": "a\"b"}"#).as_deref(),
            Some("a\"b")
        );
        assert_eq!(named(r#"{"model": 1}"#), None);
        assert_eq!(named("{"), None);
    }

    fn reply(body: &Value) -> ServedReply {
        ServedReply {
            body: ServedBody::read(body.to_string().as_bytes()).unwrap(),
            usage: TokenUsage {
                prompt: 3,
                completion: 2,
            },
            job: JobId::new([1; 32]),
            model: ModelId::new([2; 32]),
            provider: Address::new([3; 20]),
            price: Amount::new(5),
            prompt_price: Amount::from_tgrid(1),
            completion_price: Amount::from_tgrid(2),
            failed: vec![],
        }
    }

    #[test]
    fn a_request_goes_through_but_for_what_is_ours() {
        let read = asked(
            ServedCall::Chat,
            json!({
                "model": "m", "messages": [{"role": "tool", "tool_call_id": "c", "content": "5"}],
                "tools": [{"type": "function"}], "user": "someone", "stream": true,
                "stream_options": {"include_usage": true}, "max_tokens": 9, "n": 2,
                "tensorgrid": {"verify": "none", "max_price": "0.5"},
            }),
        );
        let read = read.unwrap();
        assert!(read.stream_usage && read.order.stream);
        assert_eq!(read.order.max_price, Some("0.5".parse().unwrap()));
        let expected = json!({
            "messages": [{"role": "tool", "tool_call_id": "c", "content": "5"}],
            "tools": [{"type": "function"}], "max_tokens": 9, "n": 2,
        });
        assert_eq!(read.order.body.json(), expected);
        for (name, value, param) in [
            (
                "tensorgrid",
                json!({"verify": "proof"}),
                "tensorgrid.verify",
            ),
            (
                "tensorgrid",
                json!({"max_price": "x"}),
                "tensorgrid.max_price",
            ),
            ("tensorgrid", json!({"other": 1}), "other"),
            (
                "tensorgrid",
                json!({"providers": []}),
                "tensorgrid.providers",
            ),
            (
                "tensorgrid",
                json!({"providers": ["0x12"]}),
                "tensorgrid.providers",
            ),
            ("n", json!(500), "n"),
            ("n", json!("x"), "n"),
            ("max_tokens", json!(0), "max_tokens"),
            ("stream", json!(1), "stream"),
            ("model", json!(null), "model"),
        ] {
            let mut body = json!({"model": "m", "messages": []});
            body[name] = value;
            let error = asked(ServedCall::Chat, body).unwrap_err();
            assert_eq!((error.status, error.param.as_deref()), (400, Some(param)));
        }
        assert!(asked(ServedCall::Chat, json!([])).is_err());
    }

    #[test]
    fn a_stream_is_whole_whatever_was_lost_on_the_way() {
        let id = AnswerId::of(&tg_types::Digest::of_blob(b"x"));
        let frame = ServedFrame::new(ServedCall::Chat, "m".to_owned(), &id);
        let reply = reply(&json!({"choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"},
        ]}));
        let pieces = [
            json!([{"index": 0, "delta": {"role": "assistant", "content": ""}}]),
            json!([{"index": 0, "delta": {"content": "Hel"}}]),
            json!([{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]),
        ];
        for arrived in 0..=pieces.len() {
            let mut sent = SentChoices::default();
            let mut parts = Vec::new();
            for piece in &pieces[..arrived] {
                let piece = piece.to_string().into_bytes();
                parts.extend(sent.take(&piece).map(|it| frame.part(&it)));
            }
            parts.extend(frame.rest(&reply, true, &sent));
            let text: String = parts.iter().map(|it| text_of(&it["choices"][0])).collect();
            assert_eq!(text, "Hello", "{arrived}");
            let ends = parts.iter().map(|it| &it["choices"][0]["finish_reason"]);
            let ends: Vec<&Value> = ends.filter(|it| !it.is_null()).collect();
            assert_eq!(ends, [&json!("stop")], "{arrived}");
            assert_eq!(
                parts
                    .iter()
                    .filter(|it| it["tensorgrid"].is_object())
                    .count(),
                1
            );
            assert_eq!(parts.last().unwrap()["usage"]["total_tokens"], 5);
            assert_eq!(parts[0]["choices"][0]["delta"]["role"], "assistant");
        }
    }

    /// Pieces of a provider that wants memory.
    #[test]
    fn of_a_piece_the_fields_of_the_api_are_sent_and_no_more() {
        let mut sent = SentChoices::default();
        let mut taken = |piece: &Value| sent.take(piece.to_string().as_bytes());
        let piece =
            json!([{"index": 1, "delta": {"content": "a"}, "x": [1, 2], "finish_reason": "stop"}]);
        let expected = json!([{"index": 1, "delta": {"content": "a"}, "finish_reason": null}]);
        assert_eq!(taken(&piece), Some(expected));
        let many = json!(vec![json!({"": 0}); 5_000]);
        let others = json!([{"index": SERVED_CHOICES_MAX, "text": "b"}]);
        for none in [many, others, json!([]), json!({"index": 0}), json!([1])] {
            assert_eq!(taken(&none), None);
        }
        assert_eq!(sent.take(b"[{"), None);
        assert_eq!(sent.texts.len(), 1);
    }

    #[test]
    fn it_is_said_that_nobody_checked() {
        let id = AnswerId::of(&tg_types::Digest::of_blob(b"x"));
        let frame = ServedFrame::new(ServedCall::Completion, "m".to_owned(), &id);
        let whole = frame.whole(&reply(
            &json!({"choices": [], "usage": {"prompt_tokens": 9_999}}),
        ));
        assert_eq!(whole["tensorgrid"]["verify"], "none");
        assert_eq!(whole["tensorgrid"]["checked"], false);
        // What was charged, not what a server says.
        assert_eq!(whole["usage"]["prompt_tokens"], 3);
    }
}
