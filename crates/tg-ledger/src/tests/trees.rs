//! The state tree against a tree written the slow and obvious way.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tg_types::keccak256;

use crate::tree::{DEPTH, EMPTY_LEAF, Leaf, Tree};

/// The root over `height` levels of the leaves from `start` on, straight from the definition. Subtrees without
/// leaves are hashed once for each height.
fn naive(leaves: &BTreeMap<u32, Leaf>, start: u64, height: usize, empty: &[[u8; 32]]) -> [u8; 32] {
    let end = start + (1u64 << height);
    let is_empty = !leaves
        .keys()
        .any(|index| (start..end).contains(&u64::from(*index)));
    if is_empty {
        return empty[height];
    }
    if height == 0 {
        return leaves[&u32::try_from(start).unwrap()];
    }
    let half = 1u64 << (height - 1);
    let mut bytes = naive(leaves, start, height - 1, empty).to_vec();
    bytes.extend_from_slice(&naive(leaves, start + half, height - 1, empty));
    keccak256(&bytes)
}

fn empty_hashes() -> Vec<[u8; 32]> {
    let mut hashes = vec![[0; 32]];
    for _ in 0..DEPTH {
        let last = *hashes.last().unwrap();
        hashes.push(keccak256(&[last, last].concat()));
    }
    hashes
}

#[test]
fn the_empty_tree_is_the_one_of_other_programs() {
    // Root of a keccak-256 tree of depth 32 over zero leaves, as in Ethereum's deposit-like trees.
    assert_eq!(
        Tree::default().root().to_string(),
        "0x27ae5ba08d7291c96c8cbddcc148bf48a6d68c7974b94356f53754ef6171d757"
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x72ee),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn updates_in_any_portions_lead_to_the_naive_root(
        portions in proptest::collection::vec(
            proptest::collection::btree_map(
                prop_oneof![0..32u32, any::<u32>()],
                prop_oneof![4 => any::<[u8; 32]>(), 1 => Just(EMPTY_LEAF)],
                0..12,
            ),
            0..6,
        ),
    ) {
        let empty = empty_hashes();
        let mut tree = Tree::default();
        let mut leaves = BTreeMap::new();
        for portion in portions {
            let older = tree.clone();
            let root = older.root();
            let changes: Vec<_> = portion.iter().map(|(index, leaf)| (*index, *leaf)).collect();
            tree.update(&changes);
            leaves.extend(portion);
            leaves.retain(|_, leaf| *leaf != EMPTY_LEAF);
            prop_assert_eq!(older.root(), root);
            prop_assert_eq!(*tree.root().as_bytes(), naive(&leaves, 0, DEPTH, &empty));
        }
        for (index, leaf) in &leaves {
            let mut hash = *leaf;
            for (height, sibling) in tree.siblings(*index).iter().enumerate() {
                hash = match index >> height & 1 {
                    0 => keccak256(&[hash, *sibling].concat()),
                    _ => keccak256(&[*sibling, hash].concat()),
                };
            }
            prop_assert_eq!(hash, *tree.root().as_bytes());
        }
        // Taking every leaf away leads back to the empty tree.
        let gone: Vec<_> = leaves.keys().map(|index| (*index, EMPTY_LEAF)).collect();
        tree.update(&gone);
        prop_assert_eq!(tree.root(), Tree::default().root());
    }
}
