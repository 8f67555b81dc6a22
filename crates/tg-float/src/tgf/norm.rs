//! Softmax and normalisations.

use super::call::Entry;
use super::call::Half::Widen;
use super::call::{Call, Results, one, tensor};
use super::each::by_real;
use super::error::OpError;
use super::machine::{in_parts, vectorised};
use super::real::Real;
use super::reduce::Reduced;
use super::rows::{SIDE, row_sums, side_by_side, softmax_sizes};
use crate::tensor::FloatTensor;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "Softmax" => |call| by_real!(call, 0, softmax(call)),
        "LogSoftmax" => |call| by_real!(call, 0, log_softmax(call)),
        "LayerNormalization" => |call| by_real!(call, 0, layer(call)),
        "RMSNormalization" => |call| by_real!(call, 0, root_mean_square(call)),
        "BatchNormalization" => |call| by_real!(call, 0, batch(call)),
        "InstanceNormalization" => |call| by_real!(call, 0, instance(call)),
        "GroupNormalization" => |call| by_real!(call, 0, group(call)),
        "LpNormalization" => |call| by_real!(call, 0, length(call)),
        "MeanVarianceNormalization" => |call| by_real!(call, 0, mean_variance(call)),
        "LRN" => |call| by_real!(call, 0, local_response(call)),
        _ => return None,
    };
    Some((kernel, Widen))
}

fn softmax<R: Real>(call: &Call<'_>) -> Results {
    let sizes = softmax_sizes(call)?;
    let shape = call.input(0)?.shape();
    let values = call.values::<R>(0)?;
    let mut out = call.buffer(shape)?;
    if sizes[2] == 1 && sizes[1] > 0 {
        let size = sizes[1];
        in_parts(
            &mut out,
            size,
            #[inline(always)]
            |first, out| {
                out.copy_from_slice(&values[first * size..][..out.len()]);
                softmax_rows(out, size);
            },
        );
    } else {
        out.copy_from_slice(values);
        rows(call, &mut out, sizes, softmax_row)?;
    }
    one(shape.to_vec(), out)
}

fn log_softmax<R: Real>(call: &Call<'_>) -> Results {
    let sizes = softmax_sizes(call)?;
    let mut out = call.values::<R>(0)?.to_vec();
    call.reserve(out.len(), R::DTYPE)?;
    rows(call, &mut out, sizes, |row| {
        let top = largest(row);
        let mut sum = R::ZERO;
        for value in row.iter_mut() {
            *value = *value - top;
            sum = sum + value.exp();
        }
        let log = sum.ln();
        for value in row.iter_mut() {
            *value = (*value - log).canonical();
        }
    })?;
    one(call.input(0)?.shape().to_vec(), out)
}

/// NaN if one is; which of equal ones does not matter, so that it is taken in lanes.
#[inline(always)]
fn largest<R: Real>(row: &[R]) -> R {
    const LANES: usize = 16;
    let (chunks, rest) = row.as_chunks::<LANES>();
    let mut tops = [-R::INFINITY; LANES];
    for chunk in chunks {
        for (top, &value) in tops.iter_mut().zip(chunk) {
            *top = top.larger(value);
        }
    }
    let top = tops
        .iter()
        .fold(-R::INFINITY, |top, &value| top.larger(value));
    rest.iter().fold(top, |top, &value| top.larger(value))
}

/// `e^(x - largest)` divided by their sum, taken in ascending order.
pub(super) fn softmax_row<R: Real>(row: &mut [R]) {
    let size = row.len().max(1);
    vectorised(
        #[inline(always)]
        || softmax_rows(row, size),
    );
}

/// The same for rows of `size` elements.
#[inline(always)]
fn softmax_rows<R: Real>(values: &mut [R], size: usize) {
    for block in values.chunks_mut(SIDE * size) {
        for row in block.chunks_exact_mut(size) {
            let top = largest(row);
            for value in row.iter_mut() {
                *value = (*value - top).exp();
            }
        }
        let sums = side_by_side(
            block,
            size,
            #[inline(always)]
            |_, sum, value| sum + value,
        );
        for (row, sum) in block.chunks_exact_mut(size).zip(sums) {
            for value in row {
                *value = (*value / sum).canonical();
            }
        }
    }
}

/// Calls `function` on each row, gathered where rows are not contiguous.
fn rows<R: Real>(
    call: &Call<'_>,
    values: &mut [R],
    [outer, size, inner]: [usize; 3],
    function: impl Fn(&mut [R]),
) -> Result<(), OpError> {
    if size == 0 {
        return Ok(());
    }
    if inner == 1 {
        for row in values.chunks_exact_mut(size) {
            function(row);
        }
        return Ok(());
    }
    let mut row = call.filled(&[size], R::ZERO)?;
    for block in 0..outer {
        for column in 0..inner {
            let place = |k: usize| (block * size + k) * inner + column;
            for (k, slot) in row.iter_mut().enumerate() {
                *slot = values[place(k)];
            }
            function(&mut row);
            for (k, &value) in row.iter().enumerate() {
                values[place(k)] = value;
            }
        }
    }
    Ok(())
}

/// Mean and `1 / sqrt(variance + epsilon)` of each row, one after the other; the variance is the mean of squared
/// distances from the mean.
fn moments<R: Real>(
    call: &Call<'_>,
    values: &[R],
    size: usize,
    epsilon: f32,
) -> Result<Vec<R>, OpError> {
    let size = size.max(1);
    let count = R::of(size as f64);
    let epsilon = R::of(epsilon.into());
    let mut moments = call.buffer::<R>(&[values.len() / size, 2])?;
    in_parts(
        &mut moments,
        2,
        #[inline(always)]
        |first, moments| {
            let values = &values[first * size..][..moments.len() / 2 * size];
            let blocks = moments.chunks_mut(2 * SIDE).zip(values.chunks(SIDE * size));
            for (moments, rows) in blocks {
                let mut means = side_by_side(
                    rows,
                    size,
                    #[inline(always)]
                    |_, sum, value| sum + value,
                );
                for mean in &mut means {
                    *mean = *mean / count;
                }
                let squares = side_by_side(
                    rows,
                    size,
                    #[inline(always)]
                    |row, sum, value| {
                        let distance = value - means[row];
                        distance.fma(distance, sum)
                    },
                );
                for ((moments, mean), sum) in moments.chunks_exact_mut(2).zip(means).zip(squares) {
                    moments[0] = mean;
                    moments[1] = R::ONE / (sum / count + epsilon).sqrt();
                }
            }
        },
    );
    Ok(moments)
}

/// The elements of an optional input of this float type.
fn parameter<'a, R: Real>(call: &Call<'a>, index: usize) -> Result<Option<&'a [R]>, OpError> {
    call.optional_values::<R>(index)
}

/// Scale and bias of the normalised axes, repeated to fill them.
fn affine<R: Real>(
    call: &Call<'_>,
    index: usize,
    axes: &[usize],
) -> Result<Option<Vec<R>>, OpError> {
    let Some(input) = call.optional(index) else {
        return Ok(None);
    };
    if input.rank() > axes.len()
        && input.shape()[..input.rank() - axes.len()]
            .iter()
            .any(|&a| a != 1)
    {
        return call.refuse("a scale with more axes than are normalised");
    }
    let squeezed = FloatTensor::new(
        input.shape()[input.rank().saturating_sub(axes.len())..].to_vec(),
        input.data().clone(),
    );
    let squeezed = squeezed.map_err(OpError::Tensor)?;
    let shape = super::broadcast::broadcast_shape(&[squeezed.shape(), axes])?;
    if shape != axes {
        return Err(OpError::invalid(
            "the scale does not fit the normalised axes",
        ));
    }
    let data = super::broadcast::expand(call, &squeezed, axes)?;
    match R::slice(&data) {
        Some(values) => Ok(Some(values.to_vec())),
        None => Err(call.wrong_type(index)),
    }
}

/// `(x - mean) * factor` along rows, then `* scale + bias` in one fused step; mean and factor of each row in turn.
fn apply<R: Real>(
    values: &[R],
    moments: &[R],
    size: usize,
    [scale, bias]: [Option<&[R]>; 2],
    out: &mut [R],
) {
    let size = size.max(1);
    in_parts(
        out,
        size,
        #[inline(always)]
        |first, out| {
            let moments = moments[2 * first..].chunks_exact(2);
            let rows = out
                .chunks_exact_mut(size)
                .zip(values[first * size..].chunks_exact(size));
            for ((out, row), moments) in rows.zip(moments) {
                let (mean, factor) = (moments[0], moments[1]);
                let pairs = out.iter_mut().zip(row);
                match (scale, bias) {
                    (Some(scale), Some(bias)) => {
                        for (((out, &value), &scale), &bias) in pairs.zip(scale).zip(bias) {
                            *out = ((value - mean) * factor).fma(scale, bias).canonical();
                        }
                    }
                    (Some(scale), None) => {
                        for ((out, &value), &scale) in pairs.zip(scale) {
                            *out = ((value - mean) * factor * scale).canonical();
                        }
                    }
                    _ => {
                        for (out, &value) in pairs {
                            *out = ((value - mean) * factor).canonical();
                        }
                    }
                }
            }
        },
    );
}

fn layer<R: Real>(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let values = call.values::<R>(0)?;
    let shape = input.shape();
    let axis = Call::axis(call.int("axis", -1)?, shape.len())?;
    let size: usize = shape[axis..].iter().product();
    let moments = moments(call, values, size, call.float("epsilon", 1e-5)?)?;
    let scale = affine::<R>(call, 1, &shape[axis..])?;
    let bias = affine::<R>(call, 2, &shape[axis..])?;
    let mut out = call.buffer(shape)?;
    apply(
        values,
        &moments,
        size,
        [scale.as_deref(), bias.as_deref()],
        &mut out,
    );
    let mut outer = shape.to_vec();
    outer[axis..].fill(1);
    let part = |offset: usize| -> Vec<R> {
        let own = moments.iter().skip(offset).step_by(2);
        own.copied().collect()
    };
    let mut results = vec![tensor(shape.to_vec(), R::wrap(out))?];
    for (index, moment) in [(1, 0), (2, 1)] {
        if call.node.outputs.len() > index {
            results.push(tensor(outer.clone(), R::wrap(part(moment)))?);
        }
    }
    Ok(results)
}

fn root_mean_square<R: Real>(call: &Call<'_>) -> Results {
    let shape = call.input(0)?.shape();
    let values = call.values::<R>(0)?;
    let axis = Call::axis(call.int("axis", -1)?, shape.len())?;
    let size: usize = shape[axis..].iter().product();
    let epsilon = R::of(call.float("epsilon", 1e-5)?.into());
    let scale = affine::<R>(call, 1, &shape[axis..])?;
    let sums = row_sums(
        values,
        size,
        #[inline(always)]
        |sum, v| v.fma(v, sum),
    );
    // A mean of 0 leaves every bit of a number that is subtracted from.
    let moments: Vec<R> = sums
        .iter()
        .flat_map(|&sum| {
            [
                R::ZERO,
                R::ONE / (sum / R::of(size as f64) + epsilon).sqrt(),
            ]
        })
        .collect();
    let mut out = call.buffer(shape)?;
    apply(values, &moments, size, [scale.as_deref(), None], &mut out);
    one(shape.to_vec(), out)
}

/// Sizes of batch, channels and the rest of an image tensor.
fn image_sizes(call: &Call<'_>) -> Result<[usize; 3], OpError> {
    match call.input(0)?.shape() {
        [batch, channels, rest @ ..] => Ok([*batch, *channels, rest.iter().product()]),
        [batch] => Ok([*batch, 1, 1]),
        [] => Err(OpError::invalid("the input has no channels")),
    }
}

/// Per channel: `(x - mean) * (scale / sqrt(variance + epsilon)) + bias`, the last two in one fused step.
fn batch<R: Real>(call: &Call<'_>) -> Results {
    let [batch, channels, rest] = image_sizes(call)?;
    let shape = call.input(0)?.shape();
    let values = call.values::<R>(0)?;
    let epsilon = R::of(call.float("epsilon", 1e-5)?.into());
    let floats = |index: usize| -> Result<Vec<R>, OpError> {
        let list = crate::convert::to_f64(call.input(index)?.data());
        let list = list.ok_or_else(|| call.wrong_type(index))?;
        if list.len() != channels {
            return Err(OpError::invalid(
                "a parameter does not have one number per channel",
            ));
        }
        Ok(list.into_iter().map(R::of).collect())
    };
    let (scale, bias) = (floats(1)?, floats(2)?);
    let (given_mean, given_variance) = (floats(3)?, floats(4)?);
    let training = call.flag("training_mode", false)?;
    let (mean, variance) = if training {
        channel_moments(values, [batch, channels, rest])
    } else {
        (given_mean.clone(), given_variance.clone())
    };
    let mut out = call.filled(shape, R::ZERO)?;
    let planes = out
        .chunks_exact_mut(rest.max(1))
        .zip(values.chunks_exact(rest.max(1)));
    for (plane, (out, x)) in planes.enumerate() {
        let channel = plane % channels.max(1);
        let factor = scale[channel] / (variance[channel] + epsilon).sqrt();
        let (mean, bias) = (mean[channel], bias[channel]);
        vectorised(
            #[inline(always)]
            || {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = (x - mean).fma(factor, bias).canonical();
                }
            },
        );
    }
    let mut results = vec![tensor(shape.to_vec(), R::wrap(out))?];
    if training {
        let momentum = R::of(call.float("momentum", 0.9)?.into());
        let mix = |old: &[R], new: &[R]| -> Vec<R> {
            let one = |(&old, &new): (&R, &R)| old * momentum + new * (R::ONE - momentum);
            old.iter().zip(new).map(one).collect()
        };
        results.push(tensor(vec![channels], R::wrap(mix(&given_mean, &mean)))?);
        results.push(tensor(
            vec![channels],
            R::wrap(mix(&given_variance, &variance)),
        )?);
    }
    Ok(results)
}

/// Mean and variance of each channel over batch and image.
fn channel_moments<R: Real>(values: &[R], sizes: [usize; 3]) -> (Vec<R>, Vec<R>) {
    let [batch, _, rest] = sizes;
    let reduced = Reduced::new(&sizes, &[0, 2], false);
    let count = R::of((batch * rest) as f64);
    let sums = reduced.fold(values, R::ZERO, |sum, v| sum + v);
    let mean: Vec<R> = sums.into_iter().map(|sum| sum / count).collect();
    let mut squares = vec![R::ZERO; mean.len()];
    reduced.fold_into(values, &mut squares, |channel, sum, v| {
        let distance = v - mean[channel];
        distance.fma(distance, sum)
    });
    let variance = squares.into_iter().map(|sum| sum / count).collect();
    (mean, variance)
}

fn instance<R: Real>(call: &Call<'_>) -> Results {
    let [_, channels, rest] = image_sizes(call)?;
    grouped::<R>(call, rest, |plane| plane % channels.max(1), 1)
}

/// Scale and bias are per channel from version 21 on, per group before.
fn group<R: Real>(call: &Call<'_>) -> Results {
    let [_, channels, rest] = image_sizes(call)?;
    let groups = usize::try_from(call.int("num_groups", 0)?).unwrap_or(0);
    if groups == 0 || channels % groups != 0 {
        return Err(OpError::invalid("the groups do not divide the channels"));
    }
    let per_group = channels / groups;
    let size = per_group * rest;
    if call.input(1)?.len() == channels {
        grouped::<R>(call, size, |row| row % groups * per_group, per_group)
    } else {
        grouped::<R>(call, size, |row| row % groups, 1)
    }
}

/// Normalises rows of `size` elements; a row has `parts` equal parts with a scale and a bias each, the first given by
/// `first`.
fn grouped<R: Real>(
    call: &Call<'_>,
    size: usize,
    first: impl Fn(usize) -> usize,
    parts: usize,
) -> Results {
    let shape = call.input(0)?.shape();
    let values = call.values::<R>(0)?;
    let moments = moments(call, values, size, call.float("epsilon", 1e-5)?)?;
    let (scale, bias) = (parameter::<R>(call, 1)?, parameter::<R>(call, 2)?);
    let part = (size / parts.max(1)).max(1);
    let mut out = call.buffer(shape)?;
    let rows = out
        .chunks_exact_mut(size.max(1))
        .zip(values.chunks_exact(size.max(1)));
    for (row, ((out, values), moments)) in rows.zip(moments.chunks_exact(2)).enumerate() {
        let (mean, factor) = (moments[0], moments[1]);
        let planes = out.chunks_exact_mut(part).zip(values.chunks_exact(part));
        for (index, (out, values)) in planes.enumerate() {
            let channel = first(row) + index;
            let pick = |list: Option<&[R]>, default: R| match list {
                None => Ok(default),
                Some(list) => list.get(channel).copied().ok_or_else(|| {
                    OpError::invalid("a parameter does not have one number per channel")
                }),
            };
            let (scale, bias) = (pick(scale, R::ONE)?, pick(bias, R::ZERO)?);
            vectorised(
                #[inline(always)]
                || {
                    for (out, &value) in out.iter_mut().zip(values) {
                        *out = ((value - mean) * factor).fma(scale, bias).canonical();
                    }
                },
            );
        }
    }
    one(shape.to_vec(), out)
}

fn length<R: Real>(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let axis = Call::axis(call.int("axis", -1)?, input.rank())?;
    let p = call.int("p", 2)?;
    let shape = input.shape();
    let sizes = [
        shape[..axis].iter().product(),
        shape[axis],
        shape[axis + 1..].iter().product(),
    ];
    let mut out = call.values::<R>(0)?.to_vec();
    call.reserve(out.len(), R::DTYPE)?;
    if p != 1 && p != 2 {
        return Err(OpError::invalid("the norm is neither 1 nor 2"));
    }
    rows(call, &mut out, sizes, |row| {
        let norm = if p == 1 {
            row.iter().fold(R::ZERO, |sum, v| sum + v.abs())
        } else {
            row.iter().fold(R::ZERO, |sum, &v| v.fma(v, sum)).sqrt()
        };
        for value in row {
            // A row of zeros stays.
            *value = if norm == R::ZERO {
                R::ZERO
            } else {
                (*value / norm).canonical()
            };
        }
    })?;
    one(shape.to_vec(), out)
}

fn mean_variance<R: Real>(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let values = call.values::<R>(0)?;
    let axes = Call::axes(call.ints("axes")?.unwrap_or(&[0, 2, 3]), input.rank())?;
    let reduced = Reduced::new(input.shape(), &axes, true);
    let count = R::of(reduced.depth as f64);
    let mut mean = reduced.fold(values, R::ZERO, |sum, v| sum + v);
    for mean in &mut mean {
        *mean = *mean / count;
    }
    let mut squares = vec![R::ZERO; mean.len()];
    reduced.fold_into(values, &mut squares, |place, sum, v| {
        let distance = v - mean[place];
        distance.fma(distance, sum)
    });
    let mut out = call.filled(input.shape(), R::ZERO)?;
    let [p, q] = reduced.walk.inner;
    reduced.walk.for_each(|[from, to]| {
        for k in 0..reduced.walk.length {
            let place = to + k * q;
            // ONNX's own epsilon.
            let deviation = (squares[place] / count).sqrt() + R::of(1e-9);
            let value = (values[from + k * p] - mean[place]) / deviation;
            out[from + k * p] = value.canonical();
        }
    });
    one(input.shape().to_vec(), out)
}

fn local_response<R: Real>(call: &Call<'_>) -> Results {
    let [batch, channels, rest] = image_sizes(call)?;
    let values = call.values::<R>(0)?;
    let size = usize::try_from(call.int("size", 0)?).unwrap_or(0);
    if size == 0 {
        return Err(OpError::invalid("the window has no channel"));
    }
    let alpha = R::of(f64::from(call.float("alpha", 1e-4)?)) / R::of(size as f64);
    let beta = R::of(call.float("beta", 0.75)?.into());
    let bias = R::of(call.float("bias", 1.0)?.into());
    let mut out = call.filled(call.input(0)?.shape(), R::ZERO)?;
    call.charge_steps(&[values.len(), size.min(channels)])?;
    for n in 0..batch {
        for c in 0..channels {
            let from = c.saturating_sub((size - 1) / 2);
            let to = (c + size / 2 + 1).min(channels);
            for p in 0..rest {
                let at = |c: usize| (n * channels + c) * rest + p;
                let sum = (from..to).fold(R::ZERO, |sum, c| values[at(c)].fma(values[at(c)], sum));
                let divisor = alpha.fma(sum, bias).pow(beta);
                out[at(c)] = (values[at(c)] / divisor).canonical();
            }
        }
    }
    one(call.input(0)?.shape().to_vec(), out)
}
