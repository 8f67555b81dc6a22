//! Offers, providers and leases.

use axum::Json;
use tg_sdk::ErrorBody;
use tg_sdk::dto::{LeaseDto, OfferDto, ProviderDto};
use tg_types::{Address, OfferId};

use super::{Id, SharedState};
use crate::error::ApiError;
use crate::view;

/// All open offers.
#[utoipa::path(get, path = "/v1/offers", tag = "providers", responses((status = 200, body = Vec<OfferDto>)))]
pub(super) async fn offers(shared: SharedState) -> Json<Vec<OfferDto>> {
    let state = shared.port.state();
    let offers = state.offers().iter();
    Json(offers.map(|offer| view::offer(&state, offer)).collect())
}

/// One open offer.
#[utoipa::path(
    get,
    path = "/v1/offers/{id}",
    tag = "providers",
    params(("id" = String, Path, description = "The offer's id")),
    responses((status = 200, body = OfferDto), (status = 404, body = ErrorBody)),
)]
pub(super) async fn offer(
    shared: SharedState,
    Id(id): Id<OfferId>,
) -> Result<Json<OfferDto>, ApiError> {
    let state = shared.port.state();
    let offer = state.offer(&id).ok_or_else(|| ApiError::NotFound {
        kind: "offer",
        id: id.to_string(),
    })?;
    Ok(Json(view::offer(&state, offer)))
}

/// A provider: its history and its open offers. An account that never offered anything has neither.
#[utoipa::path(
    get,
    path = "/v1/providers/{address}",
    tag = "providers",
    params(("address" = String, Path, description = "0x and 40 hexadecimal digits")),
    responses((status = 200, body = ProviderDto)),
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
    responses((status = 200, body = Vec<LeaseDto>)),
)]
pub(super) async fn leases(shared: SharedState, Id(address): Id<Address>) -> Json<Vec<LeaseDto>> {
    shared.port.heard_provider(address);
    let state = shared.port.state();
    let live = state
        .live_members()
        .filter(|(_, lease)| lease.provider == address);
    Json(
        live.map(|(job, lease)| view::lease(&state, job, lease))
            .collect(),
    )
}
