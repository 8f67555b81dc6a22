//! Views: output elements that are input elements at an affine function of their index.
//!
//! Slices, transposes, flips, repetitions and any product of them are one view, so that moving data costs no
//! commitment in a proof and a few numbers in a program.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Most axes of a view.
pub const VIEW_AXES_MAX: usize = 8;

/// Element `j` of the output, counted over `sizes` (last axis innermost), is input element
/// `offset + sum of index_k * strides_k`, both in storage order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Input element of output element 0.
    pub offset: u32,
    /// Per axis its size and stride; at most [`VIEW_AXES_MAX`] axes, each size at least 1.
    pub axes: Vec<ViewAxis>,
}

/// One axis of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewAxis {
    /// Steps along the axis.
    pub size: u32,
    /// Input elements per step; 0 repeats, negative flips.
    pub stride: i32,
}

impl View {
    /// A view from sizes and strides.
    #[must_use]
    pub fn new(offset: u32, axes: &[(u32, i32)]) -> Self {
        Self {
            offset,
            axes: axes
                .iter()
                .map(|&(size, stride)| ViewAxis { size, stride })
                .collect(),
        }
    }

    /// Axes permuted: output axis `i` is input axis `order[i]` of a contiguous tensor of the given sizes.
    #[must_use]
    pub fn transpose(sizes: &[u32], order: &[usize]) -> Self {
        let mut strides = vec![1i64; sizes.len()];
        for axis in (0..sizes.len().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * i64::from(sizes[axis + 1]);
        }
        let axes: Vec<(u32, i32)> = order
            .iter()
            .map(|&axis| {
                (
                    sizes[axis],
                    i32::try_from(strides[axis]).unwrap_or(i32::MAX),
                )
            })
            .collect();
        Self::new(0, &axes)
    }

    /// The view that gives these sources, or nothing if they are not affine in few axes.
    #[must_use]
    pub fn of_sources(sources: &[u32]) -> Option<Self> {
        let offset = *sources.first()?;
        let mut rest: Vec<u32> = sources.to_vec();
        let mut axes = Vec::new();
        while rest.len() > 1 {
            if axes.len() == VIEW_AXES_MAX {
                return None;
            }
            let step = |pair: &[u32]| i64::from(pair[1]) - i64::from(pair[0]);
            let stride = step(&rest[..2]);
            let run = rest
                .windows(2)
                .take_while(|pair| step(pair) == stride)
                .count()
                + 1;
            let is_run = |length: usize| {
                rest.len().is_multiple_of(length)
                    && rest
                        .chunks_exact(length)
                        .all(|chunk| chunk.windows(2).all(|pair| step(pair) == stride))
            };
            let length = (2..=run).rev().find(|&length| is_run(length))?;
            axes.push(ViewAxis {
                size: u32::try_from(length).ok()?,
                stride: i32::try_from(stride).ok()?,
            });
            rest = rest.into_iter().step_by(length).collect();
        }
        if axes.is_empty() {
            axes.push(ViewAxis { size: 1, stride: 0 });
        }
        axes.reverse();
        Some(Self { offset, axes })
    }

    /// Elements of the output, or nothing if they overflow.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        self.axes.iter().try_fold(1u64, |product, axis| {
            product.checked_mul(u64::from(axis.size))
        })
    }

    /// Whether there are few enough axes, none is empty, and every source lies in an input of `elements` elements.
    #[must_use]
    pub fn is_valid(&self, elements: usize) -> bool {
        if self.axes.is_empty()
            || self.axes.len() > VIEW_AXES_MAX
            || self.axes.iter().any(|axis| axis.size == 0)
        {
            return false;
        }
        let [mut least, mut greatest] = [i64::from(self.offset); 2];
        for &ViewAxis { size, stride } in &self.axes {
            // At most 2^32 * 2^31 per axis, eight axes: compared before it can leave 64 bits.
            let reach = i64::from(size - 1).saturating_mul(i64::from(stride));
            least = least.saturating_add(reach.min(0));
            greatest = greatest.saturating_add(reach.max(0));
        }
        least >= 0 && usize::try_from(greatest).is_ok_and(|greatest| greatest < elements)
    }

    /// The input element of output element `element`.
    ///
    /// # Panics
    /// If the view is not valid for its input.
    #[must_use]
    pub fn source(&self, element: usize) -> usize {
        let mut rest = element as u64;
        let mut source = i64::from(self.offset);
        for axis in self.axes.iter().rev() {
            let size = u64::from(axis.size);
            let index = i64::try_from(rest % size).expect("below a u32");
            source += index * i64::from(axis.stride);
            rest /= size;
        }
        usize::try_from(source).expect("a valid view stays inside its input")
    }

    /// The sources of all output elements, in order.
    ///
    /// # Panics
    /// If the view is not valid for its input.
    #[must_use]
    pub fn sources(&self) -> Vec<u32> {
        let mut sources = vec![i64::from(self.offset)];
        for &ViewAxis { size, stride } in &self.axes {
            let steps =
                |&base: &i64| (0..i64::from(size)).map(move |i| base + i * i64::from(stride));
            sources = sources.iter().flat_map(steps).collect();
        }
        let narrow = |source| u32::try_from(source).expect("a valid view stays inside its input");
        sources.into_iter().map(narrow).collect()
    }
}

impl Encode for View {
    fn encode(&self, writer: &mut Writer) {
        let Self { offset, axes } = self;
        writer.u32(*offset);
        writer.seq(axes);
    }
}

impl Decode for View {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            offset: reader.u32()?,
            axes: reader.seq("view axes", VIEW_AXES_MAX, 8)?,
        })
    }
}

impl Encode for ViewAxis {
    fn encode(&self, writer: &mut Writer) {
        let Self { size, stride } = *self;
        writer.u32(size);
        writer.i32(stride);
    }
}

impl Decode for ViewAxis {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            size: reader.u32()?,
            stride: reader.i32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_transpose_moves_axes() {
        let view = View::transpose(&[2, 3], &[1, 0]);
        assert_eq!(view.sources(), [0, 3, 1, 4, 2, 5]);
        assert!(view.is_valid(6));
        assert!(!view.is_valid(5));
    }

    #[test]
    fn strides_repeat_and_flip() {
        let view = View::new(2, &[(3, -1), (2, 0)]);
        assert_eq!(view.sources(), [2, 2, 1, 1, 0, 0]);
        assert!(view.is_valid(3));
        assert_eq!(View::of_sources(&[0, 1, 3, 2]), None);
        assert!(!View::new(1, &[(3, -1)]).is_valid(3));
        assert!(!View::new(0, &[(0, 1)]).is_valid(3));
        assert!(!View::new(0, &[]).is_valid(3));
        assert!(!View::new(u32::MAX, &[(u32::MAX, i32::MAX); 8]).is_valid(usize::MAX >> 1));
    }

    proptest! {
        #[test]
        fn one_source_is_that_of_all(
            offset in 0u32..50, axes in prop::collection::vec((1u32..5, -3i32..4), 1..4),
        ) {
            let view = View::new(offset, &axes);
            prop_assume!(view.is_valid(64));
            let sources = view.sources();
            prop_assert_eq!(sources.len() as u64, view.elements().unwrap_or(0));
            let found = View::of_sources(&sources).expect("affine");
            prop_assert_eq!(found.sources(), &sources[..]);
            for (element, &source) in sources.iter().enumerate() {
                prop_assert_eq!(view.source(element), source as usize);
            }
        }
    }
}
