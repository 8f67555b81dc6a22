//! Who calls, and for whom it is ordered.

use axum::http::{HeaderMap, header};
use serde_json::Value;

use super::error::OpenAiError;
use super::port::OpenAiPort;
use crate::json::{JsonLimit, read_json};
use crate::port::GridPort;

/// Most bytes of a header that names a request.
const NAME_BYTES_MAX: usize = 256;

/// Whoever orders for callers.
pub(super) fn orders(port: &dyn GridPort) -> Result<&dyn OpenAiPort, OpenAiError> {
    port.openai().ok_or_else(|| {
        let message = "this node orders for nobody: it was started without API keys";
        OpenAiError::unavailable(message.to_owned())
    })
}

/// The caller of the key in the headers, if it is known.
pub(super) fn known(orders: &dyn OpenAiPort, headers: &HeaderMap) -> Option<String> {
    let header = headers.get(header::AUTHORIZATION);
    let text = header.and_then(|value| value.to_str().ok());
    let key = text.and_then(|text| text.strip_prefix("Bearer "));
    key.and_then(|key| orders.caller(key.trim()))
}

/// The caller.
pub(super) fn caller(port: &dyn GridPort, headers: &HeaderMap) -> Result<String, OpenAiError> {
    known(orders(port)?, headers).ok_or_else(OpenAiError::key)
}

/// The JSON of a body, which takes no more memory than a request may.
pub(super) fn parsed(body: &[u8]) -> Result<Value, OpenAiError> {
    read_json(body, &JsonLimit::REQUEST)
        .map_err(|error| OpenAiError::invalid("body", format!("read the JSON body: {error}")))
}

/// A header that names a request.
pub(super) fn named(headers: &HeaderMap, name: &str) -> Result<Option<String>, OpenAiError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = value
        .to_str()
        .ok()
        .filter(|text| text.len() <= NAME_BYTES_MAX);
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        OpenAiError::invalid(
            name,
            format!("{name} is text of at most {NAME_BYTES_MAX} bytes"),
        )
    })
}
