//! The leaves against a plain sorted map, and proofs against whoever forges them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tg_types::{Address, Amount, Decode, Encode, StateRoot};

use super::pruning::network;
use crate::record::Account;
use crate::state::State;
use crate::tree::{
    Body, BodyChanges, LeafHead, LeafKey, LeafPath, Leaves, ProofError, StateProof, Tree, kind,
};

fn key(name: u8) -> LeafKey {
    LeafKey::of(kind::ACCOUNT, &[name])
}

/// Leaves and tree together, as a state keeps them; leaf 0 has an empty body.
#[derive(Clone, Default)]
struct Model {
    leaves: Leaves,
    tree: Tree,
}

const FIRST_BODY: Body = [0; 32];

impl Model {
    fn apply(&mut self, changes: BodyChanges) {
        let mut values = self.leaves.apply(changes);
        let first = self.leaves.link(&LeafKey::FIRST);
        values.insert(0, first.leaf(&FIRST_BODY));
        let values: Vec<_> = values.into_iter().collect();
        self.tree.update(&values);
    }

    fn path(&self, index: u32, key: &LeafKey) -> LeafPath {
        LeafPath {
            index,
            link: self.leaves.link(key),
            siblings: self.tree.siblings(index),
        }
    }

    /// The root that follows from everything that is known, and from nothing that was kept.
    fn rebuilt_root(&self) -> StateRoot {
        let mut values = self.leaves.values();
        let first = self.leaves.link(&LeafKey::FIRST);
        values.insert(0, first.leaf(&FIRST_BODY));
        let values: Vec<_> = values.into_iter().collect();
        let mut tree = Tree::default();
        tree.update(&values);
        tree.root()
    }

    /// Which keys there are, by walking the links from leaf 0 as a stranger would, and at which places.
    fn walked(&self) -> BTreeMap<LeafKey, u32> {
        let mut found = BTreeMap::new();
        let mut link = self.leaves.link(&LeafKey::FIRST);
        while link.next_index != 0 {
            assert!(link.key < link.next_key);
            found.insert(link.next_key, link.next_index);
            link = self.leaves.link(&link.next_key);
        }
        found
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x1eaf),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn leaves_are_a_sorted_map_and_prove_what_they_have_and_lack(
        blocks in proptest::collection::vec(
            proptest::collection::btree_map(0..40u8, proptest::option::of(0..4u8), 0..16),
            1..12,
        ),
    ) {
        let (mut ours, mut plain) = (Model::default(), BTreeMap::<LeafKey, Body>::new());
        let mut most = 0;
        for block in blocks {
            let older = ours.clone();
            let root = older.tree.root();
            let change = |(name, body): (u8, Option<u8>)| (key(name), body.map(|it| [it; 32]));
            let changes: BodyChanges = block.into_iter().map(change).collect();
            for (key, body) in &changes {
                match body {
                    Some(body) => plain.insert(*key, *body),
                    None => plain.remove(key),
                };
            }
            ours.apply(changes);
            prop_assert_eq!(older.tree.root(), root);
            prop_assert_eq!(ours.rebuilt_root(), ours.tree.root());
            // Exactly one leaf for each key, and no place without an owner or twice.
            let walked = ours.walked();
            prop_assert!(walked.keys().eq(plain.keys()));
            prop_assert_eq!(ours.leaves.len(), plain.len());
            most = most.max(plain.len());
            let mut places: Vec<u32> = walked.into_values().collect();
            places.extend(ours.leaves.free().iter().copied());
            places.sort_unstable();
            prop_assert!(places.into_iter().eq(1..ours.leaves.unused()));
            // Taking leaves away comes first, so no more places are ever used than there were leaves at once.
            prop_assert!(ours.leaves.unused() as usize <= most + 1);
        }
        let root = ours.tree.root();
        for name in 0..=255 {
            let key = key(name);
            match (plain.get(&key), ours.leaves.get(&key)) {
                (Some(body), Some((index, found))) => {
                    prop_assert_eq!(*body, found);
                    prop_assert_eq!(ours.path(index, &key).root(body), root);
                }
                (None, None) => {
                    let (low, index, body) = ours
                        .leaves
                        .before(&key)
                        .unwrap_or((LeafKey::FIRST, 0, FIRST_BODY));
                    let proof = StateProof::Absent {
                        path: ours.path(index, &low),
                        body,
                    };
                    prop_assert_eq!(proof.verify(&root, &key), Ok(None));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}

fn address(name: u8) -> Address {
    Address::new([name; 20])
}

fn populated() -> State {
    let mut state = network();
    for name in 1..60 {
        state.put_account(Account::new(address(name), Amount::new(u128::from(name))));
    }
    state.seal();
    for name in 20..30 {
        state.accounts.remove(&address(name));
    }
    state.seal();
    state
}

fn account_key(name: u8) -> LeafKey {
    LeafKey::of(kind::ACCOUNT, address(name).as_ref())
}

#[test]
fn a_head_is_read_without_the_record() {
    let state = populated();
    let proof = state.prove_account(&address(7));
    let (head, _) = proof
        .verify(&state.root(), &account_key(7))
        .unwrap()
        .unwrap();
    assert_eq!((head.owner, head.amount), (address(7), Amount::new(7)));
    assert_eq!((head.kind, head.deposit), (kind::ACCOUNT, Amount::ZERO));
    assert_eq!(StateProof::from_bytes(&proof.to_bytes()), Ok(proof));
    for name in (20..30).chain(60..=255) {
        let proof = state.prove_account(&address(name));
        assert!(matches!(proof, StateProof::Absent { .. }));
        assert_eq!(proof.verify(&state.root(), &account_key(name)), Ok(None));
        assert_eq!(StateProof::from_bytes(&proof.to_bytes()), Ok(proof));
    }
}

/// Every way to change one field of a proof that leaves its key and what it says about it alone.
fn forgeries(path: &LeafPath) -> Vec<LeafPath> {
    let mut forged = Vec::new();
    let mut with = |change: &dyn Fn(&mut LeafPath)| {
        let mut path = path.clone();
        change(&mut path);
        forged.push(path);
    };
    with(&|path| path.index ^= 1);
    with(&|path| path.index ^= 1 << 31);
    with(&|path| path.link.next_index ^= 1);
    with(&|path| path.siblings[0][0] ^= 1);
    with(&|path| path.siblings[31][31] ^= 1);
    forged
}

#[test]
fn forged_proofs_of_a_leaf_are_refused() {
    let state = populated();
    let (root, key) = (state.root(), account_key(7));
    let StateProof::Present {
        path,
        head,
        content,
    } = state.prove_account(&address(7))
    else {
        panic!("the account is there");
    };
    let mut forged = Vec::new();
    for path in forgeries(&path) {
        forged.push((path, head, content));
    }
    let heads = [
        LeafHead { kind: 2, ..head },
        LeafHead { state: 1, ..head },
        LeafHead {
            owner: address(8),
            ..head
        },
        LeafHead {
            amount: Amount::new(8),
            ..head
        },
        LeafHead {
            payer: address(8),
            ..head
        },
        LeafHead {
            deposit: Amount::new(1),
            ..head
        },
    ];
    forged.extend(heads.map(|head| (path.clone(), head, content)));
    forged.push((path.clone(), head, [1; 32]));
    for (path, head, content) in forged {
        let got = path.root(&head.body(&content));
        let proof = StateProof::Present {
            path,
            head,
            content,
        };
        let expected = root;
        assert_eq!(
            proof.verify(&root, &key),
            Err(ProofError::WrongRoot { expected, got })
        );
    }
    // A true proof of another leaf, and a true proof in an older state.
    let other = state.prove_account(&address(8));
    let (expected, got) = (key, account_key(8));
    assert_eq!(
        other.verify(&root, &key),
        Err(ProofError::WrongKey { expected, got })
    );
    let old = network();
    let proof = StateProof::Present {
        path,
        head,
        content,
    };
    let (expected, got) = (old.root(), root);
    assert_eq!(
        proof.verify(&old.root(), &key),
        Err(ProofError::WrongRoot { expected, got })
    );
}

#[test]
fn forged_proofs_of_absence_are_refused() {
    let state = populated();
    let (root, key) = (state.root(), account_key(100));
    let StateProof::Absent { path, body } = state.prove_account(&address(100)) else {
        panic!("the account is not there");
    };
    // A leaf that is there, said to be missing by each leaf in turn, as it stands.
    let there = account_key(7);
    for name in (1..20).chain(30..60) {
        let low = account_key(name);
        let (index, body) = state.leaves.get(&low).unwrap();
        let path = LeafPath {
            index,
            link: state.leaves.link(&low),
            siblings: state.tree.siblings(index),
        };
        let next = path.link.next_key;
        let proof = StateProof::Absent { path, body };
        assert_eq!(
            proof.verify(&root, &there),
            Err(ProofError::NotBetween {
                key: there,
                low,
                next
            })
        );
    }
    let mut forged: Vec<(LeafPath, Body)> = Vec::new();
    forged.extend(forgeries(&path).into_iter().map(|path| (path, body)));
    let mut wider = path.clone();
    wider.link.next_key = LeafKey::FIRST;
    forged.push((wider, body));
    let mut lower = path.clone();
    lower.link.key = LeafKey::FIRST;
    forged.push((lower, body));
    forged.push((path, [1; 32]));
    for (path, body) in forged {
        let got = path.root(&body);
        let proof = StateProof::Absent { path, body };
        let expected = root;
        assert_eq!(
            proof.verify(&root, &key),
            Err(ProofError::WrongRoot { expected, got })
        );
    }
}

#[test]
fn a_place_that_became_free_proves_nothing() {
    let state = populated();
    let free = *state.leaves.free().back().unwrap();
    for (key, content) in [(account_key(20), [0; 32]), (LeafKey::FIRST, [0; 32])] {
        let path = LeafPath {
            index: free,
            link: state.leaves.link(&key),
            siblings: state.tree.siblings(free),
        };
        let got = path.root(&LeafHead::default().body(&content));
        let proof = StateProof::Present {
            path,
            head: LeafHead::default(),
            content,
        };
        let expected = state.root();
        assert_eq!(
            proof.verify(&expected, &key),
            Err(ProofError::WrongRoot { expected, got })
        );
    }
}

#[test]
fn free_places_are_taken_again_and_stored() {
    let mut state = populated();
    let unused = state.leaves.unused();
    assert_eq!(state.leaves.free().len(), 10);
    let restored = State::from_bytes(&state.to_bytes()).unwrap();
    assert_eq!(restored.root(), state.root());
    assert_eq!(restored.leaves.free(), state.leaves.free());
    for name in 100..110 {
        state.put_account(Account::new(address(name), Amount::new(1)));
    }
    state.seal();
    assert!(state.leaves.free().is_empty());
    assert_eq!(state.leaves.unused(), unused);
    let restored = State::from_bytes(&state.to_bytes()).unwrap();
    assert_eq!(restored.root(), state.root());
}
