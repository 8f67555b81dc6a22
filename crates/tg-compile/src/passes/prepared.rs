//! What a preparation is told, what it gives, and why it gives nothing.

use std::collections::BTreeMap;
use tg_float::tgf::RunError;
use tg_float::{DType, FloatTensor, Graph, ValueId};

/// What a preparation may be told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrepareOptions {
    /// Sizes of named axes and, as `INPUT.AXIS`, of axes without a name. An unnamed first axis is a batch of 1.
    pub axes: BTreeMap<String, usize>,
    /// Inputs that take one value everywhere, such as an attention mask of ones.
    pub bind: BTreeMap<String, f64>,
    /// What the program gives.
    pub keep: KeptOutputs,
}

/// Which values of a graph are kept as outputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KeptOutputs {
    /// All outputs, in the order of the file.
    #[default]
    All,
    /// The first output that is no label.
    Scores,
    /// Outputs, or values on the way to one, by name and in this order.
    Named(Vec<String>),
}

/// Why a graph cannot be prepared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PrepareError {
    /// An axis of an input without a size.
    #[error("axis {axis} of the input `{input}` has no size; give it one (`--axis {name}=SIZE`)")]
    Axis {
        /// The input.
        input: String,
        /// Its axis.
        axis: usize,
        /// What the option calls it.
        name: String,
    },
    /// An input without a shape.
    #[error("the input `{0}` is declared without type or axes")]
    Undeclared(String),
    /// An output that the graph does not have.
    #[error("the graph has no output `{0}`")]
    Output(String),
    /// More outputs than a program has.
    #[error(
        "the graph has {0} outputs, and a program at most 16; name those to keep (`--keep NAME`)"
    )]
    Outputs(usize),
    /// An operator without a program.
    #[error(
        "node `{node}` ({op}) has no program of integers; {}`tensorgrid run` runs the whole file in floats",
        before.as_ref().map_or_else(String::new, |value| format!("`--keep {value}` ends the program before it, "))
    )]
    Operator {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// What it reads, if that is computed.
        before: Option<String>,
    },
    /// The graph cannot be run to learn its shapes.
    #[error("the graph cannot be executed")]
    Run(#[from] RunError),
    /// A node that a pass cannot rewrite.
    #[error("node `{node}` ({op}) is not taken: {reason}")]
    Node {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// Why.
        reason: &'static str,
    },
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Element type.
    pub dtype: DType,
    /// Sizes of the axes.
    pub shape: Vec<usize>,
}

/// A graph with fixed shapes.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The graph.
    pub graph: Graph,
    /// Type and shape of every value.
    pub facts: BTreeMap<ValueId, Fact>,
    /// The outputs' names in the file; passes may have put other values in their places.
    pub output_names: Vec<String>,
    /// For each output, the texts that its whole numbers stand for; empty if they are numbers in the file too.
    pub output_labels: Vec<Vec<String>>,
}

impl Prepared {
    /// The shape of a value.
    ///
    /// # Panics
    /// If the graph does not have the value.
    #[must_use]
    pub fn shape(&self, value: ValueId) -> &[usize] {
        &self.facts[&value].shape
    }
}

/// The tensor of an input of this type and shape that is zero everywhere.
pub(crate) fn zeros(fact: &Fact) -> Option<FloatTensor> {
    let count = tg_float::tensor::elements(&fact.shape)?;
    FloatTensor::new(fact.shape.clone(), tg_float::Data::zeros(fact.dtype, count)).ok()
}
