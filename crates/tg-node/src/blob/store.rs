//! The store: names, room, and whole blobs in and out.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tg_types::Digest;

use super::error::{BlobError, io_error};
use super::open_uploads::Uploads;
use super::pending::Pending;
use super::space::{DISK_RESERVE_BYTES_DEFAULT, free_bytes, reserve_on};
use crate::limits::{MODEL_BYTES_MAX, TRACE_EVIDENCE_BYTES_MAX};

/// The store. Shared between threads behind an `Arc`.
#[derive(Debug)]
pub struct BlobStore {
    pub(super) root: PathBuf,
    pub(super) capacity: u64,
    /// Bytes of the disk that blobs leave free.
    pub(super) disk_reserve: u64,
    /// Bytes held, with those of writes in progress.
    pub(super) used: Mutex<u64>,
    pub(super) pending: Mutex<Pending>,
    pub(super) uploads: Mutex<Uploads>,
    pub(super) sequence: AtomicU64,
}

/// Blobs that are larger, which only models are, leave a quarter of the store free: that is for inputs, answers and evidence.
pub(super) const LARGE_BYTES: u64 = TRACE_EVIDENCE_BYTES_MAX;

/// The folder of unfinished writes.
pub(super) const TEMPORARY: &str = "tmp";

/// The folder of blobs that are fetched, of which some chunks are here.
pub(super) const PARTIAL: &str = "partial";

impl BlobStore {
    /// Opens or creates the store at `root` with room for `capacity` bytes in all. Removes unfinished writes of an
    /// earlier process and counts what is there, which reads every directory once.
    ///
    /// # Errors
    /// [`BlobError::Io`] if a directory cannot be created or read.
    pub fn open(root: &Path, capacity: u64) -> Result<Self, BlobError> {
        let temporary = root.join(TEMPORARY);
        if temporary.exists() {
            fs::remove_dir_all(&temporary)
                .map_err(|source| io_error("clear", &temporary, source))?;
        }
        fs::create_dir_all(&temporary).map_err(|source| io_error("create", &temporary, source))?;
        let used = bytes_under(root)?;
        let store = Self {
            root: root.to_path_buf(),
            capacity,
            disk_reserve: reserve_on(root, DISK_RESERVE_BYTES_DEFAULT),
            used: Mutex::new(used),
            pending: Mutex::default(),
            uploads: Mutex::default(),
            sequence: AtomicU64::new(0),
        };
        store.remove_old_partials();
        store.find_left_uploads();
        Ok(store)
    }

    /// The same store, which leaves `reserve` bytes of its disk free.
    #[must_use]
    pub const fn with_disk_reserve(mut self, reserve: u64) -> Self {
        self.disk_reserve = reserve;
        self
    }

    /// Stores `bytes` of at most `limit` bytes and returns their digest. Storing the same bytes again is free.
    ///
    /// # Errors
    /// Above the limit or the capacity, with a full disk, or when the file system fails; nothing is stored then.
    pub fn put(&self, bytes: &[u8], limit: u64) -> Result<Digest, BlobError> {
        let size = bytes.len() as u64;
        let limit = limit.min(MODEL_BYTES_MAX);
        if size > limit {
            return Err(BlobError::TooLarge { bytes: size, limit });
        }
        let digest = Digest::of_blob(bytes);
        // A damaged file of this name fails the read and is written again.
        if matches!(self.get(&digest, limit), Ok(Some(_))) {
            return Ok(digest);
        }
        self.reserve(size)?;
        match self.write(&digest, bytes) {
            Ok(replaced) => self.release(replaced),
            Err(error) => {
                self.release(size);
                return Err(error);
            }
        }
        Ok(digest)
    }

    /// The bytes named by `digest`, or `None` if they are not here.
    ///
    /// # Errors
    /// [`BlobError::Damaged`] if the file does not hash to its name: it is not held from then on.
    /// [`BlobError::TooLarge`] above `limit`, [`BlobError::Io`] if it cannot be read.
    pub fn get(&self, digest: &Digest, limit: u64) -> Result<Option<Vec<u8>>, BlobError> {
        let path = self.path(digest);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_error("open", &path, source)),
        };
        let size = file
            .metadata()
            .map_err(|source| io_error("read", &path, source))?
            .len();
        if size > limit {
            return Err(BlobError::TooLarge { bytes: size, limit });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(size + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| io_error("read", &path, source))?;
        if Digest::of_blob(&bytes) != *digest {
            self.discard(digest);
            return Err(BlobError::Damaged { digest: *digest });
        }
        Ok(Some(bytes))
    }

    /// The size in bytes of the blob, if it is here. Reads no content.
    #[must_use]
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        fs::metadata(self.path(digest)).ok().map(|meta| meta.len())
    }

    /// Whether the blob is here.
    #[must_use]
    pub fn contains(&self, digest: &Digest) -> bool {
        self.size(digest).is_some()
    }

    /// Bytes held in all.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> u64 {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the blob is here with its right bytes.
    pub(super) fn is_intact(
        self: &std::sync::Arc<Self>,
        digest: &Digest,
    ) -> Result<bool, BlobError> {
        let Some(mut reader) = self.reader(digest, MODEL_BYTES_MAX)? else {
            return Ok(false);
        };
        loop {
            match reader.next_piece() {
                Ok(piece) if piece.is_empty() => return Ok(true),
                Ok(_) => {}
                Err(BlobError::Damaged { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Holds the blob no longer.
    pub(super) fn discard(&self, digest: &Digest) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let size = self.size(digest).unwrap_or(0);
        // What cannot be removed is found damaged or unnamed again.
        if fs::remove_file(self.path(digest)).is_ok() {
            *used = used.saturating_sub(size);
        }
    }

    pub(super) fn reserve(&self, size: u64) -> Result<(), BlobError> {
        self.reserve_instead(0, size)
    }

    /// Takes room for `size` bytes in the place of so many that are taken already; if there is none these stay taken.
    pub(super) fn reserve_instead(&self, before: u64, size: u64) -> Result<(), BlobError> {
        // Stops: uploads that fill the disk on which the validator must write its votes.
        if let Some(free) = free_bytes(&self.root)
            && free < self.disk_reserve.saturating_add(size)
        {
            return Err(BlobError::DiskReserve {
                free,
                reserve: self.disk_reserve,
            });
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let after = used.saturating_sub(before).saturating_add(size);
        // Stops: models that leave no room for what open jobs need, which would cost their providers what they put up.
        let capacity = match size > LARGE_BYTES {
            true => self.capacity / 4 * 3,
            false => self.capacity,
        };
        if after > capacity {
            return Err(BlobError::StoreFull {
                bytes: size,
                used: *used,
                capacity,
            });
        }
        *used = after;
        drop(used);
        Ok(())
    }

    pub(super) fn release(&self, size: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.saturating_sub(size);
    }

    /// Writes the file and returns the size in bytes of the one it replaced.
    pub(super) fn write(&self, digest: &Digest, bytes: &[u8]) -> Result<u64, BlobError> {
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        let temporary = self.root.join(TEMPORARY).join(number.to_string());
        let written = self.write_through(&temporary, digest, bytes);
        if written.is_err() {
            // The original error is the one to report; a leftover file is removed at the next open.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    pub(super) fn write_through(
        &self,
        temporary: &Path,
        digest: &Digest,
        bytes: &[u8],
    ) -> Result<u64, BlobError> {
        let size = bytes.len() as u64;
        let failed = |action, source: io::Error| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::DiskFull {
                bytes: size,
                source,
            },
            _ => io_error(action, temporary, source),
        };
        let mut file = File::create(temporary).map_err(|source| failed("create", source))?;
        file.write_all(bytes)
            .map_err(|source| failed("write", source))?;
        file.sync_all().map_err(|source| failed("sync", source))?;
        self.adopt(temporary, digest)
            .map_err(|source| failed("rename", source))
    }

    /// Gives a complete file its name and returns the size in bytes of the one it replaced.
    pub(super) fn adopt(&self, temporary: &Path, digest: &Digest) -> io::Result<u64> {
        let folder = self.folder(digest);
        fs::create_dir_all(&folder)?;
        // Two writers of the same bytes race harmlessly, but only one of them may count them.
        let replaced = {
            let _one_at_a_time = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let replaced = self.size(digest).unwrap_or(0);
            fs::rename(temporary, self.path(digest))?;
            replaced
        };
        File::open(&folder).and_then(|folder| folder.sync_all())?;
        Ok(replaced)
    }

    pub(super) fn folder(&self, digest: &Digest) -> PathBuf {
        self.root.join(format!("{:02x}", digest.as_bytes()[0]))
    }

    pub(super) fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.folder(digest)
            .join(name.strip_prefix("0x").unwrap_or(&name))
    }
}

fn bytes_under(root: &Path) -> Result<u64, BlobError> {
    let mut total = 0u64;
    let read = |path: &Path| fs::read_dir(path).map_err(|source| io_error("list", path, source));
    for folder in read(root)? {
        let folder = folder
            .map_err(|source| io_error("list", root, source))?
            .path();
        // Partial blobs count while they arrive.
        if !folder.is_dir() || folder.ends_with(PARTIAL) {
            continue;
        }
        for file in read(&folder)? {
            let meta = file
                .and_then(|file| file.metadata())
                .map_err(|source| io_error("list", &folder, source))?;
            total = total.saturating_add(meta.len());
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn store(capacity: u64) -> (tempfile::TempDir, BlobStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(&folder.path().join("blobs"), capacity).unwrap();
        (folder, store)
    }

    #[test]
    fn a_blob_is_read_back_by_its_digest() {
        let (_folder, store) = store(1_000);
        let digest = store.put(b"abc", 10).unwrap();
        assert_eq!(digest, Digest::of_blob(b"abc"));
        assert_eq!(store.get(&digest, 10).unwrap().unwrap(), b"abc");
        assert_eq!(store.size(&digest), Some(3));
        assert_eq!(store.put(b"abc", 10).unwrap(), digest);
        assert_eq!(store.used_bytes(), 3);
        assert!(store.get(&Digest::of_blob(b"abd"), 10).unwrap().is_none());
        let empty = store.put(b"", 10).unwrap();
        assert_eq!(store.get(&empty, 10).unwrap().unwrap(), b"");
    }

    #[test]
    fn a_reopened_store_counts_what_it_holds_and_drops_unfinished_writes() {
        let (folder, store) = store(1_000);
        let digest = store.put(&[7; 100], 1_000).unwrap();
        let root = folder.path().join("blobs");
        fs::write(root.join(TEMPORARY).join("5"), [1; 50]).unwrap();
        let again = BlobStore::open(&root, 1_000).unwrap();
        assert_eq!(again.used_bytes(), 100);
        assert_eq!(again.get(&digest, 1_000).unwrap().unwrap(), [7; 100]);
        assert_eq!(fs::read_dir(root.join(TEMPORARY)).unwrap().count(), 0);
    }

    #[test]
    fn limits_are_refused_by_name_and_leave_nothing() {
        let (_folder, store) = store(100);
        assert!(matches!(
            store.put(&[0; 11], 10),
            Err(BlobError::TooLarge {
                bytes: 11,
                limit: 10
            })
        ));
        let digest = store.put(&[1; 60], 100).unwrap();
        assert!(matches!(
            store.put(&[2; 60], 100),
            Err(BlobError::StoreFull {
                bytes: 60,
                used: 60,
                capacity: 100
            })
        ));
        assert_eq!(store.used_bytes(), 60);
        assert!(matches!(
            store.get(&digest, 59),
            Err(BlobError::TooLarge {
                bytes: 60,
                limit: 59
            })
        ));
    }

    #[test]
    fn a_damaged_file_is_reported_and_may_be_stored_again() {
        let (_folder, store) = store(1_000);
        let digest = store.put(b"honest bytes", 100).unwrap();
        fs::write(store.path(&digest), b"rotten bytes").unwrap();
        let error = store.get(&digest, 100).unwrap_err();
        assert!(matches!(error, BlobError::Damaged { digest: named } if named == digest));
        assert_eq!(error.code(), "TG-NODE-024");
        for damage in [&b"rotten bytes"[..], b"rot"] {
            fs::write(store.path(&digest), damage).unwrap();
            assert_eq!(store.put(b"honest bytes", 100).unwrap(), digest);
            assert_eq!(store.get(&digest, 100).unwrap().unwrap(), b"honest bytes");
        }
    }

    #[test]
    fn writers_of_the_same_bytes_agree() {
        let (_folder, store) = store(10_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for byte in 0..16u8 {
                        store.put(&[byte; 32], 32).unwrap();
                    }
                });
            }
        });
        assert_eq!(store.used_bytes(), 16 * 32);
        for byte in 0..16u8 {
            assert!(store.contains(&Digest::of_blob(&[byte; 32])));
        }
    }
}
