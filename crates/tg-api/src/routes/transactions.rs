//! Submitting signed transactions, and what became of them.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use tg_sdk::ErrorBody;
use tg_sdk::dto::{SubmittedDto, TransactionStateDto, TransactionStatusDto};
use tg_types::limits::CLIENT_TRANSACTION_BYTES_MAX;
use tg_types::{Decode, SignedTransaction, TransactionId};

use super::extract::{Id, SharedState};
use crate::error::ApiError;
use crate::port::TransactionFate;

/// Submits a signed transaction in its canonical encoding. The same bytes again give the same id and do nothing.
#[utoipa::path(
    post,
    path = "/v1/transactions",
    tag = "grid",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 202, body = SubmittedDto, description = "Taken into the pool"),
        (status = 400, body = ErrorBody, description = "Not a transaction"),
        (status = 413, body = ErrorBody, description = "Longer than any transaction"),
        (status = 422, body = ErrorBody, description = "Refused, with the code of the node or the ledger"),
    ),
)]
pub(super) async fn submit(
    shared: SharedState,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<SubmittedDto>), ApiError> {
    let limit = CLIENT_TRANSACTION_BYTES_MAX;
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

/// What became of a transaction that this node took lately: it is pending, in a final block, or dropped with a reason.
/// The node remembers a bounded number of them; one that is forgotten, or was never seen, is not found.
#[utoipa::path(
    get,
    path = "/v1/transactions/{id}",
    tag = "grid",
    params(("id" = String, Path, description = "The transaction's id")),
    responses(
        (status = 200, body = TransactionStatusDto, description = "Where it stands"),
        (status = 404, body = ErrorBody, description = "This node does not remember it"),
    ),
)]
pub(super) async fn transaction(
    shared: SharedState,
    Id(id): Id<TransactionId>,
) -> Result<Json<TransactionStatusDto>, ApiError> {
    let status = shared.port.transaction(id);
    let status = status.ok_or_else(|| ApiError::not_found("transaction", &id))?;
    let (state, height, reason) = match status {
        TransactionFate::Pending => (TransactionStateDto::Pending, None, None),
        TransactionFate::Final(height) => (TransactionStateDto::Final, Some(height), None),
        TransactionFate::Dropped(reason) => (TransactionStateDto::Dropped, None, Some(reason)),
    };
    Ok(Json(TransactionStatusDto {
        transaction: id,
        state,
        height,
        reason,
    }))
}
