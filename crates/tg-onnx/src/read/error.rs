//! Within what limits a file is read, and why one is not.

use super::problem::TensorProblem;
use crate::proto::OperatorSetIdProto;
use std::collections::BTreeMap;
use tg_float::graph::GraphError;

/// Oldest operator set that is read: version 7 made broadcasting what it is.
pub const OPSET_MIN: i64 = 7;
/// Newest operator set whose operators were looked at.
pub const OPSET_MAX: i64 = 28;

/// What a file may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// Largest file, in bytes.
    pub file_bytes: usize,
    /// Most bytes of memory of all constants together, and of the names, texts and lists that nodes hold.
    pub constant_bytes: usize,
    /// Most nodes, subgraphs and written-out functions included.
    pub nodes: usize,
    /// Deepest nesting of functions and subgraphs.
    pub depth: usize,
}

impl Default for ReadLimits {
    /// A protobuf file of 2 GiB, 8 GiB of constants, 65,536 nodes, 16 levels.
    fn default() -> Self {
        Self {
            file_bytes: 2 << 30,
            constant_bytes: 8 << 30,
            nodes: 1 << 16,
            depth: 16,
        }
    }
}

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReadError {
    /// The file is larger than the limit.
    #[error("the ONNX file has {bytes} bytes, at most {limit} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Decoding would take far more memory than the file has bytes.
    #[error(
        "the ONNX file has {bytes} bytes and would take {decoded} in memory: it is made of empty parts"
    )]
    Hollow {
        /// Its size.
        bytes: usize,
        /// What decoding would take.
        decoded: usize,
    },
    /// The file is not an ONNX model.
    #[error("the file is not an ONNX model (protobuf)")]
    Protobuf(#[from] prost::DecodeError),
    /// The model has no graph.
    #[error("the ONNX file holds no graph")]
    NoGraph,
    /// An operator set that is not read.
    #[error(
        "the model uses version {version} of the ONNX operator set; {OPSET_MIN} to {OPSET_MAX} are read"
    )]
    Opset {
        /// The version.
        version: i64,
    },
    /// No operator set is named.
    #[error("the file names no version of the ONNX operator set: it is empty or no ONNX model")]
    NoOpset,
    /// More nodes than the limit.
    #[error("the model has more than {0} nodes, functions written out")]
    TooManyNodes(usize),
    /// Functions or subgraphs nested more deeply than the limit.
    #[error("node `{node}` ({op}) nests functions or subgraphs more than {limit} levels deep")]
    Depth {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// The limit.
        limit: usize,
    },
    /// An input or output that is not a dense tensor, or has a negative axis.
    #[error("the input `{name}` {problem}")]
    Input {
        /// The input.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A constant that cannot be read.
    #[error("the tensor `{name}` {problem}")]
    Tensor {
        /// Its name, or the node and attribute that hold it.
        name: String,
        /// What is wrong.
        #[source]
        problem: TensorProblem,
    },
    /// Sparse constants.
    #[error("the model holds sparse constants; save it with dense weights")]
    Sparse,
    /// A node that reads a name nothing before it gives (nodes in a circle included).
    #[error("node `{node}` ({op}) reads `{value}`, which nothing before it gives")]
    Unknown {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// The name.
        value: String,
    },
    /// A name that is given twice.
    #[error("node `{node}` ({op}) gives `{value}`, which is given before")]
    Twice {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// The name.
        value: String,
    },
    /// An output of the graph, a subgraph or a function that nothing gives.
    #[error("nothing gives the output `{0}`")]
    Output(String),
    /// A node that is malformed or of a kind that is not read.
    #[error("node `{node}` ({op}) {problem}")]
    Node {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A graph that breaks the rules of graphs.
    #[error("the graph is not well formed")]
    Graph(#[from] GraphError),
}

/// Versions by domain; ONNX's own domain is the empty one, whichever way it is written.
pub(super) fn opsets(imports: &[OperatorSetIdProto]) -> BTreeMap<String, i64> {
    let one = |set: &OperatorSetIdProto| (domain(&set.domain), set.version);
    imports.iter().map(one).collect()
}

pub(super) fn domain(written: &str) -> String {
    let written = if written == "ai.onnx" { "" } else { written };
    written.to_owned()
}
