//! From a float graph to an integer program: passes, calibration, quantisation, lowering to TGX-1.
//!
//! Read in this order: [`passes`] (from the graph as its file has it to one that can be lowered), [`calibrate`] (what
//! values take), [`integer`] (the graph as an integer program), [`compile`](mod@compile) (all of that as one pipeline,
//! with a comparison), [`outputs`] (which outputs go into one program), [`explain`] (what it did, as text), [`accuracy`] (how often both are
//! right), [`digits`] (the shipped data), [`suite`] (the models of the benchmark suite).

pub mod accuracy;
pub mod calibrate;
pub mod compile;
pub mod digits;
pub mod explain;
#[doc(hidden)]
pub mod fuzz;
pub mod integer;
pub mod outputs;
pub mod passes;
pub mod suite;

pub use compile::{
    CompileError, CompileOptions, Compiled, PrecisionChoice, Takes, compile, compile_prepared,
    compile_taken,
};
pub use outputs::{LeftOut, OutputsError, compile_outputs};
