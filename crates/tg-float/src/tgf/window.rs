//! The windows of convolutions and pools.

use super::call::Call;
use super::error::OpError;
use crate::tensor::{Element, strides};

/// Largest stride, dilation, kernel side or padding: every coordinate then fits 63 bits with room.
const SIDE_MAX: i64 = 1 << 31;

/// Most elements of a window: walking them takes time that no memory bounds.
const TAPS_MAX: usize = 1 << 24;

/// How a window slides over the spatial axes.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// Spatial axes of the input.
    pub(super) input: Vec<usize>,
    pub(super) kernel: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) dilations: Vec<usize>,
    /// Padding before each axis.
    pub(super) before: Vec<usize>,
    /// Padding after each axis.
    pub(super) after: Vec<usize>,
    /// Spatial axes of the output.
    pub(super) output: Vec<usize>,
}

/// A list attribute with one number per spatial axis, none below `least`.
pub(super) fn per_axis(
    call: &Call<'_>,
    name: &'static str,
    count: usize,
    least: i64,
) -> Result<Option<Vec<usize>>, OpError> {
    let Some(values) = call.ints(name)? else {
        return Ok(None);
    };
    let good = values.len() == count && values.iter().all(|v| (least..SIDE_MAX).contains(v));
    if !good {
        return Err(OpError::invalid(format!("`{name}` is {values:?}")));
    }
    Ok(Some(values.iter().map(|&v| v as usize).collect()))
}

impl Window {
    /// The window that a node's attributes describe; `kernel` is the weights' where there are weights.
    pub(super) fn new(
        call: &Call<'_>,
        input: &[usize],
        kernel: Option<&[usize]>,
    ) -> Result<Self, OpError> {
        let count = input.len();
        let named = per_axis(call, "kernel_shape", count, 1)?;
        let kernel = match (kernel, named) {
            (Some(kernel), Some(named)) if kernel != named.as_slice() => {
                return Err(OpError::invalid("`kernel_shape` is not the weights'"));
            }
            (Some(kernel), _) => kernel.to_vec(),
            (None, Some(named)) => named,
            (None, None) => {
                return Err(OpError::Attribute {
                    name: "kernel_shape",
                });
            }
        };
        if crate::tensor::elements(&kernel).is_none_or(|taps| taps > TAPS_MAX) {
            return call.refuse("a window of more than 2^24 elements");
        }
        if kernel.len() != count || kernel.contains(&0) {
            return Err(OpError::invalid(
                "the kernel does not have the input's axes",
            ));
        }
        let ones = vec![1; count];
        let mut window = Self {
            input: input.to_vec(),
            strides: per_axis(call, "strides", count, 1)?.unwrap_or_else(|| ones.clone()),
            dilations: per_axis(call, "dilations", count, 1)?.unwrap_or(ones),
            before: vec![0; count],
            after: vec![0; count],
            output: vec![0; count],
            kernel,
        };
        window.place(call)?;
        Ok(window)
    }

    /// The blocks of `Col2Im`: the kernel is an input of the node.
    pub(super) fn new_blocks(
        call: &Call<'_>,
        image: &[usize],
        kernel: &[usize],
    ) -> Result<Self, OpError> {
        if kernel.iter().any(|&side| side as u64 >= SIDE_MAX as u64) {
            return Err(OpError::invalid("a block is too large"));
        }
        Self::new(call, image, Some(kernel))
    }

    /// Elements a window spans along an axis.
    pub(super) fn span(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilations[axis] + 1
    }

    fn place(&mut self, call: &Call<'_>) -> Result<(), OpError> {
        let count = self.input.len();
        let up = call.flag("ceil_mode", false)?;
        let mode = call.text("auto_pad", "NOTSET")?;
        if let ("NOTSET", Some(pads)) = (mode, per_axis(call, "pads", 2 * count, 0)?) {
            self.before.copy_from_slice(&pads[..count]);
            self.after.copy_from_slice(&pads[count..]);
        }
        for axis in 0..count {
            let (size, stride, span) = (self.input[axis], self.strides[axis], self.span(axis));
            if matches!(mode, "SAME_UPPER" | "SAME_LOWER") {
                let output = size.div_ceil(stride);
                let total = (output.saturating_sub(1) * stride + span).saturating_sub(size);
                let less = total / 2;
                let upper = mode == "SAME_UPPER";
                self.before[axis] = if upper { less } else { total - less };
                self.after[axis] = total - self.before[axis];
                self.output[axis] = output;
                continue;
            }
            let padded = size + self.before[axis] + self.after[axis];
            let Some(room) = padded.checked_sub(span) else {
                return Err(OpError::invalid(
                    "the window is larger than the padded input",
                ));
            };
            let mut output = room / stride + 1;
            // A partial window counts only if it begins within the input or the padding before it.
            if up && !room.is_multiple_of(stride) && output * stride < size + self.before[axis] {
                output += 1;
            }
            self.output[axis] = output;
        }
        Ok(())
    }

    /// Size of an axis with its padding.
    pub(super) fn padded(&self, axis: usize) -> usize {
        self.input[axis] + self.before[axis] + self.after[axis]
    }

    /// Number of positions of the window.
    pub(super) fn positions(&self) -> Result<usize, OpError> {
        crate::tensor::elements(&self.output).ok_or(OpError::Memory {
            bytes: usize::MAX,
            left: 0,
        })
    }

    /// Elements of a window.
    pub(super) fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Coordinates of a number in a shape.
    pub(super) fn coordinates(mut index: usize, shape: &[usize]) -> Vec<usize> {
        let mut out = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            out[axis] = index % shape[axis].max(1);
            index /= shape[axis].max(1);
        }
        out
    }

    /// Writes the inputs under the windows as a matrix: a row per channel and tap, a column per position of the rows
    /// `first..first + count` of the last axis; `zero` where a tap is in the padding.
    pub(super) fn gather<T: Element + Copy>(
        &self,
        image: &[T],
        channels: usize,
        rows: std::ops::Range<usize>,
        zero: T,
        out: &mut [T],
    ) {
        let last = self.input.len() - 1;
        let (width, out_width) = (self.input[last], self.output[last]);
        let outer_strides = strides(&self.input);
        let image_size: usize = self.input.iter().product();
        if image_size == 0 {
            out.fill(zero);
            return;
        }
        let taps = self.taps();
        let outer: Vec<Vec<usize>> = rows
            .map(|row| Self::coordinates(row, &self.output[..last]))
            .collect();
        let columns = outer.len() * out_width;
        for channel in 0..channels {
            let plane = &image[channel * image_size..(channel + 1) * image_size];
            for tap in 0..taps {
                let at = Self::coordinates(tap, &self.kernel);
                let matrix_row = channel * taps + tap;
                let target = &mut out[matrix_row * columns..(matrix_row + 1) * columns];
                for (position, target) in outer.iter().zip(target.chunks_exact_mut(out_width)) {
                    let base = self.row_base(position, &at, &outer_strides);
                    let Some(base) = base else {
                        target.fill(zero);
                        continue;
                    };
                    self.gather_row(&plane[base..base + width], at[last], zero, target);
                }
            }
        }
    }

    /// Where the input row under a tap begins; `None` in the padding.
    fn row_base(&self, position: &[usize], tap: &[usize], steps: &[usize]) -> Option<usize> {
        let mut base = 0;
        for axis in 0..position.len() {
            let place = position[axis] * self.strides[axis] + tap[axis] * self.dilations[axis];
            let place = place.checked_sub(self.before[axis])?;
            if place >= self.input[axis] {
                return None;
            }
            base += place * steps[axis];
        }
        Some(base)
    }

    fn gather_row<T: Copy>(&self, row: &[T], tap: usize, zero: T, target: &mut [T]) {
        let last = self.input.len() - 1;
        let (stride, before) = (self.strides[last], self.before[last]);
        let offset = tap * self.dilations[last];
        // Positions whose tap lies within the row.
        let from = before
            .saturating_sub(offset)
            .div_ceil(stride)
            .min(target.len());
        let room = (row.len() + before).saturating_sub(offset);
        let to = room.div_ceil(stride).clamp(from, target.len());
        target[..from].fill(zero);
        target[to..].fill(zero);
        if from == to {
            return;
        }
        let start = from * stride + offset - before;
        if stride == 1 {
            target[from..to].copy_from_slice(&row[start..start + to - from]);
        } else {
            for (target, &value) in target[from..to]
                .iter_mut()
                .zip(row[start..].iter().step_by(stride))
            {
                *target = value;
            }
        }
    }
}
