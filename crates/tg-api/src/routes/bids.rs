//! Sealed bids of the batch auction.

use axum::Json;
use tg_sdk::ErrorBody;
use tg_sdk::dto::BidDto;
use tg_types::BidId;

use super::extract::{Id, SharedState};
use crate::error::ApiError;
use crate::view;

/// A sealed bid that was not opened yet.
#[utoipa::path(
    get,
    path = "/v1/bids/{id}",
    tag = "jobs",
    params(("id" = String, Path, description = "The bid's id")),
    responses(
        (status = 200, body = BidDto, description = "The bid"),
        (status = 404, body = ErrorBody, description = "There is none, or it was opened or forfeited"),
    ),
)]
pub(super) async fn bid(shared: SharedState, Id(id): Id<BidId>) -> Result<Json<BidDto>, ApiError> {
    let state = shared.port.state();
    let bid = state
        .bid(&id)
        .ok_or_else(|| ApiError::not_found("sealed bid", &id))?;
    Ok(Json(view::bid(&state, bid)))
}
