//! Blocks: an ordered list of transactions and verdicts, and the state root they lead to.

use tg_types::{
    Address, Amount, BlockId, Digest, Domain, Encode, Height, SignedTransaction, StateRoot,
    TimestampMs, Writer, fields, keccak256_of,
};

use crate::limits::{TRANSACTIONS_PER_BLOCK_MAX, VERDICTS_PER_BLOCK_MAX};
use crate::record::Validator;
use crate::state::{Schedule, State};
use crate::verdict::{VERDICT_BYTES_MIN, Verdict};

/// Version of the protocol that this build executes.
pub const PROTOCOL_VERSION: u16 = 2;

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
    /// [`Parameters::time_step_max`](crate::Parameters::time_step_max).
    pub time: TimestampMs,
    /// The epoch of the block.
    pub epoch: u64,
    /// Burned for each unit of gas in this block.
    pub base_fee: Amount,
    /// The validator that made the block.
    pub proposer: Address,
    /// [`seat_set_digest`] of the validators that vote on the block after this one.
    pub seats: Digest,
    /// [`seat_set_digest`] of the validators of the next epoch, as far as they are known.
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

    /// The header of block 0, whose id is the hash of the genesis and not of this header.
    #[must_use]
    pub fn of_genesis(state: &State, timestamp: TimestampMs) -> Self {
        Self::after(
            state,
            BlockId::default(),
            timestamp,
            Address::default(),
            body_digest(&[], &[]),
        )
    }

    /// The header of the block that leads to `state`.
    pub(crate) fn after(
        state: &State,
        parent: BlockId,
        timestamp: TimestampMs,
        proposer: Address,
        body: Digest,
    ) -> Self {
        let head = state.head();
        let seats = seat_set_digest(state.validators());
        Self {
            version: PROTOCOL_VERSION,
            height: head.height,
            parent,
            timestamp,
            time: head.time,
            epoch: Schedule::epoch(head.height),
            base_fee: head.base_fee,
            proposer,
            seats,
            next_seats: seats,
            body,
            state_root: state.root(),
            reserved: Reserved::default(),
        }
    }

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
