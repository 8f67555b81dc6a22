//! Blobs that arrive chunk by chunk: each is checked when it comes, and what came stays over a restart.
//!
//! The file `<root>/partial/<digest>` has the chunks from the first one on. Whoever goes on with it checks them again, which takes
//! as long as hashing them, and asks for the next one.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tg_types::Digest;
use tg_types::chunks::{CHUNK_BYTES, ChunkTree, ChunkTreeBuilder};

use super::error::{BlobError, io_error};
use super::open_uploads::PausedBlob;
use super::store::{BlobStore, PARTIAL};
use super::writer::Stored;

/// A partial blob that nobody went on with for so long is removed when the store is opened.
const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// A blob of which some chunks are here. Dropping it keeps them.
#[derive(Debug)]
pub struct PartialBlob {
    store: Arc<BlobStore>,
    digest: Digest,
    tree: ChunkTree,
    file: File,
    path: PathBuf,
    /// Chunks that are here and were checked.
    chunks: u64,
    /// Bytes of the store that are given back in the end.
    given_back: u64,
}

impl BlobStore {
    /// The chunks of a blob of at most `limit` bytes; `None` if it is not here. Reads the whole blob.
    ///
    /// # Errors
    /// Those of [`Self::reader`] and [`super::BlobReader::next_piece`].
    pub fn chunk_tree(
        self: &Arc<Self>,
        digest: &Digest,
        limit: u64,
    ) -> Result<Option<ChunkTree>, BlobError> {
        let Some(mut reader) = self.reader(digest, limit)? else {
            return Ok(None);
        };
        let mut builder = ChunkTreeBuilder::default();
        loop {
            let piece = reader.next_piece()?;
            if piece.is_empty() {
                break;
            }
            builder.update(&piece);
        }
        Ok(builder.finish())
    }

    /// The bytes of one chunk of a blob; `None` if the blob is not here or has no such chunk. They are not checked: whoever asked
    /// for them does.
    ///
    /// # Errors
    /// [`BlobError::Io`] if they cannot be read.
    pub fn chunk(&self, digest: &Digest, index: u64) -> Result<Option<Vec<u8>>, BlobError> {
        let path = self.path(digest);
        let failed = |source| io_error("read", &path, source);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        let size = file.metadata().map_err(failed)?.len();
        let start = index.saturating_mul(CHUNK_BYTES);
        // An empty blob is one empty chunk.
        if start >= size && !(size == 0 && index == 0) {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let length = size.saturating_sub(start).min(CHUNK_BYTES);
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        file.take(length).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(bytes))
    }

    /// Goes on with a blob of at most `limit` bytes, or begins it. `tree` is what somebody says that its chunks are; it is checked.
    ///
    /// # Errors
    /// [`BlobError::WrongTree`]; [`BlobError::Busy`] if it is arriving already; above the limit or the capacity, or when the file
    /// system fails.
    pub fn resume(
        self: &Arc<Self>,
        digest: &Digest,
        tree: ChunkTree,
        limit: u64,
    ) -> Result<PartialBlob, BlobError> {
        let size = tree.size();
        if size > limit {
            return Err(BlobError::TooLarge { bytes: size, limit });
        }
        // Stops: chunks of the sender's choice.
        if !tree.is_of(digest) {
            return Err(BlobError::WrongTree { digest: *digest });
        }
        self.resume_in(PARTIAL, digest, tree)
    }

    /// Goes on with a blob in a folder of the store, or begins it there. The tree is the blob's.
    pub(super) fn resume_in(
        self: &Arc<Self>,
        folder: &str,
        digest: &Digest,
        tree: ChunkTree,
    ) -> Result<PartialBlob, BlobError> {
        let size = tree.size();
        let folder = self.root.join(folder);
        fs::create_dir_all(&folder).map_err(|source| io_error("create", &folder, source))?;
        let path = folder.join(name(digest));
        let file = open_locked(&path, digest)?;
        self.reserve(size)?;
        let mut partial = PartialBlob {
            store: Arc::clone(self),
            digest: *digest,
            tree,
            file,
            path,
            chunks: 0,
            given_back: size,
        };
        partial.check_again()?;
        Ok(partial)
    }

    /// Opens a blob whose chunks this process checked before: they are not read again, unless the file has another length. If that
    /// fails, its room is given back.
    pub(crate) fn reopen(self: &Arc<Self>, paused: PausedBlob) -> Result<PartialBlob, BlobError> {
        let PausedBlob {
            digest,
            tree,
            path,
            chunks,
            given_back,
        } = paused;
        let file = open_locked(&path, &digest).inspect_err(|_| self.release(given_back))?;
        let mut partial = PartialBlob {
            store: Arc::clone(self),
            digest,
            tree,
            file,
            path,
            chunks,
            given_back,
        };
        let end = partial.end();
        let length = partial.file.metadata().map(|meta| meta.len());
        if length.map_err(|source| partial.failed("read", source))? == end {
            let found = partial.file.seek(SeekFrom::Start(end));
            found.map_err(|source| partial.failed("seek", source))?;
        } else {
            partial.chunks = 0;
            partial.check_again()?;
        }
        Ok(partial)
    }

    /// Gives back the room of a blob that nobody goes on with for now; what came stays on the disk.
    pub(crate) fn leave(&self, paused: PausedBlob) {
        self.release(paused.into_room());
    }

    /// Removes what came of a blob.
    pub(crate) fn forget(&self, paused: PausedBlob) {
        self.release(paused.remove());
    }

    /// Removes partial blobs that nobody goes on with.
    pub(super) fn remove_old_partials(&self) {
        let Ok(entries) = fs::read_dir(self.root.join(PARTIAL)) else {
            return;
        };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|meta| meta.modified());
            let age = modified.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
            if age.is_ok_and(|age| age > KEPT_FOR) {
                // What cannot be removed is tried again at the next start.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

pub(super) fn name(digest: &Digest) -> String {
    digest.to_string().trim_start_matches("0x").to_owned()
}

/// Opens the file of a partial blob, or makes it, for this caller alone.
fn open_locked(path: &Path, digest: &Digest) -> Result<File, BlobError> {
    let failed = |source| io_error("open", path, source);
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    let file = options.open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(BlobError::Busy { digest: *digest }),
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

impl PartialBlob {
    /// The chunk that is missing next; `None` if all are here.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        let is_whole = self.chunks == self.tree.chunks();
        (!is_whole).then_some(self.chunks)
    }

    /// Counts the chunks that are here, and cuts off what is none.
    fn check_again(&mut self) -> Result<(), BlobError> {
        let mut bytes = Vec::new();
        while let Some(index) = self.next() {
            let wanted = self.tree.chunk_bytes(index).unwrap_or(0);
            bytes.clear();
            let read = (&mut self.file).take(wanted).read_to_end(&mut bytes);
            read.map_err(|source| self.failed("read", source))?;
            if !self.tree.is_chunk(&self.digest, index, &bytes) {
                break;
            }
            self.chunks += 1;
        }
        let end = self.end();
        let cut = self.file.set_len(end);
        cut.and_then(|()| self.file.seek(SeekFrom::Start(end)))
            .map_err(|source| self.failed("cut", source))?;
        Ok(())
    }

    /// The bytes of the whole, as its tree says.
    pub(crate) const fn size(&self) -> u64 {
        self.tree.size()
    }

    /// The bytes of the chunk that is missing next; none if all are here.
    pub(crate) fn next_bytes(&self) -> u64 {
        let bytes = self.next().and_then(|chunk| self.tree.chunk_bytes(chunk));
        bytes.unwrap_or(0)
    }

    /// The bytes of the chunks that are here, which is where the file ends.
    pub(crate) fn end(&self) -> u64 {
        (self.chunks * CHUNK_BYTES).min(self.tree.size())
    }

    /// Closes the file and keeps the room that the whole takes.
    pub(crate) fn pause(mut self) -> PausedBlob {
        PausedBlob {
            digest: self.digest,
            tree: self.tree.clone(),
            path: self.path.clone(),
            chunks: self.chunks,
            given_back: std::mem::take(&mut self.given_back),
        }
    }

    /// Takes the chunk that is missing next; false if these bytes are not it, and nothing is kept then.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn put(&mut self, bytes: &[u8]) -> Result<bool, BlobError> {
        if !self.tree.is_chunk(&self.digest, self.chunks, bytes) {
            return Ok(false);
        }
        let written = self.file.write_all(bytes);
        written.map_err(|source| self.failed("write", source))?;
        self.chunks += 1;
        Ok(true)
    }

    /// Holds the blob, of which all chunks are here.
    ///
    /// # Errors
    /// [`BlobError::Incomplete`] if some are missing; if the file system fails.
    pub fn finish(mut self) -> Result<Stored, BlobError> {
        if let Some(chunk) = self.next() {
            return Err(BlobError::Incomplete {
                digest: self.digest,
                chunk,
            });
        }
        if self.store.is_intact(&self.digest)? {
            // What cannot be removed now is when it is old.
            let _ = fs::remove_file(&self.path);
            return Ok(Stored::Held);
        }
        let synced = self.file.sync_all();
        synced.map_err(|source| self.failed("sync", source))?;
        let replaced = self.store.adopt(&self.path, &self.digest);
        self.given_back = replaced.map_err(|source| self.failed("rename", source))?;
        Ok(Stored::New)
    }

    fn failed(&self, action: &'static str, source: io::Error) -> BlobError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::DiskFull {
                bytes: self.tree.size(),
                source,
            },
            _ => io_error(action, &self.path, source),
        }
    }
}

impl Drop for PartialBlob {
    fn drop(&mut self) {
        // Unfinished ones count while they arrive, and not beside what is held.
        self.store.release(self.given_back);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const CHUNK: usize = CHUNK_BYTES as usize;

    fn store(folder: &tempfile::TempDir) -> Arc<BlobStore> {
        Arc::new(BlobStore::open(&folder.path().join("blobs"), 10 * CHUNK_BYTES).unwrap())
    }

    fn blob(chunks: usize) -> Vec<u8> {
        (0..chunks * CHUNK + 77)
            .map(|at| (at / 3 % 251) as u8)
            .collect()
    }

    #[test]
    fn a_blob_goes_on_where_it_broke_off_and_refuses_changed_chunks() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = store(&there);
        let bytes = blob(3);
        let limit = 10 * CHUNK_BYTES;
        let digest = source.put(&bytes, limit).unwrap();
        let tree = source.chunk_tree(&digest, limit).unwrap().unwrap();
        let chunk = |index| source.chunk(&digest, index).unwrap();
        assert_eq!(chunk(4), None);
        let target = store(&here);
        let mut partial = target.resume(&digest, tree.clone(), limit).unwrap();
        assert_eq!(target.used_bytes(), bytes.len() as u64);
        assert!(matches!(
            target.resume(&digest, tree.clone(), limit),
            Err(BlobError::Busy { .. })
        ));
        assert!(partial.put(&chunk(0).unwrap()).unwrap());
        let mut changed = chunk(1).unwrap();
        changed[5] ^= 1;
        assert!(!partial.put(&changed).unwrap());
        assert!(!partial.put(&chunk(2).unwrap()).unwrap());
        assert!(partial.put(&chunk(1).unwrap()).unwrap());
        assert_eq!(partial.next(), Some(2));
        drop(partial);
        assert_eq!(target.used_bytes(), 0);
        drop(target);

        // Another process, after some of what was written was lost and garbled.
        let path = here.path().join("blobs").join(PARTIAL).join(name(&digest));
        let mut file = fs::read(&path).unwrap();
        assert_eq!(file.len(), 2 * CHUNK);
        file[CHUNK + 9] ^= 1;
        fs::write(&path, file).unwrap();
        let target = store(&here);
        let mut partial = target.resume(&digest, tree.clone(), limit).unwrap();
        assert_eq!(partial.next(), Some(1), "the first chunk is not sent again");
        for index in 1..4 {
            assert_eq!(partial.next(), Some(index));
            assert!(partial.put(&chunk(index).unwrap()).unwrap());
        }
        assert_eq!(partial.finish().unwrap(), Stored::New);
        assert_eq!(target.get(&digest, limit).unwrap().unwrap(), bytes);
        assert_eq!(target.used_bytes(), bytes.len() as u64);
        assert!(!path.exists());
        let partial = target.resume(&digest, tree, limit).unwrap();
        assert_eq!(partial.next(), Some(0));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (source, target) = (store(&there), store(&here));
        let limit = 10 * CHUNK_BYTES;
        let digest = source.put(&blob(1), limit).unwrap();
        let tree = source.chunk_tree(&digest, limit).unwrap().unwrap();
        let other = source.put(&blob(2), limit).unwrap();
        let wrong = target.resume(&other, tree.clone(), limit).unwrap_err();
        assert!(matches!(wrong, BlobError::WrongTree { .. }), "{wrong}");
        let large = target.resume(&digest, tree.clone(), CHUNK_BYTES);
        assert!(matches!(large, Err(BlobError::TooLarge { .. })));
        let partial = target.resume(&digest, tree, limit).unwrap();
        let incomplete = partial.finish().unwrap_err();
        assert!(matches!(incomplete, BlobError::Incomplete { chunk: 0, .. }));
        assert_eq!(target.used_bytes(), 0);
        assert_eq!(source.chunk_tree(&Digest::default(), limit).unwrap(), None);
        // An empty blob is whole before any chunk comes.
        for bytes in [&b""[..], b"x"] {
            let digest = source.put(bytes, limit).unwrap();
            let tree = source.chunk_tree(&digest, limit).unwrap().unwrap();
            let mut partial = target.resume(&digest, tree, limit).unwrap();
            while let Some(index) = partial.next() {
                let chunk = source.chunk(&digest, index).unwrap().unwrap();
                assert!(partial.put(&chunk).unwrap());
            }
            assert_eq!(partial.finish().unwrap(), Stored::New);
            assert!(target.contains(&digest));
        }
    }

    #[test]
    fn old_partial_blobs_are_removed_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        drop(store(&folder));
        let partial = folder.path().join("blobs").join(PARTIAL);
        fs::create_dir_all(&partial).unwrap();
        let (old, new) = (partial.join("old"), partial.join("new"));
        for path in [&old, &new] {
            fs::write(path, b"some").unwrap();
        }
        let long_ago = SystemTime::now() - 2 * KEPT_FOR;
        let file = File::options().write(true).open(&old).unwrap();
        file.set_modified(long_ago).unwrap();
        let store = store(&folder);
        assert!(!old.exists() && new.exists());
        assert_eq!(store.used_bytes(), 0);
    }
}
