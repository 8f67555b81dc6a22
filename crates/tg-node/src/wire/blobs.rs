//! What validators say to each other about blobs.

use tg_types::chunks::ChunkTree;
use tg_types::{Digest, variants};

use crate::limits::BLOB_CHUNK_BYTES;

/// A message about blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobMessage {
    /// Asks for at most [`BLOB_CHUNK_BYTES`] of a blob.
    Ask {
        /// Its name.
        digest: Digest,
        /// The first byte wanted.
        offset: u64,
    },
    /// A part of a blob.
    Chunk {
        /// The blob's name.
        digest: Digest,
        /// Where the part begins.
        offset: u64,
        /// Bytes of the whole blob.
        total: u64,
        /// The part.
        bytes: Vec<u8>,
    },
    /// The sender does not hold the blob.
    Absent {
        /// Its name.
        digest: Digest,
    },
    /// Asks for the chunk tree of a blob.
    AskTree {
        /// Its name.
        digest: Digest,
    },
    /// The nodes of a blob's hash by which each of its chunks is checked when it comes.
    Tree {
        /// The blob's name.
        digest: Digest,
        /// They, of 512 KiB at most.
        tree: ChunkTree,
    },
}

variants! {
    BlobMessage: "blob message" {
        0 = Ask { digest, offset },
        1 = Chunk { digest, offset, total, bytes: bytes("blob chunk", BLOB_CHUNK_BYTES) },
        2 = Absent { digest },
        3 = AskTree { digest },
        4 = Tree { digest, tree },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tg_types::chunks::{CHUNK_BYTES, CHUNKS_MAX, ChunkTreeBuilder};
    use tg_types::{Decode, DecodeError, Encode};

    use super::*;

    fn check(message: &BlobMessage, hex: &str) {
        let bytes = message.to_bytes();
        assert_eq!(tg_types::digest::hex(&bytes), hex);
        assert_eq!(&BlobMessage::from_bytes(&bytes).unwrap(), message);
        for end in 0..bytes.len() {
            BlobMessage::from_bytes(&bytes[..end]).unwrap_err();
        }
    }

    #[test]
    fn blob_messages_have_one_encoding_and_are_bounded() {
        let digest = Digest::new([0xab; 32]);
        let name = "ab".repeat(32);
        let ask = BlobMessage::Ask { digest, offset: 5 };
        check(&ask, &format!("00{name}0500000000000000"));
        let chunk = BlobMessage::Chunk {
            digest,
            offset: 1,
            total: 3,
            bytes: vec![7, 8],
        };
        let hex = format!("01{name}01000000000000000300000000000000020000000708");
        check(&chunk, &hex);
        check(&BlobMessage::Absent { digest }, &format!("02{name}"));
        check(&BlobMessage::AskTree { digest }, &format!("03{name}"));
        let mut builder = ChunkTreeBuilder::default();
        builder.update(b"one chunk");
        let tree = builder.finish().unwrap();
        let one = BlobMessage::Tree { digest, tree };
        check(&one, &format!("04{name}090000000000000000000000"));
        assert!(matches!(
            BlobMessage::from_bytes(&[5; 33]),
            Err(DecodeError::Invalid {
                field: "blob message",
                value: 5
            })
        ));
        let long = BlobMessage::Chunk {
            digest,
            offset: 0,
            total: 0,
            bytes: vec![0; BLOB_CHUNK_BYTES + 1],
        };
        assert!(matches!(
            BlobMessage::from_bytes(&long.to_bytes()),
            Err(DecodeError::TooLong {
                field: "blob chunk",
                ..
            })
        ));
    }

    /// A tree of a blob of three chunks.
    fn tree() -> BlobMessage {
        let mut builder = ChunkTreeBuilder::default();
        for byte in 0..3 {
            builder.update(&vec![byte; CHUNK_BYTES as usize]);
        }
        BlobMessage::Tree {
            digest: Digest::new([7; 32]),
            tree: builder.finish().unwrap(),
        }
    }

    #[test]
    fn a_tree_has_as_many_nodes_as_its_size_says_and_no_more_than_a_blob_may_have() {
        let right = tree().to_bytes();
        assert_eq!(BlobMessage::from_bytes(&right).unwrap(), tree());
        // The size is behind the tag and the name, the number of nodes behind that.
        let mut larger = right.clone();
        larger[1 + 32 + 2] += 0x20;
        let error = BlobMessage::from_bytes(&larger).unwrap_err();
        assert!(matches!(
            error,
            DecodeError::Invalid {
                field: "number of chunks",
                ..
            }
        ));
        let mut many = right;
        let count = u32::try_from(CHUNKS_MAX + 1).unwrap();
        many[1 + 32 + 8..1 + 32 + 12].copy_from_slice(&count.to_le_bytes());
        BlobMessage::from_bytes(&many).unwrap_err();
    }

    /// No bytes of a peer break the decoder, and what it takes has this one encoding.
    #[test]
    fn changed_messages_are_refused_or_mean_what_they_say() {
        let digest = Digest::new([3; 32]);
        let messages = [
            BlobMessage::Ask { digest, offset: 5 },
            BlobMessage::Absent { digest },
            BlobMessage::AskTree { digest },
            tree(),
        ];
        // The state of a generator of Knuth's; the seed is this number.
        let mut state = 0x5eed_u64;
        let mut next = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        for case in 0..20_000 {
            let mut bytes = messages[case % messages.len()].to_bytes();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                bytes[at] = u8::try_from(next(256)).unwrap();
            }
            if next(4) == 0 {
                bytes.truncate(next(bytes.len()));
            }
            if let Ok(message) = BlobMessage::from_bytes(&bytes) {
                assert_eq!(message.to_bytes(), bytes, "case {case}");
            }
        }
    }
}
