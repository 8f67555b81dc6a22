//! How the elements of a value lie in a tensor: per axis of the value a product of strided factors.
//!
//! Reshapes, transposes, slices, splits and repetitions only change this record. A tensor is moved (one `View`) when
//! a reader needs its elements in another order, and all movement before that is in the one view.

use tg_ir::View;
use tg_ir::view::VIEW_AXES_MAX;

/// `size` steps of `stride` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Factor {
    pub(crate) size: usize,
    pub(crate) stride: i64,
}

/// Element `index` of a value is element `offset + sum of factor indices times strides` of a tensor; the factors of
/// an axis split its index as digits, outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Strided {
    pub(crate) offset: i64,
    pub(crate) axes: Vec<Vec<Factor>>,
}

impl Strided {
    /// A value that lies in its own order.
    pub(crate) fn contiguous(shape: &[usize]) -> Self {
        let order: Vec<usize> = (0..shape.len()).collect();
        Self::ordered(shape, &order)
    }

    /// A value that lies with its axes in another order, outermost first.
    pub(crate) fn ordered(shape: &[usize], order: &[usize]) -> Self {
        let mut axes = vec![Vec::new(); shape.len()];
        let mut stride = 1i64;
        for &axis in order.iter().rev() {
            axes[axis] = normal(vec![Factor {
                size: shape[axis],
                stride,
            }]);
            stride *= shape[axis] as i64;
        }
        Self { offset: 0, axes }
    }

    /// Sizes of the axes.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.axes
            .iter()
            .map(|factors| factors.iter().map(|factor| factor.size).product())
            .collect()
    }

    /// The factors of some axes, in this order.
    pub(crate) fn factors(&self, axes: impl IntoIterator<Item = usize>) -> Vec<Factor> {
        let all = axes.into_iter().flat_map(|axis| self.axes[axis].clone());
        normal(all.collect())
    }

    /// All factors in the order of the value.
    pub(crate) fn all(&self) -> Vec<Factor> {
        self.factors(0..self.axes.len())
    }

    /// Whether every element of a tensor is an element of the value, once.
    pub(crate) fn is_dense(&self, elements: usize) -> bool {
        let mut factors = self.all();
        factors.sort_by_key(|factor| std::cmp::Reverse(factor.stride));
        self.offset == 0 && is_contiguous(&normal(factors), elements)
    }

    /// The same elements under other axes, or nothing if a new axis would end inside an old factor.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let mut rest = self.all();
        let mut axes = vec![Vec::new(); shape.len()];
        for (axis, &size) in shape.iter().enumerate().rev() {
            let mut left = size;
            let mut factors = Vec::new();
            while left > 1 {
                let inner = rest.pop()?;
                if left.is_multiple_of(inner.size) {
                    left /= inner.size;
                    factors.push(inner);
                } else if inner.size.is_multiple_of(left) {
                    factors.push(Factor {
                        size: left,
                        ..inner
                    });
                    rest.push(Factor {
                        size: inner.size / left,
                        stride: inner.stride * left as i64,
                    });
                    left = 1;
                } else {
                    return None;
                }
            }
            factors.reverse();
            axes[axis] = normal(factors);
        }
        rest.is_empty().then_some(Self {
            offset: self.offset,
            axes,
        })
    }

    /// Axes in another order: axis i is the old axis `order[i]`.
    pub(crate) fn transposed(&self, order: &[usize]) -> Self {
        Self {
            offset: self.offset,
            axes: order.iter().map(|&axis| self.axes[axis].clone()).collect(),
        }
    }

    /// `length` elements along an axis from `start` in steps, or nothing if they are not affine in the factors.
    pub(crate) fn sliced(
        &self,
        axis: usize,
        start: usize,
        step: i64,
        length: usize,
    ) -> Option<Self> {
        let (offset, factors) = slice(&self.axes[axis], start, step, length)?;
        let mut result = self.clone();
        result.offset += offset;
        result.axes[axis] = normal(factors);
        Some(result)
    }

    /// Repeated to a shape by the rules of broadcasting; nothing if the shapes do not broadcast.
    pub(crate) fn expanded(&self, shape: &[usize]) -> Option<Self> {
        let missing = shape.len().checked_sub(self.axes.len())?;
        let mut axes: Vec<Vec<Factor>> = vec![Vec::new(); missing];
        axes.extend(self.axes.iter().cloned());
        for (factors, &size) in axes.iter_mut().zip(shape) {
            let own: usize = factors.iter().map(|factor| factor.size).product();
            if own == 1 && size > 1 {
                *factors = vec![Factor { size, stride: 0 }];
            } else if own != size {
                return None;
            }
        }
        Some(Self {
            offset: self.offset,
            axes,
        })
    }

    /// The view that lays these factors out one after the other, or nothing if it has too many axes.
    pub(crate) fn view(&self, factors: &[Factor]) -> Option<View> {
        let narrow = |factor: &Factor| {
            Some((
                u32::try_from(factor.size).ok()?,
                i32::try_from(factor.stride).ok()?,
            ))
        };
        let mut axes: Vec<(u32, i32)> = factors.iter().map(narrow).collect::<Option<_>>()?;
        if axes.is_empty() {
            axes.push((1, 0));
        }
        (axes.len() <= VIEW_AXES_MAX)
            .then(|| Some(View::new(u32::try_from(self.offset).ok()?, &axes)))
            .flatten()
    }

    /// The factors of this value in the order in which `like`, dense in its tensor, lies; nothing if the two split an
    /// axis at incompatible places.
    pub(crate) fn aligned(&self, like: &Self) -> Option<Vec<Factor>> {
        let mut pairs: Vec<(i64, Factor)> = Vec::new();
        for (mine, theirs) in self.axes.iter().zip(&like.axes) {
            let mut mine = mine.clone();
            let mut theirs = theirs.clone();
            while let (Some(a), Some(b)) = (mine.pop(), theirs.pop()) {
                let size = a.size.min(b.size);
                if !a.size.is_multiple_of(size) || !b.size.is_multiple_of(size) {
                    return None;
                }
                for (list, factor) in [(&mut mine, a), (&mut theirs, b)] {
                    if factor.size > size {
                        list.push(Factor {
                            size: factor.size / size,
                            stride: factor.stride * size as i64,
                        });
                    }
                }
                pairs.push((
                    b.stride,
                    Factor {
                        size,
                        stride: a.stride,
                    },
                ));
            }
            if !mine.is_empty() || !theirs.is_empty() {
                return None;
            }
        }
        pairs.sort_by_key(|(stride, _)| std::cmp::Reverse(*stride));
        Some(normal(
            pairs.into_iter().map(|(_, factor)| factor).collect(),
        ))
    }

    /// The tensor element of each element of the value, in the value's order.
    pub(crate) fn sources(&self) -> Vec<usize> {
        sources(self.offset, &self.all())
    }
}

/// The tensor elements that factors visit, last factor innermost.
pub(crate) fn sources(offset: i64, factors: &[Factor]) -> Vec<usize> {
    let mut all = vec![offset];
    for &Factor { size, stride } in factors {
        let steps = |&base: &i64| (0..size as i64).map(move |i| base + i * stride);
        all = all.iter().flat_map(steps).collect();
    }
    all.into_iter().map(|source| source as usize).collect()
}

/// Whether factors visit the elements of a tensor in order.
pub(crate) fn is_contiguous(factors: &[Factor], elements: usize) -> bool {
    match factors {
        [] => elements == 1,
        [only] => only.size == elements && only.stride == 1,
        _ => false,
    }
}

/// Without factors of one step, and neighbours that continue each other as one.
pub(crate) fn normal(factors: Vec<Factor>) -> Vec<Factor> {
    let mut result: Vec<Factor> = Vec::with_capacity(factors.len());
    for factor in factors {
        if factor.size == 1 {
            continue;
        }
        match result.last_mut() {
            Some(last) if last.stride == factor.stride * factor.size as i64 => {
                last.size *= factor.size;
                last.stride = factor.stride;
            }
            _ => result.push(factor),
        }
    }
    result
}

fn slice(factors: &[Factor], start: usize, step: i64, length: usize) -> Option<(i64, Vec<Factor>)> {
    let Some((outer, rest)) = factors.split_first() else {
        return (start == 0 && length == 1).then(|| (0, Vec::new()));
    };
    if rest.is_empty() {
        let taken = Factor {
            size: length,
            stride: outer.stride * step,
        };
        return Some((start as i64 * outer.stride, vec![taken]));
    }
    let inner: usize = rest.iter().map(|factor| factor.size).product();
    let last = start as i64 + (length as i64 - 1) * step;
    let last = usize::try_from(last).ok()?;
    if start / inner == last / inner {
        let (offset, taken) = slice(rest, start % inner, step, length)?;
        return Some(((start / inner) as i64 * outer.stride + offset, taken));
    }
    if step == 1 && start.is_multiple_of(inner) && length.is_multiple_of(inner) {
        let taken = Factor {
            size: length / inner,
            stride: outer.stride,
        };
        let all = std::iter::once(taken).chain(rest.iter().copied());
        return Some(((start / inner) as i64 * outer.stride, all.collect()));
    }
    let stride = usize::try_from(step).ok()?;
    if stride.is_multiple_of(inner) {
        // One inner position of every few outer ones.
        let (offset, _) = slice(rest, start % inner, 1, 1)?;
        let taken = Factor {
            size: length,
            stride: outer.stride * (stride / inner) as i64,
        };
        return Some(((start / inner) as i64 * outer.stride + offset, vec![taken]));
    }
    None
}

/// Rows, columns and channels of a tensor, each as axes of a value.
pub(crate) type Groups = [Vec<usize>; 3];

/// How a value is stored if nothing else asks: an image by row, column and channel, anything else by its last axis.
pub(crate) fn default_groups(shape: &[usize]) -> Groups {
    match shape.len() {
        0 => [Vec::new(), Vec::new(), Vec::new()],
        4 => [vec![0, 2], vec![3], vec![1]],
        rank => [(0..rank - 1).collect(), Vec::new(), vec![rank - 1]],
    }
}

/// The layout of a value in a tensor of these groups.
pub(crate) fn grouped_layout(shape: &[usize], groups: &Groups) -> Strided {
    let order: Vec<usize> = groups.iter().flatten().copied().collect();
    Strided::ordered(shape, &order)
}

/// An axis counted from the start.
pub(crate) fn axis_of(axis: i64, rank: usize) -> usize {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(counted)
        .unwrap_or(0)
        .min(rank.saturating_sub(1))
}

/// A layout whose channels, the innermost axis, are more or fewer.
pub(crate) fn rechannelled(layout: &Strided, axis: usize, from: usize, to: usize) -> Strided {
    let mut result = layout.clone();
    for (index, factors) in result.axes.iter_mut().enumerate() {
        if index == axis {
            *factors = super::strided::normal(vec![Factor {
                size: to,
                stride: 1,
            }]);
        } else {
            for factor in factors {
                factor.stride = factor.stride / from as i64 * to as i64;
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    /// A channels-first image of 2 channels, 3 rows and 4 columns stored channels last.
    fn image() -> Strided {
        Strided::ordered(&[1, 2, 3, 4], &[0, 2, 3, 1])
    }

    #[test]
    fn an_image_flattens_without_moving() {
        let flat = image().reshaped(&[1, 24]).unwrap();
        assert_eq!(flat.sizes(), [1, 24]);
        assert!(flat.is_dense(24));
        let sources = flat.sources();
        assert_eq!(sources[..5], [0, 2, 4, 6, 8]);
        assert_eq!(sources[12], 1);
        let back = flat.reshaped(&[2, 12]).unwrap().transposed(&[1, 0]);
        assert_eq!(back.sources(), (0..24).collect::<Vec<_>>());
        assert!(is_contiguous(&back.all(), 24));
        assert_eq!(flat.reshaped(&[8, 3]).unwrap().sizes(), [8, 3]);
        assert_eq!(flat.reshaped(&[3, 8]), None);
        assert_eq!(flat.reshaped(&[5, 5]), None);
    }

    #[test]
    fn slices_move_the_offset() {
        let flat = image().reshaped(&[24]).unwrap();
        let upper = flat.sliced(0, 12, 1, 12).unwrap();
        assert_eq!(upper.sources(), flat.sources()[12..]);
        let within = flat.sliced(0, 13, 2, 3).unwrap();
        let expected: Vec<usize> = [13, 15, 17].map(|i| flat.sources()[i]).to_vec();
        assert_eq!(within.sources(), expected);
        let across = flat.sliced(0, 5, 12, 2).unwrap();
        assert_eq!(across.sources(), [flat.sources()[5], flat.sources()[17]]);
        assert_eq!(flat.sliced(0, 10, 1, 4), None);
        let flipped = Strided::contiguous(&[4]).sliced(0, 3, -1, 4).unwrap();
        assert_eq!(flipped.sources(), [3, 2, 1, 0]);
        assert!(!flipped.is_dense(4));
    }

    #[test]
    fn alignment_follows_the_other_value() {
        let bias = Strided::contiguous(&[2, 1, 1])
            .expanded(&[1, 2, 3, 4])
            .unwrap();
        let factors = bias.aligned(&image()).unwrap();
        assert_eq!(sources(bias.offset, &factors), [0, 1].repeat(12));
        let other = Strided::contiguous(&[1, 2, 3, 4]);
        let moved = sources(0, &other.aligned(&image()).unwrap());
        assert_eq!(moved[..4], [0, 12, 1, 13]);
        assert_eq!(Strided::contiguous(&[3]).expanded(&[2]), None);
    }

    proptest! {
        /// Reshapes, transposes and views give what moving the elements themselves gives.
        #[test]
        fn records_are_movements(a in 1usize..4, b in 1usize..4, c in 1usize..4, swap in any::<bool>()) {
            let start = Strided::contiguous(&[a, b, c]);
            let order = if swap { [2, 0, 1] } else { [1, 2, 0] };
            let moved = start.transposed(&order);
            let sizes = moved.sizes();
            let flat = moved.reshaped(&[a * b * c]).unwrap();
            let expected: Vec<usize> = (0..a * b * c)
                .map(|mut element| {
                    let mut index = [0; 3];
                    for axis in (0..3).rev() {
                        index[order[axis]] = element % sizes[axis];
                        element /= sizes[axis];
                    }
                    (index[0] * b + index[1]) * c + index[2]
                })
                .collect();
            prop_assert_eq!(&flat.sources(), &expected);
            let view = flat.view(&flat.all()).unwrap();
            let by_view: Vec<usize> = view.sources().iter().map(|&s| s as usize).collect();
            prop_assert_eq!(by_view, expected);
        }
    }
}
