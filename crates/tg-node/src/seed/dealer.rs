//! A validator as dealer: its polynomial, the shares it sends, the log it posts.

use std::collections::BTreeMap;
use std::time::Duration;

use commonware_codec::{Copying, DecodeExt as _, Encode as _};
use commonware_cryptography::bls12381::dkg::feldman_desmedt::{Dealer, DealerPrivMsg, PlayerAck};
use commonware_cryptography::bls12381::primitives::variant::MinSig;
use commonware_cryptography::ed25519::PrivateKey;
use commonware_cryptography::transcript::{Transcript, Version};
use commonware_p2p::Recipients;
use commonware_utils::N3f1;
use tg_types::{Domain, TimestampMs};

use crate::limits::span;
use crate::peers::Peer;
use crate::wire::{DealtShare, SeedMessage};

use super::kept::DealerSecret;
use super::round::Round;
use super::view::{SeedEffect, SeedRefusal};

/// How often what was not answered is sent again.
pub(super) const SEND_AGAIN: Duration = Duration::from_secs(1);

/// How long a dealer waits for all players before its log reveals the shares of up to f that are silent: their dealings were
/// sent twice by then. Longer waits make a round with a silent player longer, shorter ones reveal shares of slow players.
pub(super) const DEALING_PATIENCE: Duration = Duration::from_secs(2);

/// The dealing of this validator, until its log is in the state.
pub(super) struct OwnDealing {
    public: Vec<u8>,
    /// The share of each player that has not acknowledged it.
    waiting: BTreeMap<Peer, DealtShare>,
    /// Until when players are waited for that are missing.
    deadline: TimestampMs,
    again: TimestampMs,
    /// The library's dealer, until the log is signed.
    dealer: Option<Dealer<MinSig, PrivateKey>>,
    log: Option<Vec<u8>>,
}

impl OwnDealing {
    /// The dealing of a secret in a round: always the same one.
    ///
    /// # Panics
    /// If the key is not a participant's.
    pub(super) fn new(
        round: &Round,
        key: &PrivateKey,
        secret: &DealerSecret,
        now: TimestampMs,
    ) -> Self {
        let (dealer, public, shares) = Dealer::start::<N3f1>(
            polynomial(round, secret),
            round.info.clone(),
            key.clone(),
            None,
        )
        .expect("a participant deals, and the first key takes no share");
        let waiting = shares
            .into_iter()
            .map(|(peer, share)| (peer, DealtShare(share_bytes(&share))))
            .collect();
        Self {
            public: public.encode().to_vec(),
            waiting,
            deadline: now.saturating_add(span(DEALING_PATIENCE)),
            again: now,
            dealer: Some(dealer),
            log: None,
        }
    }

    /// What one player is sent, while it has not acknowledged it.
    pub(super) fn to(&self, round: &Round, player: &Peer) -> Option<SeedMessage> {
        self.waiting.get(player).map(|share| SeedMessage::Dealing {
            round: round.number,
            public: self.public.clone(),
            private: share.clone(),
        })
    }

    /// An acknowledgement of a player.
    pub(super) fn acknowledged(
        &mut self,
        player: &Peer,
        signature: &[u8; 64],
    ) -> Result<(), SeedRefusal> {
        let Some(dealer) = &mut self.dealer else {
            return Ok(());
        };
        if !self.waiting.contains_key(player) {
            return Ok(());
        }
        PlayerAck::decode(Copying(signature.as_slice()))
            .ok()
            .and_then(|ack| dealer.receive_player_ack(player.clone(), ack).ok())
            .ok_or(SeedRefusal::Acknowledgement)?;
        self.waiting.remove(player);
        Ok(())
    }

    /// Sends again what is due, and signs the log when it is time. When to look again, if ever.
    pub(super) fn progress(
        &mut self,
        round: &Round,
        now: TimestampMs,
        effects: &mut Vec<SeedEffect>,
    ) -> Option<TimestampMs> {
        self.sign_if_due(round, now);
        if self.log.is_some() {
            return None;
        }
        if self.again <= now {
            self.again = now.saturating_add(span(SEND_AGAIN));
            let sends = self.waiting.keys().filter_map(|peer| {
                let message = self.to(round, peer)?;
                Some(SeedEffect::Send(Recipients::One(peer.clone()), message))
            });
            effects.extend(sends);
        }
        // Past the deadline an acknowledgement decides, not the clock.
        match self.deadline > now {
            true => Some(self.again.min(self.deadline)),
            false => Some(self.again),
        }
    }

    /// The signed log, once it is made.
    pub(super) fn log(&self) -> Option<&[u8]> {
        self.log.as_deref()
    }

    fn sign_if_due(&mut self, round: &Round, now: TimestampMs) {
        let acknowledged = round.peers.len() - self.waiting.len();
        let is_due =
            self.waiting.is_empty() || (acknowledged >= round.quorum() && self.deadline <= now);
        if let Some(dealer) = is_due.then(|| self.dealer.take()).flatten() {
            self.log = Some(dealer.finalize::<N3f1>().encode().to_vec());
        }
    }
}

/// The randomness of a dealer in a round.
fn polynomial(round: &Round, secret: &DealerSecret) -> impl rand_core::CryptoRng + use<> {
    let mut transcript = Transcript::new(Domain::SeedSecret.as_str().as_bytes(), Version::V1);
    transcript
        .commit(round.network.as_slice())
        .commit(round.digest().as_slice())
        .commit(round.number.to_le_bytes().as_slice())
        .commit(secret.0.as_slice());
    transcript.noise(b"polynomial")
}

fn share_bytes(share: &DealerPrivMsg) -> [u8; 32] {
    share
        .encode()
        .as_ref()
        .try_into()
        .expect("a scalar has 32 bytes")
}
