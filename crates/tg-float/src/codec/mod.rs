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

mod read;
pub(crate) mod tensors;
mod write;

#[cfg(test)]
mod tests;

use crate::graph::{Graph, GraphError};
use tg_types::{DecodeError, Reader, Writer};

/// What a graph may hold. They bound what reading one takes; a file's own size bounds their sum.
pub mod limits {
    /// Bytes of a structure.
    pub const STRUCTURE_BYTES_MAX: usize = (8 << 20) - (1 << 10);
    /// Bytes of the constants.
    pub const CONSTANTS_BYTES_MAX: usize = 256 << 20;
    /// Bodies inside each other: executing them recurses.
    pub const DEPTH_MAX: usize = 8;
    /// Nodes of one graph or body.
    pub const NODES_MAX: usize = 1 << 16;
    /// Values of one graph or body.
    pub const VALUES_MAX: usize = 1 << 20;
    /// Inputs or outputs of one graph or body.
    pub const PORTS_MAX: usize = 1 << 12;
    /// Inputs or outputs of one node.
    pub const OPERANDS_MAX: usize = 1 << 16;
    /// Attributes of one node.
    pub const ATTRIBUTES_MAX: usize = 256;
    /// Operator sets.
    pub const OPSETS_MAX: usize = 256;
    /// Elements of a list attribute.
    pub const LIST_MAX: usize = 1 << 21;
    /// Bytes of a name.
    pub const NAME_BYTES_MAX: usize = 1 << 12;
    /// Bytes of a text: an attribute, or an element of a tensor.
    pub const TEXT_BYTES_MAX: usize = 1 << 16;
}

/// A graph as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedGraph {
    /// Everything but elements of tensors.
    pub structure: Vec<u8>,
    /// The elements of its tensors.
    pub constants: Vec<u8>,
}

/// Why bytes are not the encoding of a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphDecodeError {
    /// The structure cannot be read.
    #[error("read the structure of the graph")]
    Structure(#[source] DecodeError),
    /// The constants cannot be read.
    #[error("read the constants of the graph")]
    Constants(#[source] DecodeError),
    /// Bodies inside each other.
    #[error("bodies are nested more than {} deep", limits::DEPTH_MAX)]
    Depth,
    /// A tensor that cannot be.
    #[error("a tensor has the shape {shape:?}, which no tensor can have")]
    Shape {
        /// Its shape.
        shape: Vec<usize>,
    },
    /// The graph, or a body, is not well formed.
    #[error("the graph is not well formed")]
    Graph(#[source] GraphError),
    /// A body reads a value of the node that is not there.
    #[error(
        "node `{node}` has a body that reads input {index} of the node, which it does not have"
    )]
    Capture {
        /// The node.
        node: String,
        /// The input.
        index: usize,
    },
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
