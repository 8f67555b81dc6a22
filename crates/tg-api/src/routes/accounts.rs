//! Accounts.

use axum::Json;
use tg_sdk::dto::AccountDto;
use tg_types::Address;

use super::extract::{Id, SharedState};
use crate::view;

/// An account; one never seen is empty. The nonce counts transactions that wait in the pool.
#[utoipa::path(
    get,
    path = "/v1/accounts/{address}",
    tag = "grid",
    params(("address" = String, Path, description = "0x and 40 hexadecimal digits")),
    responses((status = 200, body = AccountDto, description = "The account")),
)]
pub(super) async fn account(shared: SharedState, Id(address): Id<Address>) -> Json<AccountDto> {
    let next_nonce = |lane: &_| shared.port.next_nonce(lane);
    Json(view::account(&shared.port.state(), address, next_nonce))
}
