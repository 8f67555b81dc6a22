//! From ONNX to an integer program, and its canonical execution (tier TGX-1).
//!
//! Read in this order: [`net`] (a file as its operators, and tier TGF-1 on them), [`passes`] (from the file as it was
//! written to one that can be lowered), [`calibrate`] (what values take), [`integer`] (the graph as an integer program),
//! [`compile`] (all of that as one pipeline, with a comparison), [`explain`] (what it did, as text), [`kernels`] (fast
//! exact kernels), [`engine`] (a program prepared once and run many times), [`execute`] (a program and an input give a
//! trace), [`generate`] (a language model writes), [`input`] (files to reals), [`coding`] (reals to the integers of an input), [`accuracy`] (how often both are right), [`digits`] (the shipped data),
//! [`range`] (what an accumulator can reach), [`sample`] (random models for tests), [`suite`] (the models of the
//! benchmark suite).

pub mod accuracy;
pub mod calibrate;
pub mod compile;
pub use tg_cuda as cuda;
pub mod digits;
pub mod explain;
#[doc(hidden)]
pub mod fuzz;
pub mod input;
pub mod integer;
/// Loops over integers and over floats.
pub mod kernels {
    pub use tg_exec::kernels::*;
    pub use tg_float::kernels::*;
}
pub mod net;
pub mod passes;
pub mod suite;

pub use compile::{
    CompileError, CompileOptions, Compiled, PrecisionChoice, compile, compile_prepared,
};
pub use tg_exec::{
    Engine, ExecuteError, Tensor, Trace, coding, engine, execute, execute_tensor, generate, range,
    sample,
};
