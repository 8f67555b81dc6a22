//! The operator-level graph: an ONNX file as it was written, one node per operator, and its reproducible execution.
//!
//! Read in this order: [`tensor`] (values), [`graph`] (nodes, constants and how passes edit them), [`read`] (ONNX
//! bytes to a graph), [`tgf`] (tier TGF-1: what every operator computes, bit for bit).

pub mod convert;
#[doc(hidden)]
pub mod fuzz;
pub mod graph;
pub mod npy;
pub mod read;
pub mod tensor;
pub mod tgf;

pub use graph::{Attribute, Dim, Graph, Input, Node, Subgraph, ValueId};
pub use read::{ReadError, ReadLimits, read};
pub use tensor::{DType, Data, Tensor};
