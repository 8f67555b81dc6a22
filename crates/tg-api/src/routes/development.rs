//! What only a network labelled development offers: play money, and signing on behalf of clients.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use tg_sdk::ErrorBody;
use tg_sdk::dto::{
    DevelopmentAccountDto, DevelopmentInferDto, FaucetRequestDto, InferenceDto, SubmittedDto,
};

use super::extract::SharedState;
use crate::error::ApiError;

/// The funded accounts of a development network. Their keys follow from their names: everybody can sign for them.
#[utoipa::path(
    get,
    path = "/v1/dev/accounts",
    tag = "development",
    responses(
        (status = 200, body = Vec<DevelopmentAccountDto>, description = "The accounts"),
        (status = 404, body = ErrorBody, description = "This is no development network"),
    ),
)]
pub(super) async fn accounts(
    shared: SharedState,
) -> Result<Json<Vec<DevelopmentAccountDto>>, ApiError> {
    let development = shared.port.development().ok_or(ApiError::NotDevelopment)?;
    Ok(Json(development.accounts()))
}

/// Sends play money from the faucet's account.
#[utoipa::path(
    post,
    path = "/v1/dev/faucet",
    tag = "development",
    request_body = FaucetRequestDto,
    responses(
        (status = 202, body = SubmittedDto, description = "On its way"),
        (status = 404, body = ErrorBody, description = "This is no development network"),
        (status = 422, body = ErrorBody, description = "More than the faucet gives"),
    ),
)]
pub(super) async fn faucet(
    shared: SharedState,
    body: Result<Json<FaucetRequestDto>, JsonRejection>,
) -> Result<(StatusCode, Json<SubmittedDto>), ApiError> {
    let development = shared.port.development().ok_or(ApiError::NotDevelopment)?;
    let Json(request) = body?;
    let transaction = development.faucet(request).await?;
    Ok((StatusCode::ACCEPTED, Json(SubmittedDto { transaction })))
}

/// Runs an inference signed and paid by a development account, waits for its end, and gives output and receipt. It
/// exists so that a client without a signing library can try the grid; a real client signs its own orders.
#[utoipa::path(
    post,
    path = "/v1/dev/infer",
    tag = "development",
    request_body = DevelopmentInferDto,
    responses(
        (status = 200, body = InferenceDto, description = "Output and receipt"),
        (status = 404, body = ErrorBody, description = "This is no development network"),
        (status = 422, body = ErrorBody, description = "The inference was refused, with the reason"),
    ),
)]
pub(super) async fn infer(
    shared: SharedState,
    body: Result<Json<DevelopmentInferDto>, JsonRejection>,
) -> Result<Json<InferenceDto>, ApiError> {
    let development = shared.port.development().ok_or(ApiError::NotDevelopment)?;
    let Json(request) = body?;
    Ok(Json(development.infer(request).await?))
}
