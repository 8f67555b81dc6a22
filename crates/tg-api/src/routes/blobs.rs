//! Content-addressed blobs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Json;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Extension;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use tg_sdk::ErrorBody;
use tg_sdk::dto::BlobDto;
use tg_types::Digest;
use tokio::task::{JoinHandle, spawn_blocking};

use super::extract::{Id, SharedState};
use crate::connection::{Connection, PeerAddress, Stage};
use crate::error::ApiError;
use crate::incoming::IncomingBody;
use crate::port::{BlobSink, BlobSource, PortError, UploadEnd};
use crate::shared::Shared;
use crate::upload;

/// Bytes of an upload that are written at once.
const PIECE_BYTES: usize = 128 << 10;

/// A blob's bytes. Whoever asks can check them: the path is their digest. The answer breaks off if the blob turns out
/// to be damaged, which is then missing.
#[utoipa::path(
    get,
    path = "/v1/blobs/{digest}",
    tag = "blobs",
    params(("digest" = String, Path, description = "BLAKE3 of the bytes")),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The bytes"),
        (status = 404, body = ErrorBody, description = "It is not held"),
        (status = 503, body = ErrorBody, description = "It was damaged, and is missing from now on"),
    ),
)]
pub(super) async fn get(
    shared: SharedState,
    Id(digest): Id<Digest>,
    Extension(connection): Extension<Arc<Connection>>,
) -> Result<Response, ApiError> {
    let mut source = shared.port.blob(digest).await?;
    if source.is_none() && find(&shared, connection.peer, digest).await? {
        source = shared.port.blob(digest).await?;
    }
    let source = source.ok_or_else(|| ApiError::not_found("blob", &digest))?;
    let (size, body) = blob_body(source).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        (
            header::CACHE_CONTROL,
            "public, max-age=31536000, immutable".to_owned(),
        ),
        (header::ETAG, format!("\"{digest}\"")),
        // Stops: what somebody stored, run as a script of this node's pages.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
    ];
    Ok((headers, body).into_response())
}

/// Looks for a blob that is not held, if few others are looked for; whether it is held then.
///
/// Stops: calls for what records name and nobody has, which hold all places of lists and downloads for as long as it is looked for.
pub(super) async fn find(
    shared: &Shared,
    peer: PeerAddress,
    digest: Digest,
) -> Result<bool, ApiError> {
    let Some(_place) = shared.lanes.searches.enter_at_once(peer) else {
        return Ok(false);
    };
    Ok(shared.port.find_blob(digest).await?)
}

/// The size of a source, and an answer of its pieces.
pub(crate) async fn blob_body(source: Box<dyn BlobSource>) -> Result<(u64, Body), PortError> {
    let size = source.size();
    // A blob of one piece is known to be whole before the answer begins.
    let (source, first) = read(source).await;
    let pieces = Pieces::Ready(source, first?.into());
    Ok((size, Body::from_stream(pieces)))
}

type Read = (Box<dyn BlobSource>, Result<Vec<u8>, PortError>);

/// Reads the next piece beside the event loop.
async fn read(source: Box<dyn BlobSource>) -> Read {
    match reading(source).await {
        Ok(read) => read,
        // The runtime stops, or the source panicked: there is no source to give back.
        Err(error) => (Box::new(Lost), Err(failed(&error))),
    }
}

fn reading(mut source: Box<dyn BlobSource>) -> JoinHandle<Read> {
    spawn_blocking(move || {
        let piece = source.next_piece();
        (source, piece)
    })
}

fn failed(error: &tokio::task::JoinError) -> PortError {
    PortError {
        fault: tg_types::Fault::Ours,
        code: "TG-API-010".to_owned(),
        message: error.to_string(),
        hint: String::new(),
    }
}

/// A source that is gone.
struct Lost;

impl BlobSource for Lost {
    fn size(&self) -> u64 {
        0
    }

    fn next_piece(&mut self) -> Result<Vec<u8>, PortError> {
        Ok(Vec::new())
    }
}

/// The pieces of a blob: one in memory, none read ahead of the client.
enum Pieces {
    Ready(Box<dyn BlobSource>, Bytes),
    Reading(JoinHandle<Read>),
    Over,
}

impl Stream for Pieces {
    type Item = Result<Bytes, PortError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Self::Reading(task) = &mut *self {
            let read = ready!(Pin::new(task).poll(context));
            match read {
                Ok((source, Ok(piece))) => *self = Self::Ready(source, piece.into()),
                Ok((_, Err(error))) => {
                    *self = Self::Over;
                    return Poll::Ready(Some(Err(error)));
                }
                Err(error) => {
                    *self = Self::Over;
                    return Poll::Ready(Some(Err(failed(&error))));
                }
            }
        }
        match std::mem::replace(&mut *self, Self::Over) {
            Self::Ready(source, piece) if !piece.is_empty() => {
                *self = Self::Reading(reading(source));
                Poll::Ready(Some(Ok(piece)))
            }
            Self::Ready(..) | Self::Reading(_) | Self::Over => Poll::Ready(None),
        }
    }
}

/// Stores a blob under the digest of its bytes, on behalf of the account that signed the permit in the header
/// `tg-upload`: 0x and the hexadecimal digits of digest, length (8 bytes, little-endian), expiry (8 bytes) and
/// signature. A blob that no record of the ledger names within some minutes goes again. Storing it again does nothing;
/// damaged bytes are replaced.
#[utoipa::path(
    put,
    path = "/v1/blobs/{digest}",
    tag = "blobs",
    params(
        ("digest" = String, Path, description = "BLAKE3 of the bytes"),
        ("tg-upload" = String, Header, description = "The signed permit"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, body = BlobDto, description = "It was held already"),
        (status = 201, body = BlobDto, description = "Stored"),
        (status = 400, body = ErrorBody, description = "The bytes have another digest, or their length is not given"),
        (status = 401, body = ErrorBody, description = "No permit, or none that holds"),
        (status = 408, body = ErrorBody, description = "The bytes came too slowly"),
        (status = 413, body = ErrorBody, description = "More bytes than the server takes"),
        (status = 422, body = ErrorBody, description = "The account has too much stored that nothing names"),
        (status = 503, body = ErrorBody, description = "The store is full"),
    ),
)]
pub(super) async fn put(
    shared: SharedState,
    Id(digest): Id<Digest>,
    Extension(connection): Extension<Arc<Connection>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<BlobDto>), ApiError> {
    let config = &shared.config;
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok())
        // A client may send nothing without saying so.
        .or_else(|| body.is_end_stream().then_some(0));
    let limit = config.blob_bytes_max;
    if declared.is_some_and(|length| length > limit) {
        return Err(ApiError::TooLarge { limit });
    }
    let size = declared.ok_or_else(|| ApiError::Invalid {
        what: "the upload",
        detail: "it has no content-length".to_owned(),
    })?;
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    let upload = upload::check(&shared.port.state(), &headers, digest, Some(size))?;
    let lanes = &shared.lanes;
    let _ticket = lanes.enter(&lanes.uploads, connection.peer).await?;
    let mut sink = shared.port.store_blob(upload).await?;
    let mut body = IncomingBody::new(config, &connection, body, limit);
    let mut buffer = Vec::new();
    while let Some(piece) = body.next().await? {
        buffer.extend_from_slice(&piece);
        if buffer.len() >= PIECE_BYTES {
            sink = write(sink, std::mem::take(&mut buffer)).await?;
        }
    }
    connection.enter(Stage::Working);
    let sink = write(sink, buffer).await?;
    let finished = spawn_blocking(move || sink.finish()).await;
    let status = match finished.map_err(|error| failed(&error))?? {
        UploadEnd::New => StatusCode::CREATED,
        UploadEnd::Held => StatusCode::OK,
        UploadEnd::Refused(got) => {
            return Err(ApiError::WrongDigest {
                expected: digest,
                got,
            });
        }
    };
    Ok((status, Json(BlobDto { digest, size })))
}

/// Writes a piece beside the event loop.
async fn write(mut sink: Box<dyn BlobSink>, piece: Vec<u8>) -> Result<Box<dyn BlobSink>, ApiError> {
    let written = spawn_blocking(move || sink.write(&piece).map(|()| sink)).await;
    Ok(written.map_err(|error| failed(&error))??)
}
