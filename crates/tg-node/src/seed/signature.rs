//! Seeds: signatures over a height by the key of a round.

use commonware_codec::DecodeFixed as _;
use commonware_cryptography::bls12381::primitives::group::{G1, G2};
use commonware_cryptography::bls12381::primitives::ops;
use commonware_cryptography::bls12381::primitives::variant::MinSig;
use tg_types::{Domain, Writer};

use super::round::namespace;

/// Whether a signature is the seed of a height, for everyone who has the key of the round. There is one such signature.
///
/// The message is the round and the height, 8 bytes each with the lowest first; the namespace `TG/node/seed-height/v1` and
/// the id of genesis, with their length before them as the library writes it. False for bytes that are no points of the
/// groups, the points at infinity included.
#[must_use]
pub fn verify_seed(
    network: &[u8; 32],
    key: &[u8; 96],
    round: u64,
    height: u64,
    signature: &[u8; 48],
) -> bool {
    let (Ok(key), Ok(signature)) = (G2::decode_fixed(*key), G1::decode_fixed(*signature)) else {
        return false;
    };
    let scope = SeedScope::new(network, round);
    let message = scope.message(height);
    ops::verify_message::<MinSig>(&key, &scope.namespace, &message, &signature).is_ok()
}

/// What all seeds of a round are signed for.
#[derive(Debug, Clone)]
pub(super) struct SeedScope {
    pub(super) namespace: Vec<u8>,
    round: u64,
}

impl SeedScope {
    pub(super) fn new(network: &[u8; 32], round: u64) -> Self {
        Self {
            namespace: namespace(Domain::SeedHeight, network),
            round,
        }
    }

    /// What is signed for a height.
    pub(super) fn message(&self, height: u64) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u64(self.round);
        writer.u64(height);
        writer.into_bytes()
    }
}
