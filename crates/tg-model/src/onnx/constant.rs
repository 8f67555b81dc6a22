//! Constant tensors: initialisers and `Constant` nodes.

use super::error::TensorProblem;
use super::proto::{EXTERNAL, TensorProto, data_type};

/// Most axes of a constant.
const AXES_MAX: usize = 8;

/// The elements of a constant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Elements {
    /// Weights.
    Floats(Vec<f32>),
    /// Shapes, axes.
    Integers(Vec<i64>),
}

/// A constant tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constant {
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: Elements,
}

impl Constant {
    /// A list of floats.
    pub(crate) fn floats(values: Vec<f32>) -> Self {
        Self {
            shape: vec![values.len()],
            elements: Elements::Floats(values),
        }
    }

    /// A list of integers.
    pub(crate) fn integers(values: Vec<i64>) -> Self {
        Self {
            shape: vec![values.len()],
            elements: Elements::Integers(values),
        }
    }

    /// The floats, if it holds floats.
    pub(crate) fn as_floats(&self) -> Option<&[f32]> {
        match &self.elements {
            Elements::Floats(values) => Some(values),
            Elements::Integers(_) => None,
        }
    }

    /// The integers, if it holds integers.
    pub(crate) fn as_integers(&self) -> Option<&[i64]> {
        match &self.elements {
            Elements::Floats(_) => None,
            Elements::Integers(values) => Some(values),
        }
    }

    /// The same elements in another shape, if they fill it.
    pub(crate) fn reshaped(&self, shape: Vec<usize>) -> Option<Self> {
        let same = shape.iter().product::<usize>() == self.shape.iter().product::<usize>();
        same.then(|| Self {
            shape,
            elements: self.elements.clone(),
        })
    }

    /// With permuted axes.
    pub(crate) fn transposed(&self, axes: &[usize]) -> Self {
        let source = transposition(&self.shape, axes);
        let elements = match &self.elements {
            Elements::Floats(v) => Elements::Floats(source.iter().map(|&i| v[i]).collect()),
            Elements::Integers(v) => Elements::Integers(source.iter().map(|&i| v[i]).collect()),
        };
        Self {
            shape: axes.iter().map(|&axis| self.shape[axis]).collect(),
            elements,
        }
    }

    /// Reads a tensor of the file.
    pub(crate) fn read(tensor: &TensorProto) -> Result<Self, TensorProblem> {
        if tensor.data_location == EXTERNAL {
            return Err(TensorProblem::External);
        }
        let elements = read_elements(tensor)?;
        let got = match &elements {
            Elements::Floats(values) => values.len(),
            Elements::Integers(values) => values.len(),
        };
        let length = || TensorProblem::Length {
            shape: tensor.dims.clone(),
            got,
        };
        if tensor.dims.len() > AXES_MAX {
            return Err(length());
        }
        let shape: Vec<usize> = tensor
            .dims
            .iter()
            .map(|&axis| usize::try_from(axis))
            .collect::<Result<_, _>>()
            .map_err(|_| length())?;
        let expected = shape
            .iter()
            .try_fold(1usize, |product, &axis| product.checked_mul(axis));
        if expected != Some(got) {
            return Err(length());
        }
        if let Elements::Floats(values) = &elements
            && let Some(index) = values.iter().position(|value| !value.is_finite())
        {
            return Err(TensorProblem::NotFinite {
                index,
                value: values[index].to_string(),
            });
        }
        Ok(Self { shape, elements })
    }
}

/// Per output element (row-major) of a transposition, the input element it takes.
pub(crate) fn transposition(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let mut source = vec![0usize];
    for &axis in axes {
        source = source
            .iter()
            .flat_map(|&base| (0..shape[axis]).map(move |at| (base, at)))
            .map(|(base, at)| base + at * strides[axis])
            .collect();
    }
    source
}

fn read_elements(tensor: &TensorProto) -> Result<Elements, TensorProblem> {
    let raw = tensor.raw_data.as_slice();
    Ok(match tensor.data_type {
        data_type::FLOAT if raw.is_empty() => Elements::Floats(tensor.float_data.clone()),
        data_type::FLOAT => Elements::Floats(read_raw(tensor, f32::from_le_bytes)?),
        data_type::DOUBLE => {
            let values = if raw.is_empty() {
                tensor.double_data.clone()
            } else {
                read_raw(tensor, f64::from_le_bytes)?
            };
            #[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
            let narrowed = values.into_iter().map(|value| value as f32).collect();
            Elements::Floats(narrowed)
        }
        data_type::INT64 if raw.is_empty() => Elements::Integers(tensor.int64_data.clone()),
        data_type::INT64 => Elements::Integers(read_raw(tensor, i64::from_le_bytes)?),
        data_type::INT32 => {
            let values = if raw.is_empty() {
                tensor.int32_data.clone()
            } else {
                read_raw(tensor, i32::from_le_bytes)?
            };
            Elements::Integers(values.into_iter().map(i64::from).collect())
        }
        other => return Err(TensorProblem::ElementType(other)),
    })
}

fn read_raw<T, const N: usize>(
    tensor: &TensorProto,
    convert: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, TensorProblem> {
    let (chunks, rest) = tensor.raw_data.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(TensorProblem::Length {
            shape: tensor.dims.clone(),
            got: chunks.len(),
        });
    }
    Ok(chunks.iter().map(|&chunk| convert(chunk)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(dims: &[i64], values: &[f32]) -> TensorProto {
        TensorProto {
            dims: dims.to_vec(),
            data_type: data_type::FLOAT,
            float_data: values.to_vec(),
            ..TensorProto::default()
        }
    }

    #[test]
    fn raw_and_typed_data_are_the_same() {
        let typed = floats(&[2, 1], &[1.5, -2.0]);
        let raw = TensorProto {
            float_data: Vec::new(),
            raw_data: [1.5f32, -2.0]
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect(),
            ..typed.clone()
        };
        assert_eq!(Constant::read(&typed), Constant::read(&raw));
        let doubles = TensorProto {
            data_type: data_type::DOUBLE,
            float_data: Vec::new(),
            double_data: vec![1.5, -2.0],
            ..typed.clone()
        };
        assert_eq!(Constant::read(&typed), Constant::read(&doubles));
    }

    #[test]
    fn bad_tensors_are_named() {
        let check = |tensor: &TensorProto, expected: TensorProblem| {
            assert_eq!(Constant::read(tensor), Err(expected));
        };
        let good = floats(&[2], &[1.0, 2.0]);
        let length = |shape: &[i64], got| TensorProblem::Length {
            shape: shape.to_vec(),
            got,
        };
        check(&floats(&[3], &[1.0, 2.0]), length(&[3], 2));
        check(&floats(&[-2], &[1.0, 2.0]), length(&[-2], 2));
        check(
            &floats(&[i64::MAX, i64::MAX], &[]),
            length(&[i64::MAX, i64::MAX], 0),
        );
        check(
            &TensorProto {
                data_location: EXTERNAL,
                ..good.clone()
            },
            TensorProblem::External,
        );
        check(
            &TensorProto {
                data_type: 10,
                ..good.clone()
            },
            TensorProblem::ElementType(10),
        );
        check(
            &TensorProto {
                raw_data: vec![0; 7],
                ..good
            },
            length(&[2], 1),
        );
        check(
            &floats(&[2], &[1.0, f32::NAN]),
            TensorProblem::NotFinite {
                index: 1,
                value: "NaN".to_owned(),
            },
        );
    }

    #[test]
    fn transposing_twice_gives_the_tensor_back() {
        let constant = Constant::integers((0..24).collect()).reshaped(vec![2, 3, 4]);
        let constant = constant.expect("fills the shape");
        let there = constant.transposed(&[2, 0, 1]);
        assert_eq!(there.shape, [4, 2, 3]);
        assert_eq!(
            there.as_integers().map(|v| v[..4].to_vec()),
            Some(vec![0, 4, 8, 12])
        );
        assert_eq!(there.transposed(&[1, 2, 0]), constant);
    }
}
