//! The routes of batches.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery};
use axum::http::HeaderMap;
use serde_json::Value;

use super::access::{caller, parsed};
use super::batch::AskedBatch;
use super::batch_run::{self, now};
use super::error::OpenAiError;
use super::file_store::FilePurpose;
use super::page::ListPage;
use super::stores;
use crate::routes::SharedState;

/// Begins a batch over an uploaded file: a request on each line, all for one endpoint.
#[utoipa::path(
    post,
    path = "/openai/v1/batches",
    tag = "openai",
    request_body(content_type = "application/json", description = "OpenAI's request: `input_file_id`, `endpoint`, `completion_window`, `metadata`"),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's batch object"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what is wrong, or not served"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: the key has no file of that id"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: the key has as many batches as it may"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: it cannot be kept"),
    ),
)]
pub(crate) async fn create(
    shared: SharedState,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(&shared, &headers)?;
    let asked = AskedBatch::read(parsed(&body)?)?;
    let stores = stores::of(&shared)?;
    let input = stores.files.get(&caller, &asked.input_file_id)?;
    if input.purpose != FilePurpose::Batch {
        let message = "the file is not one for a batch";
        return Err(OpenAiError::invalid("input_file_id", message));
    }
    let opened = std::sync::Arc::clone(&stores);
    let created = stores::beside(move || opened.batches.create(&caller, (asked, &opened.files)));
    let record = created.await?;
    batch_run::begin(&shared, &stores, record.id.clone());
    Ok(Json(record.object()))
}

/// The batches of the key, the newest first.
#[utoipa::path(
    get,
    path = "/openai/v1/batches",
    tag = "openai",
    params(
        ("after" = Option<String>, Query, description = "The last id of the page before"),
        ("limit" = Option<u32>, Query, description = "Most batches of a page, 1 to 100"),
    ),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's list of batches"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what of the query is not taken"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: this node orders for nobody"),
    ),
)]
pub(crate) async fn list(
    shared: SharedState,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(&shared, &headers)?;
    let page = ListPage::read(query.as_deref(), 100, &[])?;
    let batches = stores::of(&shared)?.batches.list(&caller);
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
        (status = 503, content_type = "application/json", description = "OpenAI's error object: this node orders for nobody"),
    ),
)]
pub(crate) async fn batch(
    shared: SharedState,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(&shared, &headers)?;
    let found = stores::of(&shared)?.batches.get(&caller, &id)?;
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
        (status = 503, content_type = "application/json", description = "OpenAI's error object: it cannot be kept"),
    ),
)]
pub(crate) async fn cancel(
    shared: SharedState,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(&shared, &headers)?;
    let stores = stores::of(&shared)?;
    let cancelled = stores::beside(move || stores.batches.cancel(&caller, &id, now()));
    Ok(Json(cancelled.await?.object()))
}
