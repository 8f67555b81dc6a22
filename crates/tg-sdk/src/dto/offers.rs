//! Offers, those who make them, and what they would ask.

use serde::{Deserialize, Serialize};
use tg_types::{Address, Amount, OfferId, Pricing, SealingPublicKey};

use super::market;
use super::market::MachineDto;
use super::models::ModeDto;
use crate::text;

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
    /// Whether the provider is silent, so that it gets no jobs until it is heard again.
    #[serde(default)]
    pub offline: bool,
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
    /// Leases that were never started, or whose evidence or answer was not delivered.
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
    /// By which keys of sealed jobs are granted to it, in hexadecimal; absent if it serves none.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub sealing_key: Option<SealingPublicKey>,
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

/// What a way of checking would come to for one usual job on a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModePriceDto {
    /// How the result is checked.
    pub mode: ModeDto,
    /// Why no job on the model may be checked so; absent if one may.
    #[serde(default)]
    pub refused: Option<String>,
    /// Whether, of mode sync, a committee runs all of it again instead of drawn parts, as a run is short.
    #[serde(default)]
    pub run_whole: bool,
    /// Offers that serve such a job, now or when a slot is free.
    pub offers: u64,
    /// What the cheapest of them would ask.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub price: Option<Amount>,
    /// What is paid to the validators on top.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_fee: Amount,
    /// How long the cheapest declares to need; absent if there is none.
    #[serde(default)]
    pub eta_ms: Option<u64>,
}
