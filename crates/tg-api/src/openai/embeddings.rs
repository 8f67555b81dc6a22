//! The route of embeddings.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use tg_types::ServedCall;
use tokio::time::Instant;

use super::access::{orders, parsed};
use super::bodies;
use super::completions::request_name;
use super::embedding::{self, VectorFormat};
use super::error::OpenAiError;
use super::port::{EmbeddingOrder, Embeddings, Requester};
use super::replay::{self, Answer, RequestTurn};
use super::served;
use crate::routes::SharedState;
use crate::shared::Shared;

/// What tells the body of a request for embeddings from a completion's.
const KIND: u8 = 3;

/// Vectors of texts, as OpenAI's embeddings: the mean of the hidden states, or the model's own vector, at length 1.
#[utoipa::path(
    post,
    path = "/openai/v1/embeddings",
    tag = "openai",
    request_body(content = bodies::EmbeddingBody, content_type = "application/json", description = "OpenAI's request; fields that are not served are refused by name"),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's list of embeddings, with `tensorgrid`: jobs, price, verify, receipts"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what is wrong, or why the model gives no vector"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: no such model"),
        (status = 413, content_type = "application/json", description = "OpenAI's error object: more bytes than are taken"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: the key's limit is reached"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: the grid cannot serve it now"),
    ),
)]
pub(crate) async fn embeddings(
    shared: SharedState,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, OpenAiError> {
    let name = request_name(&shared, &headers, (KIND, &bytes))?;
    let is_served = served::is_served(&shared, (ServedCall::Embedding, &bytes)).await;
    let body = parsed(&bytes)?;
    // The answer may take minutes.
    drop(bytes);
    if is_served {
        return Ok(served::respond(&shared, name, ServedCall::Embedding, body).await);
    }
    let (order, format): (EmbeddingOrder, VectorFormat) = embedding::read(body)?;
    let model = order.model.clone();
    let waiting = match shared.embedded.turn(&name, Instant::now())? {
        RequestTurn::Again(_, waiting) => waiting,
        RequestTurn::First(first) => {
            let shared = Arc::clone(&shared);
            let by = Requester {
                caller: name.caller,
                record: first.record,
            };
            tokio::spawn(async move {
                let answer = embed(&shared, by, order).await;
                first.sender.send_replace(Some(answer));
            });
            first.waiting
        }
    };
    let answer = replay::answer(waiting).await?;
    Ok(Json(embedding::answer(&model, &answer, format)).into_response())
}

async fn embed(shared: &Shared, by: Requester, order: EmbeddingOrder) -> Answer<Embeddings> {
    let embeddings = orders(shared.port.as_ref())?.embed(by, order).await;
    embeddings.map(Arc::new)
}
