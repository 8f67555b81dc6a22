//! What a run is given: chunks, one call each.

use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{Decode, DecodeError, Encode, Reader, Writer};

use crate::limits::CHUNKS_MAX;

/// The input of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramInput {
    /// Chunks of the work: each is a call of `step`.
    Steps(Vec<Vec<u8>>),
    /// Outputs of other runs of the same program, in their order: each is a call of `merge`.
    Merge(Vec<Vec<u8>>),
}

impl ProgramInput {
    /// An input of chunks.
    #[must_use]
    pub const fn steps(chunks: Vec<Vec<u8>>) -> Self {
        Self::Steps(chunks)
    }

    /// What each call is given.
    #[must_use]
    pub fn chunks(&self) -> &[Vec<u8>] {
        match self {
            Self::Steps(chunks) | Self::Merge(chunks) => chunks,
        }
    }

    /// The input's bytes: 0 for steps or 1 for a merge, and the chunks, counted.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.to_bytes()
    }

    /// Reads an input.
    ///
    /// # Errors
    /// If the bytes are none, or have too many chunks.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::from_bytes(bytes)
    }
}

impl Encode for ProgramInput {
    fn encode(&self, writer: &mut Writer) {
        writer.u8(match self {
            Self::Steps(_) => 0,
            Self::Merge(_) => 1,
        });
        writer.count(self.chunks().len());
        for chunk in self.chunks() {
            writer.bytes(chunk);
        }
    }
}

impl Decode for ProgramInput {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = reader.u8()?;
        let count = reader.count("chunks", CHUNKS_MAX, 4)?;
        let chunks = (0..count)
            .map(|_| Ok(reader.bytes("chunk", INPUT_BYTES_MAX as usize)?.to_vec()))
            .collect::<Result<_, DecodeError>>()?;
        match kind {
            0 => Ok(Self::Steps(chunks)),
            1 => Ok(Self::Merge(chunks)),
            tag => Err(DecodeError::Invalid {
                field: "program input",
                value: u64::from(tag),
            }),
        }
    }
}
