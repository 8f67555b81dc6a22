//! What a refusal looks like: a status, and a body with a stable code, a message and a hint.
//!
//! | code | status | meaning |
//! |---|---|---|
//! | `TG-API-001` | 400 | a path, query or body is not what the document describes |
//! | `TG-API-002` | 404 | there is no such thing |
//! | `TG-API-003` | 413 | a body is larger than the limit |
//! | `TG-API-004` | 400 | a blob's bytes do not have the digest of its path |
//! | `TG-API-005` | 404 | only development networks have this |
//! | `TG-API-006` | 408 | a body came too slowly |
//! | `TG-API-007` | 503 | too many calls at once, or too many bytes of their bodies |
//! | `TG-API-008` | 404 | a job has no receipt |
//! | `TG-API-009` | 401 | a blob came without a permit that holds |
//! | `TG-API-010` | 500 | the server failed |
//! | `TG-API-011` | 401 | the caller does not serve the lease, or its token is of before |
//! | `TG-API-013` | 401 | the requestor of an endpoint did not sign a request |
//! | `TG-API-014` | 421 | the server is not called by the name in `Host` |
//! | `TG-API-015` | 403 | a page of another origin sends what may change something |
//! | `TG-API-016` | 503 | the node does not follow the chain |
//! | `TG-API-017` | 400 | a chunk's bytes are not those of its place in the blob of its path |
//! | `TG-API-012` | 503 | the provider of an endpoint is not here, or too many requests wait for it |
//!
//! Other codes come from the node and the ledger, with status 422 for the client's fault, 503 for the environment's,
//! 502 for a peer's and 500 for ours.

use std::fmt;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tg_sdk::ErrorBody;
use tg_types::{Digest, Fault};

use crate::port::PortError;
use crate::relay::RelayRefusal;

/// Why the API refused a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// A path, query or body is not what the document describes.
    #[error("{what} is not valid: {detail}")]
    Invalid {
        /// Which part.
        what: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// There is no such thing.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// The kind of thing.
        kind: &'static str,
        /// The id that was asked.
        id: String,
    },
    /// A body is larger than the limit.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A blob's bytes do not have the digest of its path.
    #[error("the bytes have the digest {got}, the path says {expected}")]
    WrongDigest {
        /// The digest of the path.
        expected: Digest,
        /// The digest of the bytes.
        got: Digest,
    },
    /// A chunk's bytes are not those of its place.
    #[error("these bytes are not chunk {index} of the blob {digest}")]
    WrongChunk {
        /// The blob.
        digest: Digest,
        /// The number of the chunk in the path.
        index: u64,
    },
    /// Only development networks have this.
    #[error("this network is not labelled development")]
    NotDevelopment,
    /// A body came too slowly.
    #[error("the body did not arrive within {limit_s} s")]
    TooSlow {
        /// The limit in seconds.
        limit_s: u64,
    },
    /// Too many calls at once.
    #[error("more than {limit} calls at once")]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// Too many bytes of bodies are in memory.
    #[error(
        "the bodies of calls that are being answered have {limit} bytes together, which is the most"
    )]
    NoRoom {
        /// The limit in bytes.
        limit: usize,
    },
    /// A job has no receipt.
    #[error("job {id} has no receipt: it is {state}")]
    NoReceipt {
        /// The job.
        id: String,
        /// Where it stands.
        state: String,
    },
    /// A blob came without a permit that holds.
    #[error("the blob {digest} came without a permit that holds: {detail}")]
    NoPermit {
        /// The digest of the path.
        digest: Digest,
        /// What is wrong with the permit.
        detail: String,
    },
    /// The caller does not serve the lease.
    #[error(
        "the lease is another provider's, its signature is of another time, or its token of before"
    )]
    NotServing,
    /// A request to an endpoint is not its requestor's.
    #[error("the requestor of the endpoint did not sign this request")]
    NotRequestor,
    /// Requests to an endpoint cannot wait.
    #[error("the request cannot wait: {because}")]
    NotRelayed {
        /// Why.
        because: &'static str,
    },
    /// The server is not called by this name.
    #[error("this node is not called {host:?}, which is the host that the request names")]
    WrongHost {
        /// The name.
        host: String,
    },
    /// A page of another origin sends what may change something.
    #[error("the page of {origin:?} is not this node's, and may change nothing here")]
    WrongOrigin {
        /// The page's origin.
        origin: String,
    },
    /// The node does not follow the chain.
    #[error("the last final block that this node has is {age_s} s old")]
    Behind {
        /// Its age in seconds.
        age_s: u64,
    },
    /// The server failed.
    #[error("the server failed: {detail}")]
    Failed {
        /// What happened.
        detail: String,
    },
    /// The node refused.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl ApiError {
    /// There is no thing of this kind with this id.
    pub(crate) fn not_found(kind: &'static str, id: &impl fmt::Display) -> Self {
        Self::NotFound {
            kind,
            id: id.to_string(),
        }
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::Invalid { .. } | Self::WrongDigest { .. } | Self::WrongChunk { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::NotFound { .. } | Self::NotDevelopment | Self::NoReceipt { .. } => {
                StatusCode::NOT_FOUND
            }
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Busy { .. }
            | Self::NoRoom { .. }
            | Self::NotRelayed { .. }
            | Self::Behind { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoPermit { .. } | Self::NotServing | Self::NotRequestor => {
                StatusCode::UNAUTHORIZED
            }
            Self::WrongHost { .. } => StatusCode::MISDIRECTED_REQUEST,
            Self::WrongOrigin { .. } => StatusCode::FORBIDDEN,
            Self::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Port(error) => match error.fault {
                Fault::Client => StatusCode::UNPROCESSABLE_ENTITY,
                Fault::Environment => StatusCode::SERVICE_UNAVAILABLE,
                Fault::Peer => StatusCode::BAD_GATEWAY,
                Fault::Ours => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Invalid { .. } => "TG-API-001",
            Self::NotFound { .. } => "TG-API-002",
            Self::TooLarge { .. } => "TG-API-003",
            Self::WrongDigest { .. } => "TG-API-004",
            Self::NotDevelopment => "TG-API-005",
            Self::TooSlow { .. } => "TG-API-006",
            Self::Busy { .. } | Self::NoRoom { .. } => "TG-API-007",
            Self::NoReceipt { .. } => "TG-API-008",
            Self::NoPermit { .. } => "TG-API-009",
            Self::Failed { .. } => "TG-API-010",
            Self::NotServing => "TG-API-011",
            Self::NotRequestor => "TG-API-013",
            Self::NotRelayed { .. } => "TG-API-012",
            Self::WrongHost { .. } => "TG-API-014",
            Self::WrongOrigin { .. } => "TG-API-015",
            Self::Behind { .. } => "TG-API-016",
            Self::WrongChunk { .. } => "TG-API-017",
            Self::Port(error) => &error.code,
        }
    }

    /// What to do about it; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Invalid { .. } => "GET /openapi.json describes every path and body",
            Self::NotFound { kind: "path", .. } => "GET /openapi.json lists every path",
            Self::NotFound { .. } => {
                "the last block may not be final yet; ids are hexadecimal and complete"
            }
            Self::TooLarge { .. } => "send less in one request",
            Self::WrongDigest { .. } => "a blob is named by the BLAKE3 digest of its bytes",
            Self::WrongChunk { .. } => {
                "nothing of it was kept: PUT /v1/blobs/{digest}/chunks says which chunk is missing"
            }
            Self::NotDevelopment => "sign transactions with your own key",
            Self::TooSlow { .. } | Self::Busy { .. } | Self::NoRoom { .. } => {
                "try again in a moment"
            }
            Self::NotRequestor => "the account that ordered the endpoint asks it",
            Self::NotServing => "claim the lease again with a signature of now",
            Self::NotRelayed { .. } => {
                "try again in a moment; requests go to the gateway at which the provider fetches them"
            }
            Self::NoReceipt { .. } => "GET /v1/jobs/{id}/why says where it stands",
            Self::NoPermit { .. } => {
                "an account signs an UploadPermit; it goes into the header tg-upload as 0x and hexadecimal digits"
            }
            Self::WrongHost { .. } => {
                "call it by localhost or by its address, or have its operator start it with --allowed-host NAME"
            }
            Self::WrongOrigin { .. } => {
                "open the node's own page, or have its operator start it with --allowed-host and the name of the page's server"
            }
            Self::Behind { .. } => {
                "it catches up if it reaches its validators; `tensorgrid status`, its log and this machine's clock say more"
            }
            Self::Failed { .. } => {
                "whoever runs this node finds more in its output, started with RUST_LOG=info"
            }
            Self::Port(error) => &error.hint,
        }
    }
}

impl From<RelayRefusal> for ApiError {
    fn from(refusal: RelayRefusal) -> Self {
        Self::NotRelayed {
            because: match refusal {
                RelayRefusal::Nobody => "the provider of the endpoint does not fetch requests here",
                RelayRefusal::Full => "too many requests wait for the provider of the endpoint",
            },
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            code: self.code().to_owned(),
            message: self.to_string(),
            hint: self.hint().to_owned(),
        };
        (self.status(), Json(body)).into_response()
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        Self::Invalid {
            what: "the JSON body",
            detail: rejection.body_text(),
        }
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::Invalid {
            what: "the query",
            detail: rejection.body_text(),
        }
    }
}
