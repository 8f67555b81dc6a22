//! The dashboard: files that are built ahead from `dashboard/` by `cargo xtask dashboard` and stand in the binary.

use std::io::Write as _;
use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use tg_types::Digest;

use crate::error::ApiError;

/// Nothing but the gateway's own files and answers, no script in the page, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
                      img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The same of the worker in which the verifier runs, which alone may compile WebAssembly.
const WORKER_POLICY: &str =
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";

/// A file of the dashboard.
#[derive(Debug)]
struct PageFile {
    name: &'static str,
    kind: &'static str,
    policy: &'static str,
    content: &'static [u8],
    /// Made when it is asked for first.
    prepared: OnceLock<PreparedFile>,
}

/// What is sent of a file, made once.
#[derive(Debug)]
struct PreparedFile {
    tag: String,
    /// Compressed with gzip: a third of the verifier's 1.3 MB.
    packed: Vec<u8>,
}

static PAGE: PageFile = PageFile::new(
    "",
    ("text/html; charset=utf-8", POLICY),
    include_bytes!("../../dashboard/index.html"),
);

static FILES: [PageFile; 4] = [
    PageFile::new(
        "app.js",
        ("text/javascript; charset=utf-8", POLICY),
        include_bytes!("../../dashboard/app.js"),
    ),
    PageFile::new(
        "app.css",
        ("text/css; charset=utf-8", POLICY),
        include_bytes!("../../dashboard/app.css"),
    ),
    PageFile::new(
        "verify.js",
        ("text/javascript; charset=utf-8", WORKER_POLICY),
        include_bytes!("../../dashboard/verify.js"),
    ),
    PageFile::new(
        "verify.wasm",
        ("application/wasm", POLICY),
        include_bytes!("../../dashboard/verify.wasm"),
    ),
];

impl PageFile {
    const fn new(
        name: &'static str,
        (kind, policy): (&'static str, &'static str),
        content: &'static [u8],
    ) -> Self {
        Self {
            name,
            kind,
            policy,
            content,
            prepared: OnceLock::new(),
        }
    }

    fn prepared(&self) -> &PreparedFile {
        self.prepared.get_or_init(|| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            let written = packed.write_all(self.content);
            PreparedFile {
                tag: format!("\"{}\"", &Digest::of_blob(self.content).to_string()[2..34]),
                // Memory takes all that is written; what failed is sent as it is.
                packed: written.and_then(|()| packed.finish()).unwrap_or_default(),
            }
        })
    }
}

/// The page.
pub(super) async fn page(headers: HeaderMap) -> Response {
    served(&headers, &PAGE)
}

/// What the page loads.
pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => served(&headers, file),
        None => ApiError::not_found("path", &format_args!("/dashboard/{name}")).into_response(),
    }
}

/// A file, compressed for who takes that, or that the browser has it already.
fn served(asked: &HeaderMap, file: &'static PageFile) -> Response {
    let PreparedFile { tag, packed } = file.prepared();
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
        (VARY, "accept-encoding"),
        (ETAG, tag.as_str()),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    match takes_gzip(asked) && !packed.is_empty() {
        true => (headers, [(CONTENT_ENCODING, "gzip")], packed.as_slice()).into_response(),
        false => (headers, file.content).into_response(),
    }
}

/// Whether a client says that it takes gzip, by its name and not with a quality of zero (RFC 9110, section 12.5.3).
fn takes_gzip(asked: &HeaderMap) -> bool {
    let lines = asked.get_all(ACCEPT_ENCODING).iter();
    let texts = lines.filter_map(|line| line.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = quality.trim().strip_prefix("q=").map(str::parse::<f32>);
        name.trim().eq_ignore_ascii_case("gzip") && quality != Some(Ok(0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_who_takes_it() {
        let takes = |line: &'static str| {
            let line = axum::http::HeaderValue::from_static(line);
            takes_gzip(&HeaderMap::from_iter([(ACCEPT_ENCODING, line)]))
        };
        assert!(takes("gzip, deflate, br") && takes("br;q=1.0, GZIP;q=0.5"));
        assert!(!takes("br") && !takes("gzip;q=0, br") && !takes("x-gzip") && !takes(""));
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn what_is_packed_is_the_file() {
        for file in FILES.iter().chain([&PAGE]) {
            let mut content = Vec::new();
            let mut packed = flate2::read::GzDecoder::new(file.prepared().packed.as_slice());
            std::io::Read::read_to_end(&mut packed, &mut content)
                .expect("what is packed here is whole");
            assert_eq!(content, file.content, "{}", file.name);
        }
    }
}
