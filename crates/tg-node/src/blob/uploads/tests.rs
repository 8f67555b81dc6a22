#![allow(clippy::unwrap_used, reason = "tests")]

use blake3::hazmat::{Mode, merge_subtrees_non_root};
use tempfile::TempDir;
use tg_types::chunks::{CHUNK_BYTES, ChunkTreeBuilder};
use tg_types::{Decode as _, DurationMs, Encode as _};

use super::super::open_uploads::{UPLOADS_MAX, UPLOADS_PER_ACCOUNT_MAX};
use super::*;

const CHUNK: usize = CHUNK_BYTES as usize;
const LIMIT: u64 = 16 * CHUNK_BYTES;
const NOW: TimestampMs = TimestampMs::new(1_000_000);
const LATER: TimestampMs = NOW.saturating_add(PENDING_TIME);
const ALICE: Address = Address::new([1; 20]);
const BOB: Address = Address::new([2; 20]);

fn open(folder: &TempDir) -> Arc<BlobStore> {
    Arc::new(BlobStore::open(&folder.path().join("blobs"), 1 << 40).unwrap())
}

/// A blob of some chunks and a few bytes, other ones for each number.
fn blob(chunks: usize, number: u8) -> Vec<u8> {
    (0..chunks * CHUNK + 77)
        .map(|at| (at / 3 % 251) as u8 ^ number)
        .collect()
}

fn tree(bytes: &[u8]) -> ChunkTree {
    let mut builder = ChunkTreeBuilder::default();
    builder.update(bytes);
    builder.finish().unwrap()
}

fn of(owner: Address, bytes: &[u8]) -> PendingBlob {
    PendingBlob {
        digest: Digest::of_blob(bytes),
        size: bytes.len() as u64,
        owner,
        expires: LATER,
    }
}

fn balance(bytes: u64) -> Allowance {
    Allowance {
        balance: bytes,
        leases: 0,
    }
}

fn begin(
    store: &Arc<BlobStore>,
    owner: Address,
    bytes: &[u8],
) -> Result<UploadProgress, BlobError> {
    store.begin_upload(&of(owner, bytes), balance(1 << 40), tree(bytes), LIMIT)
}

fn put(
    store: &Arc<BlobStore>,
    bytes: &[u8],
    index: usize,
    sent: &[u8],
) -> Result<UploadProgress, BlobError> {
    let digest = Digest::of_blob(bytes);
    store.put_upload_chunk(&digest, index as u64, sent, LATER)
}

fn chunk(bytes: &[u8], index: usize) -> &[u8] {
    bytes.chunks(CHUNK).nth(index).unwrap()
}

#[test]
fn an_upload_goes_on_and_refuses_a_wrong_chunk_of_which_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let bytes = blob(2, 0);
    let digest = Digest::of_blob(&bytes);
    let early = put(&store, &bytes, 0, chunk(&bytes, 0)).unwrap_err();
    assert!(matches!(early, BlobError::NotOpen { .. }), "{early}");
    let missing = UploadProgress::Missing;
    assert_eq!(begin(&store, ALICE, &bytes).unwrap(), missing(0));
    // The whole counts before it came.
    assert_eq!(store.pending_of(&ALICE), bytes.len() as u64);
    assert_eq!(store.used_bytes(), bytes.len() as u64);
    let first = put(&store, &bytes, 0, chunk(&bytes, 0)).unwrap();
    assert_eq!(first, missing(1));
    let mut changed = chunk(&bytes, 1).to_vec();
    changed[CHUNK - 1] ^= 1;
    for wrong in [&changed[..], &changed[..7], chunk(&bytes, 0), b""] {
        let error = put(&store, &bytes, 1, wrong).unwrap_err();
        assert!(
            matches!(error, BlobError::WrongChunk { chunk: 1, .. }),
            "{error}"
        );
        let file = folder
            .path()
            .join("blobs")
            .join(UPLOADS)
            .join(name(&digest));
        assert_eq!(fs::metadata(file).unwrap().len(), CHUNK_BYTES);
    }
    // Another client asks, and is told what is missing; a chunk that is here is not taken again.
    assert_eq!(begin(&store, ALICE, &bytes).unwrap(), missing(1));
    assert_eq!(put(&store, &bytes, 0, &changed).unwrap(), missing(1));
    assert_eq!(put(&store, &bytes, 2, &changed).unwrap(), missing(1));
    assert_eq!(store.pending_of(&ALICE), bytes.len() as u64);
    let second = put(&store, &bytes, 1, chunk(&bytes, 1)).unwrap();
    assert_eq!(second, missing(2));
    let last = put(&store, &bytes, 2, chunk(&bytes, 2)).unwrap();
    assert_eq!(last, UploadProgress::Whole(Stored::New));
    assert_eq!(store.get(&digest, LIMIT).unwrap().unwrap(), bytes);
    assert_eq!(store.used_bytes(), bytes.len() as u64);
    assert_eq!(store.pending_of(&ALICE), bytes.len() as u64);
    let held = UploadProgress::Whole(Stored::Held);
    assert_eq!(begin(&store, BOB, &bytes).unwrap(), held);
    assert_eq!(put(&store, &bytes, 2, chunk(&bytes, 2)).unwrap(), held);
    assert_eq!(store.used_bytes(), bytes.len() as u64);
    // It goes like any other that nothing names.
    assert_eq!(store.sweep(LATER, |_| None, |_| balance(1 << 40)), 1);
    assert_eq!((store.used_bytes(), store.pending_of(&BOB)), (0, 0));
}

#[test]
fn what_may_not_begin_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let bytes = blob(2, 0);
    let of_another = tree(&blob(2, 1));
    let all = balance(1 << 40);
    let wrong = store.begin_upload(&of(ALICE, &bytes), all, of_another, LIMIT);
    assert!(matches!(wrong, Err(BlobError::WrongTree { .. })));
    let mut smaller = of(ALICE, &bytes);
    smaller.size -= 1;
    let wrong = store.begin_upload(&smaller, all, tree(&bytes), LIMIT);
    assert!(matches!(wrong, Err(BlobError::WrongTree { .. })));
    let large = store.begin_upload(&of(ALICE, &bytes), all, tree(&bytes), CHUNK_BYTES);
    assert!(matches!(large, Err(BlobError::TooLarge { .. })));
    let poor = balance(bytes.len() as u64 - 1);
    let poor = store.begin_upload(&of(ALICE, &bytes), poor, tree(&bytes), LIMIT);
    assert!(matches!(poor, Err(BlobError::AllowanceUsed { .. })));
    assert_eq!((store.used_bytes(), store.pending_of(&ALICE)), (0, 0));
    assert!(store.uploads().open.is_empty());
}

/// A tree of a size and these nodes.
fn tree_of(size: u64, nodes: &[[u8; 32]]) -> ChunkTree {
    let count = u32::try_from(nodes.len()).unwrap().to_le_bytes();
    let bytes = [&size.to_le_bytes()[..], &count, nodes.as_flattened()].concat();
    ChunkTree::from_bytes(&bytes).unwrap()
}

/// Whoever knew a blob before its sender began its upload so, and the last chunk of its sender was refused each time.
#[test]
fn a_tree_of_a_wrong_size_does_not_hold_an_upload_against_the_right_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let bytes = blob(3, 0);
    let (digest, size) = (Digest::of_blob(&bytes), bytes.len() as u64);
    let right = tree(&bytes).to_bytes();
    let (_, nodes) = right.split_at(right.len() - 4 * 32);
    let (nodes, _) = nodes.as_chunks::<32>();
    let squat = |tree: &ChunkTree| {
        let blob = PendingBlob {
            size: tree.size(),
            ..of(BOB, &bytes)
        };
        store.begin_upload(&blob, balance(1 << 40), tree.clone(), LIMIT)
    };
    let missing = UploadProgress::Missing;
    let shorter = tree_of(size - 1, nodes);
    let pair = |left: usize| merge_subtrees_non_root(&nodes[left], &nodes[left + 1], Mode::Hash);
    let halves = tree_of(2 * CHUNK_BYTES, &[pair(0), pair(2)]);
    for wrong in [&shorter, &halves] {
        assert!(wrong.is_of(&digest));
        assert_eq!(squat(wrong).unwrap(), missing(0));
        assert_eq!(store.used_bytes(), wrong.size());
    }
    assert_eq!(begin(&store, ALICE, &bytes).unwrap(), missing(0));
    assert_eq!(store.used_bytes(), size);
    for index in 0..3 {
        put(&store, &bytes, index, chunk(&bytes, index)).unwrap();
    }
    // Chunks that are here stay, and show that two of them are not one.
    let error = squat(&halves).unwrap_err();
    assert!(matches!(error, BlobError::WrongTree { .. }), "{error}");
    assert_eq!(squat(&shorter).unwrap(), missing(3));
    assert_eq!(store.used_bytes(), size - 1);
    let error = put(&store, &bytes, 3, chunk(&bytes, 3)).unwrap_err();
    assert!(matches!(error, BlobError::WrongChunk { .. }), "{error}");
    assert_eq!(begin(&store, ALICE, &bytes).unwrap(), missing(3));
    let last = put(&store, &bytes, 3, chunk(&bytes, 3)).unwrap();
    assert_eq!(last, UploadProgress::Whole(Stored::New));
    assert_eq!(store.get(&digest, LIMIT).unwrap().unwrap(), bytes);
    assert_eq!(store.used_bytes(), size);
    assert_eq!(store.pending_of(&ALICE), size);
}

#[test]
fn open_uploads_are_bounded_in_number_for_each_account_and_in_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut opened = 0;
    let mut number = 0;
    let mut next = |owner: Address| {
        number += 1;
        begin(&store, owner, &blob(1, number))
    };
    for account in 1..=UPLOADS_MAX / UPLOADS_PER_ACCOUNT_MAX {
        let owner = Address::new([u8::try_from(account).unwrap(); 20]);
        for _ in 0..UPLOADS_PER_ACCOUNT_MAX {
            next(owner).unwrap();
            opened += 1;
        }
        let error = next(owner).unwrap_err();
        assert!(matches!(error, BlobError::TooManyUploads { .. }), "{error}");
    }
    assert_eq!(opened, UPLOADS_MAX);
    let other = Address::new([0xaa; 20]);
    let error = next(other).unwrap_err();
    let limit = UPLOADS_MAX;
    assert!(
        matches!(error, BlobError::TooManyUploads { limit: it, .. } if it == limit),
        "{error}"
    );
    // What was refused counts for nobody.
    assert_eq!(store.pending_of(&other), 0);
}

#[test]
fn an_upload_ends_with_its_time_or_its_money() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (of_alice, of_bob) = (blob(1, 1), blob(1, 2));
    begin(&store, ALICE, &of_alice).unwrap();
    put(&store, &of_alice, 0, chunk(&of_alice, 0)).unwrap();
    begin(&store, BOB, &of_bob).unwrap();
    let bobs = |owner: &Address| match *owner {
        BOB => balance(1 << 40),
        _ => balance(0),
    };
    assert_eq!(store.sweep(NOW, |_| None, bobs), 0);
    assert_eq!(store.pending_of(&ALICE), 0);
    assert_eq!(store.pending_of(&BOB), of_bob.len() as u64);
    assert_eq!(store.used_bytes(), of_bob.len() as u64);
    let files = || {
        let files = fs::read_dir(folder.path().join("blobs").join(UPLOADS));
        files.unwrap().count()
    };
    assert_eq!(files(), 1);
    let gone = put(&store, &of_alice, 1, chunk(&of_alice, 1)).unwrap_err();
    assert!(matches!(gone, BlobError::NotOpen { .. }), "{gone}");
    // A chunk in time keeps it open, a wrong one does not.
    let digest = Digest::of_blob(&of_bob);
    let much_later = LATER.saturating_add(PENDING_TIME);
    let wrong = store.put_upload_chunk(&digest, 0, b"wrong", much_later);
    assert!(matches!(wrong, Err(BlobError::WrongChunk { .. })));
    assert_eq!(store.sweep(LATER, |_| None, bobs), 0);
    assert_eq!((store.pending_of(&BOB), store.used_bytes()), (0, 0));
    assert_eq!(files(), 0);
    begin(&store, BOB, &of_bob).unwrap();
    let first = chunk(&of_bob, 0);
    store
        .put_upload_chunk(&digest, 0, first, much_later)
        .unwrap();
    store.sweep(LATER, |_| None, bobs);
    assert_eq!(
        begin(&store, BOB, &of_bob).unwrap(),
        UploadProgress::Missing(1)
    );
}

/// A blob of 256 MiB at 1 Mbit/s takes 36 minutes, and went before its sender could order.
#[test]
fn what_came_slowly_has_its_time_to_order_from_its_last_chunk_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let bytes = blob(2, 0);
    let digest = Digest::of_blob(&bytes);
    let all = |_: &Address| balance(1 << 40);
    begin(&store, ALICE, &bytes).unwrap();
    let send = |index: usize, at: TimestampMs| {
        let expires = at.saturating_add(PENDING_TIME);
        let sent = chunk(&bytes, index);
        store
            .put_upload_chunk(&digest, index as u64, sent, expires)
            .unwrap()
    };
    let minutes = |count: u64| NOW.saturating_add(DurationMs::from_secs(60 * count));
    assert_eq!(send(0, minutes(9)), UploadProgress::Missing(1));
    // It would have ended by now.
    let late = LATER.saturating_add(DurationMs::from_secs(20));
    store.sweep(late, |_| None, all);
    assert_eq!(send(1, late), UploadProgress::Missing(2));
    assert_eq!(send(2, late), UploadProgress::Whole(Stored::New));
    for minute in [11, 20] {
        assert_eq!(store.sweep(minutes(minute), |_| None, all), 0);
        assert_eq!(store.pending_of(&ALICE), bytes.len() as u64);
    }
    let over = late.saturating_add(PENDING_TIME);
    assert_eq!(store.sweep(over, |_| None, all), 1);
    assert_eq!((store.pending_of(&ALICE), store.used_bytes()), (0, 0));
}

/// A chunk every ten minutes held the place and the room of an upload for as long as it had chunks, and the tree alone for ever.
#[test]
fn an_upload_that_is_too_slow_ends_whatever_comes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (trickle, told) = (blob(2, 1), blob(2, 2));
    let much_later = LATER.saturating_add(PENDING_TIME);
    let tell = |expires: TimestampMs| {
        let blob = PendingBlob {
            expires,
            ..of(ALICE, &told)
        };
        store.begin_upload(&blob, balance(1 << 40), tree(&told), LIMIT)
    };
    begin(&store, ALICE, &trickle).unwrap();
    tell(LATER).unwrap();
    let first = chunk(&trickle, 0);
    let digest = Digest::of_blob(&trickle);
    store
        .put_upload_chunk(&digest, 0, first, much_later)
        .unwrap();
    tell(much_later).unwrap();
    // Two MiB and a few bytes come within 32 s at 64 KiB a second.
    let least = LATER.saturating_add(DurationMs::from_secs(32));
    let all = |_: &Address| balance(1 << 40);
    store.sweep(least, |_| None, all);
    assert_eq!(store.uploads().open.len(), 2);
    let late = least.saturating_add(DurationMs::from_secs(1));
    store.sweep(late, |_| None, all);
    assert!(store.uploads().open.is_empty());
    assert_eq!((store.pending_of(&ALICE), store.used_bytes()), (0, 0));
    let gone = put(&store, &trickle, 1, chunk(&trickle, 1)).unwrap_err();
    assert!(matches!(gone, BlobError::NotOpen { .. }), "{gone}");
}

/// What a record names counts for nobody, and its sender's money went into the order: it could not go on after a break.
#[test]
fn an_upload_that_a_record_names_goes_on_without_money() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (bytes, later) = (blob(2, 1), blob(2, 2));
    let missing = UploadProgress::Missing;
    begin(&store, ALICE, &bytes).unwrap();
    put(&store, &bytes, 0, chunk(&bytes, 0)).unwrap();
    let longest = |_: &Digest| Some(u64::MAX);
    store.sweep(NOW, longest, |_| balance(1 << 40));
    let blob = of(ALICE, &bytes);
    let poor = store.begin_upload(&blob, balance(1), tree(&bytes), LIMIT);
    assert!(matches!(poor, Err(BlobError::AllowanceUsed { .. })));
    let named = |bytes: &[u8]| store.begin_named_upload(&of(ALICE, bytes), tree(bytes), LIMIT);
    assert_eq!(named(&bytes).unwrap(), missing(1));
    store.sweep(NOW, longest, |_| balance(1));
    for index in 1..3 {
        put(&store, &bytes, index, chunk(&bytes, index)).unwrap();
    }
    assert!(store.contains(&blob.digest));
    // One that was not begun before its order.
    assert_eq!(named(&later).unwrap(), missing(0));
    assert_eq!(store.pending_of(&ALICE), 0);
    let both = (bytes.len() + later.len()) as u64;
    assert_eq!(store.used_bytes(), both);
    // No record names them any more.
    assert_eq!(store.sweep(NOW, |_| None, |_| balance(1)), 0);
    assert_eq!(store.used_bytes(), both);
    store.sweep(LATER, |_| None, |_| balance(1));
    assert_eq!((store.used_bytes(), store.pending_of(&ALICE)), (0, 0));
}

#[test]
fn what_came_stays_over_a_restart_counts_and_goes_when_nobody_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (kept, lost) = (blob(2, 1), blob(2, 2));
    for bytes in [&kept, &lost] {
        begin(&store, ALICE, bytes).unwrap();
        put(&store, bytes, 0, chunk(bytes, 0)).unwrap();
    }
    drop(store);
    let uploads = folder.path().join("blobs").join(UPLOADS);
    fs::write(uploads.join("else"), b"no upload").unwrap();
    let store = open(&folder);
    assert!(!uploads.join("else").exists());
    assert_eq!(store.used_bytes(), 2 * CHUNK_BYTES);
    assert_eq!(
        begin(&store, ALICE, &kept).unwrap(),
        UploadProgress::Missing(1),
        "the first chunk is not sent again"
    );
    let whole = kept.len() as u64;
    assert_eq!(store.used_bytes(), CHUNK_BYTES + whole);
    let all = |_: &Address| balance(1 << 40);
    store.sweep(NOW, |_| None, all);
    assert_eq!(store.used_bytes(), CHUNK_BYTES + whole);
    for index in 1..3 {
        put(&store, &kept, index, chunk(&kept, index)).unwrap();
    }
    assert!(store.contains(&Digest::of_blob(&kept)));
    assert_eq!(store.used_bytes(), CHUNK_BYTES + whole);
    let named = Digest::of_blob(&kept);
    store.sweep(LATER, |it| (*it == named).then_some(whole), all);
    assert_eq!(store.used_bytes(), whole);
    assert_eq!(fs::read_dir(&uploads).unwrap().count(), 0);
}
