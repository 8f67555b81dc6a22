//! What became of a transaction.

use serde::{Deserialize, Serialize};
use tg_types::TransactionId;

use crate::text;

/// A transaction was taken into the pool; a later block holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SubmittedDto {
    /// Its id. Submitting the same transaction again gives the same id and does nothing.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub transaction: TransactionId,
}

/// Where a transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TransactionStateDto {
    /// It waits for a block.
    Pending,
    /// It is in a final block.
    Final,
    /// It left the pool without a block, and will be in none unless it is sent again.
    Dropped,
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransactionStatusDto {
    /// Its id.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub transaction: TransactionId,
    /// Where it stands.
    pub state: TransactionStateDto,
    /// Height of its block, if it is final.
    pub height: Option<u64>,
    /// Why it was dropped, if it was.
    pub reason: Option<String>,
}
