//! What keeps a record in the state, and until when.

use axum::Json;
use tg_sdk::ErrorBody;
use tg_sdk::dto::RentDto;
use tg_sdk::text::FromText;
use tg_types::{Address, Digest};

use super::extract::{Id, SharedState};
use crate::error::ApiError;
use crate::view;

/// The name of a record that pays rent.
pub(super) struct Record(Digest);

impl FromText for Record {
    const EXPECTED: &'static str =
        "the id of an offer, a model or a job, or the address of a provider";

    fn from_text(text: &str) -> Option<Self> {
        let of_address = || Address::from_text(text).map(|it| tg_ledger::name_of_address(&it));
        Digest::from_text(text).or_else(of_address).map(Self)
    }
}

/// The rent of a record: what is left of its deposit, and for how long that lasts. Anyone may add to it with a
/// `PayRent` transaction.
#[utoipa::path(
    get,
    path = "/v1/rent/{record}",
    tag = "grid",
    params(("record" = String, Path, description = "Id of an offer, a model or a job, or address of a provider")),
    responses(
        (status = 200, body = RentDto, description = "The rent"),
        (status = 400, body = ErrorBody, description = "It is no id and no address"),
        (status = 404, body = ErrorBody, description = "There is no such record, or it pays no rent"),
    ),
)]
pub(super) async fn rent(
    shared: SharedState,
    Id(Record(record)): Id<Record>,
) -> Result<Json<RentDto>, ApiError> {
    let state = shared.port.state();
    let rent = view::rent(&state, record)
        .ok_or_else(|| ApiError::not_found("record that pays rent", &record))?;
    Ok(Json(rent))
}
