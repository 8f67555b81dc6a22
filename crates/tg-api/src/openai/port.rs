//! What the OpenAI routes need of whoever orders for their callers.

use std::future::Future;
use std::pin::Pin;

use tg_sdk::dto::ModeDto;
use tg_types::{Amount, JobId, ModelId};

use super::error::OpenAiError;

/// What an asynchronous method of the port returns.
pub type OpenAiFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, OpenAiError>> + Send + 'a>>;

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
    /// The byte after which nothing is written.
    pub stop: Option<u8>,
    /// How the result is checked.
    pub mode: ModeDto,
    /// Most that is paid to the provider; the grid's usual price if absent.
    pub max_price: Option<Amount>,
}

/// What a completion begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionPrompt {
    /// Text.
    Text(String),
    /// Tokens.
    Tokens(Vec<u32>),
}

/// What was written, and what stands behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The text, in the pieces in which it is streamed.
    pub pieces: Vec<String>,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens that were written, the one that stopped counted.
    pub written_tokens: u32,
    /// Whether the stop token ended it, and not the limit or the window.
    pub stopped: bool,
    /// The job.
    pub job: JobId,
    /// The model.
    pub model: ModelId,
    /// What was paid, verification included.
    pub price: Amount,
    /// How the result was checked.
    pub mode: ModeDto,
    /// Bytes of the proof that was verified here, if one was ordered.
    pub proof_bytes: Option<u64>,
}

/// Orders for the callers of the OpenAI routes, each by the account that its key is bound to.
pub trait OpenAiPort: Send + Sync {
    /// The name of the caller of a key, or nothing if the key is not known.
    fn caller(&self, key: &str) -> Option<String>;

    /// Orders a completion, waits for its end and checks the result.
    fn complete(&self, caller: String, order: CompletionOrder) -> OpenAiFuture<'_, Completion>;
}
