//! From ONNX to an integer program, and its canonical execution (tier TGX-1).
//!
//! Read in this order: [`execute`] (a program and an input give a trace), [`range`] (what an accumulator can reach),
//! [`sample`] (random models for tests and benchmarks).

pub mod execute;
mod kernel;
pub mod range;
pub mod sample;

pub use execute::{ExecuteError, Tensor, Trace, execute};
