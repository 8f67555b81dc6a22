//! Tensor shapes: pixels by channels, channels innermost.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Most rows, columns or channels of a tensor.
pub const AXIS_MAX: u32 = 1 << 16;
/// Most elements of a tensor: 2^26 keeps every index in 32 bits and a column within one commitment.
pub const ELEMENTS_MAX: u64 = 1 << 26;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    /// An activation in [-128, 127].
    I8,
    /// An accumulator, within the field bound.
    I32,
}

/// Height by width by channels, stored contiguously in that order (NHWC without the batch axis). A vector is
/// 1 x 1 x n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// Channels.
    pub channels: u32,
}

impl Shape {
    /// An image or feature map.
    #[must_use]
    pub const fn new(height: u32, width: u32, channels: u32) -> Self {
        Self {
            height,
            width,
            channels,
        }
    }

    /// A vector of `channels` elements.
    #[must_use]
    pub const fn vector(channels: u32) -> Self {
        Self::new(1, 1, channels)
    }

    /// Height times width.
    #[must_use]
    pub const fn pixels(&self) -> usize {
        self.height as usize * self.width as usize
    }

    /// Elements in all.
    #[must_use]
    pub const fn elements(&self) -> usize {
        self.pixels() * self.channels as usize
    }

    /// Whether every axis is at least one and within the limits.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let Self {
            height,
            width,
            channels,
        } = *self;
        let axes = [height, width, channels];
        axes.iter().all(|&axis| (1..=AXIS_MAX).contains(&axis))
            && axes
                .iter()
                .try_fold(1u64, |product, &axis| product.checked_mul(u64::from(axis)))
                .is_some_and(|n| n <= ELEMENTS_MAX)
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.height == 1 && self.width == 1 {
            write!(f, "{}", self.channels)
        } else {
            write!(f, "{}x{}x{}", self.height, self.width, self.channels)
        }
    }
}

impl Encode for Shape {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            height,
            width,
            channels,
        } = *self;
        writer.u32(height);
        writer.u32(width);
        writer.u32(channels);
    }
}

impl Decode for Shape {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let shape = Self::new(reader.u32()?, reader.u32()?, reader.u32()?);
        if !shape.is_valid() {
            return Err(DecodeError::Invalid {
                field: "shape",
                value: u64::from(shape.height),
            });
        }
        Ok(shape)
    }
}
