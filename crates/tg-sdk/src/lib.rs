//! What programs outside the grid import: wire types, a typed HTTP client, a local wallet, and the checks of a result.
//!
//! Read in this order:
//! 1. [`dto`] - what travels
//! 2. [`text`] - how ids and amounts are written
//! 3. [`error`] - what can go wrong
//! 4. [`retry`] - what is signed again after that
//! 5. [`shown`] - what an answer of a gateway shows, whoever gave it
//! 6. [`date`] - days and their dates
//!
//! With the feature `clouds`:
//! 1. [`clouds`] - what clouds ask for the same hardware, by a dated file
//!
//! With the feature `client`:
//! 1. [`client`] - how to ask
//! 2. [`events`] - what the grid tells by itself
//! 3. [`light`] - answers that no gateway can forge
//! 4. [`evidence`] - certificates that contradict each other, and whom they convict
//! 5. [`tls`] - which servers are believed to be who they say
//! 6. [`clock`] - the time by this machine
//!
//! With the feature `verify`, which does no I/O and builds for wasm32:
//! 1. [`verify`] - a model, an input, and the proof of a result
//!
//! With both:
//! 1. [`jobs`], [`bids`] - an order from its signature to its checked result
//! 2. [`sealed`] - jobs whose input and answer nobody else reads
//! 3. [`endpoint`] - requests to one provider for some time
//!
//! Large blobs go and come in chunks of a MiB, each of which is checked: a connection that breaks costs the chunk that was on its way
//! (`Client::put_blob`, above 4 MiB; `Client::blob`, where more than a MiB is allowed).
//!
//! Keys never leave the process: transactions are signed here by [`Wallet`]. `examples/infer.rs` is a whole program.
//!
//! ```no_run
//! # #[cfg(feature = "client")]
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use tg_sdk::{Amount, Client, Transaction, Wallet};
//!
//! let client = Client::new("http://127.0.0.1:7070")?;
//! let alice = Wallet::from_seed(b"alice");
//! let bob = Wallet::from_seed(b"bob").address();
//! let payment = Transaction::Transfer { to: bob, amount: Amount::from_tgrid(2) };
//! let signed = client.signed(&alice, payment).await?;
//! client.submit(&signed).await?;
//! # Ok(()) }
//! ```

#[cfg(feature = "client")]
mod answer;
#[cfg(all(feature = "client", feature = "verify"))]
pub mod bids;
#[cfg(feature = "client")]
mod blob_upload;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod clock;
#[cfg(feature = "clouds")]
pub mod clouds;
pub mod date;
pub mod dto;
pub mod endpoint;
pub mod error;
#[cfg(feature = "client")]
pub mod events;
#[cfg(feature = "client")]
pub mod evidence;
#[cfg(all(feature = "client", feature = "verify"))]
pub mod guard;
#[cfg(all(feature = "client", feature = "verify"))]
mod job_error;
#[cfg(all(feature = "client", feature = "verify"))]
pub mod jobs;
#[cfg(feature = "client")]
pub mod light;
#[cfg(all(feature = "client", feature = "verify"))]
pub mod machine_session;
#[cfg(all(feature = "client", feature = "verify"))]
mod placed;
pub mod retry;
#[cfg(all(feature = "client", feature = "verify"))]
pub mod sealed;
pub mod shown;
mod signer;
pub mod text;
#[cfg(feature = "client")]
pub mod tls;
#[cfg(feature = "client")]
mod transport;
#[cfg(feature = "client")]
mod turn;
#[cfg(feature = "client")]
mod upload;
#[cfg(feature = "verify")]
pub mod verify;

#[cfg(feature = "client")]
pub use blob_upload::ONE_CALL_BYTES;
#[cfg(feature = "client")]
pub use client::{Client, JobFilter};
pub use error::{ClientError, ErrorBody};
#[cfg(feature = "client")]
pub use events::EventStream;
#[cfg(all(feature = "client", feature = "verify"))]
pub use machine_session::{MachineSession, SessionChange, SessionPolicy};
pub use signer::{AccountKeys, Signer};
pub use tg_types::{
    Address, Amount, Digest, JobId, LeaseId, ModelId, OfferId, SignedTransaction, Transaction,
    TransactionId, Wallet,
};
#[cfg(feature = "verify")]
pub use verify::{CheckedModel, OrderTerms};
