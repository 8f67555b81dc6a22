//! Blocks: an ordered list of transactions and verdicts, and the state root they lead to.

use tg_types::{
    Address, BlockId, Decode, DecodeError, Digest, Domain, Encode, Height, Reader,
    SignedTransaction, StateRoot, TimestampMs, Writer, keccak256_of,
};

use crate::limits::{TRANSACTIONS_PER_BLOCK_MAX, VERDICTS_PER_BLOCK_MAX};
use crate::verdict::{VERDICT_BYTES_MIN, Verdict};

/// What a block commits to; its hash is the block's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// How many blocks came before.
    pub height: Height,
    /// The block before.
    pub parent: BlockId,
    /// Block time; strictly later than the parent's.
    pub timestamp: TimestampMs,
    /// The validator that made the block.
    pub proposer: Address,
    /// Hash of the transactions and verdicts.
    pub body: Digest,
    /// Root of the state after this block.
    pub state_root: StateRoot,
}

impl Encode for BlockHeader {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            height,
            parent,
            timestamp,
            proposer,
            body,
            state_root,
        } = self;
        height.encode(writer);
        parent.encode(writer);
        timestamp.encode(writer);
        proposer.encode(writer);
        body.encode(writer);
        state_root.encode(writer);
    }
}

impl Decode for BlockHeader {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            height: Height::decode(reader)?,
            parent: BlockId::decode(reader)?,
            timestamp: TimestampMs::decode(reader)?,
            proposer: Address::decode(reader)?,
            body: Digest::decode(reader)?,
            state_root: StateRoot::decode(reader)?,
        })
    }
}

impl BlockHeader {
    /// The block's id.
    #[must_use]
    pub fn id(&self) -> BlockId {
        BlockId::new(keccak256_of(Domain::Block, &self.to_bytes()))
    }
}

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

/// The hash of a block's body.
#[must_use]
pub fn body_digest(transactions: &[SignedTransaction], verdicts: &[Verdict]) -> Digest {
    let mut writer = Writer::new();
    writer.seq(transactions);
    writer.seq(verdicts);
    Digest::new(keccak256_of(Domain::BlockBody, &writer.into_bytes()))
}

impl Encode for Block {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            header,
            transactions,
            verdicts,
        } = self;
        header.encode(writer);
        writer.seq(transactions);
        writer.seq(verdicts);
    }
}

impl Decode for Block {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            header: BlockHeader::decode(reader)?,
            transactions: reader.seq(
                "transactions",
                TRANSACTIONS_PER_BLOCK_MAX,
                TRANSACTION_BYTES_MIN,
            )?,
            verdicts: reader.seq("verdicts", VERDICTS_PER_BLOCK_MAX, VERDICT_BYTES_MIN)?,
        })
    }
}
