//! Accounts, and the play money of a development network.

use serde::{Deserialize, Serialize};
use tg_types::{Address, Amount, Digest, NonceLane};

use crate::text;

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
    /// Its session keys.
    #[serde(default)]
    pub sessions: Vec<SessionDto>,
}

impl AccountDto {
    /// The nonce of the next transaction in a lane of this account; zero for a session key that it does not have.
    #[must_use]
    pub fn next_nonce(&self, lane: &NonceLane) -> u64 {
        let Some(key) = lane.session().map(|key| Digest::new(*key)) else {
            return self.nonce;
        };
        let session = self.sessions.iter().find(|it| it.key == key);
        session.map_or(0, |it| it.nonce)
    }
}

/// A session key of an account: what it may sign, and what it has cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionDto {
    /// The public key (ed25519).
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: Digest,
    /// `serve` (what serves leases) or `order` (what orders jobs).
    pub scope: String,
    /// What it may cost in all.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cap: Amount,
    /// What it has cost: fees, what its orders locked, deposits, and what was lost of collateral.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub spent: Amount,
    /// Collateral of the leases that it serves now.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at_risk: Amount,
    /// The last ledger time at which it signs.
    pub expires_ms: u64,
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

/// A request to open an endpoint with the requestor account of a development network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DevelopmentEndpointDto {
    /// A model id, or a name.
    pub model: String,
    /// What is locked for it.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub money: Amount,
    /// How long it lasts at most, in minutes.
    #[serde(default = "an_hour")]
    pub minutes: u32,
}

const fn an_hour() -> u32 {
    60
}

/// A request to lock more money for an endpoint of a development network's account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DevelopmentTopUpDto {
    /// How much more.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub money: Amount,
}
