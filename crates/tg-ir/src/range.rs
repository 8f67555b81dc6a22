//! What an accumulator can reach: interval arithmetic over the actual weights, node by node.
//!
//! [`crate::bounds`] asks whether *any* admissible weights could leave the field; this module asks how far *these* weights
//! go, for every input of the program. A compiler declares the result as the range of each requantisation, so that its
//! segment table is small and yet no input leaves it; whoever admits a model asks whether that is so: a range that some
//! input leaves is a job that runs and has no proof.
//!
//! Weights may come in parts, once, in node order ([`Ranges`]): a file of any size is looked at in little memory. All is
//! exact integers, so that everybody comes to the same answer.

use crate::bounds;
use crate::model::CompiledModel;
use crate::op::reach::Reads;
pub use crate::op::reach::{Interval, Rows, hull};
use crate::op::{NodeWeights, Op, Unary};
use crate::program::{Coding, InputSpec, Program};
use crate::requantise::Requantise;
use crate::shape::{ElementType, Shape, TensorId};

/// Most intervals that are computed for one program: a fraction of a second, a hundred times those of a large language model.
pub const STEPS_MAX: u64 = 1 << 25;
/// Most intervals that are held at once: 16 MiB.
pub const HELD_MAX: usize = 1 << 20;

const ACTIVATION: Interval = [-128, 127];

/// Why a program with its weights is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// Some input may leave the range of a requantisation: it would run, and have no proof.
    #[error("node {node} `{name}` may read {reach:?}, its range is {range:?}")]
    Left {
        /// Index of the requantisation.
        node: usize,
        /// Its name.
        name: String,
        /// Least and greatest integer that it may read.
        reach: Interval,
        /// Its declared range.
        range: [i32; 2],
    },
    /// More intervals than are computed.
    #[error("the intervals up to node {node} `{name}` are more than {limit}")]
    TooMany {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// The limit that is passed: [`STEPS_MAX`] or [`HELD_MAX`].
        limit: u64,
    },
}

/// Per tensor (index 0 is the input) and channel, the least and greatest value that any input gives. A list of one interval
/// is that of all channels. What [`crate::bounds`] knows of a node for all weights (a row of probabilities sums to one) counts.
///
/// # Panics
/// If the model is not valid.
#[must_use]
pub fn intervals(model: &CompiledModel) -> Vec<Vec<Interval>> {
    let program = &model.program;
    let magnitudes = bounds::magnitudes(program, program.nodes.len());
    let mut known = vec![of_input(&program.input)];
    for node in 0..program.nodes.len() {
        let layer = model.weights.of_node(program, node);
        let description = &program.nodes[node];
        let of = |id: TensorId| (known[id.index()].as_slice(), program.shape(id));
        let mut next = of_op(&description.op, description.shape, layer, of);
        clip(&mut next, magnitudes[node + 1]);
        known.push(next);
    }
    known
}

/// Values are within their interval and within a magnitude.
fn clip(intervals: &mut [Interval], magnitude: i64) {
    for [low, high] in intervals {
        (*low, *high) = ((*low).max(-magnitude), (*high).min(magnitude));
    }
}

/// Per channel of an input, its least and greatest value.
#[must_use]
pub fn of_input(input: &InputSpec) -> Vec<Interval> {
    let channels = input.shape.channels as usize;
    match &input.coding {
        Coding::Scaled(ElementType::I8) => vec![ACTIVATION; channels],
        Coding::Scaled(_) | Coding::PerChannel(_) => vec![[-32_767, 32_767]; channels],
        Coding::Ranks(thresholds) => thresholds
            .iter()
            .map(|list| [0, i64::try_from(list.len()).expect("few")])
            .collect(),
        Coding::Tokens(vocabulary) => vec![[0, i64::from(*vocabulary) - 1]; channels],
    }
}

/// The first node whose declared accumulator range does not hold all that its input can reach, with that reach.
///
/// # Panics
/// If the model is not valid.
#[must_use]
pub fn first_violation(model: &CompiledModel) -> Option<(usize, Interval)> {
    let known = intervals(model);
    let nodes = model.program.nodes.iter().enumerate();
    nodes.into_iter().find_map(|(node, description)| {
        let Op::Requantise(Unary { input, how }) = &description.op else {
            return None;
        };
        let reach = hull(&known[input.index()]);
        leaves(how, reach).then_some((node, reach))
    })
}

/// Whether no input leaves the range of a requantisation, as whoever admits a model finds it: node by node.
///
/// # Errors
/// [`RangeError`] names the node.
///
/// # Panics
/// If the model is not valid.
pub fn check(model: &CompiledModel) -> Result<(), RangeError> {
    let program = &model.program;
    let mut ranges = Ranges::new(program);
    for node in 0..program.nodes.len() {
        match model.weights.of_node(program, node) {
            None => ranges.pass()?,
            Some(layer) => {
                let mut rows = ranges.rows();
                rows.feed_signed(layer.weights);
                rows.add_biases(layer.bias.iter().copied());
                ranges.pass_weighted(rows)?;
            }
        }
    }
    Ok(())
}

fn leaves(how: &Requantise, reach: Interval) -> bool {
    let [low, high] = how.range.map(i64::from);
    reach[0] < low || reach[1] > high
}

/// The intervals of a program's tensors, node by node, while weights come in parts.
///
/// Each node is passed with [`Self::pass`] if it has no weights, else with [`Self::pass_weighted`] and what
/// [`Self::rows`] gave, filled with its weights (those of its owner if it is tied) and biases.
#[derive(Debug)]
pub struct Ranges<'a> {
    program: &'a Program,
    /// Per tensor the greatest absolute value, for all weights.
    magnitudes: Vec<i64>,
    /// Per tensor its last reader.
    last_reader: Vec<usize>,
    /// Per tensor its intervals, while a node may read them.
    known: Vec<Vec<Interval>>,
    /// Intervals of all of them.
    held: usize,
    /// Intervals that were computed.
    steps: u64,
}

impl<'a> Ranges<'a> {
    /// Before the first node of a valid program.
    #[must_use]
    pub fn new(program: &'a Program) -> Self {
        let mut last_reader = vec![0; program.nodes.len() + 1];
        for (node, description) in program.nodes.iter().enumerate() {
            for input in description.op.inputs() {
                last_reader[input.index()] = node;
            }
        }
        let mut ranges = Self {
            program,
            magnitudes: bounds::magnitudes(program, program.nodes.len()),
            last_reader,
            known: Vec::with_capacity(program.nodes.len() + 1),
            held: 0,
            steps: 0,
        };
        ranges.hold(of_input(&program.input));
        ranges
    }

    /// The next node.
    #[must_use]
    pub const fn node(&self) -> usize {
        self.known.len() - 1
    }

    /// Passes the next node, which has no weights.
    ///
    /// # Errors
    /// [`RangeError`] if it is a requantisation whose range is left, or there are too many intervals.
    ///
    /// # Panics
    /// If the node has weights.
    pub fn pass(&mut self) -> Result<(), RangeError> {
        let (program, node) = (self.program, self.node());
        let described = &program.nodes[node];
        let inputs = described.op.inputs();
        if let Op::Requantise(Unary { input, how }) = &described.op {
            let reach = hull(&self.known[input.index()]);
            if leaves(how, reach) {
                return Err(RangeError::Left {
                    node,
                    name: described.name.clone(),
                    reach,
                    range: how.range,
                });
            }
        }
        let read = inputs.iter().map(|input| self.known[input.index()].len());
        let written = described.op.operator().intervals_written(described.shape);
        self.charge((read.sum::<usize>() + written) as u64)?;
        let of = |id: TensorId| (self.known[id.index()].as_slice(), program.shape(id));
        let next = of_op(&described.op, described.shape, None, of);
        self.end(next)
    }

    /// Least and greatest value of the last tensor that was passed.
    ///
    /// # Panics
    /// If nobody reads it and it was dropped: only tensors before the last are.
    #[must_use]
    pub fn last(&self) -> Interval {
        hull(&self.known[self.known.len() - 1])
    }

    /// What takes in the weights of the next node, which has some.
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    pub fn rows(&self) -> Rows {
        let (program, node) = (self.program, self.node());
        let reads = program.nodes[node].op.operator().linear_reads();
        let known = reads.map(|reads| (reads, self.known[reads.input.index()].as_slice()));
        let axes = program.weight_axes(node);
        Rows::of(axes.expect("a node with weights has some"), known)
    }

    /// Passes the next node, given its weights.
    ///
    /// # Errors
    /// [`RangeError::TooMany`].
    pub fn pass_weighted(&mut self, rows: Rows) -> Result<(), RangeError> {
        self.charge(rows.done.len() as u64)?;
        self.end(rows.into_intervals())
    }

    fn charge(&mut self, steps: u64) -> Result<(), RangeError> {
        self.steps += steps;
        self.within(self.steps, STEPS_MAX)
    }

    fn within(&self, count: u64, limit: u64) -> Result<(), RangeError> {
        if count <= limit {
            return Ok(());
        }
        let node = self.node().min(self.program.nodes.len() - 1);
        let name = self.program.nodes[node].name.clone();
        Err(RangeError::TooMany { node, name, limit })
    }

    /// The intervals of the node that was passed; those that nobody reads any more are dropped.
    fn end(&mut self, next: Vec<Interval>) -> Result<(), RangeError> {
        let node = self.node();
        for input in self.program.nodes[node].op.inputs() {
            if self.last_reader[input.index()] == node {
                self.held -= self.known[input.index()].len();
                self.known[input.index()] = Vec::new();
            }
        }
        self.hold(next);
        self.within(self.held as u64, HELD_MAX as u64)
    }

    fn hold(&mut self, mut next: Vec<Interval>) {
        clip(&mut next, self.magnitudes[self.known.len()]);
        if next.iter().all(|interval| *interval == next[0]) {
            next.truncate(1);
            next.shrink_to_fit();
        }
        self.held += next.len();
        self.known.push(next);
    }
}

/// The intervals of one operator's output, given its inputs': one for each channel, or one for all.
///
/// # Panics
/// If the operator has weights and `layer` has none.
pub fn of_op<'a>(
    op: &Op,
    output: Shape,
    layer: Option<NodeWeights<'_>>,
    of: impl Fn(TensorId) -> (&'a [Interval], Shape),
) -> Vec<Interval> {
    op.operator().reach(&Reads {
        output,
        layer,
        before: &|id| of(id),
    })
}
