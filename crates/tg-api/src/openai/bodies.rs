//! Bodies of requests as the OpenAPI document describes them. They are read field by field, so that what is not served is refused by
//! its name.
#![expect(
    dead_code,
    reason = "they describe bodies, which are read field by field"
)]

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

/// A text: as it is, or as tokens.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum TextBody {
    /// As it is.
    Text(String),
    /// Tokens as numbers, at least one.
    Tokens(Vec<u32>),
}

/// Texts: one, or several.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum TextsBody {
    /// As it is.
    Text(String),
    /// Tokens as numbers, at least one.
    Tokens(Vec<u32>),
    /// Several, 128 at most.
    Texts(Vec<String>),
    /// Several as tokens, 128 at most.
    Lists(Vec<Vec<u32>>),
}

/// Before which strings a text ends.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum StopBody {
    /// One.
    One(String),
    /// One of at most four.
    Several(Vec<String>),
}

/// What is asked: a text, or the messages of a conversation.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ResponseInputBody {
    /// A text.
    Text(String),
    /// Messages, at least one.
    Messages(Vec<MessageBody>),
}

/// Who says something.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RoleBody {
    System,
    Developer,
    User,
    Assistant,
    /// Where a provider's own server is asked only.
    Tool,
}

/// What is said: a text, or parts of one.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ContentBody {
    /// A text.
    Text(String),
    /// Its parts.
    Parts(Vec<PartBody>),
}

/// A part of what is said.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PartBody {
    /// text, `input_text` or `output_text`; a server that a provider has may take others, with fields of their own.
    #[serde(rename = "type")]
    kind: String,
    /// The text.
    text: Option<String>,
}

/// What is asked of the grid, beside OpenAI's fields.
#[derive(ToSchema)]
pub(crate) struct GridTerms {
    verify: Option<VerifyBody>,
    /// Most that is paid to the provider, in TGRID.
    max_price: Option<String>,
    /// How many tokens are drawn among; not of embeddings.
    #[schema(minimum = 1)]
    top_k: Option<u32>,
}

/// How a result is checked.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VerifyBody {
    None,
    Sync,
    Optimistic,
    Replicate,
    Recompute,
    Proof,
}

/// How a stream is sent.
#[derive(ToSchema)]
pub(crate) struct StreamTerms {
    /// Whether its last part has the usage.
    include_usage: Option<bool>,
}

/// A request of `/completions`.
#[derive(ToSchema)]
pub(crate) struct CompletionBody {
    /// A model's name or id.
    model: String,
    prompt: TextBody,
    /// Most tokens to write; 16 if absent.
    #[schema(minimum = 1)]
    max_tokens: Option<u32>,
    /// How many texts are written, each an order of its own; 1 if absent.
    #[schema(minimum = 1, maximum = 8)]
    n: Option<u32>,
    /// With how many of the likeliest tokens the log probabilities are listed, of texts that are proved.
    #[schema(minimum = 0, maximum = 5)]
    logprobs: Option<u32>,
    /// 0 for the likeliest token always.
    #[schema(minimum = 0.0, maximum = 2.0)]
    temperature: Option<f64>,
    #[schema(minimum = 0.0, maximum = 1.0)]
    top_p: Option<f64>,
    /// What decides the draws.
    seed: Option<i64>,
    stop: Option<StopBody>,
    stream: Option<bool>,
    stream_options: Option<StreamTerms>,
    tensorgrid: Option<GridTerms>,
}

/// A message of a conversation.
#[derive(Deserialize, ToSchema)]
pub(crate) struct MessageBody {
    role: RoleBody,
    content: ContentBody,
    /// Who speaks, instead of the role.
    name: Option<String>,
}

/// A request of `/chat/completions`.
#[derive(ToSchema)]
pub(crate) struct ChatBody {
    /// A model's name or id.
    model: String,
    /// At least one.
    #[schema(min_items = 1)]
    messages: Vec<MessageBody>,
    /// Most tokens to write; `max_tokens` is the same.
    #[schema(minimum = 1)]
    max_completion_tokens: Option<u32>,
    /// How many texts are written, each an order of its own; 1 if absent.
    #[schema(minimum = 1, maximum = 8)]
    n: Option<u32>,
    /// Whether the log probabilities are listed, of texts that are proved.
    logprobs: Option<bool>,
    /// With how many of the likeliest tokens.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<u32>,
    /// 0 for the likeliest token always.
    #[schema(minimum = 0.0, maximum = 2.0)]
    temperature: Option<f64>,
    #[schema(minimum = 0.0, maximum = 1.0)]
    top_p: Option<f64>,
    /// What decides the draws.
    seed: Option<i64>,
    stop: Option<StopBody>,
    stream: Option<bool>,
    stream_options: Option<StreamTerms>,
    tensorgrid: Option<GridTerms>,
}

/// A request of `/responses`.
#[derive(ToSchema)]
pub(crate) struct ResponseBody {
    /// A model's name or id.
    model: String,
    input: ResponseInputBody,
    /// What is said before the input.
    instructions: Option<String>,
    /// Most tokens to write.
    #[schema(minimum = 1)]
    max_output_tokens: Option<u32>,
    /// 0 for the likeliest token always.
    #[schema(minimum = 0.0, maximum = 2.0)]
    temperature: Option<f64>,
    #[schema(minimum = 0.0, maximum = 1.0)]
    top_p: Option<f64>,
    /// A response that is kept, whose conversation goes on.
    previous_response_id: Option<String>,
    /// Whether it is kept to be asked for again; it is if absent.
    store: Option<bool>,
    stream: Option<bool>,
    tensorgrid: Option<GridTerms>,
}

/// A request of `/embeddings`.
#[derive(ToSchema)]
pub(crate) struct EmbeddingBody {
    /// A model's name or id.
    model: String,
    input: TextsBody,
    encoding_format: Option<NumbersBody>,
    tensorgrid: Option<GridTerms>,
}

/// How numbers are written.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NumbersBody {
    Float,
    Base64,
}

/// A request to begin a batch.
#[derive(ToSchema)]
pub(crate) struct BatchBody {
    /// An uploaded file with a request on each line.
    input_file_id: String,
    endpoint: BatchRouteBody,
    completion_window: WindowBody,
    /// What the caller notes with it.
    metadata: Option<BTreeMap<String, String>>,
}

/// To where the requests of a batch go.
#[derive(Deserialize, ToSchema)]
pub(crate) enum BatchRouteBody {
    #[serde(rename = "/v1/completions")]
    Completions,
    #[serde(rename = "/v1/chat/completions")]
    ChatCompletions,
    #[serde(rename = "/v1/embeddings")]
    Embeddings,
    #[serde(rename = "/v1/responses")]
    Responses,
}

/// In what time a batch ends.
#[derive(Deserialize, ToSchema)]
pub(crate) enum WindowBody {
    #[serde(rename = "24h")]
    Day,
}

/// An upload.
#[derive(ToSchema)]
pub(crate) struct FileForm {
    purpose: PurposeBody,
    /// The bytes.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// What a file is for.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PurposeBody {
    Batch,
}
