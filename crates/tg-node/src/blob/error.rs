//! Why a blob could not be stored or read.

use std::io;
use std::path::{Path, PathBuf};

use tg_types::Digest;

/// Why a blob could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The blob is above the limit of its kind.
    #[error("blob of {bytes} bytes is above the limit of {limit}")]
    TooLarge {
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The store is at its configured capacity.
    #[error("blob store holds {used} of {capacity} bytes, {bytes} more do not fit")]
    StoreFull {
        /// Bytes that were to be stored.
        bytes: u64,
        /// Bytes held or being written.
        used: u64,
        /// The configured capacity in bytes.
        capacity: u64,
    },
    /// An account has as much pending as it may have.
    #[error(
        "{pending} bytes of the account are named by no record yet, and {bytes} more are above its {limit}"
    )]
    AllowanceUsed {
        /// Bytes that were to be stored.
        bytes: u64,
        /// Bytes of the account that nothing names.
        pending: u64,
        /// Its allowance in bytes.
        limit: u64,
    },
    /// All accounts together have as much pending as the store takes.
    #[error("{capacity} bytes of blobs that no record names are held already")]
    PendingFull {
        /// The limit in bytes.
        capacity: u64,
    },
    /// The rest of the disk is kept for the validator's own data.
    #[error("disk has {free} bytes free, of which {reserve} are kept for the validator's data")]
    DiskReserve {
        /// Free bytes.
        free: u64,
        /// Bytes that blobs may not take.
        reserve: u64,
    },
    /// The file system has no space left.
    #[error("no space left on the device for a blob of {bytes} bytes")]
    DiskFull {
        /// Bytes that were to be stored.
        bytes: u64,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The bytes are not those of the digest they were sent under.
    #[error("bytes hash to {got}, not to {expected}")]
    WrongDigest {
        /// The name under which they were sent.
        expected: Digest,
        /// Their digest.
        got: Digest,
    },
    /// What was said to be the blob's chunks is not.
    #[error("these are not the chunks of {digest}")]
    WrongTree {
        /// The blob.
        digest: Digest,
    },
    /// The blob is arriving already.
    #[error("blob {digest} is arriving already")]
    Busy {
        /// The blob.
        digest: Digest,
    },
    /// Not all chunks are here.
    #[error("chunk {chunk} of blob {digest} is missing")]
    Incomplete {
        /// The blob.
        digest: Digest,
        /// The first chunk that is missing.
        chunk: u64,
    },
    /// A chunk is not the one of its blob.
    #[error("these bytes are not chunk {chunk} of blob {digest}")]
    WrongChunk {
        /// The blob.
        digest: Digest,
        /// Which chunk they were to be.
        chunk: u64,
    },
    /// No upload of the blob is open.
    #[error("no upload of blob {digest} is open")]
    NotOpen {
        /// The blob.
        digest: Digest,
    },
    /// As many uploads are open as may be.
    #[error("{open} uploads in chunks are open, of {limit} at most")]
    TooManyUploads {
        /// How many, of the account or in all.
        open: usize,
        /// How many may be.
        limit: usize,
    },
    /// The stored file does not hash to its name.
    #[error("stored blob {digest} is damaged")]
    Damaged {
        /// The name of the file.
        digest: Digest,
    },
    /// Another failure of the file system.
    #[error("{action} blob store file {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl BlobError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "TG-NODE-020",
            Self::StoreFull { .. } => "TG-NODE-021",
            Self::DiskFull { .. } | Self::DiskReserve { .. } => "TG-NODE-022",
            Self::WrongDigest { .. } => "TG-NODE-023",
            Self::Damaged { .. } => "TG-NODE-024",
            Self::Io { .. } => "TG-NODE-025",
            Self::AllowanceUsed { .. } => "TG-NODE-026",
            Self::PendingFull { .. } => "TG-NODE-027",
            Self::WrongTree { .. } => "TG-NODE-028",
            Self::Busy { .. } => "TG-NODE-029",
            Self::Incomplete { .. } => "TG-NODE-030",
            Self::WrongChunk { .. } => "TG-NODE-031",
            Self::NotOpen { .. } => "TG-NODE-032",
            Self::TooManyUploads { .. } => "TG-NODE-033",
        }
    }
}

/// A failure of the file system.
pub(super) fn io_error(action: &'static str, path: &Path, source: io::Error) -> BlobError {
    BlobError::Io {
        action,
        path: path.to_path_buf(),
        source,
    }
}
