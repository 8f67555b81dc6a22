//! Quantised operators: scales and zero points as the file gives them.

use super::call::Entry;
use super::call::Half::{Native, Widen};
use super::call::{Call, Results, tensor};
use super::centred::centred;
use super::conv::quantised_sums;
use super::error::OpError;
use super::linear::{Batches, WIDE_UNITS};
use super::real::Sizes;
use crate::convert::{self, CastMode, canonical};
use crate::tensor::{DType, Data, FloatTensor};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "QuantizeLinear" => (quantize, Native),
        "DequantizeLinear" => (dequantize, Native),
        "DynamicQuantizeLinear" => (dynamic, Widen),
        "QLinearMatMul" => (linear_matmul, Native),
        "QLinearConv" => (linear_conv, Native),
        "MatMulInteger" => (matmul_integer, Native),
        _ => return None,
    })
}

/// The function of an operator of `com.microsoft`.
pub(super) fn lookup_microsoft(op: &str) -> Option<Entry> {
    Some(match op {
        "QuantizeLinear" => (quantize, Native),
        "DequantizeLinear" => (dequantize, Native),
        _ => return None,
    })
}

/// Smallest and largest number of an integer type.
fn range(dtype: DType) -> Option<(i64, i64)> {
    Some(match dtype {
        DType::U8 => (0, 255),
        DType::I8 => (-128, 127),
        DType::U16 => (0, 65_535),
        DType::I16 => (-32_768, 32_767),
        DType::U4 => (0, 15),
        DType::I4 => (-8, 7),
        DType::U2 => (0, 3),
        DType::I2 => (-2, 1),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        _ => return None,
    })
}

/// Which scale belongs to an element.
#[derive(Debug, Clone, Copy)]
enum Scales {
    /// The only one.
    Tensor,
    /// One per slice of an axis of `size`, each step `inner` elements.
    Axis { size: usize, inner: usize },
    /// One per `block` slices of the axis and per element of the other axes; `along` of them on the axis.
    Block {
        size: usize,
        inner: usize,
        block: usize,
        along: usize,
    },
}

impl Scales {
    fn new(call: &Call<'_>, shape: &[usize], scale: &FloatTensor) -> Result<Self, OpError> {
        if scale.len() == 1 {
            return Ok(Self::Tensor);
        }
        let axis = Call::axis(call.int("axis", 1)?, shape.len())?;
        let size = shape[axis];
        let inner = shape[axis + 1..].iter().product();
        let bad = || OpError::invalid("the scales do not fit the input");
        if scale.rank() <= 1 {
            return if scale.len() == size {
                Ok(Self::Axis { size, inner })
            } else {
                Err(bad())
            };
        }
        let along = *scale.shape().get(axis).ok_or_else(bad)?;
        let fits = scale.rank() == shape.len()
            && (0..shape.len()).all(|other| other == axis || scale.shape()[other] == shape[other]);
        let stated = usize::try_from(call.int("block_size", 0)?).unwrap_or(0);
        let block = if stated > 0 {
            stated
        } else {
            size.div_ceil(along.max(1))
        };
        if !fits || block == 0 || size.div_ceil(block) != along {
            return Err(bad());
        }
        Ok(Self::Block {
            size,
            inner,
            block,
            along,
        })
    }

    /// Index of the scale of an element.
    const fn of(self, index: usize) -> usize {
        match self {
            Self::Tensor => 0,
            Self::Axis { size, inner } => index / inner % size,
            Self::Block {
                size,
                inner,
                block,
                along,
            } => {
                let (row, column) = (index / inner, index % inner);
                (row / size * along + row % size / block) * inner + column
            }
        }
    }
}

fn quantize(call: &Call<'_>) -> Results {
    let (input, scale) = (call.input(0)?, call.input(1)?);
    let named = super::cast::dtype_attribute(call, "output_dtype")?;
    let target = match call.optional(2) {
        Some(zero) => zero.dtype(),
        None => named.unwrap_or(DType::U8),
    };
    let scales = Scales::new(call, input.shape(), scale)?;
    call.reserve(input.len().saturating_mul(3), DType::F64)?;
    let x = quotients(call, &scales)?;
    let data = if let Some((low, high)) = range(target) {
        let zero = match call.optional(2) {
            Some(zero) => convert::to_i64(zero.data()).ok_or_else(|| call.wrong_type(2))?,
            None => vec![0; scale.len()],
        };
        if zero.len() != scale.len() {
            return Err(OpError::invalid("zero points and scales differ in number"));
        }
        let one = |(index, x): (usize, &f32)| {
            // Rounded to i64 first, so that a NaN is zero and infinity saturates.
            let rounded = x.round_ties_even() as i64;
            let zero = zero[scales.of(index)];
            rounded.saturating_add(zero).clamp(low, high)
        };
        let values: Vec<i64> = x.iter().enumerate().map(one).collect();
        convert::from_i64(&values, target, CastMode::default())
    } else if target.is_code() {
        let mode = CastMode {
            saturate: call.flag("saturate", true)?,
            ..CastMode::default()
        };
        let wide: Vec<f64> = x.iter().map(|&x| x.into()).collect();
        convert::from_f64(&wide, target, mode)
    } else {
        return Err(call.wrong_type(2));
    };
    Ok(vec![tensor(
        input.shape().to_vec(),
        data.ok_or_else(|| call.wrong_type(2))?,
    )?])
}

/// Elements divided by their scales, rounded to the precision of the division.
fn quotients(call: &Call<'_>, scales: &Scales) -> Result<Vec<f32>, OpError> {
    let (input, scale) = (call.input(0)?, call.input(1)?);
    let x = convert::to_f32(input.data()).ok_or_else(|| call.wrong_type(0))?;
    let divisors = convert::to_f32(scale.data()).ok_or_else(|| call.wrong_type(1))?;
    let precision = match super::cast::dtype_attribute(call, "precision")? {
        Some(precision) => precision,
        None if input.dtype() == scale.dtype() => scale.dtype(),
        None => DType::F32,
    };
    let quotient = |(index, x): (usize, &f32)| x / divisors[scales.of(index)];
    let values: Vec<f32> = x.iter().enumerate().map(quotient).collect();
    if !precision.is_half() {
        return Ok(values);
    }
    let rounded = convert::from_f32(values, precision).and_then(|data| convert::to_f32(&data));
    rounded.ok_or_else(|| call.wrong_type(1))
}

fn dequantize(call: &Call<'_>) -> Results {
    let (input, scale) = (call.input(0)?, call.input(1)?);
    let target = super::cast::dtype_attribute(call, "output_dtype")?.unwrap_or(scale.dtype());
    let scales = Scales::new(call, input.shape(), scale)?;
    call.reserve(input.len().saturating_mul(3), DType::F64)?;
    let factors = convert::to_f32(scale.data()).ok_or_else(|| call.wrong_type(1))?;
    let zero = match call.optional(2) {
        Some(zero) if zero.len() != scale.len() => {
            return Err(OpError::invalid("zero points and scales differ in number"));
        }
        Some(zero) => Some(convert::to_f64(zero.data()).ok_or_else(|| call.wrong_type(2))?),
        None => None,
    };
    let x = convert::to_f64(input.data()).ok_or_else(|| call.wrong_type(0))?;
    let value = |(index, x): (usize, &f64)| {
        let place = scales.of(index);
        // The difference of two integers of 32 bits is exact in binary64, then rounded once.
        let difference = (x - zero.as_ref().map_or(0.0, |zero| zero[place])) as f32;
        canonical(difference * factors[place])
    };
    let values: Vec<f32> = x.iter().enumerate().map(value).collect();
    let data = convert::from_f32(values, target).ok_or_else(|| call.wrong_type(1))?;
    Ok(vec![tensor(input.shape().to_vec(), data)?])
}

fn dynamic(call: &Call<'_>) -> Results {
    let x = call.values::<f32>(0)?;
    call.reserve(x.len(), DType::F32)?;
    let (mut low, mut high) = (0f32, 0f32);
    for &value in x {
        low = low.min(value);
        high = high.max(value);
    }
    let scale = if high == low { 1.0 } else { high - low } / 255.0;
    let zero = (-low / scale).clamp(0.0, 255.0).round_ties_even();
    let values = x
        .iter()
        .map(|&x| ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8)
        .collect();
    Ok(vec![
        tensor(call.input(0)?.shape().to_vec(), Data::U8(values))?,
        FloatTensor::scalar(scale),
        FloatTensor::scalar(zero as u8),
    ])
}

fn products(batches: &Batches, call: &Call<'_>, a: &[i64], b: &[i64]) -> Result<Vec<i64>, OpError> {
    let Sizes { m, n, k } = batches.sizes;
    call.charge(&[batches.offsets.len(), m, n, k, WIDE_UNITS])?;
    batches.each(call, 0i64, a, b, |a, b, out| {
        for (row, out) in out.chunks_exact_mut(n).enumerate() {
            for p in 0..k {
                let factor = a[row * k + p];
                for (out, &value) in out.iter_mut().zip(&b[p * n..(p + 1) * n]) {
                    *out = out.wrapping_add(factor.wrapping_mul(value));
                }
            }
        }
    })
}

fn matmul_integer(call: &Call<'_>) -> Results {
    let batches = Batches::new(call, call.input(0)?.shape(), call.input(1)?.shape())?;
    call.reserve(call.input(0)?.len() + call.input(1)?.len(), DType::I64)?;
    let rank = call.input(0)?.rank();
    let a = centred(call, 0, 2, (rank > 1).then_some(-2))?;
    let b = centred(call, 1, 3, Some(-1))?;
    let sums = products(&batches, call, &a, &b)?;
    let data = convert::from_i64(&sums, DType::I32, CastMode::default());
    Ok(vec![tensor(
        batches.shape,
        data.ok_or_else(|| call.wrong_type(0))?,
    )?])
}

/// Sums times `a_scale * b_scale / y_scale` (in that order, in f32), rounded to even, moved by the zero point.
fn requantised(
    call: &Call<'_>,
    sums: &[i64],
    [a_scale, b_scale, y_scale, y_zero]: [usize; 4],
    column: impl Fn(usize) -> usize,
) -> Result<Data, OpError> {
    let scale = |index: usize| -> Result<Vec<f32>, OpError> {
        let list = call
            .optional_floats(index)?
            .ok_or(OpError::Missing { index })?;
        if list.is_empty() {
            return Err(OpError::invalid("a scale is empty"));
        }
        Ok(list)
    };
    let (a, b, y) = (scale(a_scale)?, scale(b_scale)?, scale(y_scale)?);
    if a.len() != 1 || y.len() != 1 {
        return call.refuse("scales per row");
    }
    let zero = call.input(y_zero)?;
    let target = zero.dtype();
    let zero = convert::to_i64(zero.data()).and_then(|values| values.first().copied());
    let zero = zero.ok_or_else(|| call.wrong_type(y_zero))?;
    let (low, high) = range(target).ok_or_else(|| call.wrong_type(y_zero))?;
    let factors: Vec<f32> = b.iter().map(|b| a[0] * b / y[0]).collect();
    let mut values = Vec::with_capacity(sums.len());
    for (index, &sum) in sums.iter().enumerate() {
        let place = if factors.len() == 1 { 0 } else { column(index) };
        let factor = factors.get(place).copied();
        let factor = factor.ok_or_else(|| OpError::invalid("the scales do not fit the output"))?;
        let scaled = (sum as f32 * factor).round_ties_even() as i64;
        values.push(scaled.saturating_add(zero).clamp(low, high));
    }
    convert::from_i64(&values, target, CastMode::default()).ok_or_else(|| call.wrong_type(y_zero))
}

fn linear_matmul(call: &Call<'_>) -> Results {
    let (a, b) = (call.input(0)?, call.input(3)?);
    let batches = Batches::new(call, a.shape(), b.shape())?;
    call.reserve((a.len() + b.len()).saturating_mul(2), DType::I64)?;
    let a = centred(call, 0, 2, (a.rank() > 1).then_some(-2))?;
    let b = centred(call, 3, 5, Some(-1))?;
    let sums = products(&batches, call, &a, &b)?;
    let n = batches.sizes.n.max(1);
    let data = requantised(call, &sums, [1, 4, 6, 7], |index| index % n)?;
    Ok(vec![tensor(batches.shape, data)?])
}

fn linear_conv(call: &Call<'_>) -> Results {
    let (x, w) = (call.input(0)?, call.input(3)?);
    call.reserve((x.len() + w.len()).saturating_mul(2), DType::I64)?;
    let x = centred(call, 0, 2, None)?;
    let w = centred(call, 3, 5, Some(0))?;
    let (shape, mut sums) = quantised_sums(call, &x, &w)?;
    let channels = shape[1].max(1);
    let plane: usize = shape[2..].iter().product::<usize>().max(1);
    if let Some(bias) = call.optional_integers(8)? {
        if bias.len() != channels {
            return Err(OpError::invalid(
                "the bias does not have one number per channel",
            ));
        }
        for (index, sum) in sums.iter_mut().enumerate() {
            *sum = sum.wrapping_add(bias[index / plane % channels]);
        }
    }
    let data = requantised(call, &sums, [1, 4, 6, 7], |index| index / plane % channels)?;
    Ok(vec![tensor(shape, data)?])
}
