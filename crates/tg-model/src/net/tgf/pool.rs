//! Pooling.

use super::Half::{Native, Widen};
use super::call::{Call, Results, one, tensor};
use super::real::{Real, by_real};
use super::window::Window;
use super::{Entry, OpError};
use crate::net::tensor::{DType, Data, Element, strides};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::Kernel = match op {
        "MaxPool" => max_pool,
        "AveragePool" => |call| by_real!(call, 0, average_pool(call)),
        "LpPool" => |call| by_real!(call, 0, norm_pool(call)),
        "GlobalAveragePool" => |call| by_real!(call, 0, global(call, Global::Mean)),
        "GlobalMaxPool" => |call| by_real!(call, 0, global(call, Global::Max)),
        "GlobalLpPool" => |call| by_real!(call, 0, global(call, Global::Norm)),
        "MaxUnpool" => return Some((max_unpool, Native)),
        _ => return None,
    };
    Some((kernel, Widen))
}

/// Planes (batch times channels) and the window.
fn pool_window(call: &Call<'_>) -> Result<(usize, Window), OpError> {
    let [batch, channels, image @ ..] = call.input(0)?.shape() else {
        return Err(OpError::invalid("the input has no channels"));
    };
    if image.is_empty() {
        return Err(OpError::invalid("the input has no image"));
    }
    Ok((batch * channels, Window::new(call, image, None)?))
}

fn output_shape(call: &Call<'_>, window: &Window) -> Result<Vec<usize>, OpError> {
    let mut shape = call.input(0)?.shape()[..2].to_vec();
    shape.extend_from_slice(&window.output);
    Ok(shape)
}

/// Calls `visit` with every position, and for each the places of its taps within the image, in order, and the number
/// of taps within the padded image.
fn windows(window: &Window, mut visit: impl FnMut(usize, &[usize], usize)) {
    let steps = strides(&window.input);
    let axes = window.input.len();
    let positions: usize = window.output.iter().product();
    let mut places = Vec::new();
    let mut at = vec![0usize; axes];
    for position in 0..positions {
        // Taps along each axis that lie in the image, and in the padded image.
        places.clear();
        places.push(0);
        let mut padded = 1;
        for axis in 0..axes {
            let start = at[axis] * window.strides[axis];
            let end = window.input[axis] + window.before[axis];
            let inside = |tap: &usize| {
                let place = start + tap * window.dilations[axis];
                (window.before[axis]..end).contains(&place)
            };
            let within =
                |tap: &usize| start + tap * window.dilations[axis] < end + window.after[axis];
            padded *= (0..window.kernel[axis]).filter(within).count();
            let before = places.len();
            let taps = (0..window.kernel[axis]).filter(inside);
            let along: Vec<usize> = taps
                .map(|tap| {
                    (start + tap * window.dilations[axis] - window.before[axis]) * steps[axis]
                })
                .collect();
            let mut next = Vec::with_capacity(before * along.len());
            for &base in &places {
                next.extend(along.iter().map(|step| base + step));
            }
            places = next;
        }
        visit(position, &places, padded);
        for axis in (0..axes).rev() {
            at[axis] += 1;
            if at[axis] < window.output[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
}

fn max_pool(call: &Call<'_>) -> Results {
    match call.input(0)?.data() {
        Data::F32(values) => max_of(call, values, |a, b| b > a || (b.is_nan() && !a.is_nan())),
        Data::F64(values) => max_of(call, values, |a, b| b > a || (b.is_nan() && !a.is_nan())),
        Data::I8(values) => max_of(call, values, |a, b| b > a),
        Data::U8(values) => max_of(call, values, |a, b| b > a),
        _ => Err(call.wrong_type(0)),
    }
}

/// The largest element of each window, the first of equal ones, and its index in the whole tensor.
fn max_of<T: Element + Copy>(
    call: &Call<'_>,
    values: &[T],
    better: impl Fn(T, T) -> bool,
) -> Results {
    let (planes, window) = pool_window(call)?;
    let shape = output_shape(call, &window)?;
    let positions = window.positions()?;
    let image: usize = window.input.iter().product();
    let count = call.reserve_shape(&shape, T::DTYPE)?;
    let wants = call.wants(1);
    if wants {
        call.reserve(count, DType::I64)?;
    }
    if count == 0 || image == 0 {
        return Err(OpError::invalid("the image is empty"));
    }
    let column_major = call.flag("storage_order", false)?;
    let mut out = vec![values[0]; count];
    let mut indices = vec![0i64; if wants { count } else { 0 }];
    let mut empty = false;
    windows(&window, |position, places, _| {
        let Some((&first, rest)) = places.split_first() else {
            empty = true;
            return;
        };
        for plane in 0..planes {
            let own = &values[plane * image..(plane + 1) * image];
            let mut best = first;
            for &place in rest {
                if better(own[best], own[place]) {
                    best = place;
                }
            }
            out[plane * positions + position] = own[best];
            if wants {
                let place = if column_major {
                    columns_first(best, &window.input)
                } else {
                    best
                };
                indices[plane * positions + position] = (plane * image + place) as i64;
            }
        }
    });
    if empty {
        return Err(OpError::invalid("a window lies wholly in the padding"));
    }
    let mut results = vec![tensor(shape.clone(), T::wrap(out))?];
    if wants {
        results.push(tensor(shape, Data::I64(indices))?);
    }
    Ok(results)
}

/// The index of a row-major place when the last axes are stored first axis fastest.
fn columns_first(place: usize, shape: &[usize]) -> usize {
    let at = Window::coordinates(place, shape);
    at.iter()
        .zip(shape)
        .rev()
        .fold(0, |sum, (&at, &size)| sum * size + at)
}

fn average_pool<R: Real>(call: &Call<'_>) -> Results {
    let values = call.values::<R>(0)?;
    let (planes, window) = pool_window(call)?;
    let with_padding = call.flag("count_include_pad", false)?;
    let shape = output_shape(call, &window)?;
    let mut out = call.filled(&shape, R::ZERO)?;
    let positions = window.positions()?;
    let image: usize = window.input.iter().product();
    windows(&window, |position, places, padded| {
        let count = if with_padding { padded } else { places.len() };
        for plane in 0..planes {
            let own = &values[plane * image..(plane + 1) * image];
            let sum = places.iter().fold(R::ZERO, |sum, &place| sum + own[place]);
            out[plane * positions + position] = (sum / R::of(count as f64)).canonical();
        }
    });
    one(shape, out)
}

/// The p-norm of absolute values; 1 and 2 without powers.
fn norm_of<R: Real>(values: impl Iterator<Item = R>, p: i64) -> R {
    let value = match p {
        1 => values.fold(R::ZERO, |sum, v| sum + v.abs()),
        2 => values.fold(R::ZERO, |sum, v| v.fma(v, sum)).sqrt(),
        _ => {
            let power = R::of(p as f64);
            let sum = values.fold(R::ZERO, |sum, v| sum + v.abs().pow(power));
            sum.pow(R::ONE / power)
        }
    };
    value.canonical()
}

fn norm_pool<R: Real>(call: &Call<'_>) -> Results {
    let values = call.values::<R>(0)?;
    let (planes, window) = pool_window(call)?;
    let p = call.int("p", 2)?;
    let shape = output_shape(call, &window)?;
    let mut out = call.filled(&shape, R::ZERO)?;
    let positions = window.positions()?;
    let image: usize = window.input.iter().product();
    windows(&window, |position, places, _| {
        for plane in 0..planes {
            let own = &values[plane * image..(plane + 1) * image];
            out[plane * positions + position] = norm_of(places.iter().map(|&place| own[place]), p);
        }
    });
    one(shape, out)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Global {
    Mean,
    Max,
    Norm,
}

fn global<R: Real>(call: &Call<'_>, kind: Global) -> Results {
    let values = call.values::<R>(0)?;
    let [batch, channels, image @ ..] = call.input(0)?.shape() else {
        return Err(OpError::invalid("the input has no channels"));
    };
    let size: usize = image.iter().product();
    let mut shape = vec![*batch, *channels];
    shape.resize(2 + image.len(), 1);
    let count = call.reserve_shape(&shape, R::DTYPE)?;
    if size == 0 || count == 0 {
        return Err(OpError::invalid("the image is empty"));
    }
    let p = call.int("p", 2)?;
    let out = match kind {
        Global::Mean => super::norm::row_sums(values, size, |sum, v| sum + v)
            .into_iter()
            .map(|sum| (sum / R::of(size as f64)).canonical())
            .collect(),
        Global::Max => values
            .chunks_exact(size)
            .map(|plane| plane.iter().fold(-R::INFINITY, |top, &v| top.larger(v)))
            .collect(),
        Global::Norm => values
            .chunks_exact(size)
            .map(|plane| norm_of(plane.iter().copied(), p))
            .collect(),
    };
    one(shape, out)
}

/// Puts values where a `MaxPool` found them.
fn max_unpool(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let indices = call.integers(1)?;
    let [batch, channels, image @ ..] = input.shape() else {
        return Err(OpError::invalid("the input has no channels"));
    };
    if indices.len() != input.len() {
        return Err(OpError::invalid("there is not one index per element"));
    }
    let count = image.len();
    let kernel = super::window::per_axis(call, "kernel_shape", count, 1)?;
    let kernel = kernel.ok_or(OpError::Attribute {
        name: "kernel_shape",
    })?;
    let strides_of = super::window::per_axis(call, "strides", count, 1)?;
    let strides_of = strides_of.unwrap_or_else(|| vec![1; count]);
    let pads = super::window::per_axis(call, "pads", 2 * count, 0)?;
    let pads = pads.unwrap_or_else(|| vec![0; 2 * count]);
    let mut inferred = vec![*batch, *channels];
    for axis in 0..count {
        let full = image[axis].saturating_sub(1) * strides_of[axis] + kernel[axis];
        inferred.push(full.saturating_sub(pads[axis] + pads[axis + count]));
    }
    let shape = match call.optional_integers(2)? {
        Some(shape) => super::movement::sizes(&shape)?,
        None => inferred.clone(),
    };
    if shape.len() != inferred.len() {
        return Err(OpError::invalid("the output has other axes than the input"));
    }
    let total = call.reserve_shape(&shape, input.dtype())?;
    let own = strides(&shape);
    let inner = strides(&inferred);
    let mut data = Data::zeros(input.dtype(), total);
    for (from, &index) in indices.iter().enumerate() {
        // Indices are into the shape the pool saw; the output may be larger.
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let to: usize = inferred
            .iter()
            .zip(&inner)
            .zip(&own)
            .map(|((&size, inner), own)| index / inner % size.max(1) * own)
            .sum();
        if to >= total {
            return Err(OpError::invalid("an index is beyond the output"));
        }
        let copied = data.copy_run(to, input.data(), from, 1);
        copied.ok_or_else(|| call.wrong_type(0))?;
    }
    Ok(vec![tensor(shape, data)?])
}
