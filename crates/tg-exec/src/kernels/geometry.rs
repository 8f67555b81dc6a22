//! Sizes of convolutions and windows, in elements.

/// A window that slides over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sliding {
    /// Height and width of the image.
    pub image: [usize; 2],
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Vertical and horizontal distance of two windows.
    pub stride: [usize; 2],
    /// Padding: top, left, bottom, right.
    pub pads: [usize; 4],
    /// Vertical and horizontal distance of two kernel positions.
    pub dilation: [usize; 2],
    /// Vertical and horizontal distance at which image pixels lie, padding between them; 1 is a plain window.
    pub spread: [usize; 2],
}

impl Sliding {
    /// The window of a program's node.
    #[must_use]
    pub fn of_window(image: [usize; 2], window: &tg_ir::Window) -> Self {
        let wide = |value: u32| value as usize;
        Self {
            image,
            kernel: window.kernel.map(wide),
            stride: window.stride.map(wide),
            pads: window.pads.map(wide),
            dilation: window.dilation.map(wide),
            spread: window.spread.map(wide),
        }
    }

    /// Kernel positions.
    #[must_use]
    pub const fn positions(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Height and width of the image with its padding.
    #[must_use]
    pub const fn padded(&self) -> [usize; 2] {
        [
            self.image[0].saturating_sub(1) * self.spread[0] + 1 + self.pads[0] + self.pads[2],
            self.image[1].saturating_sub(1) * self.spread[1] + 1 + self.pads[1] + self.pads[3],
        ]
    }

    /// Height and width of the output, or nothing if the kernel does not fit, or a side, stride or dilation is 0.
    #[must_use]
    pub fn output(&self) -> Option<[usize; 2]> {
        let padded = self.padded();
        let side = |axis: usize| {
            let reach = self.kernel[axis]
                .checked_sub(1)?
                .checked_mul(self.dilation[axis])?;
            let room = padded[axis].checked_sub(reach + 1)?;
            (self.dilation[axis] > 0).then_some(())?;
            Some(room.checked_div(self.stride[axis])? + 1)
        };
        Some([side(0)?, side(1)?])
    }

    /// Of one output coordinate along an axis: the kernel positions that read the image itself, and the image
    /// coordinate the first of them reads. For windows without spread.
    pub(super) fn span(&self, axis: usize, at: usize) -> (std::ops::Range<usize>, usize) {
        let dilation = self.dilation[axis];
        let start = at * self.stride[axis];
        let (pad, size) = (self.pads[axis], self.image[axis]);
        let low = pad.saturating_sub(start).div_ceil(dilation);
        let high = (pad + size).saturating_sub(start).div_ceil(dilation);
        let low = low.min(self.kernel[axis]);
        let high = high.clamp(low, self.kernel[axis]);
        (low..high, (start + low * dilation).saturating_sub(pad))
    }
}

/// A convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv2d {
    /// How the kernel slides.
    pub sliding: Sliding,
    /// Input channels.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// Groups: both channel counts are multiples of it, and group g of the outputs reads group g of the inputs.
    pub groups: usize,
}

impl Conv2d {
    /// Input channels of a group.
    #[must_use]
    pub const fn group_inputs(&self) -> usize {
        self.inputs / self.groups
    }

    /// Output channels of a group.
    #[must_use]
    pub const fn group_outputs(&self) -> usize {
        self.outputs / self.groups
    }

    /// Weights in all.
    #[must_use]
    pub const fn weights(&self) -> usize {
        self.outputs * self.group_inputs() * self.sliding.positions()
    }

    /// Whether every channel is a convolution of its own, with one output.
    #[must_use]
    pub const fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.inputs && self.inputs == self.outputs
    }

    /// Height and width of the output, or nothing if the sizes do not fit together.
    #[must_use]
    pub fn output(&self) -> Option<[usize; 2]> {
        let fits = self.groups > 0
            && self.inputs.is_multiple_of(self.groups)
            && self.outputs.is_multiple_of(self.groups);
        fits.then(|| self.sliding.output()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Numbers, random_conv};

    #[test]
    fn spans_are_the_positions_inside_the_image() {
        let mut numbers = Numbers::new(1);
        for _ in 0..500 {
            let sliding = random_conv(&mut numbers).sliding;
            let Some(output) = sliding.output() else {
                continue;
            };
            for (axis, side) in output.into_iter().enumerate() {
                for at in 0..side {
                    let source = |position: usize| {
                        (at * sliding.stride[axis] + position * sliding.dilation[axis])
                            .checked_sub(sliding.pads[axis])
                            .filter(|&source| source < sliding.image[axis])
                    };
                    let inside: Vec<(usize, usize)> = (0..sliding.kernel[axis])
                        .filter_map(|position| Some((position, source(position)?)))
                        .collect();
                    let (range, first) = sliding.span(axis, at);
                    assert_eq!(
                        range.clone().collect::<Vec<_>>(),
                        inside.iter().map(|i| i.0).collect::<Vec<_>>()
                    );
                    if let Some(expected) = inside.first() {
                        assert_eq!(first, expected.1);
                    }
                }
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_have_no_output() {
        let sliding = Sliding {
            image: [5, 5],
            kernel: [3, 3],
            stride: [1, 2],
            pads: [0; 4],
            dilation: [1, 1],
            spread: [1, 1],
        };
        assert_eq!(sliding.output(), Some([3, 2]));
        let dilated = Sliding {
            dilation: [3, 1],
            ..sliding
        };
        assert_eq!(dilated.output(), None);
        let still = Sliding {
            stride: [0, 1],
            ..sliding
        };
        assert_eq!(still.output(), None);
        let conv = Conv2d {
            sliding,
            inputs: 4,
            outputs: 6,
            groups: 3,
        };
        assert_eq!(conv.output(), None);
    }
}
