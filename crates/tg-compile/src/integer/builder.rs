//! A program while it is written: nodes, weights, and what every tensor can reach.

use tg_exec::range::{self, Interval};
use tg_ir::model::ModelError;
use tg_ir::op;
use tg_ir::program::NAME_MAX;
use tg_ir::{
    BoundError, Coding, CompiledModel, ElementType, ExecutableModel, InputSpec, LinearWeights,
    Node, Op, Program, Shape, Signature, TensorId, Tie, View, Weights, bounds,
};
use tg_types::Digest;

/// The program and its weights so far.
#[derive(Debug)]
pub(crate) struct Builder {
    program: Program,
    layers: Vec<LinearWeights>,
    intervals: Vec<Vec<Interval>>,
    magnitudes: Vec<i64>,
}

impl Builder {
    /// A program without nodes.
    pub(crate) fn new(name: &str, input: InputSpec) -> Self {
        let intervals = vec![range::of_input(&input)];
        let program = Program {
            name: short(name),
            input,
            nodes: Vec::new(),
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: Digest::of_blob(&[]),
        };
        let magnitudes = bounds::magnitudes(&program, 0);
        Self {
            program,
            layers: Vec::new(),
            intervals,
            magnitudes,
        }
    }

    /// Adds a node; a view or requantisation that is there already is used again.
    pub(crate) fn push(
        &mut self,
        name: &str,
        op: Op,
        shape: Shape,
        scale: f64,
        layer: Option<LinearWeights>,
    ) -> TensorId {
        if matches!(op, Op::View(_) | Op::Requantise(_)) {
            let same = |node: &Node| node.op == op && node.shape == shape;
            if let Some(found) = self.program.nodes.iter().position(same) {
                return TensorId::of_node(found);
            }
        }
        self.program.nodes.push(Node {
            name: short(name),
            op,
            shape,
            scale: scale as f32,
        });
        let layer = layer.map(|layer| self.tied(layer));
        self.layers.extend(layer);
        let (program, node) = (&self.program, self.program.nodes.len() - 1);
        let read = Weights::of_node_in(&self.layers, program, node);
        let next = range::of_op(&program.nodes[node].op, shape, read, |id| {
            (self.intervals[id.index()].as_slice(), program.shape(id))
        });
        let bound = bounds::magnitude(&self.program, &self.magnitudes);
        self.magnitudes.push(bound);
        let within = |&[low, high]: &Interval| [low.max(-bound), high.min(bound)];
        self.intervals.push(next.iter().map(within).collect());
        TensorId::of_node(self.program.nodes.len() - 1)
    }

    /// The layer of the last node: without weights of its own if an earlier node has the same, to which it is tied.
    fn tied(&mut self, layer: LinearWeights) -> LinearWeights {
        let program = &mut self.program;
        let last = program.nodes.len() - 1;
        let axes = program.weight_axes(last);
        let mut owners = (0..last).filter(|&node| {
            axes.is_some()
                && program.weight_axes(node) == axes
                && program.weights_owner(node) == node
        });
        let same = owners.find(|&node| {
            let known = Weights::of_node_in(&self.layers, program, node);
            known.is_some_and(|known| known.weights == layer.weights)
        });
        let Some(to) = same else {
            return layer;
        };
        let index = |node: usize| u32::try_from(node).expect("a program has few nodes");
        let (node, to) = (index(last), index(to));
        program.ties.push(Tie { node, to });
        LinearWeights {
            weights: Vec::new(),
            bias: layer.bias,
        }
    }

    /// The integer weights that the node of a tensor reads, and their axes.
    pub(crate) fn weights(&self, tensor: TensorId) -> Option<(&[i8], [usize; 3])> {
        let node = tensor.index().checked_sub(1)?;
        let read = Weights::of_node_in(&self.layers, &self.program, node)?;
        Some((read.weights, self.program.weight_axes(node)?))
    }

    /// How the program's input is coded.
    pub(crate) const fn coding(&self) -> &Coding {
        &self.program.input.coding
    }

    /// Real value of one unit of a channel of the program's input.
    pub(crate) fn unit(&self, channel: usize) -> f32 {
        self.program.input.unit(channel)
    }

    pub(crate) fn shape(&self, tensor: TensorId) -> Shape {
        self.program.shape(tensor)
    }

    pub(crate) fn kind(&self, tensor: TensorId) -> ElementType {
        self.program.element_type(tensor)
    }

    /// The greatest absolute value of a tensor, for all weights and inputs.
    pub(crate) fn magnitude(&self, tensor: TensorId) -> i64 {
        self.magnitudes[tensor.index()]
    }

    /// Least and greatest value of a tensor with these weights; padded channels hold 0 whatever they are.
    pub(crate) fn reach(&self, tensor: TensorId) -> Result<[i32; 2], BoundError> {
        let [low, high] = range::hull(&self.intervals[tensor.index()]);
        let end = |value: i64| {
            i32::try_from(value).map_err(|_| BoundError {
                node: tensor.index().saturating_sub(1),
                name: self.name(tensor).to_owned(),
                op: self.op(tensor).map_or("input", Op::name),
                bound: value.abs(),
            })
        };
        Ok([end(low.min(0))?, end(high.max(0))?])
    }

    pub(crate) fn op(&self, tensor: TensorId) -> Option<&Op> {
        let node = tensor.index().checked_sub(1)?;
        Some(&self.program.nodes[node].op)
    }

    pub(crate) fn name(&self, tensor: TensorId) -> &str {
        match tensor.index().checked_sub(1) {
            None => "input",
            Some(node) => &self.program.nodes[node].name,
        }
    }

    /// Whether a tensor is the last one.
    pub(crate) fn is_last(&self, tensor: TensorId) -> bool {
        tensor.index() == self.program.nodes.len() && !self.program.nodes.is_empty()
    }

    /// The same elements as a tensor of another shape, as the last node.
    pub(crate) fn repeat(&mut self, tensor: TensorId, scale: f64) -> TensorId {
        let shape = self.shape(tensor);
        let elements = u32::try_from(shape.elements()).expect("a shape has at most 2^26 elements");
        let op = Op::View(op::Unary {
            input: tensor,
            how: View::new(0, &[(elements, 1)]),
        });
        let name = format!("{}.output", self.name(tensor));
        // Not through `push`, which would find an earlier view.
        let intervals = vec![range::hull(&self.intervals[tensor.index()]); shape.channels as usize];
        self.intervals.push(intervals);
        self.magnitudes.push(self.magnitude(tensor));
        self.program.nodes.push(Node {
            name: short(&name),
            op,
            shape,
            scale: scale as f32,
        });
        TensorId::of_node(self.program.nodes.len() - 1)
    }

    /// The model that gives some tensors, the last one among them.
    pub(crate) fn finish(
        self,
        outputs: &[TensorId],
        signature: Option<Signature>,
    ) -> Result<ExecutableModel, ModelError> {
        let Self {
            mut program,
            layers,
            ..
        } = self;
        if outputs.len() > 1 {
            program.outputs = outputs.to_vec();
        }
        let weights = Weights { layers };
        program.signature = signature;
        program.weights_root = weights.root();
        CompiledModel { program, weights }.checked()
    }
}

/// A name within the limit of a program's names.
pub(crate) fn short(name: &str) -> String {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}
