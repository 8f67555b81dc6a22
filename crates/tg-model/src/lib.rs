//! From ONNX to an integer program, and its canonical execution (tier TGX-1).
//!
//! Read in this order: [`onnx`] (a file to a float graph), [`graph`] (what that is), [`reference`] (its execution in
//! f32), [`fuse`] (folding and fusing), [`calibrate`] (how far values reach), [`lower`] (the graph as an integer
//! program), [`compile`] (all of that as one pipeline, with a comparison), [`kernels`] (fast exact kernels), [`engine`] (a program prepared once and run many times), [`execute`] (a program and an input give a
//! trace), [`input`] (files to inputs), [`accuracy`] (how often both are right), [`digits`] (the shipped data), [`range`] (what an accumulator can reach), [`sample`] (random models for tests), [`suite`] (the models of the benchmark suite).
//! [`net`] is the operator-level graph with every ONNX node, and tier TGF-1 on it.

pub mod accuracy;
pub mod calibrate;
pub mod compile;
pub mod digits;
pub mod engine;
pub mod execute;
pub mod fuse;
#[doc(hidden)]
pub mod fuzz;
pub mod graph;
pub mod input;
pub mod kernels;
mod layer;
pub mod lower;
pub mod net;
pub mod onnx;
pub mod range;
pub mod reference;
pub mod sample;
pub mod suite;
#[cfg(test)]
mod vectors;

pub use compile::{CompileError, CompileOptions, Compiled, compile};
pub use engine::Engine;
pub use execute::{ExecuteError, Tensor, Trace, execute, execute_tensor};
pub use graph::FloatGraph;
