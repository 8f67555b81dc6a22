//! A blob that arrives piece by piece: memory holds one piece, and nothing is held under the name before the digest of
//! the whole is right.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tg_types::{BlobHasher, Digest};

use super::error::{BlobError, io_error};
use super::store::{BlobStore, TEMPORARY};

/// A blob on its way in. Dropping it forgets what came.
#[derive(Debug)]
pub struct BlobWriter {
    store: Arc<BlobStore>,
    file: File,
    temporary: PathBuf,
    digest: Digest,
    size: u64,
    written: u64,
    /// Bytes of the store that are given back in the end: all of them until the blob is held.
    given_back: u64,
    hasher: BlobHasher,
}

/// What became of a blob that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It is new, or replaced a damaged one.
    New,
    /// The same bytes were held already.
    Held,
}

impl BlobStore {
    /// Makes room for a blob of `size` bytes, of at most `limit`, that arrives under the name `digest`.
    ///
    /// # Errors
    /// Above the limit or the capacity, or when the file system fails.
    pub fn writer(
        self: &Arc<Self>,
        digest: &Digest,
        size: u64,
        limit: u64,
    ) -> Result<BlobWriter, BlobError> {
        if size > limit {
            return Err(BlobError::TooLarge { bytes: size, limit });
        }
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        let temporary = self.root.join(TEMPORARY).join(number.to_string());
        self.reserve(size)?;
        let file = File::create(&temporary).map_err(|source| {
            self.release(size);
            io_error("create", &temporary, source)
        })?;
        Ok(BlobWriter {
            store: Arc::clone(self),
            file,
            temporary,
            digest: *digest,
            size,
            written: 0,
            given_back: size,
            hasher: BlobHasher::default(),
        })
    }
}

impl BlobWriter {
    /// Takes the next piece.
    ///
    /// # Errors
    /// [`BlobError::TooLarge`] beyond the size that was announced; if the file system fails.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), BlobError> {
        let after = self.written.saturating_add(piece.len() as u64);
        if after > self.size {
            return Err(BlobError::TooLarge {
                bytes: after,
                limit: self.size,
            });
        }
        let written = self.file.write_all(piece);
        written.map_err(|source| self.failed("write", source))?;
        self.hasher.update(piece);
        self.written = after;
        Ok(())
    }

    /// Holds the blob if it has its name. Bytes that are held and intact stay; damaged ones are replaced.
    ///
    /// # Errors
    /// [`BlobError::WrongDigest`], whatever is held under that name; if the file system fails.
    pub fn finish(mut self) -> Result<Stored, BlobError> {
        let got = self.hasher.digest();
        if got != self.digest {
            return Err(BlobError::WrongDigest {
                expected: self.digest,
                got,
            });
        }
        if self.store.is_intact(&self.digest)? {
            return Ok(Stored::Held);
        }
        let synced = self.file.sync_all();
        synced.map_err(|source| self.failed("sync", source))?;
        let replaced = self.store.adopt(&self.temporary, &self.digest);
        self.given_back = replaced.map_err(|source| self.failed("rename", source))?;
        Ok(Stored::New)
    }

    fn failed(&self, action: &'static str, source: io::Error) -> BlobError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::DiskFull {
                bytes: self.size,
                source,
            },
            _ => io_error(action, &self.temporary, source),
        }
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        // Once held it has another name; a leftover is removed when the store is opened again.
        let _ = fs::remove_file(&self.temporary);
        self.store.release(self.given_back);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn store() -> (tempfile::TempDir, Arc<BlobStore>) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(&folder.path().join("blobs"), 1_000).unwrap();
        (folder, Arc::new(store))
    }

    fn send(store: &Arc<BlobStore>, name: &Digest, bytes: &[u8]) -> Result<Stored, BlobError> {
        let mut writer = store.writer(name, bytes.len() as u64, 500)?;
        for piece in bytes.chunks(3) {
            writer.write(piece)?;
        }
        writer.finish()
    }

    #[test]
    fn the_right_bytes_replace_damaged_ones_and_wrong_ones_are_refused() {
        let (_folder, store) = store();
        let name = Digest::of_blob(b"honest bytes");
        assert_eq!(send(&store, &name, b"honest bytes").unwrap(), Stored::New);
        assert_eq!(send(&store, &name, b"honest bytes").unwrap(), Stored::Held);
        let error = send(&store, &name, b"hostile bytes").unwrap_err();
        assert!(matches!(error, BlobError::WrongDigest { .. }), "{error}");
        assert_eq!(store.used_bytes(), 12);
        fs::write(store.path(&name), b"rotten bytes").unwrap();
        let error = send(&store, &name, b"hostile bytes").unwrap_err();
        assert!(matches!(error, BlobError::WrongDigest { .. }), "{error}");
        assert_eq!(send(&store, &name, b"honest bytes").unwrap(), Stored::New);
        assert_eq!(store.get(&name, 100).unwrap().unwrap(), b"honest bytes");
        assert_eq!(store.used_bytes(), 12);
    }

    #[test]
    fn what_was_not_finished_leaves_nothing() {
        let (folder, store) = store();
        let name = Digest::of_blob(b"abcdef");
        let mut writer = store.writer(&name, 6, 500).unwrap();
        assert_eq!(store.used_bytes(), 6);
        writer.write(b"abc").unwrap();
        let error = writer.write(b"defg").unwrap_err();
        assert!(matches!(error, BlobError::TooLarge { bytes: 7, limit: 6 }));
        drop(writer);
        assert_eq!(store.used_bytes(), 0);
        assert!(!store.contains(&name));
        let left = fs::read_dir(folder.path().join("blobs").join(TEMPORARY)).unwrap();
        assert_eq!(left.count(), 0);
        let error = store.writer(&name, 501, 500).unwrap_err();
        assert!(matches!(error, BlobError::TooLarge { .. }));
    }
}
