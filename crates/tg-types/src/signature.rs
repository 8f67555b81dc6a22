//! A secp256k1 signature and who made it.

use k256::ecdsa::{RecoveryId, VerifyingKey};

use crate::digest::Digest;
use crate::fields;
use crate::id::Address;
use crate::keccak::keccak256;

/// A recoverable secp256k1 signature. Any bytes are representable; [`SignedTransaction::verify`] judges them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// x coordinate of the nonce point, big-endian.
    pub r: [u8; 32],
    /// The proof scalar, big-endian; at most half the group order.
    pub s: [u8; 32],
    /// Parity of the nonce point's y coordinate: 0 or 1 (Ethereum's `v` minus 27).
    pub y_parity: u8,
}

impl Signature {
    /// `r ‖ s ‖ v` with Ethereum's `v` of 27 or 28, as `ecrecover` and wallets write it.
    #[must_use]
    pub fn to_rsv(self) -> [u8; 65] {
        let mut bytes = [0; 65];
        bytes[..32].copy_from_slice(&self.r);
        bytes[32..64].copy_from_slice(&self.s);
        bytes[64] = self.y_parity.wrapping_add(27);
        bytes
    }

    /// Who signed `digest`.
    ///
    /// # Errors
    /// If the scalars are out of range, `s` is high, the parity is no bit, or no key fits.
    pub fn recover(&self, digest: &[u8; 32]) -> Result<Address, SignatureError> {
        let signature = k256::ecdsa::Signature::from_scalars(self.r, self.s)
            .map_err(|_| SignatureError::ScalarOutOfRange)?;
        // Of the two valid s only the low one counts, or anyone could give a transaction a second encoding.
        if signature.normalize_s() != signature {
            return Err(SignatureError::HighS);
        }
        let parity = match self.y_parity {
            0 => RecoveryId::new(false, false),
            1 => RecoveryId::new(true, false),
            parity => return Err(SignatureError::BadParity { parity }),
        };
        VerifyingKey::recover_from_prehash(digest, &signature, parity)
            .map(|key| address_of(&key))
            .map_err(|_| SignatureError::NoKey)
    }
}

fields! { Signature { r, s, y_parity } }

/// Why a signature does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// `r` or `s` is zero or not below the group order.
    #[error("a signature scalar is zero or not below the group order")]
    ScalarOutOfRange,
    /// `s` is above half the group order.
    #[error("the signature's s is above half the group order")]
    HighS,
    /// The parity is neither 0 nor 1.
    #[error("the signature's parity is {parity}, not 0 or 1")]
    BadParity {
        /// What was given.
        parity: u8,
    },
    /// No public key fits the signature.
    #[error("no key fits the signature")]
    NoKey,
    /// A session key did not sign it.
    #[error("session key {key} did not sign this content for this account and network")]
    WrongSessionKey {
        /// The public key that the transaction names.
        key: Digest,
    },
    /// Another account signed: a field was changed, or the signature is for another network.
    #[error("the sender is {claimed}, but {recovered} signed this content for this network")]
    WrongSigner {
        /// The sender the transaction names.
        claimed: Address,
        /// The account whose signature it would be.
        recovered: Address,
    },
}

/// The address of a public key: the last 20 bytes of keccak-256 of its uncompressed point.
pub(crate) fn address_of(key: &VerifyingKey) -> Address {
    let point = key.to_sec1_point(false);
    let hash = keccak256(&point.as_bytes()[1..]);
    let mut address = [0; 20];
    address.copy_from_slice(&hash[12..]);
    Address::new(address)
}
