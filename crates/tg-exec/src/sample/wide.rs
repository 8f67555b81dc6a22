//! Random valid programs over every operator, type and input coding: what executors are compared on.

use super::Numbers;
use crate::range;
use tg_ir::IntTensor;
use tg_ir::forest::{Branch, Child, Forest};
use tg_ir::op::{self, Extreme, Norm, PROBABILITY_ONE, Ranked, Reduction, Relation, Softmax};
use tg_ir::{
    Axis, Coding, CompiledModel, ElementType, InputSpec, LinearWeights, Node, Op, Program,
    Requantise, Rescale, Shape, TensorId, Tie, View, Weights, Window,
};

/// Greatest absolute value of a valid program's accumulators.
const FIELD_BOUND: i64 = 1_065_353_216;
/// Tries per node: most proposals over small tensors are valid.
const TRIES: usize = 40;

/// A small random valid program (every operator occurs over the seeds) and an input for it.
#[must_use]
pub fn random_program(seed: u64) -> (CompiledModel, IntTensor) {
    let mut numbers = Numbers::new(seed ^ 0x7769_6465);
    let input = random_input(&mut numbers);
    let mut draft = Draft::new(numbers, input);
    let nodes = draft.numbers.between(1, 9);
    for _ in 0..nodes {
        draft.push_some();
    }
    draft.finish()
}

fn random_input(numbers: &mut Numbers) -> InputSpec {
    let kind = numbers.between(0, 6);
    let mut shape = Shape::new(
        numbers.side(1, 4),
        numbers.side(1, 5),
        [1, 2, 4, 6, 9][numbers.side(0, 4) as usize],
    );
    let coding = match kind {
        0 => {
            shape.channels = 1;
            Coding::Tokens(numbers.side(1, 9))
        }
        1 => {
            shape = Shape::vector(shape.channels);
            let list = |_| (0..5u8).map(f32::from).collect();
            Coding::Ranks((0..shape.channels).map(list).collect())
        }
        2 => Coding::Scaled(ElementType::I16),
        3 => {
            let unit = |channel: u32| 0.5f32.powi((channel % 5).cast_signed());
            Coding::PerChannel((0..shape.channels).map(unit).collect())
        }
        _ => Coding::Scaled(ElementType::I8),
    };
    InputSpec {
        coding,
        ..InputSpec::scaled(shape, 1.0)
    }
}

/// A program that grows node by node.
pub(crate) struct Draft {
    pub numbers: Numbers,
    pub program: Program,
    pub layers: Vec<LinearWeights>,
    pub intervals: Vec<Vec<range::Interval>>,
}

impl Draft {
    /// A program without nodes.
    pub(crate) fn new(numbers: Numbers, input: InputSpec) -> Self {
        Self {
            intervals: vec![range::of_input(&input)],
            program: Program {
                name: "sample".to_owned(),
                input,
                nodes: Vec::new(),
                outputs: Vec::new(),
                ties: Vec::new(),
                signature: None,
                tokenizer: None,
                weights_root: Weights::default().root(),
            },
            layers: Vec::new(),
            numbers,
        }
    }

    /// The model, and an input for it.
    pub(crate) fn finish(mut self) -> (CompiledModel, IntTensor) {
        let elements = self.input();
        let Self {
            mut program,
            layers,
            ..
        } = self;
        let weights = Weights { layers };
        program.weights_root = weights.root();
        (CompiledModel { program, weights }, elements)
    }

    /// Takes the last nodes back.
    #[cfg(test)]
    pub(crate) fn truncate(&mut self, nodes: usize) {
        let program = &mut self.program;
        program.nodes.truncate(nodes);
        program.ties.retain(|tie| (tie.node as usize) < nodes);
        let weighted = program.nodes.iter().filter(|node| node.op.has_weights());
        self.layers.truncate(weighted.count());
        self.intervals.truncate(nodes + 1);
    }

    /// An input that the coding admits.
    fn input(&mut self) -> IntTensor {
        let spec = self.program.input.clone();
        let [low, high] = range::hull(&range::of_input(&spec));
        let elements: Vec<i32> = (0..spec.shape.elements())
            .map(|_| {
                let value = match self.numbers.between(0, 5) {
                    0 => low,
                    1 => high,
                    _ => self.numbers.between(low, high),
                };
                i32::try_from(value).expect("an input fits 32 bits")
            })
            .collect();
        IntTensor::of(spec.element_type(), &elements)
    }

    /// Appends a random node; a small weighted sum if no proposal is valid.
    fn push_some(&mut self) {
        for _ in 0..TRIES {
            let (op, shape) = self.propose();
            if self.try_push(op, shape) {
                return;
            }
        }
        let input = self.some();
        let op = Op::Compare(op::Compare {
            inputs: [input; 2],
            relation: Relation::Equal,
        });
        let shape = self.shape(input);
        assert!(self.try_push(op, shape), "a tensor equals itself");
    }

    pub(crate) fn shape(&self, id: TensorId) -> Shape {
        self.program.shape(id)
    }

    /// One of the last few tensors.
    fn some(&mut self) -> TensorId {
        let last = u32::try_from(self.program.nodes.len()).expect("few");
        TensorId(self.numbers.side(last.saturating_sub(3), last))
    }

    /// A tensor of the same shape and type as another, or that one again.
    fn alike(&mut self, id: TensorId) -> TensorId {
        let other = self.some();
        let same = self.shape(other) == self.shape(id)
            && self.program.element_type(other) == self.program.element_type(id);
        if same { other } else { id }
    }

    pub(crate) fn try_push(&mut self, op: Op, shape: Shape) -> bool {
        let layer = op.has_weights().then(|| LinearWeights {
            weights: Vec::new(),
            bias: Vec::new(),
        });
        self.program.nodes.push(Node {
            name: format!("node{}", self.program.nodes.len()),
            op,
            shape,
            scale: 1.0,
        });
        if self.program.validate().is_err() {
            self.program.nodes.pop();
            return false;
        }
        let node = self.program.nodes.len() - 1;
        let layer = layer.map(|_| self.layer(node));
        self.layers.extend(layer);
        let program = &self.program;
        let read = Weights::of_node_in(&self.layers, program, node);
        let next = range::of_op(&program.nodes[node].op, shape, read, |id| {
            (self.intervals[id.index()].as_slice(), program.shape(id))
        });
        self.intervals.push(next);
        true
    }

    /// Ties a node to an earlier one with weights of the same axes, every second time that there is one.
    fn tie(&mut self, node: usize) -> bool {
        let program = &mut self.program;
        let Some(axes) = program.weight_axes(node) else {
            return false;
        };
        let owners = (0..node).filter(|&to| program.weights_owner(to) == to);
        let like: Vec<usize> = owners
            .filter(|&to| program.weight_axes(to) == Some(axes))
            .collect();
        let (Some(last), true) = (like.len().checked_sub(1), self.numbers.between(0, 1) == 0)
        else {
            return false;
        };
        let to = like[self.numbers.side(0, u32::try_from(last).expect("few")) as usize];
        program.ties.push(Tie {
            node: u32::try_from(node).expect("few"),
            to: u32::try_from(to).expect("few"),
        });
        true
    }

    fn layer(&mut self, node: usize) -> LinearWeights {
        let reach = self.numbers.between(1, 127);
        let own = if self.tie(node) {
            0
        } else {
            self.program.weights_of(node)
        };
        let weights = (0..own)
            .map(|_| i8::try_from(self.numbers.between(-reach, reach)).expect("a weight"))
            .collect();
        let biases = if self.program.nodes[node].op.has_bias() {
            self.program.nodes[node].shape.channels
        } else {
            0
        };
        let bias = (0..biases)
            .map(|_| i32::try_from(self.numbers.between(-50_000, 50_000)).expect("small"))
            .collect();
        LinearWeights { weights, bias }
    }

    pub(crate) fn propose(&mut self) -> (Op, Shape) {
        match self.numbers.between(0, 23) {
            0..=2 => self.linear(),
            3..=6 => self.requantise(),
            7..=13 => self.elementwise(),
            14..=18 => self.row(),
            _ => self.movement(),
        }
    }

    fn window(&mut self) -> Window {
        let mut draw = |limit| [0; 2].map(|_: u32| self.numbers.side(1, limit));
        let (kernel, stride, dilation) = (draw(3), draw(2), draw(2));
        let spread = if draw(4) == [1; 2] { [2, 1] } else { [1; 2] };
        Window {
            kernel,
            stride,
            pads: [0; 4].map(|_: u32| self.numbers.side(0, 1)),
            dilation,
            spread,
        }
    }

    fn linear(&mut self) -> (Op, Shape) {
        let input = self.some();
        let shape = self.shape(input);
        match self.numbers.between(0, 5) {
            0 | 1 => {
                let window = self.window();
                let [height, width] = window.output(shape).unwrap_or([1, 1]);
                let op = Op::Conv(op::Conv {
                    input,
                    window,
                    groups: [1, 1, 2, shape.channels][self.numbers.side(0, 3) as usize],
                    zero: i16::from(self.numbers.activation()),
                });
                let channels = shape.channels * self.numbers.side(1, 2);
                (op, Shape::new(height, width, channels))
            }
            2 => (
                Op::Dense(op::Dense { input }),
                Shape::vector(self.numbers.side(1, 7)),
            ),
            3 => (Op::Parameter(op::Parameter), self.shape(input)),
            4 => {
                let op = Op::Embed(op::Embed {
                    input,
                    rows: self.numbers.side(1, 9),
                });
                (op, shape.with_axis(Axis::Channels, self.numbers.side(1, 5)))
            }
            _ => {
                let right = self.some();
                let other = self.shape(right);
                let transposed = self.numbers.between(0, 1) == 0;
                let columns = if transposed {
                    other.width
                } else {
                    other.channels
                };
                let op = Op::MatMul(op::MatMul {
                    inputs: [input, right],
                    transposed,
                });
                (op, Shape::new(shape.height, shape.width, columns))
            }
        }
    }

    fn rescale(&mut self, reach: i64, bits: u32) -> Rescale {
        // A shift that maps the reach to about 2^bits, for a multiplier around 2^14.
        let shift = (reach.max(1).ilog2() + 14)
            .saturating_sub(bits)
            .clamp(2, 45);
        Rescale::new(self.numbers.side(1 << 13, (1 << 15) - 1), shift).expect("in range")
    }

    fn requantise(&mut self) -> (Op, Shape) {
        let input = self.some();
        self.requantise_of(input)
    }

    pub(crate) fn requantise_of(&mut self, input: TensorId) -> (Op, Shape) {
        let shape = self.shape(input);
        // What intervals know may be less than what keeps a program valid.
        let range = range::hull(&self.intervals[input.index()])
            .map(|end| end.clamp(-FIELD_BOUND, FIELD_BOUND));
        let reach = range[0].abs().max(range[1].abs());
        let wide = self.numbers.between(0, 2) == 0;
        let bits = self.numbers.side(5, if wide { 16 } else { 9 });
        let pairs: Vec<Rescale> = (0..self.numbers.side(1, 3))
            .map(|_| self.rescale(reach, bits))
            .collect();
        let last = u32::try_from(pairs.len()).expect("few") - 1;
        let entries = if self.numbers.between(0, 1) == 0 {
            1
        } else {
            shape.channels
        };
        let channel_pairs = (0..entries)
            .map(|_| u8::try_from(self.numbers.side(0, last)).expect("few"))
            .collect();
        let clamp: [i16; 2] = match (wide, self.numbers.between(0, 2)) {
            (true, 0) => [-32_767, 32_767],
            (true, _) => [-2_000, 2_000],
            (false, 0) => [-128, 127],
            (false, 1) => [0, 127],
            (false, _) => [-100, 50],
        };
        let span = usize::from(clamp[1].abs_diff(clamp[0])) + 1;
        let table = (span <= 4_096 && self.numbers.between(0, 2) == 0).then(|| {
            (0..span)
                .map(|_| i16::from(self.numbers.activation()) * if wide { 200 } else { 1 })
                .collect()
        });
        let how = Requantise {
            pairs,
            channel_pairs,
            zero: i16::try_from(self.numbers.between(-20, 20)).expect("small"),
            range: range.map(|end| i32::try_from(end).expect("within the field bound")),
            clamp,
            table,
            output: if wide {
                ElementType::I16
            } else {
                ElementType::I8
            },
        };
        (Op::Requantise(op::Unary { input, how }), shape)
    }

    fn elementwise(&mut self) -> (Op, Shape) {
        let input = self.some();
        let shape = self.shape(input);
        let inputs = [input, self.alike(input)];
        let op = match self.numbers.between(0, 6) {
            0 | 1 => {
                let terms = self.numbers.between(1, 4);
                let inputs: Vec<TensorId> = (0..terms).map(|_| self.alike(input)).collect();
                let limit = [3, 300, 32_767][self.numbers.side(0, 2) as usize];
                Op::Add(op::Add {
                    multipliers: inputs
                        .iter()
                        .map(|_| i32::try_from(self.numbers.between(-limit, limit)).expect("small"))
                        .collect(),
                    inputs,
                    bias: i32::try_from(self.numbers.between(-900, 900)).expect("small"),
                })
            }
            2 => Op::Mul(op::Mul {
                inputs: [input, self.some()],
            }),
            3 => Op::Extremum(op::Extremum {
                inputs,
                which: [Extreme::Greater, Extreme::Lesser][self.numbers.side(0, 1) as usize],
            }),
            4 => Op::Compare(op::Compare {
                inputs,
                relation: [Relation::Equal, Relation::Greater, Relation::GreaterOrEqual]
                    [self.numbers.side(0, 2) as usize],
            }),
            _ => Op::Select(op::Select {
                condition: self.some(),
                inputs,
            }),
        };
        (op, shape)
    }

    fn row(&mut self) -> (Op, Shape) {
        let input = self.some();
        let shape = self.shape(input);
        match self.numbers.between(0, 6) {
            0 => {
                let axis = self.axis();
                let reductions = [Reduction::Sum, Reduction::Greatest, Reduction::Least];
                let op = Op::Reduce(op::Reduce {
                    input,
                    reduction: reductions[self.numbers.side(0, 2) as usize],
                    axis,
                });
                (op, shape.with_axis(axis, 1))
            }
            1 => (
                Op::ArgMax(op::ArgMax { input }),
                shape.with_axis(Axis::Channels, 1),
            ),
            2 => {
                let op = Op::TopK(op::TopK {
                    input,
                    give: [Ranked::Values, Ranked::Channels][self.numbers.side(0, 1) as usize],
                });
                let k = self.numbers.side(1, shape.channels);
                (op, shape.with_axis(Axis::Channels, k))
            }
            3 => {
                let axis = self.axis();
                (Op::RunningSum(op::RunningSum { input, axis }), shape)
            }
            4 | 5 => (self.softmax(input), shape),
            _ => {
                let how = Norm {
                    centred: self.numbers.between(0, 1) == 0,
                    epsilon: self.numbers.next() % 1_000,
                    precision: u8::try_from(self.numbers.side(0, 8)).expect("small"),
                    fraction: u8::try_from(self.numbers.side(4, 11)).expect("small"),
                };
                (Op::Norm(op::Unary { input, how }), shape)
            }
        }
    }

    pub(crate) fn softmax(&mut self, input: TensorId) -> Op {
        let [low, high] = range::hull(&self.intervals[input.index()]);
        let bits = self.numbers.side(2, 7);
        let length = self.numbers.side(1, 100);
        let table = (0..length).map(|index| {
            let entry = u32::from(PROBABILITY_ONE) >> (index * self.numbers.side(0, 2)).min(15);
            u16::try_from(entry.max(u32::from(index == 0))).expect("below 2^15")
        });
        let table = table.collect();
        let how = Softmax {
            rescale: self.rescale(high - low, bits),
            table,
            causal: (self.numbers.between(0, 1) == 0).then(|| self.numbers.side(0, 3)),
        };
        Op::Softmax(op::Unary { input, how })
    }

    fn axis(&mut self) -> Axis {
        [Axis::Rows, Axis::Columns, Axis::Channels][self.numbers.side(0, 2) as usize]
    }

    fn movement(&mut self) -> (Op, Shape) {
        let input = self.some();
        let shape = self.shape(input);
        match self.numbers.between(0, 6) {
            kind @ (0 | 1) => {
                let window = self.window();
                let [height, width] = window.output(shape).unwrap_or([1, 1]);
                let op = if kind == 0 {
                    Op::MaxPool(op::MaxPool { input, window })
                } else {
                    Op::WindowSum(op::WindowSum { input, window })
                };
                (op, Shape::new(height, width, shape.channels))
            }
            2 => self.view(input, shape),
            3 => {
                let axis = self.axis();
                let other = self.some();
                let length = shape.axis(axis) + self.shape(other).axis(axis);
                let op = Op::Concat(op::Concat {
                    inputs: vec![input, other],
                    axis,
                });
                (op, shape.with_axis(axis, length))
            }
            4 => {
                let [before, after] =
                    [0; 2].map(|_: u8| [0; 3].map(|_: u32| self.numbers.side(0, 1)));
                let op = Op::Pad(op::Pad {
                    input,
                    before,
                    after,
                    value: i16::from(self.numbers.activation()),
                });
                let side = |index: usize, length| length + before[index] + after[index];
                let padded = Shape::new(
                    side(0, shape.height),
                    side(1, shape.width),
                    side(2, shape.channels),
                );
                (op, padded)
            }
            5 => {
                let axis = self.axis();
                let last = shape.axis(axis) - 1;
                let indices: Vec<u32> = (0..self.numbers.side(1, 4))
                    .map(|_| self.numbers.side(0, last))
                    .collect();
                let length = u32::try_from(indices.len()).expect("few");
                let op = Op::Gather(op::Gather {
                    input,
                    axis,
                    indices,
                });
                (op, shape.with_axis(axis, length))
            }
            _ => self.trees(input, shape),
        }
    }

    fn view(&mut self, input: TensorId, shape: Shape) -> (Op, Shape) {
        let sizes = [shape.height, shape.width, shape.channels];
        match self.numbers.between(0, 2) {
            0 => {
                let order = [[2, 0, 1], [1, 0, 2], [2, 1, 0]][self.numbers.side(0, 2) as usize];
                let view = View::transpose(&sizes, &order);
                let [h, w, c] = order.map(|axis| sizes[axis]);
                (
                    Op::View(op::Unary { input, how: view }),
                    Shape::new(h, w, c),
                )
            }
            1 => {
                // Each pixel twice, channels flipped.
                let pixels = shape.height * shape.width;
                let channels = shape.channels.cast_signed();
                let axes = [(pixels, channels), (2, 0), (shape.channels, -1)];
                let view = View::new(shape.channels - 1, &axes);
                (
                    Op::View(op::Unary { input, how: view }),
                    Shape::new(pixels, 2, shape.channels),
                )
            }
            _ => {
                let offset = self.numbers.side(0, shape.channels - 1);
                let view = View::new(
                    offset,
                    &[(
                        self.numbers.side(1, 6),
                        self.numbers.side(1, 3).cast_signed(),
                    )],
                );
                let length = view.axes[0].size;
                (
                    Op::View(op::Unary { input, how: view }),
                    Shape::vector(length),
                )
            }
        }
    }

    fn trees(&mut self, input: TensorId, shape: Shape) -> (Op, Shape) {
        let outputs = self.numbers.side(1, 3);
        let branches = self.numbers.side(1, 6);
        let leaves = branches + 1;
        let mut child = |index: u32| {
            if index + 1 < branches && self.numbers.between(0, 1) == 0 {
                Child::Branch(self.numbers.side(index + 1, branches - 1))
            } else {
                Child::Leaf(self.numbers.side(0, leaves - 1))
            }
        };
        let children: Vec<[Child; 2]> = (0..branches)
            .map(|index| [child(index), child(index)])
            .collect();
        let branches = children.into_iter().map(|[below, above]| Branch {
            feature: u16::try_from(self.numbers.side(0, shape.channels - 1)).expect("few"),
            threshold: i16::from(self.numbers.activation()),
            below,
            above,
        });
        let branches: Vec<Branch> = branches.collect();
        let mut values = |count: u32| {
            (0..count)
                .map(|_| i32::try_from(self.numbers.between(-9_000, 9_000)).expect("small"))
                .collect()
        };
        let forest = Forest {
            roots: vec![Child::Branch(0), Child::Leaf(0)],
            branches,
            leaves: values(leaves * outputs),
            bias: values(outputs),
        };
        (
            Op::Trees(op::Trees { input, forest }),
            Shape::vector(outputs),
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::execute::execute_tensor;
    use std::collections::BTreeMap;
    use tg_ir::scalar;
    use tg_types::codec::Encode;

    /// Every operator occurs often, files are read back, no value leaves its interval, and every element is what the
    /// scalar semantics say.
    #[test]
    fn programs_are_valid_and_executed_as_the_scalar_semantics_say() {
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        for seed in 0..1_500 {
            let (model, input) = random_program(seed);
            let CompiledModel { program, weights } = &model;
            program.validate().unwrap();
            assert_eq!(*CompiledModel::read(&model.to_bytes()).unwrap(), model);
            assert_eq!(range::first_violation(&model), None);
            assert_eq!(range::check(&model), Ok(()));
            let known = range::intervals(&model);
            let trace = execute_tensor(&model.clone().checked().unwrap(), input).unwrap();
            let widened: Vec<Vec<i32>> = trace.tensors().iter().map(IntTensor::widened).collect();
            for (node, description) in program.nodes.iter().enumerate() {
                *seen.entry(description.op.name()).or_default() += 1;
                let got = &widened[node + 1];
                assert_eq!(got.len(), description.shape.elements());
                let intervals = &known[node + 1];
                for (element, &value) in got.iter().enumerate() {
                    let expected = scalar::element(program, weights, node, element, &widened);
                    assert_eq!(value, expected, "seed {seed} node {node} {description:?}");
                    let [low, high] = intervals[element % intervals.len()];
                    assert!((low..=high).contains(&i64::from(value)), "{description:?}");
                }
            }
        }
        assert_eq!(seen.len(), 24, "{seen:?}");
        assert!(seen.values().all(|&count| count >= 20), "{seen:?}");
    }
}
