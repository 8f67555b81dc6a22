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
    /// An activation in [-32767, 32767].
    I16,
    /// An accumulator, within the field bound.
    I32,
}

impl ElementType {
    /// Bytes of one element, little-endian two's complement.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 => 4,
        }
    }
}

impl Encode for ElementType {
    fn encode(&self, writer: &mut Writer) {
        writer.u8(match self {
            Self::I8 => 0,
            Self::I16 => 1,
            Self::I32 => 2,
        });
    }
}

impl Decode for ElementType {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::I8),
            1 => Ok(Self::I16),
            2 => Ok(Self::I32),
            other => Err(DecodeError::Invalid {
                field: "element type",
                value: u64::from(other),
            }),
        }
    }
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

    /// Length of an axis.
    #[must_use]
    pub const fn axis(&self, axis: crate::op::Axis) -> u32 {
        match axis {
            crate::op::Axis::Rows => self.height,
            crate::op::Axis::Columns => self.width,
            crate::op::Axis::Channels => self.channels,
        }
    }

    /// The same shape with another length of one axis.
    #[must_use]
    pub const fn with_axis(mut self, axis: crate::op::Axis, length: u32) -> Self {
        match axis {
            crate::op::Axis::Rows => self.height = length,
            crate::op::Axis::Columns => self.width = length,
            crate::op::Axis::Channels => self.channels = length,
        }
        self
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
