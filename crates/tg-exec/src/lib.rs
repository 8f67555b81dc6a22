//! Execution of TGX-1 programs on the CPU: the same integers on every machine, at every number of threads.
//!
//! Read in this order: [`execute`](mod@execute) (a program and an input
//! give a trace), [`engine`] (a program prepared once and run many times), [`kernels`] (fast exact loops), [`generate`]
//! (a language model writes), [`range`] (what an accumulator can reach), [`sample`] (random programs: for the check of a device, and for tests).

pub mod engine;
pub mod execute;
pub mod generate;
pub mod kernels;
pub mod range;
pub mod sample;
mod trace;

pub use engine::Engine;
pub use execute::{ExecuteError, Trace, execute, execute_tensor};
pub use tg_ir::IntTensor;
