//! The dashboard: three files that are built ahead from `dashboard/` by `cargo xtask dashboard` and stand in the binary.

use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tg_types::Digest;

use crate::error::ApiError;

/// Nothing but the gateway's own files and answers, no script in the page, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
                      img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = include_str!("../../dashboard/index.html");

const FILES: [(&str, &str, &str); 2] = [
    (
        "app.js",
        "text/javascript; charset=utf-8",
        include_str!("../../dashboard/app.js"),
    ),
    (
        "app.css",
        "text/css; charset=utf-8",
        include_str!("../../dashboard/app.css"),
    ),
];

/// The page.
pub(super) async fn page(headers: HeaderMap) -> Response {
    served(&headers, "text/html; charset=utf-8", PAGE)
}

/// What the page loads.
pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match FILES.iter().find(|(known, _, _)| *known == name) {
        Some((_, kind, content)) => served(&headers, kind, content),
        None => ApiError::NotFound {
            kind: "path",
            id: format!("/dashboard/{name}"),
        }
        .into_response(),
    }
}

/// A file, or that the browser has it already.
fn served(asked: &HeaderMap, kind: &'static str, content: &'static str) -> Response {
    let tag = format!(
        "\"{}\"",
        &Digest::of_blob(content.as_bytes()).to_string()[2..34]
    );
    let is_known = asked
        .get(IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let headers = [
        (CONTENT_TYPE, kind),
        // Asked for again each time: a node may be another version tomorrow.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    let tag = [(ETAG, tag)];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, headers, tag).into_response(),
        false => (headers, tag, content).into_response(),
    }
}
