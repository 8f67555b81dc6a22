//! Elements moved, repeated, joined, padded and looked up.

use super::context::Context;
use super::reduction::around;
use super::values::{ValuesMut, same};
use tg_ir::{Program, Shape, TensorId, View, op};

/// A view: runs of elements at equal distances.
#[derive(Debug)]
pub(super) struct Moved {
    input: TensorId,
    /// Where each run starts in the input.
    starts: Vec<u32>,
    /// Elements of a run and their distance.
    run: usize,
    stride: isize,
}

impl Moved {
    pub(super) fn new(input: TensorId, view: &View) -> Self {
        // Neighbouring axes that step through memory evenly are one.
        let mut axes: Vec<(u32, i32)> = Vec::new();
        for axis in view.axes.iter().filter(|axis| axis.size > 1) {
            let whole = i64::from(axis.size) * i64::from(axis.stride);
            match axes.last_mut() {
                Some((size, stride)) if i64::from(*stride) == whole => {
                    *size *= axis.size;
                    *stride = axis.stride;
                }
                _ => axes.push((axis.size, axis.stride)),
            }
        }
        let (run, stride) = axes.pop().unwrap_or((1, 1));
        if axes.is_empty() {
            axes.push((1, 0));
        }
        Self {
            input,
            starts: View::new(view.offset, &axes).sources(),
            run: run as usize,
            stride: stride as isize,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let input = context.reads.get(self.input);
        same!(out, out, [input => values], self.copy(values, out));
    }

    fn copy<T: Copy>(&self, values: &[T], out: &mut [T]) {
        for (out, &start) in out.chunks_exact_mut(self.run).zip(&self.starts) {
            let start = start as usize;
            match self.stride {
                1 => out.copy_from_slice(&values[start..start + self.run]),
                0 => out.fill(values[start]),
                stride => {
                    for (step, out) in out.iter_mut().enumerate() {
                        *out = values[start.wrapping_add_signed(step as isize * stride)];
                    }
                }
            }
        }
    }
}

/// Tensors joined along an axis.
#[derive(Debug)]
pub(super) struct Joined {
    /// Each tensor and how many of its elements come in a row.
    parts: Vec<(TensorId, usize)>,
}

impl Joined {
    pub(super) fn new(program: &Program, concat: &op::Concat) -> Self {
        let length = |&input: &TensorId| {
            let [_, along, inner] = around(program.shape(input), concat.axis);
            (input, along * inner)
        };
        Self {
            parts: concat.inputs.iter().map(length).collect(),
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, mut out: ValuesMut<'_>) {
        let row: usize = self.parts.iter().map(|(_, length)| length).sum();
        let mut first = 0;
        for &(input, length) in &self.parts {
            let input = context.reads.get(input);
            for index in 0..input.len() / length {
                let out = out.part(index * row + first, length);
                same!(out, out, [input => values], {
                    out.copy_from_slice(&values[index * length..(index + 1) * length]);
                });
            }
            first += length;
        }
    }
}

/// A constant border.
#[derive(Debug)]
pub(super) struct Padded {
    input: TensorId,
    from: Shape,
    to: Shape,
    before: [usize; 3],
    value: i16,
}

impl Padded {
    pub(super) fn new(program: &Program, pad: &op::Pad, to: Shape) -> Self {
        Self {
            input: pad.input,
            from: program.shape(pad.input),
            to,
            before: pad.before.map(|side| side as usize),
            value: pad.value,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let input = context.reads.get(self.input);
        let mut out = out;
        match &mut out {
            ValuesMut::I8(out) => {
                out.fill(i8::try_from(self.value).expect("the value fits the type"));
            }
            ValuesMut::I16(out) => out.fill(self.value),
            ValuesMut::I32(out) => out.fill(i32::from(self.value)),
        }
        same!(out, out, [input => values], self.copy(values, out));
    }

    fn copy<T: Copy>(&self, values: &[T], out: &mut [T]) {
        let channels = self.from.channels as usize;
        let [top, left, front] = self.before;
        let (width, to_width) = (self.from.width as usize, self.to.width as usize);
        for (pixel, values) in values.chunks_exact(channels).enumerate() {
            let (row, column) = (pixel / width + top, pixel % width + left);
            let first = (row * to_width + column) * self.to.channels as usize + front;
            out[first..first + channels].copy_from_slice(values);
        }
    }
}

/// Slices picked along an axis.
#[derive(Debug)]
pub(super) struct Picked {
    input: TensorId,
    indices: Vec<u32>,
    along: usize,
    inner: usize,
}

impl Picked {
    pub(super) fn new(program: &Program, gather: &op::Gather) -> Self {
        let [_, along, inner] = around(program.shape(gather.input), gather.axis);
        Self {
            input: gather.input,
            indices: gather.indices.clone(),
            along,
            inner,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let input = context.reads.get(self.input);
        same!(out, out, [input => values], self.copy(values, out));
    }

    fn copy<T: Copy>(&self, values: &[T], out: &mut [T]) {
        let rows = values.chunks_exact(self.along * self.inner);
        for (values, out) in rows.zip(out.chunks_exact_mut(self.indices.len() * self.inner)) {
            for (&index, out) in self.indices.iter().zip(out.chunks_exact_mut(self.inner)) {
                let first = index as usize * self.inner;
                out.copy_from_slice(&values[first..first + self.inner]);
            }
        }
    }
}
