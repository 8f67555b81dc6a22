//! A validator as player: the dealings that it receives, and its share of the key.

use std::collections::{BTreeMap, BTreeSet};

use commonware_codec::{Copying, Decode as _, DecodeExt as _, Encode as _, Read as _};
use commonware_cryptography::bls12381::dkg::feldman_desmedt::{
    DealerPrivMsg, DealerPubMsg, Logs, Player, observe,
};
use commonware_cryptography::bls12381::primitives::group::Share;
use commonware_cryptography::bls12381::primitives::sharing::Sharing;
use commonware_cryptography::bls12381::primitives::variant::MinSig;
use commonware_cryptography::ed25519::PrivateKey;
use commonware_parallel::Sequential;
use commonware_utils::N3f1;
use rand_core::CryptoRng;

use crate::key::{peer_of, public_bytes};
use crate::peers::Peer;
use crate::wire::DealtShare;

use super::kept::Received;
use super::outcome::{key_of, logs_of, weights};
use super::round::Round;
use super::view::{NoShare, SeedRefusal};

/// What a dealing is answered with.
pub(super) enum DealingAnswer {
    /// It is new: it must be kept before the acknowledgement goes out.
    New([u8; 64]),
    /// It is the one that was acknowledged before.
    Known([u8; 64]),
    /// Nothing: an earlier dealing of the dealer was not valid.
    Ignored,
}

/// The dealings that a validator received in a round.
pub(super) struct ReceivedDealings {
    player: Player<MinSig, PrivateKey>,
    received: BTreeMap<Peer, Received>,
    /// Whose dealings the library's player holds; the others were received before a restart.
    held: BTreeSet<Peer>,
    /// Who sent a dealing that is not valid: no honest dealer does, and checking costs milliseconds.
    refused: BTreeSet<Peer>,
}

impl ReceivedDealings {
    /// Those that were kept.
    ///
    /// # Panics
    /// If the key is not a participant's.
    pub(super) fn new(round: &Round, key: &PrivateKey, kept: Vec<Received>) -> Self {
        let received = kept
            .into_iter()
            .filter_map(|received| Some((peer_of(&received.dealer).ok()?, received)))
            .collect();
        Self {
            player: Player::new(round.info.clone(), key.clone()).expect("a participant plays"),
            received,
            held: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }

    /// What must be kept.
    pub(super) fn kept(&self) -> Vec<Received> {
        self.received.values().cloned().collect()
    }

    /// A dealing of a participant.
    pub(super) fn dealing(
        &mut self,
        round: &Round,
        dealer: &Peer,
        public: &[u8],
        share: &DealtShare,
    ) -> Result<DealingAnswer, SeedRefusal> {
        if self.refused.contains(dealer) {
            return Ok(DealingAnswer::Ignored);
        }
        if let Some(known) = self.received.get(dealer) {
            let is_same = known.commitment == commitment(public) && known.share == *share;
            return match is_same {
                true => Ok(DealingAnswer::Known(known.acknowledgement)),
                false => Err(SeedRefusal::SecondDealing),
            };
        }
        let Some(acknowledgement) = self.check(round, dealer, public, share) else {
            self.refused.insert(dealer.clone());
            return Err(SeedRefusal::Dealing);
        };
        let received = Received {
            dealer: public_bytes(dealer),
            commitment: commitment(public),
            share: share.clone(),
            acknowledgement,
        };
        self.received.insert(dealer.clone(), received);
        self.held.insert(dealer.clone());
        Ok(DealingAnswer::New(acknowledgement))
    }

    /// The polynomial of the key that the state has, and this validator's share of it.
    ///
    /// The library's own way back from a restart, `Player::resume`, refuses to go on if any acknowledged dealing is missing;
    /// here only those count from which the key is made.
    pub(super) fn finalise(
        mut self,
        round: &Round,
        key: &[u8; 96],
        dealings: &[Vec<u8>],
    ) -> KeyShare {
        let mut logs = logs_of(round, dealings);
        let mut weights = weights(round, dealings);
        logs.pre_verify(&mut weights, &Sequential);
        let Ok(output) = observe(&mut weights, logs.clone(), &Sequential) else {
            return KeyShare::other_key();
        };
        if key_of(&output) != *key {
            return KeyShare::other_key();
        }
        for dealing in dealings {
            self.restore(round, dealing);
        }
        let sharing = output.public().clone();
        KeyShare {
            share: self.share(&sharing, logs, &mut weights),
            sharing: Some(sharing),
        }
    }

    fn share(
        self,
        sharing: &Sharing<MinSig>,
        logs: Logs<MinSig, Peer, N3f1>,
        weights: &mut impl CryptoRng,
    ) -> Result<Share, NoShare> {
        let (_, share) = self
            .player
            .finalize(weights, logs, &Sequential)
            .map_err(|_| NoShare::Lost)?;
        let is_on_polynomial =
            sharing.partial_public(share.index).ok() == Some(share.public::<MinSig>());
        is_on_polynomial.then_some(share).ok_or(NoShare::Lost)
    }

    /// Gives the library's player a dealing of before the restart: the points are in the log.
    fn restore(&mut self, round: &Round, dealing: &[u8]) -> Option<()> {
        let (dealer, rest) = dealing.split_first_chunk::<32>()?;
        let dealer = peer_of(dealer).ok()?;
        let received = self.received.get(&dealer)?;
        if self.held.contains(&dealer) {
            return None;
        }
        let public = DealerPubMsg::read_cfg(&mut Copying(rest), &round.count).ok()?;
        if commitment(&public.encode()) != received.commitment {
            return None;
        }
        let share = DealerPrivMsg::decode(Copying(received.share.0.as_slice())).ok()?;
        let restored = self
            .player
            .dealer_message::<N3f1>(dealer.clone(), public, share);
        if restored.is_ok() {
            self.held.insert(dealer);
        }
        Some(())
    }

    fn check(
        &mut self,
        round: &Round,
        dealer: &Peer,
        public: &[u8],
        share: &DealtShare,
    ) -> Option<[u8; 64]> {
        let public = DealerPubMsg::decode_cfg(Copying(public), &round.count).ok()?;
        let share = DealerPrivMsg::decode(Copying(share.0.as_slice())).ok()?;
        let acknowledgement = self
            .player
            .dealer_message::<N3f1>(dealer.clone(), public, share)
            .ok()??;
        let bytes = acknowledgement.encode();
        Some(bytes.as_ref().try_into().expect("a signature has 64 bytes"))
    }
}

/// What a player makes of a closed list.
pub(super) struct KeyShare {
    /// The polynomial of the key; none if the list makes another key than the state's.
    pub(super) sharing: Option<Sharing<MinSig>>,
    /// The validator's share.
    pub(super) share: Result<Share, NoShare>,
}

impl KeyShare {
    const fn other_key() -> Self {
        Self {
            sharing: None,
            share: Err(NoShare::OtherKey),
        }
    }
}

fn commitment(public: &[u8]) -> [u8; 32] {
    blake3::hash(public).into()
}
