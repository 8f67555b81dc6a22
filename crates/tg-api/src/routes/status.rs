//! What the grid is, where it stands, and whether this node follows it.

use axum::http::header;
use axum::response::IntoResponse;
use tg_sdk::dto::StatusDto;
use tg_sdk::{ErrorBody, clock};
use tg_types::DurationMs;

use super::extract::SharedState;
use crate::error::ApiError;
use crate::view;

/// Age of the last final block from which on a node does not follow the chain. A grid makes blocks whether or not anything happens, some in
/// each second; the alert on their age waits for 10 s of half a minute, and what watches this ends the process or takes its calls away.
const AGE_MAX: DurationMs = DurationMs::from_secs(30);

/// What the grid is and where it stands.
#[utoipa::path(get, path = "/v1/status", tag = "grid", responses((status = 200, body = StatusDto, description = "The grid")))]
pub(super) async fn status(shared: SharedState) -> impl IntoResponse {
    let port = &shared.port;
    let state = port.state();
    let answer = shared.latest_status.about(state.head().block, || {
        let is_development = port.development().is_some();
        let status = view::status(port.network(), is_development, &state);
        serde_json::to_vec(&status).unwrap_or_default()
    });
    ([(header::CONTENT_TYPE, "application/json")], answer)
}

/// Whether this node follows the chain: its last final block is not older than 30 s, by this machine's clock.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "grid",
    responses(
        (status = 200, content_type = "text/plain", body = String, description = "It does"),
        (status = 503, body = ErrorBody, description = "It does not"),
    ),
)]
pub(super) async fn healthz(shared: SharedState) -> Result<&'static str, ApiError> {
    let last = shared.port.state().head().timestamp;
    let age = clock::now().saturating_since(last);
    if age > AGE_MAX {
        return Err(ApiError::Behind {
            age_s: age.get() / 1_000,
        });
    }
    Ok("ok\n")
}
