//! Jobs, their leases and receipts, and sealed bids.

use serde::{Deserialize, Serialize};
use tg_types::{
    Address, Amount, BidId, Digest, JobId, KeyGrant, LeaseId, ModelId, OfferId, ProgramId,
    SealingPublicKey,
};

use super::market::JobNeedsDto;
use super::models::ModeDto;
use super::stage::{JobStateDto, LeaseEndDto};
use crate::text;

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
    /// For how long validators keep its answer once it is paid; 0 if they need not.
    #[serde(default)]
    pub retention_ms: u64,
    /// What is locked for that beside the escrow: burned when the job is paid, else it comes back.
    #[serde(with = "text", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub retention_fee: Amount,
    /// What is locked for it now.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow: Amount,
    /// What was paid so far to the providers of an endpoint.
    #[serde(with = "text", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub served: Amount,
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
    /// Who keeps its answer, while validators have to.
    #[serde(default)]
    pub kept: Option<KeptAnswerDto>,
}

/// The answer of a paid job, which validators keep for the time that its order paid for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeptAnswerDto {
    /// Its content hash.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub answer: Digest,
    /// Until when.
    pub until_ms: u64,
    /// The validators that state that they hold it.
    #[serde(with = "text::list")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub seats: Vec<Address>,
    /// How many validators there are.
    pub validators: u64,
    /// Validators that are asked for it, and what the others say.
    pub asked: Vec<AskedSeatDto>,
}

/// The question whether a validator has an answer that it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AskedSeatDto {
    /// Who is asked.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub seat: Address,
    /// Who asks.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub asker: Address,
    /// What was burned for asking; it comes back if the validator does not have it.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub fee: Amount,
    /// How many others got it.
    pub got: u64,
    /// How many did not.
    pub missing: u64,
    /// From when on they may say that they did not.
    pub missing_from_ms: u64,
    /// When the question ends.
    pub until_ms: u64,
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
    /// Whether it sealed its result, of mode replicate.
    #[serde(default)]
    pub sealed: bool,
    /// Where the members of a job of mode replicate stand, once all have sealed their results.
    #[serde(default)]
    pub replicas: Option<ReplicasDto>,
    /// What the provider has committed to.
    pub receipt: Option<ReceiptDto>,
    /// The evidence blob, once it is submitted.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub evidence: Option<Digest>,
    /// How its result is checked by a committee; absent for other modes and before there is a result.
    #[serde(default)]
    pub check: Option<CheckDto>,
    /// Whether, of mode sync, its committee runs all of it again instead of drawn parts, as the run is short: then its receipt has a
    /// commitment to the run in the place of the trace, and nothing is handed in after it.
    #[serde(default)]
    pub run_whole: bool,
    /// What it counts; absent but for endpoints.
    #[serde(default)]
    pub meter: Option<MeterDto>,
    /// Where the key of its job is, while it lives; absent but for jobs of mode sealed.
    #[serde(default)]
    pub sealing: Option<SealingDto>,
    /// How it ended.
    pub end: Option<LeaseEndDto>,
    /// How it ended, as a sentence.
    pub end_text: Option<String>,
    /// The check that failed, if its result was rejected.
    pub rejection: Option<RejectionDto>,
}

/// Where the members of a job of mode replicate stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ReplicasDto {
    /// They open what they sealed.
    Opening,
    /// All found the same; validators fetch the answer.
    Agreed,
    /// They found different things; every validator runs the program.
    Differ,
}

/// Where the key of a sealed job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Sealing))]
pub struct SealingDto {
    /// To which key of the provider it is granted, in hexadecimal.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: SealingPublicKey,
    /// Where it is.
    pub stage: SealingStageDto,
    /// What was granted, in hexadecimal.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub grant: Option<KeyGrant>,
    /// Whether its requestor may show the key now, so that validators look: at the grant, or at the result.
    #[serde(default)]
    pub may_reveal: bool,
    /// Until when: of a grant that is awaited, or of a key that may be shown.
    #[serde(default)]
    pub until_ms: Option<u64>,
}

/// Where the key of a sealed job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = SealingStage))]
pub enum SealingStageDto {
    /// The requestor has it, and has to grant it.
    AwaitsKey,
    /// The provider has it too.
    Granted,
    /// The provider says that it does not open the input.
    Questioned,
    /// Its requestor showed it to everybody, and validators look.
    Revealed,
}

/// What the lease of an endpoint counts. Its price is that of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MeterDto {
    /// What a minute costs, whatever is asked in it.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub minute: Amount,
    /// What the last voucher that was claimed says, of all answers so far.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub vouchers: Amount,
    /// How many answers that voucher counts.
    pub answered: u64,
    /// What was paid to the provider so far, for time and answers.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub paid: Amount,
    /// When it began to serve; absent before.
    pub started_ms: Option<u64>,
    /// When the requestor took the job back; time after it is not paid.
    pub ends_ms: Option<u64>,
}

/// How a committee checks a result of mode sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckDto {
    /// The block whose seed draws the parts.
    pub height: u64,
    /// The seed, once it is signed.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub seed: Option<Digest>,
    /// Where the check stands, in words.
    pub stage: String,
    /// Committees that were drawn, the present one included.
    pub committees: u16,
    /// Members of the present one.
    pub members: u16,
    /// Validators that there are now: of so many members are drawn.
    #[serde(default)]
    pub seats: u16,
    /// Members that sealed a vote that is not open.
    pub sealed: u16,
    /// Members that found the result right.
    pub right: u16,
    /// The dispute about it, if one goes on that ends at one tile.
    #[serde(default)]
    pub dispute: Option<DisputeDto>,
}

/// A dispute about a result that ends at one tile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Dispute))]
pub struct DisputeDto {
    /// Who says that the result is wrong.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub accuser: Address,
    /// Whose turn it is.
    pub turn: DisputeTurnDto,
    /// Whether whoever's turn it is has to hand in a file; else validators fetch it.
    pub waits_for_file: bool,
    /// Until when, in ledger time; without effect while validators decide.
    pub until_ms: u64,
    /// What the accuser says that a right run gives.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub claim: Option<Digest>,
    /// Where that is wrong, as the provider says.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub answer: Option<Digest>,
    /// How many challenged meanwhile and wait for a dispute of their own.
    pub waiting: u16,
}

/// Whose turn it is in a dispute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DisputeTurn))]
#[serde(rename_all = "snake_case")]
pub enum DisputeTurnDto {
    /// Of whoever accused.
    Accuser,
    /// Of the provider.
    Provider,
    /// Of the validators.
    Validators,
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
    /// The evidence blob; absent for mode none, and for mode replicate where members differed.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub evidence: Option<Digest>,
}
