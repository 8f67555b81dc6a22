//! Whether this program executes the version of the protocol that the next block has. One that does not must neither execute it nor
//! vote on it: it stops with a reason, and a program of a release that has the version goes on from its data.

use tg_ledger::State;
use tg_types::{Address, Transaction};

/// The next block has a version that this program does not execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "from block {height} on the network has version {version} of the protocol, and this program executes version {speaks}: start the \
     program of a release that has it, and it goes on from here"
)]
pub struct UnknownProtocol {
    /// The block.
    pub height: u64,
    /// Its version.
    pub version: u16,
    /// The newest version that this program executes.
    pub speaks: u16,
}

/// Whether a program that `speaks` a version executes the block after a state.
pub(crate) fn check(state: &State, speaks: u16) -> Result<(), UnknownProtocol> {
    let version = state.next_protocol();
    match version > speaks {
        false => Ok(()),
        true => Err(UnknownProtocol {
            height: state.head().height.next().get(),
            version,
            speaks,
        }),
    }
}

/// What a validator that `speaks` a version says of the next one, once.
pub(crate) fn readiness(state: &State, me: &Address, speaks: u16) -> Option<Transaction> {
    let version = state.head().protocol.checked_add(1)?;
    let has_seat = state.seat_of(me).is_some();
    let is_due = has_seat && version <= speaks && !state.is_ready_for_next(me);
    is_due.then_some(Transaction::ReadyForProtocol { version })
}
