//! What the grid is and where it stands.

use axum::Json;
use tg_sdk::dto::StatusDto;

use super::extract::SharedState;
use crate::view;

/// What the grid is and where it stands.
#[utoipa::path(get, path = "/v1/status", tag = "grid", responses((status = 200, body = StatusDto, description = "The grid")))]
pub(super) async fn status(shared: SharedState) -> Json<StatusDto> {
    let port = &shared.port;
    let is_development = port.development().is_some();
    Json(view::status(port.network(), is_development, &port.state()))
}
