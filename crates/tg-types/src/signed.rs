//! Signatures: a wallet signs a transaction, anyone recovers who signed it.
//!
//! `SignedTransaction` is what travels; [`SignedTransaction::verify`] turns it into a `VerifiedTransaction`, the only
//! form that the ledger executes.

use k256::ecdsa::SigningKey;

use crate::checked::CheckedSignatures;
use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;
use crate::domain::Domain;
use crate::eip712::{ChainDomain, NONCE_LANE_ACCOUNT};
use crate::fees::Fees;
use crate::id::{Address, BidId, JobId, OfferId, TransactionId};
use crate::keccak::keccak256_of;
pub use crate::session::Authorization;
use crate::session::{NonceLane, SessionSignature, SessionWallet};
use crate::signature::address_of;
pub use crate::signature::{Signature, SignatureError};
use crate::transaction::Transaction;

/// A transaction as it travels: content, nonce, fees, sender and signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTransaction {
    /// What is asked for.
    pub transaction: Transaction,
    /// The sender's next number: numbers of one account are used in order, without gaps.
    pub nonce: u64,
    /// What the sender pays for gas at most.
    pub fees: Fees,
    /// Who asks; stated so that a changed byte is told from an unknown account.
    pub sender: Address,
    /// Who signed for the sender.
    pub authorization: Authorization,
}

impl SignedTransaction {
    /// Checks that the sender signed this content for `domain`.
    ///
    /// # Errors
    /// [`SignatureError`] says in which way the signature does not hold.
    pub fn verify(&self, domain: &ChainDomain) -> Result<VerifiedTransaction, SignatureError> {
        self.verify_once(domain, &CheckedSignatures::none())
    }

    /// The same; a signature that is among `checked` is not looked at again, and one that holds is kept there.
    ///
    /// # Errors
    /// [`SignatureError`] says in which way the signature does not hold.
    pub fn verify_once(
        &self,
        domain: &ChainDomain,
        checked: &CheckedSignatures,
    ) -> Result<VerifiedTransaction, SignatureError> {
        let lane = self.lane();
        let digest = domain.signing_digest_in(&lane, &self.transaction, self.nonce, &self.fees);
        if !checked.has(self.sender, &digest, self.authorization) {
            self.check_signature(&digest)?;
            checked.keep(self.sender, &digest, self.authorization);
        }
        Ok(VerifiedTransaction {
            lane,
            transaction: self.transaction.clone(),
            nonce: self.nonce,
            fees: self.fees,
            sender: self.sender,
            id: transaction_id(self.sender, &digest),
        })
    }

    fn check_signature(&self, digest: &[u8; 32]) -> Result<(), SignatureError> {
        match &self.authorization {
            Authorization::Account(signature) => {
                let (claimed, recovered) = (self.sender, signature.recover(digest)?);
                match recovered == claimed {
                    true => Ok(()),
                    false => Err(SignatureError::WrongSigner { claimed, recovered }),
                }
            }
            Authorization::Session(signature) => match signature.holds(digest) {
                true => Ok(()),
                false => Err(SignatureError::WrongSessionKey {
                    key: Digest::new(signature.key),
                }),
            },
        }
    }

    /// Whose next number it has.
    #[must_use]
    pub const fn lane(&self) -> NonceLane {
        match &self.authorization {
            Authorization::Account(_) => NonceLane::Account(self.sender),
            Authorization::Session(signature) => NonceLane::Session(self.sender, signature.key),
        }
    }

    /// The transaction's name. It covers sender, session key, content, nonce, fees and network, not the signature.
    #[must_use]
    pub fn id(&self, domain: &ChainDomain) -> TransactionId {
        let lane = self.lane();
        let digest = domain.signing_digest_in(&lane, &self.transaction, self.nonce, &self.fees);
        transaction_id(self.sender, &digest)
    }
}

fn transaction_id(sender: Address, signing_digest: &[u8; 32]) -> TransactionId {
    let mut bytes = [0; 52];
    bytes[..20].copy_from_slice(sender.as_bytes());
    bytes[20..].copy_from_slice(signing_digest);
    TransactionId::new(keccak256_of(Domain::Transaction, &bytes))
}

/// The name of the job that a `SubmitJob` transaction orders.
#[must_use]
pub fn job_id(transaction: TransactionId) -> JobId {
    JobId::new(keccak256_of(Domain::Job, transaction.as_bytes()))
}

/// The name of the offer that a `PostOffer` transaction posts.
#[must_use]
pub fn offer_id(transaction: TransactionId) -> OfferId {
    OfferId::new(keccak256_of(Domain::Offer, transaction.as_bytes()))
}

/// The name of the bid that a `CommitBid` transaction makes.
#[must_use]
pub fn bid_id(transaction: TransactionId) -> BidId {
    BidId::new(keccak256_of(Domain::Bid, transaction.as_bytes()))
}

impl Encode for SignedTransaction {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            transaction,
            nonce,
            fees,
            sender,
            authorization,
        } = self;
        transaction.encode(writer);
        writer.u8(self.lane().tag());
        writer.u64(*nonce);
        fees.encode(writer);
        sender.encode(writer);
        match authorization {
            Authorization::Account(signature) => signature.encode(writer),
            Authorization::Session(signature) => signature.encode(writer),
        }
    }
}

impl Decode for SignedTransaction {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let transaction = Transaction::decode(reader)?;
        let lane = reader.u8()?;
        let (nonce, fees) = (reader.u64()?, Fees::decode(reader)?);
        let sender = Address::decode(reader)?;
        let authorization = match lane {
            NONCE_LANE_ACCOUNT => Authorization::Account(Signature::decode(reader)?),
            1 => Authorization::Session(SessionSignature::decode(reader)?),
            lane => {
                return Err(DecodeError::Invalid {
                    field: "nonce lane",
                    value: u64::from(lane),
                });
            }
        };
        Ok(Self {
            transaction,
            nonce,
            fees,
            sender,
            authorization,
        })
    }
}

/// A transaction whose signature holds. Only [`SignedTransaction::verify`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedTransaction {
    transaction: Transaction,
    nonce: u64,
    fees: Fees,
    sender: Address,
    lane: NonceLane,
    id: TransactionId,
}

impl VerifiedTransaction {
    /// What is asked for.
    #[must_use]
    pub const fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// The sender's number of it.
    #[must_use]
    pub const fn nonce(&self) -> u64 {
        self.nonce
    }

    /// What the sender pays for gas at most.
    #[must_use]
    pub const fn fees(&self) -> Fees {
        self.fees
    }

    /// Whose next number it has: what tells whether a session key signed.
    #[must_use]
    pub const fn lane(&self) -> &NonceLane {
        &self.lane
    }

    /// The account that asks.
    #[must_use]
    pub const fn sender(&self) -> Address {
        self.sender
    }

    /// The transaction's name.
    #[must_use]
    pub const fn id(&self) -> TransactionId {
        self.id
    }
}

impl SessionWallet {
    /// Signs a transaction for one network. Whether its kind is of the key's scope the ledger says.
    #[must_use]
    pub fn sign_with_fees(
        &self,
        transaction: Transaction,
        nonce: u64,
        fees: Fees,
        domain: &ChainDomain,
    ) -> SignedTransaction {
        let digest = domain.signing_digest_in(&self.lane(), &transaction, nonce, &fees);
        SignedTransaction {
            transaction,
            nonce,
            fees,
            sender: self.account(),
            authorization: Authorization::Session(SessionSignature {
                key: self.public(),
                signature: self.sign_message(&digest),
            }),
        }
    }
}

/// A signing key. Its `Debug` form shows the address only.
#[derive(Clone)]
pub struct Wallet {
    key: SigningKey,
    address: Address,
}

/// The bytes are no secp256k1 key: zero, or not below the group order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret is zero or not below the order of secp256k1")]
pub struct WalletError;

impl Wallet {
    /// A wallet of a 32-byte secret scalar, big-endian.
    ///
    /// # Errors
    /// [`WalletError`] if it is no key.
    pub fn from_secret(secret: &[u8; 32]) -> Result<Self, WalletError> {
        let key = SigningKey::from_slice(secret).map_err(|_| WalletError)?;
        let address = address_of(key.verifying_key());
        Ok(Self { key, address })
    }

    /// A secret that follows from the wallet's and a subject, and says nothing of it.
    #[must_use]
    pub fn derived_secret(&self, purpose: Domain, subject: &[u8]) -> Digest {
        let secret = self.key.to_bytes();
        Digest::of(purpose, &[secret.as_slice(), subject].concat())
    }

    /// The wallet of a development account: whoever knows the seed owns the account.
    ///
    /// # Panics
    /// If 256 hashes in a row are no key, which has a probability below 2^-30,000.
    #[must_use]
    pub fn from_seed(seed: &[u8]) -> Self {
        let mut bytes = seed.to_vec();
        bytes.push(0);
        (0..=u8::MAX)
            .find_map(|attempt| {
                if let Some(last) = bytes.last_mut() {
                    *last = attempt;
                }
                Self::from_secret(&keccak256_of(Domain::DevelopmentWallet, &bytes)).ok()
            })
            .expect("one of 256 hashes is below the group order")
    }

    /// The account's address.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// The secret scalar, big-endian. Whoever has it owns the account.
    #[must_use]
    pub fn secret(&self) -> [u8; 32] {
        self.key.to_bytes().into()
    }

    /// Signs a transaction for one network with [`Fees::DEVELOPMENT`], for tests and development networks.
    #[must_use]
    pub fn sign(
        &self,
        transaction: Transaction,
        nonce: u64,
        domain: &ChainDomain,
    ) -> SignedTransaction {
        self.sign_with_fees(transaction, nonce, Fees::DEVELOPMENT, domain)
    }

    /// Signs a transaction for one network.
    #[must_use]
    pub fn sign_with_fees(
        &self,
        transaction: Transaction,
        nonce: u64,
        fees: Fees,
        domain: &ChainDomain,
    ) -> SignedTransaction {
        let signature = self.sign_digest(&domain.signing_digest(&transaction, nonce, &fees));
        SignedTransaction {
            transaction,
            nonce,
            fees,
            sender: self.address,
            authorization: Authorization::Account(signature),
        }
    }

    /// Signs a 32-byte digest (deterministic nonce of RFC 6979, low s).
    #[must_use]
    pub fn sign_digest(&self, digest: &[u8; 32]) -> Signature {
        let (signature, recovery) = self.key.sign_prehash_recoverable(digest);
        let (r, s) = signature.split_bytes();
        Signature {
            r: r.into(),
            s: s.into(),
            y_parity: u8::from(recovery.is_y_odd()),
        }
    }
}

impl std::fmt::Debug for Wallet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wallet")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
