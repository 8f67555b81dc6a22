//! Operators that choose elements: gather, scatter, sort, find.

use super::call::Entry;
use super::call::Half::{Native, Widen};
use super::call::{Call, Results, one, tensor};
use super::error::OpError;
use super::meter::sort_depth;
use crate::convert;
use crate::tensor::{DType, Data, FloatTensor, strides, with_data};
use std::cmp::Ordering;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "Gather" => (gather, Native),
        "GatherElements" => (gather_elements, Native),
        "GatherND" => (gather_nd, Native),
        "OneHot" => (one_hot, Native),
        "Compress" => (compress, Native),
        "NonZero" => (non_zero, Native),
        "Unique" => (unique, Native),
        "TopK" => (top_k, Native),
        "NonMaxSuppression" => (super::boxes::non_max_suppression, Widen),
        _ => return None,
    })
}

/// An index into an axis of `size`, counted from the end if negative.
pub(super) fn place(index: i64, size: usize) -> Result<usize, OpError> {
    let from_start = if index < 0 {
        index.saturating_add(size as i64)
    } else {
        index
    };
    match usize::try_from(from_start) {
        Ok(place) if place < size => Ok(place),
        _ => Err(OpError::invalid(format!(
            "the index {index} is beyond an axis of {size}"
        ))),
    }
}

fn gather(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let indices = call.integers(1)?;
    let axis = Call::axis(call.int("axis", 0)?, input.rank())?;
    let shape = input.shape();
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let mut out = shape[..axis].to_vec();
    out.extend_from_slice(call.input(1)?.shape());
    out.extend_from_slice(&shape[axis + 1..]);
    call.reserve_shape(&out, input.dtype())?;
    call.reserve(outer.saturating_mul(indices.len()), DType::U64)?;
    let mut starts = Vec::with_capacity(outer * indices.len());
    for row in 0..outer {
        for &index in &indices {
            starts.push((row * shape[axis] + place(index, shape[axis])?) * inner);
        }
    }
    Ok(vec![tensor(out, input.data().gather_runs(&starts, inner))?])
}

/// Offset of every index of `shape` into a tensor with these strides, the axis' own coordinate taken from `indices`.
pub(super) fn element_places(
    call: &Call<'_>,
    shape: &[usize],
    target: &[usize],
    axis: usize,
    indices: &[i64],
) -> Result<Vec<usize>, OpError> {
    let fits = shape.len() == target.len()
        && (0..shape.len()).all(|other| other == axis || shape[other] <= target[other]);
    if !fits {
        return Err(OpError::invalid("the indices reach beyond the input"));
    }
    call.reserve(indices.len(), DType::U64)?;
    call.charge_steps(&[indices.len(), shape.len()])?;
    let steps = strides(target);
    let mut index = vec![0usize; shape.len()];
    let mut places = Vec::with_capacity(indices.len());
    for &chosen in indices {
        let along = place(chosen, target[axis])?;
        let base: usize = (0..shape.len())
            .filter(|&other| other != axis)
            .map(|other| index[other] * steps[other])
            .sum();
        places.push(base + along * steps[axis]);
        for other in (0..shape.len()).rev() {
            index[other] += 1;
            if index[other] < shape[other] {
                break;
            }
            index[other] = 0;
        }
    }
    Ok(places)
}

fn gather_elements(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let indices = call.integers(1)?;
    let axis = Call::axis(call.int("axis", 0)?, input.rank())?;
    let shape = call.input(1)?.shape();
    let places = element_places(call, shape, input.shape(), axis, &indices)?;
    call.reserve(places.len(), input.dtype())?;
    Ok(vec![tensor(shape.to_vec(), input.data().gather(&places))?])
}

/// Offsets of the slices that rows of indices name: indices of shape `[batch.., rows.., depth]` into `shape`.
pub(super) fn slice_places(
    indices: &[i64],
    index_shape: &[usize],
    shape: &[usize],
    batch_axes: usize,
) -> Result<(Vec<usize>, usize), OpError> {
    let bad = || OpError::invalid("the indices do not fit the input");
    let (&depth, rows) = index_shape.split_last().ok_or_else(bad)?;
    if batch_axes > rows.len()
        || batch_axes + depth > shape.len()
        || rows[..batch_axes] != shape[..batch_axes]
    {
        return Err(bad());
    }
    let steps = strides(shape);
    let length: usize = shape[batch_axes + depth..].iter().product();
    let batch_length: usize = shape[batch_axes..].iter().product();
    let rows_per_batch: usize = rows[batch_axes..].iter().product();
    let count: usize = rows.iter().product();
    let mut starts = Vec::with_capacity(count);
    for row in 0..count {
        let mut start = row / rows_per_batch.max(1) * batch_length;
        for k in 0..depth {
            let axis = batch_axes + k;
            start += place(indices[row * depth + k], shape[axis])? * steps[axis];
        }
        starts.push(start);
    }
    Ok((starts, length))
}

fn gather_nd(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let indices = call.integers(1)?;
    let batch_axes = usize::try_from(call.int("batch_dims", 0)?).unwrap_or(usize::MAX);
    let index_shape = call.input(1)?.shape();
    if batch_axes > index_shape.len() || batch_axes > input.rank() {
        return Err(OpError::invalid("there are fewer axes than batch axes"));
    }
    call.reserve(indices.len(), DType::U64)?;
    let (starts, length) = slice_places(&indices, index_shape, input.shape(), batch_axes)?;
    let (&depth, rows) = index_shape
        .split_last()
        .ok_or(OpError::Missing { index: 1 })?;
    let mut out = rows.to_vec();
    out.extend_from_slice(&input.shape()[batch_axes + depth..]);
    call.reserve_shape(&out, input.dtype())?;
    Ok(vec![tensor(
        out,
        input.data().gather_runs(&starts, length),
    )?])
}

fn one_hot(call: &Call<'_>) -> Results {
    let indices = call.input(0)?;
    let wanted = convert::to_f64(indices.data()).ok_or_else(|| call.wrong_type(0))?;
    let depth = call
        .optional_floats(1)?
        .and_then(|depth| depth.first().copied());
    let depth = depth.filter(|&depth| (1.0..1e9).contains(&depth));
    let depth = depth.ok_or_else(|| OpError::invalid("the depth is out of range"))? as usize;
    let values = call.input(2)?;
    if values.len() != 2 {
        return Err(OpError::invalid("there are not two values"));
    }
    let axis = Call::axis(call.int("axis", -1)?, indices.rank() + 1)?;
    let mut shape = indices.shape().to_vec();
    shape.insert(axis, depth);
    call.reserve_shape(&shape, values.dtype())?;
    let count = call.reserve_shape(&shape, DType::U64)?;
    let inner: usize = shape[axis + 1..].iter().product();
    let mut places = vec![0usize; count];
    for (index, &wanted) in wanted.iter().enumerate() {
        let from_start = if wanted < 0.0 {
            wanted + depth as f64
        } else {
            wanted
        };
        if from_start >= 0.0 && from_start < depth as f64 && from_start.floor() == from_start {
            let (row, column) = (index / inner.max(1), index % inner.max(1));
            places[(row * depth + from_start as usize) * inner + column] = 1;
        }
    }
    Ok(vec![tensor(shape, values.data().gather(&places))?])
}

fn compress(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let condition = call.values::<bool>(1)?;
    let (shape, axis) = match call.optional_int("axis")? {
        Some(axis) => (input.shape().to_vec(), Call::axis(axis, input.rank())?),
        None => (vec![input.len()], 0),
    };
    let chosen: Vec<usize> = (0..condition.len()).filter(|&k| condition[k]).collect();
    if chosen.last().is_some_and(|&last| last >= shape[axis]) {
        return Err(OpError::invalid("the condition reaches beyond the axis"));
    }
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    call.reserve(input.len(), input.dtype())?;
    let starts: Vec<usize> = (0..outer)
        .flat_map(|row| chosen.iter().map(move |k| (row, *k)))
        .map(|(row, k)| (row * shape[axis] + k) * inner)
        .collect();
    let mut out = shape;
    out[axis] = chosen.len();
    Ok(vec![tensor(out, input.data().gather_runs(&starts, inner))?])
}

fn non_zero(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    call.reserve(input.len(), DType::F64)?;
    call.charge_steps(&[input.len(), 4 + input.rank()])?;
    let values = convert::to_f64(input.data()).ok_or_else(|| call.wrong_type(0))?;
    let found: Vec<usize> = (0..values.len()).filter(|&k| values[k] != 0.0).collect();
    let shape = input.shape();
    let steps = strides(shape);
    call.reserve(found.len().saturating_mul(shape.len()), DType::I64)?;
    let mut out = Vec::with_capacity(found.len() * shape.len());
    for (&size, step) in shape.iter().zip(steps) {
        out.extend(found.iter().map(|&k| (k / step % size) as i64));
    }
    one(vec![shape.len(), found.len()], out)
}

/// Order of numbers with NaN last.
fn order<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| {
        // A NaN is not equal to itself.
        let nan = |value: &T| value.partial_cmp(value).is_none();
        nan(a).cmp(&nan(b))
    })
}

/// Steps of comparing two elements that are sorted.
const SORT_STEPS: usize = 6;

fn unique(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let sorted = call.flag("sorted", true)?;
    let (shape, axis) = match call.optional_int("axis")? {
        Some(axis) => (input.shape().to_vec(), Call::axis(axis, input.rank())?),
        None => (vec![input.len()], 0),
    };
    let count = shape[axis];
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    call.reserve(input.len().saturating_mul(2), input.dtype())?;
    // Places, and for each group a list of its own.
    call.reserve(count.saturating_mul(12), DType::I64)?;
    call.charge_steps(&[input.len().max(count), SORT_STEPS, sort_depth(count)])?;
    // Order of two slices along the axis, element by element.
    let compare = |a: usize, b: usize| -> Ordering {
        with_data!(input.data(), values => {
            for row in 0..outer {
                for column in 0..inner {
                    let at = |k: usize| &values[(row * count + k) * inner + column];
                    let order = order(at(a), at(b));
                    if order != Ordering::Equal {
                        return order;
                    }
                }
            }
            Ordering::Equal
        })
    };
    let mut by_value: Vec<usize> = (0..count).collect();
    by_value.sort_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
    // Groups of equal slices, each ascending by index, so that its first is the first occurrence.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in by_value {
        match groups.last_mut() {
            Some(group) if compare(group[0], index) == Ordering::Equal => group.push(index),
            _ => groups.push(vec![index]),
        }
    }
    if !sorted {
        groups.sort_by_key(|group| group[0]);
    }
    let first: Vec<usize> = groups.iter().map(|group| group[0]).collect();
    let mut inverse = vec![0i64; count];
    for (number, group) in groups.iter().enumerate() {
        for &index in group {
            inverse[index] = number as i64;
        }
    }
    let starts: Vec<usize> = (0..outer)
        .flat_map(|row| first.iter().map(move |k| (row, *k)))
        .map(|(row, k)| (row * count + k) * inner)
        .collect();
    let mut out = shape;
    out[axis] = first.len();
    Ok(vec![
        tensor(out, input.data().gather_runs(&starts, inner))?,
        FloatTensor::vector(first.iter().map(|&k| k as i64).collect::<Vec<_>>()),
        FloatTensor::vector(inverse),
        FloatTensor::vector(
            groups
                .iter()
                .map(|group| group.len() as i64)
                .collect::<Vec<_>>(),
        ),
    ])
}

/// The largest (or smallest) elements, in order; of equal ones the lowest index first.
fn top_k(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let axis = Call::axis(call.int("axis", -1)?, input.rank())?;
    let largest = call.flag("largest", true)?;
    let k = match call.optional_int("k")? {
        Some(k) => k,
        None => call
            .optional_integer(1)?
            .ok_or(OpError::Missing { index: 1 })?,
    };
    let shape = input.shape();
    let size = shape[axis];
    let k = usize::try_from(k).ok().filter(|&k| k <= size);
    let k = k.ok_or_else(|| OpError::invalid("more elements are wanted than there are"))?;
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let mut out = shape.to_vec();
    out[axis] = k;
    let count = call.reserve_shape(&out, DType::I64)?;
    call.reserve(count + input.len(), DType::F64)?;
    call.reserve(size, DType::U64)?;
    call.charge_steps(&[input.len(), SORT_STEPS, sort_depth(size)])?;
    let keys = match convert::to_i64(input.data()) {
        Some(values) => Keys::Integers(values),
        None => Keys::Floats(convert::to_f64(input.data()).ok_or_else(|| call.wrong_type(0))?),
    };
    let (mut places, mut indices) = (vec![0usize; count], vec![0i64; count]);
    for row in 0..outer {
        for column in 0..inner {
            let at = |i: usize| (row * size + i) * inner + column;
            let mut rank: Vec<usize> = (0..size).collect();
            rank.sort_by(|&a, &b| {
                let order = keys.compare(at(a), at(b));
                let order = if largest { order.reverse() } else { order };
                order.then(a.cmp(&b))
            });
            for (number, &index) in rank.iter().take(k).enumerate() {
                let to = (row * k + number) * inner + column;
                places[to] = at(index);
                indices[to] = index as i64;
            }
        }
    }
    Ok(vec![
        tensor(out.clone(), input.data().gather(&places))?,
        tensor(out, Data::I64(indices))?,
    ])
}

enum Keys {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

impl Keys {
    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            Self::Integers(values) => values[a].cmp(&values[b]),
            Self::Floats(values) => order(&values[a], &values[b]),
        }
    }
}
