//! Block headers: everything that a block commits to.

use crate::{
    Address, Amount, BlockId, Digest, Domain, Encode, Height, StateRoot, TimestampMs, fields,
    keccak256_of,
};

/// What a block commits to; its hash is the block's id.
///
/// Fields of [`Reserved`] belong to rules that this version does not have; a block with another value there is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// Version of the protocol that made the block.
    pub version: u16,
    /// How many blocks came before.
    pub height: Height,
    /// The block before.
    pub parent: BlockId,
    /// Block time; strictly later than the parent's.
    pub timestamp: TimestampMs,
    /// Ledger time, which every window goes by: the parent's and the step of block time, at most
    /// `Parameters::time_step_max`.
    pub time: TimestampMs,
    /// The epoch of the block.
    pub epoch: u64,
    /// Burned for each unit of gas in this block.
    pub base_fee: Amount,
    /// The validator that made the block.
    pub proposer: Address,
    /// Digest of the validators that vote on the block after this one.
    pub seats: Digest,
    /// Digest of the validators of the next epoch, as far as they are known.
    pub next_seats: Digest,
    /// Hash of the transactions and verdicts.
    pub body: Digest,
    /// Root of the state after this block.
    pub state_root: StateRoot,
    /// Fields without a rule yet.
    pub reserved: Reserved,
}

/// Fields of a header whose rules come with settlement and Proof of Sync; all zero until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserved {
    /// Messages of the L1 queue that were consumed.
    pub l1_index: u64,
    /// Root of the messages to the L1.
    pub outbox: Digest,
    /// Root of the block's events.
    pub events: Digest,
    /// The seed that draws after this block.
    pub seed: Digest,
    /// Digest of the key generation that makes seeds.
    pub key_generation: Digest,
}

fields! { Reserved { l1_index, outbox, events, seed, key_generation } }

fields! {
    BlockHeader {
        version,
        height,
        parent,
        timestamp,
        time,
        epoch,
        base_fee,
        proposer,
        seats,
        next_seats,
        body,
        state_root,
        reserved,
    }
}

impl BlockHeader {
    /// Bytes of an encoded header.
    pub const BYTES: usize = 2 + 8 + 32 + 8 + 8 + 8 + 16 + 20 + 4 * 32 + (8 + 4 * 32);

    /// The block's id.
    #[must_use]
    pub fn id(&self) -> BlockId {
        BlockId::new(keccak256_of(Domain::Block, &self.to_bytes()))
    }
}
