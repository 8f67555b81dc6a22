//! The header that follows from executing a block.

use tg_types::{Address, BlockId, Digest, TimestampMs};

use crate::block::{BlockHeader, Reserved, body_digest, seat_set_digest};
use crate::state::{Schedule, State};

/// The header of block 0, whose id is the hash of the genesis and not of this header.
#[must_use]
pub fn genesis_header(state: &State, timestamp: TimestampMs) -> BlockHeader {
    header_after(
        state,
        BlockId::default(),
        timestamp,
        Address::default(),
        body_digest(&[], &[]),
    )
}

/// The header of the block that leads to `state`.
pub(crate) fn header_after(
    state: &State,
    parent: BlockId,
    timestamp: TimestampMs,
    proposer: Address,
    body: Digest,
) -> BlockHeader {
    let head = state.head();
    let seats = seat_set_digest(state.validators());
    BlockHeader {
        version: head.protocol,
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
