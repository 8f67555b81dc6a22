//! Everything an account can ask the ledger to do.

use crate::amount::Amount;
use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;
use crate::id::{Address, JobId, LeaseId, ModelId, OfferId};
use crate::label::Label;
use crate::order::{JobOrder, OfferTerms, Receipt};

/// One request to the ledger, not yet signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    /// Pay another account.
    Transfer {
        /// Who is paid.
        to: Address,
        /// How much.
        amount: Amount,
    },
    /// Offer a model to the grid; validators verify its registration proof before jobs may name it.
    RegisterModel {
        /// The model's id.
        model: ModelId,
        /// Content hash of the public part (`.tgv`).
        public_blob: Digest,
        /// Content hash of the program with its weights (`.tgm`), for providers.
        weights_blob: Digest,
        /// What people call it; nothing of it is checked.
        name: Label,
    },
    /// Offer to run jobs.
    PostOffer {
        /// For how much, and how fast.
        terms: OfferTerms,
    },
    /// Take an offer back; leases that run on it end as they would have.
    WithdrawOffer {
        /// The offer.
        offer: OfferId,
    },
    /// Order a job and lock its escrow.
    SubmitJob {
        /// The order.
        order: JobOrder,
    },
    /// Take back a job that waits for a provider.
    CancelJob {
        /// The job.
        job: JobId,
    },
    /// A provider says that it began to work on a lease.
    StartLease {
        /// The lease.
        lease: LeaseId,
    },
    /// A provider commits to its result.
    CommitReceipt {
        /// The lease.
        lease: LeaseId,
        /// What it commits to.
        receipt: Receipt,
    },
    /// A provider names the evidence for its result.
    SubmitEvidence {
        /// The lease.
        lease: LeaseId,
        /// Content hash of the evidence.
        evidence: Digest,
        /// How many bytes the evidence has.
        size: u32,
    },
}

/// The kind of a [`Transaction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TransactionKind {
    /// [`Transaction::Transfer`].
    Transfer = 0,
    /// [`Transaction::RegisterModel`].
    RegisterModel = 1,
    /// [`Transaction::PostOffer`].
    PostOffer = 2,
    /// [`Transaction::WithdrawOffer`].
    WithdrawOffer = 3,
    /// [`Transaction::SubmitJob`].
    SubmitJob = 4,
    /// [`Transaction::CancelJob`].
    CancelJob = 5,
    /// [`Transaction::StartLease`].
    StartLease = 6,
    /// [`Transaction::CommitReceipt`].
    CommitReceipt = 7,
    /// [`Transaction::SubmitEvidence`].
    SubmitEvidence = 8,
}

impl TransactionKind {
    /// Every kind, in the order of their tags.
    pub const ALL: [Self; 9] = [
        Self::Transfer,
        Self::RegisterModel,
        Self::PostOffer,
        Self::WithdrawOffer,
        Self::SubmitJob,
        Self::CancelJob,
        Self::StartLease,
        Self::CommitReceipt,
        Self::SubmitEvidence,
    ];

    /// The name, which is also the primary type of its typed data.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transfer => "Transfer",
            Self::RegisterModel => "RegisterModel",
            Self::PostOffer => "PostOffer",
            Self::WithdrawOffer => "WithdrawOffer",
            Self::SubmitJob => "SubmitJob",
            Self::CancelJob => "CancelJob",
            Self::StartLease => "StartLease",
            Self::CommitReceipt => "CommitReceipt",
            Self::SubmitEvidence => "SubmitEvidence",
        }
    }

    /// The tag in encodings.
    #[must_use]
    pub const fn tag(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for TransactionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Transaction {
    /// What kind of request it is.
    #[must_use]
    pub const fn kind(&self) -> TransactionKind {
        match self {
            Self::Transfer { .. } => TransactionKind::Transfer,
            Self::RegisterModel { .. } => TransactionKind::RegisterModel,
            Self::PostOffer { .. } => TransactionKind::PostOffer,
            Self::WithdrawOffer { .. } => TransactionKind::WithdrawOffer,
            Self::SubmitJob { .. } => TransactionKind::SubmitJob,
            Self::CancelJob { .. } => TransactionKind::CancelJob,
            Self::StartLease { .. } => TransactionKind::StartLease,
            Self::CommitReceipt { .. } => TransactionKind::CommitReceipt,
            Self::SubmitEvidence { .. } => TransactionKind::SubmitEvidence,
        }
    }
}

impl Encode for Transaction {
    fn encode(&self, writer: &mut Writer) {
        writer.u8(self.kind().tag());
        match self {
            Self::Transfer { to, amount } => {
                to.encode(writer);
                amount.encode(writer);
            }
            Self::RegisterModel {
                model,
                public_blob,
                weights_blob,
                name,
            } => {
                model.encode(writer);
                public_blob.encode(writer);
                weights_blob.encode(writer);
                name.encode(writer);
            }
            Self::PostOffer { terms } => terms.encode(writer),
            Self::WithdrawOffer { offer } => offer.encode(writer),
            Self::SubmitJob { order } => order.encode(writer),
            Self::CancelJob { job } => job.encode(writer),
            Self::StartLease { lease } => lease.encode(writer),
            Self::CommitReceipt { lease, receipt } => {
                lease.encode(writer);
                receipt.encode(writer);
            }
            Self::SubmitEvidence {
                lease,
                evidence,
                size,
            } => {
                lease.encode(writer);
                evidence.encode(writer);
                writer.u32(*size);
            }
        }
    }
}

impl Decode for Transaction {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Transfer {
                to: Address::decode(reader)?,
                amount: Amount::decode(reader)?,
            },
            1 => Self::RegisterModel {
                model: ModelId::decode(reader)?,
                public_blob: Digest::decode(reader)?,
                weights_blob: Digest::decode(reader)?,
                name: Label::decode(reader)?,
            },
            2 => Self::PostOffer {
                terms: OfferTerms::decode(reader)?,
            },
            3 => Self::WithdrawOffer {
                offer: OfferId::decode(reader)?,
            },
            4 => Self::SubmitJob {
                order: JobOrder::decode(reader)?,
            },
            5 => Self::CancelJob {
                job: JobId::decode(reader)?,
            },
            6 => Self::StartLease {
                lease: LeaseId::decode(reader)?,
            },
            7 => Self::CommitReceipt {
                lease: LeaseId::decode(reader)?,
                receipt: Receipt::decode(reader)?,
            },
            8 => Self::SubmitEvidence {
                lease: LeaseId::decode(reader)?,
                evidence: Digest::decode(reader)?,
                size: reader.u32()?,
            },
            tag => {
                return Err(DecodeError::Invalid {
                    field: "transaction kind",
                    value: u64::from(tag),
                });
            }
        })
    }
}
