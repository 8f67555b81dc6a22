//! Tier TGF-1: what every operator computes in floating point, bit for bit on every machine.
//!
//! **Rules.** Floats are IEEE 754 binary32 (`f64` inputs: the same rules in binary64). `+ - * /`, square root and
//! fused multiply-add are the correctly rounded ones. A dot product accumulates in ascending k from +0 with one fused
//! multiply-add per step, the bias is added last. A sum is taken in ascending order, row-major over the reduced axes.
//! Other functions are the polynomials of [`math`], never the platform's. A NaN that arithmetic gives is `0x7fc00000`;
//! operators that only move data keep every bit. Subnormals are kept. `f16` and `bf16` are widened to `f32` (exact),
//! computed there, and rounded once per operator.
//!
//! **Files.** `call` is an operator's view of its node; [`math`] the functions; `machine` the processor in use (the
//! same bits on each); one file per family of operators, each with a `lookup` from a
//! name to its function. `plan` makes steps of a graph, `fuse` joins operators that go element by element, `run`
//! executes the steps within a budget of memory and of work (`work`) and frees values after their last use; `section` does so node by node, and for a part; [`Engine`] does so many times.

mod activation;
mod arithmetic;
mod attention;
mod boxes;
mod broadcast;
pub(crate) mod call;
mod cast;
mod centred;
mod control;
mod conv;
mod dispatch;
mod each;
mod elementwise;
mod encoders;
mod engine;
mod error;
mod floats;
mod fuse;
mod gemm;
mod grid;
#[cfg(test)]
mod hostile_tests;
mod linear;
mod loss;
mod machine;
pub mod math;
mod meter;
mod movement;
mod norm;
mod pad;
mod plan;
mod pool;
mod product;
mod quant;
mod real;
mod reduce;
mod resize;
mod rnn;
mod rows;
mod run;
mod scatter;
mod section;
mod select;
mod signal;
#[cfg(test)]
mod tests;
mod trees;
#[cfg(test)]
mod values_tests;
mod vectors;
mod window;
pub mod work;

pub use engine::Engine;
pub use error::{Budget, OpError, RunError, Shortage};
pub use machine::with_cpu;
pub use meter::STEP;
pub use run::{CountedRun, evaluate, is_known, run, run_all, run_in_order};
pub(crate) use section::{
    NodeSeen, SectionRun, SectionStart, last_needed, run_section, run_watched,
};
