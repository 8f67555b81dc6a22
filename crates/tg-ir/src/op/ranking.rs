//! The greatest elements of a pixel, and where they are.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Intervals, Magnitudes, Operator, Site, TypeRule};
use super::reach::{self, Interval};
use crate::encoding::tags;
use crate::shape::{Axis, ElementType, Shape, TensorId};

/// What a selection of the greatest elements gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranked {
    /// The elements, greatest first.
    Values,
    /// Their channels; of equal elements the lowest channel comes first.
    Channels,
}

tags!(Ranked, "ranking", Ranked::Values => 0, Ranked::Channels => 1);

/// The channel of the greatest element of each pixel, the lowest of equal ones, as i32.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgMax {
    /// Any tensor.
    pub input: TensorId,
}

/// The k greatest elements of each pixel, k being the output's channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopK {
    /// Any tensor.
    pub input: TensorId,
    /// Elements (of the input's type) or channels (i32).
    pub give: Ranked,
}

/// The last channel of a tensor.
fn last_channel(shape: Shape) -> i64 {
    i64::from(shape.channels) - 1
}

impl Operator for ArgMax {
    fn name(&self) -> &'static str {
        "ArgMax"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I32)
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        Some(shapes(self.input).with_axis(Axis::Channels, 1))
    }

    fn looks(&self, shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        comparisons(shapes(self.input).channels)
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        i64::from(before.shape(self.input).channels)
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        [0, last_channel(before.shape(self.input))]
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        vec![[0, last_channel(reads.shape(self.input))]]
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.by_row(self.input, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        ranking(&reads.row(self.input, at))[0].0
    }
}

impl Operator for TopK {
    fn name(&self) -> &'static str {
        "TopK"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        match self.give {
            Ranked::Values => TypeRule::SameAs(self.input),
            Ranked::Channels => TypeRule::Fixed(ElementType::I32),
        }
    }

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        let is_more = site.stated.channels > site.shape(self.input).channels;
        is_more.then_some("number of greatest elements")
    }

    fn shape(&self, stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        Some(shapes(self.input).with_axis(Axis::Channels, stated.channels))
    }

    fn looks(&self, shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        comparisons(shapes(self.input).channels)
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        match self.give {
            Ranked::Values => before.of(self.input),
            Ranked::Channels => i64::from(before.shape(self.input).channels),
        }
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        match self.give {
            Ranked::Values => before.of(self.input),
            Ranked::Channels => [0, last_channel(before.shape(self.input))],
        }
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        vec![match self.give {
            Ranked::Values => reach::hull(reads.of(self.input)),
            Ranked::Channels => [0, last_channel(reads.shape(self.input))],
        }]
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.by_row(self.input, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let (channel, value) = ranking(&reads.row(self.input, at))[at.channel as usize];
        match self.give {
            Ranked::Values => value,
            Ranked::Channels => channel,
        }
    }
}

/// About how often values are compared to sort as many.
fn comparisons(values: u32) -> u64 {
    u64::from(values) * u64::from(u32::BITS - values.leading_zeros())
}

/// (channel, value) from the greatest value to the least, equal ones by channel.
fn ranking(row: &[i64]) -> Vec<(i64, i64)> {
    let mut ranked: Vec<(i64, i64)> = (0..).zip(row.iter().copied()).collect();
    ranked.sort_by_key(|&(channel, value)| (std::cmp::Reverse(value), channel));
    ranked
}

impl Encode for ArgMax {
    fn encode(&self, writer: &mut Writer) {
        let Self { input } = self;
        input.encode(writer);
    }
}

impl Decode for ArgMax {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let input = TensorId::decode(reader)?;
        Ok(Self { input })
    }
}

impl Encode for TopK {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, give } = self;
        input.encode(writer);
        give.encode(writer);
    }
}

impl Decode for TopK {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            give: Ranked::decode(reader)?,
        })
    }
}
