//! Normalisation of a row by its mean and standard deviation, or its root mean square.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Magnitudes, Operator, Site, TypeRule, Unary};
use super::reach::{self, Interval};
use crate::encoding::flag;
use crate::limits::WIDE_ACTIVATION_MAX;
use crate::shape::{ElementType, Shape, TensorId};

/// Greatest precision of a normalisation's root, in bits.
pub const NORM_PRECISION_MAX: u8 = 12;
/// Most fraction bits of a normalisation's result.
pub const NORM_FRACTION_MAX: u8 = 14;

/// Normalisation over the n channels of each pixel: `s = sum of in` if centred, else 0;
/// `v = (n * sum of in^2 - s^2 + epsilon) * 4^k`; r the least integer with `r^2 > v`;
/// `z_c = floor(((n in_c - s) 2^(k+f) + floor(r / 2)) / r)`, as i16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norm {
    /// Whether the mean is taken away first (layer normalisation; without it: root-mean-square normalisation).
    pub centred: bool,
    /// Added to `n^2` times the variance, in square units of the input.
    pub epsilon: u64,
    /// Bits of precision k of the root: it is taken of `4^k` times the value.
    pub precision: u8,
    /// Fraction bits f of the result: its unit is `2^-f`.
    pub fraction: u8,
}

impl Norm {
    /// One channel of a normalised row.
    fn normalised(self, row: &[i64], channel: u32) -> i64 {
        let n = row.len() as i64;
        let sum: i64 = if self.centred { row.iter().sum() } else { 0 };
        let squares: i64 = row.iter().map(|x| x * x).sum();
        let variance = n * squares - sum * sum + self.epsilon.cast_signed();
        let root = root_above(variance << (2 * self.precision));
        let centred = n * row[channel as usize] - sum;
        ((centred << (self.precision + self.fraction)) + root / 2).div_euclid(root)
    }
}

/// The least integer r with `r^2 > v`, for v in [0, 2^62).
///
/// # Panics
/// If v is negative.
#[must_use]
pub fn root_above(v: i64) -> i64 {
    i64::try_from(v.cast_unsigned().isqrt()).expect("the root of 63 bits") + 1
}

impl Operator for Unary<Norm> {
    fn name(&self) -> &'static str {
        "Norm"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I16)
    }

    fn takes_accumulators(&self) -> bool {
        false
    }

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        let Norm {
            centred: _,
            epsilon,
            precision,
            fraction,
        } = self.how;
        if precision > NORM_PRECISION_MAX || fraction > NORM_FRACTION_MAX {
            return Some("precision");
        }
        let n = i128::from(site.shape(self.input).channels);
        let magnitude = i128::from(site.magnitude(self.input));
        let radicand = (n * n * magnitude * magnitude + i128::from(epsilon)) << (2 * precision);
        let numerator = (2 * n * magnitude) << (precision + fraction);
        let limit = 1i128 << 62;
        let saturates = n << (2 * fraction) > (1 << 30) - (1 << 16);
        (radicand >= limit || numerator >= limit || saturates).then_some("precision")
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

    /// A normalised value is below `sqrt(n) 2^f` before rounding.
    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        let square = u64::from(reads.output().channels) << (2 * self.how.fraction);
        let reach = i64::try_from(square.isqrt()).expect("a small root") + 1;
        vec![[-reach, reach]]
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.by_row(self.input, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        self.how.normalised(&reads.row(self.input, at), at.channel)
    }
}

impl Encode for Unary<Norm> {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, how } = self;
        let Norm {
            centred,
            epsilon,
            precision,
            fraction,
        } = *how;
        input.encode(writer);
        writer.u8(u8::from(centred));
        writer.u64(epsilon);
        writer.u8(precision);
        writer.u8(fraction);
    }
}

impl Decode for Unary<Norm> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let input = TensorId::decode(reader)?;
        let how = Norm {
            centred: flag(reader, "centred flag")?,
            epsilon: reader.u64()?,
            precision: reader.u8()?,
            fraction: reader.u8()?,
        };
        Ok(Self { input, how })
    }
}
