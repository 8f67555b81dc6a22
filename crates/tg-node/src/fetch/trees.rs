//! The chunk trees of blobs that are here, for peers that ask for them.
//!
//! To make a tree its blob is read and hashed, at about a GiB a second of one core. What a request costs:
//! - of a tree that is kept, a copy of 8 KiB at most; so it is of one that is being made for another peer;
//! - of another one, its blob's bytes once, 256 MiB at most: a quarter of a second of one core. They are hashed [`HASHED_AT_ONCE`] at a time,
//!   at most [`HASHED_PER_SECOND`] for all peers together, so that parts and other messages wait for 32 ms at most; the blob with the least left goes
//!   first, so that what open jobs wait for does not wait for models. It counts a sixteenth of its bytes against what the peer is sent.
//!
//! Whoever asks for the trees of a whole store of 16 GiB thus takes half of a core for half a minute, once, and holds up honest requests for
//! trees of large models as long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tg_types::chunks::{CHUNK_BYTES, ChunkTree, ChunkTreeBuilder};
use tg_types::{Digest, TimestampMs};

use crate::blob::{BlobReader, BlobStore};
use crate::limits::{BLOB_TRANSFERS_MAX, MODEL_BYTES_MAX};
use crate::peers::Peer;
use crate::wire::BlobMessage;

/// Bytes of trees that are kept, of which those go that were not asked for for longest: the trees of more than 100 GiB of models.
const KEPT_BYTES_MAX: u64 = 4 << 20;

/// What a tree counts beside its nodes.
const ENTRY_BYTES: u64 = 128;

/// Bytes of blobs that are hashed per second.
const HASHED_PER_SECOND: u64 = 512 << 20;

/// Bytes of blobs that are hashed in one turn.
const HASHED_AT_ONCE: u64 = 32 << 20;

/// What hashing a byte counts, as a part of sending one.
const HASHED_SHARE: u64 = 16;

/// Trees that are kept, and those that are being made.
#[derive(Debug, Default)]
pub(super) struct ServedTrees {
    kept: BTreeMap<Digest, KeptTree>,
    /// Bytes of those.
    bytes: u64,
    /// How often one was asked for.
    uses: u64,
    making: BTreeMap<Digest, TreeInMaking>,
    /// Bytes that may be hashed now.
    budget: u64,
    since: TimestampMs,
}

#[derive(Debug)]
struct KeptTree {
    tree: ChunkTree,
    /// Which use was the last of it.
    used: u64,
}

#[derive(Debug)]
struct TreeInMaking {
    /// Who asked first: it counts against that one.
    first: Peer,
    /// Who is to be answered.
    peers: BTreeSet<Peer>,
    reader: BlobReader,
    builder: ChunkTreeBuilder,
    /// Bytes that are not hashed yet.
    left: u64,
}

impl ServedTrees {
    /// Answers a peer that asks for a tree, now or when it is made; gives the bytes that this counts against what the peer is sent.
    pub(super) fn ask(
        &mut self,
        store: &Arc<BlobStore>,
        (peer, digest): (&Peer, Digest),
        outbox: &mut Vec<(Peer, BlobMessage)>,
    ) -> u64 {
        let absent = || (peer.clone(), BlobMessage::Absent { digest });
        // A blob of one chunk comes without a tree.
        if store.size(&digest).is_none_or(|size| size <= CHUNK_BYTES) {
            outbox.push(absent());
            return 0;
        }
        if let Some(kept) = self.kept.get_mut(&digest) {
            self.uses += 1;
            kept.used = self.uses;
            outbox.push((peer.clone(), answer(digest, Some(&kept.tree))));
            return 0;
        }
        if let Some(making) = self.making.get_mut(&digest) {
            making.peers.insert(peer.clone());
            return 0;
        }
        let own = self.making.values().filter(|it| it.first == *peer);
        // Stops: a peer that has as many files open as it likes. An honest one receives no more blobs at once, and asks another one.
        if own.count() >= BLOB_TRANSFERS_MAX {
            return 0;
        }
        // What cannot be read is not held.
        let Some(reader) = store.reader(&digest, MODEL_BYTES_MAX).ok().flatten() else {
            outbox.push(absent());
            return 0;
        };
        let left = reader.size();
        let making = TreeInMaking {
            first: peer.clone(),
            peers: BTreeSet::from([peer.clone()]),
            reader,
            builder: ChunkTreeBuilder::default(),
            left,
        };
        self.making.insert(digest, making);
        left / HASHED_SHARE
    }

    /// Goes on with the trees that are being made, and answers those who wait for one that is ready.
    pub(super) fn turn(&mut self, now: TimestampMs, outbox: &mut Vec<(Peer, BlobMessage)>) {
        let passed = now.saturating_since(self.since).get();
        let earned = passed.saturating_mul(HASHED_PER_SECOND) / 1_000;
        self.budget = self.budget.saturating_add(earned).min(HASHED_AT_ONCE);
        self.since = now;
        while self.budget > 0 {
            let least = self.making.iter().min_by_key(|(_, it)| it.left);
            let Some(digest) = least.map(|(digest, _)| *digest) else {
                return;
            };
            self.go_on(digest, outbox);
        }
    }

    /// Hashes what may be hashed of a blob.
    fn go_on(&mut self, digest: Digest, outbox: &mut Vec<(Peer, BlobMessage)>) {
        let Some(mut making) = self.making.remove(&digest) else {
            return;
        };
        let is_read = loop {
            match making.reader.next_piece() {
                Ok(piece) if piece.is_empty() => break true,
                Ok(piece) => {
                    let read = piece.len() as u64;
                    making.builder.update(&piece);
                    making.left = making.left.saturating_sub(read);
                    self.budget = self.budget.saturating_sub(read);
                }
                // It is damaged, and held no longer.
                Err(_) => break false,
            }
            if self.budget == 0 && making.left > 0 {
                self.making.insert(digest, making);
                return;
            }
        };
        let TreeInMaking { peers, builder, .. } = making;
        let tree = builder.finish().filter(|_| is_read);
        for peer in peers {
            outbox.push((peer, answer(digest, tree.as_ref())));
        }
        if let Some(tree) = tree {
            self.keep(digest, tree);
        }
    }

    fn keep(&mut self, digest: Digest, tree: ChunkTree) {
        self.uses += 1;
        self.bytes += bytes_of(&tree);
        let used = self.uses;
        self.kept.insert(digest, KeptTree { tree, used });
        while self.bytes > KEPT_BYTES_MAX {
            let oldest = self.kept.iter().min_by_key(|(_, it)| it.used);
            let Some(oldest) = oldest.map(|(digest, _)| *digest) else {
                return;
            };
            if let Some(gone) = self.kept.remove(&oldest) {
                self.bytes -= bytes_of(&gone.tree);
            }
        }
    }
}

/// A tree, or that its blob is not here.
fn answer(digest: Digest, tree: Option<&ChunkTree>) -> BlobMessage {
    match tree {
        Some(tree) => BlobMessage::Tree {
            digest,
            tree: tree.clone(),
        },
        None => BlobMessage::Absent { digest },
    }
}

/// The bytes of memory that a tree of several chunks takes.
const fn bytes_of(tree: &ChunkTree) -> u64 {
    ENTRY_BYTES + 32 * tree.chunks()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::key::{ValidatorKey, peer};

    const MIB: usize = 1 << 20;

    fn at(after: u64) -> TimestampMs {
        TimestampMs::new(1_000_000 + after)
    }

    fn peers() -> [Peer; 2] {
        [1, 2].map(|seed| peer(&ValidatorKey::from_seed(seed)))
    }

    /// A store with blobs of these sizes, each of other bytes.
    fn store(sizes: &[usize]) -> (tempfile::TempDir, Arc<BlobStore>, Vec<Digest>) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(&folder.path().join("blobs"), 1 << 30).unwrap();
        let digests = sizes.iter().enumerate().map(|(number, size)| {
            let mut bytes = vec![7; *size];
            bytes[0] = u8::try_from(number).unwrap();
            store.put(&bytes, MODEL_BYTES_MAX).unwrap()
        });
        let digests = digests.collect();
        (folder, Arc::new(store), digests)
    }

    /// Which trees were given to whom.
    fn given(outbox: &mut Vec<(Peer, BlobMessage)>) -> Vec<(Peer, Digest)> {
        let answers = outbox.drain(..).map(|(peer, message)| match message {
            BlobMessage::Tree { digest, tree } => {
                assert!(tree.is_of(&digest));
                (peer, digest)
            }
            other => panic!("{other:?}"),
        });
        answers.collect()
    }

    #[test]
    fn a_large_tree_holds_up_neither_messages_nor_small_ones() {
        let large = 40 * MIB;
        let (_folder, store, digests) = store(&[large, 2 * MIB + 1]);
        let [greedy, honest] = peers();
        let (mut trees, mut outbox) = (ServedTrees::default(), Vec::new());
        let cost = trees.ask(&store, (&greedy, digests[0]), &mut outbox);
        assert_eq!(cost, large as u64 / HASHED_SHARE);
        trees.turn(at(0), &mut outbox);
        assert_eq!(trees.making[&digests[0]].left, 8 << 20);
        // Without time nothing more is hashed.
        trees.turn(at(0), &mut outbox);
        assert_eq!(trees.making[&digests[0]].left, 8 << 20);
        trees.ask(&store, (&honest, digests[1]), &mut outbox);
        assert!(outbox.is_empty());
        trees.turn(at(10), &mut outbox);
        assert_eq!(given(&mut outbox), [(honest, digests[1])]);
        for now in 2..4 {
            trees.turn(at(10 * now), &mut outbox);
        }
        assert_eq!(given(&mut outbox), [(greedy, digests[0])]);
        assert!(trees.making.is_empty());
    }

    #[test]
    fn a_blob_is_hashed_once_for_all_who_ask() {
        let (_folder, store, digests) = store(&[3 * MIB]);
        let [first, second] = peers();
        let (mut trees, mut outbox) = (ServedTrees::default(), Vec::new());
        assert!(trees.ask(&store, (&first, digests[0]), &mut outbox) > 0);
        assert_eq!(
            trees.ask(&store, (&second, digests[0]), &mut outbox),
            0,
            "it is being made"
        );
        trees.turn(at(0), &mut outbox);
        assert_eq!(given(&mut outbox).len(), 2);
        assert_eq!(trees.ask(&store, (&second, digests[0]), &mut outbox), 0);
        assert_eq!(given(&mut outbox), [(second, digests[0])]);
        assert!(trees.making.is_empty());
    }

    #[test]
    fn what_a_peer_has_made_at_once_is_bounded() {
        let sizes = [MIB + 1; BLOB_TRANSFERS_MAX + 2];
        let (_folder, store, digests) = store(&sizes);
        let [greedy, honest] = peers();
        let (mut trees, mut outbox) = (ServedTrees::default(), Vec::new());
        for digest in &digests {
            trees.ask(&store, (&greedy, *digest), &mut outbox);
        }
        assert_eq!(trees.making.len(), BLOB_TRANSFERS_MAX);
        let last = *digests.last().unwrap();
        trees.ask(&store, (&honest, last), &mut outbox);
        assert!(trees.making.contains_key(&last));
    }

    #[test]
    fn trees_that_are_asked_for_stay_and_others_go() {
        let (_folder, store, digests) = store(&[2 * MIB]);
        let [first, _] = peers();
        let (mut trees, mut outbox) = (ServedTrees::default(), Vec::new());
        trees.ask(&store, (&first, digests[0]), &mut outbox);
        trees.turn(at(0), &mut outbox);
        let mut builder = ChunkTreeBuilder::default();
        builder.update(&vec![0; 32 * MIB]);
        let other = builder.finish().unwrap();
        // As many as fit, and half as many more.
        let most = KEPT_BYTES_MAX / bytes_of(&other);
        for number in 0..most * 3 / 2 {
            if number.is_multiple_of(1_000) {
                let cost = trees.ask(&store, (&first, digests[0]), &mut outbox);
                assert_eq!(cost, 0, "{number}");
            }
            trees.keep(Digest::of_blob(&number.to_le_bytes()), other.clone());
            assert!(trees.bytes <= KEPT_BYTES_MAX);
        }
        let is_kept = |number: u64| {
            let name = Digest::of_blob(&number.to_le_bytes());
            trees.kept.contains_key(&name)
        };
        assert!(!is_kept(0) && is_kept(most * 3 / 2 - 1));
        assert!(trees.kept.contains_key(&digests[0]) && trees.making.is_empty());
    }
}
