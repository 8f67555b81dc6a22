//! The HTTP API of a node: JSON, content-addressed blobs, events, and the OpenAPI document.
//!
//! Read in this order:
//! 1. [`port`] - what a node has to offer
//! 2. [`config`] - limits
//! 3. [`server`] - listening, stopping
//! 4. `connection` - which one ends when another needs its place
//! 5. `lane` - calls of one kind wait for each other only
//! 6. `hosts` - by which names it is called, and by whose pages
//! 7. `admission` - a call takes its lane
//! 8. `incoming` - a body that is too slow or too large ends
//! 9. `json` - what is read of a stranger's JSON is bounded in memory
//! 10. `socket` - a reader that is too slow is let go
//! 11. `upload` - who may store what
//! 12. `routes` - one file per subject
//! 13. [`view`] - from the ledger's records to wire types
//! 14. [`error`] - what a refusal looks like
//!
//! The API trusts nobody: transactions and uploads are signed, blobs are checked against their digest, connections,
//! bodies and calls are bounded in number, size and time. It listens on loopback unless told otherwise, speaks TLS where
//! it has a certificate ([`tls`]) and sends no CORS headers.

mod admission;
mod calls;
pub mod config;
mod connection;
pub mod error;
mod event_log;
#[doc(hidden)]
pub mod fuzz;
mod happened;
mod hosts;
mod incoming;
mod json;
mod lane;
mod latest_status;
pub mod openai;
pub mod port;
mod relay;
mod routes;
pub mod server;
mod shared;
mod snapshots;
mod socket;
pub mod tls;
mod upload;

pub mod view;

pub use config::ApiConfig;
pub use error::ApiError;
pub use hosts::{HostName, HostNameError};
pub use json::{JsonLimit, JsonRefusal, read_json};
pub use openai::conversation::{ChatTurn, play};
pub use openai::error::OpenAiError;
pub use openai::pieces::{AnswerPiece, LimitedReceiver, LimitedSender, SentPiece, limited_pieces};
pub use openai::port::{
    AnsweringEndpoint, AskedBody, ChoiceSender, Completion, CompletionChoice, CompletionOrder,
    CompletionPrompt, EmbeddingOrder, Embeddings, KeptOrder, MemoryRecord, OpenAiFuture,
    OpenAiPort, OrderRecord, PieceSender, Requester, ServedBody, ServedName, ServedOrder,
    ServedReply, TextLogprobs, TextPiece, TokenLogprob, WrittenLogprob,
};
pub use port::{
    BlobSink, BlobSource, ChunkOutcome, DevelopmentPort, FinalizedEvents, GridPort, PortError,
    PortFuture, ShownState, TransactionFate, Upload, UploadAllowance, UploadEnd,
};
pub use routes::openapi;
pub use server::{ApiListener, ApiServer};
pub use tls::{ServerTls, TlsError, TlsFiles};
pub use upload::{BlobNames, allowance, named_blobs};
