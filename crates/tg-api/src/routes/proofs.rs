//! What a final state has, with all that shows it.

use axum::Json;
use axum::extract::Path;
use tg_ledger::State;
use tg_ledger::tree::StateProof;
use tg_sdk::ErrorBody;
use tg_sdk::dto::{StateAnswerDto, StateRecordDto};
use tg_sdk::text::FromText;
use tg_types::Encode;
use tg_types::chain::StateAnswer;

use super::extract::SharedState;
use crate::error::ApiError;

/// What the newest final state has under a name, or that it has nothing there: the certificate of n - f seats, headers, and
/// a proof. Nobody who knows the genesis needs to trust this node for it.
#[utoipa::path(
    get,
    path = "/v1/proofs/{record}/{id}",
    tag = "grid",
    params(
        ("record" = StateRecordDto, Path, description = "What kind of record"),
        ("id" = String, Path, description = "Its id, or the address of an account or provider"),
    ),
    responses(
        (status = 200, body = StateAnswerDto, description = "The answer"),
        (status = 400, body = ErrorBody, description = "There is no such kind of record, or it is no id of one"),
        (status = 404, body = ErrorBody, description = "No block is final yet"),
    ),
)]
pub(super) async fn proof(
    shared: SharedState,
    Path((record, id)): Path<(String, String)>,
) -> Result<Json<StateAnswerDto>, ApiError> {
    let invalid = |detail: &str| ApiError::Invalid {
        what: "the path",
        detail: format!("expected {detail}"),
    };
    let record =
        StateRecordDto::from_text(&record).ok_or_else(|| invalid(StateRecordDto::EXPECTED))?;
    let shown = shared.port.shown_state().await?;
    let shown = shown.ok_or_else(|| ApiError::not_found("final block", &"the newest"))?;
    let proof = prove(&shown.state, record, &id).ok_or_else(|| invalid("the record's id"))?;
    let answer = StateAnswer {
        certificate: shown.proof.certificate,
        headers: shown.proof.headers,
        proof,
    };
    let told = StateAnswerDto::from(&answer);
    Ok(Json(match content(&shown.state, record, &id) {
        Some(record) => told.with_content(&record),
        None => told,
    }))
}

/// The canonical bytes of a record, of which its proof shows the digest; nothing of money, which is all in the proof.
fn content(state: &State, record: StateRecordDto, id: &str) -> Option<Vec<u8>> {
    match record {
        StateRecordDto::Account => state
            .account(&FromText::from_text(id)?)
            .map(Encode::to_bytes),
        StateRecordDto::Offer => state.offer(&FromText::from_text(id)?).map(Encode::to_bytes),
        StateRecordDto::Model => state.model(&FromText::from_text(id)?).map(Encode::to_bytes),
        StateRecordDto::Job => state.job(&FromText::from_text(id)?).map(Encode::to_bytes),
        StateRecordDto::Lease => state.lease(&FromText::from_text(id)?).map(Encode::to_bytes),
        StateRecordDto::Escrow | StateRecordDto::Collateral => None,
    }
}

/// The proof of a record, or nothing if its id is none.
fn prove(state: &State, record: StateRecordDto, id: &str) -> Option<StateProof> {
    Some(match record {
        StateRecordDto::Account => state.prove_account(&FromText::from_text(id)?),
        StateRecordDto::Offer => state.prove_offer(&FromText::from_text(id)?),
        StateRecordDto::Model => state.prove_model(&FromText::from_text(id)?),
        StateRecordDto::Job => state.prove_job(&FromText::from_text(id)?),
        StateRecordDto::Lease => state.prove_lease(&FromText::from_text(id)?),
        StateRecordDto::Escrow => state.prove_escrow(&FromText::from_text(id)?),
        StateRecordDto::Collateral => state.prove_collateral(&FromText::from_text(id)?),
    })
}
