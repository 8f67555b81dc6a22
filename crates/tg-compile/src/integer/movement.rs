//! Operators that move elements: they change layouts, and a tensor is moved when a reader needs it.

use super::form::{Form, Lowered, Read};
use super::lowering::{Lowering, Reader, Step, Stop, list, narrow, operand, result, unsupported};
use super::strided::{
    Factor, Groups, Strided, axis_of, grouped_layout, is_contiguous, normal, rechannelled,
};
use crate::passes::{float, floats_of, int, ints, repeats, scalar_of};
use tg_float::{Attribute, Node, ValueId};
use tg_ir::op::{self, CONCAT_MAX};
use tg_ir::requantise::TABLE_MAX;
use tg_ir::{Axis, ElementType, LinearWeights, Op, Requantise, Rescale, Shape, TensorId};

impl Lowering<'_> {
    /// A value's elements as a tensor of these groups.
    pub(crate) fn arranged(&mut self, read: &Read, groups: &Groups, name: &str) -> Step<TensorId> {
        let factors = groups.clone().map(|axes| read.layout.factors(axes));
        self.placed(read, &factors, name)
    }

    /// A value's elements as a tensor whose rows, columns and channels are these factors.
    pub(crate) fn placed(
        &mut self,
        read: &Read,
        factors: &[Vec<Factor>; 3],
        name: &str,
    ) -> Step<TensorId> {
        let size = |list: &Vec<Factor>| narrow(list.iter().map(|factor| factor.size).product());
        let shape = Shape::new(size(&factors[0])?, size(&factors[1])?, size(&factors[2])?);
        if !shape.is_valid() {
            return unsupported("a tensor would be empty or too large");
        }
        let all = normal(factors.iter().flatten().copied().collect());
        self.moved(read, &all, shape, name)
    }

    /// A tensor of these factors of another.
    fn moved(
        &mut self,
        read: &Read,
        factors: &[Factor],
        shape: Shape,
        name: &str,
    ) -> Step<TensorId> {
        let own = self.builder.shape(read.tensor);
        if own == shape && read.layout.offset == 0 && is_contiguous(factors, own.elements()) {
            return Ok(read.tensor);
        }
        let Some(view) = read.layout.view(factors) else {
            return unsupported("its elements lie in an order of too many axes");
        };
        let op = Op::View(op::Unary {
            input: read.tensor,
            how: view,
        });
        Ok(self
            .builder
            .push(&format!("{name}.view"), op, shape, read.scale, None))
    }

    /// A value's elements in the order and shape of another tensor.
    pub(crate) fn aligned(&mut self, read: &Read, like: &Read, name: &str) -> Step<TensorId> {
        let Some(factors) = read.layout.aligned(&like.layout) else {
            return unsupported("its inputs lie in orders that do not fit");
        };
        let shape = self.builder.shape(like.tensor);
        self.moved(read, &factors, shape, name)
    }

    /// An operator that only moves elements, or one that is not known.
    pub(crate) fn movement(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        match node.op.as_str() {
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Identity" | "Cast" | "Expand"
            | "Transpose" | "Slice" | "DepthToSpace" | "SpaceToDepth" | "Resize" | "Upsample"
            | "Tile" => {
                let (x, value) = (operand(node, 0)?, result(node)?);
                self.move_value(index, x, value)
            }
            "Split" => self.split(index),
            "Concat" => self.concat(index),
            "Gather" => self.gather(index),
            "Pad" => self.pad(index),
            _ => unsupported("this operator has no integer form here yet"),
        }
    }

    fn move_value(&mut self, index: usize, x: ValueId, value: ValueId) -> Step<()> {
        let found = self.unscaled(x)?;
        let layout = self.new_layout(index, &found.layout, value)?;
        if let Some(layout) = layout {
            self.values.insert(value, Lowered { layout, ..found });
            return Ok(());
        }
        let found = self.materialised(x)?;
        let Some(layout) = self.new_layout(index, &found.layout, value)? else {
            return unsupported("its elements do not move in steps");
        };
        self.values.insert(value, Lowered { layout, ..found });
        Ok(())
    }

    /// A value that can be moved: accumulators with scales per channel become activations first, so that the scales
    /// need not move with them.
    fn unscaled(&mut self, value: ValueId) -> Step<Lowered> {
        self.lowered(value)
    }

    /// The layout of a node's result, or nothing if its elements are not in steps of the input's.
    fn new_layout(&self, index: usize, layout: &Strided, value: ValueId) -> Step<Option<Strided>> {
        let node = self.node(index);
        let shape = self.shape_of(value);
        let input = layout.sizes();
        Ok(match node.op.as_str() {
            "Identity" | "Cast" => Some(layout.clone()),
            "Expand" => layout.expanded(shape),
            "Transpose" => {
                let reversed = || (0..input.len()).rev().collect();
                let order = list(node, "perm").unwrap_or_else(reversed);
                Some(layout.transposed(&order))
            }
            "Slice" => self.sliced(node, layout, shape)?,
            "DepthToSpace" | "SpaceToDepth" => between_depth_and_space(node, layout, shape)?,
            "Resize" | "Upsample" | "Tile" => self.repeated(node, layout, shape)?,
            _ => layout.reshaped(shape),
        })
    }

    fn sliced(&self, node: &Node, layout: &Strided, shape: &[usize]) -> Step<Option<Strided>> {
        let graph = &self.prepared.graph;
        let Some(starts) = ints(graph, node, "starts", 1) else {
            return unsupported("its start is not constant");
        };
        let all = || (0..starts.len() as i64).collect();
        let axes = ints(graph, node, "axes", 3).unwrap_or_else(all);
        let steps = ints(graph, node, "steps", 4).unwrap_or_else(|| vec![1; starts.len()]);
        let rank = layout.axes.len() as i64;
        let mut result = layout.clone();
        for ((&start, &axis), &step) in starts.iter().zip(&axes).zip(&steps) {
            let axis = if axis < 0 { axis + rank } else { axis } as usize;
            let size = layout.sizes()[axis] as i64;
            let from_start = if start < 0 { start + size } else { start };
            let greatest = if step < 0 { size - 1 } else { size };
            let start = from_start.clamp(0, greatest) as usize;
            match result.sliced(axis, start, step, shape[axis]) {
                Some(next) => result = next,
                None => return Ok(None),
            }
        }
        Ok(Some(result))
    }

    /// Each element several times in a row (nearest neighbours), or the whole several times.
    fn repeated(&self, node: &Node, layout: &Strided, shape: &[usize]) -> Step<Option<Strided>> {
        let tile = node.op == "Tile";
        if !tile {
            let text = |name: &str| match node.attributes.get(name) {
                Some(Attribute::Text(text)) => text.clone(),
                _ => Vec::new(),
            };
            let mode = text("mode");
            if !mode.is_empty() && mode != b"nearest" {
                return unsupported("only nearest neighbours are taken");
            }
            if !repeats(node, &layout.sizes(), shape) {
                return unsupported("it does not repeat each element the same number of times");
            }
        }
        let mut result = layout.clone();
        for (axis, (&to, from)) in shape.iter().zip(layout.sizes()).enumerate() {
            if to == from {
                continue;
            }
            if to % from != 0 {
                return unsupported("it does not repeat each element the same number of times");
            }
            let repeated = Factor {
                size: to / from,
                stride: 0,
            };
            let factors = &mut result.axes[axis];
            if tile {
                factors.insert(0, repeated);
            } else {
                factors.push(repeated);
            }
        }
        Ok(Some(result))
    }

    fn split(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let x = operand(node, 0)?;
        let axis = axis_of(int(node, "axis", 0), self.shape_of(x).len());
        let mut found = self.lowered(x)?;
        let mut start = 0;
        let outputs: Vec<ValueId> = node.gives().collect();
        if outputs.len() != node.outputs.len() {
            return unsupported("one of its outputs is left out");
        }
        let slices = |layout: &Strided| {
            let mut start = 0;
            outputs.iter().all(|&value| {
                let length = self.shape_of(value)[axis];
                let taken = layout.sliced(axis, start, 1, length).is_some();
                start += length;
                taken
            })
        };
        if !slices(&found.layout) {
            found = self.materialised(x)?;
        }
        for value in outputs {
            let length = self.shape_of(value)[axis];
            let layout = found.layout.sliced(axis, start, 1, length);
            let layout = layout.ok_or(Stop::Unsupported("its parts do not lie in steps"))?;
            let form = found.form;
            self.values.insert(value, Lowered { form, layout });
            start += length;
        }
        Ok(())
    }

    // ------------------------------------------------------------ several tensors

    fn concat(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let value = result(node)?;
        let shape = self.shape_of(value);
        let axis = axis_of(int(node, "axis", 0), shape.len());
        let inputs: Vec<ValueId> = node
            .reads()
            .filter(|&v| self.shape_of(v)[axis] > 0)
            .collect();
        if inputs.len() > CONCAT_MAX {
            return unsupported("it joins too many tensors");
        }
        let (kind, scale, zero) = self.common(value, &inputs)?;
        let mut reads = Vec::new();
        for &input in &inputs {
            reads.push(self.read_as(input, kind, i64::MAX, Some((scale, zero)))?);
        }
        let name = node.name.clone();
        if let Some((tensor, layout)) = self.join_channels(&reads, axis, scale, &name) {
            self.give(value, tensor, layout, scale, zero);
            return Ok(());
        }
        let rank = shape.len();
        let groups = [(0..axis).collect(), vec![axis], (axis + 1..rank).collect()];
        let mut tensors = Vec::new();
        for read in &reads {
            tensors.push(self.arranged(read, &groups, &name)?);
        }
        let size = |axes: &[usize]| narrow(axes.iter().map(|&axis| shape[axis]).product());
        let whole = Shape::new(size(&groups[0])?, size(&groups[1])?, size(&groups[2])?);
        let op = Op::Concat(op::Concat {
            inputs: tensors,
            axis: Axis::Columns,
        });
        let tensor = self.builder.push(&name, op, whole, scale, None);
        self.give(value, tensor, Strided::contiguous(shape), scale, zero);
        Ok(())
    }

    /// Joined along channels where they lie, if all lie alike.
    fn join_channels(
        &mut self,
        reads: &[Read],
        axis: usize,
        scale: f64,
        name: &str,
    ) -> Option<(TensorId, Strided)> {
        let whole: usize = reads.iter().map(|read| read.layout.sizes()[axis]).sum();
        let layout_of = |read: &Read| {
            let size = read.layout.sizes()[axis];
            let shape = self.builder.shape(read.tensor);
            let innermost = read.layout.axes[axis] == normal(vec![Factor { size, stride: 1 }]);
            let dense = read.layout.is_dense(shape.elements());
            let taken = innermost && dense && shape.channels as usize == size && size > 1;
            taken.then(|| rechannelled(&read.layout, axis, size, whole))
        };
        let first = layout_of(reads.first()?)?;
        let pixels = |read: &Read| self.builder.shape(read.tensor).with_axis(Axis::Channels, 1);
        let alike = reads.iter().all(|read| {
            pixels(read) == pixels(&reads[0]) && layout_of(read).as_ref() == Some(&first)
        });
        if !alike {
            return None;
        }
        let shape = pixels(&reads[0]).with_axis(Axis::Channels, u32::try_from(whole).ok()?);
        let op = Op::Concat(op::Concat {
            inputs: reads.iter().map(|read| read.tensor).collect(),
            axis: Axis::Channels,
        });
        Some((self.builder.push(name, op, shape, scale, None), first))
    }

    /// Type, unit and zero point in which several values become one.
    pub(crate) fn common(
        &mut self,
        value: ValueId,
        inputs: &[ValueId],
    ) -> Step<(ElementType, f64, i64)> {
        let mut same = None;
        for &input in inputs {
            let raw = match self.raw(input) {
                Ok(raw) => (self.builder.kind(raw.tensor), raw.scale, raw.zero),
                Err(_) => (ElementType::I32, 0.0, 0),
            };
            if raw.0 == ElementType::I32 || same.is_some_and(|found| found != raw) {
                same = None;
                break;
            }
            same = Some(raw);
        }
        if let Some(found) = same {
            return Ok(found);
        }
        let kind = self.bits(Reader::Other);
        let truth = self.prepared.facts[&value].dtype == tg_float::DType::Bool;
        if truth {
            return Ok((ElementType::I8, 1.0, 0));
        }
        let reach = inputs
            .iter()
            .chain([&value])
            .filter_map(|value| self.statistics.get(value))
            .map(|found| match kind {
                ElementType::I8 => found.reach(self.options.reach),
                _ => found.greatest_magnitude(),
            })
            .fold(0f32, f32::max);
        let units = if kind == ElementType::I8 {
            127.0
        } else {
            30_000.0
        };
        let whole = |value: &ValueId| self.whole.contains(value);
        if inputs.iter().chain([&value]).all(whole) && reach <= 30_000.0 {
            // Whole numbers stay what they are.
            let kind = if reach <= 127.0 {
                kind
            } else {
                ElementType::I16
            };
            return Ok((kind, 1.0, 0));
        }
        Ok((kind, f64::from(super::form::unit(reach, units)), 0))
    }

    // ------------------------------------------------------------ gather

    fn gather(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (data, indices, value) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let shape = self.shape_of(data);
        let axis = axis_of(int(node, "axis", 0), shape.len());
        if !self.is_constant(indices) {
            return if self.weights(data).is_some() && axis == 0 {
                self.embed(index, data, indices, value)
            } else {
                unsupported("it picks by data from a tensor that is not constant")
            };
        }
        let tensor = &self.prepared.graph.constants[&indices];
        let list = tg_float::convert::to_i64(tensor.data());
        let list = list.ok_or(Stop::Unsupported("its indices are not integers"))?;
        let size = shape[axis] as i64;
        let list: Vec<i64> = list
            .iter()
            .map(|&i| if i < 0 { i + size } else { i })
            .collect();
        let step = if list.len() > 1 { list[1] - list[0] } else { 1 };
        let even = list.windows(2).all(|pair| pair[1] - pair[0] == step) && step != 0;
        if even {
            let mut found = self.lowered(data)?;
            let slice = |layout: &Strided| layout.sliced(axis, list[0] as usize, step, list.len());
            if slice(&found.layout).is_none() {
                found = self.materialised(data)?;
            }
            let layout =
                slice(&found.layout).and_then(|layout| layout.reshaped(self.shape_of(value)));
            if let Some(layout) = layout {
                self.values.insert(value, Lowered { layout, ..found });
                return Ok(());
            }
        }
        let read = self
            .raw(data)
            .or_else(|_| self.read(data, Reader::Other, i64::MAX))?;
        let rank = shape.len();
        let groups = [(0..axis).collect(), vec![axis], (axis + 1..rank).collect()];
        let name = node.name.clone();
        let source = self.arranged(&read, &groups, &name)?;
        let picked: Result<Vec<u32>, _> = list.iter().map(|&i| u32::try_from(i)).collect();
        let op = Op::Gather(op::Gather {
            input: source,
            axis: Axis::Columns,
            indices: picked.map_err(|_| Stop::Unsupported("an index is out of range"))?,
        });
        let shape = self
            .builder
            .shape(source)
            .with_axis(Axis::Columns, narrow(list.len())?);
        let tensor = self.builder.push(&name, op, shape, read.scale, None);
        let layout = Strided::contiguous(self.shape_of(value));
        self.give(value, tensor, layout, read.scale, read.zero);
        Ok(())
    }

    /// Places in a table of so many rows, one pixel each.
    fn places(&mut self, indices: ValueId, rows: usize, name: &str) -> Step<TensorId> {
        let read = match self.raw(indices) {
            Ok(read) if (read.scale - 1.0).abs() < 1e-9 && read.zero == 0 => read,
            _ => self.read_as(indices, ElementType::I16, i64::MAX, Some((1.0, 0)))?,
        };
        let read = self.within_table(read, rows, name)?;
        let rank = self.shape_of(indices).len();
        self.arranged(&read, &[(0..rank).collect(), Vec::new(), Vec::new()], name)
    }

    /// Computed places as rows of a table: those below 0 count from its end, and none lies beyond it.
    fn within_table(&mut self, read: Read, rows: usize, name: &str) -> Step<Read> {
        const BEYOND: Stop = Stop::Unsupported("its table has too many rows for computed places");
        let [low, high] = self.builder.reach(read.tensor)?;
        let last = i16::try_from(rows.saturating_sub(1)).ok();
        // Who verifies does not know weights: only of these is it sure what they give.
        let inside = |value: i16| value >= 0 && (value as usize) < rows;
        let sure = match self.builder.op(read.tensor) {
            Some(Op::Requantise(op::Unary { how, .. })) => match &how.table {
                Some(table) => table.iter().all(|&value| inside(value)),
                None => how.clamp.into_iter().all(inside),
            },
            Some(Op::ArgMax(_) | Op::TopK(_)) => low >= 0 && (high as usize) < rows,
            _ => false,
        };
        if read.tensor == TensorId::INPUT || sure {
            return Ok(read);
        }
        let last = last.ok_or(BEYOND)?;
        let (clamp, table) = if low >= 0 {
            ([0, last], None)
        } else {
            let wrapped = (-last - 1..=last).map(|at| if at < 0 { at + last + 1 } else { at });
            let wrapped: Vec<i16> = wrapped.collect();
            if wrapped.len() > TABLE_MAX {
                return Err(BEYOND);
            }
            ([-last - 1, last], Some(wrapped))
        };
        let how = Requantise {
            pairs: vec![Rescale::new(4, 2).ok_or(Stop::Unsupported("no identity rescale"))?],
            channel_pairs: vec![0],
            zero: 0,
            range: [low, high],
            clamp,
            table,
            output: ElementType::I16,
        };
        let shape = self.builder.shape(read.tensor);
        let op = Op::Requantise(op::Unary {
            input: read.tensor,
            how,
        });
        let tensor = self
            .builder
            .push(&format!("{name}.places"), op, shape, 1.0, None);
        Ok(Read { tensor, ..read })
    }

    /// Rows of a constant table.
    fn embed(
        &mut self,
        index: usize,
        table: ValueId,
        indices: ValueId,
        value: ValueId,
    ) -> Step<()> {
        let weights = self
            .weights(table)
            .ok_or(Stop::Unsupported("its table is not of numbers"))?;
        let scale = weights.scales.map_or(1.0, |(scales, _)| scales[0]);
        let values: Vec<f64> = weights.values.iter().map(|v| v * scale).collect();
        let channels: usize = weights.shape[1..].iter().product();
        let name = self.node(index).name.clone();
        let positions = self.places(indices, weights.shape[0], &name)?;
        let op = Op::Embed(op::Embed {
            input: positions,
            rows: narrow(weights.shape[0])?,
        });
        let shape = self
            .builder
            .shape(positions)
            .with_axis(Axis::Channels, narrow(channels)?);
        let greatest = values
            .iter()
            .fold(0f64, |best, v| best.max(v.abs()))
            .max(1e-30);
        let layout = Strided::contiguous(self.shape_of(value));
        let push = |this: &mut Self, weights: Vec<i8>, scale: f64| {
            let layer = LinearWeights {
                weights,
                bias: Vec::new(),
            };
            let tensor = this
                .builder
                .push(&name, op.clone(), shape, scale, Some(layer));
            this.known.push(super::weights::KnownWeights {
                tensor,
                unit: scale,
                channels: None,
            });
            tensor
        };
        let whole = values.iter().all(|value| value.fract() == 0.0);
        let exact = |most: f64| whole && greatest <= most;
        let narrow_enough = !whole || greatest <= 127.0;
        if self.bits(Reader::Other) == ElementType::I8 && narrow_enough {
            let scale = if exact(127.0) { 1.0 } else { greatest / 127.0 };
            let rounded = values
                .iter()
                .map(|v| super::weights::round_i8(v / scale))
                .collect();
            let tensor = push(self, rounded, scale);
            self.give(value, tensor, layout, scale, 0);
            return Ok(());
        }
        let most = f64::from(super::weights::WIDE);
        let scale = if exact(most) { 1.0 } else { greatest / most };
        let (high, low) = values
            .iter()
            .map(|v| super::weights::digits(v / scale))
            .unzip();
        let high = push(self, high, scale * 256.0);
        let low = push(self, low, scale);
        let tensor = self.joined(&name, high, low, scale);
        let form = Form {
            value,
            tensor,
            scale,
            zero: 0,
            channels: None,
            function: None,
        };
        self.give_form(value, layout, form);
        Ok(())
    }

    // ------------------------------------------------------------ pad

    fn pad(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        let graph = &self.prepared.graph;
        let constant = match node.attributes.get("mode") {
            Some(Attribute::Text(text)) => text == b"constant",
            _ => true,
        };
        let pads =
            ints(graph, node, "pads", 1).filter(|_| constant && node.inputs.get(3).is_none());
        let Some(pads) = pads else {
            return unsupported("only a constant border of constant width is taken");
        };
        let fill = match node.inputs.get(2).copied().flatten() {
            None => f64::from(float(node, "value", 0.0)),
            some => {
                scalar_of(graph, some).ok_or(Stop::Unsupported("its border is not constant"))?
            }
        };
        let shape = self.shape_of(value).to_vec();
        let rank = shape.len();
        let read = self.read(x, Reader::Other, i64::MAX)?;
        let groups = if rank == 4 && pads[0] == 0 && pads[4] == 0 {
            [vec![0, 2], vec![3], vec![1]]
        } else {
            let padded: Vec<usize> = (0..rank)
                .filter(|&a| pads[a] != 0 || pads[rank + a] != 0)
                .collect();
            let [axis] = padded.as_slice() else {
                return unsupported("it pads several axes of a value that is not an image");
            };
            [
                (0..*axis).collect(),
                vec![*axis],
                (*axis + 1..rank).collect(),
            ]
        };
        let name = node.name.clone();
        let source = self.arranged(&read, &groups, &name)?;
        let side = |from: usize| -> Step<[u32; 3]> {
            let mut sides = [0; 3];
            for (side, axes) in sides.iter_mut().zip(&groups) {
                let total: i64 = axes.iter().map(|&axis| pads[from + axis]).sum();
                *side = u32::try_from(total).map_err(|_| Stop::Unsupported("it cuts"))?;
            }
            Ok(sides)
        };
        let units = (fill / read.scale).round() as i64 + read.zero;
        let (before, after) = (side(0)?, side(rank)?);
        let top = if self.builder.kind(source) == ElementType::I8 {
            127
        } else {
            32_767
        };
        let op = Op::Pad(op::Pad {
            input: source,
            before,
            after,
            value: i16::try_from(units.clamp(-top, top)).unwrap_or(0),
        });
        let own = self.builder.shape(source);
        let padded = Shape::new(
            own.height + before[0] + after[0],
            own.width + before[1] + after[1],
            own.channels + before[2] + after[2],
        );
        let tensor = self.builder.push(&name, op, padded, read.scale, None);
        let layout = grouped_layout(&shape, &groups);
        self.give(value, tensor, layout, read.scale, read.zero);
        Ok(())
    }

    /// A constant of one number.
    pub(crate) fn scalar(&self, value: ValueId) -> Option<f64> {
        let (_, values) = floats_of(&self.prepared.graph, Some(value))?;
        (values.len() == 1).then(|| f64::from(values[0]))
    }
}

/// Blocks of channels as pixels and back.
fn between_depth_and_space(
    node: &Node,
    layout: &Strided,
    shape: &[usize],
) -> Step<Option<Strided>> {
    let block = usize::try_from(int(node, "blocksize", 1)).unwrap_or(1);
    let sizes = layout.sizes();
    let crd = matches!(node.attributes.get("mode"), Some(Attribute::Text(t)) if t == b"CRD");
    let [batch, channels, rows, columns] = *sizes.as_slice() else {
        return unsupported("it does not read an image");
    };
    let (apart, order): (Vec<usize>, [usize; 6]) = if node.op == "DepthToSpace" {
        let fewer = channels / (block * block);
        if crd {
            (
                vec![batch, fewer, block, block, rows, columns],
                [0, 1, 4, 2, 5, 3],
            )
        } else {
            (
                vec![batch, block, block, fewer, rows, columns],
                [0, 3, 4, 1, 5, 2],
            )
        }
    } else {
        let apart = vec![batch, channels, rows / block, block, columns / block, block];
        let order = if crd {
            [0, 1, 3, 5, 2, 4]
        } else {
            [0, 3, 5, 1, 2, 4]
        };
        (apart, order)
    };
    Ok(layout
        .reshaped(&apart)
        .map(|apart| apart.transposed(&order))
        .and_then(|moved| moved.reshaped(shape)))
}
