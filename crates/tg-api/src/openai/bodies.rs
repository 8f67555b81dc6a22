//! Bodies of requests as the OpenAPI document describes them. They are read field by field, so that what is not served is refused by
//! its name.
#![expect(
    dead_code,
    reason = "they describe bodies, which are read field by field"
)]

use serde_json::Value;
use utoipa::ToSchema;

/// What is asked of the grid, beside OpenAI's fields.
#[derive(ToSchema)]
pub(crate) struct GridTerms {
    /// How the result is checked: none, sync, optimistic, recompute or proof.
    verify: Option<String>,
    /// Most that is paid to the provider, in TGRID.
    max_price: Option<String>,
    /// How many tokens are drawn among; not of embeddings.
    #[schema(minimum = 1)]
    top_k: Option<u32>,
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
    /// A string, or tokens as numbers.
    prompt: Value,
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
    /// A string before which the text ends, or at most four of them.
    stop: Option<Value>,
    stream: Option<bool>,
    stream_options: Option<StreamTerms>,
    tensorgrid: Option<GridTerms>,
}

/// A message of a conversation.
#[derive(ToSchema)]
pub(crate) struct MessageBody {
    /// system, developer, user or assistant.
    role: String,
    /// A string, or a list of parts of text.
    content: Value,
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
    /// A string before which the text ends, or at most four of them.
    stop: Option<Value>,
    stream: Option<bool>,
    stream_options: Option<StreamTerms>,
    tensorgrid: Option<GridTerms>,
}

/// A request of `/responses`.
#[derive(ToSchema)]
pub(crate) struct ResponseBody {
    /// A model's name or id.
    model: String,
    /// A string, or a list of messages.
    input: Value,
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
    /// A string or tokens as numbers, or a list of 1 to 128 of them.
    input: Value,
    /// float or base64.
    encoding_format: Option<String>,
    tensorgrid: Option<GridTerms>,
}

/// A request to begin a batch.
#[derive(ToSchema)]
pub(crate) struct BatchBody {
    /// An uploaded file with a request on each line.
    input_file_id: String,
    /// /v1/completions, /v1/chat/completions, /v1/embeddings or /v1/responses.
    endpoint: String,
    /// 24h.
    completion_window: String,
    /// What the caller notes with it.
    metadata: Option<Value>,
}

/// An upload.
#[derive(ToSchema)]
pub(crate) struct FileForm {
    /// batch.
    purpose: String,
    /// The bytes.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}
