//! Ids. Each kind is its own type, so that mixing two up does not compile.

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Writes `0x` and lower-case hexadecimal digits.
pub(crate) fn write_hex(f: &mut std::fmt::Formatter<'_>, bytes: &[u8]) -> std::fmt::Result {
    f.write_str("0x")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Reads exactly `2 N` hexadecimal digits, with or without `0x`.
pub(crate) fn hex_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut array = [0u8; N];
    for (byte, pair) in array.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(array)
}

/// Declares byte-array ids: construction, hexadecimal text, and the canonical codec.
macro_rules! byte_ids {
    ($($(#[$doc:meta])* $name:ident: $size:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name([u8; $size]);

        impl $name {
            /// An id from its bytes.
            #[must_use]
            pub const fn new(bytes: [u8; $size]) -> Self {
                Self(bytes)
            }

            /// The bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; $size] {
                &self.0
            }

            /// Reads hexadecimal digits, with or without `0x`.
            #[must_use]
            pub fn from_hex(text: &str) -> Option<Self> {
                hex_array(text).map(Self)
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write_hex(f, &self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                writer.raw(&self.0);
            }
        }

        impl Decode for $name {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self(reader.array()?))
            }
        }
    )*};
}

byte_ids! {
    /// Who signs and owns: the last 20 bytes of keccak-256 of a secp256k1 public key, as on Ethereum.
    Address: 20;
    /// The public part of a model (graph, scales, tables, root of the weights).
    ProgramId: 32;
    /// A program together with the commitment to its weights.
    ModelId: 32;
    /// A job order, as signed.
    JobId: 32;
    /// A match of a job with an offer; one job may see several.
    LeaseId: 32;
    /// A provider's offer.
    OfferId: 32;
    /// A sealed bid of the batch auction.
    BidId: 32;
    /// A signed transaction.
    TransactionId: 32;
    /// A block.
    BlockId: 32;
    /// A question whether a validator has a file that it stated to hold.
    QuestionId: 32;
    /// Root of the ledger's state tree.
    StateRoot: 32;
}
