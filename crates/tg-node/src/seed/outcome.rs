//! The key that a list of logs gives: the same for every validator.

use std::collections::BTreeSet;

use commonware_codec::{Copying, Decode as _, Encode as _};
use commonware_cryptography::bls12381::dkg::feldman_desmedt::{
    DealerLog, Failure, Logs, Output, SignedDealerLog, observe,
};
use commonware_cryptography::bls12381::primitives::variant::MinSig;
use commonware_parallel::Sequential;
use commonware_utils::N3f1;
use rand_core::CryptoRng;

use crate::key::public_bytes;
use crate::peers::Peer;

use super::round::Round;

/// Bytes of a log at most, by the number of participants: n - f points and a signature or a share for each player.
#[must_use]
pub const fn dealing_bytes_max(participants: usize) -> usize {
    let points = participants - participants.saturating_sub(1) / 3;
    32 + (5 + points * 96) + (6 + participants * (32 + 1 + 64)) + 64
}

/// Why a list of logs makes no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DealingsError {
    /// No round has such participants: none, too many, one twice, or bytes that are no key.
    #[error("no round has these participants")]
    Participants,
    /// Fewer than n - f logs are usable.
    #[error("{found} of {required} dealings are usable")]
    Insufficient {
        /// Usable logs of distinct dealers.
        found: u32,
        /// How many a key takes.
        required: u32,
    },
}

/// Why one log is not usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DealingError {
    /// No round has such participants: none, too many, one twice, or bytes that are no key.
    #[error("no round has these participants")]
    Participants,
    /// The bytes are no log.
    #[error("the bytes are no log of a dealing")]
    Malformed,
    /// The signature is not that of a participant over the log in this round.
    #[error("no participant signed this log in this round")]
    Signature,
    /// A polynomial of another degree, an acknowledgement or a share that is wrong, or shares of more than f players.
    #[error("the log shows a faulty dealing")]
    Faulty,
}

/// The key that logs of a round make.
///
/// A function of its arguments alone, total on any bytes. Of one dealer the first log with its signature counts, usable or
/// not; bytes that no participant signed are passed over. The key is the sum of the polynomials' constants of the first
/// n - f usable logs in the order of the dealers' keys, so it does not depend on the order of the list otherwise. The random
/// weights with which signatures and shares are checked together come from a hash of all arguments: whoever searches for
/// logs that pass by chance tries 2^128 of them.
///
/// # Errors
/// [`DealingsError`].
pub fn key_of_dealings(
    network: &[u8; 32],
    round: u64,
    participants: &[[u8; 32]],
    dealings: &[Vec<u8>],
) -> Result<[u8; 96], DealingsError> {
    let round = Round::new(*network, round, participants).ok_or(DealingsError::Participants)?;
    let logs = logs_of(&round, dealings);
    let mut weights = weights(&round, dealings);
    match observe::<MinSig, Peer, N3f1>(&mut weights, logs, &Sequential) {
        Ok(output) => Ok(key_of(&output)),
        Err(Failure::InsufficientLogs {
            required, found, ..
        }) => Err(DealingsError::Insufficient { found, required }),
    }
}

/// Whether one log is usable, and whose it is: what a voter asks before a log enters the state, so that no faulty log takes
/// the place of a usable one.
///
/// # Errors
/// [`DealingError`].
pub fn check_dealing(
    network: &[u8; 32],
    round: u64,
    participants: &[[u8; 32]],
    dealing: &[u8],
) -> Result<[u8; 32], DealingError> {
    let round = Round::new(*network, round, participants).ok_or(DealingError::Participants)?;
    let signed = decode(&round, dealing).ok_or(DealingError::Malformed)?;
    let (dealer, log) = signed.check(&round.info).ok_or(DealingError::Signature)?;
    if round.peers.position(&dealer).is_none() {
        return Err(DealingError::Signature);
    }
    let public = public_bytes(&dealer);
    let mut logs = Logs::<MinSig, Peer, N3f1>::new(round.info.clone());
    logs.record(dealer, log);
    let mut weights = weights(&round, &[dealing]);
    // One log alone makes no key but among one participant: that it is the one found says that it is usable.
    match observe(&mut weights, logs, &Sequential) {
        Ok(_) | Err(Failure::InsufficientLogs { found: 1, .. }) => Ok(public),
        Err(Failure::InsufficientLogs { .. }) => Err(DealingError::Faulty),
    }
}

/// The signed logs of a list, the first of each dealer.
pub(super) fn logs_of(round: &Round, dealings: &[Vec<u8>]) -> Logs<MinSig, Peer, N3f1> {
    let mut logs = Logs::new(round.info.clone());
    let mut dealers = BTreeSet::new();
    for dealing in dealings {
        let Some((dealer, log)) = authenticate(round, dealing) else {
            continue;
        };
        if dealers.insert(dealer.clone()) {
            logs.record(dealer, log);
        }
    }
    logs
}

/// The random weights of the checks of a list.
pub(super) fn weights<D: AsRef<[u8]>>(round: &Round, dealings: &[D]) -> impl CryptoRng + use<D> {
    let mut transcript = round.transcript();
    for dealing in dealings {
        transcript.commit(dealing.as_ref());
    }
    transcript.noise(b"weights")
}

/// The key in the outcome of a round.
pub(super) fn key_of(output: &Output<MinSig, Peer>) -> [u8; 96] {
    output
        .public()
        .public()
        .encode()
        .as_ref()
        .try_into()
        .expect("a point of G2 has 96 bytes")
}

fn authenticate(round: &Round, dealing: &[u8]) -> Option<(Peer, DealerLog<MinSig, Peer>)> {
    let (dealer, log) = decode(round, dealing)?.check(&round.info)?;
    round.peers.position(&dealer).map(|_| (dealer, log))
}

fn decode(round: &Round, dealing: &[u8]) -> Option<SignedDealerLog<MinSig, Peer>> {
    if dealing.len() > dealing_bytes_max(round.peers.len()) {
        return None;
    }
    SignedDealerLog::decode_cfg(Copying(dealing), &round.count).ok()
}
