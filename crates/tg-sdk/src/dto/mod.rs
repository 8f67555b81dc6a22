//! The wire types of the HTTP API. Ids, digests and amounts are text; times are milliseconds since 1970.

mod convert;
mod market;
mod page;
mod stage;

use serde::{Deserialize, Serialize};
use tg_types::{
    Address, Amount, BidId, BlockId, Digest, JobId, LeaseId, ModelId, OfferId, Pricing, ProgramId,
    StateRoot, TransactionId, VerificationMode,
};

pub use market::{JobNeedsDto, MachineDto};
#[cfg(feature = "client")]
pub(crate) use page::Paged;
pub use page::{
    JobPageDto, ModelPageDto, OfferPageDto, QuotePageDto, TransactionStateDto, TransactionStatusDto,
};
pub use stage::{JobStateDto, LeaseEndDto};

use crate::text;

/// What the grid is and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatusDto {
    /// Name of the network, such as `development`.
    pub network: String,
    /// Whether money here is play money: accounts have public keys, and a faucet is open.
    pub development: bool,
    /// What signatures are bound to.
    pub domain: DomainDto,
    /// Height of the last finalised block.
    pub height: u64,
    /// The last finalised block.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub block: BlockId,
    /// Root of the ledger's state after it.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub state_root: StateRoot,
    /// Time of that block.
    pub timestamp_ms: u64,
    /// Its ledger time, in milliseconds since the Unix epoch: what deadlines and every other window go by. It stands
    /// still while no blocks come, so it lags behind the clock by all pauses together.
    pub ledger_time_ms: u64,
    /// How many validators vote.
    pub validators: u32,
    /// What is burned for each unit of gas in the next block.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub base_fee_per_gas: Amount,
    /// Fees and rules of the network.
    pub parameters: ParametersDto,
    /// Where all money is.
    pub totals: TotalsDto,
    /// How many jobs wait, run and are over.
    pub jobs: JobCountsDto,
}

/// Fees and rules that the network's genesis fixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ParametersDto {
    /// The least that is burned for each unit of gas.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub base_fee_min: Amount,
    /// What is paid to the validators for checking a model's registration.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub registration_fee: Amount,
    /// What is paid to the validators for checking one proof.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub zk_verification_fee: Amount,
    /// The least maximum price of a job.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job_price_min: Amount,
    /// The least collateral per lease of an offer.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub collateral_min: Amount,
    /// Whether jobs without verification are taken.
    pub unverified_jobs: bool,
    /// How far ahead a job's deadline may lie.
    pub job_horizon_ms: u64,
    /// Length of a slot of the batch auction.
    pub auction_slot_ms: u64,
    /// The least deposit of a sealed bid.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub bid_deposit_min: Amount,
}

/// What kind of record pays rent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum RentKindDto {
    /// An offer.
    Offer,
    /// A provider's record: its history and reputation.
    Provider,
    /// A model.
    Model,
    /// A job, open or ended.
    Job,
}

impl RentKindDto {
    /// The word for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Offer => "offer",
            Self::Provider => "provider",
            Self::Model => "model",
            Self::Job => "job",
        }
    }
}

/// The rent of a record: what keeps it in the state, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RentDto {
    /// The record, as `PayRent` names it: an id, or a provider's address after twelve zero bytes.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub record: Digest,
    /// What it is.
    pub kind: RentKindDto,
    /// Who gets back what is left of the deposit when the record ends.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub payer: Address,
    /// What is left of the deposit.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub left: Amount,
    /// What a day costs at the price of now.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub per_day: Amount,
    /// For how long the deposit lasts at the price of now.
    pub lasts_ms: u64,
}

/// A sealed bid that was not opened yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BidDto {
    /// Its id.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: BidId,
    /// Who made it.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub bidder: Address,
    /// What comes back when it is opened in time, and is burned if it is not.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub deposit: Amount,
    /// The slot it was made in.
    pub slot: u64,
    /// It can be opened in blocks from this time on..
    pub opens_ms: u64,
    /// ..and before this time.
    pub closes_ms: u64,
}

/// What a signature is bound to, so that it is worth nothing on another network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainDto {
    /// Chain id of the settlement chain.
    pub chain_id: u64,
    /// Address of the rollup contract.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub rollup: Address,
    /// Salt of the genesis.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub salt: Digest,
}

/// Where all money is. Minted is the sum of the others, in every block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TotalsDto {
    /// Everything ever made.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub minted: Amount,
    /// In accounts.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub balances: Amount,
    /// Locked for jobs and sealed bids.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow: Amount,
    /// Locked as stake of validators.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub stake: Amount,
    /// Locked as collateral of leases.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub collateral: Amount,
    /// Destroyed by fees and slashing.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub burned: Amount,
}

/// How many jobs there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobCountsDto {
    /// Waiting for an offer.
    pub queued: u64,
    /// Leased, running, committed or being verified.
    pub active: u64,
    /// Over, whatever the end.
    pub ended: u64,
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccountDto {
    /// Whose it is.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub address: Address,
    /// What it can spend.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub balance: Amount,
    /// What is locked for its jobs.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow: Amount,
    /// What is locked as collateral of its leases.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub collateral: Amount,
    /// The nonce its next transaction needs.
    pub nonce: u64,
}

/// A funded account of a development network. Its key follows from its name; everybody can sign for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DevelopmentAccountDto {
    /// Name the key is derived from.
    pub name: String,
    /// Its address.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub address: Address,
    /// What it can spend.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub balance: Amount,
}

/// A blob that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BlobDto {
    /// BLAKE3 of its bytes.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// How a job's result is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ModeDto {
    /// By nobody.
    None,
    /// By a proof that every validator checks.
    Zk,
}

impl From<VerificationMode> for ModeDto {
    fn from(mode: VerificationMode) -> Self {
        match mode {
            VerificationMode::None => Self::None,
            VerificationMode::Zk => Self::Zk,
        }
    }
}

impl From<ModeDto> for VerificationMode {
    fn from(mode: ModeDto) -> Self {
        match mode {
            ModeDto::None => Self::None,
            ModeDto::Zk => Self::Zk,
        }
    }
}

impl std::fmt::Display for ModeDto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(VerificationMode::from(*self).as_str())
    }
}

/// Where a model stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ModelStateDto {
    /// Validators check its registration.
    Pending,
    /// It takes jobs.
    Active,
    /// Its registration did not verify.
    Refused,
}

impl std::fmt::Display for ModelStateDto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Refused => "refused",
        })
    }
}

/// A registered model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelDto {
    /// Its id: program and weight commitment.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ModelId,
    /// The name its registrant gave it; not unique.
    pub name: String,
    /// Who registered it.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub owner: Address,
    /// Where it stands.
    pub state: ModelStateDto,
    /// The public part (`.tgv`): what a verifier needs.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_blob: Digest,
    /// Program and weights (`.tgm`): what a provider needs.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub weights_blob: Digest,
    /// Time of its registration.
    pub registered_ms: u64,
    /// What validators found, once it is active.
    pub facts: Option<ModelFactsDto>,
    /// Why it was refused, if it was.
    pub refusal: Option<String>,
}

/// What validators found in a model's public part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelFactsDto {
    /// The public program.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub program: ProgramId,
    /// Multiply-accumulates of one inference.
    pub macs: u64,
    /// Bytes of one input.
    pub input_len: u32,
    /// Bytes of one output.
    pub output_len: u32,
    /// Whether mode zk is possible.
    pub provable: bool,
}

/// What a provider offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfferTermsDto {
    /// What the provider says about its hardware; nobody has checked it.
    pub hardware: String,
    /// Price of a job before its size counts.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price_base: Amount,
    /// Price of a million multiply-accumulates.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price_per_mmac: Amount,
    /// Latency of a job before its size counts.
    pub latency_base_ms: u64,
    /// Declared speed, proving included.
    pub speed_mmac_per_s: u64,
    /// Declared memory.
    pub memory_bytes: u64,
    /// How many leases at once.
    pub slots: u16,
    /// What is locked, and lost by lying or being late, per lease.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub collateral_per_lease: Amount,
    /// The verification modes it takes.
    pub modes: Vec<ModeDto>,
    /// The machine.
    #[serde(default)]
    pub machine: MachineDto,
    /// Price of a second of one whole GPU, for the GPU time that a job states.
    #[serde(with = "text", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price_per_gpu_second: Amount,
    /// Whether that price may rise with demand: fixed or dynamic.
    #[serde(with = "text", default = "market::fixed")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub pricing: Pricing,
}

/// An open offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfferDto {
    /// Its id.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: OfferId,
    /// Whose it is.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: Address,
    /// Its terms.
    pub terms: OfferTermsDto,
    /// Leases that run on it now.
    pub leases: u16,
    /// The provider's history.
    pub reputation: ReputationDto,
}

/// What a provider has done, as the ledger counted it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReputationDto {
    /// Leases that ended with an accepted result.
    pub accepted: u32,
    /// Leases that ended with a rejected result.
    pub rejected: u32,
    /// Leases that ran past their time.
    pub late: u32,
    /// Leases that were never started, or whose evidence was not delivered.
    pub abandoned: u32,
    /// What it earned with accepted results.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub earned: Amount,
    /// Collateral it lost.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub lost: Amount,
    /// Until when it gets no leases.
    pub suspended_until_ms: u64,
}

/// A provider: an account with a history or an open offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderDto {
    /// Whose it is.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub address: Address,
    /// What it can spend, and lock as collateral.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub balance: Amount,
    /// Its history.
    pub reputation: ReputationDto,
    /// Its open offers.
    pub offers: Vec<OfferDto>,
}

/// An offer seen from one possible job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuoteDto {
    /// The offer.
    pub offer: OfferDto,
    /// What it would ask for the job.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub price: Option<Amount>,
    /// What is paid to the validators on top.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_fee: Amount,
    /// How long it declares to need.
    pub eta_ms: u64,
    /// What it lacks for the job; empty if it fits.
    pub lacks: Vec<String>,
    /// Whether the scheduler would choose it now.
    pub chosen: bool,
    /// The maximum price that it was seen from: the one that was asked for, or that of an order that names none.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub max_price: Amount,
    /// Whether it fits, or could without a change of the order or the offer: when a slot is free, or its provider is
    /// back.
    pub serves: bool,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobDto {
    /// Its id.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: JobId,
    /// Who ordered and pays it.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub requestor: Address,
    /// The model.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub model: ModelId,
    /// Digest of the quantised input.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub input: Digest,
    /// Bytes of the input.
    pub input_len: u32,
    /// What it needs of a machine, and how it is matched.
    pub needs: JobNeedsDto,
    /// How the result is checked.
    pub mode: ModeDto,
    /// Where it stands.
    pub state: JobStateDto,
    /// Most the requestor pays the provider.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub max_price: Amount,
    /// When it must be finished.
    pub deadline_ms: u64,
    /// How many jobs were ordered before it.
    pub sequence: u64,
    /// Multiply-accumulates it needs.
    pub macs: u64,
    /// Most leases.
    pub max_attempts: u8,
    /// What is locked for it now.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow: Amount,
    /// What the validators get for an accepted result.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_fee: Amount,
    /// Every state it entered.
    pub history: Vec<JobStepDto>,
    /// Its leases, oldest first; those of the members of a gang follow the one that leads it.
    pub leases: Vec<LeaseDto>,
    /// Why it ended, if it did.
    pub reason: Option<String>,
    /// Where its money went, if it ended.
    pub settlement: Option<SettlementDto>,
}

/// A state that a job entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobStepDto {
    /// The state.
    pub state: JobStateDto,
    /// In which block.
    pub height: u64,
    /// At which block time.
    pub at_ms: u64,
}

/// Where the money of an ended job went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettlementDto {
    /// To the provider for its result.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price: Amount,
    /// Paid to the providers of the other members of a gang.
    #[serde(with = "text", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub members: Amount,
    /// To the validators.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_fee: Amount,
    /// Back to the requestor.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub refund: Amount,
    /// Destroyed.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub burned: Amount,
    /// To the provider for its reputation, out of the verification fee.
    #[serde(with = "text", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub bonus: Amount,
    /// To the providers of leases that made room for the job.
    #[serde(with = "text", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub compensation: Amount,
}

/// A match of a job with an offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseDto {
    /// Its id.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: LeaseId,
    /// The job.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job: JobId,
    /// The offer.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub offer: OfferId,
    /// Whose offer it is.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: Address,
    /// What the provider gets.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price: Amount,
    /// What it loses by lying or being late.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub collateral: Amount,
    /// Where the job stands under this lease, or stood when the lease ended.
    pub state: JobStateDto,
    /// When the match was made.
    pub matched_ms: u64,
    /// When it begins; later than the match for a reservation.
    #[serde(default)]
    pub begins_ms: u64,
    /// GPUs it holds (parts of), by index on the machine.
    #[serde(default)]
    pub devices: Vec<u8>,
    /// Share of each in thousandths.
    #[serde(default)]
    pub gpu_milli: u16,
    /// The lease that leads its gang and hands in the result, if it follows one.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub lead: Option<LeaseId>,
    /// Other members of its gang.
    #[serde(default)]
    pub members: u16,
    /// Whether its provider started it.
    #[serde(default)]
    pub started: bool,
    /// When it must be started.
    pub start_by_ms: u64,
    /// When it must be finished.
    pub finish_by_ms: u64,
    /// What the provider has committed to.
    pub receipt: Option<ReceiptDto>,
    /// The evidence blob, once it is submitted.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub evidence: Option<Digest>,
    /// How it ended.
    pub end: Option<LeaseEndDto>,
    /// How it ended, as a sentence.
    pub end_text: Option<String>,
    /// The check that failed, if its result was rejected.
    pub rejection: Option<RejectionDto>,
}

/// Which check rejected a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RejectionDto {
    /// Stable code of the check.
    pub code: u16,
    /// Its name.
    pub check: String,
}

/// What a provider commits to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReceiptDto {
    /// The program that was executed.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub program: ProgramId,
    /// The model.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub model: ModelId,
    /// Digest of the input.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub input: Digest,
    /// Digest of the output.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub output: Digest,
    /// Root of the execution trace.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub trace: Digest,
    /// Execution semantics, such as `TGX-1`.
    pub tier: String,
}

/// What a member of a gang was paid, beside the one that led it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MemberPayDto {
    /// Its lease.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub lease: LeaseId,
    /// Whose lease.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: Address,
    /// What it was paid; nothing if it had no part in the result.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price: Amount,
}

/// What a requestor keeps: the result, who made it, what was paid, and what stands behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobReceiptDto {
    /// The job.
    pub job: JobDto,
    /// The lease that was fulfilled.
    pub lease: LeaseDto,
    /// What the provider committed to.
    pub receipt: ReceiptDto,
    /// Where the money went.
    pub settlement: SettlementDto,
    /// The other members of a gang with what each was paid; together what the settlement says of them.
    #[serde(default)]
    pub members: Vec<MemberPayDto>,
    /// The evidence blob; absent for mode none.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub evidence: Option<Digest>,
}

/// Why a job is where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobWhyDto {
    /// The job.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job: JobId,
    /// Where it stands.
    pub state: JobStateDto,
    /// One sentence for people.
    pub summary: String,
    /// How many queued jobs are before it, if it waits.
    pub queue_position: Option<u64>,
    /// What each constraint says about the open offers.
    pub constraints: Vec<ConstraintDto>,
    /// What each offer says.
    pub offers: Vec<OfferWhyDto>,
    /// What could be relaxed.
    pub hint: String,
    /// Single changes of the order that would place it now.
    #[serde(default)]
    pub relaxations: Vec<String>,
    /// The least priority at which it would be next.
    #[serde(default)]
    pub priority_to_be_next: Option<u8>,
    /// What it would pay with that priority.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub price_to_be_next: Option<Amount>,
    /// When a machine may be free at the earliest: if every lease takes its declared time.
    #[serde(default)]
    pub eta_earliest_ms: Option<u64>,
    /// When at the latest, if nobody goes before it.
    #[serde(default)]
    pub eta_latest_ms: Option<u64>,
}

/// What an order would come to if it were in the next block, alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DryRunDto {
    /// The job as it would stand.
    pub job: JobDto,
    /// Why it would stand there: if it would wait, what turns it away and what would let it run.
    pub why: JobWhyDto,
    /// What would be charged for an accepted result with the leases it would get: prices, the verification fee, and what
    /// it owes to those who make room. Absent if it would get none.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub charge: Option<Amount>,
    /// What is locked, and never exceeded by what is charged.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub charge_max: Amount,
}

/// How many offers one constraint turns away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConstraintDto {
    /// The constraint, in words.
    pub constraint: String,
    /// How many offers it turns away.
    pub rejected: u64,
}

/// Why one offer does or does not take a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfferWhyDto {
    /// The offer.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub offer: OfferId,
    /// Whose it is.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: Address,
    /// What it would ask.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub price: Option<Amount>,
    /// What it lacks; empty if it fits.
    pub lacks: Vec<String>,
}

/// A transaction was taken into the pool; a later block holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SubmittedDto {
    /// Its id. Submitting the same transaction again gives the same id and does nothing.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub transaction: TransactionId,
}

/// Something a finalised block did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventDto {
    /// Height of the block.
    pub height: u64,
    /// Time of the block.
    pub timestamp_ms: u64,
    /// What happened, such as `job_queued` or `lease_rejected`.
    pub kind: String,
    /// The job it concerns.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub job: Option<JobId>,
    /// The lease it concerns.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub lease: Option<LeaseId>,
    /// The model it concerns.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub model: Option<ModelId>,
    /// The account it concerns.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub account: Option<Address>,
    /// The money that moved.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub amount: Option<Amount>,
    /// One line for people.
    pub text: String,
}

/// A request to the faucet of a development network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FaucetRequestDto {
    /// Who gets the money.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub address: Address,
    /// How much.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub amount: Amount,
}

/// A request to run an inference with a funded development account, so that a client needs no signing library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DevelopmentInferDto {
    /// A model id, or a name.
    pub model: String,
    /// The input, one number per element, as the model was trained on.
    pub input: Vec<f32>,
    /// How the result is checked.
    #[serde(default = "default_mode")]
    pub mode: ModeDto,
    /// Most that is paid to the provider; the network's default if absent.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub max_price: Option<Amount>,
}

/// The mode when none is named: the only one that proves anything today.
const fn default_mode() -> ModeDto {
    ModeDto::Zk
}

/// An answer in real numbers, as the model's file gives them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AnswerDto {
    /// Name of the output in the model's file.
    pub name: String,
    /// Lengths of its axes.
    pub shape: Vec<u32>,
    /// Its elements in the order of the file, the last axis fastest.
    pub values: Vec<f64>,
    /// Name of the class that it chooses, if the model has names of classes.
    pub label: Option<String>,
}

/// The result of an inference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InferenceDto {
    /// The job.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job: JobId,
    /// The output: the integers that the program computes, one per element.
    pub output: Vec<i32>,
    /// The output in real numbers, if the model was made from a file.
    #[serde(default)]
    pub answer: Option<AnswerDto>,
    /// Index of the largest output; the lowest index of equals.
    pub top: u32,
    /// What stands behind it.
    pub receipt: JobReceiptDto,
}
