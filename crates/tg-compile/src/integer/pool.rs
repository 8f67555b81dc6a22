//! Pooling over windows.

use super::linear::window_of;
use super::lowering::{Lowering, Reader, Step, Stop, list, narrow, operand, result, unsupported};
use super::strided::grouped_layout;
use crate::passes::int;
use tg_ir::op;
use tg_ir::window::KERNEL_MAX;
use tg_ir::{FIELD_BOUND, Op, Shape, TensorId, Window};

/// Most elements of a maximum: what a proof compares at once.
const ELEMENTS_MAX: u32 = 16;

/// A maximum over a large window as maxima of maxima over small ones: first along columns of pixels, then along rows. A
/// window that cannot be cut is left whole.
fn parts(window: Window, input: Shape) -> Vec<Window> {
    if window.kernel[0] * window.kernel[1] <= ELEMENTS_MAX {
        return vec![window];
    }
    let mut parts = Vec::new();
    for axis in 0..2 {
        let Some((first, second)) = cut(window.kernel[axis]) else {
            return vec![window];
        };
        let dilation = window.dilation[axis];
        let mut part = Window::new([1; 2], [1; 2], [0; 4]);
        part.kernel[axis] = first;
        part.dilation[axis] = dilation;
        (part.pads[axis], part.pads[axis + 2]) = (window.pads[axis], window.pads[axis + 2]);
        if second == [1, 0] {
            part.stride[axis] = window.stride[axis];
            parts.push(part);
            continue;
        }
        parts.push(part);
        let mut part = Window::new([1; 2], [1; 2], [0; 4]);
        part.kernel[axis] = second[0];
        part.dilation[axis] = second[1] * dilation;
        part.stride[axis] = window.stride[axis];
        parts.push(part);
    }
    parts.retain(|part| *part != Window::new([1; 2], [1; 2], [0; 4]));
    // Padding that a small window does not reach over, or a dilation that is too wide.
    let mut shape = input;
    for part in &parts {
        let whole = part.is_valid()
            && part.output(shape).is_some_and(|[height, width]| {
                let covered = part.covers(shape, Shape::new(height, width, 1));
                shape = Shape::new(height, width, shape.channels);
                covered
            });
        if !whole {
            return vec![window];
        }
    }
    parts
}

/// A kernel's length as a run of at most 16, and how many such runs at what distance make it up.
fn cut(length: u32) -> Option<(u32, [u32; 2])> {
    if length <= ELEMENTS_MAX {
        return Some((length, [1, 0]));
    }
    (2..=ELEMENTS_MAX).find_map(|count| {
        (1..=ELEMENTS_MAX).rev().find_map(|run| {
            let rest = length.checked_sub(run)?;
            let distance = rest / (count - 1);
            (rest.is_multiple_of(count - 1) && distance <= run).then_some((run, [count, distance]))
        })
    })
}

impl Lowering<'_> {
    /// Maxima over a window, part by part.
    fn maxima(
        &mut self,
        mut tensor: TensorId,
        window: Window,
        name: &str,
        scale: f64,
    ) -> Step<TensorId> {
        for window in parts(window, self.builder.shape(tensor)) {
            let own = self.builder.shape(tensor);
            let [height, width] = window
                .output(own)
                .ok_or(Stop::Unsupported("its window does not fit"))?;
            let op = Op::MaxPool(op::MaxPool {
                input: tensor,
                window,
            });
            let shape = Shape::new(height, width, own.channels);
            tensor = self.builder.push(name, op, shape, scale, None);
        }
        Ok(tensor)
    }

    pub(crate) fn pool(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        let (input, output) = (self.shape_of(x), self.shape_of(value));
        let rank = input.len();
        if !(3..=4).contains(&rank) || input[0] != 1 {
            return unsupported("only one input of one or two spatial axes is taken");
        }
        let global = node.op.starts_with("Global");
        let kernel = if global {
            input[2..].to_vec()
        } else {
            list(node, "kernel_shape").ok_or(Stop::Unsupported("it has no kernel"))?
        };
        let greatest = node.op.ends_with("MaxPool");
        let window = if global {
            let side = |axis: usize| narrow(kernel.get(axis).copied().unwrap_or(1));
            let [height, width] = [side(0)?, side(1)?];
            if height > KERNEL_MAX || width > KERNEL_MAX {
                return unsupported("it pools over more than 64 rows or columns");
            }
            Window::new([height, width], [1; 2], [0; 4])
        } else {
            window_of(node, &kernel, &input[2..], &output[2..], false)?
        };
        let groups = if rank == 4 {
            [vec![0, 2], vec![3], vec![1]]
        } else {
            [vec![0, 2], Vec::new(), vec![1]]
        };
        let name = node.name.clone();
        let limit = FIELD_BOUND / 2 / window.positions() as i64;
        let read = if greatest {
            self.read(x, Reader::Other, i64::MAX)?
        } else {
            self.read_centred(x, Reader::Other, limit)?
        };
        let tensor = self.arranged(&read, &groups, &name)?;
        let own = self.builder.shape(tensor);
        let side = window
            .output(own)
            .ok_or(Stop::Unsupported("its window does not fit"))?;
        let shape = Shape::new(side[0], side[1], own.channels);
        let layout = grouped_layout(output, &groups);
        if greatest {
            let tensor = self.maxima(tensor, window, &name, read.scale)?;
            self.give(value, tensor, layout, read.scale, read.zero);
            return Ok(());
        }
        if window.pads != [0; 4] && int(node, "count_include_pad", 0) == 0 {
            return unsupported("averages over different numbers of elements at the border");
        }
        let scale = read.scale / window.positions() as f64;
        let op = Op::WindowSum(op::WindowSum {
            input: tensor,
            window,
        });
        let tensor = self.builder.push(&name, op, shape, scale, None);
        self.give_sums(value, tensor, layout, scale);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    /// The greatest element of each window.
    fn pooled(values: &[i32], shape: Shape, window: &Window) -> (Vec<i32>, Shape) {
        let [height, width] = window.output(shape).unwrap();
        let of = |row: u32, column: u32| {
            let sources = (0..window.positions())
                .filter_map(move |position| window.source(shape, row, column, position));
            sources.map(|source| values[source]).max().unwrap()
        };
        let rows = (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
        let values = rows.map(|(row, column)| of(row, column)).collect();
        (values, Shape::new(height, width, 1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn parts_of_a_window_give_its_maximum(
            kernel in prop::array::uniform2(1u32..40), stride in prop::array::uniform2(1u32..5),
            pads in prop::array::uniform4(0u32..8), dilation in prop::array::uniform2(1u32..3), seed in any::<u32>(),
        ) {
            let mut window = Window::new(kernel, stride, pads);
            window.dilation = dilation;
            for (axis, pad) in window.pads.iter_mut().enumerate() {
                *pad = (*pad).min((kernel[axis % 2] - 1) * dilation[axis % 2] / 2);
            }
            let side = |axis: usize| window.reach()[axis] + seed % 9;
            let shape = Shape::new(side(0), side(1), 1);
            let noise = |index: usize| (index as u32).wrapping_mul(2_654_435_761).wrapping_add(seed).rotate_left(7);
            let values: Vec<i32> = (0..shape.pixels()).map(|i| (noise(i) % 251) as i32).collect();
            let expected = pooled(&values, shape, &window);
            let own = parts(window, shape);
            let mut found = (values, shape);
            for part in &own {
                found = pooled(&found.0, found.1, part);
            }
            prop_assert_eq!(found, expected);
            if dilation == [1; 2] {
                prop_assert!(own.iter().all(|part| part.positions() <= 16), "{own:?}");
            }
        }
    }

    #[test]
    fn the_usual_large_windows_are_cut() {
        for (side, count) in [
            (4, 1),
            (5, 2),
            (7, 2),
            (9, 2),
            (13, 2),
            (16, 2),
            (17, 4),
            (49, 4),
            (64, 4),
        ] {
            let window = Window::new([side; 2], [1; 2], [(side / 2).min(7); 4]);
            let own = parts(window, Shape::new(70, 70, 3));
            assert_eq!(own.len(), count, "{side}");
            assert!(own.iter().all(|part| part.positions() <= 16));
        }
    }
}
