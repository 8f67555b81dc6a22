//! Operators that move data and keep its bits.
#![allow(
    clippy::clone_on_copy,
    reason = "one expression runs on elements of every type, texts included"
)]

use super::broadcast::{broadcast_shape, expand};
use super::call::Entry;
use super::call::Half::{Native, Widen};
use super::call::{Call, Results, one, tensor};
use super::each::by_real;
use super::error::OpError;
use super::real::Real;
use crate::convert::{self, CastMode};
use crate::tensor::{DType, Data, Element, FloatTensor, RANK_MAX, map_data, strides};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "Reshape" => reshape,
        "Flatten" => flatten,
        "Squeeze" => squeeze,
        "Unsqueeze" => unsqueeze,
        "Transpose" => transpose,
        "Concat" => concat,
        "Split" => split,
        "Slice" => slice,
        "Tile" => tile,
        "Expand" => expand_to,
        "Shape" => shape,
        "ConstantOfShape" => constant_of_shape,
        "Range" => return Some((range, Widen)),
        "EyeLike" => eye_like,
        "DepthToSpace" => depth_to_space,
        "SpaceToDepth" => space_to_depth,
        "Trilu" => trilu,
        "ReverseSequence" => reverse_sequence,
        "Dropout" => dropout,
        _ => return None,
    };
    Some((kernel, Native))
}

/// The elements at `base + sum of index * step`, for all indices of a shape in order. The caller has checked that all
/// of them lie within the tensor.
pub(super) fn strided(
    call: &Call<'_>,
    tensor: &FloatTensor,
    base: usize,
    shape: &[usize],
    steps: &[isize],
) -> Result<Data, OpError> {
    let count = call.reserve_shape(shape, tensor.dtype())?;
    if count == 0 {
        return Ok(Data::zeros(tensor.dtype(), 0));
    }
    // Join neighbouring axes that are walked evenly.
    let mut axes: Vec<(usize, isize)> = Vec::with_capacity(shape.len());
    for (&size, &step) in shape.iter().zip(steps) {
        match axes.last_mut() {
            _ if size == 1 => {}
            Some((joined, outer)) if *outer == step.saturating_mul(size as isize) => {
                *joined *= size;
                *outer = step;
            }
            _ => axes.push((size, step)),
        }
    }
    let (length, step) = axes.pop().unwrap_or((1, 1));
    if step != 1
        && let Some(contiguous) = axes.iter().position(|&(_, step)| step == 1)
    {
        let turn = Turn::new(&axes, contiguous, (length, step));
        return Ok(map_data!(tensor.data(), values => turn.run(values, base as isize, count)));
    }
    Ok(map_data!(tensor.data(), values => {
        let mut out = Vec::with_capacity(count);
        visit(&axes, base as isize, |start| {
            if step == 1 {
                let start = start as usize;
                out.extend_from_slice(&values[start..start + length]);
            } else {
                let place = |k: usize| (start + k as isize * step) as usize;
                out.extend((0..length).map(|k| values[place(k)].clone()));
            }
        });
        out
    }))
}

/// A walk whose innermost axis is not the one that lies contiguous in the source: both are walked in small squares, so
/// that a cache line that is read once serves all of its elements.
struct Turn {
    /// Other axes: size and step in the source, and the same in the result.
    from: Vec<(usize, isize)>,
    to: Vec<(usize, isize)>,
    /// Size of the contiguous axis, and its step in the result.
    contiguous: (usize, usize),
    /// Size of the innermost axis, and its step in the source.
    inner: (usize, isize),
}

impl Turn {
    fn new(axes: &[(usize, isize)], contiguous: usize, inner: (usize, isize)) -> Self {
        let mut steps = vec![inner.0; axes.len()];
        for axis in (1..axes.len()).rev() {
            steps[axis - 1] = steps[axis] * axes[axis].0;
        }
        let others = (0..axes.len()).filter(|&axis| axis != contiguous);
        Self {
            to: others
                .clone()
                .map(|axis| (axes[axis].0, steps[axis] as isize))
                .collect(),
            from: others.map(|axis| axes[axis]).collect(),
            contiguous: (axes[contiguous].0, steps[contiguous]),
            inner,
        }
    }

    fn run<T: Clone>(&self, values: &[T], base: isize, count: usize) -> Vec<T> {
        /// Elements of a side of a square: a cache line of the smallest usual type.
        const SIDE: usize = 16;
        let mut starts = Vec::new();
        visit(&self.to, 0, |start| starts.push(start as usize));
        let mut out = vec![values[0].clone(); count];
        let mut next = starts.iter();
        let ((rows, out_step), (columns, step)) = (self.contiguous, self.inner);
        visit(&self.from, base, |from| {
            let to = next.next().copied().unwrap_or_default();
            for row in (0..rows).step_by(SIDE) {
                for column in (0..columns).step_by(SIDE) {
                    for row in row..rows.min(row + SIDE) {
                        let end = columns.min(column + SIDE);
                        let line = &mut out[to + row * out_step..][column..end];
                        let start = from + row as isize;
                        for (slot, column) in line.iter_mut().zip(column..) {
                            *slot = values[(start + column as isize * step) as usize].clone();
                        }
                    }
                }
            }
        });
        out
    }
}

/// Calls `run` with the offset of every index of these axes (size and step), in order.
fn visit(axes: &[(usize, isize)], base: isize, mut run: impl FnMut(isize)) {
    let mut index = [0usize; 2 * RANK_MAX];
    let mut offset = base;
    loop {
        run(offset);
        let mut axis = axes.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            let (size, step) = axes[axis];
            index[axis] += 1;
            offset += step;
            if index[axis] < size {
                break;
            }
            index[axis] = 0;
            offset -= step * size as isize;
        }
    }
}

fn signed(values: Vec<usize>) -> Vec<isize> {
    values.into_iter().map(|value| value as isize).collect()
}

/// The same elements in another shape.
fn reshaped(call: &Call<'_>, shape: Vec<usize>) -> Results {
    let input = call.input(0)?;
    call.reserve(input.len(), input.dtype())?;
    let reshaped = input.clone().reshaped(shape);
    Ok(vec![reshaped.map_err(OpError::Tensor)?])
}

/// The shape that `Reshape` means: 0 keeps an axis (unless `allowzero`), one -1 takes what is left.
fn wanted_shape(input: &FloatTensor, wanted: &[i64], allow_zero: bool) -> Option<Vec<usize>> {
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (axis, &size) in wanted.iter().enumerate() {
        shape.push(match size {
            0 if !allow_zero => *input.shape().get(axis)?,
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            size => usize::try_from(size).ok()?,
        });
    }
    if let Some(axis) = open {
        let rest = crate::tensor::elements(&shape)?;
        if rest == 0 || !input.len().is_multiple_of(rest) {
            return None;
        }
        shape[axis] = input.len() / rest;
    }
    Some(shape)
}

fn reshape(call: &Call<'_>) -> Results {
    let wanted = call.integers(1)?;
    let shape = wanted_shape(call.input(0)?, &wanted, call.flag("allowzero", false)?);
    let shape = shape.ok_or_else(|| {
        OpError::invalid(format!(
            "{:?} does not fill {wanted:?}",
            call.input(0).map(FloatTensor::shape)
        ))
    })?;
    reshaped(call, shape)
}

fn flatten(call: &Call<'_>) -> Results {
    let shape = call.input(0)?.shape();
    let axis = call.int("axis", 1)?;
    let axis = if usize::try_from(axis) == Ok(shape.len()) {
        shape.len()
    } else {
        Call::axis(axis, shape.len())?
    };
    let (left, right) = shape.split_at(axis);
    reshaped(call, vec![left.iter().product(), right.iter().product()])
}

fn squeeze(call: &Call<'_>) -> Results {
    let shape = call.input(0)?.shape();
    let axes = match call.ints_at(1, "axes")? {
        Some(axes) => Call::axes(&axes, shape.len())?,
        None => (0..shape.len()).filter(|&axis| shape[axis] == 1).collect(),
    };
    if axes.iter().any(|&axis| shape[axis] != 1) {
        return Err(OpError::invalid("a squeezed axis is not 1"));
    }
    let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
    reshaped(call, kept.map(|axis| shape[axis]).collect())
}

fn unsqueeze(call: &Call<'_>) -> Results {
    let shape = call.input(0)?.shape();
    let axes = call
        .ints_at(1, "axes")?
        .ok_or(OpError::Missing { index: 1 })?;
    let rank = shape.len() + axes.len();
    let axes = Call::axes(&axes, rank)?;
    let mut old = shape.iter();
    let size = |axis| {
        if axes.contains(&axis) {
            Some(1)
        } else {
            old.next().copied()
        }
    };
    reshaped(call, (0..rank).filter_map(size).collect())
}

fn transpose(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let rank = input.rank();
    let order: Vec<usize> = match call.ints("perm")? {
        None => (0..rank).rev().collect(),
        Some(order) => {
            let axes: Result<Vec<usize>, _> = order.iter().map(|&a| Call::axis(a, rank)).collect();
            let axes = axes?;
            if axes.len() != rank || (0..rank).any(|axis| !axes.contains(&axis)) {
                return Err(OpError::invalid("`perm` is not a permutation of the axes"));
            }
            axes
        }
    };
    let own = strides(input.shape());
    let shape: Vec<usize> = order.iter().map(|&axis| input.shape()[axis]).collect();
    let steps: Vec<isize> = order.iter().map(|&axis| own[axis] as isize).collect();
    let data = strided(call, input, 0, &shape, &steps)?;
    Ok(vec![tensor(shape, data)?])
}

fn concat(call: &Call<'_>) -> Results {
    let first = call.input(0)?;
    let axis = call
        .optional_int("axis")?
        .ok_or(OpError::Attribute { name: "axis" })?;
    let axis = Call::axis(axis, first.rank())?;
    let mut shape = first.shape().to_vec();
    shape[axis] = 0;
    for index in 0..call.inputs.len() {
        let own = call.input(index)?.shape();
        let fits = own.len() == shape.len()
            && (0..shape.len()).all(|other| other == axis || own[other] == shape[other]);
        if !fits || call.input(index)?.dtype() != first.dtype() {
            return Err(OpError::invalid("an input does not fit the others"));
        }
        shape[axis] = shape[axis].saturating_add(own[axis]);
    }
    call.reserve_shape(&shape, first.dtype())?;
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let mut data = Data::zeros(first.dtype(), 0);
    for row in 0..outer {
        for index in 0..call.inputs.len() {
            let input = call.input(index)?;
            let length = input.shape()[axis] * inner;
            let appended = data.append_run(input.data(), row * length, length);
            appended.ok_or_else(|| call.wrong_type(index))?;
        }
    }
    Ok(vec![tensor(shape, data)?])
}

fn split(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let axis = Call::axis(call.int("axis", 0)?, input.rank())?;
    let size = input.shape()[axis];
    let parts: Vec<usize> = match call.ints_at(1, "split")? {
        Some(parts) => {
            let parts: Result<Vec<usize>, _> = parts.into_iter().map(usize::try_from).collect();
            parts.map_err(|_| OpError::invalid("a part has a negative size"))?
        }
        None => {
            let count = match call.optional_int("num_outputs")? {
                Some(count) => usize::try_from(count).unwrap_or(0),
                None => call.node.outputs.len(),
            };
            if count == 0 || count > call.node.outputs.len() {
                return Err(OpError::invalid(
                    "the number of parts is not that of the outputs",
                ));
            }
            let each = size.div_ceil(count);
            let part = |index: usize| each.min(size.saturating_sub(index * each));
            (0..count).map(part).collect()
        }
    };
    if parts.len() > call.node.outputs.len() {
        return Err(OpError::invalid("there are more parts than outputs"));
    }
    if parts
        .iter()
        .try_fold(0usize, |sum, &part| sum.checked_add(part))
        != Some(size)
    {
        return Err(OpError::invalid("the parts do not make up the axis"));
    }
    let own = strides(input.shape());
    let steps = signed(own.clone());
    let mut results = Vec::with_capacity(parts.len());
    let mut start = 0;
    for part in parts {
        let mut shape = input.shape().to_vec();
        shape[axis] = part;
        let data = strided(call, input, start * own[axis], &shape, &steps)?;
        results.push(tensor(shape, data)?);
        start += part;
    }
    Ok(results)
}

fn slice(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let rank = input.rank();
    let starts = call
        .ints_at(1, "starts")?
        .ok_or(OpError::Missing { index: 1 })?;
    let ends = call
        .ints_at(2, "ends")?
        .ok_or(OpError::Missing { index: 2 })?;
    let axes = call.ints_at(3, "axes")?;
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.optional_integers(4)?;
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(OpError::invalid(
            "starts, ends, axes and steps differ in number",
        ));
    }
    let own = strides(input.shape());
    // Distinct: each moves the first element.
    Call::axes(&axes, rank)?;
    let mut shape = input.shape().to_vec();
    let mut walked = signed(own.clone());
    let mut base = 0usize;
    for (index, &axis) in axes.iter().enumerate() {
        let axis = Call::axis(axis, rank)?;
        let size = input.shape()[axis] as i64;
        let step = steps[index];
        if step == 0 {
            return Err(OpError::invalid("a step is zero"));
        }
        let from_end = |value: i64| {
            if value < 0 {
                value.saturating_add(size)
            } else {
                value
            }
        };
        let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let start = from_end(starts[index]).clamp(low.max(0).min(high.max(0)), high.max(0));
        let end = from_end(ends[index]).clamp(low, high.max(low));
        let span = if step > 0 { end - start } else { start - end };
        let count = if span > 0 && size > 0 {
            span.unsigned_abs().div_ceil(step.unsigned_abs())
        } else {
            0
        };
        shape[axis] = count as usize;
        if count > 0 {
            base += start as usize * own[axis];
            // With one element left the step is never taken; it may be huge.
            let step = if count == 1 { 1 } else { step as isize };
            walked[axis] = own[axis] as isize * step;
        }
    }
    let data = strided(call, input, base, &shape, &walked)?;
    Ok(vec![tensor(shape, data)?])
}

fn tile(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let repeats = call.integers(1)?;
    if repeats.len() != input.rank() {
        return Err(OpError::invalid(
            "there is not one number of repeats per axis",
        ));
    }
    let own = strides(input.shape());
    let mut shape = Vec::with_capacity(input.rank());
    let (mut walked, mut steps) = (Vec::new(), Vec::new());
    for ((&size, own), repeats) in input.shape().iter().zip(own).zip(repeats) {
        let repeats = usize::try_from(repeats)
            .map_err(|_| OpError::invalid("a number of repeats is negative"))?;
        shape.push(size.saturating_mul(repeats));
        walked.extend([repeats, size]);
        steps.extend([0, own as isize]);
    }
    let data = strided(call, input, 0, &walked, &steps)?;
    Ok(vec![tensor(shape, data)?])
}

/// Integers that are not negative.
pub(super) fn sizes_of_any(values: &[i64]) -> Result<Vec<usize>, OpError> {
    let sizes: Result<Vec<usize>, _> = values.iter().map(|&v| usize::try_from(v)).collect();
    sizes.map_err(|_| OpError::invalid("a size is negative"))
}

/// The axes of an input as sizes.
pub(super) fn sizes(values: &[i64]) -> Result<Vec<usize>, OpError> {
    let sizes = sizes_of_any(values)?;
    if sizes.len() > RANK_MAX {
        return Err(OpError::Tensor(crate::tensor::TensorError::Rank(
            sizes.len(),
        )));
    }
    Ok(sizes)
}

fn expand_to(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let wanted = sizes(&call.integers(1)?)?;
    let shape = broadcast_shape(&[input.shape(), &wanted])?;
    let data = expand(call, input, &shape)?;
    Ok(vec![tensor(shape, data)?])
}

fn shape(call: &Call<'_>) -> Results {
    let shape = call.input(0)?.shape();
    let rank = shape.len() as i64;
    let place = |value: i64| {
        let from_start = if value < 0 {
            value.saturating_add(rank)
        } else {
            value
        };
        from_start.clamp(0, rank) as usize
    };
    let start = place(call.int("start", 0)?);
    let end = place(call.int("end", rank)?).max(start);
    Ok(vec![FloatTensor::vector(
        shape[start..end]
            .iter()
            .map(|&size| size as i64)
            .collect::<Vec<_>>(),
    )])
}

fn constant_of_shape(call: &Call<'_>) -> Results {
    let shape = sizes(&call.integers(0)?)?;
    let zero = FloatTensor::scalar(0f32);
    let value = call.tensor("value")?.unwrap_or(&zero);
    if value.len() != 1 {
        return Err(OpError::invalid("the value has more than one element"));
    }
    let count = call.reserve_shape(&shape, value.dtype())?;
    let data = map_data!(value.data(), values => vec![values[0].clone(); count]);
    Ok(vec![tensor(shape, data)?])
}

fn range(call: &Call<'_>) -> Results {
    let start = call.input(0)?;
    if start.dtype().is_float() {
        return by_real!(call, 0, real_range(call));
    }
    let whole = |index: usize| -> Result<i64, OpError> {
        call.optional_integer(index)?
            .ok_or(OpError::Missing { index })
    };
    let (first, limit, delta) = (whole(0)?, whole(1)?, whole(2)?);
    let span = i128::from(limit) - i128::from(first);
    let step = i128::from(delta);
    if step == 0 {
        return Err(OpError::invalid("the step is zero"));
    }
    let steps = (span + step - step.signum()) / step;
    let count = usize::try_from(steps.max(0)).unwrap_or(usize::MAX);
    call.reserve(count, DType::I64)?;
    call.reserve(count, start.dtype())?;
    let values: Vec<i64> = (0..count as i64)
        .map(|i| first.wrapping_add(i.wrapping_mul(delta)))
        .collect();
    let data = convert::from_i64(&values, start.dtype(), CastMode::default());
    Ok(vec![tensor(
        vec![count],
        data.ok_or_else(|| call.wrong_type(0))?,
    )?])
}

fn real_range<R: Real>(call: &Call<'_>) -> Results {
    let number = |index: usize| match call.values::<R>(index)? {
        [value] => Ok(*value),
        _ => Err(OpError::invalid("an input has not one element")),
    };
    let (first, limit, delta) = (number(0)?, number(1)?, number(2)?);
    let steps = ((limit - first) / delta).ceil().to_f64();
    if steps.is_nan() {
        return Err(OpError::invalid("the range is not a number of steps"));
    }
    let count = steps.max(0.0) as usize;
    call.reserve(count, R::DTYPE)?;
    let value = |i: usize| R::of(i as f64).fma(delta, first);
    one(vec![count], (0..count).map(value).collect())
}

fn eye_like(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let &[rows, columns] = input.shape() else {
        return Err(OpError::invalid("the input is not a matrix"));
    };
    let dtype = super::cast::dtype_attribute(call, "dtype")?.unwrap_or(input.dtype());
    let offset = call.int("k", 0)?;
    call.reserve(rows * columns, DType::I64)?;
    call.reserve(rows * columns, dtype)?;
    let one = |index: usize| {
        let (row, column) = (index / columns.max(1), index % columns.max(1));
        i64::from(column as i64 - row as i64 == offset)
    };
    let values: Vec<i64> = (0..rows * columns).map(one).collect();
    let data = convert::from_i64(&values, dtype, CastMode::default());
    Ok(vec![tensor(
        vec![rows, columns],
        data.ok_or_else(|| call.wrong_type(0))?,
    )?])
}

/// Block size and the four axes.
fn image(call: &Call<'_>) -> Result<(usize, [usize; 4]), OpError> {
    let block = usize::try_from(call.int("blocksize", 0)?).unwrap_or(0);
    let &[n, c, h, w] = call.input(0)?.shape() else {
        return Err(OpError::invalid("the input has not four axes"));
    };
    if block == 0 || block > 1 << 16 {
        return Err(OpError::invalid("the block size is out of range"));
    }
    Ok((block, [n, c, h, w]))
}

/// Reads the input as `inner` axes and writes them in the order `order`.
fn permuted(call: &Call<'_>, inner: &[usize], order: &[usize], shape: Vec<usize>) -> Results {
    let own = strides(inner);
    let walked: Vec<usize> = order.iter().map(|&axis| inner[axis]).collect();
    let steps: Vec<isize> = order.iter().map(|&axis| own[axis] as isize).collect();
    let data = strided(call, call.input(0)?, 0, &walked, &steps)?;
    Ok(vec![tensor(shape, data)?])
}

fn depth_to_space(call: &Call<'_>) -> Results {
    let (b, [n, c, h, w]) = image(call)?;
    if !c.is_multiple_of(b * b) {
        return Err(OpError::invalid("the blocks do not divide the channels"));
    }
    let depth = c / (b * b);
    let shape = vec![n, depth, h * b, w * b];
    match call.text("mode", "DCR")? {
        "CRD" => permuted(call, &[n, depth, b, b, h, w], &[0, 1, 4, 2, 5, 3], shape),
        _ => permuted(call, &[n, b, b, depth, h, w], &[0, 3, 4, 1, 5, 2], shape),
    }
}

fn space_to_depth(call: &Call<'_>) -> Results {
    let (b, [n, c, h, w]) = image(call)?;
    if !h.is_multiple_of(b) || !w.is_multiple_of(b) {
        return Err(OpError::invalid("the blocks do not divide the image"));
    }
    let inner = [n, c, h / b, b, w / b, b];
    let shape = vec![n, c * b * b, h / b, w / b];
    match call.text("mode", "DCR")? {
        "CRD" => permuted(call, &inner, &[0, 1, 3, 5, 2, 4], shape),
        _ => permuted(call, &inner, &[0, 3, 5, 1, 2, 4], shape),
    }
}

fn trilu(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let [_batch @ .., rows, columns] = input.shape() else {
        return Err(OpError::invalid("the input is not a matrix"));
    };
    let (rows, columns) = (*rows, *columns);
    let offset = call.optional_integer(1)?.unwrap_or(0);
    let upper = call.flag("upper", true)?;
    call.reserve(input.len(), input.dtype())?;
    let mut data = Data::zeros(input.dtype(), input.len());
    let count = input.len() / columns.max(1);
    for row in 0..count {
        let diagonal = offset.saturating_add((row % rows.max(1)) as i64);
        let edge = |extra: i64| diagonal.saturating_add(extra).clamp(0, columns as i64) as usize;
        let (from, to) = if upper {
            (edge(0), columns)
        } else {
            (0, edge(1))
        };
        let start = row * columns + from;
        let copied = data.copy_run(start, input.data(), start, to - from);
        copied.ok_or_else(|| call.wrong_type(0))?;
    }
    Ok(vec![tensor(input.shape().to_vec(), data)?])
}

fn reverse_sequence(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let lengths = call.integers(1)?;
    let (time, batch) = (call.int("time_axis", 0)?, call.int("batch_axis", 1)?);
    if input.rank() < 2 || !matches!((time, batch), (0, 1) | (1, 0)) {
        return Err(OpError::invalid(
            "time and batch are not the first two axes",
        ));
    }
    let (time, batch) = (time as usize, batch as usize);
    let shape = input.shape();
    if lengths.len() != shape[batch] {
        return Err(OpError::invalid("there is not one length per batch"));
    }
    let inner: usize = shape[2..].iter().product();
    call.reserve(input.len(), input.dtype())?;
    let mut starts = Vec::with_capacity(shape[0] * shape[1]);
    for first in 0..shape[0] {
        for second in 0..shape[1] {
            let index = [first, second];
            let length = usize::try_from(lengths[index[batch]]).unwrap_or(usize::MAX);
            if length > shape[time] {
                return Err(OpError::invalid("a length is beyond the time axis"));
            }
            let mut from = index;
            if index[time] < length {
                from[time] = length - 1 - index[time];
            }
            starts.push((from[0] * shape[1] + from[1]) * inner);
        }
    }
    Ok(vec![tensor(
        shape.to_vec(),
        input.data().gather_runs(&starts, inner),
    )?])
}

/// Inference: the input, and a mask that keeps everything. Training would draw random numbers.
fn dropout(call: &Call<'_>) -> Results {
    let training = match call.optional(2) {
        Some(flag) => flag
            .values::<bool>()
            .is_some_and(|values| values.first() == Some(&true)),
        None => false,
    };
    let ratio = call
        .optional_floats(1)?
        .and_then(|values| values.first().copied());
    if training && ratio.unwrap_or(0.5) != 0.0 {
        return call.refuse("dropping elements at random");
    }
    let input = call.input(0)?;
    call.reserve(2 * input.len(), input.dtype())?;
    let mask = vec![true; input.len()];
    Ok(vec![
        input.clone(),
        tensor(input.shape().to_vec(), bool::wrap(mask))?,
    ])
}
