//! Permits to store a blob: an account asks for one blob to be stored, and its balance limits how much it may store.

use crate::codec::{Decode, Encode, Writer};
use crate::digest::Digest;
use crate::domain::Domain;
use crate::eip712::ChainDomain;
use crate::fields;
use crate::id::Address;
use crate::keccak::keccak256_of;
use crate::signed::{Signature, SignatureError, Wallet};
use crate::time::TimestampMs;

/// What a permit allows: one blob, until a time of the ledger. It is no order and moves no money; whoever copies it can
/// do no more with it than store the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadPermit {
    /// The blob.
    pub digest: Digest,
    /// Its size in bytes.
    pub length: u64,
    /// The last block time at which the permit holds.
    pub expires: TimestampMs,
}

impl UploadPermit {
    /// What is signed, for one network: keccak-256 of purpose, domain separator, digest, length and expiry.
    #[must_use]
    pub fn signing_digest(&self, domain: &ChainDomain) -> [u8; 32] {
        let mut writer = Writer::new();
        writer.raw(&domain.separator());
        self.encode(&mut writer);
        keccak256_of(Domain::Upload, &writer.into_bytes())
    }
}

fields! { UploadPermit { digest, length, expires } }

/// A permit with its signature: 113 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedUpload {
    /// What is allowed.
    pub permit: UploadPermit,
    /// The account's signature.
    pub signature: Signature,
}

impl SignedUpload {
    /// Signs a permit for one network.
    #[must_use]
    pub fn new(permit: UploadPermit, wallet: &Wallet, domain: &ChainDomain) -> Self {
        Self {
            permit,
            signature: wallet.sign_digest(&permit.signing_digest(domain)),
        }
    }

    /// The account that signed. A permit for another network, or a changed one, gives an account without money.
    ///
    /// # Errors
    /// [`SignatureError`] if nobody can have made the signature.
    pub fn owner(&self, domain: &ChainDomain) -> Result<Address, SignatureError> {
        self.signature.recover(&self.permit.signing_digest(domain))
    }
}

fields! { SignedUpload { permit, signature } }

impl std::fmt::Display for SignedUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        crate::id::write_hex(f, &self.to_bytes())
    }
}

impl SignedUpload {
    /// Reads what `Display` writes.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = crate::id::hex_array::<113>(text)?;
        Self::from_bytes(&bytes).ok()
    }
}
