//! Who sees what: requests and answers that only their two ends can read.
//!
//! [`channel`] seals what goes between the requestor of an endpoint and its provider. Whoever carries it (gateways) sees lengths, times
//! and who speaks with whom, and no content. The provider sees everything: it computes on it.

pub mod channel;

pub use channel::{SealError, SealedChannel, SealingKey};
