//! Tensors of a file: typed, raw and external data.

use super::external;
use super::problem::TensorProblem;
use crate::proto::{EXTERNAL, TensorProto};
use std::path::Path;
use tg_float::tensor::{DType, Data, FloatTensor, RANK_MAX};

/// What tensors may take, and where external ones lie.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// Bytes of memory left.
    pub(super) left: usize,
    /// Folder of the model's file.
    pub(super) folder: Option<&'a Path>,
}

impl Source<'_> {
    /// Takes memory that something else than a tensor needs.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), TensorProblem> {
        let left = self.left;
        let rest = left.checked_sub(bytes);
        self.left = rest.ok_or(TensorProblem::Budget { bytes, left })?;
        Ok(())
    }

    /// Reads a tensor.
    pub(super) fn read(&mut self, proto: &TensorProto) -> Result<FloatTensor, TensorProblem> {
        let dtype = DType::from_onnx(proto.data_type.into())
            .ok_or(TensorProblem::ElementType(proto.data_type))?;
        let (shape, count) = checked_shape(&proto.dims)?;
        let bytes = count
            .checked_mul(dtype.bytes())
            .ok_or_else(|| TensorProblem::Shape(proto.dims.clone()))?;
        if bytes > self.left {
            let left = self.left;
            return Err(TensorProblem::Budget { bytes, left });
        }
        let data = if proto.data_location == EXTERNAL {
            let raw_bytes = raw_bytes(dtype, count);
            let raw = external::read(proto, self.folder, raw_bytes)?;
            decode_raw(dtype, count, &raw)
        } else if proto.raw_data.is_empty() {
            decode_typed(dtype, count, proto)?
        } else {
            decode_raw(dtype, count, &proto.raw_data)
        };
        let data = data.filter(|data| data.len() == count);
        let data = data.ok_or_else(|| TensorProblem::Length {
            shape: proto.dims.clone(),
            got: held(dtype, proto),
        })?;
        self.left -= bytes;
        FloatTensor::new(shape, data).map_err(|_| TensorProblem::Shape(proto.dims.clone()))
    }
}

/// Bytes of `count` elements in raw data.
fn raw_bytes(dtype: DType, count: usize) -> usize {
    match dtype.raw_bits() {
        4 => count.div_ceil(2),
        2 => count.div_ceil(4),
        bits => count.saturating_mul(bits / 8),
    }
}

fn held(dtype: DType, proto: &TensorProto) -> usize {
    let typed = proto.float_data.len()
        + proto.int32_data.len()
        + proto.int64_data.len()
        + proto.uint64_data.len()
        + proto.double_data.len()
        + proto.string_data.len();
    typed + proto.raw_data.len() * 8 / dtype.raw_bits().max(1)
}

fn checked_shape(dims: &[i64]) -> Result<(Vec<usize>, usize), TensorProblem> {
    let problem = || TensorProblem::Shape(dims.to_vec());
    if dims.len() > RANK_MAX {
        return Err(problem());
    }
    let axes = dims.iter().map(|&axis| usize::try_from(axis));
    let shape: Vec<usize> = axes.collect::<Result<_, _>>().map_err(|_| problem())?;
    let count = tg_float::tensor::elements(&shape).ok_or_else(problem)?;
    Ok((shape, count))
}

/// `None` if the bytes are not exactly `count` elements.
fn decode_raw(dtype: DType, count: usize, raw: &[u8]) -> Option<Data> {
    fn each<T, const N: usize>(raw: &[u8], convert: impl Fn([u8; N]) -> T) -> Vec<T> {
        let (chunks, _) = raw.as_chunks::<N>();
        chunks.iter().map(|&chunk| convert(chunk)).collect()
    }
    if raw.len() != raw_bytes(dtype, count) {
        return None;
    }
    Some(match dtype {
        DType::F32 => Data::F32(each(raw, f32::from_le_bytes)),
        DType::F64 => Data::F64(each(raw, f64::from_le_bytes)),
        DType::F16 => Data::F16(each(raw, u16::from_le_bytes)),
        DType::BF16 => Data::BF16(each(raw, u16::from_le_bytes)),
        DType::I8 => Data::I8(each(raw, i8::from_le_bytes)),
        DType::I16 => Data::I16(each(raw, i16::from_le_bytes)),
        DType::I32 => Data::I32(each(raw, i32::from_le_bytes)),
        DType::I64 => Data::I64(each(raw, i64::from_le_bytes)),
        DType::U8 => Data::U8(raw.to_vec()),
        DType::U16 => Data::U16(each(raw, u16::from_le_bytes)),
        DType::U32 => Data::U32(each(raw, u32::from_le_bytes)),
        DType::U64 => Data::U64(each(raw, u64::from_le_bytes)),
        DType::Bool => Data::Bool(raw.iter().map(|&byte| byte != 0).collect()),
        DType::String => return None,
        code => Data::Codes(code, unpack(code.raw_bits(), count, raw)),
    })
}

/// Codes of `bits` bits, the first in the low bits of the first byte.
fn unpack(bits: usize, count: usize, raw: &[u8]) -> Vec<u8> {
    if bits == 8 {
        return raw.to_vec();
    }
    let per_byte = 8 / bits;
    let mask = (1u8 << bits) - 1;
    let code = |index: usize| (raw[index / per_byte] >> (bits * (index % per_byte))) & mask;
    (0..count).map(code).collect()
}

fn decode_typed(
    dtype: DType,
    count: usize,
    proto: &TensorProto,
) -> Result<Option<Data>, TensorProblem> {
    fn narrow<T: TryFrom<i32>>(values: &[i32]) -> Result<Vec<T>, TensorProblem> {
        let one = |&value: &i32| {
            T::try_from(value).map_err(|_| TensorProblem::Value {
                value: value.into(),
            })
        };
        values.iter().map(one).collect()
    }
    let small = &proto.int32_data;
    Ok(Some(match dtype {
        DType::F32 => Data::F32(proto.float_data.clone()),
        DType::F64 => Data::F64(proto.double_data.clone()),
        DType::F16 => Data::F16(narrow(small)?),
        DType::BF16 => Data::BF16(narrow(small)?),
        DType::I8 => Data::I8(narrow(small)?),
        DType::I16 => Data::I16(narrow(small)?),
        DType::I32 => Data::I32(small.clone()),
        DType::I64 => Data::I64(proto.int64_data.clone()),
        DType::U8 => Data::U8(narrow(small)?),
        DType::U16 => Data::U16(narrow(small)?),
        DType::U32 => {
            let one = |&value: &u64| {
                u32::try_from(value).map_err(|_| TensorProblem::Value {
                    value: i64::try_from(value).unwrap_or(i64::MAX),
                })
            };
            Data::U32(
                proto
                    .uint64_data
                    .iter()
                    .map(one)
                    .collect::<Result<_, _>>()?,
            )
        }
        DType::U64 => Data::U64(proto.uint64_data.clone()),
        DType::Bool => Data::Bool(small.iter().map(|&value| value != 0).collect()),
        DType::String => {
            let texts = proto.string_data.iter().cloned().map(String::from_utf8);
            Data::String(
                texts
                    .collect::<Result<_, _>>()
                    .map_err(|_| TensorProblem::Text)?,
            )
        }
        code => {
            // Sub-byte codes are packed into bytes, and each byte is one number.
            let bytes: Vec<u8> = small.iter().map(|&value| (value & 0xff) as u8).collect();
            if bytes.len() != raw_bytes(code, count) {
                return Ok(None);
            }
            Data::Codes(code, unpack(code.raw_bits(), count, &bytes))
        }
    }))
}
