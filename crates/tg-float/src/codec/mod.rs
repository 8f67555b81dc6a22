//! The canonical encoding of a graph: its structure in one byte string, the elements of its tensors in another.
//!
//! The structure has everything but elements: names, operator sets, inputs, outputs, nodes, attributes, bodies, and of each
//! tensor its type and shape. The constants have the elements of all tensors, in the order in which the structure names them:
//! constants of a graph before its nodes, attributes of a node in the order of their names, bodies where they stand.
//! `docs/PROTOCOL.md` gives both field by field.
//!
//! One graph has one encoding, and [`decode`] takes that alone: what it reads encodes to the same bytes again. Floats are
//! their bits, so a NaN keeps its payload. A decoder allocates at most a constant factor of its input, goes at most
//! [`limits::DEPTH_MAX`] bodies deep, and gives graphs that are well formed ([`Graph::check`], in every body too).
//!
//! [`Graph::check`]: crate::Graph::check

mod error;
pub mod limits;
mod read;
pub(crate) mod tensors;
mod write;

#[cfg(test)]
mod tests;

pub use error::GraphDecodeError;

use crate::graph::Graph;
use tg_types::{DecodeError, Reader, Writer};

/// A graph as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedGraph {
    /// Everything but elements of tensors.
    pub structure: Vec<u8>,
    /// The elements of its tensors.
    pub constants: Vec<u8>,
}

/// The bytes of a graph.
///
/// # Panics
/// If a list of it has 2^32 entries or more.
#[must_use]
pub fn encode(graph: &Graph) -> EncodedGraph {
    let mut writers = write::Writers {
        structure: Writer::new(),
        constants: Writer::new(),
    };
    write::graph(&mut writers, graph);
    EncodedGraph {
        structure: writers.structure.into_bytes(),
        constants: writers.constants.into_bytes(),
    }
}

/// The graph of these bytes.
///
/// # Errors
/// If they are not the encoding of a well formed graph within [`limits`].
pub fn decode(structure: &[u8], constants: &[u8]) -> Result<Graph, GraphDecodeError> {
    let bound = bounded("constants", constants, limits::CONSTANTS_BYTES_MAX);
    bound.map_err(GraphDecodeError::Constants)?;
    read_all(structure, Some(Reader::new(constants)))
}

/// The graph of a structure, with tensors of the right types and no elements.
///
/// # Errors
/// As [`decode`], but for the elements.
pub fn decode_structure(structure: &[u8]) -> Result<Graph, GraphDecodeError> {
    read_all(structure, None)
}

fn read_all(structure: &[u8], constants: Option<Reader<'_>>) -> Result<Graph, GraphDecodeError> {
    bounded("structure", structure, limits::STRUCTURE_BYTES_MAX)?;
    let mut readers = read::Readers {
        structure: Reader::new(structure),
        constants,
    };
    let graph = read::graph(&mut readers, 0)?;
    let rest = readers.structure.finish();
    rest.map_err(GraphDecodeError::Structure)?;
    if let Some(constants) = readers.constants {
        constants.finish().map_err(GraphDecodeError::Constants)?;
    }
    Ok(graph)
}

const fn bounded(field: &'static str, bytes: &[u8], limit: usize) -> Result<(), DecodeError> {
    if bytes.len() > limit {
        return Err(DecodeError::TooLong {
            field,
            count: bytes.len(),
            limit,
        });
    }
    Ok(())
}
