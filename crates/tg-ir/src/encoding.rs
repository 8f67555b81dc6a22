//! What encodings of operators and shapes share.

use tg_types::codec::{DecodeError, Reader};

/// A one-byte tag for each of a few values.
macro_rules! tags {
    ($type:ty, $field:literal, $($variant:path => $tag:literal),+) => {
        impl Encode for $type {
            fn encode(&self, writer: &mut Writer) {
                writer.u8(match self { $($variant => $tag),+ });
            }
        }

        impl Decode for $type {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match reader.u8()? {
                    $($tag => Ok($variant),)+
                    other => Err(DecodeError::Invalid { field: $field, value: u64::from(other) }),
                }
            }
        }
    };
}
pub(crate) use tags;

/// A flag of one byte, 0 or 1.
pub(crate) fn flag(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(DecodeError::Invalid {
            field,
            value: u64::from(other),
        }),
    }
}
