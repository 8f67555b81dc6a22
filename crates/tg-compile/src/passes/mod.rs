//! Passes over the operator-level graph, from the file as it was written to one that can be lowered to integers.
//!
//! [`prepare`] is the whole pipeline: bind inputs and fix their shapes, keep one output, write quantised operators as
//! float operators between `QuantizeLinear` and `DequantizeLinear`, linear operators of `ai.onnx.ml` and attention with
//! grouped queries as primitives, run once to learn every shape, fold what does not depend on the input, unroll
//! recurrences, write picking at constant places as a gather, fold normalisations and constants into weights, and
//! recognise normalisations from their primitives. Every pass keeps a graph that tier TGF-1 can run. [`smooth`] needs
//! what values take and comes after calibration.

mod affine;
mod edit;
mod grouped;
mod indexing;
mod learned;
mod norms;
mod quantised;
mod recurrent;
mod shapes;
mod simplify;
mod smooth;

pub(crate) use edit::{float, floats_of, int, ints, scalar_of};
pub use smooth::smooth;

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
    /// The output that is kept; the first one of floats if not given.
    pub output: Option<String>,
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
    /// No input is left, or inputs that cannot be one tensor.
    #[error(
        "the graph takes {0} inputs; a program takes one. Give the others a value (`--bind NAME=VALUE`)"
    )]
    Inputs(usize),
    /// An output that the graph does not have.
    #[error("the graph has no output `{0}`")]
    Output(String),
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
    /// The output's name in the file; passes may have put another value in its place.
    pub output_name: String,
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

/// Runs every pass.
///
/// # Errors
/// If an input cannot be fixed, a node cannot be executed, or a pass does not take a node.
pub fn prepare(mut graph: Graph, options: &PrepareOptions) -> Result<Prepared, PrepareError> {
    shapes::bind(&mut graph, options);
    shapes::keep_output(&mut graph, options)?;
    let output = graph.outputs.first().map(|output| output.index());
    let output_name = output.and_then(|output| graph.names.get(output).cloned());
    grouped::rewrite(&mut graph)?;
    shapes::fix(&mut graph, options)?;
    quantised::rewrite(&mut graph)?;
    learned::rewrite(&mut graph);
    shapes::fold_constants(&mut graph)?;
    graph.remove_dead();
    let mut facts = shapes::infer(&mut graph)?;
    if recurrent::unroll(&mut graph, &facts)? {
        shapes::fold_constants(&mut graph)?;
        graph.remove_dead();
        facts = shapes::infer(&mut graph)?;
    }
    for _ in 0..ROUNDS_MAX {
        let mut changed = simplify::run(&mut graph, &facts);
        changed |= indexing::rewrite(&mut graph, &facts);
        changed |= norms::fuse(&mut graph, &facts);
        changed |= affine::fold(&mut graph, &facts);
        graph.remove_dead();
        if !changed {
            break;
        }
        shapes::fold_constants(&mut graph)?;
        facts = shapes::infer(&mut graph)?;
    }
    Ok(Prepared {
        graph,
        facts,
        output_name: output_name.unwrap_or_default(),
    })
}

/// Rounds of the rewriting passes; each only ever removes or merges nodes, so a few are enough.
const ROUNDS_MAX: usize = 6;

/// The tensor of an input of this type and shape that is zero everywhere.
pub(crate) fn zeros(fact: &Fact) -> Option<FloatTensor> {
    let count = tg_float::tensor::elements(&fact.shape)?;
    FloatTensor::new(fact.shape.clone(), tg_float::Data::zeros(fact.dtype, count)).ok()
}
