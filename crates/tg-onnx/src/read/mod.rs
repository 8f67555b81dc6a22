//! ONNX bytes to a [`Graph`].
//!
//! `scan` bounds what decoding takes, `tensor` reads constants, `external` those outside the file, `body` nodes, functions (written out where they
//! are called) and subgraphs. `Constant` nodes become constants. The reader is bounded and total: any bytes give a
//! graph or a [`ReadError`] that names the node and its operator.

mod body;
mod error;
mod external;
mod problem;
mod scan;
mod tensor;
#[cfg(test)]
mod tests;

pub use error::{OPSET_MAX, OPSET_MIN, ReadError, ReadLimits};
pub use problem::TensorProblem;

use crate::proto::{ModelProto, TensorProto};
use error::opsets;
use prost::Message;
use std::path::Path;
use tg_float::FloatTensor;
use tg_float::graph::Graph;

/// How many times its size a file may take when decoded; weights take their size once, graphs about twice.
const DECODED_TIMES: usize = 4;
/// Bytes that any file may take beside that: lists of small numbers grow sixteenfold.
const DECODED_BYTES: usize = 256 << 20;

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
