//! The routes of models.

use axum::Json;
use serde_json::{Value, json};
use tg_ledger::ModelState;

use super::error::OpenAiError;
use crate::routes::SharedState;

/// Most models in the list.
const MODELS_MAX: usize = 1_000;

/// The models that can be ordered from, as OpenAI lists them.
#[utoipa::path(
    get,
    path = "/openai/v1/models",
    tag = "openai",
    responses((status = 200, content_type = "application/json", description = "OpenAI's list of models")),
)]
pub(crate) async fn models(shared: SharedState) -> Json<Value> {
    let state = shared.port.state();
    let active = state.models().iter().filter(|model| {
        matches!(model.state, ModelState::Active(_)) && state.is_held(&model.storage)
    });
    let item = |model: &tg_ledger::Model| {
        json!({
            "id": model.name.to_string(), "object": "model", "created": 0,
            "owned_by": model.owner.to_string(), "tensorgrid": { "model": model.id.to_string() },
        })
    };
    let data: Vec<Value> = active.take(MODELS_MAX).map(item).collect();
    Json(json!({ "object": "list", "data": data }))
}

/// One model, as OpenAI shows it.
#[utoipa::path(
    get,
    path = "/openai/v1/models/{model}",
    tag = "openai",
    params(("model" = String, Path, description = "The model's name")),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's model object"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: there is none of that name"),
    ),
)]
pub(crate) async fn model(
    shared: SharedState,
    axum::extract::Path(name): axum::extract::Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let Json(mut list) = models(shared).await;
    let items = list["data"].as_array_mut().map(std::mem::take);
    let mut items = items.unwrap_or_default().into_iter();
    let found = items.find(|item| item["id"] == name.as_str());
    found.map(Json).ok_or_else(|| OpenAiError::model(&name))
}
