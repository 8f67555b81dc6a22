//! Seeds: signatures over a height by the key of a round.

/// Whether a signature is the seed of a height, for everyone who has the key of the round.
#[must_use]
pub fn verify_seed(
    network: &[u8; 32],
    key: &[u8; 96],
    round: u64,
    height: u64,
    signature: &[u8; 48],
) -> bool {
    let _ = (network, key, round, height, signature);
    unimplemented!()
}
