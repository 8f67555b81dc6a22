//! What a record pays to stay.

use serde::{Deserialize, Serialize};
use tg_types::{Address, Amount, Digest};

use crate::text;

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
