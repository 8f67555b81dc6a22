//! Why a job is where it is, and what an order would come to.

use serde::{Deserialize, Serialize};
use tg_types::{Address, Amount, JobId, OfferId};

use super::jobs::JobDto;
use super::stage::JobStateDto;
use crate::text;

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
