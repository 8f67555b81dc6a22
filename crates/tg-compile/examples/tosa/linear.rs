//! Convolutions and matrix products, with the zero points and weights of TOSA.

use tg_ir::op;
use tg_ir::{ElementType, Op, Shape, TensorId, Window};

use crate::builder::{Builder, Handle, Refusal};
use crate::case::{Case, Values};

/// The image of a case with four axes; batches are run one by one.
pub(crate) fn image(values: &Values) -> Result<Values, Refusal> {
    match values.shape[..] {
        [1, height, width, channels] => Ok(Values {
            shape: vec![height, width, channels],
            ..values.clone()
        }),
        [_, _, _, _] => Err("a batch of several images"),
        _ => Err("not four axes"),
    }
}

fn side(value: i64) -> Result<u32, Refusal> {
    u32::try_from(value).map_err(|_| "a negative size")
}

fn sides<const N: usize>(list: &[i64]) -> Result<[u32; N], Refusal> {
    let list: Vec<u32> = list.iter().map(|&x| side(x)).collect::<Result<_, _>>()?;
    list.try_into().map_err(|_| "an unexpected attribute")
}

/// TOSA's padding (top, bottom, left, right) in the order of a window.
pub(crate) fn pads(list: &[i64]) -> Result<[u32; 4], Refusal> {
    let [top, bottom, left, right] = sides(list)?;
    Ok([top, left, bottom, right])
}

/// A window of TOSA's attributes.
pub(crate) fn window(kernel: &[i64], stride: &[i64], pad: &[i64]) -> Result<Window, Refusal> {
    Ok(Window::new(sides(kernel)?, sides(stride)?, pads(pad)?))
}

/// A linear layer: `[out][kernel position][in of the group]` real weights, less their zero point, and the bias.
struct Kernel {
    weights: Vec<i64>,
    bias: Vec<i64>,
    groups: u32,
    channels: u32,
}

/// CONV2D: weights `[out][kh][kw][in]`.
pub(crate) fn convolution(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let weights = &case.operands[1];
    let [channels, height, width, _] = weights.shape[..] else {
        return Err("weights without four axes");
    };
    let kernel = Kernel {
        weights: less_zero_point(case, weights.elements.iter().copied()),
        bias: biases(case, channels),
        groups: 1,
        channels,
    };
    let mut window = window(
        &[height.into(), width.into()],
        &case.list("stride"),
        &case.list("pad"),
    )?;
    window.dilation = sides(&case.list("dilation"))?;
    linear(builder, case, window, &kernel)
}

/// DEPTHWISE_CONV2D: weights `[kh][kw][in][m]`, output channel `in * m + index`.
pub(crate) fn depthwise(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let weights = &case.operands[1];
    let [height, width, inputs, multiple] = weights.shape[..] else {
        return Err("weights without four axes");
    };
    let (channels, positions) = (inputs * multiple, (height * width) as usize);
    let ordered = (0..channels as usize).flat_map(|channel| {
        let at = move |position: usize| position * channels as usize + channel;
        (0..positions).map(move |position| weights.elements[at(position)])
    });
    let kernel = Kernel {
        weights: less_zero_point(case, ordered),
        bias: biases(case, channels),
        groups: inputs,
        channels,
    };
    let mut window = window(
        &[height.into(), width.into()],
        &case.list("stride"),
        &case.list("pad"),
    )?;
    window.dilation = sides(&case.list("dilation"))?;
    linear(builder, case, window, &kernel)
}

/// TRANSPOSE_CONV2D: a convolution of stride 1 over spread pixels, with the kernel turned round.
pub(crate) fn transposed(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let weights = &case.operands[1];
    let [channels, height, width, inputs] = weights.shape[..] else {
        return Err("weights without four axes");
    };
    let out_pad: [i64; 4] = case
        .list("out_pad")
        .try_into()
        .map_err(|_| "an unexpected attribute")?;
    let rows = Turned::new(height, out_pad[0], out_pad[1])?;
    let columns = Turned::new(width, out_pad[2], out_pad[3])?;
    let zero = case.operands[4].scalar();
    let mut turned = Vec::new();
    for channel in 0..channels as usize {
        for row in 0..rows.kernel {
            for column in 0..columns.kernel {
                let source = rows.source(row).zip(columns.source(column));
                for input in 0..inputs as usize {
                    turned.push(source.map_or(0, |(row, column)| {
                        let at = (channel * height as usize + row) * width as usize + column;
                        weights.elements[at * inputs as usize + input] - zero
                    }));
                }
            }
        }
    }
    let kernel = Kernel {
        weights: turned,
        bias: biases(case, channels),
        groups: 1,
        channels,
    };
    let window = Window {
        spread: sides(&case.list("stride"))?,
        ..Window::new(
            [rows.kernel, columns.kernel],
            [1, 1],
            [rows.before, columns.before, rows.after, columns.after],
        )
    };
    linear(builder, case, window, &kernel)
}

/// One axis of a transposed convolution's kernel. Rows of zeros are added where the output is padded, so that the
/// padding stays narrower than the kernel.
struct Turned {
    kernel: u32,
    before: u32,
    after: u32,
    front: u32,
    taps: u32,
}

impl Turned {
    fn new(taps: u32, pad_before: i64, pad_after: i64) -> Result<Self, Refusal> {
        let front = side(pad_after.max(0))?;
        let back = side(pad_before.max(0))?;
        let reach = i64::from(taps) - 1;
        Ok(Self {
            kernel: taps + front + back,
            before: side(reach + pad_before + i64::from(front))?,
            after: side(reach + pad_after + i64::from(back))?,
            front,
            taps,
        })
    }

    fn source(&self, position: u32) -> Option<usize> {
        let turned = position.checked_sub(self.front)?;
        (turned < self.taps).then(|| (self.taps - 1 - turned) as usize)
    }
}

fn less_zero_point(case: &Case, weights: impl Iterator<Item = i64>) -> Vec<i64> {
    let zero = case.operands[4].scalar();
    weights.map(|weight| weight - zero).collect()
}

fn biases(case: &Case, channels: u32) -> Vec<i64> {
    let stated = &case.operands[2].elements;
    (0..channels as usize)
        .map(|channel| stated[channel % stated.len()])
        .collect()
}

/// A linear layer over an image. Weights less their zero point may need nine bits; they are then the sum of up to
/// three layers of eight.
fn linear(
    builder: &mut Builder,
    case: &Case,
    window: Window,
    kernel: &Kernel,
) -> Result<Handle, Refusal> {
    let source = image(&case.operands[0])?;
    let input = builder.operands(&[&source])?.remove(0).id;
    let zero = case.operands[3].scalar();
    let (input, window) = fitted(builder, input, window, zero)?;
    let [height, width] = window
        .output(builder.shape(input))
        .ok_or("a kernel larger than its input")?;
    let shape = Shape::new(height, width, kernel.channels);
    let taps = kernel.weights.len() / kernel.channels as usize;
    let folded = kernel.bias.iter().zip(kernel.weights.chunks_exact(taps));
    let mut bias: Vec<i64> = folded
        .map(|(bias, taps)| bias - zero * taps.iter().sum::<i64>())
        .collect();
    let mut rest = kernel.weights.clone();
    let mut terms = Vec::new();
    while terms.is_empty() || rest.iter().any(|&weight| weight != 0) {
        let part: Vec<i64> = rest
            .iter()
            .map(|weight| (*weight).clamp(-127, 127))
            .collect();
        for (weight, part) in rest.iter_mut().zip(&part) {
            *weight -= part;
        }
        let op = Op::Conv(op::Conv {
            input,
            window,
            groups: kernel.groups,
            zero: i16::try_from(zero).map_err(|_| "a zero point beyond 16 bits")?,
        });
        let narrow = |&x: &i64| i8::try_from(x).expect("clamped");
        let weights = part.iter().map(narrow).collect();
        let wide = |&x: &i64| i32::try_from(x).map_err(|_| "biases beyond 24 bits");
        let biases = bias.iter().map(wide).collect::<Result<_, _>>()?;
        terms.push((
            builder.weighted(op, shape, ElementType::I32, weights, biases),
            1,
        ));
        bias.fill(0);
    }
    let id = match &terms[..] {
        [(only, _)] => *only,
        several => builder.add(several, 0),
    };
    Ok(Handle {
        id,
        axes: vec![1, height, width, kernel.channels],
    })
}

/// Padding as wide as the kernel is a border of the input instead of a part of the window.
fn fitted(
    builder: &mut Builder,
    input: TensorId,
    mut window: Window,
    zero: i64,
) -> Result<(TensorId, Window), Refusal> {
    if window.is_valid() {
        return Ok((input, window));
    }
    let [top, left, bottom, right] = window.pads;
    window.pads = [0; 4];
    if !window.is_valid() {
        return Err("a kernel, stride or dilation beyond 64");
    }
    let shape = builder.shape(input);
    let padded = Shape::new(
        shape.height + top + bottom,
        shape.width + left + right,
        shape.channels,
    );
    let op = Op::Pad(op::Pad {
        input,
        before: [top, left, 0],
        after: [bottom, right, 0],
        value: i16::try_from(zero).map_err(|_| "a zero point beyond 16 bits")?,
    });
    let kind = builder.kind(input);
    Ok((builder.node(op, padded, kind), window))
}

/// MATMUL and MATMUL_T: products of activations less their zero points, per batch.
pub(crate) fn matmul(
    builder: &mut Builder,
    case: &Case,
    is_transposed: bool,
) -> Result<Handle, Refusal> {
    let operands = builder.operands(&[&case.operands[0], &case.operands[1]])?;
    let mut centred = Vec::new();
    for (operand, zero) in operands.iter().zip(&case.operands[2..4]) {
        let zero = i32::try_from(zero.scalar()).map_err(|_| "a zero point beyond 16 bits")?;
        let less = builder.add(&[(operand.id, 1)], -zero);
        centred.push(builder.identity(less, ElementType::I16, [-255, 255]));
    }
    let (left, right) = (builder.shape(centred[0]), builder.shape(centred[1]));
    let columns = if is_transposed {
        right.width
    } else {
        right.channels
    };
    let shape = Shape::new(left.height, left.width, columns);
    let op = Op::MatMul(op::MatMul {
        inputs: [centred[0], centred[1]],
        transposed: is_transposed,
    });
    Ok(Handle {
        id: builder.node(op, shape, ElementType::I32),
        axes: vec![shape.height, shape.width, shape.channels],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turned_kernel_gives_the_transposed_convolution_on_one_axis() {
        for taps in 1u32..5 {
            for (before, after) in [(0, 0), (2, 1), (0, 3), (-1, 0), (1, -2), (-2, -1)] {
                if -before >= i64::from(taps) || -after >= i64::from(taps) {
                    continue;
                }
                let turned = Turned::new(taps, before, after).expect("small sizes");
                assert!(turned.before < turned.kernel && turned.after < turned.kernel);
                for (size, stride) in [(1u32, 1u32), (4, 1), (4, 2), (3, 5)] {
                    check(&turned, taps, before, after, size, stride);
                }
            }
        }
    }

    /// Every output position reads (input, tap) as the definition says: `out = in * stride + pad_before + tap`.
    fn check(turned: &Turned, taps: u32, before: i64, after: i64, size: u32, stride: u32) {
        let window = Window {
            spread: [stride, 1],
            ..Window::new(
                [turned.kernel, 1],
                [1, 1],
                [turned.before, 0, turned.after, 0],
            )
        };
        let length = i64::from((size - 1) * stride + taps) + before + after;
        let Some([got, _]) = window.output(Shape::new(size, 1, 1)) else {
            assert!(length < 1);
            return;
        };
        assert_eq!(i64::from(got), length);
        for at in 0..got {
            let mut read: Vec<(u32, usize)> = (0..turned.kernel)
                .filter_map(|k| Some((window.source_on_axis(0, size, at, k)?, turned.source(k)?)))
                .collect();
            read.sort_unstable();
            let defined = (0..size).flat_map(|input| (0..taps).map(move |tap| (input, tap)));
            let expected: Vec<(u32, usize)> = defined
                .filter(|&(input, tap)| i64::from(input * stride + tap) + before == i64::from(at))
                .map(|(input, tap)| (input, tap as usize))
                .collect();
            assert_eq!(read, expected);
        }
    }
}
