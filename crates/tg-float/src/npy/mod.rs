//! Tensors as numpy files.

pub mod header;

use super::tensor::{Data, FloatTensor};
use header::NpyProblem;

/// Reads a numpy array of numbers or truth values (C order, little-endian).
///
/// # Errors
/// If it is no such array; nothing is allocated because of a stated shape.
pub fn read_npy(bytes: &[u8]) -> Result<FloatTensor, NpyProblem> {
    let raw = header::raw(bytes)?;
    let words = |width| raw.check_length(width).map(|()| raw.data);
    let data = match raw.descr {
        "<f4" => Data::F32(each(words(4)?, f32::from_le_bytes)),
        "<f8" => Data::F64(each(words(8)?, f64::from_le_bytes)),
        "<f2" => Data::F16(each(words(2)?, u16::from_le_bytes)),
        "<i8" => Data::I64(each(words(8)?, i64::from_le_bytes)),
        "<i4" => Data::I32(each(words(4)?, i32::from_le_bytes)),
        "<i2" => Data::I16(each(words(2)?, i16::from_le_bytes)),
        "|i1" => Data::I8(each(words(1)?, i8::from_le_bytes)),
        "<u8" => Data::U64(each(words(8)?, u64::from_le_bytes)),
        "<u4" => Data::U32(each(words(4)?, u32::from_le_bytes)),
        "<u2" => Data::U16(each(words(2)?, u16::from_le_bytes)),
        "|u1" => Data::U8(each(words(1)?, u8::from_le_bytes)),
        "|b1" => Data::Bool(each(words(1)?, |[byte]| byte != 0)),
        other => return Err(NpyProblem::ElementType(other.chars().take(16).collect())),
    };
    FloatTensor::new(raw.shape, data).map_err(|_| NpyProblem::Header)
}

fn each<T, const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes
        .as_chunks::<N>()
        .0
        .iter()
        .map(|&word| read(word))
        .collect()
}

/// A tensor as a numpy file (version 1); nothing for strings and small floats, which numpy has no name for.
#[must_use]
pub fn write_npy(tensor: &FloatTensor) -> Option<Vec<u8>> {
    fn all<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|&value| bytes(value)).collect()
    }
    let (descr, data) = match tensor.data() {
        Data::F32(values) => ("<f4", all(values, f32::to_le_bytes)),
        Data::F64(values) => ("<f8", all(values, f64::to_le_bytes)),
        Data::F16(values) => ("<f2", all(values, u16::to_le_bytes)),
        Data::I64(values) => ("<i8", all(values, i64::to_le_bytes)),
        Data::I32(values) => ("<i4", all(values, i32::to_le_bytes)),
        Data::I16(values) => ("<i2", all(values, i16::to_le_bytes)),
        Data::I8(values) => ("|i1", all(values, i8::to_le_bytes)),
        Data::U64(values) => ("<u8", all(values, u64::to_le_bytes)),
        Data::U32(values) => ("<u4", all(values, u32::to_le_bytes)),
        Data::U16(values) => ("<u2", all(values, u16::to_le_bytes)),
        Data::U8(values) => ("|u1", values.clone()),
        Data::Bool(values) => ("|b1", all(values, |value| [u8::from(value)])),
        Data::BF16(_) | Data::Codes(..) | Data::String(_) => return None,
    };
    let axes: String = tensor
        .shape()
        .iter()
        .map(|axis| format!("{axis}, "))
        .collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}");
    // Magic, version, length and header fill a multiple of 64 bytes, the last one a line feed.
    let width = (header.len() + 11).next_multiple_of(64) - 11;
    header.extend(std::iter::repeat_n(' ', width - header.len()));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).ok()?.to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_type_is_read_back() {
        let shapes = [vec![2, 3], vec![6], vec![1, 6, 1]];
        let data = [
            Data::F32(vec![0.5, -1.0, f32::MAX, 0.0, 1e-40, 7.0]),
            Data::F64(vec![0.5; 6]),
            Data::F16(vec![1, 2, 3, 4, 5, 6]),
            Data::I64(vec![i64::MIN, 0, 1, 2, 3, i64::MAX]),
            Data::I32(vec![-1; 6]),
            Data::I16(vec![-2; 6]),
            Data::I8(vec![-3; 6]),
            Data::U64(vec![u64::MAX; 6]),
            Data::U32(vec![4; 6]),
            Data::U16(vec![5; 6]),
            Data::U8(vec![6; 6]),
            Data::Bool(vec![true, false, true, true, false, false]),
        ];
        for (index, data) in data.into_iter().enumerate() {
            let tensor = FloatTensor::new(shapes[index % 3].clone(), data).unwrap();
            assert_eq!(read_npy(&write_npy(&tensor).unwrap()).unwrap(), tensor);
        }
        let scalar = FloatTensor::scalar(3i64);
        assert_eq!(read_npy(&write_npy(&scalar).unwrap()).unwrap(), scalar);
    }

    #[test]
    fn bytes_that_do_not_fill_the_shape_are_refused() {
        let tensor = FloatTensor::vector(vec![1f32, 2.0]);
        let mut bytes = write_npy(&tensor).unwrap();
        bytes.pop();
        assert!(matches!(read_npy(&bytes), Err(NpyProblem::Length { .. })));
        assert!(write_npy(&FloatTensor::vector(vec!["a".to_owned()])).is_none());
    }
}
