//! Blobs in chunks of which some are missing yet, and to which none is coming now.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tg_types::chunks::ChunkTree;
use tg_types::{Address, Digest, DurationMs, TimestampMs};

use super::error::BlobError;

/// Uploads that are open, in all. Each takes money that would buy a MiB at least, and one file.
pub(super) const UPLOADS_MAX: usize = 64;

/// Uploads of one account that are open. Stops: one that keeps all others from uploading in chunks.
pub(super) const UPLOADS_PER_ACCOUNT_MAX: usize = 8;

/// Bytes a second at which the chunks of an upload must come, all in all: the least rate of a body. Stops: an upload that holds its place
/// and its room for ever, with a chunk from time to time.
const UPLOAD_RATE_MIN: u64 = 64 << 10;

/// The folder of uploads of which some chunks are here.
pub(super) const UPLOADS: &str = "uploads";

/// A partial blob between two of its chunks: no file is open, and its room stays taken.
#[derive(Debug)]
pub(crate) struct PausedBlob {
    pub(super) digest: Digest,
    pub(super) tree: ChunkTree,
    pub(super) path: PathBuf,
    /// Chunks that are here and were checked.
    pub(super) chunks: u64,
    /// Bytes of the store that are given back in the end.
    pub(super) given_back: u64,
}

impl PausedBlob {
    /// The bytes of the store that are to be given back; what came stays on the disk.
    pub(super) fn into_room(self) -> u64 {
        self.given_back
    }

    /// Removes what came; the bytes of the store that are to be given back.
    pub(super) fn remove(self) -> u64 {
        // What cannot be removed now is found when the store is opened again.
        let _ = fs::remove_file(&self.path);
        self.given_back
    }
}

/// An upload that somebody began.
#[derive(Debug)]
pub(super) struct OpenUpload {
    /// Who answers for it.
    pub(super) owner: Address,
    /// When it would have ended if nothing had come after its begin.
    begun: TimestampMs,
    /// When it ends unless another chunk comes.
    pub(super) expires: TimestampMs,
    /// When it ends, whatever comes.
    latest: TimestampMs,
    /// What came; nothing while a chunk is being checked and written.
    pub(super) paused: Option<PausedBlob>,
}

impl OpenUpload {
    /// One of so many bytes that begins, and ends at `expires` if nothing comes.
    pub(super) const fn new(owner: Address, size: u64, expires: TimestampMs) -> Self {
        Self {
            owner,
            begun: expires,
            expires,
            latest: latest_end(expires, size),
            paused: None,
        }
    }

    /// Goes by another size of the blob from now on.
    pub(super) fn set_size(&mut self, size: u64) {
        // Stops: somebody who has another one's upload end by a smaller size.
        self.latest = self.latest.max(latest_end(self.begun, size));
    }

    /// Ends later, as something came, but not later than all of it must have come.
    pub(super) fn stay_until(&mut self, expires: TimestampMs) {
        self.expires = self.expires.max(expires).min(self.latest);
    }
}

/// When an upload of so many bytes ends at the latest, which would have ended at `begun` if nothing had come.
const fn latest_end(begun: TimestampMs, size: u64) -> TimestampMs {
    let least = size.saturating_mul(1_000) / UPLOAD_RATE_MIN;
    begun.saturating_add(DurationMs::new(least))
}

/// The file of an upload to an earlier process. It is nobody's until somebody goes on with it.
#[derive(Debug)]
pub(super) struct LeftUpload {
    pub(super) bytes: u64,
    /// When it goes; nothing before the first look at the ledger's time.
    pub(super) expires: Option<TimestampMs>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    pub(super) open: BTreeMap<Digest, OpenUpload>,
    pub(super) left: BTreeMap<Digest, LeftUpload>,
}

impl Uploads {
    /// Whether an account may open one more, of this blob.
    pub(super) fn has_room(&self, owner: &Address, digest: &Digest) -> Result<(), BlobError> {
        let own = self.open.values().filter(|it| it.owner == *owner).count();
        if own >= UPLOADS_PER_ACCOUNT_MAX {
            return Err(BlobError::TooManyUploads {
                open: own,
                limit: UPLOADS_PER_ACCOUNT_MAX,
            });
        }
        let left = self.left.keys().filter(|it| *it != digest).count();
        let open = self.open.len() + left;
        if open >= UPLOADS_MAX {
            return Err(BlobError::TooManyUploads {
                open,
                limit: UPLOADS_MAX,
            });
        }
        Ok(())
    }
}
