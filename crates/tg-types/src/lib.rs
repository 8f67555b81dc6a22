//! Ids, money, job orders, receipts, the canonical codec, signatures and hashing domains.
//!
//! Suggested reading order:
//! 1. [`codec`] - the canonical encoding; [`fields!`], [`tags!`] and [`variants!`] derive encoder and decoder from one list
//! 2. [`digest`], [`keccak`], [`domain`] - hashes, and the closed list of their purposes
//! 3. [`chunks`], [`leaves`] - blobs that are checked in parts
//! 4. [`id`], [`amount`], [`time`], [`label`], [`mode`], [`resources`] - the types from which all others are made
//! 5. [`order`], [`transaction`] - orders, offers and receipts; every request to the ledger
//! 6. [`fees`], [`eip712`], [`signed`], [`session`] - gas, and what wallets and session keys sign
//! 7. [`checked`] - a cache of signatures that were verified
//! 8. [`endpoint`], [`Voucher`] - requests to endpoints, and what is owed for them
//! 9. [`served`] - models that run on a provider's own server
//! 10. [`sealing`] - keys of sealed jobs
//! 11. [`upload`], [`heartbeat`] - signed permits to store a blob, and signs of life
//! 12. [`StorageSubject`] - files that validators state to hold
//! 13. [`Vote`], [`SealedVote`], [`sections`], [`DealingLog`], [`draw`] - committees, drawn parts of a run, and seeds
//! 14. [`chain`] - headers, certificates and state proofs, which clients check
//! 15. [`fault`], [`limits`] - whose fault an error is; sizes on which all parts of the grid agree
//!
//! ```
//! use tg_types::{Address, Amount, ChainDomain, Transaction, Wallet};
//!
//! let domain = ChainDomain { chain_id: 1, verifying_contract: Address::default(), salt: [7; 32] };
//! let wallet = Wallet::from_seed(b"alice");
//! let payment = Transaction::Transfer { to: Address::default(), amount: Amount::from_tgrid(2) };
//! let signed = wallet.sign(payment, 0, &domain);
//! assert_eq!(signed.verify(&domain).map(|it| it.sender()), Ok(wallet.address()));
//! ```

pub mod amount;
mod ballot;
pub mod chain;
pub mod checked;
pub mod chunks;
pub mod codec;
mod dealing;
pub mod digest;
pub mod domain;
pub mod draw;
pub mod eip712;
pub mod endpoint;
pub mod fault;
pub mod fees;
mod fields;
pub mod heartbeat;
pub mod id;
pub mod keccak;
pub mod label;
pub mod leaves;
pub mod limits;
pub mod mode;
pub mod order;
pub mod resources;
pub mod sealing;
pub mod sections;
pub mod served;
pub mod session;
mod signature;
pub mod signed;
mod signed_struct;
mod subject;
pub mod time;
pub mod transaction;
pub mod upload;
mod voucher;

pub use amount::{Amount, ParseAmountError};
pub use ballot::{
    OpenedVote, RunCommitment, SealedVote, TileName, TraceForm, Vote, stated_trace, trace_checksum,
    vote_commitment,
};
pub use checked::CheckedSignatures;
pub use codec::{Decode, DecodeError, Encode, Reader, Writer};
pub use dealing::DealingLog;
pub use digest::{BlobHasher, Digest};
pub use domain::Domain;
pub use eip712::ChainDomain;
pub use endpoint::{ServingClaim, answer_digest, asked_digest};
pub use fault::{Fault, with_sources};
pub use fees::{BASE_FEE_USUAL, BaseFeeTooHigh, Fees};
pub use heartbeat::Heartbeat;
pub use id::{
    Address, BidId, BlockId, JobId, LeaseId, ModelId, OfferId, ProgramId, QuestionId, StateRoot,
    TransactionId,
};
pub use keccak::{keccak256, keccak256_of};
pub use label::{Label, LabelError};
pub use mode::{ModeSet, Tier, VerificationMode};
pub use order::{BASE_PRICES_PER_MINUTE, JobOrder, OfferTerms, Receipt};
pub use resources::{
    CapacityTier, GpuLink, GpuModel, GpuModelSet, JobClass, JobNeeds, Lane, Machine, Pricing,
    RegionSet, SharingMode, SharingSet, TierSet,
};
pub use sealing::{KeyGrant, SealingPublicKey};
pub use served::{CardError, ServedCall, ServedCard, TokenUsage};
pub use session::{NonceLane, SessionScope, SessionSignature, SessionWallet};
pub use signed::{
    Authorization, Signature, SignatureError, SignedTransaction, VerifiedTransaction, Wallet,
    WalletError, bid_id, job_id, offer_id,
};
pub use subject::StorageSubject;
pub use time::{DurationMs, Height, TimestampMs};
pub use transaction::{DeclineReason, Transaction, TransactionKind};
pub use upload::{SignedUpload, UploadPermit};
pub use voucher::{SignedVoucher, Voucher};
