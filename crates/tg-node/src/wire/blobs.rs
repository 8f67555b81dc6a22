//! What validators say to each other about blobs.

use tg_types::{Decode, DecodeError, Digest, Encode, Reader, Writer};

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

impl Encode for BlobMessage {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Ask { digest, offset } => {
                writer.u8(0);
                writer.raw(digest.as_bytes());
                writer.u64(*offset);
            }
            Self::Chunk {
                digest,
                offset,
                total,
                bytes,
            } => {
                writer.u8(1);
                writer.raw(digest.as_bytes());
                writer.u64(*offset);
                writer.u64(*total);
                writer.bytes(bytes);
            }
            Self::Absent { digest } => {
                writer.u8(2);
                writer.raw(digest.as_bytes());
            }
        }
    }
}

impl Decode for BlobMessage {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        if tag > 2 {
            return Err(DecodeError::Invalid {
                field: "blob message",
                value: u64::from(tag),
            });
        }
        let digest = Digest::new(reader.array()?);
        Ok(match tag {
            0 => Self::Ask {
                digest,
                offset: reader.u64()?,
            },
            1 => Self::Chunk {
                digest,
                offset: reader.u64()?,
                total: reader.u64()?,
                bytes: reader.bytes("blob chunk", BLOB_CHUNK_BYTES)?.to_vec(),
            },
            _ => Self::Absent { digest },
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn check(message: &BlobMessage, hex: &str) {
        let bytes = message.to_bytes();
        assert_eq!(crate::key::hex(&bytes), hex);
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
