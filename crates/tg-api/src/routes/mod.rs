//! The routes, one file per subject. A route and its entry in the OpenAPI document are one declaration.

mod accounts;
mod bids;
mod blobs;
mod chain;
mod chunk_uploads;
mod chunks;
mod clouds;
mod dashboard;
mod development;
mod endpoints;
mod events;
mod extract;
mod heartbeats;
mod jobs;
mod keys;
mod metrics;
mod models;
mod offers;
mod page;
mod proofs;
mod refusals;
mod rent;
mod seats;
mod status;
mod streams;
mod transactions;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::openai;
pub(crate) use blobs::blob_body;
pub(crate) use endpoints::body_limit as endpoint_body;
pub(crate) use extract::SharedState;
use tg_sdk::dto::StateRecordDto;

use crate::shared::Shared;

/// The head of the document; paths and schemas come from the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "TensorGrid",
        description = "The HTTP API of a TensorGrid node. Ids and digests are 0x and hexadecimal digits, amounts are \
                       decimal TGRID with at most 18 places, both as text; times are milliseconds since 1970. Every \
                       refusal has the body {code, message, hint}.",
        license(name = "MIT OR Apache-2.0"),
    ),
    components(schemas(StateRecordDto)),
    tags(
        (name = "grid", description = "What the grid is, and its accounts"),
        (name = "models", description = "Registered models, and what they would cost"),
        (name = "jobs", description = "Jobs, why they wait, and their receipts"),
        (name = "providers", description = "Offers and leases"),
        (name = "blobs", description = "Content-addressed bytes: models, inputs, outputs, proofs"),
        (name = "openai", description = "The OpenAI API, with OpenAI's bodies and error objects; keys are bound to accounts"),
        (name = "development", description = "Only on networks labelled development: play money and public keys"),
    )
)]
struct Document;

fn described() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(status::status))
        .routes(routes!(status::healthz))
        .routes(routes!(accounts::account))
        .routes(routes!(proofs::proof))
        .routes(routes!(chain::blocks))
        .routes(routes!(chain::snapshot))
        .routes(routes!(chain::seats))
        .routes(routes!(chain::checkpoint))
        .routes(routes!(chain::skipped))
        .routes(routes!(seats::seats))
        .routes(routes!(transactions::submit))
        .routes(routes!(transactions::transaction))
        .routes(routes!(events::events))
        .routes(routes!(models::models))
        .routes(routes!(models::model))
        .routes(routes!(models::modes))
        .routes(routes!(models::quotes))
        .routes(routes!(clouds::clouds))
        .routes(routes!(jobs::jobs))
        .routes(routes!(jobs::job))
        .routes(routes!(jobs::dry_run))
        .routes(routes!(jobs::why))
        .routes(routes!(jobs::events))
        .routes(routes!(jobs::receipt))
        .routes(routes!(bids::bid))
        .routes(routes!(rent::rent))
        .routes(routes!(offers::offers))
        .routes(routes!(offers::offer))
        .routes(routes!(offers::provider))
        .routes(routes!(offers::leases))
        .routes(routes!(heartbeats::beat))
        .routes(routes!(endpoints::ask))
        .routes(routes!(endpoints::serve))
        .routes(routes!(blobs::get, blobs::put))
        .routes(routes!(chunks::tree, chunk_uploads::begin_upload))
        .routes(routes!(chunks::chunk, chunk_uploads::put_chunk))
        .routes(routes!(development::accounts))
        .routes(routes!(development::faucet))
        .routes(routes!(development::infer))
        .routes(routes!(development::open_endpoint))
        .routes(routes!(development::top_up_endpoint))
        .routes(routes!(development::close_endpoint))
        .routes(routes!(openai::models::models))
        .routes(routes!(openai::models::model))
        .routes(routes!(openai::completions::completions))
        .routes(routes!(openai::completions::chat))
        .routes(routes!(openai::responses::create_response))
        .routes(routes!(
            openai::responses::response,
            openai::responses::delete_response
        ))
        .routes(routes!(openai::embeddings::embeddings))
        .routes(routes!(openai::files::upload, openai::files::list))
        .routes(routes!(openai::files::file, openai::files::delete))
        .routes(routes!(openai::files::content))
        .routes(routes!(openai::batches::create, openai::batches::list))
        .routes(routes!(openai::batches::batch))
        .routes(routes!(openai::batches::cancel))
        .routes(routes!(metrics::metrics))
}

/// The document with what holds of many routes.
fn completed(document: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    streams::with_streams(keys::with_keys(refusals::with_refusals(document)))
}

/// All routes.
pub(crate) fn router() -> Router<Arc<Shared>> {
    let (router, document) = described().split_for_parts();
    let document = Arc::new(completed(document));
    router
        .route(
            "/openapi.json",
            get(move || {
                let document = Arc::clone(&document);
                async move { Json(document.as_ref().clone()) }
            }),
        )
        .route("/", get(dashboard::page))
        .route("/dashboard/{file}", get(dashboard::file))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
}

/// The OpenAPI document, as pretty-printed JSON with a final newline.
#[must_use]
pub fn openapi() -> String {
    let document = completed(described().into_openapi());
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

async fn no_such_path(uri: axum::http::Uri) -> axum::response::Response {
    if uri.path().starts_with("/openai/") {
        return openai::no_such_path(uri.path()).into_response();
    }
    let error = ApiError::not_found("path", &uri.path());
    error.into_response()
}

async fn no_such_method(
    method: axum::http::Method,
    uri: axum::http::Uri,
) -> axum::response::Response {
    if uri.path().starts_with("/openai/") {
        return openai::no_such_method(&method, uri.path()).into_response();
    }
    let error = ApiError::Invalid {
        what: "the method",
        detail: format!("{method} is not served here"),
    };
    (StatusCode::METHOD_NOT_ALLOWED, error.into_response()).into_response()
}
