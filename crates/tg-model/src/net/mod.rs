//! The float graph (`tg-float`) and the reader of ONNX files (`tg-onnx`).

pub use tg_float::{
    Attribute, DType, Data, Dim, Graph, Input, Node, Subgraph, Tensor, ValueId, convert, graph,
    npy, tensor, tgf,
};
pub use tg_onnx::{ReadError, ReadLimits, fuzz, read};
