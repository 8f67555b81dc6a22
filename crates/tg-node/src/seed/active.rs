//! The round that goes on: a validator's part in it as dealer, player and signer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use commonware_cryptography::Signer as _;
use commonware_cryptography::ed25519::PrivateKey;
use commonware_p2p::Recipients;
use commonware_utils::Participant;
use commonware_utils::ordered::Quorum as _;
use tg_types::{Encode as _, TimestampMs};

use crate::key::public_bytes;
use crate::peers::Peer;
use crate::wire::{DealtShare, SeedMessage};

use super::dealer::OwnDealing;
use super::kept::{DealerSecret, KeptRound, Received};
use super::partials::Partials;
use super::player::{DealingAnswer, KeyShare, ReceivedDealings};
use super::round::Round;
use super::signature::SeedScope;
use super::view::{SeedEffect, SeedPhase, SeedRefusal, SeedStanding};

/// Partial signatures of one peer for heights that are not wanted here yet: it may be some blocks ahead.
const EARLY_PER_PEER_MAX: usize = 16;

/// What a round starts from.
pub(super) struct RoundStart {
    pub(super) round: Round,
    pub(super) key: PrivateKey,
    /// What this validator's polynomial is drawn from, if it deals.
    pub(super) secret: Option<DealerSecret>,
    /// The dealings that it acknowledged before a restart.
    pub(super) received: Vec<Received>,
}

/// The round and this validator's part in it.
pub(super) struct ActiveRound {
    round: Round,
    me: Peer,
    secret: Option<DealerSecret>,
    /// Until its log is in the state or the list is closed.
    dealing: Option<OwnDealing>,
    /// Until the list is closed.
    received: Option<ReceivedDealings>,
    partials: Option<Partials>,
    early: BTreeMap<Participant, VecDeque<(u64, [u8; 48])>>,
    /// Whose acknowledgement was wrong.
    refused: BTreeSet<Peer>,
    standing: SeedStanding,
}

impl ActiveRound {
    pub(super) fn new(
        start: RoundStart,
        phase: &SeedPhase,
        now: TimestampMs,
        effects: &mut Vec<SeedEffect>,
    ) -> Self {
        let RoundStart {
            round,
            key,
            secret,
            received,
        } = start;
        let me = key.public_key();
        let has_dealt =
            matches!(phase, SeedPhase::Dealing { dealt } if dealt.contains(&public_bytes(&me)));
        let is_open = matches!(phase, SeedPhase::Dealing { .. });
        let dealing = secret
            .as_ref()
            .filter(|_| is_open && !has_dealt)
            .map(|secret| OwnDealing::new(&round, &key, secret, now));
        let mut active = Self {
            received: Some(ReceivedDealings::new(&round, &key, received)),
            standing: match secret {
                Some(_) => SeedStanding::Dealing,
                None => SeedStanding::Watching,
            },
            round,
            me,
            secret,
            dealing,
            partials: None,
            early: BTreeMap::new(),
            refused: BTreeSet::new(),
        };
        active.take_own(effects);
        active
    }

    /// The logs that the state has.
    pub(super) fn dealt(&mut self, dealt: &[[u8; 32]]) {
        if dealt.contains(&public_bytes(&self.me)) {
            self.dealing = None;
        }
    }

    /// The list is closed and makes a key.
    pub(super) fn close(&mut self, key: &[u8; 96], dealings: &[Vec<u8>]) {
        let Some(received) = self.received.take() else {
            return;
        };
        self.dealing = None;
        let KeyShare { sharing, share } = received.finalise(&self.round, key, dealings);
        self.standing = match &share {
            Ok(_) => SeedStanding::Holding,
            Err(reason) => SeedStanding::Without(*reason),
        };
        let scope = SeedScope::new(&self.round.network, self.round.number);
        self.partials = sharing.map(|sharing| Partials::new(scope, sharing, share.ok()));
    }

    /// The heights whose seeds are wanted.
    pub(super) fn want(&mut self, wanted: &[u64], now: TimestampMs, effects: &mut Vec<SeedEffect>) {
        let Some(partials) = &mut self.partials else {
            return;
        };
        let new = partials.want(wanted, now);
        for height in new {
            let waiting = self.early.iter_mut().filter_map(|(peer, early)| {
                let place = early.iter().position(|(waiting, _)| *waiting == height)?;
                early.remove(place).map(|(_, signature)| (*peer, signature))
            });
            for (peer, signature) in waiting.collect::<Vec<_>>() {
                self.take_partial(peer, height, &signature, effects);
            }
        }
    }

    pub(super) fn message(
        &mut self,
        from: &Peer,
        message: &SeedMessage,
        effects: &mut Vec<SeedEffect>,
    ) -> Result<(), SeedRefusal> {
        if message.round() != self.round.number {
            return Err(SeedRefusal::OtherRound {
                ours: Some(self.round.number),
                theirs: message.round(),
            });
        }
        let place = self.round.peers.index(from).filter(|_| *from != self.me);
        let place = place.ok_or(SeedRefusal::Outsider)?;
        match message {
            SeedMessage::Dealing {
                public, private, ..
            } => self.take_dealing(from, public, private, effects),
            SeedMessage::Acknowledgement { signature, .. } => {
                self.take_acknowledgement(from, signature)
            }
            SeedMessage::Partial {
                height, signature, ..
            } => {
                self.take_partial(place, *height, signature, effects);
                Ok(())
            }
        }
    }

    /// Sends what is due; when to look again, if ever.
    pub(super) fn progress(
        &mut self,
        now: TimestampMs,
        effects: &mut Vec<SeedEffect>,
    ) -> Option<TimestampMs> {
        let dealing = self
            .dealing
            .as_mut()
            .and_then(|dealing| dealing.progress(&self.round, now, effects));
        let (due, partials) = match &mut self.partials {
            Some(partials) => partials.due(now),
            None => (Vec::new(), None),
        };
        let others: Vec<Peer> = match due.is_empty() {
            true => Vec::new(),
            false => self.others().cloned().collect(),
        };
        if !others.is_empty() {
            effects.extend(due.into_iter().map(|(height, signature)| {
                let message = SeedMessage::Partial {
                    round: self.round.number,
                    height,
                    signature,
                };
                SeedEffect::Send(Recipients::Some(others.clone()), message)
            }));
        }
        [dealing, partials].into_iter().flatten().min()
    }

    pub(super) fn log(&self) -> Option<(u64, Vec<u8>)> {
        let log = self.dealing.as_ref()?.log()?;
        Some((self.round.number, log.to_vec()))
    }

    pub(super) fn seeds(&self) -> Vec<(u64, [u8; 48])> {
        self.partials
            .as_ref()
            .map(Partials::seeds)
            .unwrap_or_default()
    }

    pub(super) const fn standing(&self) -> SeedStanding {
        self.standing
    }

    fn others(&self) -> impl Iterator<Item = &Peer> {
        self.round.peers.iter().filter(|peer| **peer != self.me)
    }

    /// Receives and acknowledges this validator's own dealing.
    fn take_own(&mut self, effects: &mut Vec<SeedEffect>) {
        let own = self
            .dealing
            .as_ref()
            .and_then(|dealing| dealing.to(&self.round, &self.me));
        let (
            Some(received),
            Some(SeedMessage::Dealing {
                public, private, ..
            }),
        ) = (&mut self.received, own)
        else {
            return;
        };
        let acknowledgement = match received.dealing(&self.round, &self.me, &public, &private) {
            Ok(DealingAnswer::New(acknowledgement)) => {
                self.keep(effects);
                Some(acknowledgement)
            }
            Ok(DealingAnswer::Known(acknowledgement)) => Some(acknowledgement),
            Ok(DealingAnswer::Ignored) | Err(_) => None,
        };
        let is_taken = acknowledgement
            .zip(self.dealing.as_mut())
            .is_some_and(|(own, dealing)| dealing.acknowledged(&self.me, &own).is_ok());
        // Else the disk has another polynomial: its bytes are wrong, or another version of the program drew it from the
        // secret. This one is not dealt.
        if !is_taken {
            self.dealing = None;
            self.standing = SeedStanding::Watching;
        }
    }

    fn take_dealing(
        &mut self,
        dealer: &Peer,
        public: &[u8],
        share: &DealtShare,
        effects: &mut Vec<SeedEffect>,
    ) -> Result<(), SeedRefusal> {
        let Some(received) = &mut self.received else {
            return Ok(());
        };
        let signature = match received.dealing(&self.round, dealer, public, share)? {
            DealingAnswer::New(signature) => {
                self.keep(effects);
                signature
            }
            DealingAnswer::Known(signature) => signature,
            DealingAnswer::Ignored => return Ok(()),
        };
        let message = SeedMessage::Acknowledgement {
            round: self.round.number,
            signature,
        };
        effects.push(SeedEffect::Send(Recipients::One(dealer.clone()), message));
        Ok(())
    }

    fn take_acknowledgement(
        &mut self,
        player: &Peer,
        signature: &[u8; 64],
    ) -> Result<(), SeedRefusal> {
        let Some(dealing) = &mut self.dealing else {
            return Ok(());
        };
        if self.refused.contains(player) {
            return Ok(());
        }
        let taken = dealing.acknowledged(player, signature);
        if taken.is_err() {
            self.refused.insert(player.clone());
        }
        taken
    }

    fn take_partial(
        &mut self,
        from: Participant,
        height: u64,
        signature: &[u8; 48],
        effects: &mut Vec<SeedEffect>,
    ) {
        let Some(partials) = self.partials.as_mut().filter(|all| all.wants(height)) else {
            self.take_early(from, height, signature);
            return;
        };
        let liars = partials.take(from, height, signature);
        effects.extend(liars.into_iter().filter_map(|liar| {
            let peer = self.round.peers.key(liar)?.clone();
            Some(SeedEffect::Refuse(peer, SeedRefusal::Partial { height }))
        }));
    }

    /// Puts a partial signature aside until its height is wanted; the oldest of the peer makes room.
    fn take_early(&mut self, from: Participant, height: u64, signature: &[u8; 48]) {
        let early = self.early.entry(from).or_default();
        if early.iter().any(|(waiting, _)| *waiting == height) {
            return;
        }
        if early.len() == EARLY_PER_PEER_MAX {
            early.pop_front();
        }
        early.push_back((height, *signature));
    }

    fn keep(&self, effects: &mut Vec<SeedEffect>) {
        let kept = KeptRound {
            number: self.round.number,
            network: self.round.network,
            participants: self.round.digest(),
            secret: self.secret.clone(),
            received: self
                .received
                .as_ref()
                .map(ReceivedDealings::kept)
                .unwrap_or_default(),
        };
        effects.push(SeedEffect::Keep(kept.to_bytes()));
    }
}
