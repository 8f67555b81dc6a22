//! The protocol version of blocks, and how it changes while a network runs.
//!
//! A validator whose program can execute the next version says so once. When an epoch ends and more than two thirds of the
//! seats are ready, the next version begins with the first block after the epoch that follows. So the change is known for
//! [`EPOCH_BLOCKS`] blocks before it takes effect, in which the others can be upgraded. If at that time too few are ready,
//! because seats changed, it is put off. Seats count and not stakes, as in all votes.
//!
//! Up to f faulty validators may say that they are ready without being so. Then at least n - 2f honest ones execute the
//! version, and the others, which stop with a reason, continue as soon as they are upgraded. Blocks may pause, but never
//! fork into two versions, because no quorum votes on a block of a version that it does not execute.

use std::sync::Arc;

use tg_types::{Address, Height};

use super::Execution;
use crate::event::Event;
use crate::limits::EPOCH_BLOCKS;
use crate::record::Upgrade;
use crate::state::State;

impl Execution {
    /// The beginning of a block: it may be the first one of a version.
    pub(super) fn turn_protocol(&mut self) {
        let version = self.state.next_protocol();
        if version == self.state.head.protocol {
            return;
        }
        self.state.head.protocol = version;
        let book = Arc::make_mut(&mut self.state.seats);
        book.upgrade = None;
        for seat in &mut book.seats {
            seat.is_ready = false;
        }
        self.events.push(Event::ProtocolBegan { version });
    }

    /// Notes that a validator executes the next version.
    pub(super) fn note_ready(&mut self, validator: Address) {
        let seat = self.state.seat_of(&validator).map(usize::from);
        let book = Arc::make_mut(&mut self.state.seats);
        if let Some(seat) = seat.and_then(|seat| book.seats.get_mut(seat)) {
            seat.is_ready = true;
        }
    }

    /// The end of an epoch, after seats changed: the next version is announced, or put off.
    pub(super) fn turn_upgrade(&mut self) {
        let height = self.height;
        let is_enough = self.state.ready_seats() >= self.state.quorum();
        let version = self.state.head.protocol.saturating_add(1);
        match self.state.seats.upgrade {
            None if is_enough => {
                let from = Height::new(height.get().saturating_add(EPOCH_BLOCKS + 1));
                Arc::make_mut(&mut self.state.seats).upgrade = Some(Upgrade { version, from });
                self.events.push(Event::ProtocolAnnounced { version, from });
            }
            Some(upgrade) if !is_enough && upgrade.from == height.next() => {
                Arc::make_mut(&mut self.state.seats).upgrade = None;
                self.events.push(Event::ProtocolPutOff { version });
            }
            None | Some(_) => {}
        }
    }
}

impl State {
    /// The version of the protocol that the next block has: a program that does not execute it cannot go on.
    #[must_use]
    pub fn next_protocol(&self) -> u16 {
        let next = self.head.height.next();
        match self.seats.upgrade {
            Some(upgrade) if upgrade.from == next => upgrade.version,
            _ => self.head.protocol,
        }
    }

    /// How many seats are ready for the version after the present one.
    #[must_use]
    pub fn ready_seats(&self) -> usize {
        self.seats.seats.iter().filter(|it| it.is_ready).count()
    }

    /// Whether a validator said that it executes the version after the present one.
    #[must_use]
    pub fn is_ready_for_next(&self, validator: &Address) -> bool {
        let seat = self.seat_of(validator).map(usize::from);
        seat.and_then(|seat| self.seats.seats.get(seat))
            .is_some_and(|it| it.is_ready)
    }
}
