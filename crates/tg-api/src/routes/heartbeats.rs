//! Signs of life of providers.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use tg_sdk::ErrorBody;
use tg_types::{Decode as _, Heartbeat};

use super::extract::SharedState;
use crate::error::ApiError;

/// Most bytes that are looked at.
const BODY_BYTES_MAX: usize = 1_024;

/// Tells that a provider is there: the time of the ledger and the provider's signature, 73 bytes. Providers do so every ten
/// seconds; one that was heard and is silent for half a minute gets no jobs until it is heard again. One that is not newer than
/// the last does nothing.
#[utoipa::path(
    post,
    path = "/v1/heartbeats",
    tag = "providers",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 204, description = "It counts, or one that is newer was there"),
        (status = 400, body = ErrorBody, description = "Not a heartbeat"),
        (status = 413, body = ErrorBody, description = "Longer than any heartbeat"),
        (status = 422, body = ErrorBody, description = "It is of another time, or of no provider"),
    ),
)]
pub(super) async fn beat(
    shared: SharedState,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, ApiError> {
    let limit = BODY_BYTES_MAX;
    let bytes = body.map_err(|_| ApiError::TooLarge { limit })?;
    if bytes.len() > limit {
        return Err(ApiError::TooLarge { limit });
    }
    let heartbeat = Heartbeat::from_bytes(&bytes).map_err(|error| ApiError::Invalid {
        what: "the heartbeat",
        detail: error.to_string(),
    })?;
    shared.port.heartbeat(heartbeat)?;
    Ok(StatusCode::NO_CONTENT)
}
