//! Submitting signed transactions.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use tg_sdk::ErrorBody;
use tg_sdk::dto::SubmittedDto;
use tg_types::limits::TRANSACTION_BYTES_MAX;
use tg_types::{Decode, SignedTransaction};

use super::SharedState;
use crate::error::ApiError;

/// Submits a signed transaction in its canonical encoding. The same bytes again give the same id and do nothing.
#[utoipa::path(
    post,
    path = "/v1/transactions",
    tag = "grid",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 202, body = SubmittedDto, description = "Taken into the pool"),
        (status = 400, body = ErrorBody, description = "Not a transaction"),
        (status = 422, body = ErrorBody, description = "Refused, with the code of the node or the ledger"),
    ),
)]
pub(super) async fn submit(
    shared: SharedState,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<SubmittedDto>), ApiError> {
    let limit = TRANSACTION_BYTES_MAX;
    let bytes = body.map_err(|_| ApiError::TooLarge { limit })?;
    if bytes.len() > limit {
        return Err(ApiError::TooLarge { limit });
    }
    let signed = SignedTransaction::from_bytes(&bytes).map_err(|error| ApiError::Invalid {
        what: "the transaction",
        detail: error.to_string(),
    })?;
    let transaction = shared.port.submit(signed).await?;
    Ok((StatusCode::ACCEPTED, Json(SubmittedDto { transaction })))
}
