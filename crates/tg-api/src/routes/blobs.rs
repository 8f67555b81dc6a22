//! Content-addressed blobs.

use std::future::poll_fn;
use std::pin::Pin;

use axum::Json;
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use tg_sdk::ErrorBody;
use tg_sdk::dto::BlobDto;
use tg_types::Digest;

use super::{Id, SharedState};
use crate::error::ApiError;
use crate::server::ApiConfig;

/// A blob's bytes. Whoever asks can check them: the path is their digest.
#[utoipa::path(
    get,
    path = "/v1/blobs/{digest}",
    tag = "blobs",
    params(("digest" = String, Path, description = "BLAKE3 of the bytes")),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, body = ErrorBody),
    ),
)]
pub(super) async fn get(shared: SharedState, Id(digest): Id<Digest>) -> Result<Response, ApiError> {
    let limit = shared.config.transfers_max;
    let _permit = shared
        .transfers
        .acquire()
        .await
        .map_err(|_| ApiError::Busy { limit })?;
    let bytes = shared
        .port
        .blob(digest)
        .await?
        .ok_or_else(|| ApiError::NotFound {
            kind: "blob",
            id: digest.to_string(),
        })?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (
            header::CACHE_CONTROL,
            "public, max-age=31536000, immutable".to_owned(),
        ),
        (header::ETAG, format!("\"{digest}\"")),
    ];
    Ok((headers, bytes).into_response())
}

/// Stores a blob under the digest of its bytes. Storing it again does nothing.
#[utoipa::path(
    put,
    path = "/v1/blobs/{digest}",
    tag = "blobs",
    params(("digest" = String, Path, description = "BLAKE3 of the bytes")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, body = BlobDto, description = "It was held already"),
        (status = 201, body = BlobDto, description = "Stored"),
        (status = 400, body = ErrorBody, description = "The bytes have another digest"),
        (status = 413, body = ErrorBody),
    ),
)]
pub(super) async fn put(
    shared: SharedState,
    Id(digest): Id<Digest>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<BlobDto>), ApiError> {
    if let Some(size) = shared.port.blob_size(digest).await? {
        return Ok((StatusCode::OK, Json(BlobDto { digest, size })));
    }
    let limit = shared.config.transfers_max;
    let _permit = shared
        .transfers
        .acquire()
        .await
        .map_err(|_| ApiError::Busy { limit })?;
    let bytes = read(&shared.config, &headers, body).await?;
    let got = Digest::of_blob(&bytes);
    if got != digest {
        return Err(ApiError::WrongDigest {
            expected: digest,
            got,
        });
    }
    let size = bytes.len() as u64;
    shared.port.put_blob(digest, bytes).await?;
    Ok((StatusCode::CREATED, Json(BlobDto { digest, size })))
}

/// Reads a body, at most as large and as slow as the configuration allows; a declared length above it is refused
/// before anything is read.
async fn read(config: &ApiConfig, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, ApiError> {
    let limit = config.blob_bytes_max;
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(ApiError::TooLarge { limit });
    }
    let reading = collect(body.into_data_stream(), declared.unwrap_or(0), limit);
    tokio::time::timeout(config.body_time_max, reading)
        .await
        .map_err(|_| ApiError::TooSlow {
            limit_s: config.body_time_max.as_secs(),
        })?
}

/// First allocation for a body, in bytes: a declared length is a claim.
const ALLOCATED_MAX: usize = 1 << 20;

async fn collect(
    mut stream: BodyDataStream,
    declared: usize,
    limit: usize,
) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::with_capacity(declared.min(ALLOCATED_MAX));
    while let Some(piece) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
        let piece = piece.map_err(|error| ApiError::Invalid {
            what: "the body",
            detail: error.to_string(),
        })?;
        if bytes.len() + piece.len() > limit {
            return Err(ApiError::TooLarge { limit });
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
