//! Blobs in chunks.

use tg_types::chunks::{CHUNK_BYTES, ChunkTree, ChunkTreeBuilder};
use tg_types::{Decode, DecodeError, Digest, Encode};

fn bytes(size: usize) -> Vec<u8> {
    (0..size as u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8)
        .collect()
}

fn tree(bytes: &[u8], piece: usize) -> ChunkTree {
    let mut builder = ChunkTreeBuilder::default();
    bytes.chunks(piece).for_each(|it| builder.update(it));
    builder.finish().unwrap()
}

const CHUNK: usize = CHUNK_BYTES as usize;

#[test]
fn chunks_make_the_blob_of_their_name() {
    for size in [
        0,
        1,
        CHUNK - 1,
        CHUNK,
        CHUNK + 1,
        2 * CHUNK,
        2 * CHUNK + 1,
        3 * CHUNK - 7,
        5 * CHUNK + 1_025,
        8 * CHUNK,
    ] {
        let bytes = bytes(size);
        let digest = Digest::of_blob(&bytes);
        let made = tree(&bytes, 100_003);
        assert_eq!(made, tree(&bytes, CHUNK), "{size}");
        assert!(made.is_of(&digest), "{size}");
        assert_eq!(made.size(), size as u64);
        let again = ChunkTree::from_bytes(&made.to_bytes()).unwrap();
        assert_eq!(again, made);
        let mut chunks: Vec<&[u8]> = bytes.chunks(CHUNK).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        assert_eq!(made.chunks(), chunks.len() as u64);
        for (index, chunk) in chunks.iter().enumerate() {
            let index = index as u64;
            assert!(made.is_chunk(&digest, index, chunk), "{size} {index}");
            let mut changed = chunk.to_vec();
            if let Some(byte) = changed.last_mut() {
                *byte ^= 1;
                assert!(!made.is_chunk(&digest, index, &changed));
                assert!(!made.is_chunk(&digest, index, &chunk[1..]));
            }
        }
        assert!(!made.is_chunk(&digest, chunks.len() as u64, &[]));
    }
}

#[test]
fn a_tree_of_another_blob_is_refused() {
    let bytes = bytes(3 * CHUNK + 5);
    let digest = Digest::of_blob(&bytes);
    let made = tree(&bytes, CHUNK);
    assert!(!made.is_of(&Digest::of_blob(b"another")));
    let encoded = made.to_bytes();
    for place in [12, 50, encoded.len() - 1] {
        let mut changed = encoded.clone();
        changed[place] ^= 1;
        let changed = ChunkTree::from_bytes(&changed).unwrap();
        assert!(!changed.is_of(&digest), "{place}");
    }
    // Chunks that stand in another order, and one of another place.
    assert!(!made.is_chunk(&digest, 0, &bytes[CHUNK..2 * CHUNK]));
    // A size that is wrong by less than a chunk makes a last chunk that nothing is.
    let mut longer = encoded.clone();
    longer[0] += 1;
    let longer = ChunkTree::from_bytes(&longer).unwrap();
    assert!(!longer.is_chunk(&digest, 3, &bytes[3 * CHUNK..]));
    // What is right of it is right of the other one.
    assert!(made.begins_like(&longer, 3) && longer.begins_like(&made, 0));
    assert!(!made.begins_like(&longer, 4), "the last one is another");
    let another = tree(&self::bytes(3 * CHUNK + 6)[1..], CHUNK);
    assert!(made.begins_like(&another, 0) && !made.begins_like(&another, 1));
    // One that is wrong by more has another number of nodes.
    let mut more = encoded;
    more[3] = 0xff;
    assert!(matches!(
        ChunkTree::from_bytes(&more),
        Err(DecodeError::Invalid {
            field: "number of chunks",
            ..
        })
    ));
    // A blob of one chunk has no nodes, and one that says it has none is small.
    let mut none = tree(b"small", 5).to_bytes();
    none[3] = 1;
    assert!(ChunkTree::from_bytes(&none).is_err());
}
