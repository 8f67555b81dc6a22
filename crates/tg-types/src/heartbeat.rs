//! Heartbeats: a provider signs that it was online at a time.

use crate::codec::{Decode, Encode, Writer};
use crate::domain::Domain;
use crate::eip712::ChainDomain;
use crate::fields;
use crate::id::Address;
use crate::keccak::keccak256_of;
use crate::signed::{Signature, SignatureError, Wallet};
use crate::time::TimestampMs;

/// That an account was there at a time of its own clock: 73 bytes. It is no order and moves no money; whoever copies it can
/// only repeat it, and an older one than the newest says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// When.
    pub at: TimestampMs,
    /// The account's signature.
    pub signature: Signature,
}

impl Heartbeat {
    /// Signs one for one network.
    #[must_use]
    pub fn new(at: TimestampMs, wallet: &Wallet, domain: &ChainDomain) -> Self {
        Self {
            at,
            signature: wallet.sign_digest(&Self::signing_digest(at, domain)),
        }
    }

    /// What is signed: keccak-256 of purpose, domain separator and time.
    #[must_use]
    pub fn signing_digest(at: TimestampMs, domain: &ChainDomain) -> [u8; 32] {
        let mut writer = Writer::new();
        writer.raw(&domain.separator());
        at.encode(&mut writer);
        keccak256_of(Domain::Heartbeat, &writer.into_bytes())
    }

    /// The account that signed. One of another network, or a changed one, gives an account that nobody has. Takes about as long
    /// as checking a transaction's signature.
    ///
    /// # Errors
    /// [`SignatureError`] if nobody can have made the signature.
    pub fn account(&self, domain: &ChainDomain) -> Result<Address, SignatureError> {
        self.signature
            .recover(&Self::signing_digest(self.at, domain))
    }
}

fields! { Heartbeat { at, signature } }

impl std::fmt::Display for Heartbeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        crate::id::write_hex(f, &self.to_bytes())
    }
}

impl Heartbeat {
    /// Reads what `Display` writes.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = crate::id::hex_array::<73>(text)?;
        Self::from_bytes(&bytes).ok()
    }
}
