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
}

impl Window {
    /// Kernel positions.
    #[must_use]
    pub const fn positions(&self) -> usize {
        self.kernel[0] as usize * self.kernel[1] as usize
    }

    /// Whether sides and strides are within their limits and no window can lie wholly in padding.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let Self {
            kernel,
            stride,
            pads,
        } = *self;
        kernel.iter().all(|&side| (1..=KERNEL_MAX).contains(&side))
            && stride.iter().all(|&step| (1..=STRIDE_MAX).contains(&step))
            && pads[0] < kernel[0]
            && pads[2] < kernel[0]
            && pads[1] < kernel[1]
            && pads[3] < kernel[1]
    }

    /// Output height and width for an input, or nothing if the kernel does not fit.
    #[must_use]
    pub fn output(&self, input: Shape) -> Option<[u32; 2]> {
        let side = |size: u32, before: u32, after: u32, kernel: u32, stride: u32| {
            size.checked_add(before)?
                .checked_add(after)?
                .checked_sub(kernel)
                .map(|room| room / stride + 1)
        };
        let Self {
            kernel,
            stride,
            pads,
        } = *self;
        Some([
            side(input.height, pads[0], pads[2], kernel[0], stride[0])?,
            side(input.width, pads[1], pads[3], kernel[1], stride[1])?,
        ])
    }

    /// The input pixel (row times width plus column) that output pixel (`row`, `column`) reads at kernel
    /// `position` (row-major), or nothing if that lies in padding.
    #[must_use]
    pub fn source(&self, input: Shape, row: u32, column: u32, position: usize) -> Option<usize> {
        let kernel_row = position as u32 / self.kernel[1];
        let kernel_column = position as u32 % self.kernel[1];
        let source_row = (row * self.stride[0] + kernel_row).checked_sub(self.pads[0])?;
        let source_column = (column * self.stride[1] + kernel_column).checked_sub(self.pads[1])?;
        (source_row < input.height && source_column < input.width)
            .then(|| source_row as usize * input.width as usize + source_column as usize)
    }
}

impl Encode for Window {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            kernel,
            stride,
            pads,
        } = *self;
        kernel
            .iter()
            .chain(&stride)
            .chain(&pads)
            .for_each(|&value| writer.u32(value));
    }
}

impl Decode for Window {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut values = [0u32; 8];
        for value in &mut values {
            *value = reader.u32()?;
        }
        let [kh, kw, sh, sw, top, left, bottom, right] = values;
        let window = Self {
            kernel: [kh, kw],
            stride: [sh, sw],
            pads: [top, left, bottom, right],
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
