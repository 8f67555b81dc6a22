//! `ScatterElements`, `ScatterND`, `TensorScatter`.

use super::call::Entry;
use super::call::Half::{Native, Widen};
use super::call::{Call, Results, tensor};
use super::error::OpError;
use super::real::Real;
use super::select::{element_places, slice_places};
use crate::convert::{self, CastMode};
use crate::tensor::{DType, Data, FloatTensor};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "ScatterElements" | "Scatter" => (elements, Widen),
        "ScatterND" => (nd, Widen),
        "TensorScatter" => (cache, Native),
        _ => return None,
    })
}

/// How an update meets what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meeting {
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

fn meeting(call: &Call<'_>) -> Result<Meeting, OpError> {
    Ok(match call.text("reduction", "none")? {
        "none" => Meeting::Replace,
        "add" => Meeting::Add,
        "mul" => Meeting::Mul,
        "max" => Meeting::Max,
        "min" => Meeting::Min,
        _ => return Err(OpError::Attribute { name: "reduction" }),
    })
}

pub(super) fn elements(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let indices = call.integers(1)?;
    let axis = Call::axis(call.int("axis", 0)?, input.rank())?;
    let shape = call.input(1)?.shape();
    if call.input(2)?.shape() != shape {
        return Err(OpError::invalid(
            "indices and updates have different shapes",
        ));
    }
    let places = element_places(call, shape, input.shape(), axis, &indices)?;
    scatter(call, &places, 1)
}

pub(super) fn nd(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let indices = call.integers(1)?;
    call.reserve(indices.len(), DType::U64)?;
    let (starts, length) = slice_places(&indices, call.input(1)?.shape(), input.shape(), 0)?;
    if starts.len().checked_mul(length) != Some(call.input(2)?.len()) {
        return Err(OpError::invalid("the updates do not fit the indices"));
    }
    scatter(call, &starts, length)
}

/// Writes runs of `length` updates to these places, in order.
fn scatter(call: &Call<'_>, starts: &[usize], length: usize) -> Results {
    let (input, updates) = (call.input(0)?, call.input(2)?);
    if input.dtype() != updates.dtype() {
        return Err(call.wrong_type(2));
    }
    call.reserve(input.len(), input.dtype())?;
    let meeting = meeting(call)?;
    let mut data = input.data().clone();
    if meeting == Meeting::Replace {
        for (number, &start) in starts.iter().enumerate() {
            let copied = data.copy_run(start, updates.data(), number * length, length);
            copied.ok_or_else(|| call.wrong_type(2))?;
        }
        return Ok(vec![tensor(input.shape().to_vec(), data)?]);
    }
    let data = match (data, updates.data()) {
        (Data::F32(mut values), Data::F32(updates)) => {
            meet(&mut values, updates, starts, length, |a, b| {
                real(meeting, a, b)
            });
            Data::F32(values)
        }
        (Data::F64(mut values), Data::F64(updates)) => {
            meet(&mut values, updates, starts, length, |a, b| {
                real(meeting, a, b)
            });
            Data::F64(values)
        }
        (data, updates) => {
            call.reserve(input.len() + updates.len(), DType::I64)?;
            let (Some(mut values), Some(updates)) =
                (convert::to_i64(&data), convert::to_i64(updates))
            else {
                return Err(call.wrong_type(0));
            };
            meet(
                &mut values,
                &updates,
                starts,
                length,
                |a, b| match meeting {
                    Meeting::Replace => b,
                    Meeting::Add => a.wrapping_add(b),
                    Meeting::Mul => a.wrapping_mul(b),
                    Meeting::Max => a.max(b),
                    Meeting::Min => a.min(b),
                },
            );
            let data = convert::from_i64(&values, input.dtype(), CastMode::default());
            data.ok_or_else(|| call.wrong_type(0))?
        }
    };
    Ok(vec![tensor(input.shape().to_vec(), data)?])
}

fn real<R: Real>(meeting: Meeting, a: R, b: R) -> R {
    let value = match meeting {
        Meeting::Replace => b,
        Meeting::Add => a + b,
        Meeting::Mul => a * b,
        Meeting::Max => a.larger(b),
        Meeting::Min => a.smaller(b),
    };
    value.canonical()
}

fn meet<T: Copy>(
    values: &mut [T],
    updates: &[T],
    starts: &[usize],
    length: usize,
    function: impl Fn(T, T) -> T,
) {
    for (number, &start) in starts.iter().enumerate() {
        for k in 0..length {
            values[start + k] = function(values[start + k], updates[number * length + k]);
        }
    }
}

/// Writes updates into a cache along an axis, from each batch's own place on.
pub(super) fn cache(call: &Call<'_>) -> Results {
    let (input, updates) = (call.input(0)?, call.input(1)?);
    let axis = Call::axis(call.int("axis", -2)?, input.rank())?;
    let circular = match call.text("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        _ => return Err(OpError::Attribute { name: "mode" }),
    };
    let (shape, update_shape) = (input.shape(), updates.shape());
    let fits = shape.len() == update_shape.len()
        && axis > 0
        && (0..shape.len()).all(|other| {
            update_shape[other] == shape[other]
                || (other == axis && update_shape[other] <= shape[other])
        });
    let batch = shape[0];
    let starts = call.optional_integers(2)?;
    let starts = starts.unwrap_or_else(|| vec![0; batch]);
    if !fits || starts.len() != batch {
        return Err(OpError::invalid("the update does not fit the cache"));
    }
    let rows: usize = shape[1..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let (size, length) = (shape[axis], update_shape[axis]);
    call.reserve(input.len(), input.dtype())?;
    let mut data = input.data().clone();
    for (batch, &start) in starts.iter().enumerate() {
        for row in 0..rows {
            let row = batch * rows + row;
            for k in 0..length {
                let place = start.saturating_add(k as i64);
                let place = if circular {
                    place.rem_euclid(size.max(1) as i64)
                } else {
                    place
                };
                let place = usize::try_from(place).ok().filter(|&place| place < size);
                let place =
                    place.ok_or_else(|| OpError::invalid("the update reaches beyond the cache"))?;
                let (to, from) = ((row * size + place) * inner, (row * length + k) * inner);
                let copied = data.copy_run(to, updates.data(), from, inner);
                copied.ok_or_else(|| call.wrong_type(1))?;
            }
        }
    }
    Ok(vec![
        FloatTensor::new(shape.to_vec(), data).map_err(OpError::Tensor)?,
    ])
}
