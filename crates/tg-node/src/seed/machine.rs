//! The machine of one validator.

use tg_types::TimestampMs;

use crate::key::ValidatorKey;
use crate::peers::Peer;
use crate::wire::SeedMessage;

use super::view::{SeedEffect, SeedStanding, SeedView};

/// One validator's part in the seed.
#[derive(Debug)]
pub struct SeedMachine {}

impl SeedMachine {
    /// A machine that goes on from what was kept.
    ///
    /// `entropy` are 32 secret bytes drawn at this start; in a simulation they come from its seed. What is dealt in a round
    /// that is not kept yet is drawn from them.
    #[must_use]
    pub fn new(
        network: [u8; 32],
        key: &ValidatorKey,
        entropy: [u8; 32],
        kept: Option<&[u8]>,
    ) -> Self {
        let _ = (network, key, entropy, kept);
        unimplemented!()
    }

    /// What the final state says now. Another round replaces the one before.
    pub fn view(&mut self, view: &SeedView, now: TimestampMs) {
        let _ = (view, now);
        unimplemented!()
    }

    /// A message of a peer.
    pub fn message(&mut self, from: &Peer, message: &SeedMessage, now: TimestampMs) {
        let _ = (from, message, now);
        unimplemented!()
    }

    /// Sends again what is due, and says when to call next.
    pub fn progress(&mut self, now: TimestampMs) -> TimestampMs {
        let _ = now;
        unimplemented!()
    }

    /// What is to be done since the last call, in order.
    pub fn effects(&mut self) -> Vec<SeedEffect> {
        unimplemented!()
    }

    /// This validator's log for the chain, from when it is made until the state has it or the list is closed.
    #[must_use]
    pub fn dealing(&self) -> Option<(u64, Vec<u8>)> {
        unimplemented!()
    }

    /// Seeds of wanted heights, lowest height first.
    #[must_use]
    pub fn signatures(&self) -> Vec<(u64, [u8; 48])> {
        unimplemented!()
    }

    /// What this validator has of the key.
    #[must_use]
    pub fn standing(&self) -> SeedStanding {
        unimplemented!()
    }
}
