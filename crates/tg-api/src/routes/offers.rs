//! Offers, providers and leases.

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;
use tg_ledger::Offer;
use tg_sdk::ErrorBody;
use tg_sdk::dto::{LeaseDto, OfferDto, OfferPageDto, ProviderDto};
use tg_types::{Address, OfferId};

use super::extract::{Id, SharedState, parse_query};
use super::page::Page;
use crate::error::ApiError;
use crate::view;

/// Which offers to list.
#[derive(Debug, Deserialize)]
pub(super) struct OfferQuery {
    provider: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

/// Open offers, in the order of their ids.
#[utoipa::path(
    get,
    path = "/v1/offers",
    tag = "providers",
    params(
        ("provider" = Option<String>, Query, description = "Only this account's"),
        ("after" = Option<String>, Query, description = "Where the page begins: `next` of the one before"),
        ("limit" = Option<usize>, Query, description = "At most so many; 100 if absent, 200 at most"),
    ),
    responses(
        (status = 200, body = OfferPageDto, description = "A page of offers"),
        (status = 400, body = ErrorBody, description = "The query is not valid"),
    ),
)]
pub(super) async fn offers(
    shared: SharedState,
    query: Result<Query<OfferQuery>, QueryRejection>,
) -> Result<Json<OfferPageDto>, ApiError> {
    let Query(query) = query?;
    let provider = parse_query::<Address>(query.provider.as_deref())?;
    let after = parse_query::<OfferId>(query.after.as_deref())?;
    let state = shared.port.state();
    let offers = state.offers().iter();
    let offers = offers.filter(|it| provider.is_none_or(|address| it.provider == address));
    let begin = |it: &&Offer| after.is_none_or(|after| it.id > after);
    let page = Page::of(offers, begin, query.limit, |it| it.id.to_string());
    Ok(Json(OfferPageDto {
        items: page
            .items
            .iter()
            .map(|it| view::offer(&state, it))
            .collect(),
        next: page.next,
        total: page.total,
    }))
}

/// One open offer.
#[utoipa::path(
    get,
    path = "/v1/offers/{id}",
    tag = "providers",
    params(("id" = String, Path, description = "The offer's id")),
    responses(
        (status = 200, body = OfferDto, description = "The offer"),
        (status = 404, body = ErrorBody, description = "There is none of that id"),
    ),
)]
pub(super) async fn offer(
    shared: SharedState,
    Id(id): Id<OfferId>,
) -> Result<Json<OfferDto>, ApiError> {
    let state = shared.port.state();
    let offer = state
        .offer(&id)
        .ok_or_else(|| ApiError::not_found("offer", &id))?;
    Ok(Json(view::offer(&state, offer)))
}

/// A provider: its history and its first open offers; `GET /v1/offers?provider=` has them all. An account that never
/// offered anything has neither.
#[utoipa::path(
    get,
    path = "/v1/providers/{address}",
    tag = "providers",
    params(("address" = String, Path, description = "0x and 40 hexadecimal digits")),
    responses((status = 200, body = ProviderDto, description = "The provider")),
)]
pub(super) async fn provider(shared: SharedState, Id(address): Id<Address>) -> Json<ProviderDto> {
    Json(view::provider(&shared.port.state(), address))
}

/// A provider's leases that have not ended, oldest first.
#[utoipa::path(
    get,
    path = "/v1/providers/{address}/leases",
    tag = "providers",
    params(("address" = String, Path, description = "0x and 40 hexadecimal digits")),
    responses((status = 200, body = Vec<LeaseDto>, description = "Its leases")),
)]
pub(super) async fn leases(shared: SharedState, Id(address): Id<Address>) -> Json<Vec<LeaseDto>> {
    let state = shared.port.state();
    let live = state
        .live_members()
        .filter(|(_, lease)| lease.provider == address);
    Json(
        live.map(|(job, lease)| view::lease(&state, job, lease))
            .collect(),
    )
}
