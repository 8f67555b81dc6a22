//! ONNX files to the float graph: any bytes give a graph or an error that names the node.
//!
//! [`read()`] is all of it; [`mod@read`] says what a file may take and why one is refused.

#[doc(hidden)]
pub mod fuzz;
mod proto;
pub mod read;

pub use read::{ReadError, ReadLimits, read};
