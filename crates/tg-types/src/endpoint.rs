//! What the two sides of an endpoint sign: the requestor its [vouchers](Voucher); the provider its answers, and the claim
//! that it is the one that serves the lease.

use crate::codec::{Encode, Writer};
use crate::digest::Digest;
use crate::domain::Domain;
use crate::eip712::ChainDomain;
use crate::fields;
use crate::id::{Address, LeaseId};
use crate::keccak::keccak256_of;
use crate::signature::{Signature, SignatureError};
use crate::signed::Wallet;
use crate::time::TimestampMs;
use crate::voucher::{SignedVoucher, Voucher};

impl Voucher {
    /// What is signed for one network: EIP-712 typed data.
    #[must_use]
    pub fn signing_digest(&self, domain: &ChainDomain) -> [u8; 32] {
        domain.digest_of(&self.struct_hash())
    }

    /// Signs it.
    #[must_use]
    pub fn sign(self, wallet: &Wallet, domain: &ChainDomain) -> SignedVoucher {
        SignedVoucher {
            voucher: self,
            signature: wallet.sign_digest(&self.signing_digest(domain)),
        }
    }
}

impl SignedVoucher {
    /// The account that signed. A changed voucher, or one of another network, gives an account that nobody has. Takes about as
    /// long as checking a transaction's signature.
    ///
    /// # Errors
    /// [`SignatureError`] if nobody can have made the signature.
    pub fn account(&self, domain: &ChainDomain) -> Result<Address, SignatureError> {
        self.signature.recover(&self.voucher.signing_digest(domain))
    }
}

/// What names a request of an endpoint: its number, which its requestor gives only once, and the digest of its input.
#[must_use]
pub fn asked_digest(number: u64, input: &Digest) -> Digest {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(input.as_bytes());
    Digest::of(Domain::Asked, &bytes)
}

/// What a provider signs with an answer: who holds it can show what was answered, and by whom.
#[must_use]
pub fn answer_digest(
    lease: &LeaseId,
    asked: &Digest,
    answer: &Digest,
    domain: &ChainDomain,
) -> [u8; 32] {
    let mut writer = Writer::new();
    writer.raw(&domain.separator());
    lease.encode(&mut writer);
    asked.encode(&mut writer);
    answer.encode(&mut writer);
    keccak256_of(Domain::Answered, &writer.into_bytes())
}

/// That a provider serves a lease from now on: what it shows to get the requests. An older one than the newest says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServingClaim {
    /// The lease.
    pub lease: LeaseId,
    /// When, by the ledger's clock.
    pub at: TimestampMs,
    /// The provider's signature.
    pub signature: Signature,
}

fields! { ServingClaim { lease, at, signature } }

impl ServingClaim {
    /// Signs one for one network.
    #[must_use]
    pub fn new(lease: LeaseId, at: TimestampMs, wallet: &Wallet, domain: &ChainDomain) -> Self {
        Self {
            lease,
            at,
            signature: wallet.sign_digest(&Self::signing_digest(&lease, at, domain)),
        }
    }

    /// The account that signed.
    ///
    /// # Errors
    /// [`SignatureError`] if nobody can have made the signature.
    pub fn account(&self, domain: &ChainDomain) -> Result<Address, SignatureError> {
        self.signature
            .recover(&Self::signing_digest(&self.lease, self.at, domain))
    }

    fn signing_digest(lease: &LeaseId, at: TimestampMs, domain: &ChainDomain) -> [u8; 32] {
        let mut writer = Writer::new();
        writer.raw(&domain.separator());
        lease.encode(&mut writer);
        at.encode(&mut writer);
        keccak256_of(Domain::Serving, &writer.into_bytes())
    }
}
