//! Validators, who waits for a seat among them, and whose bond is not returned yet.

use serde::{Deserialize, Serialize};
use tg_types::{Address, Amount, Digest};

use crate::text;

/// A bond and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BondDto {
    /// The account.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub account: Address,
    /// The consensus key.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: Digest,
    /// What is at stake.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub stake: Amount,
}

/// A validator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SeatDto {
    /// Who, with which key and stake.
    #[serde(flatten)]
    pub bond: BondDto,
    /// Where the other validators reach it, if this node knows.
    pub endpoint: Option<String>,
    /// Height of its newest block, or from which it sits.
    pub last_block: u64,
    /// Whether it gives the seat back.
    pub leaving: bool,
    /// Votes in committees that it missed in a row: from 4 on it has no share of fees, from 256 on it counts as silent.
    pub missed_votes: u16,
    /// Whether its program executes the next version of the protocol.
    #[serde(default)]
    pub ready: bool,
}

/// A version of the protocol that blocks will have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UpgradeDto {
    /// The version.
    pub version: u16,
    /// The first block that has it.
    pub from: u64,
}

/// A bond that is returned later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnbondingDto {
    /// Whose.
    #[serde(flatten)]
    pub bond: BondDto,
    /// When, in ledger time.
    pub until_ms: u64,
}

/// The seats of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SeatsDto {
    /// How many sets of validators there were before this one.
    pub term: u64,
    /// The last block that the set before voted on.
    pub since: u64,
    /// The next height after which the set may change.
    pub next_change: u64,
    /// What a seat is bonded with.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub bond: Amount,
    /// How long a bond answers for old votes after its seat ended.
    pub unbonding_ms: u64,
    /// Who votes, in the order of accounts.
    pub validators: Vec<SeatDto>,
    /// How many validators the network's waits are long enough for.
    #[serde(default)]
    pub validators_max: usize,
    /// The version of the protocol that the last block has.
    #[serde(default)]
    pub protocol: u16,
    /// The next version, once two thirds of the validators execute it.
    #[serde(default)]
    pub upgrade: Option<UpgradeDto>,
    /// Who waits, in the order of coming.
    pub applicants: Vec<BondDto>,
    /// Whose bond is not returned yet.
    pub unbonding: Vec<UnbondingDto>,
}
