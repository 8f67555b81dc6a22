//! The dashboard: files that are built ahead from `dashboard/` by `cargo xtask dashboard` and stand in the binary.

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

/// The same of the worker in which the verifier runs, which alone may compile WebAssembly.
const WORKER_POLICY: &str =
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";

/// A file of the dashboard.
#[derive(Debug, Clone, Copy)]
struct PageFile {
    name: &'static str,
    kind: &'static str,
    policy: &'static str,
    content: &'static [u8],
}

const PAGE: PageFile = PageFile {
    name: "",
    kind: "text/html; charset=utf-8",
    policy: POLICY,
    content: include_bytes!("../../dashboard/index.html"),
};

const FILES: [PageFile; 4] = [
    PageFile {
        name: "app.js",
        kind: "text/javascript; charset=utf-8",
        policy: POLICY,
        content: include_bytes!("../../dashboard/app.js"),
    },
    PageFile {
        name: "app.css",
        kind: "text/css; charset=utf-8",
        policy: POLICY,
        content: include_bytes!("../../dashboard/app.css"),
    },
    PageFile {
        name: "verify.js",
        kind: "text/javascript; charset=utf-8",
        policy: WORKER_POLICY,
        content: include_bytes!("../../dashboard/verify.js"),
    },
    PageFile {
        name: "verify.wasm",
        kind: "application/wasm",
        policy: POLICY,
        content: include_bytes!("../../dashboard/verify.wasm"),
    },
];

/// The page.
pub(super) async fn page(headers: HeaderMap) -> Response {
    served(&headers, PAGE)
}

/// What the page loads.
pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => served(&headers, *file),
        None => ApiError::NotFound {
            kind: "path",
            id: format!("/dashboard/{name}"),
        }
        .into_response(),
    }
}

/// A file, or that the browser has it already.
fn served(asked: &HeaderMap, file: PageFile) -> Response {
    let tag = format!("\"{}\"", &Digest::of_blob(file.content).to_string()[2..34]);
    let is_known = asked
        .get(IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let headers = [
        (CONTENT_TYPE, file.kind),
        // Asked for again each time: a node may be another version tomorrow.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, file.policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    let tag = [(ETAG, tag)];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, headers, tag).into_response(),
        false => (headers, tag, file.content).into_response(),
    }
}
