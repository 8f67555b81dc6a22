//! Reductions: `Reduce*`, `ArgMax`, `ArgMin`, `CumSum`, `CumProd`.
//!
//! Elements are taken row-major over the reduced axes, one after another from the neutral element.

use super::broadcast::Walk;
use super::call::Entry;
use super::call::Half::{Native, Widen};
use super::call::{Call, Results, one, tensor};
use super::error::OpError;
use super::real::Real;
use super::rows::{row_sums, softmax_sizes};
use crate::convert::{self, CastMode};
use crate::tensor::{DType, Data, FloatTensor, strides};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "ReduceSum" => (|call| reduce(call, Fold::Sum), Widen),
        "ReduceMean" => (|call| reduce(call, Fold::Mean), Widen),
        "ReduceMax" => (|call| reduce(call, Fold::Max), Widen),
        "ReduceMin" => (|call| reduce(call, Fold::Min), Widen),
        "ReduceProd" => (|call| reduce(call, Fold::Product), Widen),
        "ReduceL1" => (|call| reduce(call, Fold::L1), Widen),
        "ReduceL2" => (|call| reduce(call, Fold::L2), Widen),
        "ReduceSumSquare" => (|call| reduce(call, Fold::SumSquare), Widen),
        "ReduceLogSum" => (|call| reduce(call, Fold::LogSum), Widen),
        "ReduceLogSumExp" => (|call| reduce(call, Fold::LogSumExp), Widen),
        "ArgMax" => (|call| arg(call, Side::Max), Widen),
        "ArgMin" => (|call| arg(call, Side::Min), Widen),
        "CumSum" => (|call| cumulate(call, Fold::Sum), Widen),
        "CumProd" => (|call| cumulate(call, Fold::Product), Widen),
        "Hardmax" => (hardmax, Widen),
        "Size" => (size, Native),
        _ => return None,
    })
}

/// How elements are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fold {
    Sum,
    Mean,
    Max,
    Min,
    Product,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
}

/// A shape with some axes reduced.
pub(super) struct Reduced {
    /// With reduced axes of size 1 or gone.
    pub(super) shape: Vec<usize>,
    /// Elements of the result.
    pub(super) count: usize,
    /// Elements that make one of the result.
    pub(super) depth: usize,
    /// Walks the input and the result.
    pub(super) walk: Walk<2>,
}

impl Reduced {
    pub(super) fn new(shape: &[usize], axes: &[usize], keep: bool) -> Self {
        let kept: Vec<usize> = (0..shape.len())
            .map(|axis| if axes.contains(&axis) { 1 } else { shape[axis] })
            .collect();
        let own = strides(&kept);
        let steps = (0..shape.len())
            .map(|axis| if axes.contains(&axis) { 0 } else { own[axis] })
            .collect();
        let out = if keep {
            kept.clone()
        } else {
            let left = (0..shape.len()).filter(|axis| !axes.contains(axis));
            left.map(|axis| shape[axis]).collect()
        };
        Self {
            shape: out,
            count: kept.iter().product(),
            depth: axes.iter().map(|&axis| shape[axis]).product(),
            walk: Walk::new(shape, &[strides(shape), steps]),
        }
    }

    /// Folds every element of `values` into its place of the result, in order.
    pub(super) fn fold<T: Copy, S: Copy>(
        &self,
        values: &[T],
        start: S,
        step: impl Fn(S, T) -> S,
    ) -> Vec<S> {
        let mut out = vec![start; self.count];
        self.fold_into(values, &mut out, |_, sum, value| step(sum, value));
        out
    }

    /// The same, with the place of the result.
    pub(super) fn fold_into<T: Copy, S: Copy>(
        &self,
        values: &[T],
        out: &mut [S],
        step: impl Fn(usize, S, T) -> S,
    ) {
        let length = self.walk.length;
        self.walk.for_each(|[from, to]| match self.walk.inner {
            [1, 0] => {
                let run = values[from..from + length].iter();
                out[to] = run.fold(out[to], |sum, &value| step(to, sum, value));
            }
            [1, 1] => {
                let run = values[from..from + length].iter();
                for (offset, &value) in run.enumerate() {
                    out[to + offset] = step(to + offset, out[to + offset], value);
                }
            }
            [p, q] => {
                for k in 0..length {
                    let place = to + k * q;
                    out[place] = step(place, out[place], values[from + k * p]);
                }
            }
        });
    }
}

/// The axes that a reduction names: an input in new versions, an attribute in old ones, none for all.
fn named_axes(call: &Call<'_>) -> Result<Option<Vec<usize>>, OpError> {
    let rank = call.input(0)?.rank();
    let axes = call.ints_at(1, "axes")?;
    match axes {
        Some(axes) if !axes.is_empty() => Ok(Some(Call::axes(&axes, rank)?)),
        _ if call.flag("noop_with_empty_axes", false)? => Ok(None),
        _ => Ok(Some((0..rank).collect())),
    }
}

fn reduce(call: &Call<'_>, fold: Fold) -> Results {
    let input = call.input(0)?;
    let axes = named_axes(call)?.unwrap_or_default();
    let reduced = Reduced::new(input.shape(), &axes, call.flag("keepdims", true)?);
    call.reserve(reduced.count, DType::I64)?;
    call.reserve(reduced.count, input.dtype())?;
    let data = match input.data() {
        Data::F32(values) => Data::F32(reals(&reduced, values, fold)),
        Data::F64(values) => Data::F64(reals(&reduced, values, fold)),
        Data::Bool(values) if fold == Fold::Max => {
            Data::Bool(reduced.fold(values, false, |a, b| a | b))
        }
        Data::Bool(values) if fold == Fold::Min => {
            Data::Bool(reduced.fold(values, true, |a, b| a & b))
        }
        data => {
            let values = convert::to_i64(data).ok_or_else(|| call.wrong_type(0))?;
            if !input.dtype().is_integer() || input.dtype() == DType::U64 && fold != Fold::Sum {
                return Err(call.wrong_type(0));
            }
            let values = integers(&reduced, &values, fold, input.dtype());
            let wrapped = convert::from_i64(&values, input.dtype(), CastMode::default());
            wrapped.ok_or_else(|| call.wrong_type(0))?
        }
    };
    Ok(vec![tensor(reduced.shape, data)?])
}

fn reals<R: Real>(reduced: &Reduced, values: &[R], fold: Fold) -> Vec<R> {
    let rows =
        reduced.depth > 0 && reduced.walk.length == reduced.depth && reduced.walk.inner == [1, 0];
    let mut out = match fold {
        Fold::Sum | Fold::Mean | Fold::LogSum if rows => row_sums(
            values,
            reduced.depth,
            #[inline(always)]
            |sum, v| sum + v,
        ),
        Fold::L2 | Fold::SumSquare if rows => row_sums(
            values,
            reduced.depth,
            #[inline(always)]
            |sum, v| v.fma(v, sum),
        ),
        Fold::Sum | Fold::Mean | Fold::LogSum => reduced.fold(values, R::ZERO, |sum, v| sum + v),
        Fold::Max => reduced.fold(values, -R::INFINITY, Real::larger),
        Fold::Min => reduced.fold(values, R::INFINITY, Real::smaller),
        Fold::Product => reduced.fold(values, R::ONE, |product, v| product * v),
        Fold::L1 => reduced.fold(values, R::ZERO, |sum, v| sum + v.abs()),
        Fold::L2 | Fold::SumSquare => reduced.fold(values, R::ZERO, |sum, v| v.fma(v, sum)),
        Fold::LogSumExp => {
            let largest = reduced.fold(values, -R::INFINITY, Real::larger);
            let mut sums = vec![R::ZERO; reduced.count];
            reduced.fold_into(values, &mut sums, |place, sum, v| {
                let offset = finite_or_zero(largest[place]);
                sum + (v - offset).exp()
            });
            let log = |(sum, &top): (&R, &R)| sum.ln() + finite_or_zero(top);
            sums.iter().zip(&largest).map(log).collect()
        }
    };
    let depth = R::of(reduced.depth as f64);
    for value in &mut out {
        let result = match fold {
            Fold::Mean => *value / depth,
            Fold::L2 => value.sqrt(),
            Fold::LogSum => value.ln(),
            _ => *value,
        };
        *value = result.canonical();
    }
    out
}

/// An offset that keeps differences defined.
fn finite_or_zero<R: Real>(value: R) -> R {
    if value.abs() < R::INFINITY {
        value
    } else {
        R::ZERO
    }
}

fn integers(reduced: &Reduced, values: &[i64], fold: Fold, dtype: DType) -> Vec<i64> {
    let rounded = |real: f64| real as i64;
    match fold {
        Fold::Sum => reduced.fold(values, 0i64, i64::wrapping_add),
        Fold::Mean => {
            let depth = (reduced.depth as i64).max(1);
            let sums = reduced.fold(values, 0i64, i64::wrapping_add);
            sums.into_iter().map(|sum| sum / depth).collect()
        }
        Fold::Max => {
            let start = if dtype == DType::I64 {
                i64::MIN
            } else {
                least(dtype)
            };
            reduced.fold(values, start, i64::max)
        }
        Fold::Min => reduced.fold(values, i64::MAX, i64::min),
        Fold::Product => reduced.fold(values, 1i64, i64::wrapping_mul),
        Fold::L1 => reduced.fold(values, 0i64, |sum, v| sum.wrapping_add(v.wrapping_abs())),
        Fold::SumSquare => reduced.fold(values, 0i64, |sum, v| sum.wrapping_add(v.wrapping_mul(v))),
        Fold::L2 => {
            let square = |sum: i64, v: i64| sum.wrapping_add(v.wrapping_mul(v));
            let sums = reduced.fold(values, 0i64, square);
            sums.into_iter()
                .map(|sum| rounded((sum as f64).sqrt()))
                .collect()
        }
        Fold::LogSum | Fold::LogSumExp => {
            let wide: Vec<f64> = values.iter().map(|&v| v as f64).collect();
            reals(reduced, &wide, fold)
                .into_iter()
                .map(rounded)
                .collect()
        }
    }
}

fn least(dtype: DType) -> i64 {
    match dtype {
        DType::I8 => i8::MIN.into(),
        DType::I16 => i16::MIN.into(),
        DType::I32 => i32::MIN.into(),
        _ => 0,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Max,
    Min,
}

/// The index of the extreme element; the first of equal ones, or the last if asked. NaN is never it.
fn arg(call: &Call<'_>, side: Side) -> Results {
    let input = call.input(0)?;
    let axis = Call::axis(call.int("axis", 0)?, input.rank())?;
    let keep = call.flag("keepdims", true)?;
    let last = call.flag("select_last_index", false)?;
    let size = input.shape()[axis];
    if size == 0 {
        return Err(OpError::invalid("the axis is empty"));
    }
    call.reserve(input.len(), DType::F64)?;
    call.charge_steps(&[input.len(), 4])?;
    let outer: usize = input.shape()[..axis].iter().product();
    let inner: usize = input.shape()[axis + 1..].iter().product();
    let mut shape = input.shape().to_vec();
    if keep {
        shape[axis] = 1;
    } else {
        shape.remove(axis);
    }
    let places = match convert::to_i64(input.data()) {
        Some(values) => extremes(&values, [outer, size, inner], side, last),
        None => {
            let values = convert::to_f64(input.data()).ok_or_else(|| call.wrong_type(0))?;
            extremes(&values, [outer, size, inner], side, last)
        }
    };
    one(shape, places)
}

fn extremes<T: PartialOrd + Copy>(
    values: &[T],
    [outer, size, inner]: [usize; 3],
    side: Side,
    last: bool,
) -> Vec<i64> {
    let mut places = Vec::with_capacity(outer * inner);
    for row in 0..outer {
        for column in 0..inner {
            let at = |k: usize| values[(row * size + k) * inner + column];
            let mut best = 0;
            for k in 1..size {
                let (new, old) = (at(k), at(best));
                let better = match side {
                    Side::Max => new > old,
                    Side::Min => new < old,
                };
                if better || (last && new == old) {
                    best = k;
                }
            }
            places.push(best as i64);
        }
    }
    places
}

fn cumulate(call: &Call<'_>, fold: Fold) -> Results {
    let input = call.input(0)?;
    let axis = call
        .optional_integer(1)?
        .ok_or(OpError::Missing { index: 1 })?;
    let axis = Call::axis(axis, input.rank())?;
    let exclusive = call.flag("exclusive", false)?;
    let reverse = call.flag("reverse", false)?;
    let shape = input.shape();
    let sizes = [
        shape[..axis].iter().product(),
        shape[axis],
        shape[axis + 1..].iter().product(),
    ];
    call.reserve(input.len(), DType::I64)?;
    call.charge_steps(&[input.len(), 2])?;
    let data = match input.data() {
        Data::F32(values) => Data::F32(real_scan(values, sizes, fold, exclusive, reverse)),
        Data::F64(values) => Data::F64(real_scan(values, sizes, fold, exclusive, reverse)),
        data => {
            let values = convert::to_i64(data).ok_or_else(|| call.wrong_type(0))?;
            let values = if fold == Fold::Sum {
                scan(&values, sizes, 0, i64::wrapping_add, exclusive, reverse)
            } else {
                scan(&values, sizes, 1, i64::wrapping_mul, exclusive, reverse)
            };
            let wrapped = convert::from_i64(&values, input.dtype(), CastMode::default());
            wrapped.ok_or_else(|| call.wrong_type(0))?
        }
    };
    Ok(vec![tensor(shape.to_vec(), data)?])
}

fn real_scan<R: Real>(
    values: &[R],
    sizes: [usize; 3],
    fold: Fold,
    exclusive: bool,
    reverse: bool,
) -> Vec<R> {
    if fold == Fold::Sum {
        let add = |sum: R, v: R| (sum + v).canonical();
        scan(values, sizes, R::ZERO, add, exclusive, reverse)
    } else {
        let times = |product: R, v: R| (product * v).canonical();
        scan(values, sizes, R::ONE, times, exclusive, reverse)
    }
}

fn scan<T: Copy>(
    values: &[T],
    [outer, size, inner]: [usize; 3],
    start: T,
    step: impl Fn(T, T) -> T,
    exclusive: bool,
    reverse: bool,
) -> Vec<T> {
    let mut out = values.to_vec();
    for row in 0..outer {
        for column in 0..inner {
            let mut sum = start;
            for k in 0..size {
                let k = if reverse { size - 1 - k } else { k };
                let place = (row * size + k) * inner + column;
                let next = step(sum, values[place]);
                out[place] = if exclusive { sum } else { next };
                sum = next;
            }
        }
    }
    out
}

/// One where the first largest element is, zero elsewhere. Versions before 13 flatten to two axes.
fn hardmax(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let sizes = softmax_sizes(call)?;
    let [outer, size, inner] = sizes;
    call.reserve(input.len(), DType::F64)?;
    call.charge_steps(&[input.len(), 4])?;
    let values = convert::to_f64(input.data()).ok_or_else(|| call.wrong_type(0))?;
    let mut out = vec![0f64; input.len()];
    if size > 0 {
        let places = extremes(&values, sizes, Side::Max, false);
        for (index, &place) in places.iter().enumerate().take(outer * inner) {
            let (row, column) = (index / inner.max(1), index % inner.max(1));
            out[(row * size + place as usize) * inner + column] = 1.0;
        }
    }
    let data = convert::from_f64(&out, input.dtype(), CastMode::default());
    let data = data.ok_or_else(|| call.wrong_type(0))?;
    Ok(vec![tensor(input.shape().to_vec(), data)?])
}

fn size(call: &Call<'_>) -> Results {
    Ok(vec![FloatTensor::scalar(call.input(0)?.len() as i64)])
}
