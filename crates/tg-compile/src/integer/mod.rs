//! A prepared graph as a program of integers (tier TGX-1).
//!
//! A value of the graph is a **form** (what its elements are) seen through a **layout** (where they lie, see
//! [`strided`]). A form is a tensor, or a function of one, element by element, that nobody asked for yet: a reader
//! asks for 8 or 16 bits within a bound, and only then one requantisation is written that rounds, clamps and looks up
//! all at once. So an activation after a product is part of the product's only rounding, whatever operators it was
//! written with, and reshapes, slices and transposes cost nothing until a reader needs another order.

pub(crate) mod attention;
mod builder;
mod elementwise;
mod form;
mod input;
mod linear;
mod movement;
mod pool;
mod reduce;
mod signature;
mod strided;
mod trees;
mod weights;

use crate::calibrate::{ReachRule, Statistics};
use crate::passes::{Fact, Prepared};
use builder::Builder;
use form::{Form, Lowered, Version};
pub use input::InputOrder;
use std::collections::{BTreeMap, BTreeSet};
use tg_float::{Node, ValueId};
use tg_ir::model::ModelError;
use tg_ir::{BoundError, Coding, ElementType, ExecutableModel, InputSpec, Shape, TensorId};

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

/// How the weights of channels may be scaled, where the activations that follow have 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelScales {
    /// A layer's scale halved up to three times: the smallest segment tables.
    #[default]
    Shifts,
    /// Up to 16 scales of a layer, where its channels lie.
    Clusters,
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
    /// See [`InputSpec::mean`].
    pub mean: Vec<f32>,
    /// See [`InputSpec::std`].
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
    /// The output's order: per element of the graph's output, the element of the program's.
    pub output: Site,
}

/// Shape and order in which a program takes the graph's inputs.
///
/// # Errors
/// If they cannot be one tensor.
pub fn input_order(prepared: &Prepared) -> Result<(Shape, InputOrder), LowerError> {
    input::order(prepared).map_err(|untaken| refused_input(prepared, untaken))
}

fn refused_input(prepared: &Prepared, (index, reason): input::Untaken) -> LowerError {
    let input = &prepared.graph.inputs[index];
    LowerError::Input {
        input: input.name.clone(),
        shape: prepared.shape(input.value).to_vec(),
        reason,
    }
}

/// Lowers a prepared graph, given what its values take on real inputs.
///
/// # Errors
/// If a node has no integer form, or a shape, a factor or an accumulator is out of range; the error names the node.
pub fn lower(
    prepared: &Prepared,
    statistics: &BTreeMap<ValueId, Statistics>,
    options: &LowerOptions,
) -> Result<LoweredModel, LowerError> {
    if let Some(forest) = trees::lower(prepared, options)? {
        return Ok(forest);
    }
    let mut lowering = Lowering::new(prepared, statistics, options)?;
    for index in 0..prepared.graph.nodes.len() {
        lowering
            .take(index)
            .map_err(|stop| refusal(prepared, &prepared.graph.nodes[index], stop))?;
    }
    lowering.finish().map_err(|stop| {
        let last = prepared.graph.nodes.last();
        match last {
            None => refused_output(prepared, &stop),
            Some(node) => refusal(prepared, node, stop),
        }
    })
}

/// Of a graph without nodes: its output is an input or a constant.
fn refused_output(prepared: &Prepared, stop: &Stop) -> LowerError {
    match stop {
        Stop::Error(error) => error.clone(),
        Stop::Unsupported(reason) => LowerError::Unsupported {
            node: prepared.output_name.clone(),
            operator: "Identity".to_owned(),
            inputs: String::new(),
            reason,
        },
    }
}

fn refusal(prepared: &Prepared, node: &Node, stop: Stop) -> LowerError {
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
    prepared: &'a Prepared,
    statistics: &'a BTreeMap<ValueId, Statistics>,
    options: &'a LowerOptions,
    builder: Builder,
    forms: Vec<Form>,
    versions: Vec<Vec<Version>>,
    values: BTreeMap<ValueId, Lowered>,
    /// Values that are a function of one other value, element by element, and the nodes that compute it.
    regions: BTreeMap<ValueId, (ValueId, Vec<usize>)>,
    uses: Vec<usize>,
    producers: Vec<Option<usize>>,
    /// Nodes that another node has taken in.
    absorbed: BTreeSet<usize>,
    sites: Vec<(ValueId, TensorId, f64, i64, usize)>,
    parameters: BTreeMap<(ValueId, bool), usize>,
    /// Integer weights that later nodes may read too.
    known: Vec<weights::KnownWeights>,
    /// Scores that a causal mask was taken off, with its offset.
    masks: BTreeMap<ValueId, u32>,
    /// The node whose accumulators are the program's output, if there is one.
    raw_output: Option<usize>,
}

impl<'a> Lowering<'a> {
    fn new(
        prepared: &'a Prepared,
        statistics: &'a BTreeMap<ValueId, Statistics>,
        options: &'a LowerOptions,
    ) -> Result<Self, LowerError> {
        let (shape, layouts) =
            input::layouts(prepared).map_err(|untaken| refused_input(prepared, untaken))?;
        let graph = &prepared.graph;
        let input = input_spec(prepared, statistics, options, shape);
        let scale = f64::from(input.scale);
        let mut uses = vec![0; graph.names.len()];
        let reads = graph.nodes.iter().flat_map(Node::reads);
        for value in reads.chain(graph.outputs.iter().copied()) {
            uses[value.index()] += 1;
        }
        let mut lowering = Self {
            prepared,
            statistics,
            options,
            builder: Builder::new(&options.name, input),
            forms: Vec::new(),
            versions: Vec::new(),
            values: BTreeMap::new(),
            regions: BTreeMap::new(),
            uses,
            producers: graph.producers(),
            absorbed: BTreeSet::new(),
            sites: Vec::new(),
            parameters: BTreeMap::new(),
            known: Vec::new(),
            masks: BTreeMap::new(),
            raw_output: None,
        };
        for (input, layout) in graph.inputs.iter().zip(layouts) {
            lowering.give(input.value, TensorId::INPUT, layout, scale, 0);
        }
        lowering.raw_output = lowering.find_raw_output();
        Ok(lowering)
    }

    /// Lowers one node.
    fn take(&mut self, index: usize) -> Step<()> {
        if self.absorbed.contains(&index) {
            return Ok(());
        }
        let prepared = self.prepared;
        let node = &prepared.graph.nodes[index];
        if self.join_region(index) {
            return Ok(());
        }
        let microsoft = node.domain == "com.microsoft";
        if !node.domain.is_empty() && !microsoft {
            return unsupported("no operator of its domain has an integer form");
        }
        match node.op.as_str() {
            "Conv" | "ConvTranspose" => self.convolution(index),
            "Gemm" => self.gemm(index),
            "MatMul" => self.matmul(index),
            "Einsum" => self.einsum(index),
            "Softmax" => self.softmax(index),
            "LogSoftmax" => self.log_softmax(index),
            "LayerNormalization"
            | "RMSNormalization"
            | "InstanceNormalization"
            | "SimplifiedLayerNormalization" => self.norm(index),
            "Add" | "Sub" | "Sum" => self.sum(index),
            "Mul" => self.product(index),
            "PRelu" => self.prelu(index),
            "Max" | "Min" | "And" | "Or" | "Xor" => self.extremum(index),
            "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" => self.compare(index),
            "Where" => self.select(index),
            "QuantizeLinear" => self.quantise(index),
            "DequantizeLinear" => self.dequantise(index),
            "MaxPool" | "AveragePool" | "GlobalAveragePool" | "GlobalMaxPool" => self.pool(index),
            "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" | "ReduceSumSquare"
            | "ReduceL2" => self.reduce(index),
            "CumSum" => self.running_sum(index),
            "ArgMax" | "TopK" => self.ranking(index),
            _ => self.movement(index),
        }
    }

    /// The output in the storage order of its shape, as the last tensor.
    fn finish(mut self) -> Step<LoweredModel> {
        let prepared = self.prepared;
        let value = prepared.graph.outputs[0];
        let shape = prepared.shape(value).to_vec();
        let read = self
            .raw(value)
            .or_else(|_| self.read(value, Reader::Other, i64::MAX))?;
        let groups = movement::default_groups(&shape);
        let tensor = self.arranged(&read, &groups, "output")?;
        let layout = movement::grouped_layout(&shape, &groups);
        let tensor = if self.builder.is_last(tensor) {
            tensor
        } else {
            self.builder.repeat(tensor, read.scale)
        };
        let output = Site {
            value,
            tensor,
            scale: read.scale,
            zero: read.zero,
            order: layout.sources(),
        };
        let mut sites = Vec::new();
        for (value, tensor, scale, zero, form) in std::mem::take(&mut self.sites) {
            let Some(found) = self.values.get(&value).filter(|found| found.form == form) else {
                continue;
            };
            sites.push(Site {
                value,
                tensor,
                scale,
                zero,
                order: found.layout.sources(),
            });
        }
        sites.retain(|site| site.value != value);
        sites.push(output.clone());
        let order: Vec<usize> = groups.iter().flatten().copied().collect();
        let unit = (output.scale, output.zero);
        let signature = signature::of(prepared, unit, (&shape, &order));
        let model = self.builder.finish(signature).map_err(LowerError::from)?;
        Ok(LoweredModel {
            model,
            sites,
            output,
        })
    }

    /// The linear node whose accumulators can be the output: only movement and factors follow.
    fn find_raw_output(&self) -> Option<usize> {
        let graph = &self.prepared.graph;
        let mut value = *graph.outputs.first()?;
        loop {
            let index = self.producers.get(value.index()).copied().flatten()?;
            let node = &graph.nodes[index];
            match node.op.as_str() {
                "Conv" | "ConvTranspose" | "Gemm" | "MatMul" => return Some(index),
                "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Identity"
                | "Slice" | "Gather" => value = node.inputs.first().copied().flatten()?,
                "Add" => {
                    let data = node.reads().find(|v| !graph.constants.contains_key(v))?;
                    let others = node.reads().filter(|v| graph.constants.contains_key(v));
                    if others.count() != 1 {
                        return None;
                    }
                    value = data;
                }
                _ => return None,
            }
        }
    }

    pub(crate) fn shape_of(&self, value: ValueId) -> &'a [usize] {
        self.prepared.shape(value)
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

fn input_spec(
    prepared: &Prepared,
    statistics: &BTreeMap<ValueId, Statistics>,
    options: &LowerOptions,
    shape: Shape,
) -> InputSpec {
    let inputs = &prepared.graph.inputs;
    let whole = |input: &tg_float::Input| prepared.facts[&input.value].dtype.is_integer();
    let natural = |input: &tg_float::Input| {
        statistics
            .get(&input.value)
            .is_none_or(|found| found.least >= 0.0)
    };
    let tokens = !inputs.is_empty()
        && inputs.iter().all(whole)
        && (inputs.iter().all(natural) || embedded(prepared));
    let (coding, scale) = match inputs.as_slice() {
        _ if tokens => (Coding::Tokens(vocabulary(prepared, statistics)), 1.0),
        [only] if !whole(only) => {
            let (kind, scale) = coding_of_one(prepared, statistics, options, only);
            (Coding::Scaled(kind), scale)
        }
        all => {
            let (kind, scale) = coding_of_all(prepared, statistics, options, all);
            (Coding::Scaled(kind), scale)
        }
    };
    let (mean, std) = if tokens {
        (Vec::new(), Vec::new())
    } else {
        (options.mean.clone(), options.std.clone())
    };
    InputSpec {
        shape,
        coding,
        scale,
        mean,
        std,
    }
}

/// Whether an input chooses rows of a constant table.
fn embedded(prepared: &Prepared) -> bool {
    let graph = &prepared.graph;
    graph.nodes.iter().any(|node| {
        let reads = |slot: usize| node.inputs.get(slot).copied().flatten();
        let constant = |value: ValueId| graph.constants.contains_key(&value);
        let given = |value: ValueId| graph.inputs.iter().any(|input| input.value == value);
        node.is("Gather") && reads(0).is_some_and(constant) && reads(1).is_some_and(given)
    })
}

/// More than any token: the rows of the longest table, and what was seen.
fn vocabulary(prepared: &Prepared, statistics: &BTreeMap<ValueId, Statistics>) -> u32 {
    let graph = &prepared.graph;
    let inputs = graph.inputs.iter();
    let greatest = inputs
        .filter_map(|input| statistics.get(&input.value))
        .fold(0f32, |best, found| best.max(found.greatest));
    let tables = graph.nodes.iter().filter(|node| node.is("Gather"));
    let rows = tables.filter_map(|node| {
        let table = node.inputs.first().copied().flatten()?;
        graph.constants.get(&table)?.shape().first().copied()
    });
    let rows = rows.max().unwrap_or(1).max(greatest as usize + 1);
    u32::try_from(rows).unwrap_or(u32::MAX)
}

/// Type and unit of one input of reals.
fn coding_of_one(
    prepared: &Prepared,
    statistics: &BTreeMap<ValueId, Statistics>,
    options: &LowerOptions,
    input: &tg_float::Input,
) -> (ElementType, f32) {
    let graph = &prepared.graph;
    if prepared.facts[&input.value].dtype == tg_float::DType::Bool {
        return (ElementType::I8, 1.0);
    }
    let readers = &graph.readers()[input.value.index()];
    let file = match readers.as_slice() {
        [only] if graph.nodes[*only].is("QuantizeLinear") => {
            let scale = graph.nodes[*only].inputs.get(1).copied().flatten();
            crate::passes::scalar_of(graph, scale)
        }
        _ => None,
    };
    let reach = statistics
        .get(&input.value)
        .map_or(0.0, |found| match options.precision {
            Precision::Bits8 => found.reach(options.reach),
            _ => found.greatest_magnitude(),
        });
    match (file, options.precision) {
        (Some(scale), _) => (ElementType::I16, scale as f32),
        (None, Precision::Bits16) => (ElementType::I16, form::unit(reach, 32_000.0)),
        (None, _) => (ElementType::I8, form::unit(reach, 127.0)),
    }
}

/// Type and unit of several inputs, or of integers that are no tokens: 8 bits where all are reals that reach about equally
/// far, else 16; a power of two where one of them is a whole number.
fn coding_of_all(
    prepared: &Prepared,
    statistics: &BTreeMap<ValueId, Statistics>,
    options: &LowerOptions,
    inputs: &[tg_float::Input],
) -> (ElementType, f32) {
    let reach = |input: &tg_float::Input| {
        let found = statistics.get(&input.value);
        found.map_or(0.0, Statistics::greatest_magnitude)
    };
    let greatest = inputs.iter().map(reach).fold(0f32, f32::max);
    let least = inputs.iter().map(reach).fold(greatest, f32::min);
    let reals = inputs
        .iter()
        .all(|input| prepared.facts[&input.value].dtype.is_float());
    if !reals {
        let scale = form::unit(greatest, 32_000.0).log2().ceil().min(0.0);
        return (ElementType::I16, scale.exp2());
    }
    if options.precision == Precision::Bits8 && least * 2.0 >= greatest {
        return (ElementType::I8, form::unit(greatest, 127.0));
    }
    (ElementType::I16, form::unit(greatest, 32_000.0))
}
