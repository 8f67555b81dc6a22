//! The machine of one validator: rounds come and go with the views of the state.

use std::fmt;

use commonware_codec::Encode as _;
use commonware_cryptography::Signer as _;
use commonware_cryptography::ed25519::PrivateKey;
use tg_types::{Decode as _, Domain, TimestampMs};

use crate::key::ValidatorKey;
use crate::peers::Peer;
use crate::wire::SeedMessage;

use super::active::{ActiveRound, RoundStart};
use super::kept::{DealerSecret, KeptRound};
use super::round::Round;
use super::view::{SeedEffect, SeedPhase, SeedRefusal, SeedStanding, SeedView};

/// One validator's part in the seed.
///
/// Inputs are [`view`](Self::view) and [`message`](Self::message); after them [`progress`](Self::progress) is called, and
/// again at the time that it names. What is to be done is taken from [`effects`](Self::effects).
pub struct SeedMachine {
    network: [u8; 32],
    key: PrivateKey,
    me: Peer,
    /// What secrets of dealings are drawn from; replaced with each.
    entropy: [u8; 32],
    /// What the disk had at the start, until its round begins.
    kept: Option<KeptRound>,
    /// Whether the disk was not empty at the start, or a round began since: what was dealt in later rounds is known.
    has_memory: bool,
    /// The last round and its participants, this validator among them or not.
    last: Option<(u64, Vec<[u8; 32]>)>,
    active: Option<ActiveRound>,
    effects: Vec<SeedEffect>,
}

impl SeedMachine {
    /// A machine that goes on from the bytes that were kept last.
    ///
    /// `entropy` are 32 secret bytes drawn at this start; in a simulation they come from its seed. What is dealt in a round
    /// that is not kept yet is drawn from them. Without kept bytes, or with those of another network, it does not deal in a
    /// round in which others have dealt already: it may have dealt another polynomial before its disk was lost.
    #[must_use]
    pub fn new(
        network: [u8; 32],
        key: &ValidatorKey,
        entropy: [u8; 32],
        kept: Option<&[u8]>,
    ) -> Self {
        let kept = kept
            .and_then(|bytes| KeptRound::from_bytes(bytes).ok())
            .filter(|kept| kept.network == network);
        Self {
            network,
            key: key.private().clone(),
            me: key.private().public_key(),
            entropy,
            has_memory: kept.is_some(),
            kept,
            last: None,
            active: None,
            effects: Vec::new(),
        }
    }

    /// What the final state says now. A later round replaces the one before, with its key; an earlier one, which a validator
    /// sees that catches up after a restart, changes nothing.
    pub fn view(&mut self, view: &SeedView, now: TimestampMs) {
        let newest = self
            .last
            .as_ref()
            .map(|last| last.0)
            .max(self.kept.as_ref().map(|kept| kept.number));
        if newest.is_some_and(|newest| view.round < newest) {
            return;
        }
        let is_last = self
            .last
            .as_ref()
            .is_some_and(|(round, peers)| *round == view.round && *peers == view.participants);
        if !is_last {
            self.begin(view, now);
        }
        let Some(active) = &mut self.active else {
            return;
        };
        match &view.phase {
            SeedPhase::Dealing { dealt } => active.dealt(dealt),
            SeedPhase::Ready { key, dealings } => active.close(key, dealings),
        }
        active.want(&view.wanted, now, &mut self.effects);
    }

    /// A message of a peer, as the network authenticated it.
    pub fn message(&mut self, from: &Peer, message: &SeedMessage) {
        let taken = match &mut self.active {
            Some(active) => active.message(from, message, &mut self.effects),
            None => Err(SeedRefusal::OtherRound {
                ours: None,
                theirs: message.round(),
            }),
        };
        if let Err(refusal) = taken {
            self.effects.push(SeedEffect::Refuse(from.clone(), refusal));
        }
    }

    /// Sends what is due, and says when to call next: the last time that can be written if nothing waits.
    pub fn progress(&mut self, now: TimestampMs) -> TimestampMs {
        self.active
            .as_mut()
            .and_then(|active| active.progress(now, &mut self.effects))
            .unwrap_or(TimestampMs::new(u64::MAX))
    }

    /// What is to be done since the last call, in order.
    pub fn effects(&mut self) -> Vec<SeedEffect> {
        std::mem::take(&mut self.effects)
    }

    /// The round and this validator's log for the chain, from when it is made until the state has it or the list is closed.
    #[must_use]
    pub fn dealing(&self) -> Option<(u64, Vec<u8>)> {
        self.active.as_ref().and_then(ActiveRound::log)
    }

    /// Seeds of wanted heights, lowest height first.
    #[must_use]
    pub fn signatures(&self) -> Vec<(u64, [u8; 48])> {
        self.active
            .as_ref()
            .map(ActiveRound::seeds)
            .unwrap_or_default()
    }

    /// What this validator has of the key.
    #[must_use]
    pub fn standing(&self) -> SeedStanding {
        self.active
            .as_ref()
            .map_or(SeedStanding::Outside, ActiveRound::standing)
    }

    fn begin(&mut self, view: &SeedView, now: TimestampMs) {
        self.active = None;
        self.last = Some((view.round, view.participants.clone()));
        let kept = self.kept.take();
        let Some(round) = Round::new(self.network, view.round, &view.participants) else {
            return;
        };
        if round.peers.position(&self.me).is_none() {
            return;
        }
        let participants = round.digest();
        let kept =
            kept.filter(|kept| kept.number == round.number && kept.participants == participants);
        let secret = match &kept {
            Some(kept) => kept.secret.clone(),
            None => self.draw_if_deals(&round, &view.phase),
        };
        let start = RoundStart {
            round,
            key: self.key.clone(),
            secret,
            received: kept.map(|kept| kept.received).unwrap_or_default(),
        };
        self.active = Some(ActiveRound::new(start, &view.phase, now, &mut self.effects));
        self.has_memory = true;
    }

    /// A secret for a round that is not on the disk, if this validator deals in it.
    fn draw_if_deals(&mut self, round: &Round, phase: &SeedPhase) -> Option<DealerSecret> {
        let SeedPhase::Dealing { dealt } = phase else {
            return None;
        };
        if !self.has_memory && !dealt.is_empty() {
            return None;
        }
        let mut drawn = [0; 64];
        // The key is in it too: should the entropy be poor, only whoever has the key can tell the polynomial.
        let mut hasher = blake3::Hasher::new_derive_key(Domain::SeedSecret.as_str());
        hasher.update(&self.entropy);
        hasher.update(&self.key.encode());
        hasher.update(&self.network);
        hasher.update(&round.number.to_le_bytes());
        hasher.finalize_xof().fill(&mut drawn);
        let (secret, entropy) = drawn.split_at(32);
        self.entropy.copy_from_slice(entropy);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(secret);
        Some(DealerSecret(bytes))
    }
}

impl fmt::Debug for SeedMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeedMachine")
            .field("round", &self.last.as_ref().map(|last| last.0))
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}
