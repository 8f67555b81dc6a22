//! What programs outside the grid import: wire types, a typed HTTP client, and a local wallet.
//!
//! Read in this order: [`dto`] (what travels), [`client`] (how to ask), [`events`] (what the grid tells by itself),
//! [`error`] (what can go wrong), [`text`] (how ids and amounts are written). Keys never leave the process:
//! transactions are signed here by [`Wallet`].
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use tg_sdk::{Amount, Client, Transaction, Wallet};
//!
//! let client = Client::new("http://127.0.0.1:7070")?;
//! let alice = Wallet::from_seed(b"alice");
//! let bob = Wallet::from_seed(b"bob").address();
//! let payment = Transaction::Transfer { to: bob, amount: Amount::from_tgrid(2) };
//! client.sign_and_submit(&alice, payment).await?;
//! # Ok(()) }
//! ```

pub mod client;
pub mod dto;
pub mod error;
pub mod events;
pub mod text;
mod transport;

pub use client::{Client, JobFilter};
pub use error::{ClientError, ErrorBody};
pub use events::EventStream;
pub use tg_types::{
    Address, Amount, Digest, JobId, LeaseId, ModelId, OfferId, SignedTransaction, Transaction,
    TransactionId, Wallet,
};
