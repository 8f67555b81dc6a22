//! Tensors: which, of what type and shape; pixels by channels, channels innermost.

use crate::encoding::tags;
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

/// An axis of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Rows (height).
    Rows,
    /// Columns (width).
    Columns,
    /// Channels.
    Channels,
}

tags!(Axis, "axis", Axis::Rows => 0, Axis::Columns => 1, Axis::Channels => 2);

/// A tensor of a program: 0 is the input, `i + 1` the output of node `i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorId(pub u32);

impl TensorId {
    /// The program's input.
    pub const INPUT: Self = Self(0);

    /// The output of a node.
    ///
    /// # Panics
    /// If the index does not fit 32 bits; a program has at most [`crate::program::NODES_MAX`] nodes.
    #[must_use]
    pub fn of_node(node: usize) -> Self {
        Self(u32::try_from(node).expect("a program has few nodes") + 1)
    }

    /// As an index into a list that starts with the input.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Encode for TensorId {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.0);
    }
}

impl Decode for TensorId {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.u32()?))
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

    /// Elements from one index of an axis to the next.
    #[must_use]
    pub const fn stride(&self, axis: Axis) -> usize {
        match axis {
            Axis::Rows => self.width as usize * self.channels as usize,
            Axis::Columns => self.channels as usize,
            Axis::Channels => 1,
        }
    }

    /// Length of an axis.
    #[must_use]
    pub const fn axis(&self, axis: Axis) -> u32 {
        match axis {
            Axis::Rows => self.height,
            Axis::Columns => self.width,
            Axis::Channels => self.channels,
        }
    }

    /// The same shape with another length of one axis.
    #[must_use]
    pub const fn with_axis(mut self, axis: Axis, length: u32) -> Self {
        match axis {
            Axis::Rows => self.height = length,
            Axis::Columns => self.width = length,
            Axis::Channels => self.channels = length,
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

/// The tensors of a program.
pub(crate) trait Tensors {
    /// The shape of one.
    fn shape(&self, tensor: TensorId) -> Shape;

    /// Whether each row of it is probabilities.
    fn is_probabilities(&self, tensor: TensorId) -> bool;
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
