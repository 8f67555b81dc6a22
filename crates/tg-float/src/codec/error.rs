//! Why bytes are not the encoding of a graph.

use super::limits::DEPTH_MAX;
use crate::graph::GraphError;
use tg_types::DecodeError;

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
    #[error("bodies are nested more than {} deep", DEPTH_MAX)]
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
