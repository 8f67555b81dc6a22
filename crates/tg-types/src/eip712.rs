//! EIP-712 typed data: what a wallet shows and signs for each kind of transaction.
//!
//! `digest = keccak256(0x19 ‖ 0x01 ‖ domain separator ‖ struct hash)`, where a struct hash is
//! `keccak256(type hash ‖ one 32-byte word per member)`. A string is the hash of its bytes, a nested struct is its
//! own struct hash, every number is left-padded big-endian. The same bytes can be forced in through the L1
//! contract, so the domain names the L1 chain, the rollup contract and this network's salt.

use crate::amount::Amount;
use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::id::Address;
use crate::keccak::keccak256;
use crate::label::Label;
use crate::order::{JobOrder, OfferTerms, Receipt};
use crate::transaction::{Transaction, TransactionKind};

/// Encoded type of the domain.
pub const DOMAIN_TYPE: &str = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract,bytes32 salt)";

/// Encoded type of a job order inside `SubmitJob`.
pub const JOB_ORDER_TYPE: &str = "JobOrder(bytes32 model,bytes32 input,uint32 inputLen,uint8 mode,uint128 maxPrice,uint64 deadline,uint8 maxAttempts)";

/// Encoded type of offer terms inside `PostOffer`.
pub const OFFER_TERMS_TYPE: &str = "OfferTerms(string hardware,uint128 priceBase,uint128 pricePerMmac,uint64 latencyBaseMs,uint64 speedMmacPerS,uint64 memoryBytes,uint16 slots,uint128 collateralPerLease,uint8 modes)";

/// Encoded type of a receipt inside `CommitReceipt`.
pub const RECEIPT_TYPE: &str =
    "Receipt(bytes32 program,bytes32 model,bytes32 input,bytes32 output,bytes32 trace,uint8 tier)";

impl TransactionKind {
    /// The encoded type a wallet signs, with the nested type after it as EIP-712 orders.
    #[must_use]
    pub fn encoded_type(self) -> String {
        let (own, nested) = match self {
            Self::Transfer => ("Transfer(uint64 nonce,address to,uint128 amount)", ""),
            Self::RegisterModel => (
                "RegisterModel(uint64 nonce,bytes32 model,bytes32 publicBlob,bytes32 weightsBlob,string name)",
                "",
            ),
            Self::PostOffer => ("PostOffer(uint64 nonce,OfferTerms terms)", OFFER_TERMS_TYPE),
            Self::WithdrawOffer => ("WithdrawOffer(uint64 nonce,bytes32 offer)", ""),
            Self::SubmitJob => ("SubmitJob(uint64 nonce,JobOrder order)", JOB_ORDER_TYPE),
            Self::CancelJob => ("CancelJob(uint64 nonce,bytes32 job)", ""),
            Self::StartLease => ("StartLease(uint64 nonce,bytes32 lease)", ""),
            Self::CommitReceipt => (
                "CommitReceipt(uint64 nonce,bytes32 lease,Receipt receipt)",
                RECEIPT_TYPE,
            ),
            Self::SubmitEvidence => (
                "SubmitEvidence(uint64 nonce,bytes32 lease,bytes32 evidence,uint32 size)",
                "",
            ),
        };
        format!("{own}{nested}")
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
        StructHash::new(DOMAIN_TYPE)
            .text(Self::NAME)
            .text(Self::VERSION)
            .number(u128::from(*chain_id))
            .address(*verifying_contract)
            .word(*salt)
            .finish()
    }

    /// What is signed for `transaction` with `nonce`.
    #[must_use]
    pub fn signing_digest(&self, transaction: &Transaction, nonce: u64) -> [u8; 32] {
        let mut bytes = Vec::with_capacity(66);
        bytes.extend_from_slice(&[0x19, 0x01]);
        bytes.extend_from_slice(&self.separator());
        bytes.extend_from_slice(&struct_hash(transaction, nonce));
        keccak256(&bytes)
    }
}

impl Encode for ChainDomain {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            chain_id,
            verifying_contract,
            salt,
        } = self;
        writer.u64(*chain_id);
        verifying_contract.encode(writer);
        writer.raw(salt);
    }
}

impl Decode for ChainDomain {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            chain_id: reader.u64()?,
            verifying_contract: Address::decode(reader)?,
            salt: reader.array()?,
        })
    }
}

/// Collects the words of one struct.
struct StructHash {
    words: Vec<u8>,
}

impl StructHash {
    fn new(encoded_type: &str) -> Self {
        Self {
            words: keccak256(encoded_type.as_bytes()).to_vec(),
        }
    }

    fn word(mut self, word: [u8; 32]) -> Self {
        self.words.extend_from_slice(&word);
        self
    }

    fn number(self, value: u128) -> Self {
        let mut word = [0; 32];
        word[16..].copy_from_slice(&value.to_be_bytes());
        self.word(word)
    }

    fn amount(self, amount: Amount) -> Self {
        self.number(amount.get())
    }

    fn address(self, address: Address) -> Self {
        let mut word = [0; 32];
        word[12..].copy_from_slice(address.as_bytes());
        self.word(word)
    }

    fn text(self, text: &str) -> Self {
        self.word(keccak256(text.as_bytes()))
    }

    fn label(self, label: &Label) -> Self {
        self.text(label.as_str())
    }

    fn finish(self) -> [u8; 32] {
        keccak256(&self.words)
    }
}

/// The EIP-712 struct hash of a transaction with its nonce.
#[must_use]
pub fn struct_hash(transaction: &Transaction, nonce: u64) -> [u8; 32] {
    let start = StructHash::new(&transaction.kind().encoded_type()).number(u128::from(nonce));
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
        Transaction::PostOffer { terms } => start.word(offer_terms_hash(terms)),
        Transaction::WithdrawOffer { offer } => start.word(*offer.as_bytes()),
        Transaction::SubmitJob { order } => start.word(job_order_hash(order)),
        Transaction::CancelJob { job } => start.word(*job.as_bytes()),
        Transaction::StartLease { lease } => start.word(*lease.as_bytes()),
        Transaction::CommitReceipt { lease, receipt } => {
            start.word(*lease.as_bytes()).word(receipt_hash(receipt))
        }
        Transaction::SubmitEvidence {
            lease,
            evidence,
            size,
        } => start
            .word(*lease.as_bytes())
            .word(*evidence.as_bytes())
            .number(u128::from(*size)),
    }
    .finish()
}

/// The EIP-712 struct hash of a job order.
#[must_use]
pub fn job_order_hash(order: &JobOrder) -> [u8; 32] {
    let JobOrder {
        model,
        input,
        input_len,
        mode,
        max_price,
        deadline,
        max_attempts,
    } = order;
    StructHash::new(JOB_ORDER_TYPE)
        .word(*model.as_bytes())
        .word(*input.as_bytes())
        .number(u128::from(*input_len))
        .number(u128::from(mode.tag()))
        .amount(*max_price)
        .number(u128::from(deadline.get()))
        .number(u128::from(*max_attempts))
        .finish()
}

/// The EIP-712 struct hash of offer terms.
#[must_use]
pub fn offer_terms_hash(terms: &OfferTerms) -> [u8; 32] {
    let OfferTerms {
        hardware,
        price_base,
        price_per_mmac,
        latency_base_ms,
        speed_mmac_per_s,
        memory_bytes,
        slots,
        collateral_per_lease,
        modes,
    } = terms;
    StructHash::new(OFFER_TERMS_TYPE)
        .label(hardware)
        .amount(*price_base)
        .amount(*price_per_mmac)
        .number(u128::from(latency_base_ms.get()))
        .number(u128::from(*speed_mmac_per_s))
        .number(u128::from(*memory_bytes))
        .number(u128::from(*slots))
        .amount(*collateral_per_lease)
        .number(u128::from(modes.bits()))
        .finish()
}

/// The EIP-712 struct hash of a receipt; it also names the receipt in the ledger.
#[must_use]
pub fn receipt_hash(receipt: &Receipt) -> [u8; 32] {
    let Receipt {
        program,
        model,
        input,
        output,
        trace,
        tier,
    } = receipt;
    StructHash::new(RECEIPT_TYPE)
        .word(*program.as_bytes())
        .word(*model.as_bytes())
        .word(*input.as_bytes())
        .word(*output.as_bytes())
        .word(*trace.as_bytes())
        .number(u128::from(tier.tag()))
        .finish()
}
