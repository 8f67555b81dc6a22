//! Requantisation: integers to activations by rescale, zero point, clamp and an optional table.

use crate::rescale::Rescale;
use crate::shape::ElementType;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Most (multiplier, shift) pairs of one requantisation: the calibrator clusters channels into a few.
pub const PAIRS_MAX: usize = 16;
/// Most entries of a value table.
pub const TABLE_MAX: usize = 1 << 12;

/// Integers to activations: `z = T[clamp(rescale(x) + zero)]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requantise {
    /// The distinct rescales.
    pub pairs: Vec<Rescale>,
    /// Per channel the index of its pair, or one entry for all channels.
    pub channel_pairs: Vec<u8>,
    /// Added after the rescale, before the clamp: the output's zero point.
    pub zero: i16,
    /// Least and greatest accumulator the segment table covers; the compiler proves that no input leaves it.
    pub range: [i32; 2],
    /// Least and greatest value before the table.
    pub clamp: [i16; 2],
    /// Applied after the clamp: entry `y - clamp[0]`, one entry per value of the clamp, at most [`TABLE_MAX`].
    pub table: Option<Vec<i16>>,
    /// Type of the result: [`ElementType::I8`] or [`ElementType::I16`], which holds the clamp or all table entries.
    pub output: ElementType,
}

impl Requantise {
    /// A requantisation to i8 without zero point and table.
    #[must_use]
    pub const fn to_i8(
        pairs: Vec<Rescale>,
        channel_pairs: Vec<u8>,
        range: [i32; 2],
        clamp: [i8; 2],
    ) -> Self {
        Self {
            pairs,
            channel_pairs,
            zero: 0,
            range,
            clamp: [clamp[0] as i16, clamp[1] as i16],
            table: None,
            output: ElementType::I8,
        }
    }

    /// The pair of a channel.
    #[must_use]
    pub fn pair_of(&self, channel: usize) -> u8 {
        if self.channel_pairs.len() == 1 {
            self.channel_pairs[0]
        } else {
            self.channel_pairs[channel]
        }
    }

    /// The activation of integer `x` under one of the rescales.
    #[must_use]
    pub fn output(&self, rescale: Rescale, x: i64) -> i16 {
        let y = self.index(rescale, x);
        match &self.table {
            None => y,
            Some(table) => table[usize::from(y.abs_diff(self.clamp[0]))],
        }
    }

    /// The clamped value before the table.
    ///
    /// # Panics
    /// If the clamp is empty; validation refuses that.
    #[must_use]
    pub fn index(&self, rescale: Rescale, x: i64) -> i16 {
        let [least, greatest] = self.clamp.map(i64::from);
        let y = (rescale.apply(x) + i64::from(self.zero)).clamp(least, greatest);
        i16::try_from(y).expect("clamped to 16 bits")
    }

    /// Least and greatest value the node can give.
    #[must_use]
    pub fn outputs(&self) -> [i16; 2] {
        match &self.table {
            None => self.clamp,
            Some(table) => {
                let least = table.iter().min().copied().unwrap_or(0);
                [least, table.iter().max().copied().unwrap_or(0)]
            }
        }
    }

    /// The name of the first attribute that is out of its range for a number of channels, if any.
    #[must_use]
    pub fn invalid(&self, channels: usize) -> Option<&'static str> {
        let Self {
            pairs,
            channel_pairs,
            zero: _,
            range,
            clamp,
            table,
            output,
        } = self;
        let limit = match output {
            ElementType::I8 => [i16::from(i8::MIN), i16::from(i8::MAX)],
            ElementType::I16 => [-i16::MAX, i16::MAX],
            ElementType::I32 => return Some("output type"),
        };
        if pairs.is_empty() || pairs.len() > PAIRS_MAX {
            return Some("number of multiplier pairs");
        }
        let one_each = channel_pairs.len() == 1 || channel_pairs.len() == channels;
        if !one_each
            || channel_pairs
                .iter()
                .any(|&pair| usize::from(pair) >= pairs.len())
        {
            return Some("channel to multiplier map");
        }
        if range[0] > range[1] || clamp[0] > clamp[1] {
            return Some("range");
        }
        let span = usize::from(clamp[1].abs_diff(clamp[0])) + 1;
        if table
            .as_ref()
            .is_some_and(|table| table.len() != span || span > TABLE_MAX)
        {
            return Some("value table");
        }
        let [least, greatest] = self.outputs();
        (least < limit[0] || greatest > limit[1]).then_some("output range")
    }
}

impl Encode for Requantise {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            pairs,
            channel_pairs,
            zero,
            range,
            clamp,
            table,
            output,
        } = self;
        output.encode(writer);
        writer.seq(pairs);
        writer.bytes(channel_pairs);
        writer.u16(zero.cast_unsigned());
        range.iter().for_each(|&value| writer.i32(value));
        clamp
            .iter()
            .for_each(|&value| writer.u16(value.cast_unsigned()));
        match table {
            None => writer.u8(0),
            Some(table) => {
                writer.u8(1);
                writer.count(table.len());
                table
                    .iter()
                    .for_each(|value| writer.u16(value.cast_unsigned()));
            }
        }
    }
}

impl Decode for Requantise {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let output = ElementType::decode(reader)?;
        let pairs = reader.seq("multiplier pairs", PAIRS_MAX, 8)?;
        let channel_pairs = reader
            .bytes("channel pairs", crate::shape::AXIS_MAX as usize)?
            .to_vec();
        let zero = reader.u16()?.cast_signed();
        let range = [reader.i32()?, reader.i32()?];
        let clamp = [reader.u16()?.cast_signed(), reader.u16()?.cast_signed()];
        let table = match reader.u8()? {
            0 => None,
            1 => {
                let count = reader.count("value table", TABLE_MAX, 2)?;
                let entries = (0..count).map(|_| reader.u16().map(u16::cast_signed));
                Some(entries.collect::<Result<_, _>>()?)
            }
            other => {
                return Err(DecodeError::Invalid {
                    field: "value table flag",
                    value: u64::from(other),
                });
            }
        };
        Ok(Self {
            pairs,
            channel_pairs,
            zero,
            range,
            clamp,
            table,
            output,
        })
    }
}
