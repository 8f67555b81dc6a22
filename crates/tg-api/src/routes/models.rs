//! Models, and what every offer would ask for a job on one.

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;
use tg_ledger::Model;
use tg_sdk::ErrorBody;
use tg_sdk::dto::{ModeDto, ModePriceDto, ModelDto, ModelPageDto, QuotePageDto};
use tg_types::{Amount, ModelId};

use super::extract::{Id, SharedState, parse_query};
use super::page::{self, Page};
use crate::error::ApiError;
use crate::view;

fn no_model(id: ModelId) -> ApiError {
    ApiError::not_found("model", &id)
}

/// Which models to list.
#[derive(Debug, Deserialize)]
pub(super) struct ModelQuery {
    after: Option<String>,
    limit: Option<usize>,
}

/// Models, in the order of their ids.
#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "models",
    params(
        ("after" = Option<String>, Query, description = "Where the page begins: `next` of the one before"),
        ("limit" = Option<usize>, Query, description = "At most so many; 100 if absent, 200 at most"),
    ),
    responses(
        (status = 200, body = ModelPageDto, description = "A page of models"),
        (status = 400, body = ErrorBody, description = "The query is not valid"),
    ),
)]
pub(super) async fn models(
    shared: SharedState,
    query: Result<Query<ModelQuery>, QueryRejection>,
) -> Result<Json<ModelPageDto>, ApiError> {
    let Query(query) = query?;
    let after = parse_query::<ModelId>(query.after.as_deref())?;
    let state = shared.port.state();
    let begin = |it: &&Model| after.is_none_or(|after| it.id > after);
    let page = Page::of(state.models().iter(), begin, query.limit, |it| {
        it.id.to_string()
    });
    Ok(Json(ModelPageDto {
        items: page
            .items
            .into_iter()
            .map(|it| view::model(&state, it))
            .collect(),
        next: page.next,
        total: page.total,
    }))
}

/// One model.
#[utoipa::path(
    get,
    path = "/v1/models/{id}",
    tag = "models",
    params(("id" = String, Path, description = "The model's id")),
    responses(
        (status = 200, body = ModelDto, description = "The model"),
        (status = 404, body = ErrorBody, description = "There is none of that id"),
    ),
)]
pub(super) async fn model(
    shared: SharedState,
    Id(id): Id<ModelId>,
) -> Result<Json<ModelDto>, ApiError> {
    let state = shared.port.state();
    let model = state.model(&id).ok_or_else(|| no_model(id))?;
    Ok(Json(view::model(&state, model)))
}

/// What to price.
#[derive(Debug, Deserialize)]
pub(super) struct ModesQuery {
    value_at_risk: Option<String>,
}

/// What each way of checking a result would come to for one usual job on a model.
#[utoipa::path(
    get,
    path = "/v1/models/{id}/modes",
    tag = "models",
    params(
        ("id" = String, Path, description = "The model's id"),
        ("value_at_risk" = Option<String>, Query, description = "What a wrong answer would cost beside the price; nothing if absent"),
    ),
    responses(
        (status = 200, body = Vec<ModePriceDto>, description = "One entry for each mode"),
        (status = 400, body = ErrorBody, description = "The query is not valid"),
        (status = 404, body = ErrorBody, description = "There is no model of that id"),
    ),
)]
pub(super) async fn modes(
    shared: SharedState,
    Id(id): Id<ModelId>,
    query: Result<Query<ModesQuery>, QueryRejection>,
) -> Result<Json<Vec<ModePriceDto>>, ApiError> {
    let Query(query) = query?;
    let at_risk = parse_query::<Amount>(query.value_at_risk.as_deref())?;
    let state = shared.port.state();
    let model = state.model(&id).ok_or_else(|| no_model(id))?;
    let at_risk = at_risk.unwrap_or(Amount::ZERO);
    Ok(Json(view::mode_prices(&state, model, at_risk)))
}

/// What to quote.
#[derive(Debug, Deserialize)]
pub(super) struct QuoteQuery {
    mode: Option<ModeDto>,
    max_price: Option<String>,
    value_at_risk: Option<String>,
    after: Option<usize>,
    limit: Option<usize>,
}

/// What every open offer would ask for one job on a model: those that fit first, in the order of the scheduler. Pages
/// are of one ranking as long as no block comes between them.
#[utoipa::path(
    get,
    path = "/v1/models/{id}/quotes",
    tag = "models",
    params(
        ("id" = String, Path, description = "The model's id"),
        ("mode" = Option<ModeDto>, Query, description = "How the result is checked; proof if absent"),
        ("max_price" = Option<String>, Query, description = "Most that would be paid; twice the dearest ask if absent"),
        ("value_at_risk" = Option<String>, Query, description = "What a wrong answer would cost beside the price; nothing if absent"),
        ("after" = Option<usize>, Query, description = "Where the page begins: `next` of the one before"),
        ("limit" = Option<usize>, Query, description = "At most so many; 100 if absent, 200 at most"),
    ),
    responses(
        (status = 200, body = QuotePageDto, description = "A page of quotes"),
        (status = 400, body = ErrorBody, description = "The query is not valid"),
        (status = 404, body = ErrorBody, description = "There is no model of that id"),
    ),
)]
pub(super) async fn quotes(
    shared: SharedState,
    Id(id): Id<ModelId>,
    query: Result<Query<QuoteQuery>, QueryRejection>,
) -> Result<Json<QuotePageDto>, ApiError> {
    let Query(query) = query?;
    let max_price = parse_query::<Amount>(query.max_price.as_deref())?;
    let at_risk = parse_query::<Amount>(query.value_at_risk.as_deref())?;
    let state = shared.port.state();
    let model = state.model(&id).ok_or_else(|| no_model(id))?;
    let mode = query.mode.unwrap_or(ModeDto::Proof).into();
    let at_risk = at_risk.unwrap_or(Amount::ZERO);
    let quotes = view::quotes(&state, model, (mode, at_risk), max_price);
    let total = quotes.len();
    let after = query.after.unwrap_or_default();
    let items = quotes.into_iter().skip(after);
    let items: Vec<_> = items.take(page::limit(query.limit)).collect();
    let end = after.saturating_add(items.len());
    Ok(Json(QuotePageDto {
        items,
        next: (end < total).then(|| end.to_string()),
        total: page::count(total),
    }))
}
