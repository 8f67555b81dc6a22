//! Reductions, the greatest and its place.

use super::lowering::{Lowering, Reader, Step, Stop, narrow, operand, result, unsupported};
use super::strided::axis_of;
use super::strided::{Strided, rechannelled};
use crate::passes::{int, ints};
use tg_ir::op::{self, Ranked, Reduction};
use tg_ir::window::KERNEL_MAX;
use tg_ir::{Axis, ElementType, FIELD_BOUND, Op, Shape, TensorId, Window};

/// How far elements that are compared reach: their differences, and one more, have 29 bits in a proof.
const COMPARED_MAX: i64 = (1 << 28) - 1;

impl Lowering<'_> {
    pub(crate) fn reduce(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        let shape = self.shape_of(x);
        let rank = shape.len();
        let axes = ints(&self.prepared.graph, node, "axes", 1);
        let mut axes: Vec<usize> = match axes {
            Some(axes) if !axes.is_empty() => axes.iter().map(|&a| axis_of(a, rank)).collect(),
            _ => (0..rank).collect(),
        };
        axes.sort_unstable();
        let kept: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
        let count: usize = axes.iter().map(|&axis| shape[axis]).product();
        let name = node.name.clone();
        let reduction = match node.op.as_str() {
            "ReduceSum" | "ReduceMean" => Reduction::Sum,
            "ReduceMax" => Reduction::Greatest,
            "ReduceMin" => Reduction::Least,
            _ => return unsupported("sums of squares have no integer form of their own"),
        };
        let sums = reduction == Reduction::Sum;
        let read = if sums {
            self.read_centred(x, Reader::Other, FIELD_BOUND / 2 / count.max(1) as i64)?
        } else {
            self.read(x, Reader::Other, i64::MAX)?
        };
        let scale = if node.op == "ReduceMean" {
            read.scale / count as f64
        } else {
            read.scale
        };
        let layout = Strided::contiguous(self.shape_of(value));
        let image = rank == 4 && axes == [2, 3];
        let small = shape[rank.saturating_sub(2)..]
            .iter()
            .all(|&side| side <= KERNEL_MAX as usize);
        let tensor = if image && sums && small {
            let tensor = self.arranged(&read, &[vec![0, 2], vec![3], vec![1]], &name)?;
            let own = self.builder.shape(tensor);
            let window = Window::new([own.height, own.width], [1; 2], [0; 4]);
            let op = Op::WindowSum(op::WindowSum {
                input: tensor,
                window,
            });
            self.builder
                .push(&name, op, Shape::vector(own.channels), scale, None)
        } else {
            let tensor = self.arranged(&read, &[kept, Vec::new(), axes], &name)?;
            let shape = self.builder.shape(tensor).with_axis(Axis::Channels, 1);
            let op = Op::Reduce(op::Reduce {
                input: tensor,
                reduction,
                axis: Axis::Channels,
            });
            self.builder.push(&name, op, shape, scale, None)
        };
        if sums {
            self.give_sums(value, tensor, layout, scale);
        } else {
            self.give(value, tensor, layout, scale, read.zero);
        }
        Ok(())
    }

    /// Sums of the elements so far along an axis, from its end if `reverse`, without the own one if `exclusive`.
    pub(crate) fn running_sum(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        let shape = self.shape_of(x);
        let Some(&[axis]) = ints(&self.prepared.graph, node, "axis", 1).as_deref() else {
            return unsupported("its axis is not constant");
        };
        let axis = axis_of(axis, shape.len());
        let length = shape[axis];
        let [exclusive, reverse] =
            ["exclusive", "reverse"].map(|attribute| int(node, attribute, 0) != 0);
        let name = node.name.clone();
        let bound = FIELD_BOUND / 2 / length.max(1) as i64;
        let read = self.read_centred(x, Reader::Other, bound)?;
        let (mut tensor, layout) = self.channels_last(&read, axis, &name)?;
        if reverse {
            tensor = self.backwards(tensor, read.scale, &name);
        }
        if exclusive {
            tensor = self.delayed(tensor, read.scale, &name);
        }
        let own = self.builder.shape(tensor);
        let op = Op::RunningSum(op::RunningSum {
            input: tensor,
            axis: Axis::Channels,
        });
        tensor = self.builder.push(&name, op, own, read.scale, None);
        if reverse {
            tensor = self.backwards(tensor, read.scale, &name);
        }
        self.give_sums(value, tensor, layout, read.scale);
        Ok(())
    }

    /// The channels of a tensor in the opposite order.
    fn backwards(&mut self, input: TensorId, scale: f64, name: &str) -> TensorId {
        let shape = self.builder.shape(input);
        let op = Op::Gather(op::Gather {
            input,
            axis: Axis::Channels,
            indices: (0..shape.channels).rev().collect(),
        });
        let name = format!("{name}.reverse");
        self.builder.push(&name, op, shape, scale, None)
    }

    /// The channels of a tensor one later, and a zero before them.
    fn delayed(&mut self, input: TensorId, scale: f64, name: &str) -> TensorId {
        let shape = self.builder.shape(input);
        let op = Op::Pad(op::Pad {
            input,
            before: [0, 0, 1],
            after: [0, 0, 0],
            value: 0,
        });
        let longer = shape.with_axis(Axis::Channels, shape.channels + 1);
        let name = format!("{name}.delay");
        let input = self.builder.push(&name, op, longer, scale, None);
        let op = Op::Gather(op::Gather {
            input,
            axis: Axis::Channels,
            indices: (0..shape.channels).collect(),
        });
        self.builder.push(&name, op, shape, scale, None)
    }

    pub(crate) fn ranking(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let x = operand(node, 0)?;
        let shape = self.shape_of(x);
        let argmax = node.op == "ArgMax";
        let axis = axis_of(int(node, "axis", if argmax { 0 } else { -1 }), shape.len());
        if int(node, "select_last_index", 0) != 0 || int(node, "largest", 1) == 0 {
            return unsupported("only the greatest, at its first place, is taken");
        }
        let read = match self.raw(x) {
            Ok(read) if self.builder.magnitude(read.tensor) <= COMPARED_MAX => read,
            // Sums that reach too far to be compared are activations first.
            Ok(_) => self.read_as(x, ElementType::I16, i64::MAX, None)?,
            Err(_) => self.read(x, Reader::Other, i64::MAX)?,
        };
        let name = node.name.clone();
        let (tensor, layout) = self.channels_last(&read, axis, &name)?;
        let own = self.builder.shape(tensor);
        if argmax {
            let value = result(node)?;
            let op = Op::ArgMax(op::ArgMax { input: tensor });
            let tensor = self
                .builder
                .push(&name, op, own.with_axis(Axis::Channels, 1), 1.0, None);
            let mut kept = rechannelled(&layout, axis, shape[axis], 1);
            if int(node, "keepdims", 1) == 0 {
                kept.axes.remove(axis);
            }
            self.give(value, tensor, kept, 1.0, 0);
            return Ok(());
        }
        for (slot, give) in [(0, Ranked::Values), (1, Ranked::Channels)] {
            let Some(value) = node.outputs.get(slot).copied().flatten() else {
                continue;
            };
            if self.uses[value.index()] == 0 {
                continue;
            }
            let k = *self
                .shape_of(value)
                .get(axis)
                .ok_or(Stop::Unsupported("its result"))?;
            let layout = rechannelled(&layout, axis, shape[axis], k);
            let (scale, zero) = if slot == 0 {
                (read.scale, read.zero)
            } else {
                (1.0, 0)
            };
            let op = Op::TopK(op::TopK {
                input: tensor,
                give,
            });
            let shape = own.with_axis(Axis::Channels, narrow(k)?);
            let found = self.builder.push(&name, op, shape, scale, None);
            debug_assert!(slot == 0 || self.builder.kind(found) == ElementType::I32);
            self.give(value, found, layout, scale, zero);
        }
        Ok(())
    }
}
