//! The float graph (`tg-float`) and the reader of ONNX files.

#[doc(hidden)]
pub mod fuzz;
pub mod read;

pub use read::{ReadError, ReadLimits, read};
pub use tg_float::{
    Attribute, DType, Data, Dim, Graph, Input, Node, Subgraph, Tensor, ValueId, convert, graph,
    npy, tensor, tgf,
};
