//! Small additions to the canonical codec.

use tg_types::{Decode, DecodeError, Encode, Reader, Writer};

/// One byte that says whether a value follows, then the value.
pub(crate) fn encode_option<T: Encode>(value: Option<&T>, writer: &mut Writer) {
    match value {
        None => writer.u8(0),
        Some(value) => {
            writer.u8(1);
            value.encode(writer);
        }
    }
}

/// The opposite of [`encode_option`].
pub(crate) fn decode_option<T: Decode>(reader: &mut Reader<'_>) -> Result<Option<T>, DecodeError> {
    match reader.u8()? {
        0 => Ok(None),
        1 => T::decode(reader).map(Some),
        tag => Err(DecodeError::Invalid {
            field: "option",
            value: u64::from(tag),
        }),
    }
}

/// One byte that is 0 or 1.
pub(crate) fn decode_flag(
    reader: &mut Reader<'_>,
    field: &'static str,
) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(DecodeError::Invalid {
            field,
            value: u64::from(value),
        }),
    }
}
