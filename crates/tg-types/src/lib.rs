//! Ids, money, job orders, receipts, the canonical codec, signatures and hashing domains.
//!
//! Read in this order: [`codec`] (how every byte is written and read), [`digest`] (how bytes are named), [`domain`]
//! (the closed list of hashing purposes), [`id`] (what the grid names).

pub mod codec;
pub mod digest;
pub mod domain;
pub mod id;

pub use codec::{Decode, DecodeError, Encode, Reader, Writer};
pub use digest::Digest;
pub use id::{
    Address, BlockId, JobId, LeaseId, ModelId, OfferId, ProgramId, StateRoot, TransactionId,
};
