//! The routes of files.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::access::caller;
use super::bodies;
use super::error::OpenAiError;
use super::multipart;
use super::page::ListPage;
use super::stores;
use crate::routes::{SharedState, blob_body};

/// Keeps a file for a batch: at most 256 files and 64 MiB of a key, until they are deleted.
#[utoipa::path(
    post,
    path = "/openai/v1/files",
    tag = "openai",
    request_body(content = bodies::FileForm, content_type = "multipart/form-data", description = "`purpose`, which is batch, and `file`"),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's file object"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what is wrong, or that there is no room"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 413, content_type = "application/json", description = "OpenAI's error object: more bytes than are taken"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: more calls of the key than a minute may have"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: it cannot be kept"),
    ),
)]
pub(crate) async fn upload(
    shared: SharedState,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(shared.port.as_ref(), &headers)?;
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let parts = multipart::parts(kind, &body);
    let parts = parts.map_err(|error| OpenAiError::invalid("body", error.to_string()))?;
    let (mut purpose, mut file) = (None, None);
    for part in parts {
        match part.name.as_str() {
            "purpose" => purpose = Some(body.slice(part.data)),
            "file" => file = Some((part.filename, body.slice(part.data))),
            name => {
                let name: String = name.chars().take(64).collect();
                return Err(OpenAiError::unsupported(&name));
            }
        }
    }
    if purpose.as_deref() != Some(b"batch".as_slice()) {
        return Err(OpenAiError::invalid("purpose", "`purpose` is batch"));
    }
    let missing = || OpenAiError::invalid("file", "`file` is missing");
    let (name, bytes) = file.ok_or_else(missing)?;
    let stores = shared.stores.get(shared.port.as_ref())?;
    let kept = stores::on_blocking_thread(move || {
        let name = name.as_deref().unwrap_or("file");
        stores.files.upload(&caller, (name, &bytes))
    });
    Ok(Json(kept.await?.object()))
}

/// The files of the key, the newest first.
#[utoipa::path(
    get,
    path = "/openai/v1/files",
    operation_id = "list_files",
    tag = "openai",
    params(
        ("after" = Option<String>, Query, description = "The last id of the page before"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 10_000, description = "Most files of a page, 1 to 10,000"),
        ("purpose" = Option<String>, Query, description = "Only those for this"),
    ),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's list of files"),
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
    let page = ListPage::read(query.as_deref(), 10_000, &["purpose", "order"])?;
    let files = shared.stores.get(shared.port.as_ref())?.files.list(&caller);
    let objects = files.iter().map(|file| (file.id.as_str(), file.object()));
    let purpose = page.filter("purpose");
    let wanted = objects.filter(|(_, it)| purpose.is_none_or(|purpose| it["purpose"] == purpose));
    Ok(Json(page.list(wanted)))
}

/// A file of the key.
#[utoipa::path(
    get,
    path = "/openai/v1/files/{id}",
    tag = "openai",
    params(("id" = String, Path, description = "The file's id")),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's file object"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: the key has no file of that id"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: more calls of the key than a minute may have"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: this node orders for nobody"),
    ),
)]
pub(crate) async fn file(
    shared: SharedState,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(shared.port.as_ref(), &headers)?;
    let found = shared
        .stores
        .get(shared.port.as_ref())?
        .files
        .get(&caller, &id)?;
    Ok(Json(found.object()))
}

/// The bytes of a file of the key.
#[utoipa::path(
    get,
    path = "/openai/v1/files/{id}/content",
    tag = "openai",
    params(("id" = String, Path, description = "The file's id")),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The bytes"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: the key has no file of that id"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: more calls of the key than a minute may have"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: it cannot be read"),
    ),
)]
pub(crate) async fn content(
    shared: SharedState,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, OpenAiError> {
    let caller = caller(shared.port.as_ref(), &headers)?;
    let stores = shared.stores.get(shared.port.as_ref())?;
    let file = stores::on_blocking_thread(move || stores.files.content(&caller, &id)).await?;
    let (size, body) = blob_body(Box::new(file))
        .await
        .map_err(|error| OpenAiError::unavailable(error.message))?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
    ];
    Ok((headers, body).into_response())
}

/// Deletes a file of the key. A batch that was made of it goes on.
#[utoipa::path(
    delete,
    path = "/openai/v1/files/{id}",
    tag = "openai",
    params(("id" = String, Path, description = "The file's id")),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's note that it is deleted"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: the key has no file of that id"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: more calls of the key than a minute may have"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: it cannot be deleted"),
    ),
)]
pub(crate) async fn delete(
    shared: SharedState,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(shared.port.as_ref(), &headers)?;
    shared
        .stores
        .get(shared.port.as_ref())?
        .files
        .delete(&caller, &id)?;
    Ok(Json(json!({ "id": id, "object": "file", "deleted": true })))
}
