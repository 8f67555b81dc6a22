//! What validators say to each other about blobs.

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
}

variants! {
    BlobMessage: "blob message" {
        0 = Ask { digest, offset },
        1 = Chunk { digest, offset, total, bytes: bytes("blob chunk", BLOB_CHUNK_BYTES) },
        2 = Absent { digest },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

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
        assert!(matches!(
            BlobMessage::from_bytes(&[3; 33]),
            Err(DecodeError::Invalid {
                field: "blob message",
                value: 3
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
}
