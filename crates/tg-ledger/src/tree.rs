//! The state tree: keccak-256, fixed depth 32, one leaf for each key, linked in the order of keys.
//!
//! An unused place holds 32 zero bytes and a node is `keccak256(left ‖ right)`, so that an L1 contract walks a proof with 32
//! hashes and no branch on depth. Each leaf names the next key, so that one leaf proves that a key is absent. Unused subtrees
//! are not stored. Nodes are shared between versions: a block that changes `k` leaves makes at most `32 k` new nodes.

mod index;

use std::sync::{Arc, LazyLock};

use tg_types::StateRoot;

#[cfg(test)]
pub(crate) use index::Body;
pub(crate) use index::{BodyChanges, Leaves};
use tg_types::chain::node_hash;
pub use tg_types::chain::{
    DEPTH, EMPTY_LEAF, Leaf, LeafHead, LeafKey, LeafPath, Link, ProofError, StateProof,
    content_digest, free_leaf, kind,
};

/// Hash of an empty subtree of each height.
static EMPTY: LazyLock<[[u8; 32]; DEPTH + 1]> = LazyLock::new(|| {
    let mut hashes = [EMPTY_LEAF; DEPTH + 1];
    for height in 1..=DEPTH {
        hashes[height] = node_hash(&hashes[height - 1], &hashes[height - 1]);
    }
    hashes
});

#[derive(Debug)]
struct Node {
    hash: [u8; 32],
    left: Option<Arc<Self>>,
    right: Option<Arc<Self>>,
}

/// A version of the tree. Cloning is free.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    root: Option<Arc<Node>>,
}

impl Tree {
    /// The root hash.
    #[must_use]
    pub fn root(&self) -> StateRoot {
        StateRoot::new(hash_of(self.root.as_ref(), DEPTH))
    }

    /// Sets leaves; `changes` must be sorted by index without repetition.
    pub(crate) fn update(&mut self, changes: &[(u32, Leaf)]) {
        debug_assert!(changes.is_sorted_by(|left, right| left.0 < right.0));
        self.root = updated(self.root.as_ref(), DEPTH, changes);
    }

    /// The siblings of a leaf, from the leaf's own level up.
    #[must_use]
    pub fn siblings(&self, index: u32) -> [[u8; 32]; DEPTH] {
        let mut siblings = [[0; 32]; DEPTH];
        let mut node = self.root.as_ref();
        for height in (0..DEPTH).rev() {
            let (left, right) = node.map_or((None, None), |node| {
                (node.left.as_ref(), node.right.as_ref())
            });
            let (next, sibling) = match index >> height & 1 {
                0 => (left, right),
                _ => (right, left),
            };
            siblings[height] = hash_of(sibling, height);
            node = next;
        }
        siblings
    }
}

fn hash_of(node: Option<&Arc<Node>>, height: usize) -> [u8; 32] {
    node.map_or_else(|| EMPTY[height], |node| node.hash)
}

fn updated(node: Option<&Arc<Node>>, height: usize, changes: &[(u32, Leaf)]) -> Option<Arc<Node>> {
    let Some((_, first)) = changes.first() else {
        return node.cloned();
    };
    if height == 0 {
        return (*first != EMPTY_LEAF).then(|| {
            Arc::new(Node {
                hash: *first,
                left: None,
                right: None,
            })
        });
    }
    let below = height - 1;
    let (to_left, to_right) =
        changes.split_at(changes.partition_point(|(index, _)| index >> below & 1 == 0));
    let left = updated(node.and_then(|node| node.left.as_ref()), below, to_left);
    let right = updated(node.and_then(|node| node.right.as_ref()), below, to_right);
    if left.is_none() && right.is_none() {
        return None;
    }
    let hash = node_hash(
        &hash_of(left.as_ref(), below),
        &hash_of(right.as_ref(), below),
    );
    Some(Arc::new(Node { hash, left, right }))
}
