//! Terms: the time between two changes of the set of validators ([`tg_ledger::SeatBook`]).
//!
//! A term is a consensus epoch of its own. It ends with the block after which the ledger has another set. That block becomes
//! final by votes of the old set, and the leaders of later views propose it again until it is. Then every validator of the new
//! set starts consensus anew at that block. Messages of consensus carry their epoch, so that a validator that is behind is not
//! taken for a faulty one: it asks for the block that ended its epoch ([`crate::wire::BlockMessage::AskFinal`]).

use commonware_utils::ordered::Set;
use tg_ledger::State;
use tg_types::{Address, BlockId};

use crate::chain::Executed;
use crate::key::peer_of;
use crate::peers::{Addresses, Peer};

/// Who votes from a block on.
#[derive(Debug, Clone)]
pub(crate) struct SeatTerm {
    /// The consensus epoch.
    pub(crate) epoch: u64,
    /// The block at which it begins, the last one of the term before.
    pub(crate) anchor: (u64, BlockId),
    /// The last block that the set before voted on, or genesis: its id gives the order of leaders ([`crate::leaders`]). An epoch
    /// that operators begin has another anchor, and the same order.
    pub(crate) ordered_by: BlockId,
    /// Consensus keys and accounts.
    pub(crate) seats: Vec<([u8; 32], Address)>,
}

impl SeatTerm {
    /// The term that begins after a block.
    pub(crate) fn after(last: &Executed, epoch: u64) -> Self {
        Self {
            epoch,
            anchor: (last.height(), last.id),
            ordered_by: last.id,
            seats: seats(&last.state),
        }
    }

    /// Whether a key votes in it.
    pub(crate) fn has(&self, key: &[u8; 32]) -> bool {
        self.seats.iter().any(|(public, _)| public == key)
    }

    /// The accounts by key.
    pub(crate) fn addresses(&self) -> Addresses {
        self.seats.iter().copied().collect()
    }

    /// The voters in the order of the library.
    pub(crate) fn participants(&self) -> Set<Peer> {
        let peers = self.seats.iter();
        Set::from_iter_dedup(peers.filter_map(|(public, _)| peer_of(public).ok()))
    }
}

/// Who votes on the block after a state.
pub(crate) fn seats(state: &State) -> Vec<([u8; 32], Address)> {
    let validators = state.validators().iter();
    validators
        .map(|it| (*it.key.as_bytes(), it.address))
        .collect()
}

/// Whether another set votes on what follows a block.
pub(crate) fn ends(block: &Executed) -> bool {
    block.height() > 0 && block.state.seats().since.get() == block.height()
}

/// A seat as a network that dials it must know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatedPeer {
    /// The consensus key.
    pub public: [u8; 32],
    /// Where the ledger says that it is reached; nothing for a seat of genesis.
    pub endpoint: String,
}

/// The seats of a state, with what the ledger knows of where they are.
pub(crate) fn seated(state: &State) -> Vec<SeatedPeer> {
    let seats = state.validators().iter().zip(&state.seats().seats);
    seats
        .map(|(validator, seat)| SeatedPeer {
            public: *validator.key.as_bytes(),
            endpoint: seat.endpoint.to_string(),
        })
        .collect()
}
