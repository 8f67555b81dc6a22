//! Pooling: maxima, and means whose divisor depends on how many pixels a window covers.

use tg_ir::op::{self, Axis};
use tg_ir::{ElementType, Op, Rescale, Shape, TensorId, View, Window};

use crate::builder::{Builder, Handle, Refusal};
use crate::case::Case;
use crate::linear::{image, window};

/// Kernel, stride and padding: attributes, or operands in the adaptive form.
fn window_of(case: &Case, first_operand: usize) -> Result<Window, Refusal> {
    let operand = |index: usize| case.operands.get(first_operand + index);
    match (operand(0), operand(1), operand(2)) {
        (Some(kernel), Some(stride), Some(pad)) => {
            window(&kernel.elements, &stride.elements, &pad.elements)
        }
        _ => window(
            &case.list("kernel"),
            &case.list("stride"),
            &case.list("pad"),
        ),
    }
}

fn checked(window: Window) -> Result<Window, Refusal> {
    if window.is_valid() {
        Ok(window)
    } else {
        Err("a kernel or stride beyond 64")
    }
}

/// MAX_POOL2D and its adaptive form.
pub(crate) fn greatest(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let source = image(&case.operands[0])?;
    let window = checked(window_of(case, 1)?)?;
    let input = builder.operands(&[&source])?.remove(0).id;
    let shape = builder.shape(input);
    let [height, width] = window
        .output(shape)
        .ok_or("a kernel larger than its input")?;
    let output = Shape::new(height, width, shape.channels);
    let kind = builder.kind(input);
    Ok(Handle {
        id: builder.node(Op::MaxPool(op::MaxPool { input, window }), output, kind),
        axes: vec![1, height, width, shape.channels],
    })
}

/// AVG_POOL2D and its adaptive form: `scale(sum of (x - zero_in), 1 / count) + zero_out`, count being the pixels of
/// the window that lie inside the image. Windows of one count are a part of the result with one rescale.
pub(crate) fn mean(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let source = image(&case.operands[0])?;
    let (zero_in, zero_out) = (case.operands[1].scalar(), case.operands[2].scalar());
    let window = checked(window_of(case, 3)?)?;
    let input = builder.operands(&[&source])?.remove(0).id;
    let shape = builder.shape(input);
    let [height, width] = window
        .output(shape)
        .ok_or("a kernel larger than its input")?;
    let whole = Shape::new(height, width, shape.channels);
    let sums = builder.node(
        Op::WindowSum(op::WindowSum { input, window }),
        whole,
        ElementType::I32,
    );
    let mut rows = Vec::new();
    for (top, rows_high, count_down) in runs(&window, 0, height, shape.height) {
        let mut parts = Vec::new();
        for (left, columns_wide, count_across) in runs(&window, 1, width, shape.width) {
            let part = Shape::new(rows_high, columns_wide, shape.channels);
            let view = part_of(whole, [top, left], part)?;
            let sum = builder.view(sums, part, view);
            let count = i64::from(count_down * count_across);
            parts.push(divided(builder, sum, count, zero_in, zero_out)?);
        }
        rows.push(joined(builder, &parts, Axis::Columns));
    }
    Ok(Handle {
        id: joined(builder, &rows, Axis::Rows),
        axes: vec![1, height, width, shape.channels],
    })
}

/// Runs of output positions along one axis whose windows cover equally many pixels: (first, length, pixels).
fn runs(window: &Window, axis: usize, outputs: u32, inputs: u32) -> Vec<(u32, u32, u32)> {
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for at in 0..outputs {
        let covered = (0..window.kernel[axis])
            .filter(|&k| window.source_on_axis(axis, inputs, at, k).is_some())
            .count();
        let covered = u32::try_from(covered).expect("a kernel side");
        match runs.last_mut() {
            Some((_, length, pixels)) if *pixels == covered => *length += 1,
            _ => runs.push((at, 1, covered)),
        }
    }
    runs
}

fn part_of(whole: Shape, [top, left]: [u32; 2], part: Shape) -> Result<View, Refusal> {
    let stride = |steps: u32| i32::try_from(steps).map_err(|_| "an axis beyond 2^16 elements");
    let row = whole.width * whole.channels;
    let axes = [
        (part.height, stride(row)?),
        (part.width, stride(whole.channels)?),
        (part.channels, 1),
    ];
    Ok(View::new(top * row + left * whole.channels, &axes))
}

fn joined(builder: &mut Builder, parts: &[TensorId], axis: Axis) -> TensorId {
    if let [only] = parts {
        return *only;
    }
    let first = builder.shape(parts[0]);
    let length = parts
        .iter()
        .map(|&part| builder.shape(part).axis(axis))
        .sum();
    let op = Op::Concat(op::Concat {
        inputs: parts.to_vec(),
        axis,
    });
    let kind = builder.kind(parts[0]);
    builder.node(op, first.with_axis(axis, length), kind)
}

fn divided(
    builder: &mut Builder,
    sum: TensorId,
    count: i64,
    zero_in: i64,
    zero_out: i64,
) -> Result<TensorId, Refusal> {
    let rescale = reciprocal(count).ok_or("a mean that no 15-bit multiplier gives")?;
    let bias = i32::try_from(-zero_in * count).map_err(|_| "a zero point beyond 16 bits")?;
    let centred = builder.add(&[(sum, 1)], bias);
    let zero = i16::try_from(zero_out).map_err(|_| "a zero point beyond 16 bits")?;
    let clamp = [-128, 127];
    Ok(builder.requantise(
        centred,
        vec![rescale],
        vec![0],
        zero,
        clamp,
        ElementType::I8,
    ))
}

/// A rescale that divides every sum of `count` values in [-255, 255] as TOSA's reciprocal does, or nothing.
fn reciprocal(count: i64) -> Option<Rescale> {
    let greatest = count * 255;
    (tg_ir::rescale::SHIFT_MIN..=31).rev().find_map(|shift| {
        let exact = (1i64 << shift) / count;
        [exact, exact + 1].into_iter().find_map(|multiplier| {
            let rescale = Rescale::new(u32::try_from(multiplier).ok()?, shift)?;
            (-greatest..=greatest)
                .all(|sum| rescale.apply(sum) == tosa_mean(sum, count))
                .then_some(rescale)
        })
    })
}

/// TOSA 1.0, `reciprocal_scale` and `apply_scale_32` (single rounding).
fn tosa_mean(sum: i64, count: i64) -> i64 {
    let bits = if count <= 1 {
        0
    } else {
        64 - (count - 1).leading_zeros()
    };
    let multiplier = ((1i64 << 30) + 1) * (1 << bits) / count;
    let shift = 30 + bits;
    (sum * multiplier + (1 << (shift - 1))) >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_count_has_a_15_bit_reciprocal() {
        for count in 1..=64 {
            assert!(reciprocal(count).is_some(), "{count}");
        }
        assert_eq!(tosa_mean(7, 2), 4);
        // The multiplier is a little above 1 / 2: halves below 0 round away from it.
        assert_eq!(tosa_mean(-7, 2), -4);
        assert_eq!(tosa_mean(5, 1), 5);
    }

    #[test]
    fn counts_follow_the_padding() {
        let window = Window::new([3, 2], [1, 1], [1, 0, 1, 0]);
        assert_eq!(runs(&window, 0, 5, 5), [(0, 1, 2), (1, 3, 3), (4, 1, 2)]);
        assert_eq!(runs(&window, 1, 4, 5), [(0, 4, 2)]);
    }
}
