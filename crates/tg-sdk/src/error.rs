//! What can go wrong between a client and the grid.

use serde::{Deserialize, Serialize};
use tg_types::Digest;

/// The body of every refusal of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// Stable code, such as `TG-LED-014` or `TG-API-001`.
    pub code: String,
    /// What failed.
    pub message: String,
    /// What to do about it; may be empty.
    #[serde(default)]
    pub hint: String,
}

/// What a node says that has too much to do: nothing was looked at.
const BUSY: &str = "TG-API-007";

/// Refusals of a nonce that another transaction of the account took.
const NONCE_TAKEN: [&str; 8] = [
    "TG-LED-002",
    "TG-LED-003",
    "TG-LED-004",
    "TG-NODE-044",
    "TG-NODE-045",
    "TG-NODE-046",
    // The base fee rose beyond what was offered, or another one waits that offers more.
    "TG-LED-008",
    "TG-NODE-049",
];

/// Why a call of the client failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address of the API is not one.
    #[error("the API address {url:?} is not of the form http://HOST:PORT or https://HOST:PORT")]
    InvalidUrl {
        /// The address as given.
        url: String,
    },
    /// The system trusts no certificate by which the server's could be checked.
    #[cfg(feature = "client")]
    #[error("check the certificate of {url}")]
    NoRoots {
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: crate::tls::RootsError,
    },
    /// Nothing answers at the address, or the connection broke.
    #[error("reach the grid at {url}")]
    Unreachable {
        /// The address.
        url: String,
        /// What the transport said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer did not come in time.
    #[error("the grid at {url} did not answer within {limit_ms} ms")]
    Timeout {
        /// The address.
        url: String,
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The grid understood and refused.
    #[error("{}: {}", body.code, body.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the grid said.
        body: ErrorBody,
    },
    /// The answer is larger than the caller allows.
    #[error("the answer of {path} is larger than {limit} bytes")]
    TooLarge {
        /// The path that was asked.
        path: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer is not the encoding of what was asked for.
    #[error("the answer of {path} is malformed")]
    Malformed {
        /// The path that was asked.
        path: String,
        /// What the decoder said.
        #[source]
        source: tg_types::DecodeError,
    },
    /// The answer is not what the API's document describes.
    #[error("the answer of {path} is not the JSON that was expected")]
    Unreadable {
        /// The path that was asked.
        path: String,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// A blob does not have the digest it was asked by.
    #[error("the blob {expected} came with the digest {got}")]
    WrongBlob {
        /// The digest that was asked.
        expected: Digest,
        /// The digest of the bytes that came.
        got: Digest,
    },
}

impl ClientError {
    /// The HTTP status of a refusal.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the node had too much to do, and did nothing.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.code() == Some(BUSY)
    }

    /// The stable code of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { body, .. } => Some(&body.code),
            _ => None,
        }
    }

    /// Whether a transaction was refused for a nonce or a fee that others have overtaken: signed again, with what the ledger says
    /// now, it may be taken. The refused one had no effect.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        self.code().is_some_and(|code| NONCE_TAKEN.contains(&code))
    }

    /// Whether the thing that was asked does not exist.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self.status(), Some(404))
    }

    /// Whether the same call may succeed later: the grid is away, slow or busy.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Refused { status, .. } => matches!(*status, 408 | 425 | 429 | 500..=599),
            #[cfg(feature = "client")]
            Self::NoRoots { .. } => false,
            Self::InvalidUrl { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. }
            | Self::Unreadable { .. }
            | Self::WrongBlob { .. } => false,
        }
    }

    /// What the user can do about it; empty if nothing is known.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::InvalidUrl { .. } => {
                "give it as http://127.0.0.1:7070 or https://grid.example.org"
            }
            #[cfg(feature = "client")]
            Self::NoRoots { .. } => "SSL_CERT_FILE names a file of certificates that are trusted",
            #[cfg(feature = "client")]
            Self::Unreachable { source, .. } if crate::tls::is_untrusted(&**source) => {
                "SSL_CERT_FILE names a file of certificates that are trusted; a server's own has to name its host and to say CA:FALSE"
            }
            Self::Unreachable { .. } => {
                "is the grid running? start one with `tensorgrid up`, or name another with --api"
            }
            Self::Timeout { .. } => "the grid is busy or stuck; try again, or look at its output",
            Self::Refused { body, .. } => &body.hint,
            Self::TooLarge { .. } => "the server is not to be trusted, or the limit is too small",
            Self::Unreadable { .. } | Self::Malformed { .. } => {
                "client and server are of different versions, or this is no TensorGrid API"
            }
            Self::WrongBlob { .. } => "the server's store is damaged or it lies; ask another one",
        }
    }
}
