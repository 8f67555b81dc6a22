//! A blob that is read piece by piece. The bytes are hashed on the way and the last piece is given only if the whole
//! has its name: who reads to the end has the blob, and a damaged one is never complete.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

use tg_types::{BlobHasher, Digest};

use super::error::{BlobError, io_error};
use super::store::BlobStore;

/// Bytes of a piece: few enough that hundreds of readers fit into memory.
const PIECE_BYTES: usize = 128 << 10;

/// A blob on its way out.
#[derive(Debug)]
pub struct BlobReader {
    store: Arc<BlobStore>,
    file: File,
    digest: Digest,
    size: u64,
    left: u64,
    hasher: BlobHasher,
}

impl BlobStore {
    /// Opens a blob of at most `limit` bytes for reading; `None` if it is not here.
    ///
    /// # Errors
    /// [`BlobError::TooLarge`] above `limit`, [`BlobError::Io`] if it cannot be opened.
    pub fn reader(
        self: &Arc<Self>,
        digest: &Digest,
        limit: u64,
    ) -> Result<Option<BlobReader>, BlobError> {
        let path = self.path(digest);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_error("open", &path, source)),
        };
        let meta = file.metadata();
        let size = meta
            .map_err(|source| io_error("read", &path, source))?
            .len();
        if size > limit {
            return Err(BlobError::TooLarge { bytes: size, limit });
        }
        Ok(Some(BlobReader {
            store: Arc::clone(self),
            file,
            digest: *digest,
            size,
            left: size,
            hasher: BlobHasher::default(),
        }))
    }
}

impl BlobReader {
    /// The size of the whole in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The next piece, empty after the last one.
    ///
    /// # Errors
    /// [`BlobError::Damaged`] instead of the last piece if the bytes do not hash to their name: the blob is not held
    /// from then on. [`BlobError::Io`] if it cannot be read.
    pub fn next_piece(&mut self) -> Result<Vec<u8>, BlobError> {
        let wanted = usize::try_from(self.left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        let mut piece = vec![0; wanted];
        match self.file.read_exact(&mut piece) {
            Ok(()) => {}
            // It was cut while it was read.
            Err(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(self.damaged());
            }
            Err(source) => {
                return Err(io_error("read", &self.store.path(&self.digest), source));
            }
        }
        self.hasher.update(&piece);
        self.left -= piece.len() as u64;
        if self.left == 0 && self.hasher.digest() != self.digest {
            return Err(self.damaged());
        }
        Ok(piece)
    }

    fn damaged(&self) -> BlobError {
        self.store.discard(&self.digest);
        BlobError::Damaged {
            digest: self.digest,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    fn store() -> (tempfile::TempDir, Arc<BlobStore>) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(&folder.path().join("blobs"), 10_000_000).unwrap();
        (folder, Arc::new(store))
    }

    fn read(mut reader: BlobReader) -> Result<Vec<u8>, BlobError> {
        let mut bytes = Vec::new();
        loop {
            let piece = reader.next_piece()?;
            if piece.is_empty() {
                return Ok(bytes);
            }
            bytes.extend(piece);
        }
    }

    #[test]
    fn pieces_make_the_whole() {
        let (_folder, store) = store();
        for size in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let bytes: Vec<u8> = (0..size).map(|it| it.to_le_bytes()[0]).collect();
            let digest = store.put(&bytes, u64::MAX).unwrap();
            let reader = store.reader(&digest, u64::MAX).unwrap().unwrap();
            assert_eq!(reader.size(), size as u64);
            assert_eq!(read(reader).unwrap(), bytes);
        }
        let absent = store.reader(&Digest::of_blob(b"absent"), 9).unwrap();
        assert!(absent.is_none());
    }

    #[test]
    fn a_damaged_blob_is_never_complete_and_then_missing() {
        let (_folder, store) = store();
        let bytes = vec![7; 2 * PIECE_BYTES + 5];
        let digest = store.put(&bytes, u64::MAX).unwrap();
        let mut damaged = bytes.clone();
        damaged[3] ^= 1;
        for damage in [&damaged[..], &bytes[..10], &[]] {
            fs::create_dir_all(store.folder(&digest)).unwrap();
            fs::write(store.path(&digest), damage).unwrap();
            let reader = store.reader(&digest, u64::MAX).unwrap().unwrap();
            let error = read(reader).unwrap_err();
            assert!(matches!(error, BlobError::Damaged { digest: named } if named == digest));
            assert!(!store.contains(&digest));
            assert!(store.reader(&digest, u64::MAX).unwrap().is_none());
        }
    }
}
