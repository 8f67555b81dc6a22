//! Probabilities of a row of scores.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Intervals, Magnitudes, Operator, Site, TypeRule, Unary};
use super::reach::{self, Interval};
use crate::encoding::flag;
use crate::limits::{FIELD_BOUND, WIDE_ACTIVATION_MAX};
use crate::requantise::TABLE_MAX;
use crate::rescale::Rescale;
use crate::shape::{ElementType, Shape, TensorId};

/// Softmax over channels. For a pixel in column x let U be all channels, or those up to x + offset; M the greatest
/// input in U; `e_c = T[min(rescale(M - in_c), len - 1)]` for c in U, S the sum of them. Then
/// `z_c = floor((e_c * 32767 + floor(S / 2)) / S)` for c in U and 0 elsewhere, as i16.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Softmax {
    /// From the distance to the greatest score to an index of the table.
    pub rescale: Rescale,
    /// Exponentials T: entry 0 (at least 1) is for the greatest score, the last one for all scores far below it.
    /// 1 to [`crate::requantise::TABLE_MAX`] entries, each at most [`PROBABILITY_ONE`].
    pub table: Vec<u16>,
    /// Causal mask: in column x only channels up to `x + offset` take part; none: all do.
    pub causal: Option<u32>,
}

impl Softmax {
    /// The exponential of minus a distance to the greatest score.
    ///
    /// # Panics
    /// If the distance is negative.
    #[must_use]
    pub fn exponential(&self, distance: i64) -> u16 {
        let last = self.table.len() as i64 - 1;
        let index = self.rescale.apply(distance).min(last);
        self.table[usize::try_from(index).expect("not negative")]
    }

    /// One probability of a row of scores.
    fn probability(&self, row: &[i64], at: Place) -> i64 {
        let taking_part = self.causal.map_or(row.len(), |offset| {
            row.len().min(at.column as usize + offset as usize + 1)
        });
        let scores = &row[..taking_part];
        if at.channel as usize >= scores.len() {
            return 0;
        }
        let greatest = scores.iter().max().expect("at least the first takes part");
        let exponential = |score: i64| i64::from(self.exponential(greatest - score));
        let sum: i64 = scores.iter().map(|&score| exponential(score)).sum();
        let e = exponential(scores[at.channel as usize]);
        (e * i64::from(PROBABILITY_ONE) + sum / 2) / sum
    }
}

/// The integer that stands for probability 1.
pub const PROBABILITY_ONE: u16 = 32_767;

impl Operator for Unary<Softmax> {
    fn name(&self) -> &'static str {
        "Softmax"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I16)
    }

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        let table = &self.how.table;
        let entries = (1..=TABLE_MAX).contains(&table.len())
            && table[0] >= 1
            && table.iter().all(|&entry| entry <= PROBABILITY_ONE);
        let sum = i64::from(site.shape(self.input).channels) * i64::from(PROBABILITY_ONE);
        // Halved, not doubled: magnitudes of nodes before this one are bounded after all nodes were looked at.
        let is_far = site.magnitude(self.input) > FIELD_BOUND / 2;
        (!entries)
            .then_some("table of exponentials")
            .or_else(|| (sum > FIELD_BOUND).then_some("number of channels"))
            .or_else(|| is_far.then_some("range of scores"))
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        Some(shapes(self.input))
    }

    fn looks(&self, shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        u64::from(shapes(self.input).channels)
    }

    fn magnitude(&self, _before: &Magnitudes<'_>) -> i64 {
        WIDE_ACTIVATION_MAX
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        [0, before.magnitude]
    }

    fn reach(&self, _reads: &reach::Reads<'_>) -> Vec<Interval> {
        vec![[0, i64::from(PROBABILITY_ONE)]]
    }

    fn latest(&self, reads: &latest::Reads<'_>, _output: Shape) -> Latest {
        reads.masked(self.input, self.how.causal)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        self.how.probability(&reads.row(self.input, at), at)
    }
}

/// The greatest sum of absolute values over the channels of a pixel: a row of probabilities sums to about 1.
pub(super) fn row_sum(tensor: TensorId, before: &Magnitudes<'_>) -> i64 {
    let channels = i64::from(before.shape(tensor).channels);
    let apart = channels.saturating_mul(before.of(tensor));
    if before.tensors.is_probabilities(tensor) {
        // Each of n quotients is rounded up by at most one half.
        apart.min(i64::from(PROBABILITY_ONE) + channels / 2 + 1)
    } else {
        apart
    }
}

impl Encode for Unary<Softmax> {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, how } = self;
        let Softmax {
            rescale,
            table,
            causal,
        } = how;
        input.encode(writer);
        rescale.encode(writer);
        writer.count(table.len());
        table.iter().for_each(|&entry| writer.u16(entry));
        writer.u8(u8::from(causal.is_some()));
        causal.iter().for_each(|&offset| writer.u32(offset));
    }
}

impl Decode for Unary<Softmax> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let input = TensorId::decode(reader)?;
        let rescale = Rescale::decode(reader)?;
        let count = reader.count("exponentials", TABLE_MAX, 2)?;
        let table = (0..count).map(|_| reader.u16()).collect::<Result<_, _>>()?;
        let causal = match flag(reader, "causal flag")? {
            true => Some(reader.u32()?),
            false => None,
        };
        let how = Softmax {
            rescale,
            table,
            causal,
        };
        Ok(Self { input, how })
    }
}
