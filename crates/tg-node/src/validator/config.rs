//! How validators in one process are started, and where their data live.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blob::DISK_RESERVE_BYTES_DEFAULT;
use crate::clock::WallClock;
use crate::engine::Timers;
use crate::evidence::EvidenceChecker;
use crate::key::ValidatorKey;
use crate::limits::BLOB_TOTAL_BYTES_DEFAULT;
use crate::store::OpenError;
use tg_ledger::Genesis;

/// The folder of the journals within a validator's.
pub(super) const CONSENSUS: &str = "consensus";

/// How a network of validators in one process is started.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// The network.
    pub genesis: Genesis,
    /// The keys of the validators to run here; each must be one of genesis.
    pub keys: Vec<ValidatorKey>,
    /// Where all data live. Created if missing.
    pub directory: PathBuf,
    /// Decides on evidence; each validator calls it for itself.
    pub checker: Arc<dyn EvidenceChecker>,
    /// The timers of consensus.
    pub timers: Timers,
    /// Room for blobs of each validator in bytes.
    pub blob_bytes_max: u64,
    /// Bytes of the disk that blobs leave free, so that validators can write their votes.
    pub disk_reserve_bytes: u64,
    /// The wall clock of these validators.
    pub wall: WallClock,
    /// Begin a new consensus epoch at the highest final block of these validators: what operators order when too many of
    /// them have lost their votes ([`crate::voting`]). All validators of the network must be among `keys`.
    pub new_epoch: bool,
}

impl EmbeddedConfig {
    /// The usual timers and blob room.
    #[must_use]
    pub fn new(
        genesis: Genesis,
        keys: Vec<ValidatorKey>,
        directory: PathBuf,
        checker: Arc<dyn EvidenceChecker>,
    ) -> Self {
        Self {
            genesis,
            keys,
            directory,
            checker,
            timers: Timers::default(),
            blob_bytes_max: BLOB_TOTAL_BYTES_DEFAULT,
            disk_reserve_bytes: DISK_RESERVE_BYTES_DEFAULT,
            wall: WallClock::system(),
            new_epoch: false,
        }
    }
}

pub(super) fn create_folder(path: &Path) -> Result<(), OpenError> {
    fs::create_dir_all(path).map_err(|source| OpenError::Io {
        action: "create",
        path: path.display().to_string(),
        source,
    })
}
