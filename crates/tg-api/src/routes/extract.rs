//! What routes take from a call.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tg_sdk::text::FromText;

use crate::error::ApiError;
use crate::shared::Shared;

/// What every handler sees.
pub(crate) type SharedState = axum::extract::State<Arc<Shared>>;

/// The one id in a path, such as `{id}` of `/v1/jobs/{id}`.
pub(crate) struct Id<T>(pub(crate) T);

impl<T: FromText, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let invalid = |detail: String| ApiError::Invalid {
            what: "the path",
            detail,
        };
        let axum::extract::Path(text) =
            axum::extract::Path::<String>::from_request_parts(parts, state)
                .await
                .map_err(|rejection| invalid(rejection.body_text()))?;
        T::from_text(&text)
            .map(Self)
            .ok_or_else(|| invalid(format!("expected {}", T::EXPECTED)))
    }
}

/// Reads an optional text of a query.
pub(super) fn parse_query<T: FromText>(text: Option<&str>) -> Result<Option<T>, ApiError> {
    text.map(|text| {
        T::from_text(text).ok_or_else(|| ApiError::Invalid {
            what: "the query",
            detail: format!("expected {}", T::EXPECTED),
        })
    })
    .transpose()
}
