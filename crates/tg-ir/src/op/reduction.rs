//! Sums along an axis: of all elements, and of those so far.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Intervals, Magnitudes, Operator, TypeRule};
use super::reach::{self, Interval};
use crate::encoding::tags;
use crate::shape::{Axis, ElementType, Shape, TensorId};

/// How a reduction combines elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// The greatest.
    Greatest,
    /// The least.
    Least,
}

tags!(Reduction, "reduction", Reduction::Sum => 0, Reduction::Greatest => 1, Reduction::Least => 2);

/// Reduction along one axis, which then has length 1. A sum is i32, the others keep the type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduce {
    /// Any tensor; activations for a sum.
    pub input: TensorId,
    /// How elements are combined.
    pub reduction: Reduction,
    /// The axis that gets length 1.
    pub axis: Axis,
}

impl Operator for Reduce {
    fn name(&self) -> &'static str {
        "Reduce"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        match self.reduction {
            Reduction::Sum => TypeRule::Fixed(ElementType::I32),
            Reduction::Greatest | Reduction::Least => TypeRule::SameAs(self.input),
        }
    }

    fn takes_accumulators(&self) -> bool {
        self.reduction != Reduction::Sum
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        Some(shapes(self.input).with_axis(self.axis, 1))
    }

    fn looks(&self, shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        u64::from(shapes(self.input).axis(self.axis))
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        let known = before.of(self.input);
        match self.reduction {
            Reduction::Sum => {
                i64::from(before.shape(self.input).axis(self.axis)).saturating_mul(known)
            }
            Reduction::Greatest | Reduction::Least => known,
        }
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        match self.reduction {
            Reduction::Sum => [-before.magnitude, before.magnitude],
            Reduction::Greatest | Reduction::Least => before.of(self.input),
        }
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        let known = reads.of(self.input);
        let kept = match self.axis {
            Axis::Channels => vec![reach::hull(known)],
            Axis::Rows | Axis::Columns => known.to_vec(),
        };
        let length = i64::from(reads.shape(self.input).axis(self.axis));
        match self.reduction {
            Reduction::Sum => kept
                .iter()
                .map(|&[low, high]| [low * length, high * length])
                .collect(),
            Reduction::Greatest | Reduction::Least => kept,
        }
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.reduced(self.input, self.axis, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let length = reads.shape(self.input).axis(self.axis);
        let values = (0..length).map(|index| reads.at(self.input, at.with(self.axis, index)));
        match self.reduction {
            Reduction::Sum => values.sum(),
            Reduction::Greatest => values.max().expect("an axis is not empty"),
            Reduction::Least => values.min().expect("an axis is not empty"),
        }
    }
}

impl Encode for Reduce {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            input,
            reduction,
            axis,
        } = self;
        input.encode(writer);
        reduction.encode(writer);
        axis.encode(writer);
    }
}

impl Decode for Reduce {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            reduction: Reduction::decode(reader)?,
            axis: Axis::decode(reader)?,
        })
    }
}

/// The sum of the elements so far along one axis, its own included, as i32: `y[k] = x[0] + ... + x[k]` for every k. The
/// shape stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningSum {
    /// Activations.
    pub input: TensorId,
    /// The axis along which elements are added.
    pub axis: Axis,
}

impl Operator for RunningSum {
    fn name(&self) -> &'static str {
        "RunningSum"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I32)
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        Some(shapes(self.input))
    }

    fn looks(&self, shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        u64::from(shapes(self.input).axis(self.axis))
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        let length = i64::from(before.shape(self.input).axis(self.axis));
        length.saturating_mul(before.of(self.input))
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        [-before.magnitude, before.magnitude]
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        let known = reads.of(self.input);
        let length = i64::from(reads.shape(self.input).axis(self.axis));
        // One element at least, and at most all.
        let sums = |[low, high]: Interval| [low.min(low * length), high.max(high * length)];
        match self.axis {
            Axis::Channels => vec![sums(reach::hull(known)); known.len()],
            Axis::Rows | Axis::Columns => known.iter().copied().map(sums).collect(),
        }
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.running(self.input, self.axis, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let so_far = 0..=at.along(self.axis);
        so_far
            .map(|index| reads.at(self.input, at.with(self.axis, index)))
            .sum()
    }
}

impl Encode for RunningSum {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, axis } = self;
        input.encode(writer);
        axis.encode(writer);
    }
}

impl Decode for RunningSum {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            axis: Axis::decode(reader)?,
        })
    }
}
