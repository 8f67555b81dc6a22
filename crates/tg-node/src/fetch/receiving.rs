//! A blob on its way from other validators: a small one as a whole, a larger one in chunks of a MiB, each of which is checked when all
//! of its parts are here, and then kept whoever sends the next.

use std::sync::Arc;

use tg_types::Digest;
use tg_types::chunks::{CHUNK_BYTES, ChunkTree};

use crate::blob::{BlobError, BlobStore, Incoming, PartialBlob, PausedBlob};
use crate::limits::BLOB_CHUNK_BYTES;

// A part lies in one chunk.
const _: () = assert!(CHUNK_BYTES.is_multiple_of(BLOB_CHUNK_BYTES as u64));

/// A blob on its way.
#[derive(Debug)]
pub(super) enum Receiving {
    /// One of a chunk at most: its name is the hash of all of it.
    Whole(Incoming),
    /// A larger one.
    Chunks {
        /// The chunks that are here.
        partial: PartialBlob,
        /// What came of the next.
        begun: Vec<u8>,
    },
}

impl Receiving {
    /// A blob of one chunk at most.
    pub(super) fn whole(
        store: &Arc<BlobStore>,
        digest: Digest,
        (total, limit): (u64, u64),
    ) -> Result<Self, BlobError> {
        Incoming::begin(store, digest, total, limit).map(Self::Whole)
    }

    /// A larger blob, whose chunks these are said to be. What is here of it is looked at, and not asked for again.
    pub(super) fn chunks(
        store: &Arc<BlobStore>,
        digest: &Digest,
        (tree, limit): (ChunkTree, u64),
    ) -> Result<Self, BlobError> {
        store.resume(digest, tree, limit).map(Self::of)
    }

    /// Goes on with a blob that was put aside.
    pub(super) fn going_on(store: &Arc<BlobStore>, paused: PausedBlob) -> Result<Self, BlobError> {
        store.reopen(paused).map(Self::of)
    }

    fn of(partial: PartialBlob) -> Self {
        Self::Chunks {
            partial,
            begun: Vec::new(),
        }
    }

    /// Bytes that came.
    pub(super) fn received(&self) -> u64 {
        match self {
            Self::Whole(incoming) => incoming.received(),
            Self::Chunks { partial, begun } => partial.end() + begun.len() as u64,
        }
    }

    /// Bytes of the whole.
    pub(super) const fn total(&self) -> u64 {
        match self {
            Self::Whole(incoming) => incoming.total(),
            Self::Chunks { partial, .. } => partial.size(),
        }
    }

    /// Adds the next part; false if it ends a chunk that is not the one of its place.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<bool, BlobError> {
        match self {
            Self::Whole(incoming) => incoming.append(bytes).map(|()| true),
            Self::Chunks { partial, begun } => {
                begun.extend_from_slice(bytes);
                if (begun.len() as u64) < partial.next_bytes() {
                    return Ok(true);
                }
                let is_it = partial.put(begun)?;
                begun.clear();
                Ok(is_it)
            }
        }
    }

    /// Keeps the blob, all of which came.
    pub(super) fn finish(self) -> Result<(), BlobError> {
        match self {
            Self::Whole(incoming) => incoming.finish(),
            Self::Chunks { partial, .. } => partial.finish().map(drop),
        }
    }

    /// Puts the chunks aside that are here; nothing if there is none.
    pub(super) fn aside(self, store: &BlobStore) -> Option<PausedBlob> {
        let Self::Chunks { partial, .. } = self else {
            return None;
        };
        let is_begun = partial.end() > 0;
        let paused = partial.pause();
        if !is_begun {
            store.forget(paused);
            return None;
        }
        Some(paused)
    }
}
