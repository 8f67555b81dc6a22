//! OpenAI's error object.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Our code for a job that ended without a result that is paid.
pub(crate) const NOT_PAID: &str = "job_not_paid";

/// A refusal as clients of the OpenAI API read it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OpenAiError {
    /// The HTTP status; clients choose their exception by it.
    pub status: u16,
    /// OpenAI's kind, such as `invalid_request_error`.
    pub kind: &'static str,
    /// OpenAI's code where there is one, else ours.
    pub code: String,
    /// The field that is at fault.
    pub param: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl OpenAiError {
    /// A request that cannot be served as it is.
    #[must_use]
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self {
            status: 400,
            kind: "invalid_request_error",
            code: "invalid_value".to_owned(),
            param: Some(param.to_owned()),
            message: message.into(),
        }
    }

    /// A field that is not served, by its name.
    #[must_use]
    pub fn unsupported(param: &str) -> Self {
        Self {
            code: "unsupported_parameter".to_owned(),
            ..Self::invalid(param, format!("`{param}` is not supported here"))
        }
    }

    /// No key, or one that is not known.
    #[must_use]
    pub fn key() -> Self {
        Self {
            status: 401,
            kind: "invalid_request_error",
            code: "invalid_api_key".to_owned(),
            param: None,
            message: "the API key is missing or not known".to_owned(),
        }
    }

    /// No such model.
    #[must_use]
    pub fn model(name: &str) -> Self {
        Self {
            status: 404,
            code: "model_not_found".to_owned(),
            ..Self::invalid("model", format!("the model `{name}` does not exist"))
        }
    }

    /// The key's limit does not allow another order.
    #[must_use]
    pub fn quota(message: String) -> Self {
        Self {
            status: 429,
            kind: "insufficient_quota",
            code: "insufficient_quota".to_owned(),
            param: None,
            message,
        }
    }

    /// More calls than the key may make in a while.
    #[must_use]
    pub fn rate(message: String) -> Self {
        Self {
            kind: "requests",
            code: "rate_limit_exceeded".to_owned(),
            ..Self::quota(message)
        }
    }

    /// Nothing of that name.
    #[must_use]
    pub fn missing(param: &str, message: String) -> Self {
        Self {
            status: 404,
            code: "not_found".to_owned(),
            ..Self::invalid(param, message)
        }
    }

    /// The grid cannot serve it now.
    #[must_use]
    pub fn unavailable(message: String) -> Self {
        Self {
            status: 503,
            kind: "server_error",
            code: "service_unavailable".to_owned(),
            param: None,
            message,
        }
    }

    /// The job was not taken, or gave no result, within its time.
    #[must_use]
    pub fn not_paid(message: String) -> Self {
        Self {
            code: NOT_PAID.to_owned(),
            ..Self::unavailable(message)
        }
    }

    /// The object.
    #[must_use]
    pub fn object(&self) -> Value {
        let Self {
            status: _,
            kind,
            code,
            param,
            message,
        } = self;
        json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        (status, Json(self.object())).into_response()
    }
}
