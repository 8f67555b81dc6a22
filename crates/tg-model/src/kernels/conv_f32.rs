//! Convolutions of tier TGF-1 over images stored channel, row, column; weights `[output][input][row][column]`.
//!
//! Each output is a product in the order of its weights: input channel, kernel row, kernel column, ascending, one fused
//! multiply-add each, from +0; the bias last. Padding holds +0 and takes part like any other value, so an output
//! depends on nothing but the stated order. Windows are laid side by side for a few columns of pixels at a time.

use super::cpu::Cpu;
use super::gemm_f32::{Bias, Part, ProductF32};
use super::geometry::Conv2d;
use super::memory::{Scratch, Shared, of_thread};
use super::tile_f32::PANEL;

/// Bytes of the windows that are laid out together; half of a second-level cache.
const STRIP_BYTES: usize = 512 << 10;

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
    let pixels = output[0] * output[1];
    let [height, width] = conv.sliding.image;
    assert_eq!(
        image.len(),
        conv.inputs * height * width,
        "the image's size"
    );
    assert_eq!(weights.len(), conv.weights(), "weights of the convolution");
    assert_eq!(out.len(), conv.outputs * pixels, "the output's size");
    assert!(
        bias.is_none_or(|bias| bias.len() == conv.outputs),
        "one bias for each output"
    );
    let (inputs, outputs) = (conv.group_inputs(), conv.group_outputs());
    let depth = inputs * conv.sliding.positions();
    let threads = cpu.threads();
    let (shared, buffers) = scratch.split(threads);
    let padded = pad(conv, image, shared);
    let plane = conv.sliding.padded().iter().product::<usize>();
    let panels = pixels.div_ceil(PANEL);
    let mut strip = (STRIP_BYTES / (4 * PANEL * depth.max(1))).clamp(2, 64);
    if threads > 1 {
        strip = strip.min(panels.div_ceil(2 * threads).next_multiple_of(2));
    }
    let strips = panels.div_ceil(strip);
    let target = Shared::new(out);
    cpu.pool().run(conv.groups * strips, &|thread, task| {
        let (group, strip_index) = (task / strips, task % strips);
        let first = strip_index * strip * PANEL;
        let columns = (strip * PANEL).min(pixels - first);
        let mut buffer = of_thread(buffers, thread);
        let matrix = buffer.numbers_mut::<f32>(columns.next_multiple_of(PANEL) * depth);
        let source = &padded[group * inputs * plane..][..inputs * plane];
        lay_out(conv, output[1], source, first..first + columns, matrix);
        let weights = &weights[group * outputs * depth..][..outputs * depth];
        let product = ProductF32 {
            m: outputs,
            n: columns,
            k: depth,
            a: weights,
            a_stride: depth,
            bias: bias.map_or(Bias::None, |bias| {
                Bias::PerRow(&bias[group * outputs..][..outputs])
            }),
        };
        let part = Part {
            product: &product,
            panels: matrix,
            out: target,
            first: group * outputs * pixels + first,
            out_stride: pixels,
        };
        // SAFETY: tasks hold disjoint outputs: their own group and columns.
        unsafe { part.run(cpu, 0..outputs, 0..columns.div_ceil(PANEL)) };
    });
}

/// The image with its padding.
fn pad<'a>(conv: &Conv2d, image: &[f32], buffer: &'a mut super::memory::Buffer) -> &'a [f32] {
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
fn lay_out(
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
    use crate::kernels::SimdLevel;
    use crate::kernels::geometry::tests::random_conv;
    use crate::sample::Numbers;

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
