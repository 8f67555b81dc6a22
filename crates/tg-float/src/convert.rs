//! Conversions between element types: codes of small floats, and ONNX's `Cast`.

use super::tensor::{DType, Data, FloatTensor, NAN_F32};

/// A binary floating point format of 16 bits or fewer.
#[derive(Debug, Clone, Copy)]
struct Format {
    bits: u32,
    mantissa: u32,
    /// Exponent of the smallest normal number.
    exponent_min: i32,
    /// Code of the largest finite number.
    largest: u16,
    /// Code of infinity, where there is one.
    infinity: Option<u16>,
    /// Code of NaN, where there is one.
    nan: Option<u16>,
    /// Whether zero has no sign (the code of minus zero is then NaN).
    unsigned_zero: bool,
}

const fn format(dtype: DType) -> Option<Format> {
    let (bits, mantissa, exponent_min, largest, infinity, nan, unsigned_zero) = match dtype {
        DType::F16 => (16, 10, -14, 0x7bff, Some(0x7c00), Some(0x7e00), false),
        DType::F8E4M3FN => (8, 3, -6, 0x7e, None, Some(0x7f), false),
        DType::F8E4M3FNUZ => (8, 3, -7, 0x7f, None, Some(0x80), true),
        DType::F8E5M2 => (8, 2, -14, 0x7b, Some(0x7c), Some(0x7f), false),
        DType::F8E5M2FNUZ => (8, 2, -15, 0x7f, None, Some(0x80), true),
        DType::F4E2M1 => (4, 1, 0, 0x7, None, None, false),
        _ => return None,
    };
    Some(Format {
        bits,
        mantissa,
        exponent_min,
        largest,
        infinity,
        nan,
        unsigned_zero,
    })
}

/// A power of two, exact for -1022..=1023.
fn power_of_two(exponent: i32) -> f64 {
    let biased = u64::from((exponent.clamp(-1022, 1023) + 1023).unsigned_abs());
    f64::from_bits(biased << 52)
}

impl Format {
    fn decode(self, code: u16) -> f64 {
        let sign_bit = 1u16 << (self.bits - 1);
        let magnitude = code & (sign_bit - 1);
        if self.unsigned_zero {
            if code == sign_bit {
                return f64::NAN;
            }
        } else if Some(magnitude) == self.infinity {
            return if code == magnitude {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            };
        } else if magnitude > self.largest {
            return f64::NAN;
        }
        let exponent = i32::from(magnitude >> self.mantissa);
        let low = magnitude & ((1 << self.mantissa) - 1);
        let mantissa = i32::try_from(self.mantissa).unwrap_or(0);
        let value = if exponent == 0 {
            f64::from(low) * power_of_two(self.exponent_min - mantissa)
        } else {
            f64::from(low + (1 << self.mantissa))
                * power_of_two(exponent - 1 + self.exponent_min - mantissa)
        };
        if code == magnitude { value } else { -value }
    }

    /// Rounds to the nearest, ties to even. Values beyond the largest become the largest (`saturate`), or infinity,
    /// or NaN where there is no infinity.
    fn encode(self, value: f64, saturate: bool) -> u16 {
        let sign_bit = 1u16 << (self.bits - 1);
        let Some(magnitude) = self.encode_magnitude(value, saturate) else {
            return self.nan.unwrap_or(if value.is_nan() {
                sign_bit
            } else {
                self.largest
            });
        };
        if value.is_sign_negative() && !(magnitude == 0 && self.unsigned_zero) {
            magnitude | sign_bit
        } else {
            magnitude
        }
    }

    fn encode_magnitude(self, value: f64, saturate: bool) -> Option<u16> {
        if value.is_nan() {
            return None;
        }
        let over = || {
            if saturate || self.nan.is_none() {
                Some(self.largest)
            } else {
                self.infinity
            }
        };
        let magnitude = value.abs();
        if magnitude.is_infinite() {
            return over();
        }
        let exponent_field = ((magnitude.to_bits() >> 52) & 0x7ff) as i32;
        let exponent = (exponent_field - 1023).max(self.exponent_min);
        let mantissa = i32::try_from(self.mantissa).unwrap_or(0);
        if exponent > 127 {
            return over();
        }
        // Exact: the quantum is a power of two.
        let quanta = (magnitude / power_of_two(exponent - mantissa)).round_ties_even() as u32;
        let offset = u32::try_from(exponent - self.exponent_min).unwrap_or(0) << self.mantissa;
        match u16::try_from(quanta + offset) {
            Ok(code) if code <= self.largest => Some(code),
            _ => over(),
        }
    }
}

/// The `f32` of the bits of an `f16`.
#[must_use]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let mantissa = u32::from(bits) & 0x3ff;
    match exponent {
        0 => {
            // A subnormal is its mantissa times 2^-24, exactly.
            let value = mantissa as f32 * f32::from_bits(0x3380_0000);
            f32::from_bits(value.to_bits() | sign)
        }
        31 if mantissa == 0 => f32::from_bits(sign | 0x7f80_0000),
        31 => NAN_F32,
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (mantissa << 13)),
    }
}

/// The bits of the `f16` nearest to an `f32`, ties to even.
#[must_use]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let code = if magnitude > 0x7f80_0000 {
        return 0x7e00;
    } else if magnitude >= 0x4780_0000 {
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        // Normal: rebias, round the 13 bits that go.
        let rebiased = magnitude - (112 << 23);
        ((rebiased + 0xfff + ((rebiased >> 13) & 1)) >> 13) as u16
    } else {
        // Subnormal: adding 2^(23-24) aligns the mantissa and rounds it to even.
        let aligned = f32::from_bits(magnitude) + 0.5;
        (aligned.to_bits() - 0x3f00_0000) as u16
    };
    sign | code
}

/// The `f32` of the bits of a `bf16`.
#[must_use]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the `bf16` nearest to an `f32`, ties to even.
#[must_use]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return 0x7fc0;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// The value of a code of eight bits or fewer.
#[must_use]
pub fn code_to_f64(dtype: DType, code: u8) -> f64 {
    match dtype {
        DType::I4 => f64::from(((code << 4) as i8) >> 4),
        DType::I2 => f64::from(((code << 6) as i8) >> 6),
        DType::U4 | DType::U2 => f64::from(code),
        DType::F8E8M0 if code == 0xff => f64::NAN,
        DType::F8E8M0 => power_of_two(i32::from(code) - 127),
        _ => format(dtype).map_or(0.0, |format| format.decode(code.into())),
    }
}

/// How `Cast` rounds to [`DType::F8E8M0`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerRounding {
    /// To the next power of two away from zero.
    Up,
    /// To the next power of two towards zero.
    Down,
    /// To the nearest; ties up.
    Nearest,
}

/// How values that a type does not have are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CastMode {
    /// Whether a small float beyond its range becomes its largest number.
    pub saturate: bool,
    /// How powers of two round.
    pub powers: PowerRounding,
}

impl Default for CastMode {
    fn default() -> Self {
        Self {
            saturate: true,
            powers: PowerRounding::Up,
        }
    }
}

/// The code of a type of eight bits or fewer that is nearest to a value. Integers wrap.
#[must_use]
pub fn f64_to_code(dtype: DType, value: f64, mode: CastMode) -> u8 {
    match dtype {
        DType::I4 | DType::U4 => (value as i64 & 0xf) as u8,
        DType::I2 | DType::U2 => (value as i64 & 0x3) as u8,
        DType::F8E8M0 => power_code(value, mode),
        _ => format(dtype).map_or(0, |format| {
            (format.encode(value, mode.saturate) & 0xff) as u8
        }),
    }
}

fn power_code(value: f64, mode: CastMode) -> u8 {
    if value.is_nan() {
        return 0xff;
    }
    let largest = if mode.saturate { 0xfe } else { 0xff };
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return largest;
    }
    let bits = magnitude.to_bits();
    let floor = (bits >> 52) as i32 - 1023;
    let rest = bits & ((1 << 52) - 1);
    let up = match mode.powers {
        PowerRounding::Up => rest > 0,
        PowerRounding::Down => false,
        PowerRounding::Nearest => rest >= 1 << 51,
    };
    let code = floor + i32::from(up) + 127;
    if code > 0xfe {
        largest
    } else {
        u8::try_from(code.max(0)).unwrap_or(largest)
    }
}

/// Every element as `f32`, rounded once; `None` for text.
#[must_use]
pub fn to_f32(data: &Data) -> Option<Vec<f32>> {
    Some(match data {
        Data::F32(values) => values.clone(),
        Data::F64(values) => values.iter().map(|&v| v as f32).collect(),
        Data::F16(values) => values.iter().map(|&v| f16_to_f32(v)).collect(),
        Data::BF16(values) => values.iter().map(|&v| bf16_to_f32(v)).collect(),
        Data::I8(values) => values.iter().map(|&v| f32::from(v)).collect(),
        Data::I16(values) => values.iter().map(|&v| f32::from(v)).collect(),
        Data::I32(values) => values.iter().map(|&v| v as f32).collect(),
        Data::I64(values) => values.iter().map(|&v| v as f32).collect(),
        Data::U8(values) => values.iter().map(|&v| f32::from(v)).collect(),
        Data::U16(values) => values.iter().map(|&v| f32::from(v)).collect(),
        Data::U32(values) => values.iter().map(|&v| v as f32).collect(),
        Data::U64(values) => values.iter().map(|&v| v as f32).collect(),
        Data::Bool(values) => values.iter().map(|&v| f32::from(u8::from(v))).collect(),
        Data::Codes(dtype, codes) => codes
            .iter()
            .map(|&code| code_to_f64(*dtype, code) as f32)
            .collect(),
        Data::String(_) => return None,
    })
}

/// Every element as `f64`; 64-bit integers are rounded. `None` for text.
#[must_use]
pub fn to_f64(data: &Data) -> Option<Vec<f64>> {
    Some(match data {
        Data::F64(values) => values.clone(),
        Data::I32(values) => values.iter().map(|&v| f64::from(v)).collect(),
        Data::I64(values) => values.iter().map(|&v| v as f64).collect(),
        Data::U32(values) => values.iter().map(|&v| f64::from(v)).collect(),
        Data::U64(values) => values.iter().map(|&v| v as f64).collect(),
        Data::Codes(dtype, codes) => codes
            .iter()
            .map(|&code| code_to_f64(*dtype, code))
            .collect(),
        other => to_f32(other)?.into_iter().map(f64::from).collect(),
    })
}

/// Every element of an integer or truth type as `i64` (`u64` wraps); `None` for floats and text.
#[must_use]
pub fn to_i64(data: &Data) -> Option<Vec<i64>> {
    Some(match data {
        Data::I8(values) => values.iter().map(|&v| v.into()).collect(),
        Data::I16(values) => values.iter().map(|&v| v.into()).collect(),
        Data::I32(values) => values.iter().map(|&v| v.into()).collect(),
        Data::I64(values) => values.clone(),
        Data::U8(values) => values.iter().map(|&v| v.into()).collect(),
        Data::U16(values) => values.iter().map(|&v| v.into()).collect(),
        Data::U32(values) => values.iter().map(|&v| v.into()).collect(),
        Data::U64(values) => values.iter().map(|&v| v as i64).collect(),
        Data::Bool(values) => values.iter().map(|&v| v.into()).collect(),
        Data::Codes(DType::I4 | DType::U4 | DType::I2 | DType::U2, _) => {
            to_f32(data)?.into_iter().map(|v| v as i64).collect()
        }
        _ => return None,
    })
}

/// Floats as another type, each rounded once; integers take the part before the point, within their range.
#[must_use]
pub fn from_f64(values: &[f64], dtype: DType, mode: CastMode) -> Option<Data> {
    Some(match dtype {
        DType::F32 => Data::F32(values.iter().map(|&v| canonical(v as f32)).collect()),
        DType::F64 => Data::F64(values.to_vec()),
        DType::F16 => {
            let format = format(DType::F16)?;
            Data::F16(values.iter().map(|&v| format.encode(v, false)).collect())
        }
        DType::BF16 => Data::BF16(values.iter().map(|&v| f32_to_bf16(v as f32)).collect()),
        DType::I8 => Data::I8(values.iter().map(|&v| v as i64 as i8).collect()),
        DType::I16 => Data::I16(values.iter().map(|&v| v as i64 as i16).collect()),
        DType::I32 => Data::I32(values.iter().map(|&v| v as i32).collect()),
        DType::I64 => Data::I64(values.iter().map(|&v| v as i64).collect()),
        DType::U8 => Data::U8(values.iter().map(|&v| v as i64 as u8).collect()),
        DType::U16 => Data::U16(values.iter().map(|&v| v as i64 as u16).collect()),
        DType::U32 => Data::U32(values.iter().map(|&v| v as i64 as u32).collect()),
        DType::U64 => Data::U64(values.iter().map(|&v| v as u64).collect()),
        DType::Bool => Data::Bool(values.iter().map(|&v| v != 0.0).collect()),
        DType::String => Data::String(values.iter().map(ToString::to_string).collect()),
        code => Data::Codes(
            code,
            values.iter().map(|&v| f64_to_code(code, v, mode)).collect(),
        ),
    })
}

/// Integers as another type; narrower integers wrap, floats are rounded once.
#[must_use]
pub fn from_i64(values: &[i64], dtype: DType, mode: CastMode) -> Option<Data> {
    Some(match dtype {
        DType::F32 => Data::F32(values.iter().map(|&v| v as f32).collect()),
        DType::I8 => Data::I8(values.iter().map(|&v| v as i8).collect()),
        DType::I16 => Data::I16(values.iter().map(|&v| v as i16).collect()),
        DType::I32 => Data::I32(values.iter().map(|&v| v as i32).collect()),
        DType::I64 => Data::I64(values.to_vec()),
        DType::U8 => Data::U8(values.iter().map(|&v| v as u8).collect()),
        DType::U16 => Data::U16(values.iter().map(|&v| v as u16).collect()),
        DType::U32 => Data::U32(values.iter().map(|&v| v as u32).collect()),
        DType::U64 => Data::U64(values.iter().map(|&v| v as u64).collect()),
        DType::Bool => Data::Bool(values.iter().map(|&v| v != 0).collect()),
        DType::String => Data::String(values.iter().map(ToString::to_string).collect()),
        other => {
            let wide: Vec<f64> = values.iter().map(|&v| v as f64).collect();
            return from_f64(&wide, other, mode);
        }
    })
}

/// `f32` results as another float type, each rounded once.
#[must_use]
pub fn from_f32(values: Vec<f32>, dtype: DType) -> Option<Data> {
    Some(match dtype {
        DType::F32 => Data::F32(values),
        DType::F16 => Data::F16(values.into_iter().map(f32_to_f16).collect()),
        DType::BF16 => Data::BF16(values.into_iter().map(f32_to_bf16).collect()),
        other => {
            let wide: Vec<f64> = values.into_iter().map(f64::from).collect();
            return from_f64(&wide, other, CastMode::default());
        }
    })
}

pub use crate::kernels::canonical;

/// ONNX's `Cast`: `None` if a text is not a number, or the conversion is not defined.
#[must_use]
pub fn cast(tensor: &FloatTensor, dtype: DType, mode: CastMode) -> Option<FloatTensor> {
    let data = tensor.data();
    let converted = match data {
        _ if data.dtype() == dtype => data.clone(),
        Data::String(texts) => {
            let numbers: Option<Vec<f64>> = texts.iter().map(|text| parse(text)).collect();
            from_f64(&numbers?, dtype, mode)?
        }
        Data::F32(values) if dtype == DType::String => {
            Data::String(values.iter().map(|value| text(*value)).collect())
        }
        // A truth value is 1 or 0 as a text too, as in the reference.
        Data::U64(values) if dtype == DType::F32 => {
            Data::F32(values.iter().map(|&v| v as f32).collect())
        }
        _ => match to_i64(data) {
            Some(values) => from_i64(&values, dtype, mode)?,
            None => from_f64(&to_f64(data)?, dtype, mode)?,
        },
    };
    FloatTensor::new(tensor.shape().to_vec(), converted).ok()
}

fn parse(text: &str) -> Option<f64> {
    let text = text.trim();
    text.parse::<f64>().ok()
}

/// The shortest decimal text that reads back as the same number.
fn text(value: f32) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        let text = if value > 0.0 { "INF" } else { "-INF" };
        text.to_owned()
    } else {
        format!("{value:?}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn half_floats_round_as_the_exact_encoder_does() {
        let exact = format(DType::F16).unwrap();
        for bits in 0..=u16::MAX {
            let value = f16_to_f32(bits);
            let same = f64::from(value).to_bits() == exact.decode(bits).to_bits();
            assert!(same || value.is_nan(), "{bits:#x}");
            if !value.is_nan() {
                assert_eq!(f32_to_f16(value), bits);
            }
        }
        let mut state = 1u32;
        for _ in 0..200_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Exponents around the range of f16, ties included.
            let value = f32::from_bits((state & 0x8fff_f000) | 0x3000_0000);
            assert_eq!(
                f32_to_f16(value),
                exact.encode(value.into(), false),
                "{value:e}"
            );
        }
    }

    #[test]
    fn small_floats_decode_and_encode_back() {
        for dtype in [
            DType::F8E4M3FN,
            DType::F8E4M3FNUZ,
            DType::F8E5M2,
            DType::F8E5M2FNUZ,
            DType::F8E8M0,
            DType::F4E2M1,
            DType::I4,
            DType::U4,
            DType::I2,
            DType::U2,
        ] {
            let codes = 1u16 << dtype.raw_bits();
            for code in 0..codes {
                let code = code as u8;
                let value = code_to_f64(dtype, code);
                if !value.is_nan() && value.is_finite() {
                    let mode = CastMode::default();
                    assert_eq!(f64_to_code(dtype, value, mode), code, "{dtype:?} {value}");
                }
            }
        }
        assert_eq!(code_to_f64(DType::F8E4M3FN, 0x7e), 448.0);
        assert_eq!(code_to_f64(DType::F8E5M2, 0x7b), 57344.0);
        assert_eq!(code_to_f64(DType::F8E4M3FNUZ, 0x7f), 240.0);
        assert_eq!(code_to_f64(DType::F4E2M1, 0x7), 6.0);
        assert_eq!(code_to_f64(DType::I4, 0xf), -1.0);
    }

    #[test]
    fn overflow_saturates_or_says_so() {
        let loud = CastMode {
            saturate: false,
            ..CastMode::default()
        };
        let check = |dtype, value, saturated, unsaturated| {
            assert_eq!(f64_to_code(dtype, value, CastMode::default()), saturated);
            assert_eq!(f64_to_code(dtype, value, loud), unsaturated);
        };
        check(DType::F8E4M3FN, 1e6, 0x7e, 0x7f);
        check(DType::F8E5M2, 1e6, 0x7b, 0x7c);
        check(DType::F8E4M3FNUZ, -1e6, 0xff, 0x80);
        check(DType::F8E5M2FNUZ, f64::NAN, 0x80, 0x80);
    }

    #[test]
    fn casts_truncate_and_wrap() {
        let floats = FloatTensor::vector(vec![1.9f32, -1.9, 300.0]);
        let cast = |to| cast(&floats, to, CastMode::default()).unwrap();
        assert_eq!(cast(DType::I32).values(), Some(&[1i32, -1, 300][..]));
        assert_eq!(cast(DType::U8).values(), Some(&[1u8, 255, 44][..]));
        assert_eq!(cast(DType::Bool).values(), Some(&[true, true, true][..]));
    }
}
