//! Chunks of large files, kept on disk while the files are downloaded, so that a provider that is killed asks for none again.
//!
//! `FOLDER/<digest>` has the chunks of a file from the first one on. They are checked again when the download continues, so
//! the file need not be trusted. It is removed once the whole file is there, after a day without progress, or when other files
//! need the room. If the disk fails, files are downloaded without it.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tg_sdk::{Client, ClientError};
use tg_types::Digest;
use tg_types::chunks::{CHUNK_BYTES, ChunkTree};

/// Most bytes of all parts: four of the largest models of the grid.
const PARTS_BYTES_MAX: u64 = 1 << 30;

/// Parts that nobody went on with for so long are removed when the next file is pulled.
const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Where parts of files are kept.
#[derive(Debug, Clone)]
pub(super) struct PartsFolder {
    path: PathBuf,
    bytes_max: u64,
}

/// A file of which some chunks are on disk. Dropping it keeps them.
#[derive(Debug)]
struct PartFile {
    file: File,
    path: PathBuf,
}

/// The chunks of a file that are here, from the first one on.
#[derive(Debug, Default)]
struct PulledChunks {
    bytes: Vec<u8>,
    count: u64,
}

/// Fetches a blob of at most `limit` bytes and checks its digest; one of several chunks goes on where it broke off, if there is a folder of parts.
pub(super) async fn pull(
    client: &Client,
    digest: Digest,
    limit: usize,
    folder: Option<&PartsFolder>,
) -> Result<Vec<u8>, ClientError> {
    let Some(folder) = folder.filter(|_| limit as u64 > CHUNK_BYTES) else {
        return client.blob(digest, limit).await;
    };
    let tree = Arc::new(client.checked_tree(digest, limit).await?);
    let begun = match tree.chunks() {
        1 => None,
        _ => {
            let (folder, tree) = (folder.clone(), Arc::clone(&tree));
            on_disk(move || folder.resume(&digest, &tree, limit as u64)).await
        }
    };
    let (mut part, chunks) = begun.unwrap_or_default();
    let PulledChunks { mut bytes, count } = chunks;
    for index in count..tree.chunks() {
        let chunk = client.checked_chunk(digest, &tree, index).await?;
        bytes.extend_from_slice(&chunk);
        if let Some(begun) = part {
            part = on_disk(move || begun.put(&chunk)).await;
        }
    }
    if let Some(whole) = part {
        on_disk(move || fs::remove_file(&whole.path)).await;
    }
    Ok(bytes)
}

/// Does what waits for the disk, on a thread that may. What fails there costs the parts and not the file.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Option<T> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.inspect_err(|error| tracing::warn!(%error, "parts of a file are not kept"))
        .ok()
}

impl PartsFolder {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            bytes_max: PARTS_BYTES_MAX,
        }
    }

    /// Goes on with a file, or begins it, with the chunks of it that are here; without a place for more if there is no room, or it is being
    /// pulled already. Files of at most `limit` bytes come here.
    fn resume(
        &self,
        digest: &Digest,
        tree: &ChunkTree,
        limit: u64,
    ) -> io::Result<(Option<PartFile>, PulledChunks)> {
        fs::create_dir_all(&self.path)?;
        let name = name(digest);
        if !self.make_room(name.as_ref(), tree.size(), limit)? {
            return Ok((None, PulledChunks::default()));
        }
        let path = self.path.join(name);
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = options.open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok((None, PulledChunks::default())),
            Err(TryLockError::Error(source)) => return Err(source),
        }
        let (mut bytes, mut count) = (Vec::new(), 0);
        while let Some(wanted) = tree.chunk_bytes(count) {
            let start = bytes.len();
            (&mut file).take(wanted).read_to_end(&mut bytes)?;
            // Stops: what a power cut, or somebody, left in the place of a chunk.
            if !tree.is_chunk(digest, count, &bytes[start..]) {
                bytes.truncate(start);
                break;
            }
            count += 1;
        }
        let end = bytes.len() as u64;
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        Ok((Some(PartFile { file, path }), PulledChunks { bytes, count }))
    }

    /// Removes parts of other files that are old, and the oldest of the rest until `size` bytes have room; false if they have none. One
    /// that is being pulled stays, and counts as the largest.
    fn make_room(&self, name: &OsStr, size: u64, limit: u64) -> io::Result<bool> {
        let mut others = Vec::new();
        let mut used = size;
        for entry in fs::read_dir(&self.path)?.flatten() {
            // What was removed meanwhile takes no room.
            let Ok(meta) = entry.metadata() else { continue };
            if entry.file_name() == name {
                continue;
            }
            if is_in_use(&entry.path()) {
                used += limit.max(meta.len());
            } else {
                used += meta.len();
                others.push((meta.modified()?, meta.len(), entry.path()));
            }
        }
        others.sort();
        let removable: u64 = others.iter().map(|(_, bytes, _)| bytes).sum();
        let can_fit = used - removable <= self.bytes_max;
        let now = SystemTime::now();
        for (modified, bytes, path) in others {
            let is_old = now.duration_since(modified).unwrap_or_default() > KEPT_FOR;
            let is_in_the_way = can_fit && used > self.bytes_max;
            if (is_old || is_in_the_way) && fs::remove_file(path).is_ok() {
                used -= bytes;
            }
        }
        Ok(used <= self.bytes_max)
    }
}

impl PartFile {
    /// Adds the chunk that comes next.
    fn put(mut self, chunk: &[u8]) -> io::Result<Self> {
        if let Err(error) = self.file.write_all(chunk) {
            // A full disk gets back what this had: the file comes without it.
            let _ = fs::remove_file(&self.path);
            return Err(error);
        }
        Ok(self)
    }
}

fn name(digest: &Digest) -> String {
    digest.to_string().trim_start_matches("0x").to_owned()
}

/// Whether a file is being pulled, here or by another process.
fn is_in_use(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests;
