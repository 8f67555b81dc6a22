//! Where the steps of a sequence lie in a tensor, and slices of some steps.

use crate::engine::values::{Values, ValuesMut, same};
use tg_ir::{Axis, Shape};

/// A tensor as `outer` times steps times `inner` elements in storage order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepLayout {
    pub outer: usize,
    pub inner: usize,
}

/// Some consecutive steps of so many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub steps: usize,
    pub first: usize,
    pub rows: usize,
}

const AXES: [Axis; 3] = [Axis::Columns, Axis::Rows, Axis::Channels];

impl StepLayout {
    /// The steps along an axis, `repeat` entries of it for each.
    pub(super) fn along(shape: Shape, axis: Axis, repeat: usize, steps: usize) -> Option<Self> {
        let inner = repeat * shape.stride(axis);
        let length = shape.axis(axis) as usize;
        (length > 0 && length.is_multiple_of(repeat * steps)).then(|| Self {
            outer: shape.elements() / (inner * steps),
            inner,
        })
    }

    /// The layouts of a shape in which an axis has one entry for each step.
    pub(super) fn of_axes(shape: Shape, steps: usize) -> impl Iterator<Item = Self> {
        let fits = move |axis: &Axis| shape.axis(*axis) as usize == steps;
        let axes = AXES.into_iter().filter(fits);
        axes.filter_map(move |axis| Self::along(shape, axis, 1, steps))
    }

    /// The axis that has the steps, and how many entries it has for each.
    pub(super) fn axis(self, shape: Shape, steps: usize) -> Option<(Axis, usize)> {
        if self.outer * self.inner * steps != shape.elements() {
            return None;
        }
        AXES.into_iter().find_map(|axis| {
            let after = shape.stride(axis);
            let repeat = self.inner / after;
            let fits = self.inner.is_multiple_of(after)
                && (shape.axis(axis) as usize).is_multiple_of((repeat * steps).max(1));
            // Of one step every axis would do; of more, one that has all of them.
            fits.then_some((axis, repeat))
        })
    }

    /// The shape of some steps.
    pub(super) fn shape(self, shape: Shape, steps: usize, rows: usize) -> Option<Shape> {
        let (axis, _) = self.axis(shape, steps)?;
        let length = shape.axis(axis) as usize / steps * rows;
        Some(shape.with_axis(axis, u32::try_from(length).ok()?))
    }

    /// The step of an element.
    pub(super) const fn step(self, element: usize, steps: usize) -> usize {
        element / self.inner % steps
    }

    /// Elements of some steps.
    pub(super) const fn elements(self, rows: usize) -> usize {
        self.outer * rows * self.inner
    }
}

/// Copies some steps of a tensor; the first `before` of the slice are those before the stretch, `fill` where there are none.
pub(super) fn fetch(
    layout: StepLayout,
    stretch: Stretch,
    (before, fill): (usize, i16),
    whole: Values<'_>,
    slice: ValuesMut<'_>,
) {
    let StepLayout { inner, .. } = layout;
    let Stretch { steps, first, rows } = stretch;
    let known = before.min(first);
    let (empty, count) = ((before - known) * inner, (known + rows) * inner);
    let start = (first - known) * inner;
    let fill = i32::from(fill);
    same!(slice, slice, [whole => whole], {
        let pairs = whole.chunks_exact(steps * inner).zip(slice.chunks_exact_mut(empty + count));
        for (whole, slice) in pairs {
            let (outside, inside) = slice.split_at_mut(empty);
            outside.fill(narrow(fill));
            inside.copy_from_slice(&whole[start..start + count]);
        }
    });
}

/// Puts a slice into the tensor that it is one of.
pub(super) fn store(layout: StepLayout, stretch: Stretch, slice: Values<'_>, whole: ValuesMut<'_>) {
    let StepLayout { inner, .. } = layout;
    let Stretch { steps, first, rows } = stretch;
    let (start, count) = (first * inner, rows * inner);
    same!(whole, whole, [slice => slice], {
        for (whole, slice) in whole.chunks_exact_mut(steps * inner).zip(slice.chunks_exact(count)) {
            whole[start..start + count].copy_from_slice(slice);
        }
    });
}

/// A value that the program checks to fit the type.
fn narrow<T: TryFrom<i32> + Default>(value: i32) -> T {
    T::try_from(value).unwrap_or_default()
}
