//! Pooling.

use super::call::Entry;
use super::call::Half::{Native, Widen};
use super::call::{Call, Results, one, tensor};
use super::each::by_real;
use super::error::OpError;
use super::machine::in_parts;
use super::real::Real;
use super::window::Window;
use crate::tensor::{DType, Data, Element, strides};
use tg_exec::kernels::memory::Plain;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
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
    let window = Window::new(call, image, None)?;
    let planes = batch * channels;
    // Of each axis the taps of every position, then of every window the taps that lie in the image.
    for axis in 0..image.len() {
        let sides = [window.output[axis], window.kernel[axis]];
        call.charge_steps(&sides)?;
        call.reserve(sides[0].saturating_add(3 * sides[1]), DType::U64)?;
        call.release(sides[0].saturating_add(3 * sides[1]), DType::U64);
    }
    let inside = window.taps().min(image.iter().product());
    let positions = window.positions()?;
    call.charge_steps(&[planes, positions, inside])?;
    if image.len() > 2 || call.wants(1) || call.node.op == "LpPool" {
        // Windows are walked one by one.
        let sides: usize = window.kernel.iter().sum();
        call.charge_steps(&[positions, 4 * (sides + inside)])?;
        call.reserve(inside.saturating_mul(2), DType::U64)?;
        call.release(inside.saturating_mul(2), DType::U64);
    }
    if call.node.op == "LpPool" {
        call.charge_steps(&[planes, positions, inside, POWER_STEPS])?;
    }
    Ok((planes, window))
}

/// Steps of a power.
const POWER_STEPS: usize = 48;

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
        Data::F32(values) => max_of(
            call,
            values,
            f32::NEG_INFINITY,
            #[inline(always)]
            |a, b| b > a || (b.is_nan() && !a.is_nan()),
        ),
        Data::F64(values) => max_of(
            call,
            values,
            f64::NEG_INFINITY,
            #[inline(always)]
            |a, b| b > a || (b.is_nan() && !a.is_nan()),
        ),
        Data::I8(values) => max_of(call, values, i8::MIN, |a, b| b > a),
        Data::U8(values) => max_of(call, values, u8::MIN, |a, b| b > a),
        _ => Err(call.wrong_type(0)),
    }
}

/// One spatial axis of a window.
#[derive(Debug, Clone, Copy)]
struct Axis {
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
    output: usize,
}

impl Axis {
    /// An axis of one element under a kernel of one.
    const ONE: Self = Self {
        input: 1,
        kernel: 1,
        stride: 1,
        dilation: 1,
        before: 0,
        after: 0,
        output: 1,
    };

    /// The last two spatial axes, if there are at most two.
    fn pair(window: &Window) -> Option<[Self; 2]> {
        let axis = |axis: usize| Self {
            input: window.input[axis],
            kernel: window.kernel[axis],
            stride: window.strides[axis],
            dilation: window.dilations[axis],
            before: window.before[axis],
            after: window.after[axis],
            output: window.output[axis],
        };
        match window.input.len() {
            1 => Some([Self::ONE, axis(0)]),
            2 => Some([axis(0), axis(1)]),
            _ => None,
        }
    }

    /// The outputs whose element under a tap lies in the input, and that element of the first of them.
    fn outputs(&self, tap: usize) -> (std::ops::Range<usize>, usize) {
        let offset = tap * self.dilation;
        let first = self.before.saturating_sub(offset).div_ceil(self.stride);
        let end = (self.before + self.input).saturating_sub(offset);
        let end = end.div_ceil(self.stride).min(self.output);
        let source = (first * self.stride + offset).saturating_sub(self.before);
        (first.min(end)..end, source)
    }

    /// The taps that lie in the input for any output, as [`Self::outputs`] gives them.
    fn taps(&self) -> Vec<(std::ops::Range<usize>, usize)> {
        let taps = (0..self.kernel).map(|tap| self.outputs(tap));
        taps.filter(|(outputs, _)| !outputs.is_empty()).collect()
    }

    /// Per output, how many taps lie in the input (with `padded`: in the padded input).
    fn counts(&self, padded: bool) -> Vec<usize> {
        let (low, high) = if padded {
            (0, self.before + self.input + self.after)
        } else {
            (self.before, self.before + self.input)
        };
        let count = |output: usize| {
            let place = |tap: usize| output * self.stride + tap * self.dilation;
            let inside = |tap: &usize| (low..high).contains(&place(*tap));
            (0..self.kernel).filter(inside).count()
        };
        (0..self.output).map(count).collect()
    }
}

/// Folds the windows of each plane: every output begins at `start` and takes the elements under its window in order.
fn fold_windows<T: Plain + Sync>(
    [rows, columns]: [Axis; 2],
    values: &[T],
    start: T,
    out: &mut [T],
    step: impl Fn(T, T) -> T + Sync,
) {
    let size = rows.input * columns.input;
    let (row_taps, column_taps) = (rows.taps(), columns.taps());
    in_parts(
        out,
        rows.output * columns.output,
        #[inline(always)]
        |first, out| {
            out.fill(start);
            let planes = out.chunks_exact_mut(rows.output * columns.output);
            for (plane, out) in planes.enumerate() {
                let plane = &values[(first + plane) * size..][..size];
                for (lines, source) in &row_taps {
                    for (index, line) in lines.clone().enumerate() {
                        let source = source + index * rows.stride;
                        let from = &plane[source * columns.input..][..columns.input];
                        let line = &mut out[line * columns.output..][..columns.output];
                        for (outputs, first) in &column_taps {
                            let out = &mut line[outputs.clone()];
                            fold_line(out, &from[*first..], columns.stride, &step);
                        }
                    }
                }
            }
        },
    );
}

/// Takes every `stride`th element into its output.
#[inline(always)]
fn fold_line<T: Copy>(out: &mut [T], from: &[T], stride: usize, step: &impl Fn(T, T) -> T) {
    match stride {
        1 => {
            for (slot, &value) in out.iter_mut().zip(from) {
                *slot = step(*slot, value);
            }
        }
        2 => {
            let (pairs, rest) = from.as_chunks::<2>();
            let count = out.len().min(pairs.len());
            let (most, last) = out.split_at_mut(count);
            for (slot, &[value, _]) in most.iter_mut().zip(pairs) {
                *slot = step(*slot, value);
            }
            if let ([slot], [value]) = (last, rest) {
                *slot = step(*slot, *value);
            }
        }
        _ => {
            for (slot, &value) in out.iter_mut().zip(from.iter().step_by(stride)) {
                *slot = step(*slot, value);
            }
        }
    }
}

/// The largest element of each window, the first of equal ones, and its index in the whole tensor.
fn max_of<T: Element + Plain + Sync>(
    call: &Call<'_>,
    values: &[T],
    least: T,
    better: impl Fn(T, T) -> bool + Sync,
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
    let mut out = vec![values[0]; count];
    if let (Some(axes), false) = (Axis::pair(&window), wants) {
        if axes.iter().any(|axis| axis.counts(false).contains(&0)) {
            return Err(OpError::invalid("a window lies wholly in the padding"));
        }
        // The least number gives way to any other, and is the result where there is none.
        fold_windows(
            axes,
            values,
            least,
            &mut out,
            #[inline(always)]
            |best, value| if better(best, value) { value } else { best },
        );
        return one(shape, out);
    }
    let column_major = call.flag("storage_order", false)?;
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
    let mut out = call.buffer(&shape)?;
    let positions = window.positions()?;
    let image: usize = window.input.iter().product();
    if let Some(axes) = Axis::pair(&window) {
        fold_windows(
            axes,
            values,
            R::ZERO,
            &mut out,
            #[inline(always)]
            |sum, value| sum + value,
        );
        call.reserve(positions, R::DTYPE)?;
        let [rows, columns] = axes.map(|axis| axis.counts(with_padding));
        let counts = rows
            .iter()
            .flat_map(|row| columns.iter().map(move |column| row * column));
        let counts: Vec<R> = counts.map(|count| R::of(count as f64)).collect();
        in_parts(
            &mut out,
            positions,
            #[inline(always)]
            |_, out| {
                for plane in out.chunks_exact_mut(positions) {
                    for (sum, &count) in plane.iter_mut().zip(&counts) {
                        *sum = (*sum / count).canonical();
                    }
                }
            },
        );
        return one(shape, out);
    }
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
    if kind == Global::Norm {
        call.charge_steps(&[values.len(), POWER_STEPS])?;
    }
    let out = match kind {
        Global::Mean => super::rows::row_sums(values, size, |sum, v| sum + v)
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
    call.charge_steps(&[indices.len(), shape.len()])?;
    let mut data = Data::zeros(input.dtype(), total);
    for (from, &index) in indices.iter().enumerate() {
        // Indices are into the shape the pool saw; the output may be larger.
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let to: usize = inferred
            .iter()
            .zip(&inner)
            .zip(&own)
            .map(|((&size, inner), own)| (index / inner % size.max(1)).saturating_mul(*own))
            .fold(0, usize::saturating_add);
        if to >= total {
            return Err(OpError::invalid("an index is beyond the output"));
        }
        let copied = data.copy_run(to, input.data(), from, 1);
        copied.ok_or_else(|| call.wrong_type(0))?;
    }
    Ok(vec![tensor(shape, data)?])
}
