//! The constants of a round: its participants, and what its signatures cover.

use std::num::NonZeroU32;

use commonware_cryptography::bls12381::dkg::feldman_desmedt::{Info, Reveal};
use commonware_cryptography::bls12381::primitives::sharing::Mode;
use commonware_cryptography::bls12381::primitives::variant::MinSig;
use commonware_cryptography::transcript::{Transcript, Version};
use commonware_utils::N3f1;
use commonware_utils::ordered::{Quorum as _, Set};
use tg_types::Domain;

use crate::key;
use crate::peers::Peer;
use crate::wire::SEED_PARTICIPANTS_MAX;

/// One round of key generation, as all its participants know it.
#[derive(Debug, Clone)]
pub(super) struct Round {
    /// The id of the network's genesis.
    pub(super) network: [u8; 32],
    /// Its number.
    pub(super) number: u64,
    /// The library's description, to which every signature of the round is bound.
    pub(super) info: Info<MinSig, Peer>,
    /// Dealers and players, in the order that numbers them.
    pub(super) peers: Set<Peer>,
    /// How many they are.
    pub(super) count: NonZeroU32,
}

impl Round {
    /// The round of some participants; `None` if they are none, too many, one twice, or bytes that are no key.
    pub(super) fn new(network: [u8; 32], number: u64, participants: &[[u8; 32]]) -> Option<Self> {
        if participants.len() > SEED_PARTICIPANTS_MAX {
            return None;
        }
        let peers = participants
            .iter()
            .map(|public| key::peer_of(public).ok())
            .collect::<Option<Vec<_>>>()?;
        let peers = Set::try_from(peers).ok()?;
        let count = NonZeroU32::new(u32::try_from(peers.len()).ok()?)?;
        let info = Info::new::<N3f1>(
            &namespace(Domain::SeedKey, &network),
            number,
            None,
            Mode::NonZeroCounter,
            Reveal::V1,
            peers.clone(),
            peers.clone(),
        )
        .ok()?;
        Some(Self {
            network,
            number,
            info,
            peers,
            count,
        })
    }

    /// n - f: the logs that make a key, and the partial signatures that make a seed.
    pub(super) fn quorum(&self) -> usize {
        self.peers.quorum::<N3f1>() as usize
    }

    /// A digest of the participants.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for peer in &self.peers {
            hasher.update(peer.as_ref());
        }
        hasher.finalize().into()
    }

    /// The start of a transcript over the round.
    pub(super) fn transcript(&self) -> Transcript {
        let mut transcript = Transcript::new(Domain::SeedKey.as_str().as_bytes(), Version::V1);
        transcript
            .commit(self.network.as_slice())
            .commit(self.number.to_le_bytes().as_slice());
        for peer in &self.peers {
            transcript.commit(peer.as_ref());
        }
        transcript
    }
}

/// What signatures of a purpose in a network are bound to.
pub(super) fn namespace(domain: Domain, network: &[u8; 32]) -> Vec<u8> {
    [domain.as_str().as_bytes(), network].concat()
}
