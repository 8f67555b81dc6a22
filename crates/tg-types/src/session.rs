//! Session keys: ed25519 keys with which an account lets machines sign for it, for a limited time and up to a limited amount.
//!
//! A machine that serves leases or orders jobs has such a key, and the account's own key stays elsewhere. Its
//! [`SessionScope`] says what a session key may sign ([`crate::TransactionKind::session_scope`]): no key of any scope moves
//! money to another account, registers keys, votes, or changes an offer. The ledger counts what
//! the key costs against its cap ([`crate::Transaction::RegisterSessionKey`]).
//!
//! **What is signed.** The 32 bytes of keccak-256 over purpose, account, key and the EIP-712 digest of the transaction in
//! nonce lane 1, so that a signature is bound to one account, one key, one network and one nonce of the key's own sequence.
//! Signatures are those of RFC 8032, checked by ZIP 215 like the votes of seats: all verifiers then accept the same
//! signatures, one by one or in batches.

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use sha2::{Digest as _, Sha512};

use crate::chain::is_ed25519;
use crate::domain::Domain;
use crate::fields;
use crate::id::Address;
use crate::keccak::keccak256_of;
use crate::signature::Signature;

crate::wire_enum! {
    /// What a session key may sign.
    SessionScope, "scope of a session key", {
        /// What serves leases: starts, receipts, evidence and claims of a provider.
        Serve = 0 => "serve",
        /// What orders jobs, changes orders and takes them back.
        Order = 1 => "order",
    }
}

/// Whose next number a transaction has: each account and each session key counts its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NonceLane {
    /// The account's own.
    Account(Address),
    /// Those of a session key of the account.
    Session(Address, [u8; 32]),
}

impl NonceLane {
    /// The account.
    #[must_use]
    pub const fn account(&self) -> Address {
        match self {
            Self::Account(account) | Self::Session(account, _) => *account,
        }
    }

    /// The session key, if it is one's.
    #[must_use]
    pub const fn session(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Account(_) => None,
            Self::Session(_, key) => Some(key),
        }
    }

    /// Its number in encodings and typed data.
    #[must_use]
    pub const fn tag(&self) -> u8 {
        match self {
            Self::Account(_) => 0,
            Self::Session(..) => 1,
        }
    }
}

impl Default for NonceLane {
    /// The lane of the account of zeros, the first in their order.
    fn default() -> Self {
        Self::Account(Address::default())
    }
}

impl From<Address> for NonceLane {
    fn from(account: Address) -> Self {
        Self::Account(account)
    }
}

/// A session key with its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionSignature {
    /// The public key.
    pub key: [u8; 32],
    /// The signature: R and s.
    pub signature: [u8; 64],
}

fields! { SessionSignature { key, signature } }

impl SessionSignature {
    /// Whether the key signed a digest.
    #[must_use]
    pub fn holds(&self, digest: &[u8; 32]) -> bool {
        is_ed25519(&self.key, &self.signature, digest)
    }
}

/// Who signed a transaction for its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Authorization {
    /// The account's own key, the EIP-712 digest.
    Account(Signature),
    /// A session key of the account.
    Session(SessionSignature),
}

/// What a session key of an account signs for the EIP-712 digest of a transaction.
#[must_use]
pub fn session_digest(account: &Address, key: &[u8; 32], digest: &[u8; 32]) -> [u8; 32] {
    let mut bytes = [0; 84];
    bytes[..20].copy_from_slice(account.as_bytes());
    bytes[20..52].copy_from_slice(key);
    bytes[52..].copy_from_slice(digest);
    keccak256_of(Domain::SessionTransaction, &bytes)
}

/// Whether bytes are a public key that only its owner signs for: a point in its one encoding, and not of small order.
#[must_use]
pub fn is_session_key(key: &[u8; 32]) -> bool {
    let point = CompressedEdwardsY(*key).decompress();
    // Stops: one key under two names, and keys for which anybody signs.
    point.is_some_and(|it| !it.is_small_order() && it.compress().to_bytes() == *key)
}

/// A session key that signs for an account. Its `Debug` form shows the public key only.
#[derive(Clone)]
pub struct SessionWallet {
    account: Address,
    seed: [u8; 32],
    secret: Scalar,
    prefix: [u8; 32],
    public: [u8; 32],
}

impl SessionWallet {
    /// The key of 32 secret bytes (RFC 8032, section 5.1.5), for an account.
    #[must_use]
    pub fn from_secret(seed: &[u8; 32], account: Address) -> Self {
        let hash: [u8; 64] = Sha512::digest(seed).into();
        let (mut secret, mut prefix) = ([0; 32], [0; 32]);
        secret.copy_from_slice(&hash[..32]);
        prefix.copy_from_slice(&hash[32..]);
        secret[0] &= 248;
        secret[31] &= 127;
        secret[31] |= 64;
        let secret = Scalar::from_bytes_mod_order(secret);
        Self {
            account,
            seed: *seed,
            secret,
            prefix,
            public: EdwardsPoint::mul_base(&secret).compress().to_bytes(),
        }
    }

    /// The account for which it signs.
    #[must_use]
    pub const fn account(&self) -> Address {
        self.account
    }

    /// The public key, by which the account registers it.
    #[must_use]
    pub const fn public(&self) -> [u8; 32] {
        self.public
    }

    /// The secret bytes.
    #[must_use]
    pub const fn secret(&self) -> [u8; 32] {
        self.seed
    }

    /// Whose next number its transactions have.
    #[must_use]
    pub const fn lane(&self) -> NonceLane {
        NonceLane::Session(self.account, self.public)
    }

    /// Signs a message (RFC 8032, section 5.1.6).
    #[must_use]
    pub fn sign_message(&self, message: &[u8]) -> [u8; 64] {
        let hash = |parts: &[&[u8]]| {
            let mut hasher = Sha512::new();
            parts.iter().for_each(|part| hasher.update(part));
            Scalar::from_bytes_mod_order_wide(&hasher.finalize().into())
        };
        let nonce = hash(&[&self.prefix, message]);
        let r = EdwardsPoint::mul_base(&nonce).compress().to_bytes();
        let k = hash(&[&r, &self.public, message]);
        let s = nonce + k * self.secret;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&r);
        signature[32..].copy_from_slice(s.as_bytes());
        signature
    }
}

impl std::fmt::Debug for SessionWallet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionWallet")
            .field("account", &self.account)
            .field("public", &crate::digest::Digest::new(self.public))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        let pairs = text.as_bytes().chunks(2);
        let bytes: Vec<u8> = pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        bytes.try_into().unwrap()
    }

    /// RFC 8032, section 7.1, tests 1 to 3.
    #[test]
    fn signatures_are_those_of_the_standard() {
        let vectors = [
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                &[][..],
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                &[0x72],
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            ),
            (
                "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
                "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
                &[0xaf, 0x82],
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
            ),
        ];
        for (secret, public, message, signature) in vectors {
            let wallet = SessionWallet::from_secret(&bytes(secret), Address::new([1; 20]));
            assert_eq!(wallet.public(), bytes(public));
            let signed = wallet.sign_message(message);
            assert_eq!(signed, bytes(signature));
            assert!(is_ed25519(&wallet.public(), &signed, message));
            assert!(is_session_key(&wallet.public()));
        }
        let mut identity = [0; 32];
        identity[0] = 1;
        assert!(!is_session_key(&identity));
        assert!(!is_session_key(&[0xff; 32]));
    }
}
