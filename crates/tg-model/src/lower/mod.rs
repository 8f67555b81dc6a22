//! Lowering: a fused float graph and the reach of its values to an integer program.
//!
//! Tensors are stored row, column, channel. The order of the file (channel, row, column) is tracked per value as a
//! permutation of its elements, so that `Flatten`, `Reshape` and `Transpose` cost nothing: a dense node reorders its
//! weights, and only a convolution or pooling over an order of its own needs a `View`.
//!
//! A linear node becomes accumulators and a requantisation that clamps (a ReLU is the clamp [0, 127]). The node that
//! gives the model's output keeps its accumulators, with one scale, so that classes compare exactly.

use crate::graph::{FloatGraph, FloatNode, FloatOp, Value};
use crate::layer::{self, Granularity};
use crate::onnx::{image_shape, transposition};
use crate::range::{self, Interval};
use crate::reference::{storage_order, storage_shape};
use std::rc::Rc;
use tg_ir::program::NAME_MAX;
use tg_ir::{
    BoundError, CompiledModel, InputSpec, LinearWeights, Node, Op, Program, ProgramError,
    Requantise, Rescale, SegmentError, SegmentTable, Shape, TensorId, View, Weights, Window,
};

/// The larger multiplier of a sum.
const ADD_MULTIPLIER: f64 = 16_384.0;

/// Why a float graph has no integer program.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LowerError {
    /// A value of a shape that a program cannot hold.
    #[error(
        "node `{node}` ({operator}) gives the shape {shape:?}; supported are 1xN, 1xAxB and 1xCxHxW with axes up to 65,536"
    )]
    Shape {
        /// The node; `input` for the graph's input.
        node: String,
        /// Its operator.
        operator: String,
        /// The shape.
        shape: Vec<usize>,
    },
    /// A graph that only passes its input on.
    #[error("the graph computes nothing: its output is its input in another shape")]
    Empty,
    /// A factor between scales that no multiplier and shift come close to.
    #[error(
        "node `{node}` needs the rescale factor {factor:e}, which no multiplier and shift reach; its weights and activations differ too much in size"
    )]
    Factor {
        /// The node.
        node: String,
        /// The factor.
        factor: f64,
    },
    /// An accumulator that could leave the field.
    #[error("the program is refused")]
    Bound(#[from] BoundError),
    /// The program is not well formed.
    #[error("the program is refused")]
    Program(#[from] ProgramError),
    /// A requantisation without a segment table.
    #[error("node `{node}` has no segment table")]
    Segments {
        /// The node.
        node: String,
        /// Why.
        source: SegmentError,
    },
}

/// Where a float value is found in a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// The value of the fused graph.
    pub value: Value,
    /// The tensor of the program.
    pub tensor: TensorId,
    /// Real value of one unit.
    pub scale: f64,
    /// Per element of the tensor, its index in the value.
    pub order: Rc<Vec<u32>>,
}

/// A program, its weights, and where the float values are found in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    /// The model.
    pub model: CompiledModel,
    /// One site per value that a node of the fused graph gives, aliases left out.
    pub sites: Vec<Site>,
}

/// What a program takes, beside its shape and scale.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Naming {
    /// The model's name.
    pub name: String,
    /// See [`InputSpec::mean`].
    pub mean: Vec<f32>,
    /// See [`InputSpec::std`].
    pub std: Vec<f32>,
}

/// Lowers a fused graph, given the reach of each of its values.
///
/// # Errors
/// If a shape, a factor or an accumulator is out of range; the error names the node.
///
/// # Panics
/// If `reach` does not have one entry per value.
pub fn lower(graph: &FloatGraph, reach: &[f32], naming: Naming) -> Result<Lowered, LowerError> {
    assert_eq!(reach.len(), graph.nodes.len() + 1, "one reach per value");
    let shape = storage_shape(&graph.input).ok_or_else(|| LowerError::Shape {
        node: "input".to_owned(),
        operator: "input".to_owned(),
        shape: graph.input.clone(),
    })?;
    let mut lowering = Lowering::new(graph, reach, shape);
    for node in 0..graph.nodes.len() {
        lowering.take(node)?;
    }
    lowering.finish_order()?;
    lowering.finish(naming)
}

/// A lowered value.
#[derive(Debug, Clone)]
struct Stored {
    tensor: TensorId,
    scale: f64,
    order: Rc<Vec<u32>>,
}

struct Lowering<'a> {
    graph: &'a FloatGraph,
    reach: &'a [f32],
    input: InputSpec,
    nodes: Vec<Node>,
    layers: Vec<LinearWeights>,
    intervals: Vec<Vec<Interval>>,
    values: Vec<Stored>,
    sites: Vec<Site>,
    /// The node whose accumulators are the program's output, if there is one.
    raw_output: Option<usize>,
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a FloatGraph, reach: &'a [f32], shape: Shape) -> Self {
        let scale = unit(reach[0]);
        Self {
            graph,
            reach,
            input: InputSpec::scaled(shape, scale),
            nodes: Vec::new(),
            layers: Vec::new(),
            intervals: vec![vec![[-128, 127]; shape.channels as usize]],
            values: vec![Stored {
                tensor: TensorId::INPUT,
                scale: f64::from(scale),
                order: Rc::new(storage_order(shape)),
            }],
            sites: Vec::new(),
            raw_output: raw_output(graph),
        }
    }

    fn shape(&self, tensor: TensorId) -> Shape {
        match tensor.index().checked_sub(1) {
            None => self.input.shape,
            Some(node) => self.nodes[node].shape,
        }
    }

    fn push(
        &mut self,
        name: String,
        op: Op,
        shape: Shape,
        scale: f64,
        layer: Option<LinearWeights>,
    ) -> TensorId {
        let next = range::of_op(&op, shape, layer.as_ref(), |id| {
            (self.intervals[id.index()].as_slice(), self.shape(*id))
        });
        self.intervals.push(next);
        self.layers.extend(layer);
        #[expect(clippy::cast_possible_truncation, reason = "informative")]
        self.nodes.push(Node {
            name: short(name),
            op,
            shape,
            scale: scale as f32,
        });
        TensorId::of_node(self.nodes.len() - 1)
    }

    fn take(&mut self, index: usize) -> Result<(), LowerError> {
        let node = &self.graph.nodes[index];
        let shape = || {
            storage_shape(&node.shape).ok_or_else(|| LowerError::Shape {
                node: node.name.clone(),
                operator: node.operator.clone(),
                shape: node.shape.clone(),
            })
        };
        let source = node.inputs[0];
        let stored = match &node.op {
            FloatOp::Reshape => self.values[source.0].clone(),
            FloatOp::Transpose { axes } => self.transposed(source, axes),
            FloatOp::Conv {
                window,
                weights,
                bias,
            } => {
                let weights = channels_innermost(weights, bias.len(), window);
                let input = self.image(source);
                let op = Op::conv(input, *window);
                self.linear(index, op, &weights, bias, shape()?)?
            }
            FloatOp::Dense { weights, bias } => {
                let Stored { tensor, order, .. } = self.values[source.0].clone();
                let rows = weights.chunks_exact(order.len());
                let weights: Vec<f32> = rows
                    .flat_map(|row| order.iter().map(|&element| row[element as usize]))
                    .collect();
                let op = Op::Dense { input: tensor };
                self.linear(index, op, &weights, bias, shape()?)?
            }
            FloatOp::Add => self.add(index, shape()?)?,
            FloatOp::Clip { bounds } => self.clip(index, *bounds),
            FloatOp::MaxPool { window } => {
                let input = self.image(source);
                let (window, scale, shape) = (*window, self.values[source.0].scale, shape()?);
                let op = Op::MaxPool { input, window };
                let tensor = self.push(node.name.clone(), op, shape, scale, None);
                stored_image(tensor, scale, shape)
            }
            FloatOp::AveragePool { window } => self.average(index, *window, shape()?)?,
            FloatOp::Affine { .. } => unreachable!("folding leaves no scale-and-shift nodes"),
        };
        if !matches!(node.op, FloatOp::Reshape | FloatOp::Transpose { .. }) {
            self.sites.push(Site {
                value: Value::of_node(index),
                tensor: stored.tensor,
                scale: stored.scale,
                order: Rc::clone(&stored.order),
            });
        }
        self.values.push(stored);
        Ok(())
    }

    fn transposed(&self, source: Value, axes: &[usize]) -> Stored {
        let input = &self.values[source.0];
        let mut target = vec![0u32; input.order.len()];
        for (to, from) in (0u32..).zip(transposition(self.graph.shape(source), axes)) {
            target[from] = to;
        }
        let order = input.order.iter().map(|&element| target[element as usize]);
        Stored {
            order: Rc::new(order.collect()),
            ..input.clone()
        }
    }

    /// A value as an image stored row, column, channel.
    fn image(&mut self, value: Value) -> TensorId {
        let shape = image_shape(self.graph.shape(value)).expect("an imported node reads an image");
        self.ordered(value, shape, &storage_order(shape))
    }

    /// A value stored in some order and shape: itself, or a permutation of it.
    fn ordered(&mut self, value: Value, shape: Shape, order: &[u32]) -> TensorId {
        let stored = self.values[value.0].clone();
        if *stored.order == order && self.shape(stored.tensor) == shape {
            return stored.tensor;
        }
        let mut position = vec![0u32; order.len()];
        for (at, &element) in (0u32..).zip(stored.order.iter()) {
            position[element as usize] = at;
        }
        let sources: Vec<u32> = order
            .iter()
            .map(|&element| position[element as usize])
            .collect();
        let op = Op::View {
            input: stored.tensor,
            view: View::of_sources(&sources).expect("axes permuted and merged are few"),
        };
        let name = match value.0.checked_sub(1) {
            None => "input.permute".to_owned(),
            Some(node) => format!("{}.permute", self.graph.nodes[node].name),
        };
        let tensor = self.push(name, op, shape, stored.scale, None);
        self.values[value.0] = Stored {
            tensor,
            scale: stored.scale,
            order: Rc::new(order.to_vec()),
        };
        tensor
    }

    /// A convolution or dense node with `[out][k]` weights in storage order.
    fn linear(
        &mut self,
        index: usize,
        op: Op,
        weights: &[f32],
        bias: &[f32],
        shape: Shape,
    ) -> Result<Stored, LowerError> {
        let node = &self.graph.nodes[index];
        let granularity = if self.raw_output == Some(index) {
            Granularity::PerTensor
        } else {
            Granularity::PerChannel
        };
        let input_scale = self.values[node.inputs[0].0].scale;
        let layer = layer::quantise(weights, bias, input_scale, granularity);
        let sums = self.push(
            node.name.clone(),
            op,
            shape,
            layer.scale,
            Some(layer.weights),
        );
        self.requantise(index, sums, layer.scale, &layer.halvings)
    }

    fn average(
        &mut self,
        index: usize,
        window: Window,
        shape: Shape,
    ) -> Result<Stored, LowerError> {
        let node = &self.graph.nodes[index];
        let input = self.image(node.inputs[0]);
        #[expect(clippy::cast_precision_loss, reason = "at most 64 x 64")]
        let scale = self.values[node.inputs[0].0].scale / window.positions() as f64;
        let op = Op::WindowSum { input, window };
        let sums = self.push(node.name.clone(), op, shape, scale, None);
        self.requantise(index, sums, scale, &[0])
    }

    fn add(&mut self, index: usize, shape: Shape) -> Result<Stored, LowerError> {
        let node = &self.graph.nodes[index];
        let order = storage_order(shape);
        let inputs = [node.inputs[0], node.inputs[1]];
        let tensors = inputs.map(|value| self.ordered(value, shape, &order));
        let scales = inputs.map(|value| self.values[value.0].scale);
        let scale = scales[0].max(scales[1]) / ADD_MULTIPLIER;
        #[expect(clippy::cast_possible_truncation, reason = "in [1, 2^14]")]
        let multipliers = scales.map(|own| (own / scale).round().max(1.0) as i32);
        let op = Op::add(tensors, multipliers);
        let sums = self.push(node.name.clone(), op, shape, scale, None);
        self.requantise(index, sums, scale, &[0])
    }

    /// A clip that no other node could take in: the same units, clamped.
    fn clip(&mut self, index: usize, bounds: [f32; 2]) -> Stored {
        let node = &self.graph.nodes[index];
        let stored = self.values[node.inputs[0].0].clone();
        let shape = self.shape(stored.tensor);
        let how = Requantise::to_i8(
            vec![Rescale::nearest(1.0).expect("one is a factor")],
            vec![0],
            [-128, 127],
            clamp_of(Some(bounds), stored.scale),
        );
        let op = Op::Requantise {
            input: stored.tensor,
            how,
        };
        let tensor = self.push(node.name.clone(), op, shape, stored.scale, None);
        Stored { tensor, ..stored }
    }

    /// Accumulators of node `index` to activations, unless they are the output.
    fn requantise(
        &mut self,
        index: usize,
        sums: TensorId,
        scale: f64,
        halvings: &[u8],
    ) -> Result<Stored, LowerError> {
        let node = &self.graph.nodes[index];
        let shape = self.shape(sums);
        if self.raw_output == Some(index) {
            return Ok(stored_image(sums, scale, shape));
        }
        let output_scale = f64::from(unit(self.reach[index + 1]));
        let factor = scale / output_scale;
        let (pairs, channel_pairs) =
            layer::pairs(factor, halvings).ok_or_else(|| LowerError::Factor {
                node: node.name.clone(),
                factor,
            })?;
        // Padded channels hold 0 whatever the weights are, so the range always holds it too.
        let [least, greatest] = range::hull(&self.intervals[sums.index()]);
        let range = self.as_range(sums, [least.min(0), greatest.max(0)])?;
        let how = Requantise::to_i8(
            pairs,
            channel_pairs,
            range,
            clamp_of(node.clamp, output_scale),
        );
        SegmentTable::build(&how).map_err(|source| LowerError::Segments {
            node: node.name.clone(),
            source,
        })?;
        let name = format!("{}.requantise", node.name);
        let op = Op::Requantise { input: sums, how };
        let tensor = self.push(name, op, shape, output_scale, None);
        Ok(stored_image(tensor, output_scale, shape))
    }

    fn as_range(&self, sums: TensorId, reach: Interval) -> Result<[i32; 2], BoundError> {
        let bound = reach[0].abs().max(reach[1].abs());
        let node = sums.index() - 1;
        let too_far = || BoundError {
            node,
            name: self.nodes[node].name.clone(),
            op: self.nodes[node].op.name(),
            bound,
        };
        let end = |value: i64| i32::try_from(value).map_err(|_| too_far());
        Ok([end(reach[0])?, end(reach[1])?])
    }

    /// The output in the storage order of its shape.
    fn finish_order(&mut self) -> Result<(), LowerError> {
        let output = self.graph.output;
        let shape = self.graph.shape(output);
        let Some(stored_shape) = storage_shape(shape) else {
            let node = &self.graph.nodes[output.0 - 1];
            return Err(LowerError::Shape {
                node: node.name.clone(),
                operator: node.operator.clone(),
                shape: shape.to_vec(),
            });
        };
        if self.raw_output.is_none() {
            self.ordered(output, stored_shape, &storage_order(stored_shape));
        }
        if self.nodes.is_empty() {
            return Err(LowerError::Empty);
        }
        Ok(())
    }

    fn finish(self, naming: Naming) -> Result<Lowered, LowerError> {
        let Naming { name, mean, std } = naming;
        let weights = Weights {
            layers: self.layers,
        };
        let program = Program {
            name: short(name),
            input: InputSpec {
                mean,
                std,
                ..self.input
            },
            nodes: self.nodes,
            weights_root: weights.root(),
        };
        program.validate()?;
        let model = CompiledModel { program, weights };
        Ok(Lowered {
            model,
            sites: self.sites,
        })
    }
}

/// The node whose accumulators can be the output as they are: it gives sums, nothing clamps them, and only reshapes
/// that keep their shape in storage follow.
fn raw_output(graph: &FloatGraph) -> Option<usize> {
    let mut index = graph.output.0.checked_sub(1)?;
    while graph.nodes[index].op == FloatOp::Reshape {
        index = graph.nodes[index].inputs[0].0.checked_sub(1)?;
    }
    let node: &FloatNode = &graph.nodes[index];
    let sums = match node.op {
        FloatOp::Conv { .. }
        | FloatOp::Dense { .. }
        | FloatOp::Add
        | FloatOp::AveragePool { .. } => node.clamp.is_none(),
        FloatOp::Affine { .. }
        | FloatOp::Clip { .. }
        | FloatOp::MaxPool { .. }
        | FloatOp::Reshape
        | FloatOp::Transpose { .. } => false,
    };
    let order_kept = storage_shape(&node.shape) == storage_shape(graph.shape(graph.output));
    (sums && order_kept).then_some(index)
}

fn stored_image(tensor: TensorId, scale: f64, shape: Shape) -> Stored {
    Stored {
        tensor,
        scale,
        order: Rc::new(storage_order(shape)),
    }
}

/// `[out][in][position]` to `[out][position][in]`.
fn channels_innermost(weights: &[f32], outputs: usize, window: &Window) -> Vec<f32> {
    let positions = window.positions();
    let inputs = weights.len() / outputs / positions;
    let kernels = weights.chunks_exact(inputs * positions);
    kernels
        .flat_map(|kernel| {
            let at = (0..positions).flat_map(move |p| (0..inputs).map(move |i| (p, i)));
            at.map(|(position, input)| kernel[input * positions + position])
        })
        .collect()
}

/// Real value of one unit, so that the reach is 127 units.
fn unit(reach: f32) -> f32 {
    if reach > f32::MIN_POSITIVE * 256.0 {
        reach / 127.0
    } else {
        1.0 / 127.0
    }
}

/// Bounds of a clamp in units, rounded.
fn clamp_of(bounds: Option<[f32; 2]>, scale: f64) -> [i8; 2] {
    let Some([low, high]) = bounds else {
        return [-128, 127];
    };
    #[expect(clippy::cast_possible_truncation, reason = "clamped to 8 bits")]
    let units = |bound: f32| (f64::from(bound) / scale).round().clamp(-128.0, 127.0) as i8;
    [units(low), units(high)]
}

/// A name within the limit of a program's names.
fn short(mut name: String) -> String {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}

#[cfg(test)]
mod tests;
