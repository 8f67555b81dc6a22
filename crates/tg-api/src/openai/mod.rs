//! The OpenAI API: `/openai/v1/...`, beside our own routes. An official client is given `http://HOST/openai/v1` as its base.
//!
//! A completion is a job of the grid like any other: its prompt and how tokens are drawn are the order's input, and the answer
//! says job, price and how it was checked in the object `tensorgrid`. A request's field `tensorgrid` says what is asked
//! for: `verify` (none or proof), `max_price`, `top_k`. A job's tokens are there when its receipt is, so that a stream
//! begins when the job has ended; until then it is kept alive.
//!
//! - [`error`]: OpenAI's error object; [`port`]: what is needed of whoever orders; `fields`, `request`, `conversation`, `embedding`, `bodies`: the
//!   bodies; `answer`, `response`, `stream`: the answers;
//! - `replay`: a request that comes again is charged once; `kept`: responses that can be asked for again; `rate`: calls a
//!   minute; `access`: who calls;
//! - `stores`: what is kept on the disk (`disk`, `file_store`, `batch_store`); `multipart`: uploads; `page`: lists; `batch`,
//!   `batch_run`: a batch and its work; `places`: how much of it is done at once;
//! - [`pieces`]: what of an answer waits for its reader;
//! - `served`: requests of served models, which go through to a provider's own server;
//! - `models`, `completions`, `responses`, `embeddings`, `files`, `batches`: the routes.

mod access;
mod answer;
mod batch;
mod batch_run;
mod batch_store;
pub(crate) mod batches;
mod bodies;
pub(crate) mod completions;
pub mod conversation;
mod disk;
mod embedding;
pub(crate) mod embeddings;
pub mod error;
mod fields;
mod file_store;
pub(crate) mod files;
mod kept;
pub(crate) mod models;
mod multipart;
mod page;
pub mod pieces;
mod places;
pub mod port;
pub(crate) mod rate;
mod replay;
mod request;
mod response;
pub(crate) mod responses;
mod served;
mod stores;
mod stream;

use error::OpenAiError;
pub use stores::on_blocking_thread;

pub(crate) use places::BatchPlaces;

pub(crate) use batch_run::go_on;
pub(crate) use kept::KeptResponses;
pub(crate) use rate::{ApiKeyShares, RateLimits};
pub(crate) use replay::Replays;
pub(crate) use stores::OpenStores;

/// What is not served, with OpenAI's error object.
pub(crate) fn no_such_path(path: &str) -> OpenAiError {
    OpenAiError {
        code: "unknown_url".to_owned(),
        param: None,
        ..OpenAiError::missing("path", format!("{path} is not served here"))
    }
}

/// A method that a path does not serve, with OpenAI's error object: its clients read no other.
pub(crate) fn no_such_method(method: &axum::http::Method, path: &str) -> OpenAiError {
    OpenAiError {
        status: axum::http::StatusCode::METHOD_NOT_ALLOWED.as_u16(),
        code: "method_not_supported".to_owned(),
        param: None,
        ..OpenAiError::missing("path", format!("{method} is not served at {path}"))
    }
}

/// Reads bytes as all that reads a body or a query.
pub(crate) fn read_any(bytes: &[u8]) {
    for endpoint in batch::BatchEndpoint::ALL {
        let _lines = batch::lines(bytes, endpoint);
    }
    if let Ok(query) = std::str::from_utf8(bytes) {
        let _page = page::ListPage::read(Some(query), 100, &["purpose", "order"]);
    }
    let Ok(body) = access::parsed(bytes) else {
        return;
    };
    for kind in [request::CompletionKind::Text, request::CompletionKind::Chat] {
        let _asked = request::completion_of(kind, body.clone());
    }
    for call in tg_types::ServedCall::ALL {
        served::read(call, body.clone());
    }
    let _asked = request::response(body.clone());
    let _asked = embedding::read(body.clone());
    let _asked = batch::AskedBatch::read(body);
}

/// Reads bytes as a form.
pub(crate) fn read_form(bytes: &[u8]) {
    let parts = multipart::parts("multipart/form-data; boundary=xyz", bytes);
    for part in parts.unwrap_or_default() {
        assert!(bytes.get(part.data).is_some(), "a part lies in its form");
    }
}
