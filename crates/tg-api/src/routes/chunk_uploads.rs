//! Blobs from clients in chunks, so that an upload goes on where it broke off.
//!
//! What an upload costs the node is what a whole one does: the permit is the same, the whole size counts against the account from the
//! beginning, and a call holds a place of the lane of uploads and a MiB of memory.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path};
use axum::http::{HeaderMap, StatusCode};
use tg_sdk::ErrorBody;
use tg_sdk::dto::UploadDto;
use tg_types::chunks::{CHUNK_BYTES, ChunkTree};
use tg_types::{Decode as _, Digest};

use super::chunks::named_chunk;
use super::extract::{Id, SharedState};
use crate::connection::{Connection, Stage};
use crate::error::ApiError;
use crate::incoming::IncomingBody;
use crate::port::{ChunkOutcome, Upload};
use crate::shared::Shared;
use crate::upload;

/// Bytes of a chunk tree beside its nodes: the size, and their number.
const TREE_HEAD_BYTES: u64 = 16;

/// Bytes of a node of it.
const NODE_BYTES: u64 = 32;

/// Begins an upload in chunks, or tells where one stands. The body is the blob's chunk tree in its canonical encoding, which is what
/// `GET /v1/blobs/{digest}/chunks` gives; the permit is the one of `PUT /v1/blobs/{digest}`. From now on the whole blob counts against the
/// account. The chunks follow in order. An upload ends, with all that came, if no chunk comes for ten minutes of the ledger, or if it is not
/// whole ten minutes, and as long as it takes at 64 KiB a second, after its begin; at most
/// 8 of an account are open, and 64 in all. A blob of one chunk is stored whole.
#[utoipa::path(
    put,
    path = "/v1/blobs/{digest}/chunks",
    tag = "blobs",
    params(
        ("digest" = String, Path, description = "BLAKE3 of the bytes"),
        ("tg-upload" = String, Header, description = "The signed permit"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, body = UploadDto, description = "Which chunk is missing next, if any"),
        (status = 400, body = ErrorBody, description = "Not the chunk tree of the blob, or the blob is one chunk"),
        (status = 401, body = ErrorBody, description = "No permit, or none that holds"),
        (status = 408, body = ErrorBody, description = "The tree came too slowly"),
        (status = 413, body = ErrorBody, description = "A larger blob than the server takes"),
        (status = 422, body = ErrorBody, description = "The account has too much stored that nothing names"),
        (status = 503, body = ErrorBody, description = "The store is full, too many uploads are open, or a chunk is being written"),
    ),
)]
pub(super) async fn begin_upload(
    shared: SharedState,
    Id(digest): Id<Digest>,
    Extension(connection): Extension<Arc<Connection>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<UploadDto>), ApiError> {
    let upload = permitted(&shared, &headers, digest)?;
    let lanes = &shared.lanes;
    let _ticket = lanes.enter(&lanes.uploads, connection.peer).await?;
    let limit = TREE_HEAD_BYTES + NODE_BYTES * upload.size.div_ceil(CHUNK_BYTES);
    let bytes = received(&shared, &connection, body, limit).await?;
    let invalid = |detail: String| ApiError::Invalid {
        what: "the chunk tree",
        detail,
    };
    let tree = ChunkTree::from_bytes(&bytes).map_err(|error| invalid(error.to_string()))?;
    // Stops: chunks of the sender's choice, and another size than the one that is signed for.
    if tree.size() != upload.size || !tree.is_of(&digest) {
        let length = upload.size;
        return Err(invalid(format!("it is not of {digest} of {length} bytes")));
    }
    let outcome = shared.port.begin_upload(upload, tree).await?;
    answer(&upload, 0, outcome)
}

/// Takes the chunk of an upload that is missing next: a MiB, the last one less. It is checked against the blob's name when it comes, and
/// kept. One that is not missing next is not looked at; the answer says which is.
#[utoipa::path(
    put,
    path = "/v1/blobs/{digest}/chunks/{index}",
    tag = "blobs",
    params(
        ("digest" = String, Path, description = "BLAKE3 of the bytes"),
        ("index" = u64, Path, description = "Which chunk, from 0 on"),
        ("tg-upload" = String, Header, description = "The signed permit"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, body = UploadDto, description = "Which chunk is missing next, or that the blob was held already"),
        (status = 201, body = UploadDto, description = "It was the last one, and the blob is stored"),
        (status = 400, body = ErrorBody, description = "The bytes are not this chunk, and nothing of them was kept"),
        (status = 401, body = ErrorBody, description = "No permit, or none that holds"),
        (status = 404, body = ErrorBody, description = "No upload of the blob is open"),
        (status = 408, body = ErrorBody, description = "The bytes came too slowly"),
        (status = 413, body = ErrorBody, description = "More bytes than a chunk has"),
        (status = 503, body = ErrorBody, description = "The store is full, or another chunk is being written"),
    ),
)]
pub(super) async fn put_chunk(
    shared: SharedState,
    Path(path): Path<(String, String)>,
    Extension(connection): Extension<Arc<Connection>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<UploadDto>), ApiError> {
    let (digest, index) = named_chunk(&path)?;
    let upload = permitted(&shared, &headers, digest)?;
    let lanes = &shared.lanes;
    let _ticket = lanes.enter(&lanes.uploads, connection.peer).await?;
    let bytes = received(&shared, &connection, body, CHUNK_BYTES).await?;
    let outcome = shared.port.put_chunk(upload, index, bytes).await?;
    answer(&upload, index, outcome)
}

/// What a permit allows, of a blob that may come in chunks.
fn permitted(shared: &Shared, headers: &HeaderMap, digest: Digest) -> Result<Upload, ApiError> {
    let upload = upload::check(&shared.port.state(), headers, digest, None)?;
    let limit = shared.config.blob_bytes_max;
    if upload.size > limit as u64 {
        return Err(ApiError::TooLarge { limit });
    }
    // Stops: open uploads that take no money.
    if upload.size <= CHUNK_BYTES {
        return Err(ApiError::Invalid {
            what: "the upload",
            detail: "a blob of one chunk is stored whole".to_owned(),
        });
    }
    Ok(upload)
}

/// A body of at most `limit` bytes.
async fn received(
    shared: &Shared,
    connection: &Connection,
    body: Body,
    limit: u64,
) -> Result<Vec<u8>, ApiError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut body = IncomingBody::new(&shared.config, connection, body, limit);
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await? {
        bytes.extend_from_slice(&piece);
    }
    connection.enter(Stage::Working);
    Ok(bytes)
}

fn answer(
    upload: &Upload,
    index: u64,
    outcome: ChunkOutcome,
) -> Result<(StatusCode, Json<UploadDto>), ApiError> {
    let Upload { digest, size, .. } = *upload;
    let (status, next) = match outcome {
        ChunkOutcome::Missing(next) => (StatusCode::OK, Some(next)),
        ChunkOutcome::Held => (StatusCode::OK, None),
        ChunkOutcome::New => (StatusCode::CREATED, None),
        ChunkOutcome::Wrong => return Err(ApiError::WrongChunk { digest, index }),
        ChunkOutcome::NotOpen => {
            return Err(ApiError::not_found("open upload", &digest));
        }
    };
    Ok((status, Json(UploadDto { digest, size, next })))
}
