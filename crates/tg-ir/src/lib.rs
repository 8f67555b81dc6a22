//! The integer graph IR: programs, shapes, bounds, segment tables and scalar semantics (tier TGX-1).
//!
//! Read in this order:
//! 1. [`shape`] - what a tensor is
//! 2. [`op`] - what a node computes, one file for each family
//! 3. [`program`] - what a program is
//! 4. [`rescale`], [`requantise`] - the only requantisation
//! 5. [`segment`] - the same step function as a public table, for the prover; [`wide`] for 16-bit outputs,
//!    [`exponential`] for softmax
//! 6. [`window`], [`view`] - which input elements an output reads
//! 7. [`forest`] - decision trees
//! 8. [`weights`] - the private part
//! 9. [`model`] - both, as one file
//! 10. [`checked`] - programs that are known to be well formed
//! 11. [`bounds`] - why no accumulator can leave the field
//! 12. [`range`] - how far given weights go
//! 13. [`scalar`] - the meaning of each operator, one element at a time
//! 14. [`tiles`] - parts of an execution that are computed again
//!
//! For language models:
//! 1. [`causality`] - no output looks ahead
//! 2. [`sampling`] - which token follows
//! 3. [`generation`] - that a sequence was written by a model
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
