//! The routes of models.

use axum::Json;
use serde_json::{Value, json};
use tg_ledger::{Model, ModelState};
use tg_types::ServedCall;

use super::access::orders;
use super::error::OpenAiError;
use super::port::ServedName;
use crate::routes::SharedState;

/// Most models in the list.
const MODELS_MAX: usize = 1_000;

/// The models that can be ordered from, as OpenAI lists them.
#[utoipa::path(
    get,
    path = "/openai/v1/models",
    operation_id = "list_openai_models",
    tag = "openai",
    responses((status = 200, content_type = "application/json", description = "OpenAI's list of models")),
)]
pub(crate) async fn models(shared: SharedState) -> Json<Value> {
    let state = shared.port.state();
    let active = state.models().iter().filter(|model| match &model.state {
        ModelState::Active(facts) => facts.served_by().is_none() && state.is_held(&model.storage),
        ModelState::Pending | ModelState::Refused(_) => false,
    });
    let orders = orders(shared.port.as_ref()).ok();
    let item = |model: &Model| program_item(model, orders.and_then(|it| it.calls_of(model.id)));
    // A grid that is away serves none.
    let served = match orders {
        Some(orders) => orders.served_names().await.unwrap_or_default(),
        None => Vec::new(),
    };
    // A name that means served models is not that of a program, which has its id still.
    let is_taken = |name: &str| served.iter().any(|it| it.name == name);
    let own = active.filter(|model| !is_taken(model.name.as_str()));
    let mut data: Vec<Value> = own.take(MODELS_MAX).map(item).collect();
    data.extend(served.iter().map(served_item));
    data.truncate(MODELS_MAX);
    Json(json!({ "object": "list", "data": data }))
}

/// A program of the grid, and the calls that it answers where it was read.
fn program_item(model: &Model, calls: Option<Vec<ServedCall>>) -> Value {
    let mut own = json!({ "model": model.id.to_string() });
    if let Some(calls) = calls {
        own["calls"] = calls.into_iter().map(ServedCall::as_str).collect();
    }
    json!({
        "id": model.name.to_string(), "object": "model", "created": 0,
        "owned_by": model.owner.to_string(), "tensorgrid": own,
    })
}

/// A served model: what it costs, and that nobody checks its answers.
fn served_item(served: &ServedName) -> Value {
    let ServedName {
        name,
        card,
        providers,
    } = served;
    let calls = ServedCall::ALL.into_iter().filter(|it| card.serves(*it));
    let calls: Vec<&str> = calls.map(ServedCall::as_str).collect();
    json!({
        "id": name, "object": "model", "created": card.issued.get() / 1_000,
        "owned_by": card.provider.to_string(),
        "tensorgrid": {
            "model": card.model_id().to_string(), "served": true, "verify": "none", "checked": false,
            "providers": providers, "context": card.context, "calls": calls,
            "prompt_price_per_million": card.prompt_price.to_string(),
            "completion_price_per_million": card.completion_price.to_string(),
        },
    })
}

/// One model, as OpenAI shows it.
#[utoipa::path(
    get,
    path = "/openai/v1/models/{model}",
    operation_id = "openai_model",
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
