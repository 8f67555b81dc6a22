//! ONNX bytes to a [`Graph`].
//!
//! [`scan`] bounds what decoding takes, [`tensor`] reads constants, [`external`] those outside the file, [`body`] nodes, functions (written out where they
//! are called) and subgraphs. `Constant` nodes become constants. The reader is bounded and total: any bytes give a
//! graph or a [`ReadError`] that names the node and its operator.

mod body;
mod external;
mod problem;
mod scan;
mod tensor;
#[cfg(test)]
mod tests;

pub use problem::TensorProblem;

use crate::proto::{ModelProto, OperatorSetIdProto, TensorProto};
use prost::Message;
use std::collections::BTreeMap;
use std::path::Path;
use tg_float::FloatTensor;
use tg_float::graph::{Graph, GraphError};

/// Oldest operator set that is read: version 7 made broadcasting what it is.
pub const OPSET_MIN: i64 = 7;
/// Newest operator set whose operators were looked at.
pub const OPSET_MAX: i64 = 28;

/// How many times its size a file may take when decoded; weights take their size once, graphs about twice.
const DECODED_TIMES: usize = 4;
/// Bytes that any file may take beside that: lists of small numbers grow sixteenfold.
const DECODED_BYTES: usize = 256 << 20;

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

/// Reads an ONNX model; `folder` is where external data may lie.
///
/// # Errors
/// If the bytes are not an ONNX model, are over a limit, or hold something that is not read.
pub fn read(bytes: &[u8], folder: Option<&Path>, limits: &ReadLimits) -> Result<Graph, ReadError> {
    if bytes.len() > limits.file_bytes {
        return Err(ReadError::TooLarge {
            bytes: bytes.len(),
            limit: limits.file_bytes,
        });
    }
    bounded(bytes, scan::Message::Model)?;
    let model = ModelProto::decode(bytes)?;
    let opsets = opsets(&model.opset_import);
    match opsets.get("") {
        Some(&version) if !(OPSET_MIN..=OPSET_MAX).contains(&version) => {
            return Err(ReadError::Opset { version });
        }
        None if opsets.is_empty() => return Err(ReadError::NoOpset),
        // A model may consist of operators of other domains alone.
        _ => {}
    }
    let graph = model.graph.as_ref().ok_or(ReadError::NoGraph)?;
    let source = tensor::Source {
        left: limits.constant_bytes,
        folder,
    };
    let graph = body::Reader::new(&model.functions, source, *limits).read(graph, opsets)?;
    graph.check()?;
    Ok(graph)
}

/// Reads one tensor in ONNX's format (`TensorProto`), with its name.
///
/// # Errors
/// If the bytes are not one, or it is over `bytes_max` bytes in memory.
pub fn read_tensor(bytes: &[u8], bytes_max: usize) -> Result<(String, FloatTensor), ReadError> {
    bounded(bytes, scan::Message::Tensor)?;
    let proto = TensorProto::decode(bytes)?;
    let mut source = tensor::Source {
        left: bytes_max,
        folder: None,
    };
    let tensor = source.read(&proto).map_err(|problem| ReadError::Tensor {
        name: proto.name.clone(),
        problem,
    })?;
    Ok((proto.name, tensor))
}

/// Decoding takes at most [`DECODED_TIMES`] the size of the file and [`DECODED_BYTES`]. Bytes that are not framed as
/// protobuf pass: the decoder refuses them where the scan stops.
fn bounded(bytes: &[u8], message: scan::Message) -> Result<(), ReadError> {
    let limit = bytes
        .len()
        .saturating_mul(DECODED_TIMES)
        .saturating_add(DECODED_BYTES);
    match scan::decoded_bytes(bytes, message) {
        Some(decoded) if decoded > limit => Err(ReadError::Hollow {
            bytes: bytes.len(),
            decoded,
        }),
        _ => Ok(()),
    }
}

/// Versions by domain; ONNX's own domain is the empty one, whichever way it is written.
fn opsets(imports: &[OperatorSetIdProto]) -> BTreeMap<String, i64> {
    let one = |set: &OperatorSetIdProto| (domain(&set.domain), set.version);
    imports.iter().map(one).collect()
}

fn domain(written: &str) -> String {
    let written = if written == "ai.onnx" { "" } else { written };
    written.to_owned()
}
