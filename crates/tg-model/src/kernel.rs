//! One function per operator, over whole tensors.
//!
//! Sums wrap in name only: a valid program's bounds keep every partial sum within 32 bits, whatever the order, so the
//! loops stay free of checks and vectorise.

use tg_ir::{LinearWeights, Requantise, Shape, Window};

/// The sum of products of two slices of one length.
fn dot(weights: &[i8], values: &[i8]) -> i32 {
    debug_assert_eq!(weights.len(), values.len());
    weights
        .iter()
        .zip(values)
        .fold(0i32, |sum, (&weight, &value)| {
            sum.wrapping_add(i32::from(weight) * i32::from(value))
        })
}

/// Where one axis of a window lies: the first input index, and the kernel positions that are inside the input.
struct Span {
    first: usize,
    inside: std::ops::Range<usize>,
}

fn span(at: u32, stride: u32, pad: u32, kernel: u32, size: u32) -> Span {
    let start = i64::from(at) * i64::from(stride) - i64::from(pad);
    let low = (-start).clamp(0, i64::from(kernel));
    let high = (i64::from(size) - start).clamp(low, i64::from(kernel));
    let index = |value: i64| usize::try_from(value).expect("not negative");
    Span {
        first: index(start.max(0)),
        inside: index(low)..index(high),
    }
}

/// Calls `visit` with each output pixel, in storage order, and its two spans.
fn for_each_window(
    input: Shape,
    window: &Window,
    output: Shape,
    mut visit: impl FnMut(usize, &Span, &Span),
) {
    let Window {
        kernel,
        stride,
        pads,
        ..
    } = *window;
    let columns: Vec<Span> = (0..output.width)
        .map(|column| span(column, stride[1], pads[1], kernel[1], input.width))
        .collect();
    for row in 0..output.height {
        let rows = span(row, stride[0], pads[0], kernel[0], input.height);
        for (column, columns) in columns.iter().enumerate() {
            visit(
                row as usize * output.width as usize + column,
                &rows,
                columns,
            );
        }
    }
}

pub(crate) fn convolve(
    values: &[i8],
    input: Shape,
    window: &Window,
    layer: &LinearWeights,
    output: Shape,
) -> Vec<i32> {
    let (inputs, outputs) = (input.channels as usize, output.channels as usize);
    let kernel_row = window.kernel[1] as usize * inputs;
    let reduction = window.positions() * inputs;
    let mut result = vec![0i32; output.elements()];
    // One window, gathered in the order of the weights: rows of a window are contiguous in storage.
    let mut gathered = vec![0i8; reduction];
    for_each_window(input, window, output, |pixel, rows, columns| {
        gathered.fill(0);
        let length = columns.inside.len() * inputs;
        for (step, kernel_y) in rows.inside.clone().enumerate() {
            let from = ((rows.first + step) * input.width as usize + columns.first) * inputs;
            let to = kernel_y * kernel_row + columns.inside.start * inputs;
            gathered[to..to + length].copy_from_slice(&values[from..from + length]);
        }
        let sums = &mut result[pixel * outputs..(pixel + 1) * outputs];
        let kernels = layer.weights.chunks_exact(reduction);
        for ((sum, kernel), bias) in sums.iter_mut().zip(kernels).zip(&layer.bias) {
            *sum = bias.wrapping_add(dot(kernel, &gathered));
        }
    });
    result
}

pub(crate) fn multiply(values: &[i8], layer: &LinearWeights) -> Vec<i32> {
    layer
        .weights
        .chunks_exact(values.len())
        .zip(&layer.bias)
        .map(|(row, bias)| bias.wrapping_add(dot(row, values)))
        .collect()
}

pub(crate) fn sum_windows(values: &[i8], input: Shape, window: &Window, output: Shape) -> Vec<i32> {
    let mut result = vec![0i32; output.elements()];
    fold_windows(values, input, window, output, &mut result, |sum, value| {
        *sum = sum.wrapping_add(i32::from(value));
    });
    result
}

pub(crate) fn max_pool(values: &[i8], input: Shape, window: &Window, output: Shape) -> Vec<i8> {
    let mut result = vec![i8::MIN; output.elements()];
    fold_windows(values, input, window, output, &mut result, |best, value| {
        *best = (*best).max(value);
    });
    result
}

/// Folds every window into its output pixel, channel by channel.
fn fold_windows<T>(
    values: &[i8],
    input: Shape,
    window: &Window,
    output: Shape,
    result: &mut [T],
    fold: impl Fn(&mut T, i8),
) {
    let channels = input.channels as usize;
    for_each_window(input, window, output, |pixel, rows, columns| {
        let folded = &mut result[pixel * channels..(pixel + 1) * channels];
        for row in 0..rows.inside.len() {
            for column in 0..columns.inside.len() {
                let source = (rows.first + row) * input.width as usize + columns.first + column;
                let pixel_values = &values[source * channels..(source + 1) * channels];
                for (slot, &value) in folded.iter_mut().zip(pixel_values) {
                    fold(slot, value);
                }
            }
        }
    });
}

pub(crate) fn add(inputs: [&[i8]; 2], multipliers: [i32; 2]) -> Vec<i32> {
    let [a, b] = inputs;
    let [m, n] = multipliers;
    a.iter()
        .zip(b)
        .map(|(&a, &b)| (i32::from(a) * m).wrapping_add(i32::from(b) * n))
        .collect()
}

pub(crate) fn requantise<T: Copy + Into<i64>>(
    values: &[T],
    how: &Requantise,
    output: Shape,
) -> Vec<i16> {
    let channels = output.channels as usize;
    let rescales: Vec<_> = (0..channels)
        .map(|channel| how.pairs[usize::from(how.pair_of(channel))])
        .collect();
    values
        .chunks_exact(channels)
        .flat_map(|pixel| pixel.iter().zip(&rescales))
        .map(|(&value, &rescale)| how.output(rescale, value.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::execute::{Tensor, run_node};
    use crate::sample::Numbers;
    use tg_ir::{InputSpec, Node, Op, Program, TensorId, Weights, scalar};

    fn one(op: Op, input: Shape, output: Shape, weights: &Weights) -> Program {
        Program {
            name: String::new(),
            input: InputSpec::scaled(input, 1.0),
            nodes: vec![Node {
                name: "node".to_owned(),
                op,
                shape: output,
                scale: 1.0,
            }],
            weights_root: weights.root(),
        }
    }

    fn check(op: Op, input: Shape, output: Shape, layer: Option<&LinearWeights>, values: &[i8]) {
        let weights = Weights {
            layers: layer.cloned().into_iter().collect(),
        };
        let program = one(op, input, output, &weights);
        program.validate().unwrap();
        let tensors = [values.iter().map(|&v| i32::from(v)).collect::<Vec<_>>()];
        let got = run_node(&program, &weights, 0, &[Tensor::I8(values.to_vec())]).widened();
        let elements = 0..output.elements();
        let expected: Vec<i32> = elements
            .map(|element| scalar::element(&program, &weights, 0, element, &tensors))
            .collect();
        assert_eq!(got, expected, "{:?}", program.nodes[0].op);
    }

    /// Every window over a few small images: all kernels, strides and paddings up to 3.
    #[test]
    fn every_small_window_agrees_with_the_scalar_semantics() {
        let mut numbers = Numbers::new(1);
        let axis: Vec<[u32; 4]> = (1..=3)
            .flat_map(|k| (1..=3).map(move |s| (k, s)))
            .flat_map(|(k, s)| (0..k).map(move |before| (k, s, before)))
            .flat_map(|(k, s, before)| (0..k).map(move |after| [k, s, before, after]))
            .collect();
        let input = Shape::new(5, 3, 2);
        for (index, &[ky, sy, top, bottom]) in axis.iter().enumerate() {
            let &[kx, sx, left, right] = &axis[(index * 7 + 3) % axis.len()];
            let window = Window::new([ky, kx], [sy, sx], [top, left, bottom, right]);
            let [height, width] = window.output(input).unwrap();
            let values: Vec<i8> = (0..input.elements())
                .map(|_| numbers.activation())
                .collect();
            let pooled = Shape::new(height, width, 2);
            let max = Op::MaxPool {
                input: TensorId::INPUT,
                window,
            };
            check(max, input, pooled, None, &values);
            let sum = Op::WindowSum {
                input: TensorId::INPUT,
                window,
            };
            check(sum, input, pooled, None, &values);
            let count = 3 * window.positions() * 2;
            let layer = LinearWeights {
                weights: (0..count).map(|_| numbers.activation().max(-127)).collect(),
                bias: vec![-5, 0, 70_000],
            };
            let conv = Op::conv(TensorId::INPUT, window);
            let output = Shape::new(height, width, 3);
            check(conv, input, output, Some(&layer), &values);
        }
    }

    /// The widest sums a valid program can hold do not wrap.
    #[test]
    fn the_greatest_sums_are_exact() {
        let reduction = 65_022u32;
        let layer = LinearWeights {
            weights: [
                vec![127; reduction as usize],
                vec![-127; reduction as usize],
            ]
            .concat(),
            bias: vec![-tg_ir::weights::BIAS_MAX, tg_ir::weights::BIAS_MAX],
        };
        let dense = Op::Dense {
            input: TensorId::INPUT,
        };
        let values = vec![-128; reduction as usize];
        check(
            dense,
            Shape::vector(reduction),
            Shape::vector(2),
            Some(&layer),
            &values,
        );
    }
}
