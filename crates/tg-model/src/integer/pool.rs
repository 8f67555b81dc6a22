//! Pooling over windows.

use super::linear::window_of;
use super::movement::grouped_layout;
use super::{Lowering, Reader, Step, Stop, operand, result, unsupported};
use crate::passes::int;
use tg_ir::window::KERNEL_MAX;
use tg_ir::{FIELD_BOUND, Op, Shape, Window};

impl Lowering<'_> {
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
            super::linear::list(node, "kernel_shape")
                .ok_or(Stop::Unsupported("it has no kernel"))?
        };
        let greatest = node.op.ends_with("MaxPool");
        let window = if global {
            let side = |axis: usize| super::linear::narrow(kernel.get(axis).copied().unwrap_or(1));
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
            let op = Op::MaxPool {
                input: tensor,
                window,
            };
            let tensor = self.builder.push(&name, op, shape, read.scale, None);
            self.give(value, tensor, layout, read.scale, read.zero);
            return Ok(());
        }
        if window.pads != [0; 4] && int(node, "count_include_pad", 0) == 0 {
            return unsupported("averages over different numbers of elements at the border");
        }
        let scale = read.scale / window.positions() as f64;
        let op = Op::WindowSum {
            input: tensor,
            window,
        };
        let tensor = self.builder.push(&name, op, shape, scale, None);
        self.give_sums(value, tensor, layout, scale);
        Ok(())
    }
}
