//! The validator.

mod application;
pub mod blob;
mod chain;
pub mod checker;
mod core;
pub mod engine;
pub mod evidence;
pub mod handle;
pub mod key;
pub mod limits;
pub mod mempool;
pub mod open;
pub mod store;
pub mod validator;
pub mod wire;

pub use application::Scheme;
pub use blob::{BlobError, BlobStore};
pub use checker::ProofChecker;
pub use core::{Fatal, Peer};
pub use evidence::{CheckError, EvidenceChecker};
pub use handle::{Finalized, NodeHandle, Status, SubmitError};
pub use key::ValidatorKey;
pub use store::{OpenError, StoreError};
pub use validator::{EmbeddedConfig, Validators, spawn_validators};
