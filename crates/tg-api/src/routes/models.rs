//! Models, and what every offer would ask for a job on one.

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;
use tg_sdk::ErrorBody;
use tg_sdk::dto::{ModeDto, ModelDto, QuoteDto};
use tg_types::{Amount, ModelId};

use super::{Id, SharedState, parse_query};
use crate::error::ApiError;
use crate::view;

fn no_model(id: ModelId) -> ApiError {
    ApiError::NotFound {
        kind: "model",
        id: id.to_string(),
    }
}

/// All models.
#[utoipa::path(get, path = "/v1/models", tag = "models", responses((status = 200, body = Vec<ModelDto>)))]
pub(super) async fn models(shared: SharedState) -> Json<Vec<ModelDto>> {
    let state = shared.port.state();
    let mut models: Vec<_> = state.models().iter().collect();
    models.sort_by_key(|model| (model.registered_at, model.id));
    Json(models.into_iter().map(view::model).collect())
}

/// One model.
#[utoipa::path(
    get,
    path = "/v1/models/{id}",
    tag = "models",
    params(("id" = String, Path, description = "The model's id")),
    responses((status = 200, body = ModelDto), (status = 404, body = ErrorBody)),
)]
pub(super) async fn model(
    shared: SharedState,
    Id(id): Id<ModelId>,
) -> Result<Json<ModelDto>, ApiError> {
    let state = shared.port.state();
    let model = state.model(&id).ok_or_else(|| no_model(id))?;
    Ok(Json(view::model(model)))
}

/// What to quote.
#[derive(Debug, Deserialize)]
pub(super) struct QuoteQuery {
    mode: Option<ModeDto>,
    max_price: Option<String>,
}

/// What every open offer would ask for one job on a model: those that fit first, in the order of the scheduler.
#[utoipa::path(
    get,
    path = "/v1/models/{id}/quotes",
    tag = "models",
    params(
        ("id" = String, Path, description = "The model's id"),
        ("mode" = Option<ModeDto>, Query, description = "How the result is checked; zk if absent"),
        ("max_price" = Option<String>, Query, description = "Most that would be paid; twice the dearest ask if absent"),
    ),
    responses((status = 200, body = Vec<QuoteDto>), (status = 404, body = ErrorBody)),
)]
pub(super) async fn quotes(
    shared: SharedState,
    Id(id): Id<ModelId>,
    query: Result<Query<QuoteQuery>, QueryRejection>,
) -> Result<Json<Vec<QuoteDto>>, ApiError> {
    let Query(query) = query?;
    let max_price = parse_query::<Amount>(query.max_price.as_deref())?;
    let state = shared.port.state();
    let model = state.model(&id).ok_or_else(|| no_model(id))?;
    let mode = query.mode.unwrap_or(ModeDto::Zk).into();
    Ok(Json(view::quotes(&state, model, mode, max_price)))
}
