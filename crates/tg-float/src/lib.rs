//! The float graph, one node per operator as its file has it, and its reproducible execution (tier TGF-1).
//!
//! Read in this order: [`tensor`] (values), [`graph`] (nodes, constants and how passes edit them), [`tgf`] (what every
//! operator computes, bit for bit), [`kernels`] (its loops over `f32`), [`convert`] (element types to one another),
//! [`npy`] (tensors as numpy files), [`codec`] (a graph as bytes),
//! [`job`] (a graph as a model that jobs name).

pub mod codec;
pub mod convert;
pub mod fuzz;
pub mod graph;
pub mod job;
pub mod kernels;
pub mod npy;
pub mod tensor;
pub mod tgf;

pub use graph::{Attribute, Dim, Graph, Input, Node, Subgraph, ValueId};
pub use tensor::{DType, Data, FloatTensor};
