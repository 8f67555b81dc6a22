//! Parts of a blob, proved to belong to it by its digest.
//!
//! A blob's name is the BLAKE3 hash of its bytes, the root of a binary tree over leaves of [`LEAF_BYTES`]. [`OpenedLeaves`]
//! contains some of the leaves and the fewest inner nodes from which the root follows, in the order of a left-to-right walk:
//! half a node to one node per leaf where many leaves are adjacent, as many as the tree is deep for a single leaf. Source: the
//! BLAKE3 specification, sections 2.1 and 5.1.2, and `blake3::hazmat`.

use blake3::hazmat::{
    HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;

/// Bytes of a leaf but the last: a chunk of BLAKE3.
pub const LEAF_BYTES: usize = 1024;

/// Most leaves of one blob that are opened at once: 64 MiB.
pub const OPENED_MAX: usize = 1 << 16;

/// Most nodes beside an opened leaf: the depth of a tree over 2^32 leaves.
const DEPTH_MAX: usize = 32;

/// How many leaves a blob of this size has; one at least.
#[must_use]
pub const fn leaves_of(size: u64) -> u64 {
    if size == 0 {
        1
    } else {
        size.div_ceil(LEAF_BYTES as u64)
    }
}

/// Some leaves of a blob, and what shows that they are its.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedLeaves {
    /// Which, ascending.
    leaves: Vec<u32>,
    /// The nodes of everything that is not opened, in order.
    nodes: Vec<[u8; 32]>,
    /// The leaves one after the other; only the blob's last one can be shorter.
    bytes: Vec<u8>,
}

impl OpenedLeaves {
    /// Opens leaves of a blob, which are named in ascending order. Hashes the whole blob once.
    ///
    /// # Panics
    /// If a leaf lies behind the blob's end, or there is none.
    #[must_use]
    pub fn of(blob: &[u8], leaves: impl IntoIterator<Item = u32>) -> Self {
        let leaves: Vec<u32> = leaves.into_iter().collect();
        let behind = leaves_of(blob.len() as u64);
        assert!(leaves.is_sorted_by(|a, b| a < b), "ascending leaves");
        let last = leaves.last().expect("at least one leaf");
        assert!(u64::from(*last) < behind, "leaves of the blob");
        let mut opened = Self {
            leaves: leaves.clone(),
            nodes: Vec::new(),
            bytes: Vec::new(),
        };
        opened.gather(blob, 0, &leaves);
        opened
    }

    /// Gathers what a subtree that begins at a byte has of the opening.
    fn gather(&mut self, subtree: &[u8], start: u64, leaves: &[u32]) {
        if leaves.is_empty() {
            self.nodes.push(subtree_node(subtree, start));
        } else if subtree.len() <= LEAF_BYTES {
            self.bytes.extend_from_slice(subtree);
        } else {
            let half = left_subtree_len(subtree.len() as u64);
            let (left, right) = leaves.split_at(first_from(leaves, start + half));
            let cut = usize::try_from(half).expect("a part of a slice");
            self.gather(&subtree[..cut], start, left);
            self.gather(&subtree[cut..], start + half, right);
        }
    }

    /// Whether these are leaves of the blob of this name and size. Total; hashes what is opened. The size is the caller's: that it
    /// is the blob's follows only if the last leaf is open.
    #[must_use]
    pub fn are_of(&self, digest: &Digest, size: u64) -> bool {
        let ends = self.leaves.last().map(|&last| u64::from(last));
        if ends.is_none_or(|last| last >= leaves_of(size)) {
            return false;
        }
        let mut walk = OpeningWalk {
            nodes: &self.nodes,
            bytes: &self.bytes,
        };
        let is_same = if size <= LEAF_BYTES as u64 {
            let all = walk.take(size);
            all.is_some_and(|all| Digest::of_blob(all) == *digest)
        } else {
            let half = left_subtree_len(size);
            let (left, right) = self.leaves.split_at(first_from(&self.leaves, half));
            let left = walk.node(0, half, left);
            let right = walk.node(half, size - half, right);
            left.zip(right).is_some_and(|(left, right)| {
                merge_subtrees_root(&left, &right, Mode::Hash).as_bytes() == digest.as_bytes()
            })
        };
        is_same && walk.nodes.is_empty() && walk.bytes.is_empty()
    }

    /// Which leaves are open, ascending.
    #[must_use]
    pub fn leaves(&self) -> &[u32] {
        &self.leaves
    }

    /// The leaves one after the other.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The nodes of all leaves of a blob, in order, from which its name follows: 32 bytes for each [`LEAF_BYTES`]. Of a blob that is one leaf
/// it is the name itself. Hashes the blob once.
#[must_use]
pub fn leaf_nodes(blob: &[u8]) -> Vec<[u8; 32]> {
    let is_only = blob.len() <= LEAF_BYTES;
    if is_only {
        return vec![*Digest::of_blob(blob).as_bytes()];
    }
    let leaves = blob.chunks(LEAF_BYTES).enumerate();
    let node = |(number, leaf): (usize, &[u8])| subtree_node(leaf, (number * LEAF_BYTES) as u64);
    leaves.map(node).collect()
}

/// The node of one leaf of a blob of `size` bytes, as [`leaf_nodes`] has it.
#[must_use]
pub fn leaf_node(leaf: &[u8], number: u32, size: u64) -> [u8; 32] {
    match leaves_of(size) {
        1 => *Digest::of_blob(leaf).as_bytes(),
        _ => subtree_node(leaf, u64::from(number) * LEAF_BYTES as u64),
    }
}

/// The name of a blob of `size` bytes whose leaves have these nodes; nothing if they are not as many as it has leaves.
#[must_use]
pub fn name_of_leaves(nodes: &[[u8; 32]], size: u64) -> Option<Digest> {
    if nodes.len() as u64 != leaves_of(size) {
        return None;
    }
    if let [only] = nodes {
        return Some(Digest::new(*only));
    }
    let [left, right] = children(nodes, size);
    let root = merge_subtrees_root(&left, &right, Mode::Hash);
    Some(Digest::new(*root.as_bytes()))
}

/// The two nodes below one over leaves of `size` bytes, which are at least two.
fn children(nodes: &[[u8; 32]], size: u64) -> [[u8; 32]; 2] {
    let half = left_subtree_len(size);
    let cut = usize::try_from(half / LEAF_BYTES as u64).expect("a part of a slice");
    let (left, right) = nodes.split_at(cut);
    [node_over(left, half), node_over(right, size - half)]
}

/// The node over leaves that are not a whole blob: as deep as the blob's tree.
fn node_over(nodes: &[[u8; 32]], size: u64) -> [u8; 32] {
    if let [only] = nodes {
        return *only;
    }
    let [left, right] = children(nodes, size);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

/// How many leaves lie before a byte, which is where a leaf begins.
fn first_from(leaves: &[u32], byte: u64) -> usize {
    leaves.partition_point(|&leaf| u64::from(leaf) * (LEAF_BYTES as u64) < byte)
}

/// The node over some bytes that are not a whole blob.
fn subtree_node(bytes: &[u8], start: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(start);
    hasher.update(bytes).finalize_non_root()
}

/// What is not used yet of an opening.
struct OpeningWalk<'a> {
    nodes: &'a [[u8; 32]],
    bytes: &'a [u8],
}

impl<'a> OpeningWalk<'a> {
    fn take(&mut self, bytes: u64) -> Option<&'a [u8]> {
        let (now, later) = self.bytes.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.bytes = later;
        Some(now)
    }

    /// The node of a subtree; its depth is at most that of the blob's tree.
    fn node(&mut self, start: u64, size: u64, leaves: &[u32]) -> Option<[u8; 32]> {
        if leaves.is_empty() {
            let (now, later) = self.nodes.split_first()?;
            self.nodes = later;
            return Some(*now);
        }
        if size <= LEAF_BYTES as u64 {
            return Some(subtree_node(self.take(size)?, start));
        }
        let half = left_subtree_len(size);
        let (left, right) = leaves.split_at(first_from(leaves, start + half));
        let left = self.node(start, half, left)?;
        let right = self.node(start + half, size - half, right)?;
        Some(merge_subtrees_non_root(&left, &right, Mode::Hash))
    }
}

impl Encode for OpenedLeaves {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            leaves,
            nodes,
            bytes,
        } = self;
        writer.count(leaves.len());
        leaves.iter().for_each(|&leaf| writer.u32(leaf));
        writer.count(nodes.len());
        nodes.iter().for_each(|node| writer.raw(node));
        writer.bytes(bytes);
    }
}

impl Decode for OpenedLeaves {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count("opened leaves", OPENED_MAX, 4)?;
        let leaves: Vec<u32> = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        if leaves.is_empty() || !leaves.is_sorted_by(|a, b| a < b) {
            return Err(DecodeError::Invalid {
                field: "ascending leaves",
                value: count as u64,
            });
        }
        let nodes = reader.count("nodes beside leaves", count * DEPTH_MAX, 32)?;
        let nodes = (0..nodes)
            .map(|_| reader.array())
            .collect::<Result<_, _>>()?;
        let bytes = reader.bytes("leaves", count * LEAF_BYTES)?.to_vec();
        Ok(Self {
            leaves,
            nodes,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn blob(size: usize) -> Vec<u8> {
        (0..size).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    /// Some leaves of a blob, by a mask that repeats.
    fn some(size: usize, mask: u64) -> Vec<u32> {
        let all = u32::try_from(leaves_of(size as u64)).unwrap();
        (0..all)
            .filter(|leaf| mask >> (leaf % 61) & 1 == 1)
            .collect()
    }

    const SIZES: [usize; 11] = [
        0, 1, 1023, 1024, 1025, 2048, 2049, 5000, 16384, 16385, 70_001,
    ];

    #[test]
    fn what_is_opened_is_of_its_blob_alone() {
        for size in SIZES {
            for mask in [
                u64::MAX,
                1,
                0b1010_0110,
                1 << 2 | 1 << 40,
                0x1234_5678_9abc_def1,
            ] {
                let (blob, leaves) = (blob(size), some(size, mask));
                if leaves.is_empty() {
                    continue;
                }
                let opened = OpenedLeaves::of(&blob, leaves.clone());
                let digest = Digest::of_blob(&blob);
                assert!(opened.are_of(&digest, size as u64), "{size} {mask:x}");
                // The last leaf has the size with it.
                let has_last = leaves
                    .last()
                    .is_some_and(|&last| u64::from(last) + 1 == leaves_of(size as u64));
                assert!(!has_last || !opened.are_of(&digest, size as u64 + 1));
                assert!(!opened.are_of(&Digest::of_blob(b"other"), size as u64));
                let mut expected = Vec::new();
                for leaf in leaves {
                    let start = leaf as usize * LEAF_BYTES;
                    expected.extend_from_slice(&blob[start..size.min(start + LEAF_BYTES)]);
                }
                assert_eq!(opened.bytes(), expected);
                let bytes = opened.to_bytes();
                assert_eq!(OpenedLeaves::from_bytes(&bytes).unwrap(), opened);
            }
        }
    }

    #[test]
    fn no_changed_byte_is_taken() {
        let blob = blob(9_000);
        let opened = OpenedLeaves::of(&blob, [1, 2, 8]);
        let digest = Digest::of_blob(&blob);
        let bytes = opened.to_bytes();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let is_taken = OpenedLeaves::from_bytes(&changed)
                .is_ok_and(|changed| changed.are_of(&digest, 9_000));
            assert!(!is_taken, "byte {at}");
        }
    }

    #[test]
    fn one_leaf_of_many_takes_the_depth_of_the_tree() {
        let blob = blob(1 << 20);
        let opened = OpenedLeaves::of(&blob, [77]);
        assert_eq!(opened.nodes.len(), 10);
        assert!(opened.are_of(&Digest::of_blob(&blob), 1 << 20));
    }
}
