//! Windows: which input pixel an output pixel reads at each kernel position.

use crate::shape::Shape;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Largest kernel side.
pub const KERNEL_MAX: u32 = 64;
/// Largest stride.
pub const STRIDE_MAX: u32 = 64;

/// Kernel, stride and padding of a convolution or pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Kernel height and width.
    pub kernel: [u32; 2],
    /// Vertical and horizontal stride.
    pub stride: [u32; 2],
    /// Padding: top, left, bottom, right. Padded pixels hold 0 for a convolution or an average and are skipped by a
    /// maximum.
    pub pads: [u32; 4],
    /// Vertical and horizontal distance of kernel positions; 1 is dense.
    pub dilation: [u32; 2],
    /// Vertical and horizontal distance at which input pixels lie, the pixels between them being padding: 1 is the
    /// plain window, s is a transposed convolution of stride s.
    pub spread: [u32; 2],
}

impl Window {
    /// A window without dilation and spread.
    #[must_use]
    pub const fn new(kernel: [u32; 2], stride: [u32; 2], pads: [u32; 4]) -> Self {
        Self {
            kernel,
            stride,
            pads,
            dilation: [1; 2],
            spread: [1; 2],
        }
    }

    /// Whether neither dilation nor spread is used.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        matches!((self.dilation, self.spread), ([1, 1], [1, 1]))
    }

    /// Whether some position may lie in padding, around the input or between its pixels.
    #[must_use]
    pub const fn is_padded(&self) -> bool {
        !matches!((self.pads, self.spread), ([0, 0, 0, 0], [1, 1]))
    }

    /// Kernel height and width with the gaps of dilation, or nothing if they overflow.
    #[must_use]
    pub const fn reach(&self) -> [u32; 2] {
        [
            (self.kernel[0] - 1) * self.dilation[0] + 1,
            (self.kernel[1] - 1) * self.dilation[1] + 1,
        ]
    }

    /// Kernel positions.
    #[must_use]
    pub const fn positions(&self) -> usize {
        self.kernel[0] as usize * self.kernel[1] as usize
    }

    /// Whether sides, strides and distances are within their limits and padding is narrower than the kernel with its
    /// gaps.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let Self {
            kernel,
            stride,
            pads,
            dilation,
            spread,
        } = *self;
        let within = |list: [u32; 2], limit| list.iter().all(|value| (1..=limit).contains(value));
        within(kernel, KERNEL_MAX)
            && within(stride, STRIDE_MAX)
            && within(dilation, STRIDE_MAX)
            && within(spread, STRIDE_MAX)
            && {
                let reach = self.reach();
                pads[0] < reach[0] && pads[2] < reach[0] && pads[1] < reach[1] && pads[3] < reach[1]
            }
    }

    /// Output height and width for an input, or nothing if the kernel does not fit.
    #[must_use]
    pub fn output(&self, input: Shape) -> Option<[u32; 2]> {
        let reach = self.reach();
        let side = |axis: usize, size: u32| {
            size.checked_sub(1)?
                .checked_mul(self.spread[axis])?
                .checked_add(1)?
                .checked_add(self.pads[axis])?
                .checked_add(self.pads[axis + 2])?
                .checked_sub(reach[axis])
                .map(|room| room / self.stride[axis] + 1)
        };
        Some([side(0, input.height)?, side(1, input.width)?])
    }

    /// Whether every window of an output reads at least one input pixel: with dilation it may fall between them.
    ///
    /// Cost: at most [`STRIDE_MAX`] steps an axis, whatever the sizes. A window from `at * stride` on reads the pixels
    /// `at * stride + k * dilation - pad`. If it starts in the input, that is k = 0. If it starts in the padding before,
    /// the first k that leaves it lands on the residue of `at * stride - pad` modulo the dilation, and the kernel has
    /// that k, as padding is narrower than its reach. Residues repeat after at most `dilation` windows.
    ///
    /// # Panics
    /// If the window is spread; those whose elements are compared are not.
    #[must_use]
    pub fn covers(&self, input: Shape, output: Shape) -> bool {
        assert_eq!(self.spread, [1; 2], "a maximum is taken of neighbours");
        let axes = [(input.height, output.height), (input.width, output.width)];
        axes.iter().enumerate().all(|(axis, &(size, outputs))| {
            let [stride, dilation, pad] =
                [self.stride[axis], self.dilation[axis], self.pads[axis]].map(u64::from);
            let last = u64::from(outputs.max(1) - 1) * stride;
            let starts = u64::from(outputs).min(pad.div_ceil(stride)).min(dilation);
            let first = |at: u64| {
                // What lies between the window's start and the input, up to the next kernel index.
                let before = pad - at * stride;
                (dilation - before % dilation) % dilation
            };
            last < pad + u64::from(size) && (0..starts).all(|at| first(at) < u64::from(size))
        })
    }

    /// Where an output index reads along one axis (0 rows, 1 columns) at a kernel index, or nothing in padding.
    #[must_use]
    pub fn source_on_axis(&self, axis: usize, size: u32, at: u32, kernel: u32) -> Option<u32> {
        let spread = self.spread[axis];
        let position =
            (at * self.stride[axis] + kernel * self.dilation[axis]).checked_sub(self.pads[axis])?;
        (position % spread == 0 && position / spread < size).then_some(position / spread)
    }

    /// The input pixel (row times width plus column) that output pixel (`row`, `column`) reads at kernel
    /// `position` (row-major), or nothing if that lies in padding.
    #[must_use]
    pub fn source(&self, input: Shape, row: u32, column: u32, position: usize) -> Option<usize> {
        let kernel_row = position as u32 / self.kernel[1];
        let kernel_column = position as u32 % self.kernel[1];
        let source_row = self.source_on_axis(0, input.height, row, kernel_row)?;
        let source_column = self.source_on_axis(1, input.width, column, kernel_column)?;
        Some(source_row as usize * input.width as usize + source_column as usize)
    }
}

impl Encode for Window {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            kernel,
            stride,
            pads,
            dilation,
            spread,
        } = *self;
        let lists: [&[u32]; 5] = [&kernel, &stride, &pads, &dilation, &spread];
        lists
            .iter()
            .flat_map(|list| list.iter())
            .for_each(|&value| writer.u32(value));
    }
}

impl Decode for Window {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut values = [0u32; 12];
        for value in &mut values {
            *value = reader.u32()?;
        }
        let [kh, kw, sh, sw, top, left, bottom, right, dh, dw, ph, pw] = values;
        let window = Self {
            kernel: [kh, kw],
            stride: [sh, sw],
            pads: [top, left, bottom, right],
            dilation: [dh, dw],
            spread: [ph, pw],
        };
        if !window.is_valid() {
            return Err(DecodeError::Invalid {
                field: "window",
                value: u64::from(kh) << 32 | u64::from(kw),
            });
        }
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The closed form against every window and kernel position, on an axis of all small sizes.
    #[test]
    fn a_window_covers_its_input_as_looking_at_each_says() {
        let mut seen = [0, 0];
        for kernel in 1..5 {
            for stride in 1..5 {
                for dilation in 1..6 {
                    let reach = (kernel - 1) * dilation + 1;
                    for [before, after] in (0..reach).flat_map(|b| (0..reach).map(move |a| [b, a]))
                    {
                        let mut window =
                            Window::new([kernel, 1], [stride, 1], [before, 0, after, 0]);
                        window.dilation = [dilation, 1];
                        assert!(window.is_valid());
                        for size in 1..8 {
                            let input = Shape::new(size, 1, 1);
                            let Some([height, width]) = window.output(input) else {
                                continue;
                            };
                            let reads = |at| {
                                (0..kernel).any(|k| window.source_on_axis(0, size, at, k).is_some())
                            };
                            let all = (0..height).all(reads);
                            let output = Shape::new(height, width, 1);
                            assert_eq!(window.covers(input, output), all, "{window:?} {size}");
                            seen[usize::from(all)] += 1;
                        }
                    }
                }
            }
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }
}
