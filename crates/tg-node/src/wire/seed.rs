//! Messages between validators about the seed: dealings of a key, their acknowledgements, partial signatures.

use std::fmt;

use tg_types::{Decode, DecodeError, Encode, Reader, Writer};

/// Participants of one round of key generation at most: twice what a network has today.
pub const SEED_PARTICIPANTS_MAX: usize = 128;

/// Bytes of the public part of a dealing at most: the n - f points, 96 bytes each, to which a polynomial among
/// [`SEED_PARTICIPANTS_MAX`] participants commits, and their count.
pub const SEED_COMMITMENT_BYTES_MAX: usize = 86 * 96 + 2;

const _: () = assert!(SEED_PARTICIPANTS_MAX - (SEED_PARTICIPANTS_MAX - 1) / 3 == 86);

/// A dealer's share for one player, a scalar of BLS12-381. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct DealtShare(pub [u8; 32]);

impl fmt::Debug for DealtShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DealtShare(..)")
    }
}

/// A message about the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeedMessage {
    /// A dealer's polynomial and the receiver's share of it; sent again until acknowledged.
    Dealing {
        /// The round of key generation.
        round: u64,
        /// The points to which the polynomial commits.
        public: Vec<u8>,
        /// The receiver's share.
        private: DealtShare,
    },
    /// A player's signature that it holds its share of the receiver's dealing.
    Acknowledgement {
        /// The round of key generation.
        round: u64,
        /// The signature.
        signature: [u8; 64],
    },
    /// A participant's part of the signature over a height.
    Partial {
        /// The round that made the key.
        round: u64,
        /// The height.
        height: u64,
        /// The part: a point of G1.
        signature: [u8; 48],
    },
}

impl SeedMessage {
    /// The round that it belongs to.
    #[must_use]
    pub const fn round(&self) -> u64 {
        match self {
            Self::Dealing { round, .. }
            | Self::Acknowledgement { round, .. }
            | Self::Partial { round, .. } => *round,
        }
    }
}

impl Encode for SeedMessage {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Dealing {
                round,
                public,
                private,
            } => {
                writer.u8(0);
                writer.u64(*round);
                writer.bytes(public);
                writer.raw(&private.0);
            }
            Self::Acknowledgement { round, signature } => {
                writer.u8(1);
                writer.u64(*round);
                writer.raw(signature);
            }
            Self::Partial {
                round,
                height,
                signature,
            } => {
                writer.u8(2);
                writer.u64(*round);
                writer.u64(*height);
                writer.raw(signature);
            }
        }
    }
}

impl Decode for SeedMessage {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Dealing {
                round: reader.u64()?,
                public: reader.bytes("dealing", SEED_COMMITMENT_BYTES_MAX)?.to_vec(),
                private: DealtShare(reader.array()?),
            }),
            1 => Ok(Self::Acknowledgement {
                round: reader.u64()?,
                signature: reader.array()?,
            }),
            2 => Ok(Self::Partial {
                round: reader.u64()?,
                height: reader.u64()?,
                signature: reader.array()?,
            }),
            tag => Err(DecodeError::Invalid {
                field: "seed message",
                value: u64::from(tag),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn check(message: &SeedMessage, hex: &str) {
        let bytes = message.to_bytes();
        assert_eq!(tg_types::digest::hex(&bytes), hex);
        assert_eq!(&SeedMessage::from_bytes(&bytes).unwrap(), message);
        for end in 0..bytes.len() {
            SeedMessage::from_bytes(&bytes[..end]).unwrap_err();
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(matches!(
            SeedMessage::from_bytes(&longer),
            Err(DecodeError::Trailing { extra: 1 })
        ));
    }

    #[test]
    fn seed_messages_have_one_encoding_and_are_bounded() {
        let dealing = SeedMessage::Dealing {
            round: 5,
            public: vec![7, 8],
            private: DealtShare([0xab; 32]),
        };
        assert!(!format!("{dealing:?}").contains("171"), "a share is shown");
        let hex = format!("000500000000000000020000000708{}", "ab".repeat(32));
        check(&dealing, &hex);
        let acknowledgement = SeedMessage::Acknowledgement {
            round: 5,
            signature: [0xcd; 64],
        };
        let hex = format!("010500000000000000{}", "cd".repeat(64));
        check(&acknowledgement, &hex);
        let partial = SeedMessage::Partial {
            round: 5,
            height: 258,
            signature: [0xef; 48],
        };
        let hex = format!("0205000000000000000201000000000000{}", "ef".repeat(48));
        check(&partial, &hex);
        for message in [dealing, acknowledgement, partial] {
            assert_eq!(message.round(), 5);
        }
        assert!(matches!(
            SeedMessage::from_bytes(&[3; 100]),
            Err(DecodeError::Invalid {
                field: "seed message",
                value: 3
            })
        ));
        let long = SeedMessage::Dealing {
            round: 0,
            public: vec![0; SEED_COMMITMENT_BYTES_MAX + 1],
            private: DealtShare([0; 32]),
        };
        assert!(matches!(
            SeedMessage::from_bytes(&long.to_bytes()),
            Err(DecodeError::TooLong {
                field: "dealing",
                ..
            })
        ));
    }
}
