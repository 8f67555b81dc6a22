//! Tensors: type and shape, and elements.

use super::limits::TEXT_BYTES_MAX;
use crate::tensor::{DType, Data, FloatTensor, RANK_MAX, elements};
use std::ops::Range;
use tg_types::{DecodeError, Reader, Writer};

/// The number of a type in `onnx.proto`, as a byte.
pub(crate) fn code(dtype: DType) -> u8 {
    u8::try_from(dtype.to_onnx()).expect("the numbers of element types are below 256")
}

/// The type of a byte that is not 0.
pub(crate) fn dtype(reader: &mut Reader<'_>) -> Result<DType, DecodeError> {
    let code = reader.u8()?;
    DType::from_onnx(code.into()).ok_or(DecodeError::Invalid {
        field: "element type",
        value: code.into(),
    })
}

/// Type, number of axes and sizes.
pub(crate) fn write_head(writer: &mut Writer, tensor: &FloatTensor) {
    writer.u8(code(tensor.dtype()));
    writer.count(tensor.rank());
    for &size in tensor.shape() {
        writer.u64(size as u64);
    }
}

/// What [`write_head`] wrote.
pub(crate) fn read_head(reader: &mut Reader<'_>) -> Result<(DType, Vec<usize>), DecodeError> {
    let dtype = dtype(reader)?;
    let rank = reader.count("axes of a tensor", RANK_MAX, 8)?;
    let sizes = (0..rank).map(|_| size(reader)).collect::<Result<_, _>>()?;
    Ok((dtype, sizes))
}

/// The size of an axis.
pub(crate) fn size(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    let value = reader.u64()?;
    usize::try_from(value).map_err(|_| DecodeError::Invalid {
        field: "size of an axis",
        value,
    })
}

/// Elements one after another: integers and floats by their bytes, least significant first; codes and truth values a byte
/// each; texts counted.
pub(crate) fn write_elements(writer: &mut Writer, data: &Data) {
    write_some_elements(writer, data, 0..data.len());
}

/// Those elements of [`write_elements`] that lie in a range.
pub(crate) fn write_some_elements(writer: &mut Writer, data: &Data, range: Range<usize>) {
    macro_rules! numbers {
        ($values:expr) => {
            writer.arrays($values[range].iter().map(|value| value.to_le_bytes()))
        };
    }
    match data {
        Data::F32(values) => numbers!(values),
        Data::F64(values) => numbers!(values),
        Data::F16(values) | Data::BF16(values) | Data::U16(values) => numbers!(values),
        Data::I8(values) => numbers!(values),
        Data::I16(values) => numbers!(values),
        Data::I32(values) => numbers!(values),
        Data::I64(values) => numbers!(values),
        Data::U8(values) | Data::Codes(_, values) => writer.raw(&values[range]),
        Data::U32(values) => numbers!(values),
        Data::U64(values) => numbers!(values),
        Data::Bool(values) => writer.arrays(values[range].iter().map(|&value| [value.into()])),
        Data::String(values) => values[range].iter().for_each(|value| writer.str(value)),
    }
}

/// A tensor: what [`write_head`] and [`write_elements`] wrote.
pub(crate) fn read_tensor(reader: &mut Reader<'_>) -> Result<FloatTensor, DecodeError> {
    let (dtype, shape) = read_head(reader)?;
    let elements = count(&shape).ok_or(DecodeError::Invalid {
        field: "shape of a tensor",
        value: shape.len() as u64,
    })?;
    let data = read_elements(reader, dtype, elements)?;
    FloatTensor::new(shape, data).map_err(|_| DecodeError::Invalid {
        field: "elements of a tensor",
        value: elements as u64,
    })
}

/// The number of elements of a shape, if a tensor can have it.
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    elements(shape)
}

/// What [`write_elements`] wrote of `count` elements.
pub(crate) fn read_elements(
    reader: &mut Reader<'_>,
    dtype: DType,
    count: usize,
) -> Result<Data, DecodeError> {
    if dtype == DType::String {
        return texts(reader, count);
    }
    let bytes = reader.raw(count.saturating_mul(dtype.bytes()))?;
    macro_rules! numbers {
        ($variant:ident, $type:ty) => {
            Data::$variant(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&bytes| <$type>::from_le_bytes(bytes))
                    .collect(),
            )
        };
    }
    Ok(match dtype {
        DType::F32 => numbers!(F32, f32),
        DType::F64 => numbers!(F64, f64),
        DType::F16 => numbers!(F16, u16),
        DType::BF16 => numbers!(BF16, u16),
        DType::I8 => numbers!(I8, i8),
        DType::I16 => numbers!(I16, i16),
        DType::I32 => numbers!(I32, i32),
        DType::I64 => numbers!(I64, i64),
        DType::U8 => Data::U8(bytes.to_vec()),
        DType::U16 => numbers!(U16, u16),
        DType::U32 => numbers!(U32, u32),
        DType::U64 => numbers!(U64, u64),
        DType::Bool => {
            below("truth value", bytes, 1)?;
            Data::Bool(bytes.iter().map(|&byte| byte == 1).collect())
        }
        code => {
            below("code of an element", bytes, code.raw_bits())?;
            Data::Codes(code, bytes.to_vec())
        }
    })
}

/// Checks that every byte has at most this many bits.
fn below(field: &'static str, bytes: &[u8], bits: usize) -> Result<(), DecodeError> {
    match bytes.iter().find(|&&byte| u16::from(byte) >> bits != 0) {
        None => Ok(()),
        Some(&byte) => Err(DecodeError::Invalid {
            field,
            value: byte.into(),
        }),
    }
}

fn texts(reader: &mut Reader<'_>, count: usize) -> Result<Data, DecodeError> {
    // Each has a count of its own.
    let needed = count.saturating_mul(4);
    if needed > reader.remaining() {
        return Err(DecodeError::Truncated {
            offset: reader.offset() + reader.remaining(),
            needed: needed - reader.remaining(),
        });
    }
    let text = |_| Ok(reader.str("text of a tensor", TEXT_BYTES_MAX)?.to_owned());
    Ok(Data::String(
        (0..count).map(text).collect::<Result<_, DecodeError>>()?,
    ))
}
