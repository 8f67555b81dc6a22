//! Keccak-256, the hash of everything an L1 contract must be able to recompute.

use sha3::Digest as _;

use crate::domain::Domain;

/// Keccak-256 (the Ethereum padding, not NIST SHA3-256) of `bytes`.
#[must_use]
pub fn keccak256(bytes: &[u8]) -> [u8; 32] {
    sha3::Keccak256::digest(bytes).into()
}

/// Keccak-256 of `keccak256(domain) ‖ bytes`: values of different domains never coincide.
#[must_use]
pub fn keccak256_of(domain: Domain, bytes: &[u8]) -> [u8; 32] {
    let mut hasher = sha3::Keccak256::new();
    hasher.update(keccak256(domain.as_str().as_bytes()));
    hasher.update(bytes);
    hasher.finalize().into()
}
