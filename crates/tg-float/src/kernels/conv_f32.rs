//! Convolutions of tier TGF-1 over images stored channel, row, column; weights `[output][input][row][column]`.
//!
//! Each output is a product in the order of its weights: input channel, kernel row, kernel column, ascending, one fused
//! multiply-add each, from +0; the bias last. Padding holds +0 and takes part like any other value, so an output
//! depends on nothing but the stated order.
//!
//! **Sliding.** The padded image is stored by phases: pixels whose coordinates leave the same remainders divided by the
//! strides lie together. Neighbouring outputs then read neighbouring pixels for every weight, and a weight is an offset
//! in memory: outputs are summed 16 at a time straight from the image, as if its rows were one long row. The outputs
//! that this gives between rows are thrown away. **Laid out.** Where most would be thrown away, the windows are written
//! side by side first.

use super::gemm_f32::{Bias, Columns, Tiles};
use super::tile_f32::PANEL;
use tg_exec::kernels::memory::{Buffer, Scratch, Shared, of_thread};
use tg_exec::kernels::{Conv2d, Cpu};

/// Bytes of the windows that are laid out together; half of a second-level cache.
const STRIP_BYTES: usize = 512 << 10;
/// Most computed outputs, in percent of those wanted, for which the image is not laid out.
const SLIDING_PERCENT_MAX: usize = 150;

/// A convolution of one image: `[image, weights]` and a bias for each output.
struct Job<'a> {
    conv: &'a Conv2d,
    output: [usize; 2],
    weights: &'a [f32],
    bias: Bias<'a>,
    out: Shared<'a, f32>,
}

/// Convolves one image.
///
/// # Panics
/// If the sizes do not fit together, or those of image, weights, bias or output.
pub fn conv_f32(
    cpu: &Cpu,
    scratch: &mut Scratch,
    conv: &Conv2d,
    [image, weights]: [&[f32]; 2],
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    let output = conv.output().expect("the sizes fit together");
    assert_eq!(conv.sliding.spread, [1, 1], "a window without spread");
    let [height, width] = conv.sliding.image;
    assert_eq!(
        image.len(),
        conv.inputs * height * width,
        "the image's size"
    );
    assert_eq!(weights.len(), conv.weights(), "weights of the convolution");
    assert_eq!(
        out.len(),
        conv.outputs * output[0] * output[1],
        "the output's size"
    );
    assert!(
        bias.is_none_or(|bias| bias.len() == conv.outputs),
        "one bias for each output"
    );
    let job = Job {
        conv,
        output,
        weights,
        bias: bias.map_or(Bias::None, Bias::PerRow),
        out: Shared::new(out),
    };
    match Phases::new(conv, output) {
        Some(phases) => job.slide(cpu, scratch, &phases, image),
        None => job.lay_out(cpu, scratch, image),
    }
}

/// Numbers of scratch memory that [`conv_f32`] takes, threads apart; the greatest number if it overflows.
#[must_use]
pub fn conv_f32_scratch(conv: &Conv2d) -> usize {
    let [rows, columns] = conv.sliding.padded();
    let plane = rows.saturating_mul(columns);
    let taps = conv.group_inputs().saturating_mul(conv.sliding.positions());
    // Phases drop the pixels that no window reads, so they are never more.
    plane
        .saturating_mul(conv.inputs)
        .saturating_add(taps.saturating_mul(2))
        .saturating_add(2 * PANEL)
}

/// A padded image by phases: for each channel, each used remainder of rows and columns, the rows and columns that
/// leave it.
struct Phases {
    /// The remainders in use, by axis.
    remainders: [Vec<usize>; 2],
    /// Rows and columns of a phase: for each output, and what the kernel reaches beyond.
    size: [usize; 2],
    /// Outputs computed, those between rows included.
    outputs: usize,
}

impl Phases {
    /// Nothing if too many outputs would be computed in vain.
    fn new(conv: &Conv2d, output: [usize; 2]) -> Option<Self> {
        let sliding = &conv.sliding;
        let size = [0, 1].map(|axis| {
            let reach = (sliding.kernel[axis] - 1) * sliding.dilation[axis];
            output[axis] + reach / sliding.stride[axis]
        });
        let remainders = [0, 1].map(|axis| {
            let taps = 0..sliding.kernel[axis];
            let mut found: Vec<usize> = taps
                .map(|tap| tap * sliding.dilation[axis] % sliding.stride[axis])
                .collect();
            found.sort_unstable();
            found.dedup();
            found
        });
        let outputs = (output[0] - 1) * size[1] + output[1];
        let wanted = output[0] * output[1];
        (outputs * 100 <= wanted * SLIDING_PERCENT_MAX).then_some(Self {
            remainders,
            size,
            outputs,
        })
    }

    const fn plane(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Numbers of one channel.
    fn channel(&self) -> usize {
        self.remainders[0].len() * self.remainders[1].len() * self.plane()
    }

    /// Where the pixel that output 0 reads for each weight of a group lies, from the group's first channel on.
    fn offsets(&self, conv: &Conv2d, offsets: &mut [usize]) {
        let sliding = &conv.sliding;
        // The number of a tap's phase along an axis, and how far from the first output it reads.
        let place = |axis: usize, tap: usize| {
            let at = tap * sliding.dilation[axis];
            let phases = &self.remainders[axis];
            let phase = phases.binary_search(&(at % sliding.stride[axis]));
            (phase.unwrap_or(0), at / sliding.stride[axis])
        };
        let mut slots = offsets.iter_mut();
        for channel in 0..conv.group_inputs() {
            for y in 0..sliding.kernel[0] {
                let (row_phase, row) = place(0, y);
                for (x, slot) in (0..sliding.kernel[1]).zip(&mut slots) {
                    let (column_phase, column) = place(1, x);
                    let phase = row_phase * self.remainders[1].len() + column_phase;
                    *slot = channel * self.channel()
                        + phase * self.plane()
                        + row * self.size[1]
                        + column;
                }
            }
        }
    }

    /// Writes one channel.
    fn write(&self, conv: &Conv2d, source: &[f32], target: &mut [f32]) {
        let sliding = &conv.sliding;
        let [height, width] = sliding.image;
        let [top, left, ..] = sliding.pads;
        let mut lines = target.chunks_exact_mut(self.size[1]);
        for row_phase in &self.remainders[0] {
            for column_phase in &self.remainders[1] {
                // Columns whose pixel lies in the image.
                let stride = sliding.stride[1];
                let first = left.saturating_sub(*column_phase).div_ceil(stride);
                let end = (left + width)
                    .saturating_sub(*column_phase)
                    .div_ceil(stride);
                let (first, end) = (first.min(self.size[1]), end.min(self.size[1]));
                for (row, line) in (0..self.size[0]).zip(&mut lines) {
                    let from = (row * sliding.stride[0] + row_phase).checked_sub(top);
                    let Some(from) = from.filter(|&from| from < height && first < end) else {
                        line.fill(0.0);
                        continue;
                    };
                    line[..first].fill(0.0);
                    line[end..].fill(0.0);
                    let start = first * stride + column_phase - left;
                    let pixels = &source[from * width..][..width][start..];
                    if stride == 1 {
                        line[first..end].copy_from_slice(&pixels[..end - first]);
                    } else {
                        let pixels = pixels.iter().step_by(stride);
                        line[first..end]
                            .iter_mut()
                            .zip(pixels)
                            .for_each(|(slot, &pixel)| *slot = pixel);
                    }
                }
            }
        }
    }
}

impl Job<'_> {
    /// Panels that a thread takes at a time: at least two tasks for each thread, at most `most`.
    fn strip(&self, cpu: &Cpu, panels: usize, most: usize) -> usize {
        let threads = cpu.threads();
        if threads == 1 {
            return most;
        }
        let tasks = (2 * threads).div_ceil(self.conv.groups);
        most.min(panels.div_ceil(tasks).next_multiple_of(2))
    }

    /// The weights of a group, as the left operand of its product.
    fn tiles<'a>(&'a self, group: usize, columns: Columns<'a>) -> Tiles<'a> {
        let depth = self.conv.group_inputs() * self.conv.sliding.positions();
        let outputs = self.conv.group_outputs();
        Tiles {
            a: &self.weights[group * outputs * depth..][..outputs * depth],
            a_stride: depth,
            k: depth,
            columns,
        }
    }

    /// Sums straight from the image.
    fn slide(&self, cpu: &Cpu, scratch: &mut Scratch, phases: &Phases, image: &[f32]) {
        let conv = self.conv;
        let (inputs, outputs) = (conv.group_inputs(), conv.group_outputs());
        let depth = inputs * conv.sliding.positions();
        let pixels = self.output[0] * self.output[1];
        let channel = phases.channel();
        let (shared, buffers) = scratch.split(cpu.threads());
        let mut buffer = of_thread(buffers, 0);
        let offsets = buffer.numbers_mut::<usize>(depth);
        phases.offsets(conv, offsets);
        let offsets = &*offsets;
        // The last 16 outputs of the last channel may read beyond its end.
        let stored = shared.numbers_mut::<f32>(conv.inputs * channel + PANEL);
        let size = conv.sliding.image[0] * conv.sliding.image[1];
        cpu.pool().run_parts(
            &mut stored[..conv.inputs * channel],
            channel,
            &|_, index, part| {
                phases.write(conv, &image[index * size..][..size], part);
            },
        );
        let stored = &*stored;
        let panels = phases.outputs.div_ceil(PANEL);
        let strip = self.strip(cpu, panels, panels);
        let strips = panels.div_ceil(strip);
        let (line, width) = (phases.size[1], self.output[1]);
        cpu.pool().run(conv.groups * strips, &|_, task| {
            let (group, first) = (task / strips, task % strips * strip);
            let values = &stored[group * inputs * channel..];
            let tiles = self.tiles(group, Columns::Listed { values, offsets });
            let finish = |row: usize, column: usize, sums: &[f32]| {
                let row = group * outputs + row;
                let end = (column + sums.len()).min(phases.outputs);
                // The part of each line that is wanted.
                let mut at = column;
                while at < end {
                    let (y, x) = (at / line, at % line);
                    let next = end.min((y + 1) * line);
                    let count = width.saturating_sub(x).min(next - at);
                    // SAFETY: tasks hold disjoint outputs: their own group and columns.
                    let out = unsafe {
                        self.out
                            .part(row * pixels + y * width + x.min(width), count)
                    };
                    self.bias.finish(row, 0, &sums[at - column..][..count], out);
                    at = next;
                }
            };
            let range = first..panels.min(first + strip);
            cpu.vectorised(
                #[inline(always)]
                || tiles.run(cpu.level(), 0..outputs, range, finish),
            );
        });
    }

    /// Sums over windows that are written side by side, for a few columns of pixels at a time.
    fn lay_out(&self, cpu: &Cpu, scratch: &mut Scratch, image: &[f32]) {
        let conv = self.conv;
        let (inputs, outputs) = (conv.group_inputs(), conv.group_outputs());
        let depth = inputs * conv.sliding.positions();
        let pixels = self.output[0] * self.output[1];
        let (shared, buffers) = scratch.split(cpu.threads());
        let padded = pad(conv, image, shared);
        let plane = conv.sliding.padded().iter().product::<usize>();
        let panels = pixels.div_ceil(PANEL);
        let most = (STRIP_BYTES / (4 * PANEL * depth.max(1))).clamp(2, 64);
        let strip = self.strip(cpu, panels, most);
        let strips = panels.div_ceil(strip);
        cpu.pool().run(conv.groups * strips, &|thread, task| {
            let (group, strip_index) = (task / strips, task % strips);
            let first = strip_index * strip * PANEL;
            let columns = (strip * PANEL).min(pixels - first);
            let mut buffer = of_thread(buffers, thread);
            let matrix = buffer.numbers_mut::<f32>(columns.next_multiple_of(PANEL) * depth);
            let source = &padded[group * inputs * plane..][..inputs * plane];
            write_windows(conv, self.output[1], source, first..first + columns, matrix);
            let tiles = self.tiles(group, Columns::Panels(matrix));
            let finish = |row: usize, column: usize, sums: &[f32]| {
                let row = group * outputs + row;
                let count = sums.len().min(columns - column);
                // SAFETY: tasks hold disjoint outputs: their own group and columns.
                let out = unsafe { self.out.part(row * pixels + first + column, count) };
                self.bias.finish(row, 0, sums, out);
            };
            cpu.vectorised(
                #[inline(always)]
                || tiles.run(cpu.level(), 0..outputs, 0..columns.div_ceil(PANEL), finish),
            );
        });
    }
}

/// The image with its padding.
fn pad<'a>(conv: &Conv2d, image: &[f32], buffer: &'a mut Buffer) -> &'a [f32] {
    let sliding = &conv.sliding;
    let [rows, columns] = sliding.padded();
    let [height, width] = sliding.image;
    let [top, left, ..] = sliding.pads;
    let padded = buffer.numbers_mut::<f32>(conv.inputs * rows * columns);
    padded.fill(0.0);
    let planes = padded.chunks_exact_mut((rows * columns).max(1));
    for (plane, source) in planes.zip(image.chunks_exact((height * width).max(1))) {
        let lines = plane.chunks_exact_mut(columns).skip(top);
        for (line, source) in lines.zip(source.chunks_exact(width)) {
            line[left..left + width].copy_from_slice(source);
        }
    }
    padded
}

/// Writes the windows of some output pixels as panels: for each step of the order, 16 pixels side by side.
fn write_windows(
    conv: &Conv2d,
    width: usize,
    planes: &[f32],
    pixels: std::ops::Range<usize>,
    matrix: &mut [f32],
) {
    let sliding = &conv.sliding;
    let [rows, columns] = sliding.padded();
    let [kernel_rows, kernel_columns] = sliding.kernel;
    let depth = conv.group_inputs() * sliding.positions();
    let [down, right] = sliding.stride;
    for (panel, target) in matrix.chunks_exact_mut((PANEL * depth).max(1)).enumerate() {
        let first = pixels.start + panel * PANEL;
        let count = PANEL.min(pixels.end - first);
        let mut starts = [0usize; PANEL];
        for (lane, start) in starts.iter_mut().enumerate() {
            let pixel = first + lane.min(count - 1);
            *start = pixel / width * down * columns + pixel % width * right;
        }
        // Whether the 16 pixels lie side by side in the image.
        let together = right == 1 && count == PANEL && first % width + PANEL <= width;
        let (steps, _) = target.as_chunks_mut::<PANEL>();
        let mut steps = steps.iter_mut();
        for plane in planes.chunks_exact((rows * columns).max(1)) {
            for y in 0..kernel_rows {
                for x in 0..kernel_columns {
                    let offset = y * sliding.dilation[0] * columns + x * sliding.dilation[1];
                    let Some(step) = steps.next() else {
                        return;
                    };
                    if together {
                        step.copy_from_slice(&plane[starts[0] + offset..][..PANEL]);
                    } else {
                        for (value, start) in step.iter_mut().zip(starts) {
                            *value = plane[start + offset];
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_exec::kernels::SimdLevel;
    use tg_exec::sample::{Numbers, random_conv};

    fn floats(numbers: &mut Numbers, count: usize) -> Vec<f32> {
        (0..count)
            .map(|_| {
                let mantissa = numbers.between(-(1 << 23), 1 << 23) as f32;
                mantissa * 2f32.powi(i32::try_from(numbers.between(-40, -10)).unwrap())
            })
            .collect()
    }

    /// The definition, padding included.
    fn expected(conv: &Conv2d, [image, weights]: [&[f32]; 2], bias: Option<&[f32]>) -> Vec<u32> {
        let sliding = &conv.sliding;
        let [height, width] = sliding.image;
        let [rows, columns] = conv.output().unwrap();
        let (inputs, outputs) = (conv.group_inputs(), conv.group_outputs());
        let mut out = Vec::new();
        for output in 0..conv.outputs {
            for pixel in 0..rows * columns {
                let mut weights = weights[output * inputs * sliding.positions()..].iter();
                let mut sum = 0f32;
                for input in 0..inputs {
                    for y in 0..sliding.kernel[0] {
                        for x in 0..sliding.kernel[1] {
                            let from_y = (pixel / columns * sliding.stride[0]
                                + y * sliding.dilation[0])
                                .checked_sub(sliding.pads[0]);
                            let from_x = (pixel % columns * sliding.stride[1]
                                + x * sliding.dilation[1])
                                .checked_sub(sliding.pads[1]);
                            let plane = output / outputs * inputs + input;
                            let value = from_y
                                .zip(from_x)
                                .filter(|&(y, x)| y < height && x < width)
                                .map_or(0.0, |(y, x)| image[(plane * height + y) * width + x]);
                            sum = weights.next().unwrap().mul_add(value, sum);
                        }
                    }
                }
                out.push(bias.map_or(sum, |bias| sum + bias[output]).to_bits());
            }
        }
        out
    }

    #[test]
    fn every_level_keeps_the_order_of_the_weights() {
        let mut numbers = Numbers::new(1);
        for case in 0..250 {
            let mut conv = random_conv(&mut numbers);
            if case % 5 == 0 {
                // Wide rows, so that whole panels lie side by side.
                conv.sliding.image[1] = 40;
                conv.sliding.stride[1] = 1;
            }
            let Some([rows, columns]) = conv.output() else {
                continue;
            };
            let [height, width] = conv.sliding.image;
            let image = floats(&mut numbers, conv.inputs * height * width);
            let weights = floats(&mut numbers, conv.weights());
            let bias = (case % 2 == 0).then(|| floats(&mut numbers, conv.outputs));
            let operands = [image.as_slice(), weights.as_slice()];
            let expected = expected(&conv, operands, bias.as_deref());
            for level in SimdLevel::available() {
                for threads in [1, 3] {
                    let cpu = Cpu::with_level(level, threads).unwrap();
                    let mut out = vec![0.0; conv.outputs * rows * columns];
                    conv_f32(
                        &cpu,
                        &mut Scratch::new(),
                        &conv,
                        operands,
                        bias.as_deref(),
                        &mut out,
                    );
                    let out: Vec<u32> = out.iter().map(|value| value.to_bits()).collect();
                    assert_eq!(out, expected, "{conv:?} {cpu:?}");
                }
            }
        }
    }
}
