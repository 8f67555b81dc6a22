//! Blobs that arrive in parts, in order: memory holds one part at a time, and nothing counts as held before the digest
//! of the whole is right.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tg_types::Digest;

use super::error::{BlobError, io_error};
use super::store::{BlobStore, TEMPORARY};

/// Bytes hashed at a time when a stored blob is checked.
const HASH_STEP: usize = 64 * 1024;

/// A blob that is being received. Dropping it forgets what came.
#[derive(Debug)]
pub(crate) struct Incoming {
    store: Arc<BlobStore>,
    digest: Digest,
    total: u64,
    received: u64,
    hasher: Box<blake3::Hasher>,
    temporary: PathBuf,
    file: Option<File>,
}

impl Incoming {
    /// Makes room for a blob of `total` bytes of at most `limit`.
    pub(crate) fn begin(
        store: &Arc<BlobStore>,
        digest: Digest,
        total: u64,
        limit: u64,
    ) -> Result<Self, BlobError> {
        if total > limit {
            return Err(BlobError::TooLarge {
                bytes: total,
                limit,
            });
        }
        let number = store.sequence.fetch_add(1, Ordering::Relaxed);
        let temporary = store.root.join(TEMPORARY).join(number.to_string());
        store.reserve(total)?;
        // From here on the reserved room is given back when this is dropped.
        let mut incoming = Self {
            store: store.clone(),
            digest,
            total,
            received: 0,
            hasher: Box::new(blake3::Hasher::new()),
            temporary,
            file: None,
        };
        let created = File::create(&incoming.temporary);
        incoming.file = Some(created.map_err(|source| incoming.failed("create", source))?);
        Ok(incoming)
    }

    /// Bytes that came.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Bytes of the whole.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Adds the next part.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let after = self.received.saturating_add(bytes.len() as u64);
        if after > self.total {
            return Err(BlobError::TooLarge {
                bytes: after,
                limit: self.total,
            });
        }
        let written = self.file.as_mut().map_or(Ok(()), |it| it.write_all(bytes));
        written.map_err(|source| self.failed("write", source))?;
        self.hasher.update(bytes);
        self.received = after;
        Ok(())
    }

    /// Keeps the blob if all of it came and it has its name; it replaces a damaged file.
    pub(crate) fn finish(mut self) -> Result<(), BlobError> {
        let got = Digest::new(*self.hasher.finalize().as_bytes());
        if got != self.digest {
            return Err(BlobError::WrongDigest {
                expected: self.digest,
                got,
            });
        }
        if let Some(file) = self.file.take() {
            file.sync_all()
                .map_err(|source| self.failed("sync", source))?;
        }
        let folder = self.store.folder(&self.digest);
        fs::create_dir_all(&folder).map_err(|source| self.failed("create", source))?;
        let replaced = {
            let _one_at_a_time = self.store.used.lock();
            let replaced = self.store.size(&self.digest).unwrap_or(0);
            fs::rename(&self.temporary, self.store.path(&self.digest))
                .map_err(|source| self.failed("rename", source))?;
            replaced
        };
        // The room is the blob's now; only what it replaced is given back when this is dropped.
        self.total = replaced;
        File::open(&folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| self.failed("sync", source))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> BlobError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::DiskFull {
                bytes: self.total,
                source,
            },
            _ => io_error(action, &self.temporary, source),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // After `finish` the file has another name; a leftover is removed when the store is opened again.
        let _ = fs::remove_file(&self.temporary);
        self.store.release(self.total);
    }
}

impl BlobStore {
    /// The file of a blob with its size; `None` if it is not here.
    pub(crate) fn file(&self, digest: &Digest) -> Result<Option<(File, u64)>, BlobError> {
        let path = self.path(digest);
        match File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file))) {
            Ok((size, file)) => Ok(Some((file, size))),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error("read", &path, source)),
        }
    }

    /// At most `length` bytes of a blob from `offset` on, with the size of the whole; `None` if it is not here. The
    /// digest is not checked: whoever gets the parts checks the whole.
    ///
    /// # Errors
    /// [`BlobError::Io`] if the file cannot be read.
    pub fn part(
        &self,
        digest: &Digest,
        offset: u64,
        length: usize,
    ) -> Result<Option<(u64, Vec<u8>)>, BlobError> {
        let path = self.path(digest);
        let failed = |source| io_error("read", &path, source);
        let Some((mut file, total)) = self.file(digest)? else {
            return Ok(None);
        };
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut bytes = Vec::with_capacity(length);
        file.take(length as u64)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        Ok(Some((total, bytes)))
    }

    /// Whether all bytes of the blob are here and right, read once with bounded memory; returns their number.
    ///
    /// # Errors
    /// [`BlobError::Damaged`] if the file does not hash to its name, [`BlobError::Io`] if it cannot be read.
    pub fn verified_size(&self, digest: &Digest) -> Result<Option<u64>, BlobError> {
        let path = self.path(digest);
        let failed = |source| io_error("read", &path, source);
        let Some((mut file, _)) = self.file(digest)? else {
            return Ok(None);
        };
        let mut hasher = blake3::Hasher::new();
        let mut step = vec![0; HASH_STEP];
        let mut size = 0u64;
        loop {
            let count = file.read(&mut step).map_err(failed)?;
            if count == 0 {
                break;
            }
            hasher.update(&step[..count]);
            size += count as u64;
        }
        if hasher.finalize().as_bytes() != digest.as_bytes() {
            return Err(BlobError::Damaged { digest: *digest });
        }
        Ok(Some(size))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn store(capacity: u64) -> (tempfile::TempDir, Arc<BlobStore>) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(&folder.path().join("blobs"), capacity).unwrap();
        (folder, Arc::new(store))
    }

    #[test]
    fn parts_become_a_blob_only_with_the_right_digest() {
        let (_folder, store) = store(100);
        let digest = Digest::of_blob(b"abcdef");
        let mut incoming = Incoming::begin(&store, digest, 6, 10).unwrap();
        incoming.append(b"abc").unwrap();
        assert!(!store.contains(&digest));
        assert_eq!(store.used_bytes(), 6);
        incoming.append(b"def").unwrap();
        incoming.finish().unwrap();
        assert_eq!(store.get(&digest, 10).unwrap().unwrap(), b"abcdef");
        assert_eq!(store.used_bytes(), 6);
        assert_eq!(store.verified_size(&digest).unwrap(), Some(6));
        let part = store.part(&digest, 2, 3).unwrap().unwrap();
        assert_eq!(part, (6, b"cde".to_vec()));
        assert_eq!(store.part(&digest, 9, 3).unwrap().unwrap(), (6, Vec::new()));

        let other = Digest::of_blob(b"other");
        let mut incoming = Incoming::begin(&store, other, 5, 10).unwrap();
        incoming.append(b"wrong").unwrap();
        assert!(matches!(
            incoming.finish(),
            Err(BlobError::WrongDigest { .. })
        ));
        assert!(!store.contains(&other));
        let mut incoming = Incoming::begin(&store, other, 5, 10).unwrap();
        assert!(matches!(
            incoming.append(b"longer"),
            Err(BlobError::TooLarge { bytes: 6, limit: 5 })
        ));
        drop(incoming);
        assert_eq!(store.used_bytes(), 6);
        assert!(matches!(
            Incoming::begin(&store, other, 11, 10),
            Err(BlobError::TooLarge { .. })
        ));
        assert!(matches!(
            Incoming::begin(&store, other, 95, 100),
            Err(BlobError::StoreFull { .. })
        ));
        assert_eq!(fs::read_dir(store.root.join(TEMPORARY)).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_blob_is_found_and_replaced() {
        let (_folder, store) = store(100);
        let digest = store.put(b"abcdef", 10).unwrap();
        fs::write(store.path(&digest), b"abc").unwrap();
        let error = store.verified_size(&digest).unwrap_err();
        assert!(matches!(error, BlobError::Damaged { .. }), "{error}");
        let mut incoming = Incoming::begin(&store, digest, 6, 10).unwrap();
        incoming.append(b"abcdef").unwrap();
        incoming.finish().unwrap();
        assert_eq!(store.verified_size(&digest).unwrap(), Some(6));
    }
}
