//! The routes of batches.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery};
use axum::http::HeaderMap;
use serde_json::Value;
use tokio::time::Instant;

use super::access::{caller, parsed};
use super::batch::AskedBatch;
use super::batch_run::{self, now};
use super::bodies;
use super::completions::request_name;
use super::error::OpenAiError;
use super::file_store::FilePurpose;
use super::page::ListPage;
use super::replay::{self, RequestTurn};
use super::stores;
use crate::routes::SharedState;
use crate::shared::Shared;

/// What tells the body of a request for a batch from a completion's.
const KIND: u8 = 4;

/// Begins a batch over an uploaded file: a request on each line, all for one endpoint.
#[utoipa::path(
    post,
    path = "/openai/v1/batches",
    tag = "openai",
    request_body(content = bodies::BatchBody, content_type = "application/json", description = "OpenAI's request: `input_file_id`, `endpoint`, `completion_window`, `metadata`"),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's batch object"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what is wrong, or not served"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: the key has no file of that id"),
        (status = 413, content_type = "application/json", description = "OpenAI's error object: more bytes than are taken"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: the key has as many batches as it may"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: it cannot be kept"),
    ),
)]
pub(crate) async fn create(
    shared: SharedState,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, OpenAiError> {
    let name = request_name(&shared, &headers, (KIND, &body))?;
    let asked = AskedBatch::read(parsed(&body)?)?;
    // A batch whose answer was lost is not begun again: all of it would be ordered twice.
    match shared.begun.turn(&name, Instant::now())? {
        RequestTurn::Again(_, waiting) => {
            let begun = replay::answer(waiting).await?;
            Ok(Json(Value::clone(&begun)))
        }
        RequestTurn::First(first) => {
            let begun = created(&shared, name.caller, asked).await;
            first.sender.send_replace(Some(begun.clone().map(Arc::new)));
            begun.map(Json)
        }
    }
}

async fn created(
    shared: &Arc<Shared>,
    caller: String,
    asked: AskedBatch,
) -> Result<Value, OpenAiError> {
    let stores = shared.stores.get(shared.port.as_ref())?;
    let input = stores.files.get(&caller, &asked.input_file_id)?;
    if input.purpose != FilePurpose::Batch {
        let message = "the file is not one for a batch";
        return Err(OpenAiError::invalid("input_file_id", message));
    }
    let opened = Arc::clone(&stores);
    let created =
        stores::on_blocking_thread(move || opened.batches.create(&caller, (asked, &opened.files)));
    let record = created.await?;
    batch_run::begin(shared, &stores, record.id.clone());
    Ok(record.object())
}

/// The batches of the key, the newest first.
#[utoipa::path(
    get,
    path = "/openai/v1/batches",
    operation_id = "list_batches",
    tag = "openai",
    params(
        ("after" = Option<String>, Query, description = "The last id of the page before"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "Most batches of a page, 1 to 100"),
    ),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's list of batches"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what of the query is not taken"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: more calls of the key than a minute may have"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: this node orders for nobody"),
    ),
)]
pub(crate) async fn list(
    shared: SharedState,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(shared.port.as_ref(), &headers)?;
    let page = ListPage::read(query.as_deref(), 100, &[])?;
    let batches = shared
        .stores
        .get(shared.port.as_ref())?
        .batches
        .list(&caller);
    let objects = batches.iter().map(|it| (it.id.as_str(), it.object()));
    Ok(Json(page.list(objects)))
}

/// A batch of the key.
#[utoipa::path(
    get,
    path = "/openai/v1/batches/{id}",
    tag = "openai",
    params(("id" = String, Path, description = "The batch's id")),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's batch object"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: the key has no batch of that id"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: more calls of the key than a minute may have"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: this node orders for nobody"),
    ),
)]
pub(crate) async fn batch(
    shared: SharedState,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(shared.port.as_ref(), &headers)?;
    let found = shared
        .stores
        .get(shared.port.as_ref())?
        .batches
        .get(&caller, &id)?;
    Ok(Json(found.object()))
}

/// Cancels a batch of the key: requests that have begun end, no other begins, and what there is becomes its files.
#[utoipa::path(
    post,
    path = "/openai/v1/batches/{id}/cancel",
    tag = "openai",
    params(("id" = String, Path, description = "The batch's id")),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's batch object"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: it is over"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: the key has no batch of that id"),
        (status = 413, content_type = "application/json", description = "OpenAI's error object: more bytes than are taken"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: more calls of the key than a minute may have"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: it cannot be kept"),
    ),
)]
pub(crate) async fn cancel(
    shared: SharedState,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(shared.port.as_ref(), &headers)?;
    let stores = shared.stores.get(shared.port.as_ref())?;
    let cancelled = stores::on_blocking_thread(move || stores.batches.cancel(&caller, &id, now()));
    Ok(Json(cancelled.await?.object()))
}
