//! Blobs in chunks that are checked one by one.
//!
//! A blob's name is the BLAKE3 hash of its bytes, the root of a binary tree over them. A [`ChunkTree`] is the level of that
//! tree whose nodes each cover [`CHUNK_BYTES`] (32 bytes a chunk: 32 kB for 1 GiB). Merged, its nodes must give the name;
//! then each chunk is checked as it arrives, in any order and from any sender, so that an interrupted transfer continues
//! where it stopped and a changed byte costs one chunk. Source: the BLAKE3 specification, sections 2.1 and 5.1.2, and
//! `blake3::hazmat`.

use blake3::hazmat::merge_subtrees_root;
use blake3::hazmat::{HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root};

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;

/// Bytes of a chunk but the last: a complete subtree of BLAKE3.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// Most chunks of a blob: 16 GiB.
pub const CHUNKS_MAX: usize = 1 << 14;

/// The size of a blob and the nodes of its hash tree that stand for its chunks; without nodes, the blob is one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkTree {
    size: u64,
    nodes: Vec<[u8; 32]>,
}

impl ChunkTree {
    /// The blob's bytes. If a sender lies about them by less than a chunk, no bytes are the last chunk.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// How many chunks it has: one at least.
    #[must_use]
    pub const fn chunks(&self) -> u64 {
        chunks_of(self.size)
    }

    /// The bytes of a chunk; nothing if there is no such chunk.
    #[must_use]
    pub fn chunk_bytes(&self, index: u64) -> Option<u64> {
        let start = index.checked_mul(CHUNK_BYTES)?;
        let is_there = index < self.chunks();
        is_there.then(|| (self.size - start).min(CHUNK_BYTES))
    }

    /// Whether these are the nodes of the blob of this name. Takes about 0.1 us a chunk.
    #[must_use]
    pub fn is_of(&self, digest: &Digest) -> bool {
        match self.nodes.as_slice() {
            [] => self.size <= CHUNK_BYTES,
            nodes => root(nodes, self.size) == *digest.as_bytes(),
        }
    }

    /// Whether the first so many chunks of another tree of the same blob are chunks of this one too, the last of neither among them.
    #[must_use]
    pub fn begins_like(&self, other: &Self, chunks: u64) -> bool {
        let count = usize::try_from(chunks).unwrap_or(usize::MAX);
        let mut pairs = self.nodes.iter().zip(&other.nodes).take(count);
        chunks < self.chunks().min(other.chunks()) && pairs.all(|(own, its)| own == its)
    }

    /// Whether these bytes are the chunk with this number of the blob of this name, whose tree this is.
    #[must_use]
    pub fn is_chunk(&self, digest: &Digest, index: u64, bytes: &[u8]) -> bool {
        if self.chunk_bytes(index) != Some(bytes.len() as u64) {
            return false;
        }
        if self.nodes.is_empty() {
            return Digest::of_blob(bytes) == *digest;
        }
        let node = usize::try_from(index)
            .ok()
            .and_then(|it| self.nodes.get(it));
        node.is_some_and(|node| *node == chunk_node(index, bytes))
    }
}

const fn chunks_of(size: u64) -> u64 {
    if size == 0 {
        1
    } else {
        size.div_ceil(CHUNK_BYTES)
    }
}

/// The node of a chunk of a blob that has several.
fn chunk_node(index: u64, bytes: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(index * CHUNK_BYTES);
    hasher.update(bytes).finalize_non_root()
}

/// The hash of a blob of several chunks, from their nodes.
fn root(nodes: &[[u8; 32]], size: u64) -> [u8; 32] {
    let (left, right, left_size) = split(nodes, size);
    let left = node(left, left_size);
    let right = node(right, size - left_size);
    *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()
}

/// The node above those of some chunks; at most 14 levels.
fn node(nodes: &[[u8; 32]], size: u64) -> [u8; 32] {
    match nodes {
        [only] => *only,
        several => {
            let (left, right, left_size) = split(several, size);
            let left = node(left, left_size);
            let right = node(right, size - left_size);
            merge_subtrees_non_root(&left, &right, Mode::Hash)
        }
    }
}

/// Nodes below the left and the right child of a node above several chunks, and the bytes of the left one.
fn split(nodes: &[[u8; 32]], size: u64) -> (&[[u8; 32]], &[[u8; 32]], u64) {
    let left_size = left_subtree_len(size);
    let count = usize::try_from(left_size / CHUNK_BYTES).unwrap_or(usize::MAX);
    let (left, right) = nodes.split_at(count.min(nodes.len()));
    (left, right, left_size)
}

impl Encode for ChunkTree {
    fn encode(&self, writer: &mut Writer) {
        let Self { size, nodes } = self;
        writer.u64(*size);
        writer.count(nodes.len());
        nodes.iter().for_each(|node| writer.raw(node));
    }
}

impl Decode for ChunkTree {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let size = reader.u64()?;
        let count = reader.count("chunks", CHUNKS_MAX, 32)?;
        // As many as the size says, so that merging them is total.
        let expected = match chunks_of(size) {
            1 => 0,
            chunks => chunks,
        };
        if count as u64 != expected {
            return Err(DecodeError::Invalid {
                field: "number of chunks",
                value: count as u64,
            });
        }
        let nodes = (0..count)
            .map(|_| reader.array())
            .collect::<Result<_, _>>()?;
        Ok(Self { size, nodes })
    }
}

/// Makes the tree of a blob that is read piece by piece.
#[derive(Debug, Clone, Default)]
pub struct ChunkTreeBuilder {
    size: u64,
    hasher: blake3::Hasher,
    nodes: Vec<[u8; 32]>,
}

impl ChunkTreeBuilder {
    /// Takes the next piece.
    pub fn update(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let within = self.size % CHUNK_BYTES;
            if within == 0 && self.size > 0 {
                self.end_chunk();
            }
            let room = usize::try_from(CHUNK_BYTES - within).unwrap_or(usize::MAX);
            let (now, later) = piece.split_at(room.min(piece.len()));
            self.hasher.update(now);
            self.size += now.len() as u64;
            piece = later;
        }
    }

    fn end_chunk(&mut self) {
        self.nodes.push(self.hasher.finalize_non_root());
        self.hasher = blake3::Hasher::new();
        self.hasher.set_input_offset(self.size);
    }

    /// The tree of all pieces; nothing if there are more than [`CHUNKS_MAX`] chunks.
    #[must_use]
    pub fn finish(mut self) -> Option<ChunkTree> {
        if self.size > CHUNK_BYTES {
            self.nodes.push(self.hasher.finalize_non_root());
        }
        let Self { size, nodes, .. } = self;
        (nodes.len() <= CHUNKS_MAX).then_some(ChunkTree { size, nodes })
    }
}
