//! What the OpenAI routes need of whoever orders for their callers.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tg_sdk::dto::ModeDto;
use tg_types::{
    Address, Amount, JobId, LeaseId, ModelId, ServedCall, ServedCard, Signature, TokenUsage,
};

use super::conversation::ChatTurn;
use super::error::OpenAiError;
use super::pieces::{AnswerPiece, LimitedSender};
use crate::json::{JsonLimit, read_json};

/// What an asynchronous method of the port returns.
pub type OpenAiFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OpenAiError>> + Send + 'a>>;

/// Where texts are sent as they are written.
pub type PieceSender = LimitedSender<TextPiece>;

/// A piece of one choice's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPiece {
    /// Index of the choice.
    pub choice: usize,
    /// What comes after the pieces of that choice before.
    pub text: String,
}

impl AnswerPiece for TextPiece {
    fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionOrder {
    /// The model's name or id.
    pub model: String,
    /// The text to go on from.
    pub prompt: CompletionPrompt,
    /// Most tokens to write; as many as the model's window has room for if absent.
    pub tokens_max: Option<u32>,
    /// How evenly tokens are drawn; 0 for the likeliest always.
    pub temperature: f64,
    /// The share of the weight that tokens are drawn among.
    pub top_p: f64,
    /// How many tokens are drawn among; as many as the model gives if absent.
    pub top_k: Option<u32>,
    /// What decides the draws; drawn by whoever orders if absent.
    pub seed: Option<i64>,
    /// The text ends before the first of these; none is empty.
    pub stops: Vec<String>,
    /// How many texts are written, at least 1. Each is an order of its own, whose draws follow from the seed and its index.
    pub choices: u32,
    /// With how many of the likeliest tokens the log probability of each written one is listed; none are listed if absent.
    pub logprobs: Option<u32>,
    /// How the result is checked.
    pub mode: ModeDto,
    /// Most that is paid to the provider; the grid's usual price if absent.
    pub max_price: Option<Amount>,
}

/// What a model is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionPrompt {
    /// Text.
    Text(String),
    /// Tokens.
    Tokens(Vec<u32>),
    /// A conversation that the assistant goes on with: in the model's own form, or as a play ([`play`](super::play)).
    Conversation(Vec<ChatTurn>),
}

/// What was written, and what stands behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The texts, by index; at least one.
    pub choices: Vec<CompletionChoice>,
    /// Tokens of the prompt, counted for each order that reads it.
    pub prompt_tokens: u32,
    /// Tokens that were computed for all choices: those that stopped are counted, and those after a string that ended a text.
    pub written_tokens: u32,
    /// The model.
    pub model: ModelId,
    /// What stands behind it instead of what its choices say, if a provider's own server wrote it.
    pub unchecked: Option<Value>,
}

impl Completion {
    /// What was paid for all choices, verification included.
    #[must_use]
    pub fn price(&self) -> Amount {
        let prices = self.choices.iter().map(|it| it.price);
        prices.fold(Amount::ZERO, Amount::saturating_add)
    }

    /// The text of the first choice.
    #[must_use]
    pub fn text(&self) -> String {
        let first = self.choices.first();
        first.map(|it| it.pieces.concat()).unwrap_or_default()
    }

    /// Whether each text was ended by a stop token or a string that was asked for.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.choices.iter().all(|it| it.stopped)
    }
}

/// One text that was written, and what stands behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionChoice {
    /// The text, in the pieces in which it is streamed.
    pub pieces: Vec<String>,
    /// Whether a stop token or a string that was asked for ended it, and not the limit or the window.
    pub stopped: bool,
    /// The job.
    pub job: JobId,
    /// What was paid, verification included.
    pub price: Amount,
    /// How the result was checked.
    pub mode: ModeDto,
    /// Bytes of the proof that was verified here, if one was ordered.
    pub proof_bytes: Option<u64>,
    /// The log probabilities of its tokens, if they were asked for.
    pub logprobs: Option<TextLogprobs>,
    /// Who gave it, if an endpoint wrote it.
    pub endpoint: Option<AnsweringEndpoint>,
}

/// Who answered as an endpoint, what shows it, and what its requestor can lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweringEndpoint {
    /// The provider.
    pub provider: Address,
    /// The lease under which it serves the endpoint.
    pub lease: LeaseId,
    /// The number of the request within the lease.
    pub number: u64,
    /// The provider's signature over lease, request and sealed answer ([`tg_types::answer_digest`]).
    pub signature: Signature,
    /// What vouchers of the lease promise beyond what was claimed on the ledger, this answer's price included: the most that the provider
    /// gains by what it answered, whether that was right or not.
    pub unclaimed: Amount,
}

/// Log probabilities of the tokens of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextLogprobs {
    /// One for each token of the text.
    pub tokens: Vec<WrittenLogprob>,
    /// Among how many of the likeliest tokens the probabilities are: those whose scores the model gives. They sum to 1 over these.
    pub among: u32,
    /// Tokens of the model's vocabulary.
    pub vocabulary: u32,
}

/// How likely a token was, and the likeliest in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenLogprob {
    /// The token.
    pub token: TokenLogprob,
    /// Letters of the text before it.
    pub offset: usize,
    /// The likeliest tokens, the likeliest first.
    pub top: Vec<TokenLogprob>,
}

/// How likely a token was.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// What it is in a text, or its bytes as OpenAI writes them: `bytes:\xe2`.
    pub text: String,
    /// Its bytes, if they are known.
    pub bytes: Option<Vec<u8>>,
    /// Natural logarithm of its probability.
    pub logprob: f64,
}

/// Texts of which vectors are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingOrder {
    /// The model's name or id.
    pub model: String,
    /// The texts; each is a job of its own.
    pub inputs: Vec<CompletionPrompt>,
    /// How the results are checked.
    pub mode: ModeDto,
    /// Most that is paid to the provider for each; the grid's usual price if absent.
    pub max_price: Option<Amount>,
}

/// Vectors of texts, and what stands behind them.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// One for each text, of length 1.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts, padding left out.
    pub tokens: u64,
    /// The job of each.
    pub jobs: Vec<JobId>,
    /// The model.
    pub model: ModelId,
    /// What was paid for all, verification included.
    pub price: Amount,
    /// How the results were checked.
    pub mode: ModeDto,
}

/// A request of a served model, as its caller wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedOrder {
    /// The model's name or id.
    pub model: String,
    /// What is called.
    pub call: ServedCall,
    /// Whether pieces are wanted as they come.
    pub stream: bool,
    /// The body of OpenAI's request, without what is said here.
    pub body: AskedBody,
    /// Most that is paid; what it can cost at most by the provider's prices if absent.
    pub max_price: Option<Amount>,
    /// The providers that may be asked; any if there is none.
    pub providers: Vec<Address>,
}

/// The body of a request of a served model, an object of JSON, as its bytes: it is kept as long as providers are asked, and what is made of
/// them takes many times as much memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedBody(Arc<[u8]>);

impl AskedBody {
    /// Of an object's fields.
    #[must_use]
    pub fn of(fields: Map<String, Value>) -> Self {
        Self(Value::Object(fields).to_string().into_bytes().into())
    }

    /// The object.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.0).unwrap_or_else(|_| json!({}))
    }

    /// Bytes of it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none, which no object has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes, with a number in a field that it does not have.
    #[must_use]
    pub fn with(&self, number: Option<(&str, u32)>) -> Vec<u8> {
        let Some((name, number)) = number else {
            return self.0.to_vec();
        };
        let fields = self.0.strip_prefix(b"{").unwrap_or_default();
        let comma = match fields {
            [] | [b'}'] => "",
            _ => ",",
        };
        let mut bytes = format!("{{\"{name}\":{number}{comma}").into_bytes();
        bytes.extend_from_slice(fields);
        bytes
    }
}

/// The body of an answer of a provider's own server, as its bytes: what is made of them takes many times as much memory, and some are
/// kept for an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedBody(Arc<[u8]>);

/// The fields of an answer that callers are given.
#[derive(serde::Serialize, serde::Deserialize)]
struct KnownFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<Value>,
}

impl ServedBody {
    /// What callers are given of a body; nothing if it is no object of JSON, or one that takes too much memory. Other fields are passed over as it is read.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let is_object = bytes.trim_ascii_start().first() == Some(&b'{');
        let fields = read_json::<KnownFields>(bytes, &JsonLimit::ANSWER);
        let fields = fields.ok().filter(|_| is_object)?;
        let bytes = serde_json::to_vec(&fields).ok()?;
        Some(Self(bytes.into()))
    }

    /// The object.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.0).unwrap_or_else(|_| json!({}))
    }

    /// Bytes of it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none, which no object has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a provider's own server answered, and what was paid for it. Nobody checked it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedReply {
    /// The body of OpenAI's answer.
    pub body: ServedBody,
    /// Tokens that were charged.
    pub usage: TokenUsage,
    /// The endpoint's job.
    pub job: JobId,
    /// The model, by its card.
    pub model: ModelId,
    /// Who served it.
    pub provider: Address,
    /// What was paid.
    pub price: Amount,
    /// What a million tokens of prompts cost.
    pub prompt_price: Amount,
    /// What a million tokens that are written cost.
    pub completion_price: Amount,
    /// Providers that were asked before and gave no answer that is paid, and why.
    pub failed: Vec<String>,
}

impl ServedReply {
    /// What stands behind it.
    #[must_use]
    pub fn stands_behind(&self) -> Value {
        json!({
            "job": self.job.to_string(), "model": self.model.to_string(), "price": self.price.to_string(),
            "provider": self.provider.to_string(), "verify": "none", "checked": false, "receipt": null,
            "prompt_price_per_million": self.prompt_price.to_string(),
            "completion_price_per_million": self.completion_price.to_string(),
            "failed": self.failed,
        })
    }

    /// OpenAI's object of the tokens that were charged, for an answer of this body.
    #[must_use]
    pub fn usage_object(&self, body: &Value) -> Value {
        let TokenUsage { prompt, completion } = self.usage;
        let mut usage = match body["usage"].as_object() {
            Some(usage) => Value::Object(usage.clone()),
            None => json!({}),
        };
        usage["prompt_tokens"] = json!(prompt);
        if body["data"].is_null() {
            usage["completion_tokens"] = json!(completion);
        }
        usage["total_tokens"] = json!(prompt.saturating_add(completion));
        usage
    }
}

/// A name under which providers serve models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedName {
    /// The name.
    pub name: String,
    /// The card of the cheapest.
    pub card: ServedCard,
    /// How many providers serve it now.
    pub providers: usize,
}

/// Where pieces are sent as they come: each the bytes of a list of choices, which nobody read yet.
pub type ChoiceSender = LimitedSender<Vec<u8>>;

/// An order that was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOrder {
    /// The encoded signed transaction.
    pub signed: Vec<u8>,
    /// What of the key's limit is held for it.
    pub reserved: Amount,
}

/// Keeps the orders of one request, so that whoever goes on with it, after a restart or because it failed, orders nothing twice.
pub trait OrderRecord: Send + Sync {
    /// The order that was kept last for a part of the request, if one was.
    fn kept(&self, part: u32) -> Option<KeptOrder>;

    /// Keeps an order before it is sent; `None` says that the one before was refused or refunded.
    ///
    /// # Errors
    /// If it cannot be written. It is not sent then.
    fn keep(&self, part: u32, order: Option<KeptOrder>) -> std::io::Result<()>;
}

/// The record of a request that ends with the process.
#[derive(Debug, Default)]
pub struct MemoryRecord(Mutex<BTreeMap<u32, KeptOrder>>);

impl MemoryRecord {
    /// Whether no order is kept.
    pub(super) fn is_empty(&self) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.is_empty()
    }
}

impl OrderRecord for MemoryRecord {
    fn kept(&self, part: u32) -> Option<KeptOrder> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&part).cloned()
    }

    fn keep(&self, part: u32, order: Option<KeptOrder>) -> std::io::Result<()> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match order {
            Some(order) => kept.insert(part, order),
            None => kept.remove(&part),
        };
        Ok(())
    }
}

/// Who orders, and where its orders are kept.
#[derive(Clone)]
pub struct Requester {
    /// The name of the caller's key.
    pub caller: String,
    /// Where its orders are kept.
    pub record: Arc<dyn OrderRecord>,
}

impl std::fmt::Debug for Requester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Requester");
        text.field("caller", &self.caller).finish_non_exhaustive()
    }
}

/// Orders for the callers of the OpenAI routes, each by the account that its key is bound to.
pub trait OpenAiPort: Send + Sync {
    /// The name of the caller of a key, or nothing if the key is not known.
    fn caller(&self, key: &str) -> Option<String>;

    /// Orders a completion, waits for its end and checks the result. What is written is sent to `pieces` as it comes, where whoever
    /// writes it sends it so: what was sent is the beginning of the text.
    fn complete(
        &self,
        by: Requester,
        order: CompletionOrder,
        pieces: Option<PieceSender>,
    ) -> OpenAiFuture<'_, Completion>;

    /// Orders a run for each text, waits for their ends and checks the results.
    fn embed(&self, by: Requester, order: EmbeddingOrder) -> OpenAiFuture<'_, Embeddings>;

    /// Whether a name or an id means a served model for this call.
    fn is_served<'a>(&'a self, model: &'a str, call: ServedCall) -> OpenAiFuture<'a, bool> {
        let _ = (model, call);
        Box::pin(async { Ok(false) })
    }

    /// The calls that a registered program answers: none of one that neither writes text nor gives vectors of it. Nothing
    /// where the program was not read yet.
    fn calls_of(&self, program: ModelId) -> Option<Vec<ServedCall>> {
        let _ = program;
        None
    }

    /// The served models that can be asked now, by name.
    fn served_names(&self) -> OpenAiFuture<'_, Vec<ServedName>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Has a provider's own server answer. Its pieces are sent to `pieces` as they come.
    fn serve(
        &self,
        by: Requester,
        order: ServedOrder,
        pieces: Option<ChoiceSender>,
    ) -> OpenAiFuture<'_, ServedReply> {
        let _ = (by, pieces);
        Box::pin(async move { Err(OpenAiError::model(&order.model)) })
    }

    /// The folder in which files and batches are kept.
    fn folder(&self) -> &Path;
}
