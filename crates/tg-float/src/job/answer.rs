//! What a run answers: how it ended, what it took, and its outputs.

use super::limits::OUTPUT_BYTES_MAX;
use crate::codec::limits::NAME_BYTES_MAX;
use tg_types::{Decode, DecodeError, Encode, Reader, Writer};

/// How a run ended. Every end is an answer: the work was done up to it, and is paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FloatEnd {
    /// Every output was computed.
    Finished,
    /// The work of the model's limits did not suffice, at this node.
    OutOfWork(String),
    /// The memory of the model's limits did not suffice, at this node.
    OutOfMemory(String),
    /// The input is none that the graph takes.
    BadInput,
    /// A node gave no result on what it was given.
    Failed(String),
    /// The outputs are larger than the model's limit.
    BadOutput,
}

impl std::fmt::Display for FloatEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finished => f.write_str("finished"),
            Self::OutOfWork(node) => write!(f, "out of work at node `{node}`"),
            Self::OutOfMemory(node) => write!(f, "out of memory at node `{node}`"),
            Self::BadInput => f.write_str("the input is none that the graph takes"),
            Self::Failed(node) => write!(f, "node `{node}` gives no result on this input"),
            Self::BadOutput => f.write_str("the outputs are larger than the model's limit"),
        }
    }
}

impl Encode for FloatEnd {
    fn encode(&self, writer: &mut Writer) {
        let (tag, node) = match self {
            Self::Finished => (0, None),
            Self::OutOfWork(node) => (1, Some(node)),
            Self::OutOfMemory(node) => (2, Some(node)),
            Self::BadInput => (3, None),
            Self::Failed(node) => (4, Some(node)),
            Self::BadOutput => (5, None),
        };
        writer.u8(tag);
        if let Some(node) = node {
            writer.str(node);
        }
    }
}

impl Decode for FloatEnd {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        let mut node = || Ok(reader.str("name of a node", NAME_BYTES_MAX)?.to_owned());
        Ok(match tag {
            0 => Self::Finished,
            1 => Self::OutOfWork(node()?),
            2 => Self::OutOfMemory(node()?),
            3 => Self::BadInput,
            4 => Self::Failed(node()?),
            5 => Self::BadOutput,
            tag => {
                return Err(DecodeError::Invalid {
                    field: "end of a run",
                    value: tag.into(),
                });
            }
        })
    }
}

/// What a run answers. Its bytes are the output that a receipt names, and the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatAnswer {
    /// How it ended.
    pub end: FloatEnd,
    /// Units of work that were taken, at most the model's limit.
    pub work: u64,
    /// The file of the outputs ([`super::NamedTensors`]); empty unless it finished.
    pub output: Vec<u8>,
}

impl Encode for FloatAnswer {
    fn encode(&self, writer: &mut Writer) {
        let Self { end, work, output } = self;
        end.encode(writer);
        writer.u64(*work);
        writer.bytes(output);
    }
}

impl Decode for FloatAnswer {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            end: FloatEnd::decode(reader)?,
            work: reader.u64()?,
            output: reader.bytes("output", OUTPUT_BYTES_MAX as usize)?.to_vec(),
        })
    }
}
