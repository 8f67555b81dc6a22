//! How far values go for given weights, operator by operator; [`crate::range`] asks for a program.

use super::element::NodeWeights;
use crate::shape::{Shape, TensorId};

/// Least and greatest value of one channel.
pub type Interval = [i64; 2];

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
    pub(crate) done: Vec<Interval>,
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
    /// Rows of weights of these axes, and the intervals they are multiplied with.
    pub(crate) fn of(axes: [usize; 3], linear: Option<(LinearReads, &[Interval])>) -> Self {
        let [outputs, positions, run] = axes;
        let Some((reads, known)) = linear else {
            let kind = RowsKind::Values;
            return Self::empty(kind, outputs * positions * run, 1, 0);
        };
        let LinearReads {
            input: _,
            groups,
            padding,
        } = reads;
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

    pub(crate) fn feed_signed(&mut self, weights: &[i8]) {
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

    pub(crate) fn into_intervals(self) -> Vec<Interval> {
        self.done
    }
}

/// What rows of weights are multiplied with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinearReads {
    /// The tensor.
    pub(crate) input: TensorId,
    /// Runs of its channels, of which each row reads one.
    pub(crate) groups: usize,
    /// What is read in padding, if there is any.
    pub(crate) padding: Option<i64>,
}

/// The intervals and shapes of the tensors before a node.
pub(crate) type Before<'a> = &'a dyn Fn(TensorId) -> (&'a [Interval], Shape);

/// What a node reads: the intervals of the tensors before it, one for each channel or one for all, and its weights.
pub(crate) struct Reads<'a> {
    pub(crate) output: Shape,
    pub(crate) layer: Option<NodeWeights<'a>>,
    pub(crate) before: Before<'a>,
}

impl<'a> Reads<'a> {
    /// The intervals of a tensor: one for each channel, or one for all.
    pub(crate) fn of(&self, tensor: TensorId) -> &'a [Interval] {
        (self.before)(tensor).0
    }

    pub(crate) fn shape(&self, tensor: TensorId) -> Shape {
        (self.before)(tensor).1
    }

    /// The shape of the node's output.
    pub(crate) const fn output(&self) -> Shape {
        self.output
    }

    /// The interval of a channel.
    pub(crate) fn at(&self, tensor: TensorId, channel: usize) -> Interval {
        match self.of(tensor) {
            [all] => *all,
            each => each[channel],
        }
    }

    /// The most intervals that one of several tensors has.
    pub(crate) fn width(&self, tensors: &[TensorId]) -> usize {
        let widths = tensors.iter().map(|&tensor| self.of(tensor).len());
        widths.max().unwrap_or(1)
    }

    /// Per channel the smallest interval around those of several tensors.
    pub(crate) fn hulls(&self, tensors: &[TensorId]) -> Vec<Interval> {
        let of_channel = |channel| {
            let all = tensors.iter().map(|&tensor| self.at(tensor, channel));
            hull(&all.collect::<Vec<_>>())
        };
        (0..self.width(tensors)).map(of_channel).collect()
    }

    fn layer(&self) -> NodeWeights<'a> {
        self.layer.expect("a node with weights has some")
    }

    /// The interval around all weights of the node.
    pub(crate) fn weights(&self) -> Vec<Interval> {
        let weights = self.layer().weights.iter();
        let each: Vec<Interval> = weights.map(|&weight| [i64::from(weight); 2]).collect();
        vec![hull(&each)]
    }

    /// Per output channel its bias and products, for weights of these axes.
    pub(crate) fn weighted(&self, axes: [usize; 3], linear: LinearReads) -> Vec<Interval> {
        let layer = self.layer();
        let mut rows = Rows::of(axes, Some((linear, self.of(linear.input))));
        rows.feed_signed(layer.weights);
        rows.add_biases(layer.bias.iter().copied());
        rows.into_intervals()
    }
}

/// The products of two intervals.
pub(crate) fn product(a: Interval, b: Interval) -> Interval {
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
