//! Tier TGF-1: what every operator computes in floating point, bit for bit on every machine.
//!
//! **Rules.** Floats are IEEE 754 binary32 (`f64` inputs: the same rules in binary64). `+ - * /`, square root and
//! fused multiply-add are the correctly rounded ones. A dot product accumulates in ascending k from +0 with one fused
//! multiply-add per step, the bias is added last. A sum is taken in ascending order, row-major over the reduced axes.
//! Other functions are the polynomials of [`math`], never the platform's. A NaN that arithmetic gives is `0x7fc00000`;
//! operators that only move data keep every bit. Subnormals are kept. `f16` and `bf16` are widened to `f32` (exact),
//! computed there, and rounded once per operator.
//!
//! **Files.** [`call`] is an operator's view of its node; [`math`] the functions; [`machine`] the processor in use (the
//! same bits on each); one file per family of operators, each with a `lookup` from a
//! name to its function. [`plan`] makes steps of a graph, [`fuse`] joins operators that go element by element, [`run`]
//! executes the steps within a budget of memory and frees values after their last use; [`Engine`] does so many times.

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
mod elementwise;
mod engine;
mod fuse;
mod gemm;
mod grid;
mod linear;
mod loss;
mod machine;
pub mod math;
mod movement;
mod norm;
mod pad;
mod plan;
mod pool;
mod quant;
mod real;
mod reduce;
mod resize;
mod rnn;
mod rows;
mod run;
mod scatter;
mod select;
mod signal;
#[cfg(test)]
mod tests;
mod trees;
#[cfg(test)]
mod values_tests;
mod window;

pub use engine::Engine;
pub use machine::with_cpu;
pub use run::{RunError, run, run_all};

use super::convert;
use super::graph::Node;
use super::tensor::{DType, Data, FloatTensor, TensorError};
use call::{Call, Results};
use std::borrow::Cow;

/// What an evaluation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of tensors, results and scratch, alive at one time; constants and inputs are not counted.
    pub bytes: usize,
    /// Most iterations of a `Loop` or `Scan`.
    pub iterations: usize,
}

impl Default for Budget {
    /// 4 GiB, 65,536 iterations.
    fn default() -> Self {
        Self {
            bytes: 4 << 30,
            iterations: 1 << 16,
        }
    }
}

/// Why an operator gives no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// Not taken by this executor, although ONNX may define it.
    #[error("is not supported: {reason}")]
    Refused {
        /// Why.
        reason: &'static str,
    },
    /// An operator this executor does not know.
    #[error("is not an operator that is supported")]
    Unknown,
    /// Not allowed by ONNX.
    #[error("is not valid: {problem}")]
    Invalid {
        /// What is wrong.
        problem: Cow<'static, str>,
    },
    /// An input is missing.
    #[error("has no input {index}")]
    Missing {
        /// Which.
        index: usize,
    },
    /// An input has an element type that is not taken.
    #[error("does not take {got:?} as input {index}")]
    Type {
        /// Which.
        index: usize,
        /// Its type.
        got: DType,
    },
    /// An attribute has the wrong type.
    #[error("has an attribute `{name}` of another type than the operator's")]
    Attribute {
        /// Which.
        name: &'static str,
    },
    /// An axis out of range.
    #[error("names the axis {axis} of {rank}")]
    Axis {
        /// The axis.
        axis: i64,
        /// Number of axes.
        rank: usize,
    },
    /// A result that would not fit the budget.
    #[error("needs {bytes} bytes, {left} are left")]
    Memory {
        /// Needed.
        bytes: usize,
        /// Left.
        left: usize,
    },
    /// A node of its body gives no result.
    #[error("has a body that gives no result")]
    Body(#[source] Box<RunError>),
    /// A result that is not a tensor.
    #[error("gives a result that is not a tensor")]
    Tensor(#[source] TensorError),
}

impl OpError {
    /// Not allowed by ONNX.
    pub(crate) fn invalid(problem: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid {
            problem: problem.into(),
        }
    }

    /// Whether the executor, and not the model, is what falls short.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Unknown | Self::Type { .. } => true,
            Self::Body(error) => match error.as_ref() {
                RunError::Node { source, .. } => source.is_refusal(),
                _ => false,
            },
            _ => false,
        }
    }
}

/// A function that computes an operator.
pub(crate) type Kernel = fn(&Call<'_>) -> Results;

/// How an operator takes `f16` and `bf16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// It is given `f32` and its `f32` results are rounded to the type of the first half float among its inputs.
    Widen,
    /// It takes them as they are.
    Native,
}

/// A family's answer for an operator.
pub(crate) type Entry = (Kernel, Half);

/// Evaluates one node.
///
/// The results are those of the node's outputs in order; trailing ones that the node leaves out may be missing.
///
/// # Errors
/// If the operator is not supported with these inputs, or they are not valid, or the budget is not enough.
pub fn evaluate(
    node: &Node,
    inputs: &[Option<&FloatTensor>],
    budget: &Budget,
) -> Result<Vec<FloatTensor>, OpError> {
    let entry = lookup(node).ok_or(OpError::Unknown)?;
    call_entry(entry, node, None, inputs, budget)
}

/// Evaluates a node with the function of its operator, and what was prepared of its constants.
fn call_entry(
    (kernel, half): Entry,
    node: &Node,
    prepared: Option<&gemm::Prepared>,
    inputs: &[Option<&FloatTensor>],
    budget: &Budget,
) -> Result<Vec<FloatTensor>, OpError> {
    let halves = inputs
        .iter()
        .flatten()
        .find(|tensor| tensor.dtype().is_half());
    let Some(target) = halves.filter(|_| half == Half::Widen).map(|t| t.dtype()) else {
        let mut call = Call::new(node, inputs, *budget);
        call.prepared = prepared;
        return kernel(&call);
    };
    if prepared.is_some() {
        // What was prepared is of another type than this input.
        return Err(OpError::Type {
            index: 0,
            got: target,
        });
    }
    let wide: Vec<Option<FloatTensor>> = inputs.iter().map(|input| widen(*input)).collect();
    let wide_bytes: usize = wide.iter().flatten().map(FloatTensor::bytes).sum();
    let left = budget
        .bytes
        .checked_sub(wide_bytes)
        .ok_or(OpError::Memory {
            bytes: wide_bytes,
            left: budget.bytes,
        })?;
    let widened: Vec<Option<&FloatTensor>> = wide
        .iter()
        .zip(inputs)
        .map(|(wide, input)| wide.as_ref().or(*input))
        .collect();
    let budget = Budget {
        bytes: left,
        ..*budget
    };
    let results = kernel(&Call::new(node, &widened, budget))?;
    results
        .into_iter()
        .map(|result| narrow(result, target))
        .collect()
}

/// Whether an operator is known at all (with some inputs and attributes).
#[must_use]
pub fn is_known(node: &Node) -> bool {
    lookup(node).is_some()
}

fn widen(input: Option<&FloatTensor>) -> Option<FloatTensor> {
    let tensor = input.filter(|tensor| tensor.dtype().is_half())?;
    let values = convert::to_f32(tensor.data())?;
    FloatTensor::of(tensor.shape().to_vec(), values).ok()
}

fn narrow(result: FloatTensor, target: DType) -> Result<FloatTensor, OpError> {
    let (shape, data) = result.into_parts();
    let data = match data {
        Data::F32(values) => convert::from_f32(values, target).ok_or(OpError::Unknown)?,
        other => other,
    };
    call::tensor(shape, data)
}

/// The function of a node's operator. Each family knows its own names; the order does not matter.
fn lookup(node: &Node) -> Option<Entry> {
    let op = node.op.as_str();
    match node.domain.as_str() {
        "" => arithmetic::lookup(op)
            .or_else(|| elementwise::lookup(op))
            .or_else(|| cast::lookup(op))
            .or_else(|| activation::lookup(op))
            .or_else(|| reduce::lookup(op))
            .or_else(|| movement::lookup(op))
            .or_else(|| pad::lookup(op))
            .or_else(|| select::lookup(op))
            .or_else(|| scatter::lookup(op))
            .or_else(|| norm::lookup(op))
            .or_else(|| linear::lookup(op))
            .or_else(|| conv::lookup(op))
            .or_else(|| pool::lookup(op))
            .or_else(|| resize::lookup(op))
            .or_else(|| grid::lookup(op))
            .or_else(|| quant::lookup(op))
            .or_else(|| rnn::lookup(op))
            .or_else(|| attention::lookup(op))
            .or_else(|| signal::lookup(op))
            .or_else(|| loss::lookup(op))
            .or_else(|| control::lookup(op)),
        "ai.onnx.ml" => trees::lookup(op),
        "com.microsoft" => attention::lookup_microsoft(op).or_else(|| quant::lookup_microsoft(op)),
        _ => None,
    }
}
