//! What only a network labelled development offers: play money, and signing on behalf of clients.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use tg_sdk::ErrorBody;
use tg_sdk::dto::{
    DevelopmentAccountDto, DevelopmentEndpointDto, DevelopmentInferDto, DevelopmentTopUpDto,
    FaucetRequestDto, InferenceDto, JobDto, SubmittedDto,
};
use tg_types::JobId;

use super::extract::{Id, SharedState};
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

/// Opens an endpoint signed and paid by a development account: a provider that serves a model for some time. It gives the job as soon as
/// a block has it; somebody serves it once it is `running`.
#[utoipa::path(
    post,
    path = "/v1/dev/endpoints",
    tag = "development",
    request_body = DevelopmentEndpointDto,
    responses(
        (status = 200, body = JobDto, description = "The endpoint's job"),
        (status = 404, body = ErrorBody, description = "This is no development network"),
        (status = 422, body = ErrorBody, description = "The order was refused, with the reason"),
    ),
)]
pub(super) async fn open_endpoint(
    shared: SharedState,
    body: Result<Json<DevelopmentEndpointDto>, JsonRejection>,
) -> Result<Json<JobDto>, ApiError> {
    let development = shared.port.development().ok_or(ApiError::NotDevelopment)?;
    let Json(request) = body?;
    Ok(Json(development.open_endpoint(request).await?))
}

/// Locks more money for an endpoint of a development account.
#[utoipa::path(
    post,
    path = "/v1/dev/endpoints/{id}/top-up",
    tag = "development",
    params(("id" = String, Path, description = "The endpoint's job")),
    request_body = DevelopmentTopUpDto,
    responses(
        (status = 200, body = JobDto, description = "The endpoint's job"),
        (status = 404, body = ErrorBody, description = "This is no development network"),
        (status = 422, body = ErrorBody, description = "It was refused, with the reason"),
    ),
)]
pub(super) async fn top_up_endpoint(
    shared: SharedState,
    Id(job): Id<JobId>,
    body: Result<Json<DevelopmentTopUpDto>, JsonRejection>,
) -> Result<Json<JobDto>, ApiError> {
    let development = shared.port.development().ok_or(ApiError::NotDevelopment)?;
    let Json(request) = body?;
    Ok(Json(development.top_up_endpoint(job, request.money).await?))
}

/// Ends an endpoint of a development account. Its provider has some seconds for its last claim; then the job ends and the rest of the money
/// comes back.
#[utoipa::path(
    post,
    path = "/v1/dev/endpoints/{id}/close",
    tag = "development",
    params(("id" = String, Path, description = "The endpoint's job")),
    responses(
        (status = 200, body = JobDto, description = "The endpoint's job"),
        (status = 404, body = ErrorBody, description = "This is no development network"),
        (status = 422, body = ErrorBody, description = "It was refused, with the reason"),
    ),
)]
pub(super) async fn close_endpoint(
    shared: SharedState,
    Id(job): Id<JobId>,
) -> Result<Json<JobDto>, ApiError> {
    let development = shared.port.development().ok_or(ApiError::NotDevelopment)?;
    Ok(Json(development.close_endpoint(job).await?))
}
