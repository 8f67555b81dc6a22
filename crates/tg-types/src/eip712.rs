//! EIP-712 typed data: what a wallet shows and signs for each kind of transaction.
//!
//! `digest = keccak256(0x19 ‖ 0x01 ‖ domain separator ‖ struct hash)`, where a struct hash is
//! `keccak256(type hash ‖ one 32-byte word per member)`. A string is the hash of its bytes, a nested struct is its
//! own struct hash, every number is left-padded big-endian. The same bytes can be forced in through the L1
//! contract, so the domain names the L1 chain, the rollup contract and this network's salt.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::codec::Encode as _;
use crate::fees::Fees;
use crate::fields;
use crate::id::Address;
use crate::keccak::keccak256;
use crate::order::{JobOrder, OfferTerms, Receipt};
use crate::resources::{JobNeeds, Machine};
use crate::session::{NonceLane, session_digest};
use crate::signed_struct::{StructHash, number_word};
use crate::subject::StorageSubject;
use crate::transaction::{Transaction, TransactionKind};

/// Encoded type of the domain.
pub const DOMAIN_TYPE: &str = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract,bytes32 salt)";

/// Members that every kind begins with. The lane says which sequence the nonce belongs to; see [`NONCE_LANE_ACCOUNT`].
pub const HEAD: &str = "uint8 lane,uint64 nonce,uint128 maxFeePerGas,uint128 maxTipPerGas";

/// The lane of an account's own nonces; a session key's is 1.
pub const NONCE_LANE_ACCOUNT: u8 = 0;

impl TransactionKind {
    /// The encoded type a wallet signs, with the nested type after it as EIP-712 orders.
    #[must_use]
    pub fn encoded_type(self) -> String {
        // What is nested follows in the order of names, as EIP-712 demands.
        let (members, nested): (_, &[&str]) = match self {
            Self::Transfer => ("address to,uint128 amount", &[]),
            Self::RegisterModel => (
                "bytes32 model,bytes32 publicBlob,bytes32 weightsBlob,string name",
                &[],
            ),
            Self::PostOffer => ("OfferTerms terms", &[Machine::TYPE, OfferTerms::TYPE]),
            Self::WithdrawOffer => ("bytes32 offer", &[]),
            Self::SubmitJob => ("JobOrder order", &[JobNeeds::TYPE, JobOrder::TYPE]),
            Self::CancelJob => ("bytes32 job", &[]),
            Self::StartLease => ("bytes32 lease", &[]),
            Self::CommitReceipt => ("bytes32 lease,Receipt receipt", &[Receipt::TYPE]),
            Self::SubmitEvidence => ("bytes32 lease,bytes32 evidence,uint32 size", &[]),
            Self::UpdateOffer => (
                "bytes32 offer,OfferTerms terms",
                &[Machine::TYPE, OfferTerms::TYPE],
            ),
            Self::CommitBid => ("bytes32 commitment,uint128 deposit", &[]),
            Self::RevealBid => (
                "bytes32 bid,bytes32 salt,JobOrder order",
                &[JobNeeds::TYPE, JobOrder::TYPE],
            ),
            Self::RateJob => ("bytes32 job,uint8 stars", &[]),
            Self::ReportLiveness => ("uint64 epoch,address[] lost,address[] back", &[]),
            Self::ReportStorage => (
                "StorageSubject[] held,StorageSubject[] missing",
                &[StorageSubject::TYPE],
            ),
            Self::DeclineLease => ("bytes32 lease,uint8 reason", &[]),
            Self::CommitPart => ("bytes32 lease,Receipt receipt", &[Receipt::TYPE]),
            Self::RegisterSessionKey => ("bytes32 key,uint8 scope,uint128 cap,uint64 expires", &[]),
            Self::RevokeSessionKey => ("bytes32 key", &[]),
            Self::RaiseJob => ("bytes32 job,uint128 maxPrice,uint8 maxAttempts", &[]),
            Self::PayRent => ("bytes32 record,uint128 amount", &[]),
            Self::JoinValidators => ("bytes32 key,string endpoint,bytes possession", &[]),
            Self::LeaveValidators => ("bytes32 key", &[]),
            Self::ReportEquivocation => ("bytes proof", &[]),
            Self::PostDealing => ("uint64 round,bytes log", &[]),
            Self::CommitVotes => ("bytes32[] leases,bytes32[] commitments", &[]),
            Self::RevealVotes => (
                "bytes32[] leases,uint64[] votes,uint64[] checksums,bytes32[] salts",
                &[],
            ),
            Self::ChallengeResult => ("bytes32 lease", &[]),
            Self::ArgueResult => ("bytes32 lease,bytes32 file,uint32 size", &[]),
            Self::AskStored => ("bytes32 job,address seat", &[]),
            Self::RegisterSealingKey => ("bytes key", &[]),
            Self::GrantKey => ("bytes32 lease,bytes grant", &[]),
            Self::RevealKey => ("bytes32 lease,bytes32 key", &[]),
            Self::ReadyForProtocol => ("uint16 version", &[]),
            Self::SettleEndpoint => ("bytes32 lease,bytes voucher,bool ends", &[]),
            Self::SealResult => ("bytes32 lease,bytes32 seal", &[]),
            Self::OpenResult => (
                "bytes32 lease,Receipt receipt,bytes32 salt",
                &[Receipt::TYPE],
            ),
        };
        format!("{self}({HEAD},{members}){}", nested.concat())
    }

    /// The hash of the encoded type.
    fn type_hash(self) -> [u8; 32] {
        static HASHES: LazyLock<BTreeMap<TransactionKind, [u8; 32]>> = LazyLock::new(|| {
            let hash = |kind: TransactionKind| keccak256(kind.encoded_type().as_bytes());
            TransactionKind::ALL.map(|kind| (kind, hash(kind))).into()
        });
        HASHES[&self]
    }
}

/// Which network a signature is for; a signature made for one domain is void in every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainDomain {
    /// Chain id of the L1 the network settles on.
    pub chain_id: u64,
    /// Address of the rollup contract on that L1.
    pub verifying_contract: Address,
    /// The network's genesis salt, so that two networks on one L1 contract differ.
    pub salt: [u8; 32],
}

impl std::fmt::Display for ChainDomain {
    /// `chain ID, contract 0x.., salt 0x..`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            chain_id,
            verifying_contract,
            salt,
        } = self;
        let salt = crate::Digest::new(*salt);
        write!(
            f,
            "chain {chain_id}, contract {verifying_contract}, salt {salt}"
        )
    }
}

impl ChainDomain {
    /// The domain's name, shown by wallets.
    pub const NAME: &'static str = "TensorGrid";

    /// The domain's version.
    pub const VERSION: &'static str = "1";

    /// The EIP-712 domain separator.
    #[must_use]
    pub fn separator(&self) -> [u8; 32] {
        let Self {
            chain_id,
            verifying_contract,
            salt,
        } = self;
        static SHARED: LazyLock<[[u8; 32]; 3]> = LazyLock::new(|| {
            let shared = [DOMAIN_TYPE, ChainDomain::NAME, ChainDomain::VERSION];
            shared.map(|text| keccak256(text.as_bytes()))
        });
        let [type_hash, name, version] = &*SHARED;
        StructHash::of(type_hash)
            .word(*name)
            .word(*version)
            .number(u128::from(*chain_id))
            .address(*verifying_contract)
            .word(*salt)
            .finish()
    }

    /// What is signed for `transaction` with `nonce` and `fees`.
    #[must_use]
    pub fn signing_digest(&self, transaction: &Transaction, nonce: u64, fees: &Fees) -> [u8; 32] {
        self.digest_of(&struct_hash(transaction, nonce, fees))
    }

    /// What is signed for `transaction` with the `nonce` of a lane: by the account, or by its session key.
    #[must_use]
    pub fn signing_digest_in(
        &self,
        lane: &NonceLane,
        transaction: &Transaction,
        nonce: u64,
        fees: &Fees,
    ) -> [u8; 32] {
        let hash = struct_hash_in(lane.tag(), transaction, nonce, fees);
        let digest = self.digest_of(&hash);
        match lane {
            NonceLane::Account(_) => digest,
            NonceLane::Session(account, key) => session_digest(account, key, &digest),
        }
    }

    /// What is signed for a struct of this hash.
    #[must_use]
    pub fn digest_of(&self, struct_hash: &[u8; 32]) -> [u8; 32] {
        let mut bytes = Vec::with_capacity(66);
        bytes.extend_from_slice(&[0x19, 0x01]);
        bytes.extend_from_slice(&self.separator());
        bytes.extend_from_slice(struct_hash);
        keccak256(&bytes)
    }
}

fields! { ChainDomain { chain_id, verifying_contract, salt } }

/// The EIP-712 struct hash of a transaction with its nonce and fees, in the account's own lane.
#[must_use]
pub fn struct_hash(transaction: &Transaction, nonce: u64, fees: &Fees) -> [u8; 32] {
    struct_hash_in(NONCE_LANE_ACCOUNT, transaction, nonce, fees)
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind")]
fn struct_hash_in(lane: u8, transaction: &Transaction, nonce: u64, fees: &Fees) -> [u8; 32] {
    let start = StructHash::of(&transaction.kind().type_hash())
        .number(u128::from(lane))
        .number(u128::from(nonce))
        .amount(fees.max_fee_per_gas)
        .amount(fees.max_tip_per_gas);
    match transaction {
        Transaction::Transfer { to, amount } => start.address(*to).amount(*amount),
        Transaction::RegisterModel {
            model,
            public_blob,
            weights_blob,
            name,
        } => start
            .word(*model.as_bytes())
            .word(*public_blob.as_bytes())
            .word(*weights_blob.as_bytes())
            .label(name),
        Transaction::PostOffer { terms } => start.word(terms.struct_hash()),
        Transaction::WithdrawOffer { offer } => start.word(*offer.as_bytes()),
        Transaction::SubmitJob { order } => start.word(order.struct_hash()),
        Transaction::CancelJob { job } => start.word(*job.as_bytes()),
        Transaction::StartLease { lease } | Transaction::ChallengeResult { lease } => {
            start.word(*lease.as_bytes())
        }
        Transaction::CommitReceipt { lease, receipt } => {
            start.word(*lease.as_bytes()).word(receipt.struct_hash())
        }
        Transaction::SubmitEvidence {
            lease,
            evidence: file,
            size,
        }
        | Transaction::ArgueResult { lease, file, size } => start
            .word(*lease.as_bytes())
            .word(*file.as_bytes())
            .number(u128::from(*size)),
        Transaction::UpdateOffer { offer, terms } => {
            start.word(*offer.as_bytes()).word(terms.struct_hash())
        }
        Transaction::CommitBid {
            commitment,
            deposit,
        } => start.word(*commitment.as_bytes()).amount(*deposit),
        Transaction::RevealBid { bid, salt, order } => start
            .word(*bid.as_bytes())
            .word(*salt.as_bytes())
            .word(order.struct_hash()),
        Transaction::RateJob { job, stars } => {
            start.word(*job.as_bytes()).number(u128::from(*stars))
        }
        Transaction::PayRent { record, amount } => start.word(*record.as_bytes()).amount(*amount),
        Transaction::JoinValidators {
            key,
            endpoint,
            possession,
        } => start.word(*key).label(endpoint).bytes(possession),
        Transaction::RegisterSessionKey {
            key,
            scope,
            cap,
            expires,
        } => start
            .word(*key)
            .number(u128::from(scope.tag()))
            .amount(*cap)
            .number(u128::from(expires.get())),
        Transaction::RevokeSessionKey { key } | Transaction::LeaveValidators { key } => {
            start.word(*key)
        }
        Transaction::AskStored { job, seat } => start.word(*job.as_bytes()).address(*seat),
        Transaction::RegisterSealingKey { key } => start.bytes(key.as_bytes()),
        Transaction::GrantKey { lease, grant } => {
            start.word(*lease.as_bytes()).bytes(grant.as_bytes())
        }
        Transaction::RevealKey { lease, key } => start.word(*lease.as_bytes()).word(*key),
        Transaction::ReadyForProtocol { version } => start.number(u128::from(*version)),
        Transaction::SettleEndpoint {
            lease,
            voucher,
            ends,
        } => start
            .word(*lease.as_bytes())
            .bytes(&voucher.map_or_else(Vec::new, |it| it.to_bytes()))
            .number(u128::from(*ends)),
        Transaction::ReportEquivocation { proof } => start.bytes(&proof.to_bytes()),
        Transaction::ReportLiveness { epoch, lost, back } => start
            .number(u128::from(*epoch))
            .addresses(lost)
            .addresses(back),
        Transaction::ReportStorage { held, missing } => start
            .words(held.iter().map(StorageSubject::struct_hash))
            .words(missing.iter().map(StorageSubject::struct_hash)),
        Transaction::PostDealing { round, log } => {
            start.number(u128::from(*round)).bytes(log.as_bytes())
        }
        Transaction::CommitVotes { votes } => start
            .words(votes.iter().map(|it| *it.lease.as_bytes()))
            .words(votes.iter().map(|it| *it.commitment.as_bytes())),
        Transaction::RevealVotes { votes } => start
            .words(votes.iter().map(|it| *it.lease.as_bytes()))
            .words(votes.iter().map(|it| number_word(it.vote.number())))
            .words(votes.iter().map(|it| number_word(it.vote.checksum())))
            .words(votes.iter().map(|it| *it.salt.as_bytes())),
        Transaction::DeclineLease { lease, reason } => start
            .word(*lease.as_bytes())
            .number(u128::from(reason.tag())),
        Transaction::CommitPart { lease, receipt } => {
            start.word(*lease.as_bytes()).word(receipt.struct_hash())
        }
        Transaction::SealResult { lease, seal } => {
            start.word(*lease.as_bytes()).word(*seal.as_bytes())
        }
        Transaction::OpenResult {
            lease,
            receipt,
            salt,
        } => start
            .word(*lease.as_bytes())
            .word(receipt.struct_hash())
            .word(*salt.as_bytes()),
        Transaction::RaiseJob {
            job,
            max_price,
            max_attempts,
        } => start
            .word(*job.as_bytes())
            .amount(*max_price)
            .number(u128::from(*max_attempts)),
    }
    .finish()
}
