//! Tensors and weights on hypercubes, and the chunks their committed columns are cut into.

use crate::algebra::field::{E, eq, eq_at, eq_prefix, eq_table, point};
use p3_field::PrimeCharacteristicRing;
use p3_multilinear_util::point::Point;
use tg_ir::{LinearWeights, Shape, weights::BIAS_DIGITS};

/// Least number of variables of a committed column; a shorter chunk is padded by zeros in front of its index bits.
///
/// The first fold of a commitment may take as many, see [`crate::argument::commitment::schedule`].
pub const COLUMN_VARS_MIN: usize = 7;
/// Most variables of a tensor. Numbers of rows up to there fit the words of 32 bits of every machine that verifies.
pub const TENSOR_VARS_MAX: usize = 31;
/// Most chunks of one tensor.
pub const CHUNKS_MAX: usize = 3;

/// log2 of the next power of two.
#[must_use]
pub const fn log2_ceil(value: usize) -> usize {
    value.next_power_of_two().trailing_zeros() as usize
}

/// The tensors of a batch as one function on the hypercube: index = (pixel * 2^batch_vars + input) * 2^channel_vars +
/// channel. The inputs of a batch lie between pixels and channels, so that rows in use stay contiguous whatever the
/// number of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorLayout {
    /// Pixels.
    pub pixels: usize,
    /// Inputs of the batch.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// Variables of the pixel.
    pub pixel_vars: usize,
    /// Variables of the input.
    pub batch_vars: usize,
    /// Variables of the channel.
    pub channel_vars: usize,
}

impl TensorLayout {
    /// The layout of a shape, for one input.
    #[must_use]
    pub const fn of(shape: Shape) -> Self {
        Self::batched(shape, 1)
    }

    /// The layout of a shape, for a batch of inputs.
    #[must_use]
    pub const fn batched(shape: Shape, batch: usize) -> Self {
        let (pixels, channels) = (shape.pixels(), shape.channels as usize);
        Self {
            pixels,
            batch,
            channels,
            pixel_vars: log2_ceil(pixels),
            batch_vars: log2_ceil(batch),
            channel_vars: log2_ceil(channels),
        }
    }

    /// Variables in all.
    #[must_use]
    pub const fn vars(&self) -> usize {
        self.pixel_vars + self.inner_vars()
    }

    /// Variables of input and channel.
    #[must_use]
    pub const fn inner_vars(&self) -> usize {
        self.batch_vars + self.channel_vars
    }

    /// Elements, padding included.
    #[must_use]
    pub const fn padded(&self) -> usize {
        1 << self.vars()
    }

    /// Index of (pixel, input, channel).
    #[must_use]
    pub const fn index(&self, pixel: usize, input: usize, channel: usize) -> usize {
        (pixel << self.batch_vars | input) << self.channel_vars | channel
    }

    /// Index of an element in storage order: pixels, then inputs, then channels.
    #[must_use]
    pub const fn index_of_element(&self, element: usize) -> usize {
        let row = element / self.channels;
        self.index(row / self.batch, row % self.batch, element % self.channels)
    }

    /// The element in storage order at an index, or nothing for padding.
    #[must_use]
    pub const fn element_at(&self, index: usize) -> Option<usize> {
        let (pixel, input, channel) = (
            index >> self.inner_vars(),
            index >> self.channel_vars & ((1 << self.batch_vars) - 1),
            index & ((1 << self.channel_vars) - 1),
        );
        if pixel < self.pixels && input < self.batch && channel < self.channels {
            Some((pixel * self.batch + input) * self.channels + channel)
        } else {
            None
        }
    }

    /// A point's coordinates of the pixel, of the input and of the channel.
    #[must_use]
    pub fn split<'a, T>(&self, point: &'a [T]) -> (&'a [T], &'a [T], &'a [T]) {
        let (pixel, inner) = point.split_at(self.pixel_vars);
        let (batch, channel) = inner.split_at(self.batch_vars);
        (pixel, batch, channel)
    }

    /// `sum over elements in use of eq(at, element)`.
    #[must_use]
    pub fn used_at(&self, at: &[E]) -> E {
        let (pixels, batch, channels) = self.split(at);
        eq_prefix(pixels, self.pixels)
            * eq_prefix(batch, self.batch)
            * eq_prefix(channels, self.channels)
    }

    /// Rows in use: those of its pixels. They are counted in 64 bits on every machine: in 32 a shift loses 2^32 without a
    /// word, and a layer of no rows has no columns that anything checks.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        (self.pixels as u64) << self.inner_vars()
    }

    /// The chunks that cover the rows in use.
    #[must_use]
    pub fn chunks(&self) -> Vec<Chunk> {
        chunks(self.rows())
    }
}

/// Rows [start, start + 2^vars) of a column; start is a multiple of 2^vars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// First row.
    pub start: usize,
    /// log2 of the number of rows.
    pub vars: usize,
}

impl Chunk {
    /// Rows of the chunk.
    #[must_use]
    pub const fn rows(&self) -> usize {
        1 << self.vars
    }

    /// Variables of the committed column.
    #[must_use]
    pub const fn column_vars(&self) -> usize {
        if self.vars < COLUMN_VARS_MIN {
            COLUMN_VARS_MIN
        } else {
            self.vars
        }
    }
}

/// Covers `rows` rows: the binary digits of `rows` from the largest, the last of at most [`CHUNKS_MAX`] rounded up.
#[must_use]
pub fn chunks(rows: u64) -> Vec<Chunk> {
    let mut chunks = Vec::with_capacity(CHUNKS_MAX);
    let mut start = 0u64;
    while start < rows {
        let rest = rows - start;
        let tiny = rest <= 1 << COLUMN_VARS_MIN;
        let vars = if chunks.len() + 1 == CHUNKS_MAX || tiny {
            rest.next_power_of_two().trailing_zeros() as usize
        } else {
            rest.ilog2() as usize
        };
        chunks.push(Chunk {
            // What has more rows than a word counts is refused before its chunks are looked at.
            start: usize::try_from(start).unwrap_or(usize::MAX),
            vars,
        });
        start += 1 << vars;
    }
    chunks
}

/// Padded cells from which a weight tensor is committed in pieces.
pub const PIECES_CELLS_MIN: usize = 1 << 13;

/// A box of a weight tensor, committed as one column: entries [start, start + count) of each axis, padded to 2^vars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightPiece {
    /// First output channel, position and input channel, each a multiple of 2^vars of its axis.
    pub start: [usize; 3],
    /// Entries in use per axis.
    pub count: [usize; 3],
    /// Variables per axis.
    pub vars: [usize; 3],
}

impl WeightPiece {
    /// Variables of its column, at least [`COLUMN_VARS_MIN`].
    #[must_use]
    pub const fn column_vars(&self) -> usize {
        let vars = self.vars[0] + self.vars[1] + self.vars[2];
        if vars < COLUMN_VARS_MIN {
            COLUMN_VARS_MIN
        } else {
            vars
        }
    }
}

/// The committed weights of one node: `[output][position][input]`, in pieces whose axes are padded to powers of two,
/// and the digits of its biases. Parameters are `[pixel][1][channel]`, embeddings `[row][1][channel]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightLayout {
    /// Output channels.
    pub outputs: usize,
    /// Kernel positions, or input pixels of a dense node.
    pub positions: usize,
    /// Input channels of a group.
    pub inputs: usize,
    /// Whether there is a bias per output channel.
    pub biased: bool,
    /// The weighted node whose tensor this one reads (it commits none of its own then), by index into
    /// [`crate::plan::Plan::weights`].
    pub tied: Option<usize>,
}

impl WeightLayout {
    /// Variables of the output channel, the position and the input channel.
    #[must_use]
    pub const fn axis_vars(&self) -> [usize; 3] {
        [
            log2_ceil(self.outputs),
            log2_ceil(self.positions),
            log2_ceil(self.inputs),
        ]
    }

    /// The pieces the weights are committed in, outputs outermost. A small tensor is one piece; an axis of a large one
    /// is cut if that saves a fifth of it.
    #[must_use]
    pub fn pieces(&self) -> Vec<WeightPiece> {
        let counts = [self.outputs, self.positions, self.inputs];
        let cells = self.axis_vars().iter().sum::<usize>();
        let cut = cells >= PIECES_CELLS_MIN.trailing_zeros() as usize;
        let [outputs, positions, inputs] = counts.map(|count| axis_chunks(count, cut));
        let mut pieces = Vec::with_capacity(outputs.len() * positions.len() * inputs.len());
        for o in &outputs {
            for k in &positions {
                for i in &inputs {
                    let chunks = [o, k, i];
                    pieces.push(WeightPiece {
                        start: chunks.map(|chunk| chunk.start),
                        count: std::array::from_fn(|axis| {
                            let chunk = chunks[axis];
                            chunk.rows().min(counts[axis] - chunk.start)
                        }),
                        vars: chunks.map(|chunk| chunk.vars),
                    });
                }
            }
        }
        pieces
    }

    /// The pieces that are committed for this node: none if it reads another one's.
    #[must_use]
    pub fn own_pieces(&self) -> Vec<WeightPiece> {
        if self.tied.is_some() {
            return Vec::new();
        }
        self.pieces()
    }

    /// The part of a point of the weights that belongs to a piece, and the weight of the piece at it.
    #[must_use]
    pub fn piece_point(&self, piece: &WeightPiece, point: &[E]) -> (Vec<E>, E) {
        let (mut rest, mut scale, mut start) = (Vec::new(), E::ONE, 0);
        for (axis, vars) in self.axis_vars().into_iter().enumerate() {
            let coordinates = &point[start..start + vars];
            let (high, low) = coordinates.split_at(vars - piece.vars[axis]);
            scale *= eq_at(high, piece.start[axis] >> piece.vars[axis]);
            rest.extend_from_slice(low);
            start += vars;
        }
        (rest, scale)
    }

    /// What each piece counts in the weights at a point.
    #[must_use]
    pub fn piece_factors(&self, point: &[E]) -> Vec<E> {
        let pieces = self.pieces();
        let factors = pieces.iter().map(|piece| self.piece_point(piece, point).1);
        factors.collect()
    }

    /// Variables of each column of bias digits, at least [`COLUMN_VARS_MIN`].
    #[must_use]
    pub const fn bias_vars(&self) -> usize {
        let vars = log2_ceil(self.outputs);
        if vars < COLUMN_VARS_MIN {
            COLUMN_VARS_MIN
        } else {
            vars
        }
    }

    /// The column of a piece, padded by zeros.
    #[must_use]
    pub fn weight_column(&self, piece: &WeightPiece, layer: &LinearWeights) -> Vec<i8> {
        let WeightPiece { start, count, vars } = *piece;
        let mut column = vec![0i8; 1 << piece.column_vars()];
        for output in 0..count[0] {
            for position in 0..count[1] {
                let row = (start[0] + output) * self.positions + start[1] + position;
                let values = &layer.weights[row * self.inputs + start[2]..][..count[2]];
                let at = (output << vars[1] | position) << vars[2];
                column[at..at + count[2]].copy_from_slice(values);
            }
        }
        column
    }

    /// The three columns of bias digits, padded by zeros.
    #[must_use]
    pub fn bias_columns(&self, layer: &LinearWeights) -> [Vec<i8>; BIAS_DIGITS] {
        let mut columns = std::array::from_fn(|_| vec![0i8; 1 << self.bias_vars()]);
        for (output, &bias) in layer.bias.iter().enumerate() {
            for (column, digit) in columns.iter_mut().zip(tg_ir::weights::bias_digits(bias)) {
                column[output] = digit;
            }
        }
        columns
    }
}

/// Cuts an axis in at most [`CHUNKS_MAX`] powers of two if that saves a fifth of its padded length.
fn axis_chunks(count: usize, cut: bool) -> Vec<Chunk> {
    let padded = count.next_power_of_two();
    let mut chunks = Vec::new();
    let mut start = 0;
    while cut && start < count {
        let rest = count - start;
        let vars = if chunks.len() + 1 == CHUNKS_MAX {
            log2_ceil(rest)
        } else {
            rest.ilog2() as usize
        };
        chunks.push(Chunk { start, vars });
        start += 1 << vars;
    }
    if cut && (padded - start) * 5 >= padded {
        chunks
    } else {
        vec![Chunk {
            start: 0,
            vars: log2_ceil(count),
        }]
    }
}

/// One axis of a weight table: `count` entries in use of 2^vars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Entries in use.
    pub count: usize,
    /// Variables.
    pub vars: usize,
}

/// One committed weight table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightTable {
    /// Its axes, most significant first.
    pub axes: Vec<Axis>,
    /// Columns.
    pub columns: usize,
}

impl WeightTable {
    /// Variables of each column.
    #[must_use]
    pub fn vars(&self) -> usize {
        self.axes.iter().map(|axis| axis.vars).sum()
    }

    /// The last coordinates of a longer point, as many as the table has variables.
    #[must_use]
    pub fn last_coordinates(&self, at: &[E]) -> Point<E> {
        point(&at[at.len() - self.vars()..])
    }

    /// `pad(x) * eq(at, x)` for every cell.
    #[must_use]
    pub fn padding_weights(&self, at: &[E]) -> Vec<E> {
        let mut weights = eq_table(at);
        for (index, weight) in weights.iter_mut().enumerate() {
            let mut rest = index;
            let used = self.axes.iter().rev().all(|axis| {
                let coordinate = rest & ((1 << axis.vars) - 1);
                rest >>= axis.vars;
                coordinate < axis.count
            });
            if used {
                *weight = E::ZERO;
            }
        }
        weights
    }

    /// The extension of [`Self::padding_weights`] at a point: `eq(at, x)` less the part on cells in use, which is a
    /// product over the axes.
    #[must_use]
    pub fn padding_at(&self, at: &[E], x: &[E]) -> E {
        let mut start = 0;
        let used: E = self
            .axes
            .iter()
            .map(|axis| {
                let range = start..start + axis.vars;
                start = range.end;
                let (left, right) = (eq_table(&at[range.clone()]), eq_table(&x[range]));
                left.iter()
                    .zip(&right)
                    .take(axis.count)
                    .map(|(&a, &b)| a * b)
                    .sum::<E>()
            })
            .product();
        eq(at, x) - used
    }
}

/// The weight tables of a plan's weights in commitment order: per node the pieces of its own weights, then the bias digits.
#[must_use]
pub fn weight_tables(weights: &[WeightLayout]) -> Vec<WeightTable> {
    weights
        .iter()
        .flat_map(|layout| {
            let pieces = layout.own_pieces().into_iter();
            pieces
                .map(|piece| piece_axes(&piece))
                .chain(layout.biased.then(|| bias_axes(layout)))
        })
        .collect()
}

fn piece_axes(piece: &WeightPiece) -> WeightTable {
    let lead = Axis {
        count: 1,
        vars: piece.column_vars() - piece.vars.iter().sum::<usize>(),
    };
    let axes = piece.count.into_iter().zip(piece.vars);
    let axes = axes.map(|(count, vars)| Axis { count, vars });
    WeightTable {
        axes: std::iter::once(lead).chain(axes).collect(),
        columns: 1,
    }
}

fn bias_axes(layout: &WeightLayout) -> WeightTable {
    let outputs = log2_ceil(layout.outputs);
    let lead = COLUMN_VARS_MIN.saturating_sub(outputs);
    let axes = vec![
        Axis {
            count: 1,
            vars: lead,
        },
        Axis {
            count: layout.outputs,
            vars: outputs,
        },
    ];
    WeightTable {
        axes,
        columns: BIAS_DIGITS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every weight lies in exactly one piece, every other cell is zero, and pieces are aligned.
    #[test]
    fn pieces_hold_each_weight_once() {
        for (outputs, positions, inputs) in [
            (5, 9, 3),
            (64, 9, 64),
            (251, 25, 33),
            (33, 25, 12),
            (1000, 1, 513),
            (64, 49, 3),
            (257, 3, 65),
        ] {
            let layout = WeightLayout {
                outputs,
                positions,
                inputs,
                biased: true,
                tied: None,
            };
            let layer = LinearWeights {
                weights: vec![1; outputs * positions * inputs],
                bias: vec![0; outputs],
            };
            let (mut held, mut cells) = (0usize, 0);
            for piece in layout.pieces() {
                for axis in 0..3 {
                    assert_eq!(piece.start[axis] % (1 << piece.vars[axis]), 0);
                }
                let column = layout.weight_column(&piece, &layer);
                held += column.iter().filter(|&&value| value == 1).count();
                cells += column.len();
            }
            assert_eq!(held, layer.weights.len());
            let padded = 1 << layout.axis_vars().iter().sum::<usize>();
            assert!(cells <= padded.max(1 << COLUMN_VARS_MIN));
            if (outputs, positions) == (64, 9) {
                assert_eq!(cells, held, "nine positions of 64 x 64 need no padding");
            }
        }
    }

    #[test]
    fn elements_and_indices_are_inverse() {
        for batch in [1, 3, 4] {
            let layout = TensorLayout::batched(Shape::new(3, 5, 6), batch);
            let mut seen = 0;
            for index in 0..layout.padded() {
                if let Some(element) = layout.element_at(index) {
                    assert_eq!(layout.index_of_element(element), index);
                    seen += 1;
                }
            }
            assert_eq!(seen, 90 * batch);
        }
    }

    /// 2^32 rows are no rows in a word of 32 bits.
    #[test]
    fn rows_are_counted_in_64_bits() {
        for (batch, rows) in [(1, 1u64 << 22), (1_024, 1 << 32), (1_000, 1 << 32)] {
            let layout = TensorLayout::batched(Shape::new(2_048, 1, 2_048), batch);
            assert_eq!(layout.rows(), rows);
            assert_eq!(layout.chunks()[0].vars, rows.ilog2() as usize);
        }
    }

    #[test]
    fn chunks_are_aligned_and_cover_the_rows() {
        for rows in 1..5_000usize {
            let chunks = chunks(rows as u64);
            assert!(chunks.len() <= CHUNKS_MAX);
            let mut next = 0;
            for chunk in &chunks {
                assert_eq!(chunk.start, next);
                assert_eq!(chunk.start % chunk.rows(), 0);
                next += chunk.rows();
            }
            assert!(next >= rows && next <= rows.next_power_of_two());
        }
    }
}
