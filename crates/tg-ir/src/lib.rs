//! The integer graph IR: programs, shapes, bounds, segment tables and scalar semantics (tier TGX-1).
//!
//! Read in this order: [`shape`] (what a tensor is), [`program`] (what a program is), [`rescale`] (the only
//! requantisation), [`segment`] (the same step function as a public table, for the prover), [`window`] (which input
//! pixels a convolution or pooling reads), [`weights`] (the private part), [`model`] (both, as one file),
//! [`bounds`] (why no accumulator can leave the field), [`scalar`] (the meaning of each operator, one element at a
//! time).
//!
//! The formulas stand in `docs/PROTOCOL.md`; this crate is their only definition in code. It does no I/O, uses no
//! floats in execution, and panics only on a program that [`program::Program::validate`] would have refused.

pub mod bounds;
pub mod model;
pub mod program;
pub mod rescale;
pub mod scalar;
pub mod segment;
pub mod shape;
pub mod weights;
pub mod window;

pub use bounds::{BoundError, FIELD_BOUND};
pub use model::CompiledModel;
pub use program::{InputSpec, Node, Op, Program, ProgramError, Requantise, TensorId};
pub use rescale::Rescale;
pub use segment::{Segment, SegmentError, SegmentTable};
pub use shape::{ElementType, Shape};
pub use weights::{LinearWeights, Weights};
pub use window::Window;
