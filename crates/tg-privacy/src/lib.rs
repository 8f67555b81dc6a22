//! Who sees what: requests and answers that only their two ends can read.
//!
//! [`channel`] seals what goes between the requestor of an endpoint and its provider. Whoever carries it (gateways) sees lengths, times
//! and who speaks with whom, and no content. The provider sees everything: it computes on it.
//!
//! [`job`] seals the input of a job to the provider of its lease and the answer back, so that validators can look at both once the
//! requestor shows the key, and not before.

pub mod channel;
pub mod job;

pub use channel::{SealError, SealedChannel, SealingKey};
pub use job::{JobKey, SealedFor};
