//! What the grid is and where it stands.

use serde::{Deserialize, Serialize};
use tg_types::{Address, Amount, BlockId, Digest, StateRoot};

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
    /// Waiting until validators hold their inputs.
    pub submitted: u64,
    /// Waiting for an offer.
    pub queued: u64,
    /// With a lease: leased, running, committed, verifying, disputed or delivering.
    pub active: u64,
    /// Over, whatever the end.
    pub ended: u64,
}
