//! Operators that go element by element, joined: a group of nodes runs over a few hundred elements at a time, so that
//! values between its nodes stay in the first-level cache.
//!
//! Every element takes the same operations in the same order as node by node. A group has one result; the values
//! between its nodes are read by its own nodes only. Whether a group can run joined depends on types and shapes, known
//! when it runs: where it cannot, its nodes run one after another.

use super::activation::{gelu_erf, gelu_tanh, hard_swish, leaky, ramp, rectified, softplus};
use super::broadcast::broadcast_shape;
use super::each::map_here;
use super::machine::with_scratch;
use super::math;
use super::real::Real;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::tensor::{FloatTensor, elements};
use tg_exec::kernels::memory::of_thread;

/// Elements that a group takes at a time.
const BLOCK: usize = 512;
/// Elements that a thread takes at a time.
const SHARE: usize = 1 << 14;
/// Most nodes of a group: its values fit the first-level cache.
const NODES_MAX: usize = 12;

/// What a node computes of its first operand.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unary {
    Relu,
    LeakyRelu(f64),
    Ramp(f64, f64),
    HardSwish,
    Sigmoid,
    Tanh,
    Erf,
    Exp,
    Sqrt,
    Reciprocal,
    Neg,
    Abs,
    Square,
    Softplus,
    GeluErf,
    GeluTanh,
}

/// What a node computes of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Function {
    Unary(Unary),
    Binary(Binary),
}

impl Function {
    /// That of a node, if a group can hold it.
    fn of(graph: &Graph, node: &Node) -> Option<Self> {
        if !node.domain.is_empty() || node.outputs.len() != 1 || node.inputs.contains(&None) {
            return None;
        }
        let float = |name: &str, default: f32| match node.attributes.get(name) {
            None => Some(f64::from(default)),
            Some(Attribute::Float(value)) => Some(f64::from(*value)),
            Some(_) => None,
        };
        let unary = match node.op.as_str() {
            "Relu" => Unary::Relu,
            "LeakyRelu" => Unary::LeakyRelu(float("alpha", 0.01)?),
            "HardSigmoid" => Unary::Ramp(float("alpha", 0.2)?, float("beta", 0.5)?),
            "HardSwish" => Unary::HardSwish,
            "Sigmoid" => Unary::Sigmoid,
            "Tanh" => Unary::Tanh,
            "Erf" => Unary::Erf,
            "Exp" => Unary::Exp,
            "Sqrt" => Unary::Sqrt,
            "Reciprocal" => Unary::Reciprocal,
            "Neg" => Unary::Neg,
            "Abs" => Unary::Abs,
            "Softplus" => Unary::Softplus,
            "Gelu" => match node.attributes.get("approximate") {
                Some(Attribute::Text(text)) if text == b"tanh" => Unary::GeluTanh,
                None | Some(Attribute::Text(_)) => Unary::GeluErf,
                Some(_) => return None,
            },
            "Pow" if is_two(graph, node) => return Some(Self::Unary(Unary::Square)),
            _ => return Self::binary(node),
        };
        (node.inputs.len() == 1).then_some(Self::Unary(unary))
    }

    fn binary(node: &Node) -> Option<Self> {
        let binary = match node.op.as_str() {
            "Add" => Binary::Add,
            "Sub" => Binary::Sub,
            "Mul" => Binary::Mul,
            "Div" => Binary::Div,
            "Max" => Binary::Max,
            "Min" => Binary::Min,
            _ => return None,
        };
        (node.inputs.len() == 2).then_some(Self::Binary(binary))
    }
}

/// Whether the exponent of a `Pow` is the constant 2 of the base's type.
fn is_two(graph: &Graph, node: &Node) -> bool {
    let exponent = node.inputs.get(1).copied().flatten();
    let exponent = exponent.and_then(|value| graph.constants.get(&value)?.values::<f32>());
    node.inputs.len() == 2 && matches!(exponent, Some([two]) if *two == 2.0)
}

/// Applies a function to a block.
#[inline(always)]
fn unary(function: Unary, x: &[f32], out: &mut [f32]) {
    macro_rules! map {
        ($x:ident => $body:expr) => {
            map_here(
                x,
                out,
                #[inline(always)]
                |$x: f32| $body,
            )
        };
    }
    match function {
        Unary::Relu => map!(x => rectified(x)),
        Unary::LeakyRelu(slope) => map!(x => leaky(x, f32::of(slope))),
        Unary::Ramp(slope, offset) => map!(x => ramp(x, slope, offset)),
        Unary::HardSwish => map!(x => hard_swish(x)),
        Unary::Sigmoid => map!(x => math::sigmoid(x)),
        Unary::Tanh => map!(x => math::tanh(x)),
        Unary::Erf => map!(x => math::erf(x)),
        Unary::Exp => map!(x => math::exp(x)),
        Unary::Sqrt => map!(x => x.sqrt()),
        Unary::Reciprocal => map!(x => x.reciprocal()),
        Unary::Neg => map!(x => -x),
        Unary::Abs => map!(x => x.abs()),
        Unary::Square => map!(x => x * x),
        Unary::Softplus => map!(x => softplus(x)),
        Unary::GeluErf => map!(x => gelu_erf(x)),
        Unary::GeluTanh => map!(x => gelu_tanh(x)),
    }
}

/// Applies a function to two blocks.
#[inline(always)]
fn binary(function: Binary, x: &[f32], y: &[f32], out: &mut [f32]) {
    macro_rules! zip {
        (($x:ident, $y:ident) => $body:expr) => {
            for ((out, &$x), &$y) in out.iter_mut().zip(x).zip(y) {
                *out = Real::canonical($body);
            }
        };
    }
    match function {
        Binary::Add => zip!((x, y) => x + y),
        Binary::Sub => zip!((x, y) => x - y),
        Binary::Mul => zip!((x, y) => x * y),
        Binary::Div => zip!((x, y) => x / y),
        Binary::Max => zip!((x, y) => x.larger(y)),
        Binary::Min => zip!((x, y) => x.smaller(y)),
    }
}

/// One node of a group: operands are numbers of values, those that the group reads first, then its nodes' results.
#[derive(Debug, Clone, Copy)]
struct Instruction {
    function: Function,
    operands: [usize; 2],
}

/// Nodes that run together.
#[derive(Debug)]
pub(super) struct Group {
    /// Its nodes, in order; the last gives its result.
    pub(super) nodes: Vec<usize>,
    /// The values of others that it reads, each once.
    pub(super) reads: Vec<ValueId>,
    code: Vec<Instruction>,
}

/// The groups of a graph, by their last node; nodes of `others` belong to none.
pub(super) fn groups(graph: &Graph, others: &[usize]) -> Vec<Option<Group>> {
    let nodes = graph.nodes.iter().enumerate();
    let functions: Vec<Option<Function>> = nodes
        .map(|(index, node)| Function::of(graph, node).filter(|_| !others.contains(&index)))
        .collect();
    let (producers, readers) = (graph.producers(), graph.readers());
    let mut taken = vec![false; graph.nodes.len()];
    let mut groups: Vec<Option<Group>> = Vec::new();
    for last in (0..graph.nodes.len()).rev() {
        let mut group = None;
        if functions[last].is_some() && !taken[last] {
            let mut nodes = vec![last];
            grow(graph, &functions, &producers, &readers, &taken, &mut nodes);
            nodes.sort_unstable();
            nodes.iter().for_each(|&node| taken[node] = true);
            group = Group::new(graph, &functions, nodes);
        }
        groups.push(group);
    }
    groups.reverse();
    groups
}

/// Adds nodes whose results nobody else reads.
fn grow(
    graph: &Graph,
    functions: &[Option<Function>],
    producers: &[Option<usize>],
    readers: &[Vec<usize>],
    taken: &[bool],
    nodes: &mut Vec<usize>,
) {
    let mut changed = true;
    while changed {
        changed = false;
        let read: Vec<ValueId> = nodes
            .iter()
            .flat_map(|&node| graph.nodes[node].reads())
            .collect();
        for value in read {
            let Some(producer) = producers.get(value.index()).copied().flatten() else {
                continue;
            };
            let alone = readers[value.index()]
                .iter()
                .all(|reader| nodes.contains(reader))
                && !graph.outputs.contains(&value);
            let fits = functions[producer].is_some() && !taken[producer];
            if nodes.len() < NODES_MAX && fits && alone && !nodes.contains(&producer) {
                nodes.push(producer);
                changed = true;
            }
        }
    }
}

impl Group {
    fn new(graph: &Graph, functions: &[Option<Function>], nodes: Vec<usize>) -> Option<Self> {
        let gives = |node: usize| graph.nodes[node].outputs.first().copied().flatten();
        let results: Option<Vec<ValueId>> = nodes.iter().map(|&node| gives(node)).collect();
        let results = results?;
        let mut reads: Vec<ValueId> = Vec::new();
        for &node in &nodes {
            for value in operands(graph, node, functions) {
                if !results.contains(&value) && !reads.contains(&value) {
                    reads.push(value);
                }
            }
        }
        let number = |value: ValueId| {
            let inner = results.iter().position(|&own| own == value);
            let outer = reads.iter().position(|&own| own == value);
            inner.map(|index| reads.len() + index).or(outer)
        };
        let mut code = Vec::with_capacity(nodes.len());
        for &node in &nodes {
            let mut operands = operands(graph, node, functions);
            let first = number(operands.next()?)?;
            let second = operands.next().map_or(Some(first), number)?;
            code.push(Instruction {
                function: functions[node]?,
                operands: [first, second],
            });
        }
        Some(Self { nodes, reads, code })
    }

    /// How each value that the group reads lies in a result of this shape; nothing if it cannot run joined.
    pub(super) fn layout(&self, reads: &[&FloatTensor]) -> Option<Layout> {
        if reads.iter().any(|tensor| tensor.values::<f32>().is_none()) {
            return None;
        }
        let shapes: Vec<&[usize]> = reads.iter().map(|tensor| tensor.shape()).collect();
        let shape = broadcast_shape(&shapes).ok()?;
        let count = elements(&shape).filter(|&count| count > 0)?;
        let spreads: Option<Vec<Spread>> =
            shapes.iter().map(|own| Spread::of(own, &shape)).collect();
        Some(Layout {
            shape,
            count,
            spreads: spreads?,
        })
    }

    /// Computes the result into `out`. The read `in_place` is not given: it is what `out` holds before.
    pub(super) fn run(
        &self,
        layout: &Layout,
        reads: &[&[f32]],
        in_place: Option<usize>,
        out: &mut [f32],
    ) {
        let registers = reads.len() + self.code.len();
        with_scratch(|cpu, scratch| {
            let buffers = scratch.threads(cpu.threads());
            cpu.pool().run_parts(out, SHARE, &|thread, index, out| {
                let mut buffer = of_thread(buffers, thread);
                let registers = buffer.numbers_mut::<f32>(registers * BLOCK);
                let share = Share {
                    group: self,
                    layout,
                    reads,
                    in_place,
                };
                cpu.vectorised(
                    #[inline(always)]
                    || share.run(index * SHARE, out, registers.as_chunks_mut().0),
                );
            });
        });
    }
}

/// What a node of a group reads.
fn operands<'a>(
    graph: &'a Graph,
    node: usize,
    functions: &[Option<Function>],
) -> impl Iterator<Item = ValueId> + 'a {
    let count = match functions[node] {
        Some(Function::Unary(_)) => 1,
        _ => 2,
    };
    graph.nodes[node].reads().take(count)
}

/// How the result and the values that a group reads lie to each other.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) shape: Vec<usize>,
    pub(super) count: usize,
    spreads: Vec<Spread>,
}

impl Layout {
    /// Whether a read has an element of its own for each of the result.
    pub(super) fn is_full(&self, read: usize) -> bool {
        self.spreads[read].period == self.count
    }
}

/// Element i of the result reads element `i / repeat % period`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spread {
    repeat: usize,
    period: usize,
}

impl Spread {
    /// Of a shape that is broadcast to `shape`; nothing if its own axes do not lie side by side.
    fn of(own: &[usize], shape: &[usize]) -> Option<Self> {
        let offset = shape.len() - own.len();
        let is_own = |axis: &usize| *axis >= offset && own[*axis - offset] != 1;
        let first = (0..shape.len()).find(is_own);
        let last = (0..shape.len()).rfind(is_own);
        let (Some(first), Some(last)) = (first, last) else {
            return Some(Self {
                repeat: 1,
                period: 1,
            });
        };
        let full = |axis: usize| is_own(&axis) || shape[axis] == 1;
        (first..=last).all(full).then(|| Self {
            repeat: shape[last + 1..].iter().product(),
            period: shape[first..=last].iter().product(),
        })
    }

    /// Writes what the elements from `at` on read.
    #[inline(always)]
    fn fill(self, values: &[f32], at: usize, out: &mut [f32]) {
        let Self { repeat, period } = self;
        let mut done = 0;
        while done < out.len() {
            let place = (at + done) / repeat % period;
            let rest = out.len() - done;
            if repeat == 1 {
                let count = rest.min(period - place);
                out[done..done + count].copy_from_slice(&values[place..place + count]);
                done += count;
            } else {
                let count = rest.min(repeat - (at + done) % repeat);
                out[done..done + count].fill(values[place]);
                done += count;
            }
        }
    }
}

/// A thread's share of a group's work.
struct Share<'a> {
    group: &'a Group,
    layout: &'a Layout,
    reads: &'a [&'a [f32]],
    in_place: Option<usize>,
}

impl Share<'_> {
    /// Computes the elements from `first` on.
    #[inline(always)]
    fn run(&self, first: usize, out: &mut [f32], registers: &mut [[f32; BLOCK]]) {
        let reads = self.reads.len();
        for (read, register) in registers.iter_mut().enumerate().take(reads) {
            if self.layout.spreads[read].period == 1 && self.in_place != Some(read) {
                register.fill(self.reads[read][0]);
            }
        }
        for (index, out) in out.chunks_mut(BLOCK).enumerate() {
            let (at, length) = (first + index * BLOCK, out.len());
            for (read, register) in registers.iter_mut().enumerate().take(reads) {
                let spread = self.layout.spreads[read];
                if self.in_place == Some(read) {
                    register[..length].copy_from_slice(out);
                } else if spread.period != 1 && !self.layout.is_full(read) {
                    spread.fill(self.reads[read], at, &mut register[..length]);
                }
            }
            for (step, instruction) in self.group.code.iter().enumerate() {
                let (before, after) = registers.split_at_mut(reads + step);
                let operand = |number: usize| {
                    let direct = number < reads
                        && self.in_place != Some(number)
                        && self.layout.is_full(number)
                        && self.layout.count != 1;
                    if direct {
                        &self.reads[number][at..at + length]
                    } else {
                        &before[number][..length]
                    }
                };
                let [x, y] = instruction.operands;
                let target = if step + 1 == self.group.code.len() {
                    &mut *out
                } else {
                    &mut after[0][..length]
                };
                match instruction.function {
                    Function::Unary(function) => unary(function, operand(x), target),
                    Function::Binary(function) => binary(function, operand(x), operand(y), target),
                }
            }
        }
    }
}
