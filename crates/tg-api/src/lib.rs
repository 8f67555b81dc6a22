//! The HTTP API of a node: JSON, content-addressed blobs, events, and the OpenAPI document.
//!
//! Read in this order: [`port`] (what a node has to offer), [`server`] (limits, listening, stopping), `routes` (one
//! file per subject), [`view`] (from the ledger's records to wire types), [`error`] (what a refusal looks like).
//!
//! The API trusts nobody: transactions are signed, blobs are checked against their digest, bodies and concurrent
//! calls are limited. It listens on loopback unless told otherwise, speaks no TLS and sends no CORS headers.

pub mod error;
pub mod port;
mod routes;
pub mod server;
pub mod view;

pub use error::ApiError;
pub use port::{DevelopmentPort, FinalizedEvents, GridPort, PortError, PortFuture};
pub use routes::openapi;
pub use server::{ApiConfig, ApiServer};
