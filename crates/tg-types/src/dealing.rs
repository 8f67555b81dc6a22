//! A validator's part in the distributed generation of the key that signs seeds.

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::limits::DEALING_BYTES_MAX;

/// The signed log of a dealer: bytes that only the validators' library reads, at most [`DEALING_BYTES_MAX`] of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DealingLog(Vec<u8>);

impl DealingLog {
    /// A log of these bytes; `None` if there are too many.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() <= DEALING_BYTES_MAX).then_some(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Encode for DealingLog {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.0);
    }
}

impl Decode for DealingLog {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.bytes("dealing", DEALING_BYTES_MAX)?;
        Ok(Self(bytes.to_vec()))
    }
}
