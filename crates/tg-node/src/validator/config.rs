//! Configuration of validators, and the layout of their data folders.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blob::DISK_RESERVE_BYTES_DEFAULT;
use crate::clock::WallClock;
use crate::evidence::EvidenceChecker;
use crate::key::ValidatorKey;
use crate::limits::BLOB_TOTAL_BYTES_DEFAULT;
use crate::limits::Timers;
use crate::store::OpenError;
use tg_ledger::{Genesis, PROTOCOL_VERSION};

use super::seat::Seat;

/// The folder of the journals within a validator's.
pub(super) const CONSENSUS: &str = "consensus";

/// The database within a validator's folder.
pub(super) const DATABASE: &str = "chain.redb";

/// How one validator is started.
#[derive(Debug, Clone)]
pub struct ValidatorConfig {
    /// The network.
    pub genesis: Genesis,
    /// The validator's key; it must be one of genesis.
    pub key: ValidatorKey,
    /// Where its data live. Created if missing.
    pub directory: PathBuf,
    /// Where it listens for the other validators.
    pub listen: SocketAddr,
    /// Where the other validators of genesis are reached, each of them once; its own seat may be among them.
    pub seats: Vec<Seat>,
    /// Decides on evidence.
    pub checker: Arc<dyn EvidenceChecker>,
    /// The timers of consensus.
    pub timers: Timers,
    /// Room for blobs in bytes.
    pub blob_bytes_max: u64,
    /// Bytes of the disk that blobs leave free, so that the validator can write its votes.
    pub disk_reserve_bytes: u64,
    /// The wall clock.
    pub wall: WallClock,
    /// The newest version of the protocol that it executes: tests of upgrades have another.
    pub speaks: u16,
}

impl ValidatorConfig {
    /// The usual timers, blob room and clock.
    #[must_use]
    pub fn new(
        genesis: Genesis,
        key: ValidatorKey,
        directory: PathBuf,
        (listen, seats): (SocketAddr, Vec<Seat>),
        checker: Arc<dyn EvidenceChecker>,
    ) -> Self {
        Self {
            genesis,
            key,
            directory,
            listen,
            seats,
            checker,
            timers: Timers::default(),
            blob_bytes_max: BLOB_TOTAL_BYTES_DEFAULT,
            disk_reserve_bytes: DISK_RESERVE_BYTES_DEFAULT,
            wall: WallClock::system(),
            speaks: PROTOCOL_VERSION,
        }
    }

    /// How many validators of the network may fail.
    pub(super) fn faults(&self) -> usize {
        (self.genesis.validators.len().max(1) - 1) / 3
    }
}

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
    /// The newest version of the protocol that they execute.
    pub speaks: u16,
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
            speaks: PROTOCOL_VERSION,
            new_epoch: false,
        }
    }
}

impl EmbeddedConfig {
    /// The folder of the validator whose key has this index.
    fn folder(&self, index: usize) -> PathBuf {
        self.directory.join(format!("validator-{index}"))
    }

    /// How each of the validators is started, at these addresses in the order of the keys.
    pub(super) fn validators(&self, addresses: &[SocketAddr]) -> Vec<ValidatorConfig> {
        let publics = self.keys.iter().map(ValidatorKey::public);
        let seats: Vec<Seat> = publics
            .zip(addresses)
            .map(|(public, address)| Seat {
                public,
                address: (*address).into(),
            })
            .collect();
        let one = |(index, (key, listen)): (usize, (&ValidatorKey, &SocketAddr))| ValidatorConfig {
            genesis: self.genesis.clone(),
            key: key.clone(),
            directory: self.folder(index),
            listen: *listen,
            seats: seats.clone(),
            checker: self.checker.clone(),
            timers: self.timers,
            blob_bytes_max: self.blob_bytes_max,
            disk_reserve_bytes: self.disk_reserve_bytes,
            wall: self.wall.clone(),
            speaks: self.speaks,
        };
        let all = self.keys.iter().zip(addresses);
        all.enumerate().map(one).collect()
    }
}

/// Makes a folder that only this user can look into; one that is there is closed to others. Stops: shares of the seed's key, which stand in the database,
/// read by every user of the machine.
fn create_folder(path: &Path) -> Result<(), OpenError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(path);
    #[cfg(unix)]
    let made = made.and_then(|()| {
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(path, closed)
    });
    made.map_err(|source| OpenError::Io {
        action: "create",
        path: path.display().to_string(),
        source,
    })
}

/// Makes a folder if it is missing and takes it for this process; the operating system gives it back when the process ends, however it ends.
pub(crate) fn lock_folder(directory: &Path) -> Result<File, OpenError> {
    create_folder(directory)?;
    let path = directory.join("lock");
    let failed = |source| OpenError::Io {
        action: "lock",
        path: path.display().to_string(),
        source,
    };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(OpenError::InUse {
            path: directory.display().to_string(),
        }),
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}
