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
use crate::resources::{JobNeeds, Machine};
use crate::transaction::{Transaction, TransactionKind};

/// Encoded type of the domain.
pub const DOMAIN_TYPE: &str = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract,bytes32 salt)";

/// Encoded type of a job order inside `SubmitJob`.
pub const JOB_ORDER_TYPE: &str = "JobOrder(bytes32 model,bytes32 input,uint32 inputLen,uint8 mode,uint128 maxPrice,uint64 deadline,uint8 maxAttempts,JobNeeds needs)";

/// Encoded type of offer terms inside `PostOffer`.
pub const OFFER_TERMS_TYPE: &str = "OfferTerms(string hardware,uint128 priceBase,uint128 pricePerMmac,uint64 latencyBaseMs,uint64 speedMmacPerS,uint64 memoryBytes,uint16 slots,uint128 collateralPerLease,uint8 modes,Machine machine,uint128 pricePerGpuSecond,uint8 pricing)";

/// Encoded type of the machine inside offer terms.
pub const MACHINE_TYPE: &str = "Machine(uint8 gpuCount,uint8 gpu,uint32 gpuMemoryMib,uint16 capability,bool tensorCores,uint8 link,uint8 sharing,uint32 cpuMilli,uint32 memoryMib,uint32 diskGib,uint8 region,int32 x,int32 y,uint8 tiers)";

/// Encoded type of the needs inside a job order.
pub const JOB_NEEDS_TYPE: &str = "JobNeeds(uint8 class,uint8 gpus,uint16 gpuMilli,uint32 gpuMemoryMib,uint16 models,uint16 capabilityMin,bool tensorCores,uint8 linkMin,uint8 isolation,uint32 cpuMilli,uint32 memoryMib,uint32 diskGib,uint64 regions,uint64 referenceMs,uint16 gang,uint32 neighbourhoodUs,bool guaranteed,uint8 priority,bool preemptible,uint8 tier)";

/// Encoded type of a receipt inside `CommitReceipt`.
pub const RECEIPT_TYPE: &str =
    "Receipt(bytes32 program,bytes32 model,bytes32 input,bytes32 output,bytes32 trace,uint8 tier)";

impl TransactionKind {
    /// The encoded type a wallet signs, with the nested type after it as EIP-712 orders.
    #[must_use]
    pub fn encoded_type(self) -> String {
        // What is nested follows in the order of names, as EIP-712 demands.
        let (own, nested): (_, &[&str]) = match self {
            Self::Transfer => ("Transfer(uint64 nonce,address to,uint128 amount)", &[]),
            Self::RegisterModel => (
                "RegisterModel(uint64 nonce,bytes32 model,bytes32 publicBlob,bytes32 weightsBlob,string name)",
                &[],
            ),
            Self::PostOffer => (
                "PostOffer(uint64 nonce,OfferTerms terms)",
                &[MACHINE_TYPE, OFFER_TERMS_TYPE],
            ),
            Self::WithdrawOffer => ("WithdrawOffer(uint64 nonce,bytes32 offer)", &[]),
            Self::SubmitJob => (
                "SubmitJob(uint64 nonce,JobOrder order)",
                &[JOB_NEEDS_TYPE, JOB_ORDER_TYPE],
            ),
            Self::CancelJob => ("CancelJob(uint64 nonce,bytes32 job)", &[]),
            Self::StartLease => ("StartLease(uint64 nonce,bytes32 lease)", &[]),
            Self::CommitReceipt => (
                "CommitReceipt(uint64 nonce,bytes32 lease,Receipt receipt)",
                &[RECEIPT_TYPE],
            ),
            Self::SubmitEvidence => (
                "SubmitEvidence(uint64 nonce,bytes32 lease,bytes32 evidence,uint32 size)",
                &[],
            ),
            Self::UpdateOffer => (
                "UpdateOffer(uint64 nonce,bytes32 offer,OfferTerms terms)",
                &[MACHINE_TYPE, OFFER_TERMS_TYPE],
            ),
            Self::CommitBid => (
                "CommitBid(uint64 nonce,bytes32 commitment,uint128 deposit)",
                &[],
            ),
            Self::RevealBid => (
                "RevealBid(uint64 nonce,bytes32 bid,bytes32 salt,JobOrder order)",
                &[JOB_NEEDS_TYPE, JOB_ORDER_TYPE],
            ),
            Self::RateJob => ("RateJob(uint64 nonce,bytes32 job,uint8 stars)", &[]),
            Self::ReportLiveness => (
                "ReportLiveness(uint64 nonce,uint64 epoch,address[] lost,address[] back)",
                &[],
            ),
        };
        format!("{own}{}", nested.concat())
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

    fn addresses(self, addresses: &[Address]) -> Self {
        let mut words = Vec::with_capacity(32 * addresses.len());
        for address in addresses {
            words.extend_from_slice(&[0; 12]);
            words.extend_from_slice(address.as_bytes());
        }
        self.word(keccak256(&words))
    }

    fn signed(self, value: i32) -> Self {
        let mut word = [if value < 0 { 0xff } else { 0 }; 32];
        word[28..].copy_from_slice(&value.to_be_bytes());
        self.word(word)
    }

    fn flag(self, value: bool) -> Self {
        self.number(u128::from(value))
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
        Transaction::UpdateOffer { offer, terms } => {
            start.word(*offer.as_bytes()).word(offer_terms_hash(terms))
        }
        Transaction::CommitBid {
            commitment,
            deposit,
        } => start.word(*commitment.as_bytes()).amount(*deposit),
        Transaction::RevealBid { bid, salt, order } => start
            .word(*bid.as_bytes())
            .word(*salt.as_bytes())
            .word(job_order_hash(order)),
        Transaction::RateJob { job, stars } => {
            start.word(*job.as_bytes()).number(u128::from(*stars))
        }
        Transaction::ReportLiveness { epoch, lost, back } => start
            .number(u128::from(*epoch))
            .addresses(lost)
            .addresses(back),
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
        needs,
    } = order;
    StructHash::new(&[JOB_ORDER_TYPE, JOB_NEEDS_TYPE].concat())
        .word(*model.as_bytes())
        .word(*input.as_bytes())
        .number(u128::from(*input_len))
        .number(u128::from(mode.tag()))
        .amount(*max_price)
        .number(u128::from(deadline.get()))
        .number(u128::from(*max_attempts))
        .word(job_needs_hash(needs))
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
        machine,
        price_per_gpu_second,
        pricing,
    } = terms;
    StructHash::new(&[OFFER_TERMS_TYPE, MACHINE_TYPE].concat())
        .label(hardware)
        .amount(*price_base)
        .amount(*price_per_mmac)
        .number(u128::from(latency_base_ms.get()))
        .number(u128::from(*speed_mmac_per_s))
        .number(u128::from(*memory_bytes))
        .number(u128::from(*slots))
        .amount(*collateral_per_lease)
        .number(u128::from(modes.bits()))
        .word(machine_hash(machine))
        .amount(*price_per_gpu_second)
        .number(u128::from(pricing.tag()))
        .finish()
}

fn machine_hash(machine: &Machine) -> [u8; 32] {
    let Machine {
        gpu_count,
        gpu,
        gpu_memory_mib,
        capability,
        tensor_cores,
        link,
        sharing,
        cpu_milli,
        memory_mib,
        disk_gib,
        region,
        coordinate_us,
        tiers,
    } = machine;
    StructHash::new(MACHINE_TYPE)
        .number(u128::from(*gpu_count))
        .number(u128::from(gpu.tag()))
        .number(u128::from(*gpu_memory_mib))
        .number(u128::from(*capability))
        .flag(*tensor_cores)
        .number(u128::from(link.tag()))
        .number(u128::from(sharing.bits()))
        .number(u128::from(*cpu_milli))
        .number(u128::from(*memory_mib))
        .number(u128::from(*disk_gib))
        .number(u128::from(*region))
        .signed(coordinate_us[0])
        .signed(coordinate_us[1])
        .number(u128::from(tiers.bits()))
        .finish()
}

fn job_needs_hash(needs: &JobNeeds) -> [u8; 32] {
    let JobNeeds {
        class,
        gpus,
        gpu_milli,
        gpu_memory_mib,
        models,
        capability_min,
        tensor_cores,
        link_min,
        isolation,
        cpu_milli,
        memory_mib,
        disk_gib,
        regions,
        reference,
        gang,
        neighbourhood_us,
        guaranteed,
        priority,
        preemptible,
        tier,
    } = needs;
    StructHash::new(JOB_NEEDS_TYPE)
        .number(u128::from(class.tag()))
        .number(u128::from(*gpus))
        .number(u128::from(*gpu_milli))
        .number(u128::from(*gpu_memory_mib))
        .number(u128::from(models.bits()))
        .number(u128::from(*capability_min))
        .flag(*tensor_cores)
        .number(u128::from(link_min.tag()))
        .number(u128::from(isolation.tag()))
        .number(u128::from(*cpu_milli))
        .number(u128::from(*memory_mib))
        .number(u128::from(*disk_gib))
        .number(u128::from(regions.bits()))
        .number(u128::from(reference.get()))
        .number(u128::from(*gang))
        .number(u128::from(*neighbourhood_us))
        .flag(*guaranteed)
        .number(u128::from(*priority))
        .flag(*preemptible)
        .number(u128::from(tier.tag()))
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
