//! What can go wrong between a client and the grid.

use serde::{Deserialize, Serialize};
use tg_types::{BaseFeeTooHigh, Digest};

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

/// Refusals of a nonce that another transaction of the account took, or waits with.
const NONCE_TAKEN: [&str; 7] = [
    "TG-LED-002",
    "TG-LED-003",
    "TG-LED-004",
    "TG-NODE-044",
    "TG-NODE-045",
    "TG-NODE-046",
    // Another one waits that offers more.
    "TG-NODE-049",
];

/// The refusal of a fee: the base fee rose beyond what was offered.
const FEE_TOO_LOW: &str = "TG-LED-008";

/// Refusals of a session key: it is not registered, has ended, may not sign this, or would cost more than its cap.
const OF_SESSION: [&str; 4] = ["TG-LED-151", "TG-LED-152", NOT_OF_SESSION, "TG-LED-154"];

/// The refusal of what a session key may not sign.
const NOT_OF_SESSION: &str = "TG-LED-153";

/// Refusals of a grid that takes nothing more at the moment.
const NO_ROOM: [&str; 3] = ["TG-NODE-042", "TG-NODE-043", "TG-NODE-047"];

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
    /// A chunk of a blob that is sent cannot be read here.
    #[error("read chunk {index} of {digest}")]
    ChunkNotRead {
        /// The blob.
        digest: Digest,
        /// Which chunk.
        index: u64,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer is about something else than what was asked.
    #[error("the answer of {url}{path} is about {got}, not about {asked}")]
    OtherAnswer {
        /// The address of the API.
        url: String,
        /// The path that was asked.
        path: String,
        /// The id that was asked for.
        asked: String,
        /// The one that came.
        got: String,
    },
    /// The API is of another network than the one that is signed for.
    #[error("{url} says that it is of the network {got}, and this client signs for {expected}")]
    OtherNetwork {
        /// The address of the API.
        url: String,
        /// What is signed for: chain id, contract and salt.
        expected: String,
        /// What the API says.
        got: String,
    },
    /// The base fee that the API tells is higher than what is paid on a stranger's word.
    #[error("sign with the base fee that {url} tells")]
    BaseFee {
        /// The address of the API.
        url: String,
        /// How high it is.
        #[source]
        source: BaseFeeTooHigh,
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

    /// Whether a transaction was refused for its nonce, which another one of the account took, as the API says. The refused one has no
    /// effect if that is true; an API that lies keeps it, and one that is signed again under another nonce is a second one.
    #[must_use]
    pub fn is_nonce_taken(&self) -> bool {
        self.code().is_some_and(|code| NONCE_TAKEN.contains(&code))
    }

    /// Whether a transaction was refused for a fee that the base fee has overtaken. With the same nonce it can be signed again: of two
    /// with one nonce the ledger takes one.
    #[must_use]
    pub fn is_fee_too_low(&self) -> bool {
        self.code() == Some(FEE_TOO_LOW)
    }

    /// Whether a transaction was refused for the session key that signed it.
    #[must_use]
    pub fn is_of_session(&self) -> bool {
        self.code().is_some_and(|code| OF_SESSION.contains(&code))
    }

    /// Whether the session key that signed a transaction is of no use for others either: it is gone, has ended, or has too little left.
    #[must_use]
    pub fn is_session_used_up(&self) -> bool {
        self.is_of_session() && self.code() != Some(NOT_OF_SESSION)
    }

    /// Whether the grid takes no more transactions at the moment. The same bytes can be sent again.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.code().is_some_and(|code| NO_ROOM.contains(&code))
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
            | Self::WrongBlob { .. }
            | Self::ChunkNotRead { .. }
            | Self::OtherAnswer { .. }
            | Self::OtherNetwork { .. }
            | Self::BaseFee { .. } => false,
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
            Self::ChunkNotRead { .. } => "the disk here fails, or the blob is gone; store it again",
            Self::OtherAnswer { .. } => "the server is damaged or lies; ask another one with --api",
            Self::OtherNetwork { .. } => {
                "nothing was signed: a signature for the other network would hold there; name an API of the network that is meant, or use another key for each network"
            }
            Self::BaseFee { .. } => {
                "nothing was signed: the grid is overloaded, or the API lies; try again later, or ask another one with --api"
            }
        }
    }
}
