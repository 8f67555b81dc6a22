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
use crate::op::{Axis, Op, PROBABILITY_ONE, Ranked, Reduction};
use crate::program::{Coding, InputSpec, Program, TensorId};
use crate::requantise::Requantise;
use crate::shape::{ElementType, Shape};
use crate::weights::NodeWeights;
use crate::window::Window;

/// Least and greatest value of one channel.
pub type Interval = [i64; 2];

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
        let of = |id: &TensorId| (known[id.index()].as_slice(), program.shape(*id));
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
        Coding::Scaled(_) => vec![[-32_767, 32_767]; channels],
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
        let Op::Requantise { input, how } = &description.op else {
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
        if let Op::Requantise { input, how } = &described.op {
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
        let written = match &described.op {
            Op::Requantise { how, .. } => how.channel_pairs.len(),
            Op::Gather {
                indices,
                axis: Axis::Channels,
                ..
            } => indices.len(),
            Op::Concat {
                axis: Axis::Channels,
                ..
            } => described.shape.channels as usize,
            _ => 0,
        };
        self.charge((read.sum::<usize>() + written) as u64)?;
        let of = |id: &TensorId| (self.known[id.index()].as_slice(), program.shape(*id));
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
        let op = &program.nodes[node].op;
        let of = |id: &TensorId| self.known[id.index()].as_slice();
        Rows::of(op, program.weight_axes(node), of)
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

/// The intervals of a node with weights, while these come.
#[derive(Debug)]
pub struct Rows {
    /// What is asked of the weights.
    kind: RowsKind,
    /// Weights of one row: what one output channel reads.
    row: usize,
    /// Rows that read the same input channels.
    group: usize,
    /// Weights of the current row so far.
    at: usize,
    /// Sums of the current row.
    sums: [i64; 2],
    /// The rows that are complete, without biases.
    done: Vec<Interval>,
    /// Biases so far.
    biased: usize,
}

/// What is asked of the weights of a node.
#[derive(Debug)]
enum RowsKind {
    /// The least and the greatest.
    Values,
    /// Products with inputs that are all within one interval: the sums of positive and of negative weights.
    Uniform(Interval),
    /// Products with inputs that have intervals of their own, one after the other and again.
    Each {
        /// Of all input channels.
        inputs: Vec<Interval>,
        /// Input channels that a row reads.
        run: usize,
        /// Those of the current row, several times.
        tile: Tile,
    },
}

/// Intervals as sums and differences of their ends: twice the ends of a product are `w sum -+ |w| difference`.
#[derive(Debug)]
enum Tile {
    /// Of 8-bit activations.
    Short([Vec<i16>; 2]),
    /// Of others.
    Long([Vec<i32>; 2]),
}

/// Least intervals of a tile, so that short runs are not looked at one by one.
const TILE: usize = 512;

impl Tile {
    /// A run of intervals as often as fits, at most `row` of them; they are at most [`crate::FIELD_BOUND`].
    fn of(run: &[Interval], row: usize) -> Self {
        let times = (TILE / run.len()).clamp(1, (row / run.len()).max(1));
        let parts = [
            run.iter().map(|[low, high]| low + high).collect::<Vec<_>>(),
            run.iter().map(|[low, high]| high - low).collect(),
        ];
        let short = |part: &Vec<i64>| -> Option<Vec<i16>> {
            part.iter()
                .map(|&value| i16::try_from(value).ok())
                .collect()
        };
        match (short(&parts[0]), short(&parts[1])) {
            (Some(sums), Some(differences)) => {
                Self::Short([sums.repeat(times), differences.repeat(times)])
            }
            _ => Self::Long(parts.map(|part| {
                let part = part
                    .into_iter()
                    .map(|value| i32::try_from(value).unwrap_or(i32::MAX));
                part.collect::<Vec<_>>().repeat(times)
            })),
        }
    }

    const fn len(&self) -> usize {
        match self {
            Self::Short([sums, _]) => sums.len(),
            Self::Long([sums, _]) => sums.len(),
        }
    }

    /// Sums of `w sum` and `|w| difference`, from a place of the tile on. No sum of a row passes twice the field bound.
    fn products(&self, at: usize, weights: &[u8]) -> [i64; 2] {
        match self {
            Self::Short(parts) => products(parts, at, weights),
            Self::Long(parts) => products(parts, at, weights),
        }
    }
}

fn products<T: Copy + Into<i32>>(parts: &[Vec<T>; 2], at: usize, weights: &[u8]) -> [i64; 2] {
    let end = at + weights.len();
    let (mut sum, mut width) = (0i32, 0i32);
    let ends = parts[0][at..end].iter().zip(&parts[1][at..end]);
    for (&weight, (&middle, &difference)) in weights.iter().zip(ends) {
        let weight = i16::from(weight.cast_signed());
        // Exact, so that wrapping changes nothing: it lets the compiler use vectors.
        sum = sum.wrapping_add(i32::from(weight).wrapping_mul(middle.into()));
        width = width.wrapping_add(i32::from(weight.abs()).wrapping_mul(difference.into()));
    }
    [i64::from(sum), i64::from(width)]
}

impl Rows {
    fn of<'a>(op: &Op, axes: Option<[usize; 3]>, of: impl Fn(&TensorId) -> &'a [Interval]) -> Self {
        let [outputs, positions, run] = axes.expect("a node with weights has some");
        let (known, groups, padding) = match op {
            Op::Conv {
                input,
                window,
                groups,
                zero,
            } => {
                let padding = is_padded(window).then(|| i64::from(*zero));
                (of(input), (*groups).max(1) as usize, padding)
            }
            Op::Dense { input } => (of(input), 1, None),
            _ => {
                let kind = RowsKind::Values;
                return Self::empty(kind, outputs * positions * run, 1, 0);
            }
        };
        let padded = |[low, high]: Interval| match padding {
            Some(zero) => [low.min(zero), high.max(zero)],
            None => [low, high],
        };
        let kind = if let [interval] = known {
            RowsKind::Uniform(padded(*interval))
        } else {
            RowsKind::Each {
                inputs: known.iter().copied().map(padded).collect(),
                run,
                tile: Tile::Short([Vec::new(), Vec::new()]),
            }
        };
        Self::empty(kind, positions * run, outputs / groups, outputs)
    }

    fn empty(kind: RowsKind, row: usize, group: usize, outputs: usize) -> Self {
        let sums = match kind {
            RowsKind::Values => [i64::from(i8::MAX), i64::from(i8::MIN)],
            RowsKind::Uniform(_) | RowsKind::Each { .. } => [0; 2],
        };
        Self {
            kind,
            row,
            group: group.max(1),
            at: 0,
            sums,
            done: Vec::with_capacity(outputs),
            biased: 0,
        }
    }

    /// Takes the next weights, as many as there are of the node in all parts together.
    ///
    /// # Panics
    /// If they are more.
    pub fn feed(&mut self, mut weights: &[u8]) {
        while !weights.is_empty() {
            self.begin_row();
            let length = weights.len().min(self.row - self.at);
            let length = match &self.kind {
                RowsKind::Each { tile, .. } => length.min(tile.len() - self.at % tile.len()),
                RowsKind::Values | RowsKind::Uniform(_) => length,
            };
            let (part, rest) = weights.split_at(length);
            self.take(part);
            weights = rest;
            self.at += length;
            if self.at == self.row {
                self.end_row();
            }
        }
    }

    fn feed_signed(&mut self, weights: &[i8]) {
        let mut bytes = [0; 1 << 12];
        for part in weights.chunks(bytes.len()) {
            let signed = bytes.iter_mut().zip(part);
            signed.for_each(|(byte, weight)| *byte = weight.cast_unsigned());
            self.feed(&bytes[..part.len()]);
        }
    }

    /// Makes the tile of the first row of a group.
    fn begin_row(&mut self) {
        let (row, group) = (self.row, self.group);
        if let RowsKind::Each { inputs, run, tile } = &mut self.kind
            && self.at == 0
            && self.done.len().is_multiple_of(group)
        {
            let first = self.done.len() / group * *run;
            *tile = Tile::of(&inputs[first..first + *run], row);
        }
    }

    fn take(&mut self, part: &[u8]) {
        let sums = match &self.kind {
            RowsKind::Values => {
                let weights = part.iter().map(|byte| byte.cast_signed());
                let (least, greatest) = (weights.clone().min(), weights.max());
                let own = [least, greatest].map(|end| i64::from(end.unwrap_or(0)));
                self.sums = [self.sums[0].min(own[0]), self.sums[1].max(own[1])];
                return;
            }
            RowsKind::Uniform(_) => {
                let (mut sum, mut width) = (0i32, 0i32);
                for byte in part {
                    let weight = i32::from(byte.cast_signed());
                    sum = sum.wrapping_add(weight);
                    width = width.wrapping_add(weight.abs());
                }
                [sum, width].map(i64::from)
            }
            RowsKind::Each { tile, .. } => tile.products(self.at % tile.len(), part),
        };
        self.sums = [self.sums[0] + sums[0], self.sums[1] + sums[1]];
    }

    fn end_row(&mut self) {
        self.at = 0;
        let [sum, width] = self.sums;
        let interval = match &self.kind {
            RowsKind::Values => {
                self.done.push(self.sums);
                return;
            }
            RowsKind::Uniform([low, high]) => {
                let (positive, negative) = (i64::midpoint(width, sum), (sum - width) / 2);
                [
                    positive * low + negative * high,
                    positive * high + negative * low,
                ]
            }
            RowsKind::Each { .. } => [(sum - width) / 2, (sum + width) / 2],
        };
        self.done.push(interval);
        self.sums = [0; 2];
    }

    /// Takes the next biases.
    ///
    /// # Panics
    /// If they are more than there are output channels, or come before the weights.
    pub fn add_biases(&mut self, biases: impl IntoIterator<Item = i32>) {
        for bias in biases {
            let bias = i64::from(bias);
            let [low, high] = self.done[self.biased];
            self.done[self.biased] = [low + bias, high + bias];
            self.biased += 1;
        }
    }

    fn into_intervals(self) -> Vec<Interval> {
        self.done
    }
}

/// The interval of a channel in a list of one for all, or one each.
fn at(list: &[Interval], channel: usize) -> Interval {
    if let [all] = list {
        *all
    } else {
        list[channel]
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
    of: impl Fn(&TensorId) -> (&'a [Interval], Shape),
) -> Vec<Interval> {
    let layer = || layer.expect("a node with weights has some");
    let width = |inputs: &[TensorId]| {
        let widths = inputs.iter().map(|input| of(input).0.len());
        widths.max().unwrap_or(1)
    };
    match op {
        Op::Conv { input, .. } | Op::Dense { input } => {
            let layer = layer();
            let known = of(input);
            let row = layer.weights.len() / layer.bias.len();
            let axes = [
                layer.bias.len(),
                row / run_of(op, known.1),
                run_of(op, known.1),
            ];
            let mut rows = Rows::of(op, Some(axes), |_| known.0);
            rows.feed_signed(layer.weights);
            rows.add_biases(layer.bias.iter().copied());
            rows.into_intervals()
        }
        Op::MatMul { inputs, .. } => {
            let [a, b] = [0, 1].map(|side| hull(of(&inputs[side]).0));
            let terms = i64::from(of(&inputs[0]).1.channels);
            let [low, high] = product(a, b);
            vec![[low * terms, high * terms]]
        }
        Op::Parameter | Op::Embed { .. } => {
            let weights: Vec<Interval> =
                layer().weights.iter().map(|&w| [i64::from(w); 2]).collect();
            vec![hull(&weights)]
        }
        Op::WindowSum { input, window } => of(input)
            .0
            .iter()
            .map(|&interval| window_sum(interval, window))
            .collect(),
        Op::Add {
            inputs,
            multipliers,
            bias,
        } => (0..width(inputs))
            .map(|channel| {
                let terms = inputs.iter().zip(multipliers);
                terms.fold([i64::from(*bias); 2], |[low, high], (input, &m)| {
                    let [least, greatest] = product(at(of(input).0, channel), [i64::from(m); 2]);
                    [low + least, high + greatest]
                })
            })
            .collect(),
        Op::Mul { inputs } => (0..width(inputs))
            .map(|channel| product(at(of(&inputs[0]).0, channel), at(of(&inputs[1]).0, channel)))
            .collect(),
        Op::Requantise { input, how } => {
            let known = of(input).0;
            let extremes = how.table.as_deref().map(Extremes::of);
            (0..known.len().max(how.channel_pairs.len()))
                .map(|channel| requantised(how, extremes.as_ref(), channel, at(known, channel)))
                .collect()
        }
        op => of_movement(op, output, of),
    }
}

/// The intervals of operators that compare, reduce and move.
#[expect(clippy::too_many_lines, reason = "one arm per operator")]
fn of_movement<'a>(
    op: &Op,
    output: Shape,
    of: impl Fn(&TensorId) -> (&'a [Interval], Shape),
) -> Vec<Interval> {
    let width = |inputs: &[TensorId]| {
        let widths = inputs.iter().map(|input| of(input).0.len());
        widths.max().unwrap_or(1)
    };
    let last = |shape: Shape| [0, i64::from(shape.channels) - 1];
    match op {
        Op::MaxPool { input, .. } => of(input).0.to_vec(),
        Op::Extremum { inputs, .. } | Op::Select { inputs, .. } => (0..width(inputs))
            .map(|channel| hull(&[0, 1].map(|side| at(of(&inputs[side]).0, channel))))
            .collect(),
        Op::Compare { .. } => vec![[0, 1]],
        Op::Reduce {
            input,
            reduction,
            axis,
        } => {
            let (known, shape) = of(input);
            let kept = match axis {
                Axis::Channels => vec![hull(known)],
                Axis::Rows | Axis::Columns => known.to_vec(),
            };
            let length = i64::from(shape.axis(*axis));
            match reduction {
                Reduction::Sum => kept
                    .iter()
                    .map(|&[low, high]| [low * length, high * length])
                    .collect(),
                Reduction::Greatest | Reduction::Least => kept,
            }
        }
        Op::ArgMax { input } => vec![last(of(input).1)],
        Op::TopK { input, give } => match give {
            Ranked::Values => vec![hull(of(input).0)],
            Ranked::Channels => vec![last(of(input).1)],
        },
        Op::Softmax { .. } => vec![[0, i64::from(PROBABILITY_ONE)]],
        Op::Norm { how, .. } => {
            let reach = norm_reach(output.channels, how.fraction);
            vec![[-reach, reach]]
        }
        Op::View { input, .. } => vec![hull(of(input).0)],
        Op::Concat {
            inputs,
            axis: Axis::Channels,
        } => inputs
            .iter()
            .flat_map(|input| {
                let (known, shape) = of(input);
                (0..shape.channels as usize).map(|channel| at(known, channel))
            })
            .collect(),
        Op::Concat { inputs, .. } => (0..width(inputs))
            .map(|channel| {
                let all = inputs.iter().map(|id| at(of(id).0, channel));
                hull(&all.collect::<Vec<_>>())
            })
            .collect(),
        Op::Pad { input, value, .. } => {
            let value = i64::from(*value);
            let [low, high] = hull(of(input).0);
            vec![[low.min(value), high.max(value)]]
        }
        Op::Gather {
            input,
            axis: Axis::Channels,
            indices,
        } => indices
            .iter()
            .map(|&index| at(of(input).0, index as usize))
            .collect(),
        Op::Gather { input, .. } => of(input).0.to_vec(),
        Op::Trees { forest, .. } => vec![[-forest.magnitude(), forest.magnitude()]],
        Op::Conv { .. }
        | Op::Dense { .. }
        | Op::MatMul { .. }
        | Op::Parameter
        | Op::Embed { .. }
        | Op::WindowSum { .. }
        | Op::Add { .. }
        | Op::Mul { .. }
        | Op::Requantise { .. } => unreachable!("the caller's"),
    }
}

/// A normalised value is below `sqrt(n) 2^f` before rounding.
fn norm_reach(channels: u32, fraction: u8) -> i64 {
    let square = u64::from(channels) << (2 * fraction);
    i64::try_from(square.isqrt()).expect("a small root") + 1
}

/// The products of two intervals.
fn product(a: Interval, b: Interval) -> Interval {
    let ends = [a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]].map(|end| [end; 2]);
    hull(&ends)
}

/// The smallest interval around several.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn hull(intervals: &[Interval]) -> Interval {
    let least = intervals.iter().map(|interval| interval[0]).min();
    let greatest = intervals.iter().map(|interval| interval[1]).max();
    [
        least.expect("a tensor has channels"),
        greatest.expect("a tensor has channels"),
    ]
}

fn is_padded(window: &Window) -> bool {
    window.pads != [0; 4] || window.spread != [1; 2]
}

/// Input channels that an output channel reads.
fn run_of(op: &Op, input: Shape) -> usize {
    let groups = match op {
        Op::Conv { groups, .. } => (*groups).max(1),
        _ => 1,
    };
    (input.channels / groups) as usize
}

fn window_sum([low, high]: Interval, window: &Window) -> Interval {
    let positions = i64::try_from(window.positions()).expect("a window is small");
    if is_padded(window) {
        [low.min(0) * positions, high.max(0) * positions]
    } else {
        [low * positions, high * positions]
    }
}

/// The least and greatest entries of runs of a table: of those of each length that is a power of two.
struct Extremes {
    levels: Vec<Vec<[i16; 2]>>,
}

impl Extremes {
    fn of(table: &[i16]) -> Self {
        let mut levels = vec![table.iter().map(|&entry| [entry; 2]).collect::<Vec<_>>()];
        let mut length = 1;
        while 2 * length <= table.len() {
            let last = &levels[levels.len() - 1];
            let pairs = last.iter().zip(&last[length..]);
            let next = pairs.map(|(a, b)| [a[0].min(b[0]), a[1].max(b[1])]);
            levels.push(next.collect());
            length *= 2;
        }
        Self { levels }
    }

    /// Those of the entries from one to another.
    fn between(&self, first: usize, last: usize) -> Interval {
        let level = (last - first + 1).ilog2() as usize;
        let level_of = &self.levels[level];
        let ends = [level_of[first], level_of[last + 1 - (1 << level)]];
        hull(&ends.map(|end| end.map(i64::from)))
    }
}

/// A rescale does not decrease, so its ends are the ends; a value table may, so all of its entries between count.
fn requantised(
    how: &Requantise,
    extremes: Option<&Extremes>,
    channel: usize,
    interval: Interval,
) -> Interval {
    let rescale = how.pairs[usize::from(how.pair_of(channel))];
    let clamp = how.clamp.map(i64::from);
    let zero = i64::from(how.zero);
    let ends = interval.map(|x| (rescale.apply(x) + zero).clamp(clamp[0], clamp[1]));
    let Some(extremes) = extremes else {
        return ends;
    };
    let [first, last] = ends.map(|y| usize::try_from(y - clamp[0]).expect("clamped"));
    extremes.between(first, last)
}
