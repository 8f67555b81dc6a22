//! The validators.

use axum::Json;
use tg_sdk::dto::SeatsDto;

use super::extract::SharedState;
use crate::view;

/// The validators, who waits for a seat among them, and whose bond is not returned yet.
#[utoipa::path(get, path = "/v1/seats", tag = "grid", responses((status = 200, body = SeatsDto, description = "The seats")))]
pub(super) async fn seats(shared: SharedState) -> Json<SeatsDto> {
    let port = &shared.port;
    Json(view::seats(&port.state(), &port.seat_endpoints()))
}
