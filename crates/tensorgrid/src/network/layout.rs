//! What a new network has, and where its files lie.

use std::net::SocketAddr;
use std::path::PathBuf;

use tg_ledger::Genesis;
use tg_node::{SeatAddress, ValidatorKey};
use tg_types::Wallet;

/// A validator that is made.
pub(crate) struct NewValidator {
    /// Its key of votes.
    pub(super) key: ValidatorKey,
    /// The same as bytes.
    pub(super) secret: [u8; 32],
    /// Its account.
    pub(super) account: Wallet,
    /// How the others reach it.
    pub(crate) address: SeatAddress,
    /// Where it listens for them.
    pub(super) listen: SocketAddr,
    /// Where its API listens.
    pub(crate) api: SocketAddr,
}

/// A network that was founded.
pub(crate) struct Founded {
    /// Its folder, from the root.
    pub(crate) folder: PathBuf,
    /// Its genesis.
    pub(crate) genesis: Genesis,
    /// Its validators, in the order of their folders.
    pub(crate) validators: Vec<NewValidator>,
    /// Where its gateways' APIs listen.
    pub(crate) gateways: Vec<SocketAddr>,
    /// The accounts of its providers.
    pub(crate) providers: Vec<Wallet>,
    /// The account that orders jobs.
    pub(crate) requestor: Wallet,
    /// The file that holds the passphrase of its keys.
    pub(crate) passphrase_file: Option<PathBuf>,
}

impl Founded {
    /// The folder of a validator, counted from 0.
    pub(crate) fn validator_folder(&self, index: usize) -> PathBuf {
        self.folder.join(format!("validator-{}", index + 1))
    }

    /// The folder of a gateway, counted from 0.
    pub(crate) fn gateway_folder(&self, index: usize) -> PathBuf {
        self.folder.join(format!("gateway-{}", index + 1))
    }

    /// The folder of a provider, counted from 0.
    pub(crate) fn provider_folder(&self, index: usize) -> PathBuf {
        self.folder.join(format!("provider-{}", index + 1))
    }

    /// The address of a validator's API as others name it.
    pub(crate) fn validator_url(&self, index: usize) -> String {
        let validator = &self.validators[index];
        if validator.api.ip().is_loopback() {
            return format!("http://{}", validator.api);
        }
        let address = validator.address.to_string();
        let host = address.rsplit_once(':').map_or("", |(host, _)| host);
        format!("http://{host}:{}", validator.api.port())
    }

    /// The address of the API that the client with this number asks: of a gateway, or of a validator if there is none.
    /// There are fewer of them than callers.
    pub(crate) fn api_url(&self, index: usize) -> String {
        match self.gateways.len() {
            0 => self.validator_url(index % self.validators.len()),
            count => format!("http://{}", self.gateways[index % count]),
        }
    }
}
