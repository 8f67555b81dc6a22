//! The state of a lowering, what it may be told, and why it ends without a program.

use super::builder::Builder;
use super::form::{Form, Lowered, Version};
use super::weights::KnownWeights;
use crate::calibrate::{ReachRule, Statistics};
use crate::passes::{Fact, Prepared};
use std::collections::{BTreeMap, BTreeSet};
use tg_float::{Node, ValueId};
use tg_ir::model::ModelError;
use tg_ir::weights::{BIAS_MAX, WEIGHT_MAX};
use tg_ir::{BoundError, ElementType, ExecutableModel, FIELD_BOUND, TensorId};

/// What a segment may reach beyond the range of its requantisation.
pub(crate) const SLACK: i64 = 1 << 17;

/// How many bits activations have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 8 wherever an operator does not give 16 by itself.
    Bits8,
    /// 8 where weights or other activations multiply, 16 in sums, products of gates and normalisations.
    Mixed,
    /// 16 everywhere, clamped so that the sums that read them stay within the field.
    Bits16,
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Bits8 => "8 bits",
            Self::Mixed => "8 and 16 bits",
            Self::Bits16 => "16 bits",
        })
    }
}

/// How the weights of channels may be scaled, where the activations that follow have 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelScales {
    /// A layer's scale halved up to three times: the smallest segment tables.
    #[default]
    Shifts,
    /// Up to 16 scales of a layer, where its channels lie.
    Clusters,
}

impl std::fmt::Display for ChannelScales {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Shifts => "a layer's, halved up to three times",
            Self::Clusters => "up to 16 a layer",
        })
    }
}

/// What lowering may be told.
#[derive(Debug, Clone, PartialEq)]
pub struct LowerOptions {
    /// The model's name.
    pub name: String,
    /// Bits of activations.
    pub precision: Precision,
    /// Scales of channels.
    pub scales: ChannelScales,
    /// How far 8-bit activations reach.
    pub reach: ReachRule,
    /// See [`CompileOptions::mean`](crate::CompileOptions::mean).
    pub mean: Vec<f32>,
    /// See [`CompileOptions::std`](crate::CompileOptions::std).
    pub std: Vec<f32>,
}

/// Why a graph has no integer program.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LowerError {
    /// A node that has no integer form, or not with these inputs.
    #[error(
        "node `{node}` ({operator}, inputs {inputs}) has no integer form: {reason}; `tensorgrid run` runs the file in floats"
    )]
    Unsupported {
        /// The node.
        node: String,
        /// Its operator.
        operator: String,
        /// Types and shapes of what it reads.
        inputs: String,
        /// Why.
        reason: &'static str,
    },
    /// An input that a program cannot hold.
    #[error("the input `{input}` of shape {shape:?} is not taken: {reason}")]
    Input {
        /// Its name.
        input: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Why.
        reason: &'static str,
    },
    /// A graph that only passes its input on.
    #[error("the graph computes nothing: its output is its input in another shape")]
    Empty,
    /// A factor between scales that no multiplier and shift come close to.
    #[error(
        "`{node}` needs the rescale factor {factor:e}, which no multiplier and shift reach; its weights and activations differ too much in size"
    )]
    Factor {
        /// The value.
        node: String,
        /// The factor.
        factor: f64,
    },
    /// An accumulator that could leave the field.
    #[error("the program is refused")]
    Bound(#[from] BoundError),
    /// The model is not well formed.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// A refusal inside one node.
#[derive(Debug)]
pub(crate) enum Stop {
    /// No integer form, with the reason.
    Unsupported(&'static str),
    /// Another error.
    Error(LowerError),
}

impl From<LowerError> for Stop {
    fn from(error: LowerError) -> Self {
        Self::Error(error)
    }
}

impl From<BoundError> for Stop {
    fn from(error: BoundError) -> Self {
        Self::Error(error.into())
    }
}

pub(crate) type Step<T> = Result<T, Stop>;

/// No integer form, with the reason.
pub(crate) const fn unsupported<T>(reason: &'static str) -> Step<T> {
    Err(Stop::Unsupported(reason))
}

/// Where a float value is found in a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// The value of the prepared graph.
    pub value: ValueId,
    /// The tensor of the program.
    pub tensor: TensorId,
    /// Real value of one unit.
    pub scale: f64,
    /// What stands for 0.
    pub zero: i64,
    /// Per element of the value, in its order, the element of the tensor.
    pub order: Vec<usize>,
}

/// A program, its weights, and where the float values are found in it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoweredModel {
    /// The model.
    pub model: ExecutableModel,
    /// Float values that are tensors of the program.
    pub sites: Vec<Site>,
    /// The outputs, in the graph's order.
    pub outputs: Vec<Site>,
}

/// Why a node has no integer form, as an error that names it.
pub(super) fn refusal(prepared: &Prepared, node: &Node, stop: Stop) -> LowerError {
    let reason = match stop {
        Stop::Error(error) => return error,
        Stop::Unsupported(reason) => reason,
    };
    let one = |value: ValueId| match prepared.facts.get(&value) {
        None => "?".to_owned(),
        Some(Fact { dtype, shape }) => format!("{dtype:?}{shape:?}"),
    };
    let inputs: Vec<String> = node.reads().map(one).collect();
    LowerError::Unsupported {
        node: node.name.clone(),
        operator: node.op.clone(),
        inputs: inputs.join(" "),
        reason,
    }
}

/// Who reads an activation: how many bits it wants follows from the precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A product with weights or other activations.
    Product,
    /// Anything else.
    Other,
}

/// The state of a lowering.
pub(crate) struct Lowering<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) statistics: &'a BTreeMap<ValueId, Statistics>,
    pub(super) options: &'a LowerOptions,
    pub(super) builder: Builder,
    pub(super) forms: Vec<Form>,
    pub(super) versions: Vec<Vec<Version>>,
    pub(super) values: BTreeMap<ValueId, Lowered>,
    /// Values that are a function of one other value, element by element, and the nodes that compute it.
    pub(super) regions: BTreeMap<ValueId, (ValueId, Vec<usize>)>,
    pub(super) uses: Vec<usize>,
    pub(super) producers: Vec<Option<usize>>,
    /// Nodes that another node has taken in.
    pub(super) absorbed: BTreeSet<usize>,
    pub(super) sites: Vec<(ValueId, TensorId, f64, i64, usize)>,
    pub(super) parameters: BTreeMap<(ValueId, bool), usize>,
    /// Integer weights that later nodes may read too.
    pub(super) known: Vec<KnownWeights>,
    /// Scores that a causal mask was taken off, with its offset.
    pub(super) masks: BTreeMap<ValueId, u32>,
    /// Values that are whole numbers whatever the input is.
    pub(super) whole: BTreeSet<ValueId>,
    /// The nodes whose accumulators are outputs of the program.
    pub(super) raw_outputs: BTreeSet<usize>,
}

impl<'a> Lowering<'a> {
    pub(crate) fn shape_of(&self, value: ValueId) -> &'a [usize] {
        self.prepared.shape(value)
    }

    /// Whether a value is an input of the graph.
    pub(crate) fn is_input(&self, value: ValueId) -> bool {
        let mut inputs = self.prepared.graph.inputs.iter();
        inputs.any(|input| input.value == value)
    }

    pub(crate) fn is_constant(&self, value: ValueId) -> bool {
        self.prepared.graph.constants.contains_key(&value)
    }

    pub(crate) fn node(&self, index: usize) -> &'a Node {
        &self.prepared.graph.nodes[index]
    }

    /// How many bits a reader wants.
    pub(crate) const fn bits(&self, reader: Reader) -> ElementType {
        match (self.options.precision, reader) {
            (Precision::Bits8, _) | (Precision::Mixed, Reader::Product) => ElementType::I8,
            (Precision::Mixed, Reader::Other) | (Precision::Bits16, _) => ElementType::I16,
        }
    }
}

/// An input of a node that must be given.
pub(crate) fn operand(node: &Node, index: usize) -> Step<ValueId> {
    node.inputs
        .get(index)
        .copied()
        .flatten()
        .ok_or(Stop::Unsupported("it lacks an input"))
}

/// The first output of a node.
pub(crate) fn result(node: &Node) -> Step<ValueId> {
    let first = node.outputs.first().copied().flatten();
    first.ok_or(Stop::Unsupported("it has no output"))
}

/// The greatest activation that so many products with weights may read.
pub(crate) fn limit(products: usize) -> i64 {
    let room = FIELD_BOUND - i64::from(BIAS_MAX) - SLACK;
    room / (i64::from(WEIGHT_MAX) * products.max(1) as i64)
}

pub(crate) fn narrow(size: usize) -> Step<u32> {
    u32::try_from(size).map_err(|_| Stop::Unsupported("an axis is too long"))
}

/// A list of integers of an attribute.
pub(crate) fn list(node: &Node, name: &str) -> Option<Vec<usize>> {
    match node.attributes.get(name) {
        Some(tg_float::Attribute::Ints(values)) => values
            .iter()
            .map(|&value| usize::try_from(value).ok())
            .collect(),
        _ => None,
    }
}
