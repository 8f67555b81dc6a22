//! The only requantisation; its rule is [`crate::requantise`].

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Intervals, Magnitudes, Operator, Site, TypeRule, Unary};
use super::reach::{self, Interval};
use crate::requantise::Requantise;
use crate::shape::{Shape, TensorId};

impl Operator for Unary<Requantise> {
    fn name(&self) -> &'static str {
        "Requantise"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(self.how.output)
    }

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        self.how.invalid(site.stated.channels as usize)
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        Some(shapes(self.input))
    }

    fn magnitude(&self, _before: &Magnitudes<'_>) -> i64 {
        let ends = self.how.outputs().map(|value| i64::from(value).abs());
        ends[0].max(ends[1])
    }

    fn interval(&self, _before: &Intervals<'_>) -> Interval {
        self.how.outputs().map(i64::from)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        let how = &self.how;
        let known = reads.of(self.input);
        let extremes = how.table.as_deref().map(Extremes::of);
        (0..known.len().max(how.channel_pairs.len()))
            .map(|channel| {
                let read = reads.at(self.input, channel);
                requantised(how, extremes.as_ref(), channel, read)
            })
            .collect()
    }

    fn intervals_written(&self, _output: Shape) -> usize {
        self.how.channel_pairs.len()
    }

    fn latest(&self, reads: &latest::Reads<'_>, _output: Shape) -> Latest {
        reads.requantised(self.input, &self.how)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let rescale = self.how.pairs[usize::from(self.how.pair_of(at.channel as usize))];
        let value = reads.element(self.input, at.element);
        i64::from(self.how.output(rescale, value))
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
        reach::hull(&ends.map(|end| end.map(i64::from)))
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

impl Encode for Unary<Requantise> {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, how } = self;
        input.encode(writer);
        how.encode(writer);
    }
}

impl Decode for Unary<Requantise> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            how: Requantise::decode(reader)?,
        })
    }
}
