//! A prepared graph as a program of integers (tier TGX-1).
//!
//! A value of the graph is a **form** (what its elements are) seen through a **layout** (where they lie, see
//! `strided`). A form is a tensor, or a function of one, element by element, that nobody asked for yet: a reader
//! asks for 8 or 16 bits within a bound, and only then one requantisation is written that rounds, clamps and looks up
//! all at once. So an activation after a product is part of the product's only rounding, whatever operators it was
//! written with, and reshapes, slices and transposes cost nothing until a reader needs another order.

pub(crate) mod attention;
mod builder;
mod elementwise;
mod form;
mod input;
mod linear;
mod lowering;
mod movement;
mod parameters;
mod pool;
mod reading;
mod reduce;
mod signature;
mod spec;
mod strided;
mod trees;
mod weights;
mod whole;

pub use input::{InputOrder, InputPlaces};
pub use lowering::{ChannelScales, LowerError, LowerOptions, LoweredModel, Precision, Site};

use crate::calibrate::Statistics;
use crate::passes::Prepared;
use builder::Builder;
use lowering::{Lowering, Reader, Step, Stop, refusal, unsupported};
use spec::input_spec;
use std::collections::{BTreeMap, BTreeSet};
use strided::{default_groups, grouped_layout};
use tg_float::{Node, ValueId};
use tg_ir::{Coding, Shape, TensorId};

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
            node: prepared.output_names.join(", "),
            operator: "Identity".to_owned(),
            inputs: String::new(),
            reason,
        },
    }
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
        // Features with units of their own: what the program is given is what their division gives. Or each input has one.
        let own_units = matches!(input.coding, Coding::PerChannel(_));
        let features = crate::passes::divided(graph).filter(|_| own_units);
        let features = features.map(|(at, value, powers)| {
            (at, value, f64::from(input.unit(0)) / f64::from(powers[0]))
        });
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
            whole: whole::values(prepared),
            raw_outputs: BTreeSet::new(),
        };
        for (input, layout) in graph.inputs.iter().zip(layouts) {
            let (value, scale) = match (&features, own_units) {
                (Some((at, value, unit)), _) => {
                    lowering.absorbed.insert(*at);
                    (*value, *unit)
                }
                (None, true) => {
                    let first = usize::try_from(layout.offset).expect("inputs lie in the tensor");
                    (input.value, f64::from(lowering.builder.unit(first)))
                }
                (None, false) => (input.value, scale),
            };
            lowering.give(value, TensorId::INPUT, layout, scale, 0);
        }
        lowering.raw_outputs = lowering.find_raw_outputs();
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
        if trees::is_ensemble(node) {
            return self.trees(index);
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

    /// Each output in the storage order of its shape; one of them is the last tensor.
    fn finish(mut self) -> Step<LoweredModel> {
        let values = &self.prepared.graph.outputs;
        let mut outputs = Vec::with_capacity(values.len());
        for &value in values {
            outputs.push(self.output(value)?);
        }
        let last = outputs.iter().any(|site| self.builder.is_last(site.tensor));
        if let Some(site) = outputs.last_mut().filter(|_| !last) {
            site.tensor = self.builder.repeat(site.tensor, site.scale);
        }
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
        sites.retain(|site| !values.contains(&site.value));
        sites.extend(outputs.iter().cloned());
        let signature = signature::of(self.prepared, &outputs);
        let tensors: Vec<TensorId> = outputs.iter().map(|site| site.tensor).collect();
        let model = self.builder.finish(&tensors, signature);
        Ok(LoweredModel {
            model: model.map_err(LowerError::from)?,
            sites,
            outputs,
        })
    }

    /// One output, as accumulators if nothing but movement and factors follow them.
    fn output(&mut self, value: ValueId) -> Step<Site> {
        let shape = self.prepared.shape(value);
        let read = self
            .raw(value)
            .or_else(|_| self.read(value, Reader::Other, i64::MAX))?;
        let groups = default_groups(shape);
        let tensor = self.arranged(&read, &groups, "output")?;
        Ok(Site {
            value,
            tensor,
            scale: read.scale,
            zero: read.zero,
            order: grouped_layout(shape, &groups).sources(),
        })
    }

    /// The linear nodes whose accumulators can be outputs: only movement and factors follow.
    fn find_raw_outputs(&self) -> BTreeSet<usize> {
        let outputs = &self.prepared.graph.outputs;
        let found = outputs.iter().filter_map(|&output| self.raw_output(output));
        found.collect()
    }

    fn raw_output(&self, output: ValueId) -> Option<usize> {
        let graph = &self.prepared.graph;
        let alone = graph.outputs.len() == 1;
        let mut value = output;
        loop {
            // Of several outputs, one that other nodes read keeps scales of its channels for them.
            if !alone && self.uses[value.index()] > 1 {
                return None;
            }
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
}
