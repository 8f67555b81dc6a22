//! What one validator keeps on disk (redb): finalised blocks, their certificates, the bodies it voted for, and
//! state snapshots. Every call is one durable transaction: when it returns, a power cut changes nothing of it.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | format version, network, validator, last finalised height, consensus epoch and the block it began at, what is kept of the seed's key (secret), height up to which the validator abstains, height at which its journal of votes began, bytes of certificates in `skipped` |
//! | `blocks` | height | encoded finalised block |
//! | `heights` | block id | height |
//! | `certificates` | height | encoded finalisation certificate |
//! | `bodies` | block id | height and encoding of a block that is not final (yet) |
//! | `snapshots` | height | encoded state after that block; only the newest is kept |
//! | `changes` | height | changes of the set of validators before the first block that is here, with what shows them |
//! | `terms` | consensus epoch that ended | height of its last block, and the validators of the next one |
//! | `skipped` | consensus epoch and view | ledger time at which it was kept, and encoded nullification certificate |
//!
//! The file is locked by redb while it is open, so a second process is refused.

mod disk;
pub(crate) mod skipped;

use std::path::Path;

pub use disk::MemoryDisk;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};
use tg_types::chain::{CheckpointError, Equivocation, HeadTooOld, SeatChange};
use tg_types::{BlockId, Decode as _, Encode as _};

use crate::protocol::UnknownProtocol;
use tg_types::digest::hex;

/// Version of the tables above. A store of another version is refused.
pub const FORMAT_VERSION: u64 = 2;

/// What names of [`META`] begin with under which faults of validators are kept.
const FAULT: &str = "fault ";

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const BLOCKS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("blocks");
const HEIGHTS: TableDefinition<'_, [u8; 32], u64> = TableDefinition::new("heights");
const CERTIFICATES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("certificates");
const BODIES: TableDefinition<'_, [u8; 32], (u64, &[u8])> = TableDefinition::new("bodies");
const SNAPSHOTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("snapshots");
const CHANGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("changes");
const TERMS: TableDefinition<'_, u64, (u64, &[u8])> = TableDefinition::new("terms");

/// What an empty store means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// The validator has never voted.
    New,
    /// The validator may have voted, and its data are gone.
    Lost,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the directory.
    #[error("data directory {path} is in use by another process")]
    InUse {
        /// The directory or file.
        path: String,
    },
    /// The directory holds a validator's data already.
    #[error("{path} holds a validator's data already")]
    NotEmpty {
        /// The directory.
        path: String,
    },
    /// A validator of genesis has no address at which it is dialled.
    #[error("there is no address of validator {key}")]
    NoAddress {
        /// The key, in hexadecimal digits.
        key: String,
    },
    /// The address for the other validators cannot be listened on.
    #[error("listen on {address} for the other validators")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The data were written by another version.
    #[error("data directory has format {found}, this program reads format {expected}")]
    OtherFormat {
        /// The version found.
        found: u64,
        /// The version of this program.
        expected: u64,
    },
    /// The data belong to another network.
    #[error("data directory belongs to the network of genesis {found}, not of {expected}")]
    OtherGenesis {
        /// The genesis found, in hexadecimal digits.
        found: String,
        /// The genesis asked for.
        expected: String,
    },
    /// The data belong to another validator; running them under a second key would vote twice.
    #[error("data directory belongs to validator {found}, not to {expected}")]
    OtherValidator {
        /// The key found, in hexadecimal digits.
        found: String,
        /// The key asked for.
        expected: String,
    },
    /// A follower's newest block, or genesis, is too old to follow the chain from, and there is no checkpoint.
    #[error("the chain is not followed from what is known of it")]
    Old(#[from] HeadTooOld),
    /// The data are not of the chain of the checkpoint.
    #[error("the checkpoint does not fit the data of this node")]
    Checkpoint(#[from] CheckpointError),
    /// This program does not execute the next block.
    #[error(transparent)]
    Protocol(#[from] UnknownProtocol),
    /// Genesis makes no state.
    #[error("make the state of genesis")]
    Genesis(#[from] tg_ledger::GenesisError),
    /// The processor computes other floats than the others: its verdicts on float runs would cost its owner what it has at stake.
    #[error("this processor computes other floats than the tier TGF-1 defines")]
    Floats(#[from] tg_float::job::FloatDeparture),
    /// The key is not one of the network's validators.
    #[error("{key} is not a validator of this network")]
    NotAValidator {
        /// The key, in hexadecimal digits.
        key: String,
    },
    /// A validator of genesis has no usable key.
    #[error("validator key {key} of genesis is invalid or listed twice")]
    ValidatorKey {
        /// The key, in hexadecimal digits.
        key: String,
    },
    /// Genesis has too many validators.
    #[error("genesis has {count} validators, at most {limit} are possible")]
    ValidatorCount {
        /// How many it has.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The stored chain does not lead to the stored state: the file was damaged or written by other software.
    #[error("stored chain is inconsistent at height {height}: {reason}")]
    Inconsistent {
        /// Where.
        height: u64,
        /// What does not fit.
        reason: &'static str,
    },
    /// The database failed.
    #[error("open the validator's database")]
    Store(#[from] StoreError),
    /// The blob store could not be opened.
    #[error("open the blob store")]
    Blobs(#[from] crate::blob::BlobError),
    /// The validator's thread did not start.
    #[error("start the thread of a validator")]
    Thread {
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// So many validators lost what they need to vote that the others are no quorum.
    #[error("validators {lost} cannot vote, at most {faults} may miss: {reason}")]
    NoQuorum {
        /// Their numbers.
        lost: String,
        /// How many of them the network can do without.
        faults: usize,
        /// What is gone.
        reason: &'static str,
    },
    /// The file system failed.
    #[error("{action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

/// What a store says of its validator's votes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Voting {
    /// The consensus epoch.
    pub(crate) epoch: u64,
    /// The block at which a later epoch than the first began.
    pub(crate) anchor: Option<(u64, BlockId)>,
    /// The height up to which the validator abstains; 0 before it is known.
    pub(crate) abstains_until: Option<u64>,
    /// The height at which its journal began, if it is not the first.
    journal_from: u64,
}

impl Voting {
    /// What the name of the journal ends with: a new epoch and a new start have journals of their own.
    pub(crate) fn journal_suffix(&self) -> String {
        let Self {
            epoch,
            journal_from,
            ..
        } = self;
        match (epoch, journal_from) {
            (0, 0) => String::new(),
            _ => format!("-{epoch}-{journal_from}"),
        }
    }
}

impl Voting {
    /// Whether the validator may have voted in this epoch, if `height` is final and its store was not made anew.
    pub(crate) fn has_voted(&self, height: u64, history: History) -> bool {
        let began_at = self.anchor.map_or(0, |(height, _)| height);
        height > began_at || history == History::Lost
    }
}

impl OpenError {
    /// Whether the data themselves are bad, so that they can be rebuilt from other validators.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Store(error) => error.is_damage(),
            Self::Inconsistent { .. } => true,
            _ => false,
        }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "TG-NODE-001",
            Self::OtherFormat { .. } => "TG-NODE-002",
            Self::OtherGenesis { .. } => "TG-NODE-003",
            Self::OtherValidator { .. } => "TG-NODE-004",
            Self::NotAValidator { .. } => "TG-NODE-008",
            Self::ValidatorKey { .. } => "TG-NODE-009",
            Self::ValidatorCount { .. } => "TG-NODE-010",
            Self::Genesis(_) => "TG-NODE-013",
            Self::Blobs(_) => "TG-NODE-011",
            Self::Thread { .. } => "TG-NODE-012",
            Self::Inconsistent { .. } => "TG-NODE-005",
            Self::Store(_) => "TG-NODE-006",
            Self::Io { .. } => "TG-NODE-007",
            Self::NoQuorum { .. } => "TG-NODE-014",
            Self::NotEmpty { .. } => "TG-NODE-015",
            Self::NoAddress { .. } => "TG-NODE-016",
            Self::Listen { .. } => "TG-NODE-017",
            Self::Protocol(_) => "TG-NODE-018",
            Self::Old(_) => "TG-NODE-063",
            Self::Checkpoint(_) => "TG-NODE-064",
            Self::Floats(_) => "TG-NODE-065",
        }
    }
}

/// A failure of the database: a full disk, a damaged file.
#[derive(Debug, thiserror::Error)]
#[error("database of the validator failed")]
pub struct StoreError(#[source] Box<redb::Error>);

impl StoreError {
    /// Whether the file's bytes are bad, rather than the disk full or the file not to be read.
    fn is_damage(&self) -> bool {
        use std::io::ErrorKind;
        match &*self.0 {
            redb::Error::Corrupted(_) => true,
            redb::Error::Io(error) => {
                matches!(
                    error.kind(),
                    ErrorKind::InvalidData | ErrorKind::UnexpectedEof
                )
            }
            _ => false,
        }
    }
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self(Box::new(error.into()))
    }
}

/// A block that became final, as it is written.
#[derive(Debug, Clone)]
pub(crate) struct FinalBlock {
    pub(crate) height: u64,
    pub(crate) id: [u8; 32],
    pub(crate) bytes: Vec<u8>,
    /// The certificate, for a block that was finalised itself and not through a descendant.
    pub(crate) certificate: Option<Vec<u8>>,
}

/// The database.
#[derive(Debug)]
pub struct Store {
    db: Database,
}

/// Where a store lives.
#[derive(Debug, Clone, Copy)]
pub enum Location<'a> {
    /// A file, created if missing.
    File(&'a Path),
    /// Memory, for simulations; lost when dropped.
    Memory,
    /// A disk in memory, for simulations of crashes.
    Disk(&'a MemoryDisk),
}

impl Store {
    /// Opens the store of `validator` in the network of `genesis`; a new one is bound to both.
    pub(crate) fn open(
        location: Location<'_>,
        genesis: &[u8; 32],
        validator: &[u8; 32],
    ) -> Result<Self, OpenError> {
        let db = match location {
            Location::File(path) => Database::create(path).map_err(|error| match error {
                redb::DatabaseError::DatabaseAlreadyOpen => OpenError::InUse {
                    path: path.display().to_string(),
                },
                other => OpenError::Store(other.into()),
            })?,
            Location::Memory => Database::builder()
                .create_with_backend(redb::backends::InMemoryBackend::new())
                .map_err(StoreError::from)?,
            Location::Disk(disk) => Database::builder()
                .create_with_backend(disk.clone())
                .map_err(StoreError::from)?,
        };
        let store = Self { db };
        store.bind(genesis, validator)?;
        Ok(store)
    }

    fn bind(&self, genesis: &[u8; 32], validator: &[u8; 32]) -> Result<(), OpenError> {
        let Some(format) = self.meta("format")? else {
            self.create(genesis, validator)?;
            return Ok(());
        };
        let found = u64_of(&format);
        if found != FORMAT_VERSION {
            return Err(OpenError::OtherFormat {
                found,
                expected: FORMAT_VERSION,
            });
        }
        let bound = self.meta("genesis")?.unwrap_or_default();
        if bound != genesis {
            return Err(OpenError::OtherGenesis {
                found: hex(&bound),
                expected: hex(genesis),
            });
        }
        let bound = self.meta("validator")?.unwrap_or_default();
        if bound != validator {
            return Err(OpenError::OtherValidator {
                found: hex(&bound),
                expected: hex(validator),
            });
        }
        Ok(())
    }

    fn create(&self, genesis: &[u8; 32], validator: &[u8; 32]) -> Result<(), StoreError> {
        let write = self.db.begin_write()?;
        {
            let mut meta = write.open_table(META)?;
            meta.insert("format", FORMAT_VERSION.to_le_bytes().as_slice())?;
            meta.insert("genesis", genesis.as_slice())?;
            meta.insert("validator", validator.as_slice())?;
            write.open_table(BLOCKS)?;
            write.open_table(HEIGHTS)?;
            write.open_table(CERTIFICATES)?;
            write.open_table(BODIES)?;
            write.open_table(SNAPSHOTS)?;
            write.open_table(TERMS)?;
            write.open_table(CHANGES)?;
        }
        write.commit()?;
        Ok(())
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.db.begin_read()?;
        match read.open_table(META) {
            Ok(table) => Ok(table.get(name)?.map(|value| value.value().to_vec())),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is kept of the validator's votes.
    pub(crate) fn voting(&self) -> Result<Voting, StoreError> {
        let number = |name| Ok::<_, StoreError>(self.meta(name)?.map(|bytes| u64_of(&bytes)));
        let anchor = self.meta("anchor")?.and_then(|bytes| {
            let (height, id) = bytes.split_first_chunk::<8>()?;
            let id: [u8; 32] = id.try_into().ok()?;
            Some((u64::from_le_bytes(*height), BlockId::new(id)))
        });
        Ok(Voting {
            epoch: number("epoch")?.unwrap_or(0),
            anchor,
            abstains_until: number("abstains")?,
            journal_from: number("journal")?.unwrap_or(0),
        })
    }

    /// Notes that the validator abstains until a height is final; 0 if that height is not known yet.
    pub(crate) fn abstain_until(&self, height: u64) -> Result<(), StoreError> {
        self.set_meta(&[("abstains", &height.to_le_bytes())], &[])
    }

    /// Notes that the validator votes again, with a journal that begins at `height`.
    pub(crate) fn vote_again(&self, height: u64) -> Result<(), StoreError> {
        self.set_meta(&[("journal", &height.to_le_bytes())], &["abstains"])
    }

    /// Notes that the validator votes with the journal that it has.
    pub(crate) fn vote_on(&self) -> Result<(), StoreError> {
        self.set_meta(&[], &["abstains"])
    }

    /// What is kept of the making of the seed's key: secret.
    pub(crate) fn seed(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.meta("seed")
    }

    /// Keeps it.
    pub(crate) fn keep_seed(&self, kept: &[u8]) -> Result<(), StoreError> {
        self.set_meta(&[("seed", kept)], &[])
    }

    /// Keeps what convicts a validator: the votes of its last views may be reported after a restart, and after it left.
    pub(crate) fn keep_fault(&self, proof: &Equivocation) -> Result<(), StoreError> {
        let name = format!("{FAULT}{}", tg_types::digest::hex(&proof.seat));
        self.set_meta(&[(&name, &proof.to_bytes())], &[])
    }

    /// What is kept that convicts validators, by their keys.
    pub(crate) fn faults(&self) -> Result<Vec<Equivocation>, StoreError> {
        let read = self.db.begin_read()?;
        let table = match read.open_table(META) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut found = Vec::new();
        for entry in table.range(FAULT..)? {
            let (name, bytes) = entry?;
            if !name.value().starts_with(FAULT) {
                break;
            }
            found.extend(Equivocation::from_bytes(bytes.value()).ok());
        }
        Ok(found)
    }

    /// Notes that a new consensus epoch begins at a final block.
    pub(crate) fn begin_epoch(
        &self,
        epoch: u64,
        (height, id): (u64, BlockId),
    ) -> Result<(), StoreError> {
        let anchor = [height.to_le_bytes().as_slice(), id.as_bytes()].concat();
        self.set_meta(
            &[("epoch", &epoch.to_le_bytes()), ("anchor", &anchor)],
            &["abstains", "journal"],
        )
    }

    /// Notes that another set of validators votes after the last block of an epoch, and so in the next epoch. A validator
    /// that abstains goes on to abstain, unless the height up to which it does has come.
    pub(crate) fn enter_term(
        &self,
        epoch: u64,
        (height, id): (u64, BlockId),
        seats: &[u8],
    ) -> Result<(), StoreError> {
        let anchor = [height.to_le_bytes().as_slice(), id.as_bytes()].concat();
        let until = self.voting()?.abstains_until;
        let is_over = until.is_some_and(|until| until > 0 && until <= height);
        let write = self.db.begin_write()?;
        {
            let mut meta = write.open_table(META)?;
            meta.insert("epoch", epoch.to_le_bytes().as_slice())?;
            meta.insert("anchor", anchor.as_slice())?;
            meta.remove("journal")?;
            if is_over {
                meta.remove("abstains")?;
            }
            let ended = epoch.saturating_sub(1);
            write.open_table(TERMS)?.insert(ended, (height, seats))?;
        }
        write.commit()?;
        Ok(())
    }

    /// Whether consensus could begin with what is here, in an epoch that began after the block of a height: that block, or a certificate of
    /// the epoch.
    pub(crate) fn can_begin_consensus(&self, since: u64) -> Result<bool, StoreError> {
        let is_here = since == 0 || self.block(since)?.is_some();
        let newest = self.newest_certificate()?;
        Ok(is_here || newest.is_some_and(|(height, _)| height > since))
    }

    /// The height at which an epoch ended, with the validators after it; nothing while it goes on.
    pub(crate) fn term_end(&self, epoch: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let read = self.db.begin_read()?;
        let table = read.open_table(TERMS)?;
        let end = table.get(epoch)?;
        Ok(end.map(|end| {
            let (height, seats) = end.value();
            (height, seats.to_vec())
        }))
    }

    /// The heights at which terms ended above `height`, ascending, with the validators after each.
    pub(crate) fn term_ends_above(
        &self,
        height: u64,
        most: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let read = self.db.begin_read()?;
        let mut ends = Vec::new();
        for end in read.open_table(TERMS)?.iter()? {
            let (_, end) = end?;
            let (at, seats) = end.value();
            if at > height && ends.len() < most {
                ends.push((at, seats.to_vec()));
            }
        }
        Ok(ends)
    }

    /// The validators after the last change at or below a height, in the encoding that headers name; nothing if none was.
    pub(crate) fn seats_after(&self, height: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.db.begin_read()?;
        for end in read.open_table(TERMS)?.iter()?.rev() {
            let (_, end) = end?;
            let (at, seats) = end.value();
            if at <= height {
                return Ok(Some(seats.to_vec()));
            }
        }
        let table = read.open_table(CHANGES)?;
        let last = table.range(..=height)?.next_back().transpose()?;
        let change = last.and_then(|(_, bytes)| SeatChange::from_bytes(bytes.value()).ok());
        Ok(change.map(|change| change.seats))
    }

    /// Keeps changes of the set of validators that happened before the first block that is here, by height.
    pub(crate) fn put_changes(&self, changes: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        let write = self.db.begin_write()?;
        {
            let mut table = write.open_table(CHANGES)?;
            for (height, bytes) in changes {
                table.insert(height, bytes.as_slice())?;
            }
        }
        write.commit()?;
        Ok(())
    }

    /// Those above `height`, ascending.
    pub(crate) fn changes_above(
        &self,
        height: u64,
        most: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let read = self.db.begin_read()?;
        let table = read.open_table(CHANGES)?;
        let above = table.range(height.saturating_add(1)..)?.take(most);
        above
            .map(|entry| Ok(entry.map(|(_, bytes)| bytes.value().to_vec())?))
            .collect()
    }

    fn set_meta(&self, set: &[(&str, &[u8])], removed: &[&str]) -> Result<(), StoreError> {
        let write = self.db.begin_write()?;
        {
            let mut meta = write.open_table(META)?;
            for (name, value) in set {
                meta.insert(*name, *value)?;
            }
            for name in removed {
                meta.remove(*name)?;
            }
        }
        write.commit()?;
        Ok(())
    }

    /// Writes bodies of blocks that are not final, so that a vote for them may be cast.
    pub(crate) fn put_bodies<'a>(
        &self,
        bodies: impl IntoIterator<Item = (&'a [u8; 32], u64, &'a [u8])>,
    ) -> Result<(), StoreError> {
        let write = self.db.begin_write()?;
        {
            let mut table = write.open_table(BODIES)?;
            for (id, height, bytes) in bodies {
                table.insert(id, (height, bytes))?;
            }
        }
        write.commit()?;
        Ok(())
    }

    /// The body of a block, final or not.
    pub(crate) fn body(&self, id: &[u8; 32]) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.db.begin_read()?;
        if let Some(body) = read.open_table(BODIES)?.get(id)? {
            return Ok(Some(body.value().1.to_vec()));
        }
        let Some(height) = read
            .open_table(HEIGHTS)?
            .get(id)?
            .map(|height| height.value())
        else {
            return Ok(None);
        };
        let blocks = read.open_table(BLOCKS)?;
        let bytes = blocks.get(height)?.map(|block| block.value().to_vec());
        Ok(bytes)
    }

    /// Appends final blocks, with a snapshot of the state after the last one if it is due, and forgets the bodies
    /// of blocks that can no longer become final: all in one durable transaction.
    pub(crate) fn finalise(
        &self,
        blocks: &[FinalBlock],
        snapshot: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let Some(last) = blocks.last() else {
            return Ok(());
        };
        let write = self.db.begin_write()?;
        {
            let mut table = write.open_table(BLOCKS)?;
            let mut heights = write.open_table(HEIGHTS)?;
            let mut certificates = write.open_table(CERTIFICATES)?;
            for block in blocks {
                table.insert(block.height, block.bytes.as_slice())?;
                heights.insert(block.id, block.height)?;
                if let Some(certificate) = &block.certificate {
                    certificates.insert(block.height, certificate.as_slice())?;
                }
            }
            write
                .open_table(BODIES)?
                .retain(|_, (height, _)| height > last.height)?;
            if let Some(state) = snapshot {
                let mut snapshots = write.open_table(SNAPSHOTS)?;
                snapshots.retain(|_, _| false)?;
                snapshots.insert(last.height, state)?;
            }
            write
                .open_table(META)?
                .insert("height", last.height.to_le_bytes().as_slice())?;
        }
        write.commit()?;
        Ok(())
    }

    /// The height of the last final block; 0 if only genesis is.
    pub(crate) fn height(&self) -> Result<u64, StoreError> {
        Ok(self.meta("height")?.map_or(0, |bytes| u64_of(&bytes)))
    }

    /// The newest state snapshot with its height.
    pub(crate) fn snapshot(&self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let read = self.db.begin_read()?;
        let table = read.open_table(SNAPSHOTS)?;
        let last = table.last()?;
        Ok(last.map(|(height, state)| (height.value(), state.value().to_vec())))
    }

    /// The encoding of the final block at `height`.
    pub(crate) fn block(&self, height: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.db.begin_read()?;
        let table = read.open_table(BLOCKS)?;
        let bytes = table.get(height)?.map(|block| block.value().to_vec());
        Ok(bytes)
    }

    /// The newest finalisation certificate, with its height.
    pub(crate) fn newest_certificate(&self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let read = self.db.begin_read()?;
        let table = read.open_table(CERTIFICATES)?;
        let last = table.last()?;
        Ok(last.map(|(height, bytes)| (height.value(), bytes.value().to_vec())))
    }

    /// The first finalisation certificate at or above `height`, with its height: it covers all blocks below.
    pub(crate) fn certificate(&self, height: u64) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let read = self.db.begin_read()?;
        let table = read.open_table(CERTIFICATES)?;
        let first = table.range(height..)?.next().transpose()?;
        Ok(first.map(|(height, bytes)| (height.value(), bytes.value().to_vec())))
    }
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes
        .try_into()
        .map_or(u64::MAX, |array: [u8; 8]| u64::from_le_bytes(array))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_types::chain::{SignedVote, VoteKind};

    const GENESIS: [u8; 32] = [1; 32];
    const KEY: [u8; 32] = [2; 32];

    fn final_block(height: u64, certificate: Option<&[u8]>) -> FinalBlock {
        FinalBlock {
            height,
            id: [u8::try_from(height).unwrap(); 32],
            bytes: vec![u8::try_from(height).unwrap(); 3],
            certificate: certificate.map(<[u8]>::to_vec),
        }
    }

    #[test]
    fn what_was_written_is_there_after_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chain.redb");
        let store = Store::open(Location::File(&path), &GENESIS, &KEY).unwrap();
        assert_eq!(store.height().unwrap(), 0);
        store.put_bodies([(&[9; 32], 4, &b"nine"[..])]).unwrap();
        store.put_bodies([(&[8; 32], 2, &b"eight"[..])]).unwrap();
        store
            .finalise(
                &[final_block(1, None), final_block(2, Some(b"c"))],
                Some(b"s"),
            )
            .unwrap();
        let vote = |view| SignedVote {
            kind: VoteKind::Finalize,
            epoch: 0,
            view,
            parent_view: 0,
            block: BlockId::new([0; 32]),
            signature: [0; 64],
        };
        let fault = |seat| Equivocation {
            seat: [seat; 32],
            first: vote(1),
            second: vote(2),
        };
        for seat in [9, 3, 9] {
            store.keep_fault(&fault(seat)).unwrap();
        }
        drop(store);
        let store = Store::open(Location::File(&path), &GENESIS, &KEY).unwrap();
        assert_eq!(store.faults().unwrap(), [3, 9].map(fault));
        assert_eq!(store.height().unwrap(), 2);
        assert_eq!(store.block(1).unwrap().unwrap(), [1; 3]);
        assert_eq!(store.block(3).unwrap(), None);
        assert_eq!(store.body(&[2; 32]).unwrap().unwrap(), [2; 3]);
        assert_eq!(store.body(&[9; 32]).unwrap().unwrap(), b"nine");
        assert_eq!(store.body(&[8; 32]).unwrap(), None, "height 2 is final");
        assert_eq!(store.snapshot().unwrap().unwrap(), (2, b"s".to_vec()));
        assert_eq!(store.certificate(1).unwrap().unwrap(), (2, b"c".to_vec()));
        assert_eq!(store.certificate(3).unwrap(), None);
        store.finalise(&[final_block(3, None)], None).unwrap();
        assert_eq!(store.snapshot().unwrap().unwrap().0, 2);
        store.finalise(&[final_block(4, None)], Some(b"t")).unwrap();
        assert_eq!(store.snapshot().unwrap().unwrap(), (4, b"t".to_vec()));
        store.finalise(&[], None).unwrap();
        assert_eq!(store.height().unwrap(), 4);
    }

    #[test]
    fn what_is_known_of_votes_is_kept() {
        let store = Store::open(Location::Memory, &GENESIS, &KEY).unwrap();
        assert_eq!(store.voting().unwrap(), Voting::default());
        assert_eq!(store.voting().unwrap().journal_suffix(), "");
        store.abstain_until(128).unwrap();
        assert_eq!(store.voting().unwrap().abstains_until, Some(128));
        store.vote_again(128).unwrap();
        let voting = store.voting().unwrap();
        assert_eq!(voting.abstains_until, None);
        assert_eq!(voting.journal_suffix(), "-0-128");
        store.abstain_until(0).unwrap();
        let id = BlockId::new([5; 32]);
        store.begin_epoch(3, (77, id)).unwrap();
        let voting = store.voting().unwrap();
        assert_eq!((voting.epoch, voting.anchor), (3, Some((77, id))));
        assert_eq!(voting.abstains_until, None);
        assert_eq!(voting.journal_suffix(), "-3-0");
    }

    #[test]
    fn a_store_in_use_or_of_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chain.redb");
        let open = |genesis, key| Store::open(Location::File(&path), genesis, key);
        let store = open(&GENESIS, &KEY).unwrap();
        let error = open(&GENESIS, &KEY).unwrap_err();
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
        drop(store);
        let error = open(&[3; 32], &KEY).unwrap_err();
        assert!(matches!(error, OpenError::OtherGenesis { .. }), "{error}");
        let error = open(&GENESIS, &[3; 32]).unwrap_err();
        assert!(matches!(error, OpenError::OtherValidator { .. }), "{error}");
        let store = open(&GENESIS, &KEY).unwrap();
        let write = store.db.begin_write().unwrap();
        write
            .open_table(META)
            .unwrap()
            .insert("format", 7u64.to_le_bytes().as_slice())
            .unwrap();
        write.commit().unwrap();
        drop(store);
        let error = open(&GENESIS, &KEY).unwrap_err();
        assert!(
            matches!(
                error,
                OpenError::OtherFormat {
                    found: 7,
                    expected: FORMAT_VERSION
                }
            ),
            "{error}"
        );
        assert_eq!(error.code(), "TG-NODE-002");
    }

    #[test]
    fn a_file_that_is_no_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chain.redb");
        std::fs::write(&path, vec![0x5a; 8192]).unwrap();
        let error = Store::open(Location::File(&path), &GENESIS, &KEY).unwrap_err();
        assert!(matches!(error, OpenError::Store(_)), "{error}");
    }
}
