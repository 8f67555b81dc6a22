//! Blobs in chunks that are checked one by one, so that a transfer goes on where it broke off.

use std::sync::Arc;

use axum::extract::{Extension, Path};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tg_sdk::ErrorBody;
use tg_sdk::text::FromText;
use tg_types::{Digest, Encode as _};

use super::blobs;
use super::extract::{Id, SharedState};
use crate::connection::Connection;
use crate::error::ApiError;

/// The size of a blob and the nodes of its hash tree that stand for a MiB each, in the canonical encoding of a chunk tree. Whoever
/// asks can check that they are those of the blob's name, and then each chunk as it comes.
#[utoipa::path(
    get,
    path = "/v1/blobs/{digest}/chunks",
    tag = "blobs",
    params(("digest" = String, Path, description = "BLAKE3 of the bytes")),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The chunk tree"),
        (status = 404, body = ErrorBody, description = "It is not held"),
        (status = 503, body = ErrorBody, description = "It was damaged, and is missing from now on"),
    ),
)]
pub(super) async fn tree(
    shared: SharedState,
    Id(digest): Id<Digest>,
    Extension(connection): Extension<Arc<Connection>>,
) -> Result<Response, ApiError> {
    let mut tree = shared.port.chunk_tree(digest).await?;
    if tree.is_none() && blobs::find(&shared, connection.peer, digest).await? {
        tree = shared.port.chunk_tree(digest).await?;
    }
    let tree = tree.ok_or_else(|| ApiError::not_found("blob", &digest))?;
    Ok(answer(tree.to_bytes()))
}

/// One chunk of a blob: a MiB, the last one less.
#[utoipa::path(
    get,
    path = "/v1/blobs/{digest}/chunks/{index}",
    tag = "blobs",
    params(
        ("digest" = String, Path, description = "BLAKE3 of the bytes"),
        ("index" = u64, Path, description = "Which chunk, from 0 on"),
    ),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "Its bytes"),
        (status = 400, body = ErrorBody, description = "Not a digest and a number"),
        (status = 404, body = ErrorBody, description = "The blob is not held, or has no such chunk"),
    ),
)]
pub(super) async fn chunk(
    shared: SharedState,
    Path(path): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let (digest, index) = named_chunk(&path)?;
    let bytes = shared.port.chunk(digest, index).await?;
    let bytes =
        bytes.ok_or_else(|| ApiError::not_found("chunk", &format_args!("{index} of {digest}")))?;
    Ok(answer(bytes))
}

/// The blob and the number of a chunk in a path.
pub(super) fn named_chunk((digest, index): &(String, String)) -> Result<(Digest, u64), ApiError> {
    let invalid = |detail: &str| ApiError::Invalid {
        what: "the path",
        detail: format!("expected {detail}"),
    };
    let digest = Digest::from_text(digest).ok_or_else(|| invalid(Digest::EXPECTED))?;
    let index: u64 = index
        .parse()
        .map_err(|_| invalid("the number of a chunk"))?;
    Ok((digest, index))
}

fn answer(bytes: Vec<u8>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "sandbox"),
    ];
    (headers, bytes).into_response()
}
