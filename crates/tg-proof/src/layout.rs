//! Tensors and weights on hypercubes, and the chunks their committed columns are cut into.

use tg_ir::{LinearWeights, Shape, weights::BIAS_DIGITS};

/// Least number of variables of a committed column; a shorter chunk is padded by zeros in front of its index bits.
pub const COLUMN_VARS_MIN: usize = 5;
/// Most chunks of one tensor.
pub const CHUNKS_MAX: usize = 3;

/// log2 of the next power of two.
#[must_use]
pub const fn log2_ceil(value: usize) -> usize {
    value.next_power_of_two().trailing_zeros() as usize
}

/// A tensor as a function on the hypercube: index = pixel * 2^channel_vars + channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorLayout {
    /// Pixels.
    pub pixels: usize,
    /// Channels.
    pub channels: usize,
    /// Variables of the pixel.
    pub pixel_vars: usize,
    /// Variables of the channel.
    pub channel_vars: usize,
}

impl TensorLayout {
    /// The layout of a shape.
    #[must_use]
    pub const fn of(shape: Shape) -> Self {
        let (pixels, channels) = (shape.pixels(), shape.channels as usize);
        Self {
            pixels,
            channels,
            pixel_vars: log2_ceil(pixels),
            channel_vars: log2_ceil(channels),
        }
    }

    /// Variables in all.
    #[must_use]
    pub const fn vars(&self) -> usize {
        self.pixel_vars + self.channel_vars
    }

    /// Elements, padding included.
    #[must_use]
    pub const fn padded(&self) -> usize {
        1 << self.vars()
    }

    /// Index of (pixel, channel).
    #[must_use]
    pub const fn index(&self, pixel: usize, channel: usize) -> usize {
        pixel << self.channel_vars | channel
    }

    /// Index of an element in storage order.
    #[must_use]
    pub const fn index_of_element(&self, element: usize) -> usize {
        self.index(element / self.channels, element % self.channels)
    }

    /// The chunks that cover the rows in use.
    #[must_use]
    pub fn chunks(&self) -> Vec<Chunk> {
        chunks(self.pixels << self.channel_vars)
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
pub fn chunks(rows: usize) -> Vec<Chunk> {
    let mut chunks = Vec::with_capacity(CHUNKS_MAX);
    let mut start = 0;
    while start < rows {
        let rest = rows - start;
        let tiny = rest <= 1 << COLUMN_VARS_MIN;
        let vars = if chunks.len() + 1 == CHUNKS_MAX || tiny {
            log2_ceil(rest)
        } else {
            rest.ilog2() as usize
        };
        chunks.push(Chunk { start, vars });
        start += 1 << vars;
    }
    chunks
}

/// The committed weights of one node: `[output][position][input]`, each axis padded to a power of two, and the
/// digits of its biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightLayout {
    /// Output channels.
    pub outputs: usize,
    /// Kernel positions, or input pixels of a dense node.
    pub positions: usize,
    /// Input channels.
    pub inputs: usize,
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

    /// Variables of the weight column, at least [`COLUMN_VARS_MIN`].
    #[must_use]
    pub const fn weight_vars(&self) -> usize {
        let [o, k, i] = self.axis_vars();
        let vars = o + k + i;
        if vars < COLUMN_VARS_MIN {
            COLUMN_VARS_MIN
        } else {
            vars
        }
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

    /// The weight column, padded by zeros.
    #[must_use]
    pub fn weight_column(&self, layer: &LinearWeights) -> Vec<i8> {
        let [_, position_vars, input_vars] = self.axis_vars();
        let mut column = vec![0i8; 1 << self.weight_vars()];
        for (row, values) in layer.weights.chunks_exact(self.inputs).enumerate() {
            let (output, position) = (row / self.positions, row % self.positions);
            let start = (output << position_vars | position) << input_vars;
            column[start..start + self.inputs].copy_from_slice(values);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_aligned_and_cover_the_rows() {
        for rows in 1..5_000 {
            let chunks = chunks(rows);
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
