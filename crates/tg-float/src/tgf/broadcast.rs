//! Broadcasting: shapes of several tensors to one, walked in runs so that inner loops have fixed strides.
#![allow(
    clippy::clone_on_copy,
    reason = "one expression runs on elements of every type, texts included"
)]

use super::call::Call;
use super::error::OpError;
use super::machine::vectorised;
use crate::tensor::{Data, FloatTensor, RANK_MAX, map_data, strides};

/// The shape that all of these broadcast to.
pub(crate) fn broadcast_shape(shapes: &[&[usize]]) -> Result<Vec<usize>, OpError> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut out = vec![1usize; rank];
    for shape in shapes {
        let offset = rank - shape.len();
        for (axis, &size) in shape.iter().enumerate() {
            let slot = &mut out[offset + axis];
            if *slot == 1 {
                *slot = size;
            } else if size != 1 && size != *slot {
                return Err(OpError::invalid(format!(
                    "the shapes {shapes:?} do not broadcast together"
                )));
            }
        }
    }
    Ok(out)
}

/// Strides of a shape seen through a larger one: 0 along axes it is repeated on.
pub(crate) fn broadcast_strides(shape: &[usize], out: &[usize]) -> Vec<usize> {
    let offset = out.len() - shape.len();
    let own = strides(shape);
    (0..out.len())
        .map(|axis| match axis.checked_sub(offset) {
            Some(axis) if shape[axis] != 1 => own[axis],
            _ => 0,
        })
        .collect()
}

/// A walk over a shape in runs along its innermost axis, for `N` tensors with strides of their own.
#[derive(Debug)]
pub(crate) struct Walk<const N: usize> {
    /// Outer axes: size and strides.
    outer: Vec<(usize, [usize; N])>,
    /// Length of a run.
    pub(crate) length: usize,
    /// Strides within a run.
    pub(crate) inner: [usize; N],
}

impl<const N: usize> Walk<N> {
    /// A walk over `shape`; neighbouring axes that all tensors walk evenly are joined.
    pub(crate) fn new(shape: &[usize], strides: &[Vec<usize>; N]) -> Self {
        let mut axes: Vec<(usize, [usize; N])> = Vec::with_capacity(shape.len());
        for (axis, &size) in shape.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let own: [usize; N] = std::array::from_fn(|tensor| strides[tensor][axis]);
            match axes.last_mut() {
                Some((joined, outer))
                    if (0..N).all(|t| outer[t] == own[t].saturating_mul(size)) =>
                {
                    *joined *= size;
                    *outer = own;
                }
                _ => axes.push((size, own)),
            }
        }
        let (length, inner) = axes.pop().unwrap_or((1, [1; N]));
        Self {
            outer: axes,
            length,
            inner,
        }
    }

    /// A walk of tensors that broadcast to `shape`.
    pub(crate) fn broadcast(shape: &[usize], shapes: [&[usize]; N]) -> Self {
        Self::new(shape, &shapes.map(|own| broadcast_strides(own, shape)))
    }

    /// Calls `run` with the offsets of each run, in order.
    #[inline]
    pub(crate) fn for_each(&self, mut run: impl FnMut([usize; N])) {
        if self.length == 0 || self.outer.iter().any(|(size, _)| *size == 0) {
            return;
        }
        let rank = self.outer.len();
        let mut index = [0usize; RANK_MAX];
        let mut offsets = [0usize; N];
        loop {
            run(offsets);
            let mut axis = rank;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                let (size, strides) = &self.outer[axis];
                index[axis] += 1;
                for (offset, stride) in offsets.iter_mut().zip(strides) {
                    *offset += stride;
                }
                if index[axis] < *size {
                    break;
                }
                index[axis] = 0;
                for (offset, stride) in offsets.iter_mut().zip(strides) {
                    *offset -= stride * size;
                }
            }
        }
    }
}

/// A function of two tensors that broadcast together.
#[inline]
pub(crate) fn zip<A: Copy, B: Copy, R>(
    (a, a_shape): (&[A], &[usize]),
    (b, b_shape): (&[B], &[usize]),
    shape: &[usize],
    count: usize,
    function: impl Fn(A, B) -> R,
) -> Vec<R> {
    let mut out = Vec::with_capacity(count);
    let walk = Walk::broadcast(shape, [a_shape, b_shape]);
    let length = walk.length;
    vectorised(
        #[inline(always)]
        || {
            walk.for_each(|[i, j]| match walk.inner {
                [1, 1] => {
                    let pairs = a[i..i + length].iter().zip(&b[j..j + length]);
                    out.extend(pairs.map(|(&x, &y)| function(x, y)));
                }
                [1, 0] => {
                    let y = b[j];
                    out.extend(a[i..i + length].iter().map(|&x| function(x, y)));
                }
                [0, 1] => {
                    let x = a[i];
                    out.extend(b[j..j + length].iter().map(|&y| function(x, y)));
                }
                [p, q] => out.extend((0..length).map(|k| function(a[i + k * p], b[j + k * q]))),
            });
        },
    );
    out
}

/// A tensor repeated to a larger shape.
pub(crate) fn expand(
    call: &Call<'_>,
    tensor: &FloatTensor,
    shape: &[usize],
) -> Result<Data, OpError> {
    call.reserve_shape(shape, tensor.dtype())?;
    if tensor.shape() == shape {
        return Ok(tensor.data().clone());
    }
    let walk = Walk::broadcast(shape, [tensor.shape()]);
    Ok(map_data!(tensor.data(), values => {
        let mut out = Vec::new();
        walk.for_each(|[i]| match walk.inner {
            [1] => out.extend_from_slice(&values[i..i + walk.length]),
            [0] => out.extend(std::iter::repeat_n(&values[i], walk.length).cloned()),
            [p] => out.extend((0..walk.length).map(|k| values[i + k * p].clone())),
        });
        out
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The same by index arithmetic on every element.
    fn naive(a: &[i64], a_shape: &[usize], b: &[i64], b_shape: &[usize]) -> Vec<i64> {
        let shape = broadcast_shape(&[a_shape, b_shape]).unwrap();
        let (p, q) = (
            broadcast_strides(a_shape, &shape),
            broadcast_strides(b_shape, &shape),
        );
        let own = strides(&shape);
        let count: usize = shape.iter().product();
        (0..count)
            .map(|index| {
                let at = |steps: &[usize]| -> usize {
                    let axes = shape.iter().zip(&own).zip(steps);
                    axes.map(|((size, own), step)| index / own % size * step)
                        .sum()
                };
                a[at(&p)] * 1000 + b[at(&q)]
            })
            .collect()
    }

    #[test]
    fn every_pattern_of_repetition_is_walked_right() {
        for mask in 0..256usize {
            let full = [2usize, 3, 1, 4];
            let shape = |bits: usize| -> Vec<usize> {
                let axis = |axis: usize| if bits >> axis & 1 == 1 { 1 } else { full[axis] };
                (0..4).map(axis).collect()
            };
            let (a_shape, b_shape) = (shape(mask & 15), shape(mask >> 4));
            let a: Vec<i64> = (0..a_shape.iter().product::<usize>() as i64).collect();
            let b: Vec<i64> = (0..b_shape.iter().product::<usize>() as i64).collect();
            let out = broadcast_shape(&[&a_shape, &b_shape]).unwrap();
            let count = out.iter().product();
            let got = zip((&a, &a_shape), (&b, &b_shape), &out, count, |x, y| {
                x * 1000 + y
            });
            assert_eq!(
                got,
                naive(&a, &a_shape, &b, &b_shape),
                "{a_shape:?} {b_shape:?}"
            );
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        assert_eq!(broadcast_shape(&[&[2, 1], &[3]]), Ok(vec![2, 3]));
        assert_eq!(broadcast_shape(&[&[0, 1], &[3]]), Ok(vec![0, 3]));
        assert!(broadcast_shape(&[&[2], &[3]]).is_err());
    }
}
