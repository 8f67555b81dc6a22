//! The integer graph IR: programs, shapes, bounds, segment tables and scalar semantics (tier TGX-1).
//!
//! Read in this order: [`shape`] (what a tensor is), [`op`] (what a node computes, one file for each family), [`program`] (what a program is),
//! [`rescale`] and [`requantise`] (the only requantisation), [`segment`] (the same step function as a public table,
//! for the prover; [`wide`] for 16-bit outputs, [`exponential`] for softmax), [`window`] and [`view`] (which input elements an output reads), [`forest`] (decision trees),
//! [`weights`] (the private part), [`model`] (both, as one file), [`checked`] (programs that are known to be well formed), [`bounds`] (why no accumulator can leave the
//! field), [`range`] (how far given weights go), [`scalar`] (the meaning of each operator, one element at a time), [`tiles`] (parts of an execution that are computed again); then for language models [`causality`] (no
//! output looks ahead), [`sampling`] (which token follows) and [`generation`] (that a sequence was written by a model).
//!
//! The formulas stand in `docs/PROTOCOL.md`; this crate is their only definition in code. It does no I/O, uses no
//! floats in execution, and panics only on a program that [`program::Program::validate`] would have refused.

pub mod answer;
pub mod bounds;
pub mod causality;
mod check;
pub mod checked;
pub mod coding;
mod encoding;
pub mod exponential;
pub mod forest;
pub mod generation;
mod limits;
pub mod model;
pub mod op;
mod packing;
pub mod program;
pub mod range;
pub mod requantise;
pub mod request;
pub mod rescale;
pub mod sampling;
pub mod scalar;
pub mod segment;
pub mod shape;
pub mod signature;
pub mod tensor;
pub mod tiles;
pub mod view;
pub mod weights;
pub mod wide;
pub mod window;

pub use answer::Answer;
pub use bounds::{BoundError, FIELD_BOUND};
pub use check::ProgramError;
pub use checked::CheckedProgram;
pub use exponential::ExponentialTable;
pub use forest::Forest;
pub use generation::{Generation, Generator};
pub use model::{CompiledModel, ExecutableModel};
pub use op::{Axis, Op};
pub use packing::unnamed_places;
pub use program::{Coding, InputSpec, Node, Program, TensorId, Tie};
pub use requantise::Requantise;
pub use request::GenerationRequest;
pub use rescale::Rescale;
pub use sampling::Sampling;
pub use segment::{Segment, SegmentError, SegmentTable};
pub use shape::{ElementType, Shape};
pub use signature::{InputPort, OutputPort, Signature};
pub use tensor::IntTensor;
pub use view::View;
pub use weights::{LinearWeights, NodeWeights, Weights};
pub use wide::{WideError, WideSegment, WideTable};
pub use window::Window;
