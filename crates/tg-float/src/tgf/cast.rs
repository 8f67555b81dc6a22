//! `Cast`, `CastLike`, `BitCast`.

use super::call::Entry;
use super::call::Half::Native;
use super::call::{Call, Results, tensor};
use super::error::OpError;
use crate::convert::{CastMode, PowerRounding, cast};
use crate::tensor::{DType, Data, FloatTensor};

/// Bytes of the longest text of a number: a binary64 of the smallest exponent, with all its digits.
const NUMBER_TEXT_BYTES: usize = 1 << 9;

/// Steps of writing a number as a text, or reading one.
const TEXT_STEPS: usize = 512;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "Cast" => (cast_to, Native),
        "CastLike" => (cast_like, Native),
        "BitCast" => (bit_cast, Native),
        _ => return None,
    })
}

/// The element type that an attribute names.
pub(super) fn dtype_attribute(
    call: &Call<'_>,
    name: &'static str,
) -> Result<Option<DType>, OpError> {
    match call.optional_int(name)? {
        None => Ok(None),
        Some(code) => match DType::from_onnx(code) {
            Some(dtype) => Ok(Some(dtype)),
            None => call.refuse("an element type that is not supported"),
        },
    }
}

fn cast_to(call: &Call<'_>) -> Results {
    let to = dtype_attribute(call, "to")?.ok_or(OpError::Attribute { name: "to" })?;
    convert(call, to)
}

fn cast_like(call: &Call<'_>) -> Results {
    convert(call, call.input(1)?.dtype())
}

fn convert(call: &Call<'_>, to: DType) -> Results {
    let input = call.input(0)?;
    let mode = CastMode {
        saturate: call.flag("saturate", true)?,
        powers: match call.text("round_mode", "up")? {
            "up" => PowerRounding::Up,
            "down" => PowerRounding::Down,
            "nearest" => PowerRounding::Nearest,
            _ => return Err(OpError::Attribute { name: "round_mode" }),
        },
    };
    // Conversions go through 64 bits per element.
    call.reserve(input.len(), DType::I64)?;
    call.reserve(input.len(), to)?;
    if input.dtype() != to {
        if to == DType::String {
            call.reserve_texts(input.len(), NUMBER_TEXT_BYTES)?;
        }
        if to == DType::String || input.dtype() == DType::String {
            call.charge_steps(&[input.len(), TEXT_STEPS])?;
        }
    }
    let result = cast(input, to, mode);
    Ok(vec![result.ok_or(OpError::Refused {
        reason: "a conversion between these element types, or a text that is not a number",
    })?])
}

fn bit_cast(call: &Call<'_>) -> Results {
    let to = dtype_attribute(call, "to")?.ok_or(OpError::Attribute { name: "to" })?;
    let input = call.input(0)?;
    if input.dtype().raw_bits() != to.raw_bits() {
        return Err(OpError::invalid("the types have different sizes"));
    }
    call.reserve(input.len(), DType::U64)?;
    let bits = bits(input).ok_or_else(|| call.wrong_type(0))?;
    let data = from_bits(&bits, to).ok_or(OpError::Refused {
        reason: "a type without bits",
    })?;
    Ok(vec![tensor(input.shape().to_vec(), data)?])
}

fn bits(input: &FloatTensor) -> Option<Vec<u64>> {
    Some(match input.data() {
        Data::F32(values) => values.iter().map(|v| v.to_bits().into()).collect(),
        Data::F64(values) => values.iter().map(|v| v.to_bits()).collect(),
        Data::F16(values) | Data::BF16(values) | Data::U16(values) => {
            values.iter().map(|&v| v.into()).collect()
        }
        Data::I8(values) => values.iter().map(|&v| v as u64).collect(),
        Data::I16(values) => values.iter().map(|&v| v as u64).collect(),
        Data::I32(values) => values.iter().map(|&v| v as u64).collect(),
        Data::I64(values) => values.iter().map(|&v| v as u64).collect(),
        Data::U8(values) | Data::Codes(_, values) => values.iter().map(|&v| v.into()).collect(),
        Data::U32(values) => values.iter().map(|&v| v.into()).collect(),
        Data::U64(values) => values.clone(),
        Data::Bool(values) => values.iter().map(|&v| v.into()).collect(),
        Data::String(_) => return None,
    })
}

fn from_bits(bits: &[u64], to: DType) -> Option<Data> {
    Some(match to {
        DType::F32 => Data::F32(bits.iter().map(|&b| f32::from_bits(b as u32)).collect()),
        DType::F64 => Data::F64(bits.iter().map(|&b| f64::from_bits(b)).collect()),
        DType::F16 => Data::F16(bits.iter().map(|&b| b as u16).collect()),
        DType::BF16 => Data::BF16(bits.iter().map(|&b| b as u16).collect()),
        DType::U16 => Data::U16(bits.iter().map(|&b| b as u16).collect()),
        DType::I8 => Data::I8(bits.iter().map(|&b| b as i8).collect()),
        DType::I16 => Data::I16(bits.iter().map(|&b| b as i16).collect()),
        DType::I32 => Data::I32(bits.iter().map(|&b| b as i32).collect()),
        DType::I64 => Data::I64(bits.iter().map(|&b| b as i64).collect()),
        DType::U8 => Data::U8(bits.iter().map(|&b| b as u8).collect()),
        DType::U32 => Data::U32(bits.iter().map(|&b| b as u32).collect()),
        DType::U64 => Data::U64(bits.to_vec()),
        DType::Bool => Data::Bool(bits.iter().map(|&b| b != 0).collect()),
        DType::String => return None,
        code => {
            let mask = (1u16 << code.raw_bits()) - 1;
            Data::Codes(
                code,
                bits.iter().map(|&b| (b as u16 & mask) as u8).collect(),
            )
        }
    })
}
