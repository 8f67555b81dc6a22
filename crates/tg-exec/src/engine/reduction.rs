//! Reductions and running sums along an axis.

use super::context::Context;
use super::values::{ValuesMut, each, same, wide};
use tg_ir::op::{Reduce, Reduction, RunningSum};
use tg_ir::{Axis, Program, Shape};

/// A reduction along an axis.
#[derive(Debug)]
pub(super) struct Reduced {
    reduce: Reduce,
    shape: Shape,
}

/// Elements before, along and after an axis.
pub(super) fn around(shape: Shape, axis: Axis) -> [usize; 3] {
    let [height, width, channels] =
        [shape.height, shape.width, shape.channels].map(|side| side as usize);
    match axis {
        Axis::Rows => [1, height, width * channels],
        Axis::Columns => [height, width, channels],
        Axis::Channels => [height * width, channels, 1],
    }
}

impl Reduced {
    pub(super) fn new(program: &Program, reduce: &Reduce) -> Self {
        Self {
            reduce: reduce.clone(),
            shape: program.shape(reduce.input),
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let [_, length, inner] = around(self.shape, self.reduce.axis);
        let input = context.reads.get(self.reduce.input);
        match self.reduce.reduction {
            Reduction::Sum => {
                let ValuesMut::I32(out) = out else {
                    unreachable!("sums are accumulators")
                };
                each!(input, values => context.cpu.vectorised(|| {
                    fold(values, out, [length, inner], wide, |sum, value| {
                        *sum = sum.wrapping_add(wide(value));
                    });
                }));
            }
            Reduction::Greatest => same!(out, out, [input => values], {
                fold(values, out, [length, inner], |value| value, |best, value| {
                    *best = (*best).max(value);
                });
            }),
            Reduction::Least => same!(out, out, [input => values], {
                fold(values, out, [length, inner], |value| value, |best, value| {
                    *best = (*best).min(value);
                });
            }),
        }
    }
}

#[inline(always)]
fn fold<S: Copy, T>(
    values: &[S],
    out: &mut [T],
    [length, inner]: [usize; 2],
    first: impl Fn(S) -> T,
    step: impl Fn(&mut T, S),
) {
    let outer = values.chunks_exact(length * inner);
    for (out, values) in out.chunks_exact_mut(inner).zip(outer) {
        for (out, &value) in out.iter_mut().zip(values) {
            *out = first(value);
        }
        for slice in values.chunks_exact(inner).skip(1) {
            for (out, &value) in out.iter_mut().zip(slice) {
                step(out, value);
            }
        }
    }
}

/// Sums of the elements so far along an axis.
#[derive(Debug)]
pub(super) struct Running {
    sum: RunningSum,
    shape: Shape,
}

impl Running {
    pub(super) fn new(program: &Program, sum: &RunningSum) -> Self {
        Self {
            sum: sum.clone(),
            shape: program.shape(sum.input),
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let ValuesMut::I32(out) = out else {
            unreachable!("sums are accumulators")
        };
        let [_, length, inner] = around(self.shape, self.sum.axis);
        let input = context.reads.get(self.sum.input);
        each!(input, values => context.cpu.vectorised(|| accumulate(values, out, [length, inner])));
    }
}

#[inline(always)]
fn accumulate<S: Copy + Into<i32>>(values: &[S], out: &mut [i32], [length, inner]: [usize; 2]) {
    for (out, &value) in out.iter_mut().zip(values) {
        *out = wide(value);
    }
    for slices in out.chunks_exact_mut(length * inner) {
        for at in inner..slices.len() {
            slices[at] = slices[at].wrapping_add(slices[at - inner]);
        }
    }
}
