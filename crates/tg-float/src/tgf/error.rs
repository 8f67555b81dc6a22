//! What an execution may take, and why it gives no result.

use crate::tensor::{DType, TensorError};
use std::borrow::Cow;

/// What an evaluation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of tensors, results and scratch, alive at one time; constants and inputs are not counted.
    pub bytes: usize,
    /// Most iterations of a `Loop` or `Scan`.
    pub iterations: usize,
    /// Units of work, as `docs/PROTOCOL.md` counts them: the same on every machine.
    pub work: u64,
}

impl Default for Budget {
    /// 4 GiB, 65,536 iterations, work without a limit.
    fn default() -> Self {
        Self {
            bytes: 4 << 30,
            iterations: 1 << 16,
            work: u64::MAX,
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
    /// More work than is left of the budget.
    #[error("takes {units} units of work, {left} are left")]
    Work {
        /// Taken.
        units: u64,
        /// Left.
        left: u64,
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

    /// What of a budget did not suffice, if that is the reason, in a body too.
    #[must_use]
    pub fn shortage(&self) -> Option<Shortage> {
        match self {
            Self::Work { .. } => Some(Shortage::Work),
            Self::Memory { .. } => Some(Shortage::Memory),
            Self::Body(error) => match error.as_ref() {
                RunError::Node { source, .. } => source.shortage(),
                _ => None,
            },
            _ => None,
        }
    }
}

/// What of a budget did not suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Units of work.
    Work,
    /// Bytes.
    Memory,
}

/// Why a graph gives no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Another number of inputs than the graph has.
    #[error("the graph takes {expected} inputs, {got} are given")]
    Inputs {
        /// Inputs of the graph.
        expected: usize,
        /// Given.
        got: usize,
    },
    /// An input of another type or shape than declared.
    #[error("the input `{name}` is declared otherwise than {got:?} {shape:?}")]
    Input {
        /// Its name.
        name: String,
        /// The given type.
        got: DType,
        /// The given shape.
        shape: Vec<usize>,
    },
    /// A node that gives no result.
    #[error("node `{node}` ({op}, inputs {inputs})")]
    Node {
        /// Its name.
        node: String,
        /// Its operator.
        op: String,
        /// Types and shapes of its inputs.
        inputs: String,
        /// Why.
        #[source]
        source: OpError,
    },
    /// A value that is read before it is given: the graph was not checked.
    #[error("the value `{0}` is not given")]
    Value(String),
}
