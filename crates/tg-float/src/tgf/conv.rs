//! Convolutions. A sum runs over the input channels of the group, and within a channel over the taps row-major;
//! padding counts as +0; the bias is added last.

use super::call::Entry;
use super::call::Half::{Native, Widen};
use super::call::{Call, Results, one, tensor};
use super::centred::centred;
use super::each::by_real;
use super::error::OpError;
use super::linear::WIDE_UNITS;
use super::real::Real;
use super::real::Sizes;
use super::window::Window;
use crate::convert::{self, CastMode};
use crate::kernels::conv_f32_scratch;
use crate::tensor::{DType, Element};
use tg_exec::kernels::{Conv2d, Sliding};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "Conv" => conv,
        "ConvTranspose" => |call| by_real!(call, 0, transpose(call)),
        "CausalConvWithState" => |call| by_real!(call, 0, causal(call)),
        "Col2Im" => |call| by_real!(call, 0, col2im(call)),
        "DeformConv" => |call| by_real!(call, 0, deform(call)),
        "ConvInteger" => return Some((conv_integer, Native)),
        _ => return None,
    };
    Some((kernel, Widen))
}

/// Steps of an element of the gathered matrix.
const GATHER_STEPS: usize = 2;

/// Steps of an element that is added to the image under its window.
const SPREAD_STEPS: usize = 64;

/// Steps of a value between four pixels.
const BILINEAR_STEPS: usize = 24;

/// Elements of the gathered matrix that are made at a time.
const BLOCK: usize = 1 << 18;

/// Sizes of a convolution.
pub(super) struct Shape {
    pub(super) batch: usize,
    pub(super) channels: usize,
    pub(super) outputs: usize,
    pub(super) groups: usize,
    pub(super) window: Window,
}

impl Shape {
    /// Of these input and weight shapes and the node's attributes.
    pub(super) fn new(call: &Call<'_>, x: &[usize], w: &[usize]) -> Result<Self, OpError> {
        let bad = || OpError::invalid(format!("{x:?} and the weights {w:?} do not fit together"));
        let ([batch, channels, image @ ..], [outputs, per_group, kernel @ ..]) = (x, w) else {
            return Err(bad());
        };
        let groups = usize::try_from(call.int("group", 1)?).unwrap_or(0);
        let fits = groups > 0
            && !image.is_empty()
            && kernel.len() == image.len()
            && per_group.checked_mul(groups) == Some(*channels)
            && outputs.is_multiple_of(groups);
        if !fits {
            return Err(bad());
        }
        if call.flag("ceil_mode", false)? {
            return Err(OpError::Attribute { name: "ceil_mode" });
        }
        let window = Window::new(call, image, Some(kernel))?;
        let positions = window.positions()?;
        call.charge(&[*batch, *outputs, positions, *per_group, window.taps()])?;
        // Padding is written too.
        let padded = (0..image.len()).map(|axis| window.padded(axis));
        let planes = [*batch, *channels].into_iter().chain(padded);
        call.charge_steps(&planes.collect::<Vec<_>>())?;
        Ok(Self {
            batch: *batch,
            channels: *channels,
            outputs: *outputs,
            groups,
            window,
        })
    }

    fn output(&self) -> Vec<usize> {
        let mut shape = vec![self.batch, self.outputs];
        shape.extend_from_slice(&self.window.output);
        shape
    }

    /// Convolves with the kernel for one or two spatial axes, where the type has one.
    fn fast<R: Real>(
        &self,
        call: &Call<'_>,
        x: &[R],
        w: &[R],
        bias: Option<&[R]>,
    ) -> Result<Option<Vec<R>>, OpError> {
        let window = &self.window;
        let pair = |values: &[usize], missing: usize| match *values {
            [one] => Some([missing, one]),
            [first, second] => Some([first, second]),
            _ => None,
        };
        let (Some(image), Some(kernel), Some(stride), Some(dilation), Some(before), Some(after)) = (
            pair(&window.input, 1),
            pair(&window.kernel, 1),
            pair(&window.strides, 1),
            pair(&window.dilations, 1),
            pair(&window.before, 0),
            pair(&window.after, 0),
        ) else {
            return Ok(None);
        };
        let conv = Conv2d {
            sliding: Sliding {
                image,
                kernel,
                stride,
                pads: [before[0], before[1], after[0], after[1]],
                dilation,
                spread: [1, 1],
            },
            inputs: self.channels,
            outputs: self.outputs,
            groups: self.groups,
        };
        let shape = self.output();
        if x.is_empty() || w.is_empty() || crate::tensor::elements(&shape).unwrap_or(0) == 0 {
            return Ok(None);
        }
        let scratch = conv_f32_scratch(&conv);
        call.reserve(scratch, R::DTYPE)?;
        let mut out = call.filled(&shape, R::ZERO)?;
        let size = out.len() / self.batch;
        let image = x.len() / self.batch;
        for (x, out) in x.chunks_exact(image).zip(out.chunks_exact_mut(size)) {
            if !R::convolve(&conv, x, w, bias, out) {
                call.release(scratch, R::DTYPE);
                return Ok(None);
            }
        }
        call.release(scratch, R::DTYPE);
        Ok(Some(out))
    }

    /// Convolves with `product` (sizes, weights, gathered inputs, result).
    pub(super) fn run<T: Element + Copy>(
        &self,
        call: &Call<'_>,
        x: &[T],
        w: &[T],
        zero: T,
        product: impl Fn(Sizes, &[T], &[T], &mut [T]),
    ) -> Result<Vec<T>, OpError> {
        let shape = self.output();
        let mut out = call.filled(&shape, zero)?;
        let positions = self.window.positions()?;
        let (channels, outputs) = (self.channels / self.groups, self.outputs / self.groups);
        let depth = channels * self.window.taps();
        let image: usize = self.window.input.iter().product();
        if out.is_empty() || depth == 0 {
            return Ok(out);
        }
        let width = self.window.output[self.window.output.len() - 1];
        let rows = positions / width;
        call.charge_steps(&[self.batch, self.groups, depth, positions, GATHER_STEPS])?;
        call.charge(&[self.batch, self.outputs, depth, positions, WIDE_UNITS])?;
        let rows_at_once = (BLOCK / (depth * width).max(1)).clamp(1, rows);
        let columns = rows_at_once * width;
        call.reserve(columns.saturating_mul(depth + outputs), T::DTYPE)?;
        let mut gathered = vec![zero; columns * depth];
        let mut block = vec![zero; columns * outputs];
        for item in 0..self.batch * self.groups {
            let group = item % self.groups;
            let image = &x[item * channels * image..(item + 1) * channels * image];
            let weights = &w[group * outputs * depth..(group + 1) * outputs * depth];
            let target = &mut out[item * outputs * positions..(item + 1) * outputs * positions];
            for first in (0..rows).step_by(rows_at_once) {
                let count = rows_at_once.min(rows - first);
                let n = count * width;
                let range = first..first + count;
                self.window
                    .gather(image, channels, range, zero, &mut gathered[..n * depth]);
                let sizes = Sizes {
                    m: outputs,
                    n,
                    k: depth,
                };
                product(
                    sizes,
                    weights,
                    &gathered[..n * depth],
                    &mut block[..n * outputs],
                );
                for (block, target) in block
                    .chunks_exact(n)
                    .zip(target.chunks_exact_mut(positions))
                {
                    target[first * width..first * width + n].copy_from_slice(block);
                }
            }
        }
        call.release(columns * (depth + outputs), T::DTYPE);
        Ok(out)
    }
}

fn conv(call: &Call<'_>) -> Results {
    by_real!(call, 0, real_conv(call))
}

fn real_conv<R: Real>(call: &Call<'_>) -> Results {
    let (x, w) = (call.values::<R>(0)?, call.values::<R>(1)?);
    let shape = Shape::new(call, call.input(0)?.shape(), call.input(1)?.shape())?;
    let bias = call.optional_values::<R>(2)?;
    if bias.is_some_and(|bias| bias.len() != shape.outputs) {
        return Err(OpError::invalid(
            "the bias does not have one number per channel",
        ));
    }
    if let Some(out) = shape.fast(call, x, w, bias)? {
        return one(shape.output(), out);
    }
    let mut out = shape.run(call, x, w, R::ZERO, R::product)?;
    add_bias(call, &mut out, shape.outputs, 2)?;
    one(shape.output(), out)
}

/// Adds the bias of each channel, the last operation.
fn add_bias<R: Real>(
    call: &Call<'_>,
    out: &mut [R],
    channels: usize,
    index: usize,
) -> Result<(), OpError> {
    let Some(bias) = call.optional_values::<R>(index)? else {
        return Ok(());
    };
    if bias.len() != channels {
        return Err(OpError::invalid(
            "the bias does not have one number per channel",
        ));
    }
    if out.is_empty() {
        return Ok(());
    }
    // Planes follow each other, the channels of an item in order.
    let batch = call.input(0)?.shape()[0];
    let plane = out.len() / (batch * channels);
    for (index, plane) in out.chunks_exact_mut(plane).enumerate() {
        let bias = bias[index % channels];
        for value in plane {
            *value = (*value + bias).canonical();
        }
    }
    Ok(())
}

/// A convolution of integers in i64 that wrap to i32.
pub(super) fn integer_conv(
    call: &Call<'_>,
    shape: &Shape,
    x: &[i64],
    w: &[i64],
) -> Result<Vec<i64>, OpError> {
    shape.run(call, x, w, 0i64, |sizes, w, x, out| {
        let Sizes { n, k, .. } = sizes;
        for (row, out) in out.chunks_exact_mut(n).enumerate() {
            out.fill(0);
            for p in 0..k {
                let factor = w[row * k + p];
                for (out, &value) in out.iter_mut().zip(&x[p * n..(p + 1) * n]) {
                    *out = out.wrapping_add(factor.wrapping_mul(value));
                }
            }
        }
    })
}

/// `ConvInteger`: products of differences from the zero points, summed in 32 bits.
pub(super) fn conv_integer(call: &Call<'_>) -> Results {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let shape = Shape::new(call, x.shape(), w.shape())?;
    call.reserve(x.len() + w.len(), DType::I64)?;
    let x = centred(call, 0, 2, None)?;
    let w = centred(call, 1, 3, Some(0))?;
    let out = integer_conv(call, &shape, &x, &w)?;
    let data = convert::from_i64(&out, DType::I32, CastMode::default());
    Ok(vec![tensor(
        shape.output(),
        data.ok_or_else(|| call.wrong_type(0))?,
    )?])
}

/// Shape and sums of a quantised convolution, for `QLinearConv`.
pub(super) fn quantised_sums(
    call: &Call<'_>,
    x: &[i64],
    w: &[i64],
) -> Result<(Vec<usize>, Vec<i64>), OpError> {
    let shape = Shape::new(call, call.input(0)?.shape(), call.input(3)?.shape())?;
    let out = integer_conv(call, &shape, x, w)?;
    Ok((shape.output(), out))
}

/// Sizes of a transposed convolution: the window slides over the *output*.
struct Transposed {
    window: Window,
    outputs: usize,
    groups: usize,
}

impl Transposed {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let (x, w) = (call.input(0)?.shape(), call.input(1)?.shape());
        let bad = || OpError::invalid(format!("{x:?} and the weights {w:?} do not fit together"));
        let ([_, channels, image @ ..], [channels_too, per_group, kernel @ ..]) = (x, w) else {
            return Err(bad());
        };
        let groups = usize::try_from(call.int("group", 1)?).unwrap_or(0);
        let count = image.len();
        let fits = groups > 0
            && channels == channels_too
            && channels.is_multiple_of(groups)
            && groups <= (*channels).max(1)
            && kernel.len() == count
            && !image.is_empty()
            && !kernel.contains(&0);
        if !fits {
            return Err(bad());
        }
        let list = |name, least, default: usize| -> Result<Vec<usize>, OpError> {
            let found = super::window::per_axis(call, name, count, least)?;
            Ok(found.unwrap_or_else(|| vec![default; count]))
        };
        let (strides, dilations) = (list("strides", 1, 1)?, list("dilations", 1, 1)?);
        let extra = list("output_padding", 0, 0)?;
        let pads = super::window::per_axis(call, "pads", 2 * count, 0)?;
        let pads = pads.unwrap_or_else(|| vec![0; 2 * count]);
        let wanted = super::window::per_axis(call, "output_shape", count, 0)?;
        let mode = call.text("auto_pad", "NOTSET")?;
        let same = matches!(mode, "SAME_UPPER" | "SAME_LOWER");
        let (mut before, mut after) = (pads[..count].to_vec(), pads[count..].to_vec());
        let mut output = vec![0; count];
        for axis in 0..count {
            let span = (kernel[axis] - 1) * dilations[axis] + 1;
            let full = image[axis].saturating_sub(1) * strides[axis] + extra[axis] + span;
            if wanted.is_some() || same {
                output[axis] = wanted
                    .as_ref()
                    .map_or(image[axis] * strides[axis], |w| w[axis]);
                let total = full.saturating_sub(output[axis]);
                let upper = mode == "SAME_UPPER";
                before[axis] = if upper { total / 2 } else { total - total / 2 };
                after[axis] = total - before[axis];
            } else {
                let left = full.checked_sub(before[axis] + after[axis]);
                output[axis] = left.ok_or_else(bad)?;
            }
        }
        Ok(Self {
            window: Window {
                input: output,
                kernel: kernel.to_vec(),
                strides,
                dilations,
                before,
                after,
                output: image.to_vec(),
            },
            outputs: per_group * groups,
            groups,
        })
    }
}

/// Each input position's products over its channels, added to the output tap by tap in ascending order.
fn transpose<R: Real>(call: &Call<'_>) -> Results {
    let shape = Transposed::new(call)?;
    let (x, w) = (call.values::<R>(0)?, call.values::<R>(1)?);
    let (batch, channels) = (call.input(0)?.shape()[0], call.input(0)?.shape()[1]);
    let (channels, outputs) = (channels / shape.groups, shape.outputs / shape.groups);
    let positions = shape.window.positions()?;
    let taps = shape.window.taps();
    let mut out_shape = vec![batch, shape.outputs];
    out_shape.extend_from_slice(&shape.window.input);
    let mut out = call.filled(&out_shape, R::ZERO)?;
    if out.is_empty() || positions == 0 {
        return one(out_shape, out);
    }
    let image: usize = shape.window.input.iter().product();
    let depth = outputs * taps;
    call.reserve(depth.saturating_mul(positions + channels), R::DTYPE)?;
    let items = batch * shape.groups;
    call.charge(&[items, depth, positions, channels])?;
    call.charge_steps(&[items, depth, positions, SPREAD_STEPS])?;
    call.charge_steps(&[items, depth, channels])?;
    if R::DTYPE != DType::F32 {
        call.charge(&[items, depth, positions, channels, WIDE_UNITS])?;
    }
    let mut columns = vec![R::ZERO; depth * positions];
    for item in 0..batch * shape.groups {
        let group = item % shape.groups;
        let weights = &w[group * channels * depth..(group + 1) * channels * depth];
        let weights = super::linear::transposed(weights, channels, depth);
        let x = &x[item * channels * positions..(item + 1) * channels * positions];
        let sizes = Sizes {
            m: depth,
            n: positions,
            k: channels,
        };
        R::product(sizes, &weights, x, &mut columns);
        let target = &mut out[item * outputs * image..(item + 1) * outputs * image];
        spread(&shape.window, &columns, target);
    }
    for value in &mut out {
        *value = value.canonical();
    }
    add_bias(call, &mut out, shape.outputs, 2)?;
    one(out_shape, out)
}

/// Adds columns (a row per channel and tap, a column per position) to the image under their windows.
fn spread<R: Real>(window: &Window, columns: &[R], image: &mut [R]) {
    let (taps, positions) = (window.taps(), window.output.iter().product::<usize>());
    let size: usize = window.input.iter().product();
    let steps = crate::tensor::strides(&window.input);
    for (row, column) in columns.chunks_exact(positions).enumerate() {
        let at = Window::coordinates(row % taps, &window.kernel);
        let plane = &mut image[row / taps * size..(row / taps + 1) * size];
        for (position, &value) in column.iter().enumerate() {
            let position = Window::coordinates(position, &window.output);
            let mut place = Some(0usize);
            for axis in 0..position.len() {
                let along =
                    position[axis] * window.strides[axis] + at[axis] * window.dilations[axis];
                let along = along.checked_sub(window.before[axis]);
                let along = along.filter(|&along| along < window.input[axis]);
                place = place
                    .zip(along)
                    .map(|(sum, along)| sum + along * steps[axis]);
            }
            if let Some(place) = place {
                plane[place] = plane[place] + value;
            }
        }
    }
}

fn col2im<R: Real>(call: &Call<'_>) -> Results {
    let x = call.values::<R>(0)?;
    let image = super::movement::sizes(&call.integers(1)?)?;
    let kernel = super::movement::sizes(&call.integers(2)?)?;
    if image.is_empty() || image.len() != kernel.len() {
        return Err(OpError::invalid("image and block have different axes"));
    }
    let window = Window::new_blocks(call, &image, &kernel)?;
    let &[batch, rows, positions] = call.input(0)?.shape() else {
        return Err(OpError::invalid("the input has not three axes"));
    };
    let taps = window.taps();
    if taps == 0 || !rows.is_multiple_of(taps) || positions != window.positions()? {
        return Err(OpError::invalid("the columns do not fit the image"));
    }
    let channels = rows / taps;
    let mut shape = vec![batch, channels];
    shape.extend_from_slice(&image);
    let mut out = call.filled(&shape, R::ZERO)?;
    let size = channels * image.iter().product::<usize>();
    call.charge_steps(&[batch, rows, positions, SPREAD_STEPS])?;
    if size > 0 && positions > 0 {
        for (x, out) in x
            .chunks_exact(rows * positions)
            .zip(out.chunks_exact_mut(size))
        {
            spread(&window, x, out);
        }
    }
    one(shape, out)
}

/// A depthwise convolution along the last axis that starts with the last inputs of the part before.
fn causal<R: Real>(call: &Call<'_>) -> Results {
    let (x, w) = (call.values::<R>(0)?, call.values::<R>(1)?);
    let bias = call.optional_values::<R>(2)?;
    let past = call.optional_values::<R>(3)?;
    let (&[batch, channels, length], &[channels_too, 1, taps]) =
        (call.input(0)?.shape(), call.input(1)?.shape())
    else {
        return Err(OpError::invalid("input or weights have a wrong shape"));
    };
    let state = taps.saturating_sub(1);
    let fits = channels == channels_too
        && taps > 0
        && past.is_none_or(|past| past.len() == batch * channels * state)
        && bias.is_none_or(|bias| bias.len() == channels);
    if !fits {
        return Err(OpError::invalid(
            "input, weights, bias and state do not fit together",
        ));
    }
    let swish = match call.text("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        _ => return Err(OpError::Attribute { name: "activation" }),
    };
    let mut out = call.filled(&[batch, channels, length], R::ZERO)?;
    let mut present = call.filled(&[batch, channels, state], R::ZERO)?;
    call.charge_steps(&[batch, channels, length, taps])?;
    call.charge_steps(&[batch, channels, state])?;
    let mut row = call.filled(&[state + length], R::ZERO)?;
    for item in 0..batch * channels {
        let channel = item % channels;
        match past {
            Some(past) => row[..state].copy_from_slice(&past[item * state..(item + 1) * state]),
            None => row[..state].fill(R::ZERO),
        }
        row[state..].copy_from_slice(&x[item * length..(item + 1) * length]);
        let weights = &w[channel * taps..(channel + 1) * taps];
        for (k, out) in out[item * length..(item + 1) * length]
            .iter_mut()
            .enumerate()
        {
            let pairs = weights.iter().zip(&row[k..k + taps]);
            let sum = pairs.fold(R::ZERO, |sum, (&w, &x)| w.fma(x, sum));
            let sum = bias.map_or(sum, |bias| sum + bias[channel]);
            *out = if swish { sum * sum.sigmoid() } else { sum }.canonical();
        }
        present[item * state..(item + 1) * state].copy_from_slice(&row[length..]);
    }
    Ok(vec![
        tensor(vec![batch, channels, length], R::wrap(out))?,
        tensor(vec![batch, channels, state], R::wrap(present))?,
    ])
}

/// A convolution whose taps are moved by offsets; values between pixels are bilinear.
fn deform<R: Real>(call: &Call<'_>) -> Results {
    let (x, w) = (call.values::<R>(0)?, call.values::<R>(1)?);
    let offsets = call.values::<R>(2)?;
    let mask = call.optional_values::<R>(4)?;
    let shape = Shape::new(call, call.input(0)?.shape(), call.input(1)?.shape())?;
    let window = &shape.window;
    let (&[height, width], &[out_height, out_width]) =
        (window.input.as_slice(), window.output.as_slice())
    else {
        return call.refuse("a deformed convolution of other than two spatial axes");
    };
    let parts = usize::try_from(call.int("offset_group", 1)?).unwrap_or(0);
    let taps = window.taps();
    let positions = out_height * out_width;
    let fits = parts > 0
        && parts <= shape.channels
        && shape.channels.is_multiple_of(parts)
        && offsets.len() == shape.batch * parts * taps * 2 * positions
        && mask.is_none_or(|mask| mask.len() == shape.batch * parts * taps * positions);
    if !fits {
        return Err(OpError::invalid("the offsets do not fit the input"));
    }
    let (channels, outputs) = (shape.channels / shape.groups, shape.outputs / shape.groups);
    let per_part = shape.channels / parts;
    let sums = [shape.batch, shape.outputs, positions, channels, taps];
    call.charge_steps(&[sums.as_slice(), &[BILINEAR_STEPS]].concat())?;
    let mut out = call.filled(&shape.output(), R::ZERO)?;
    let sample = |plane: &[R], y: R, x: R| bilinear(plane, [height, width], y, x);
    for item in 0..shape.batch {
        for output in 0..shape.outputs {
            let first = output / outputs * channels;
            for position in 0..positions {
                let (row, column) = (position / out_width, position % out_width);
                let mut sum = R::ZERO;
                for channel in 0..channels {
                    let source = first + channel;
                    let part = source / per_part;
                    let plane =
                        &x[(item * shape.channels + source) * height * width..][..height * width];
                    for tap in 0..taps {
                        let at = [tap / window.kernel[1], tap % window.kernel[1]];
                        let moved = |axis: usize, along: usize| {
                            let index = ((item * parts + part) * taps + tap) * 2 + axis;
                            let base = (along * window.strides[axis]
                                + at[axis] * window.dilations[axis])
                                as f64
                                - window.before[axis] as f64;
                            R::of(base) + offsets[index * positions + position]
                        };
                        let mut value = sample(plane, moved(0, row), moved(1, column));
                        if let Some(mask) = mask {
                            let index = (item * parts + part) * taps + tap;
                            value = value * mask[index * positions + position];
                        }
                        sum = w[(output * channels + channel) * taps + tap].fma(value, sum);
                    }
                }
                out[(item * shape.outputs + output) * positions + position] = sum.canonical();
            }
        }
    }
    add_bias(call, &mut out, shape.outputs, 3)?;
    one(shape.output(), out)
}

/// The value between four pixels; outside the image pixels are zero.
fn bilinear<R: Real>(plane: &[R], [height, width]: [usize; 2], y: R, x: R) -> R {
    let (top, left) = (y.floor(), x.floor());
    let (dy, dx) = (y - top, x - left);
    let pixel = |row: R, column: R| {
        let (row, column) = (row.to_f64(), column.to_f64());
        let inside = row >= 0.0 && column >= 0.0 && row < height as f64 && column < width as f64;
        if inside {
            plane[row as usize * width + column as usize]
        } else {
            R::ZERO
        }
    };
    let (bottom, right) = (top + R::ONE, left + R::ONE);
    let upper = pixel(top, left) * (R::ONE - dx) + pixel(top, right) * dx;
    let lower = pixel(bottom, left) * (R::ONE - dx) + pixel(bottom, right) * dx;
    upper * (R::ONE - dy) + lower * dy
}
