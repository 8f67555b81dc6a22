//! Why a transaction is refused.

use tg_types::{
    Address, Amount, Digest, Fault, JobId, LeaseId, ModelId, OfferId, ProgramId, SignatureError,
    TimestampMs,
};

use crate::record::JobState;

/// Why a transaction is refused. Nothing of a refused transaction happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "each field is named in its variant's message; documenting both says everything twice"
)]
pub enum TransactionError {
    /// The sender did not sign this.
    #[error("the transaction is not signed by its sender")]
    Signature(#[source] SignatureError),
    /// The nonce was used: a replay.
    #[error("nonce {got} was used before; the account's next is {expected}")]
    NonceUsed { expected: u64, got: u64 },
    /// Transactions before this one are missing.
    #[error("nonce {got} leaves a gap; the account's next is {expected}")]
    NonceGap { expected: u64, got: u64 },
    /// Too many transactions before this one are missing.
    #[error("nonce {got} is more than {limit} ahead of the account's next, {expected}")]
    NonceTooFarAhead { expected: u64, got: u64, limit: u64 },
    /// The account cannot pay.
    #[error("the transaction needs {needed} TGRID, the account has {balance}")]
    InsufficientFunds { needed: Amount, balance: Amount },
    /// No further account fits.
    #[error("the ledger has {limit} accounts and takes no more")]
    TooManyAccounts { limit: usize },
    /// A new account would begin with too little.
    #[error("{to} has no account yet, and {got} TGRID are fewer than the {floor} that open one")]
    TooLittleForNewAccount {
        to: Address,
        got: Amount,
        floor: Amount,
    },
    /// The model is registered.
    #[error("model {model} is already registered")]
    ModelExists { model: ModelId },
    /// No further model fits.
    #[error("the ledger has {limit} models and takes no more")]
    TooManyModels { limit: usize },
    /// The account has as many models as it may.
    #[error("the account has {limit} models and may have no more")]
    TooManyModelsOfAccount { limit: u32 },
    /// The model is not registered.
    #[error("model {model} is not registered")]
    UnknownModel { model: ModelId },
    /// Jobs may not name the model.
    #[error("model {model} is {state}, not Active")]
    ModelNotActive { model: ModelId, state: &'static str },
    /// Runs of the model cannot be proved.
    #[error("model {model} cannot be proved, so mode zk is not possible")]
    ModelNotProvable { model: ModelId },
    /// The network refuses jobs that nobody checks.
    #[error("this network refuses jobs of mode none")]
    UnverifiedJobsRefused,
    /// The input has not the model's length.
    #[error("the input has {got} bytes, the model takes {expected}")]
    WrongInputLength { expected: u32, got: u32 },
    /// The maximum price is below what the network allows.
    #[error("the maximum price {max_price} TGRID is below the network's minimum of {floor}")]
    PriceTooLow { max_price: Amount, floor: Amount },
    /// The deadline passed.
    #[error("the deadline {deadline} ms is not after the ledger's time {now} ms")]
    DeadlineInThePast {
        deadline: TimestampMs,
        now: TimestampMs,
    },
    /// The deadline lies too far ahead.
    #[error("the deadline {deadline} ms is later than {latest} ms, the last allowed now")]
    DeadlineTooFar {
        deadline: TimestampMs,
        latest: TimestampMs,
    },
    /// The order allows no attempt, or too many.
    #[error("the order allows {got} attempts; 1 to {limit} are possible")]
    BadAttempts { got: u8, limit: u8 },
    /// No further open job fits.
    #[error("the ledger has {limit} open jobs and takes no more now")]
    TooManyOpenJobs { limit: usize },
    /// The account has as many open jobs as it may.
    #[error("the account has {limit} open jobs and may have no more now")]
    TooManyOpenJobsOfAccount { limit: u32 },
    /// The job does not exist.
    #[error("job {job} does not exist")]
    UnknownJob { job: JobId },
    /// Somebody else ordered the job.
    #[error("job {job} was ordered by {requestor}")]
    NotRequestor { job: JobId, requestor: Address },
    /// A job that does not wait cannot be taken back.
    #[error("job {job} is {state}; only a Queued job can be cancelled")]
    JobNotCancellable { job: JobId, state: JobState },
    /// The offer has no slot, or too many.
    #[error("the offer has {got} slots; 1 to {limit} are possible")]
    BadSlots { got: u16, limit: u16 },
    /// The offer serves no verification mode.
    #[error("the offer serves no verification mode")]
    NoModes,
    /// The offer declares no speed.
    #[error("the offer declares a speed of zero")]
    NoSpeed,
    /// The collateral is below what the network demands.
    #[error("the collateral {got} TGRID is below the network's minimum of {floor}")]
    CollateralTooLow { got: Amount, floor: Amount },
    /// No further offer fits.
    #[error("the ledger has {limit} offers and takes no more")]
    TooManyOffers { limit: usize },
    /// The account has as many offers as it may.
    #[error("the account has {limit} offers and may have no more")]
    TooManyOffersOfAccount { limit: u32 },
    /// The offer does not exist.
    #[error("offer {offer} does not exist")]
    UnknownOffer { offer: OfferId },
    /// The offer is somebody else's.
    #[error("offer {offer} belongs to {provider}")]
    NotOfferOwner { offer: OfferId, provider: Address },
    /// The lease does not exist.
    #[error("lease {lease} does not exist")]
    UnknownLease { lease: LeaseId },
    /// The lease is somebody else's.
    #[error("lease {lease} is held by {provider}")]
    NotLeaseHolder { lease: LeaseId, provider: Address },
    /// The lease ended.
    #[error("lease {lease} ended: {end}")]
    LeaseEnded { lease: LeaseId, end: &'static str },
    /// The job stands elsewhere.
    #[error("the job of lease {lease} is {state}; {needed} is needed")]
    WrongJobState {
        lease: LeaseId,
        state: JobState,
        needed: JobState,
    },
    /// The receipt names another program.
    #[error("the receipt names program {got}, the model's is {expected}")]
    WrongProgram { expected: ProgramId, got: ProgramId },
    /// The receipt names another model.
    #[error("the receipt names model {got}, the job's is {expected}")]
    WrongModel { expected: ModelId, got: ModelId },
    /// The receipt names another input.
    #[error("the receipt names input {got}, the job's is {expected}")]
    WrongInput { expected: Digest, got: Digest },
    /// The evidence has no bytes.
    #[error("the evidence has no bytes")]
    EvidenceEmpty,
    /// The evidence has too many bytes.
    #[error("the evidence has {size} bytes, at most {limit} are allowed")]
    EvidenceTooLarge { size: u32, limit: u32 },
}

impl TransactionError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Signature(_) => "TG-LED-001",
            Self::NonceUsed { .. } => "TG-LED-002",
            Self::NonceGap { .. } => "TG-LED-003",
            Self::NonceTooFarAhead { .. } => "TG-LED-004",
            Self::InsufficientFunds { .. } => "TG-LED-005",
            Self::TooManyAccounts { .. } => "TG-LED-006",
            Self::TooLittleForNewAccount { .. } => "TG-LED-007",
            Self::ModelExists { .. } => "TG-LED-010",
            Self::TooManyModels { .. } => "TG-LED-011",
            Self::TooManyModelsOfAccount { .. } => "TG-LED-012",
            Self::UnknownModel { .. } => "TG-LED-020",
            Self::ModelNotActive { .. } => "TG-LED-021",
            Self::ModelNotProvable { .. } => "TG-LED-022",
            Self::UnverifiedJobsRefused => "TG-LED-023",
            Self::WrongInputLength { .. } => "TG-LED-024",
            Self::PriceTooLow { .. } => "TG-LED-025",
            Self::DeadlineInThePast { .. } => "TG-LED-026",
            Self::DeadlineTooFar { .. } => "TG-LED-027",
            Self::BadAttempts { .. } => "TG-LED-028",
            Self::TooManyOpenJobs { .. } => "TG-LED-029",
            Self::TooManyOpenJobsOfAccount { .. } => "TG-LED-030",
            Self::UnknownJob { .. } => "TG-LED-031",
            Self::NotRequestor { .. } => "TG-LED-032",
            Self::JobNotCancellable { .. } => "TG-LED-033",
            Self::BadSlots { .. } => "TG-LED-040",
            Self::NoModes => "TG-LED-041",
            Self::NoSpeed => "TG-LED-042",
            Self::CollateralTooLow { .. } => "TG-LED-043",
            Self::TooManyOffers { .. } => "TG-LED-044",
            Self::TooManyOffersOfAccount { .. } => "TG-LED-045",
            Self::UnknownOffer { .. } => "TG-LED-046",
            Self::NotOfferOwner { .. } => "TG-LED-047",
            Self::UnknownLease { .. } => "TG-LED-050",
            Self::NotLeaseHolder { .. } => "TG-LED-051",
            Self::LeaseEnded { .. } => "TG-LED-052",
            Self::WrongJobState { .. } => "TG-LED-053",
            Self::WrongProgram { .. } => "TG-LED-054",
            Self::WrongModel { .. } => "TG-LED-055",
            Self::WrongInput { .. } => "TG-LED-056",
            Self::EvidenceEmpty => "TG-LED-057",
            Self::EvidenceTooLarge { .. } => "TG-LED-058",
        }
    }

    /// Whose fault it is: whoever signed it, unless nobody did.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Signature(_) => Fault::Peer,
            _ => Fault::Client,
        }
    }

    /// Whether the same bytes may hold later, so that a mempool may keep them.
    #[must_use]
    pub const fn may_hold_later(&self) -> bool {
        matches!(self, Self::NonceGap { .. })
    }
}
