//! What clouds ask for hardware.

use axum::Json;
use tg_sdk::dto::CloudPricesDto;

use super::extract::SharedState;

/// What clouds ask for hardware, to stand beside what offers ask: the dated rows that this node was started with, those of the
/// program if no file was named. Each is a note of a public page; the node asks no cloud.
#[utoipa::path(get, path = "/v1/clouds", tag = "models", responses((status = 200, body = CloudPricesDto, description = "The rows")))]
pub(super) async fn clouds(shared: SharedState) -> Json<CloudPricesDto> {
    Json(shared.clouds.clone())
}
