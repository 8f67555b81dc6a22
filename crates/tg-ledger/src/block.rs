//! Blocks: an ordered list of transactions and verdicts, and the state root they lead to.

pub use tg_types::chain::{BlockHeader, Reserved};
use tg_types::{BlockId, Digest, Domain, SignedTransaction, Writer, fields, keccak256_of};

use crate::limits::{TRANSACTIONS_PER_BLOCK_MAX, VERDICTS_PER_BLOCK_MAX};
use crate::record::Validator;
use crate::verdict::{VERDICT_BYTES_MIN, Verdict};

/// The newest version of the protocol that this build executes; the oldest one too. A build that executes two at once, so that a
/// network can go from one to the other while it runs ([`crate::State::next_protocol`]), asks [`crate::Head::protocol`] where they
/// differ.
pub const PROTOCOL_VERSION: u16 = 15;

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it commits to.
    pub header: BlockHeader,
    /// Transactions in the order of execution.
    pub transactions: Vec<SignedTransaction>,
    /// Verdicts in the order of execution, after all transactions.
    pub verdicts: Vec<Verdict>,
}

/// Bytes of the shortest signed transaction: one id, nonce, sender and signature.
const TRANSACTION_BYTES_MIN: usize = 1 + 32 + 8 + 20 + 65;

impl Block {
    /// The block's id.
    #[must_use]
    pub fn id(&self) -> BlockId {
        self.header.id()
    }
}

/// The hash of the validators that vote, in the order of their addresses.
#[must_use]
pub fn seat_set_digest(validators: &[Validator]) -> Digest {
    let mut writer = Writer::new();
    writer.seq(validators);
    Digest::new(keccak256_of(Domain::SeatSet, &writer.into_bytes()))
}

/// The hash of a block's body.
#[must_use]
pub fn body_digest(transactions: &[SignedTransaction], verdicts: &[Verdict]) -> Digest {
    let mut writer = Writer::new();
    writer.seq(transactions);
    writer.seq(verdicts);
    Digest::new(keccak256_of(Domain::BlockBody, &writer.into_bytes()))
}

fields! {
    Block {
        header,
        transactions: seq("transactions", TRANSACTIONS_PER_BLOCK_MAX, TRANSACTION_BYTES_MIN),
        verdicts: seq("verdicts", VERDICTS_PER_BLOCK_MAX, VERDICT_BYTES_MIN),
    }
}
