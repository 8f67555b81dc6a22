//! A validator's key: one ed25519 key names it on the network and signs its votes.

use commonware_codec::{DecodeExt as _, Encode as _};
use commonware_cryptography::{Signer as _, ed25519};
use tg_types::chain::seat_namespace;
use tg_types::{Address, BlockId};

/// The secret key of a validator. Its `Debug` form shows the public key only.
#[derive(Clone)]
pub struct ValidatorKey(ed25519::PrivateKey);

/// The bytes are not an ed25519 key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not an ed25519 key")]
pub struct KeyError;

impl ValidatorKey {
    /// The key of a 32-byte secret seed.
    ///
    /// # Errors
    /// [`KeyError`] if the library refuses the bytes.
    pub fn from_secret(secret: &[u8; 32]) -> Result<Self, KeyError> {
        ed25519::PrivateKey::decode(secret.to_vec())
            .map(Self)
            .map_err(|_| KeyError)
    }

    /// A key for development: whoever knows the number owns the validator.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self(ed25519::PrivateKey::from_seed(seed))
    }

    /// The public key's 32 bytes.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        public_bytes(&self.0.public_key())
    }

    /// The validator's name on the network.
    #[must_use]
    pub fn peer(&self) -> ed25519::PublicKey {
        self.0.public_key()
    }

    /// Its signature that it belongs to an account, with which that account may ask for a seat
    /// ([`tg_types::chain::seat_possession`]).
    ///
    /// # Panics
    /// Never: a signature has 64 bytes.
    #[must_use]
    pub fn possession(&self, genesis: &BlockId, account: &Address) -> [u8; 64] {
        let namespace = seat_namespace(genesis);
        let signature = self.0.sign(&namespace, account.as_bytes()).encode();
        signature
            .as_ref()
            .try_into()
            .expect("a signature has 64 bytes")
    }

    pub(crate) const fn private(&self) -> &ed25519::PrivateKey {
        &self.0
    }
}

impl std::fmt::Debug for ValidatorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValidatorKey({})", tg_types::digest::hex(&self.public()))
    }
}

/// The library's public key of a secret one.
pub(crate) fn peer(key: &ValidatorKey) -> ed25519::PublicKey {
    key.peer()
}

/// The library's public key of 32 bytes.
pub(crate) fn peer_of(public: &[u8; 32]) -> Result<ed25519::PublicKey, KeyError> {
    ed25519::PublicKey::decode(public.to_vec()).map_err(|_| KeyError)
}

/// The 32 bytes of the library's public key.
pub(crate) fn public_bytes(peer: &ed25519::PublicKey) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(&peer.encode());
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn keys_survive_their_bytes_and_do_not_print_their_secret() {
        let key = ValidatorKey::from_secret(&[7; 32]).unwrap();
        assert_eq!(public_bytes(&peer_of(&key.public()).unwrap()), key.public());
        assert_eq!(
            key.public(),
            ValidatorKey::from_secret(&[7; 32]).unwrap().public()
        );
        assert_ne!(key.public(), ValidatorKey::from_seed(7).public());
        assert!(!format!("{key:?}").contains(&"07".repeat(32)));
        // 2 is no y coordinate of a point.
        let mut bytes = [0; 32];
        bytes[0] = 2;
        assert_eq!(peer_of(&bytes), Err(KeyError));
    }
}
