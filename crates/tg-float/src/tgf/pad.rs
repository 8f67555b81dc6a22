//! `Pad` and `CenterCropPad`.
#![allow(
    clippy::clone_on_copy,
    reason = "one expression runs on elements of every type, texts included"
)]

use super::call::Entry;
use super::call::Half::Native;
use super::call::{Call, Results, tensor};
use super::error::OpError;
use super::movement::sizes;
use crate::tensor::{Data, FloatTensor, map_data, strides};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "Pad" => (pad, Native),
        "CenterCropPad" => (center_crop_pad, Native),
        _ => return None,
    })
}

/// How places outside the tensor are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    Constant,
    Edge,
    Reflect,
    Wrap,
}

/// Where the element at `index` (counted from the first of the tensor's) of an axis of `size` comes from.
fn source(fill: Fill, index: i64, size: i64) -> Option<usize> {
    let inside = (0..size).contains(&index);
    let place = match fill {
        _ if inside => index,
        _ if size == 0 => return None,
        Fill::Constant => return None,
        Fill::Edge => index.clamp(0, size - 1),
        Fill::Wrap => index.rem_euclid(size),
        Fill::Reflect if size == 1 => 0,
        Fill::Reflect => {
            let period = 2 * (size - 1);
            let folded = index.rem_euclid(period);
            folded.min(period - folded)
        }
    };
    usize::try_from(place).ok()
}

pub(super) fn pad(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let rank = input.rank();
    let pads = call
        .ints_at(1, "pads")?
        .ok_or(OpError::Missing { index: 1 })?;
    let axes = match call.optional_integers(3)? {
        None => (0..rank).collect(),
        Some(axes) => {
            let axes: Result<Vec<usize>, _> = axes.iter().map(|&a| Call::axis(a, rank)).collect();
            axes?
        }
    };
    if pads.len() != 2 * axes.len() {
        return Err(OpError::invalid("there are not two pads per axis"));
    }
    let fill = match call.text("mode", "constant")? {
        "constant" => Fill::Constant,
        "edge" => Fill::Edge,
        "reflect" => Fill::Reflect,
        "wrap" => Fill::Wrap,
        _ => return Err(OpError::Attribute { name: "mode" }),
    };
    let mut before = vec![0i64; rank];
    let mut shape = input.shape().to_vec();
    for (index, &axis) in axes.iter().enumerate() {
        before[axis] = pads[index];
        let total = pads[index].saturating_add(pads[index + axes.len()]);
        let size = (shape[axis] as i64).saturating_add(total);
        shape[axis] = usize::try_from(size)
            .map_err(|_| OpError::invalid("more is cut away than there is"))?;
    }
    let value = match call.optional(2) {
        Some(value) if value.len() == 1 && value.dtype() == input.dtype() => value.clone(),
        Some(value) if !value.is_empty() => return Err(call.wrong_type(2)),
        _ => match call.optional_float("value")? {
            Some(value) if input.values::<f32>().is_some() => FloatTensor::scalar(value),
            _ => tensor(Vec::new(), Data::zeros(input.dtype(), 1))?,
        },
    };
    Ok(vec![fill_shape(call, &shape, &before, fill, &value)?])
}

/// A tensor of `shape` whose place `before` is the first of the input's.
fn fill_shape(
    call: &Call<'_>,
    shape: &[usize],
    before: &[i64],
    fill: Fill,
    value: &FloatTensor,
) -> Result<FloatTensor, OpError> {
    let input = call.input(0)?;
    let count = call.reserve_shape(shape, input.dtype())?;
    let own = strides(input.shape());
    let mut sources: Vec<Vec<Option<usize>>> = Vec::with_capacity(shape.len());
    for (axis, &size) in shape.iter().enumerate() {
        // A place, and whether there is one.
        call.reserve(size.saturating_mul(2), crate::tensor::DType::U64)?;
        let place = |index: usize| {
            let index = (index as i64).saturating_sub(before[axis]);
            source(fill, index, input.shape()[axis] as i64).map(|place| place * own[axis])
        };
        sources.push((0..size).map(place).collect());
    }
    let data = map_data!(input.data(), values => {
        let filler = || match value.data().dtype() == input.dtype() {
            true => first_like(values, value),
            false => None,
        };
        let mut out = match filler() {
            Some(filler) => vec![filler; count],
            None => return Err(call.wrong_type(2)),
        };
        scatter_places(shape, &sources, |to, from| out[to] = values[from].clone());
        out
    });
    tensor(shape.to_vec(), data)
}

/// The first element of `tensor` as an element of the same type as `values`.
fn first_like<T: Clone + 'static>(_values: &[T], tensor: &FloatTensor) -> Option<T> {
    use crate::tensor::with_data;
    with_data!(tensor.data(), own => {
        let any: Option<&dyn std::any::Any> = own.first().map(|value| value as &dyn std::any::Any);
        any.and_then(|value| value.downcast_ref::<T>()).cloned()
    })
}

/// Calls `copy` for every place of the result that comes from the input.
fn scatter_places(
    shape: &[usize],
    sources: &[Vec<Option<usize>>],
    mut copy: impl FnMut(usize, usize),
) {
    let Some((&length, outer)) = shape.split_last() else {
        copy(0, 0);
        return;
    };
    let rows: usize = outer.iter().product();
    if length == 0 {
        return;
    }
    let mut index = vec![0usize; outer.len()];
    for row in 0..rows {
        let base = index.iter().zip(sources).map(|(&i, places)| places[i]);
        if let Some(base) = base.sum::<Option<usize>>() {
            for (k, place) in sources[outer.len()].iter().enumerate() {
                if let Some(place) = place {
                    copy(row * length + k, base + place);
                }
            }
        }
        for axis in (0..outer.len()).rev() {
            index[axis] += 1;
            if index[axis] < outer[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// Cuts or pads around the middle.
pub(super) fn center_crop_pad(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let wanted = sizes(&call.integers(1)?)?;
    let axes = match call.ints("axes")? {
        None => (0..input.rank()).collect(),
        Some(axes) => {
            let axes: Result<Vec<usize>, _> =
                axes.iter().map(|&a| Call::axis(a, input.rank())).collect();
            axes?
        }
    };
    if wanted.len() != axes.len() {
        return Err(OpError::invalid("there is not one size per axis"));
    }
    let mut shape = input.shape().to_vec();
    let mut before = vec![0i64; input.rank()];
    for (&axis, &size) in axes.iter().zip(&wanted) {
        let (old, new) = (shape[axis] as i64, size as i64);
        // The odd element is cut from, or added at, the end.
        before[axis] = if new >= old {
            (new - old) / 2
        } else {
            -((old - new) / 2)
        };
        shape[axis] = size;
    }
    let zero = tensor(Vec::new(), Data::zeros(input.dtype(), 1))?;
    Ok(vec![fill_shape(
        call,
        &shape,
        &before,
        Fill::Constant,
        &zero,
    )?])
}
