//! Operators element by element: functions of one value, and of several.

use super::form::Read;
use super::lowering::{Lowering, Reader, Step, Stop, operand, result, unsupported};
use super::lowering::{SLACK, limit};
use super::strided::axis_of;
use super::strided::{Strided, default_groups, grouped_layout};
use super::weights::WEIGHT_MAX;
use tg_float::{Node, ValueId, convert};
use tg_ir::op::{self, Extreme, Relation, TERMS_MAX};
use tg_ir::{ElementType, FIELD_BOUND, Op, TensorId};

/// Operators that a table can hold: each element of the result follows from one element of each input.
const ELEMENTWISE: [&str; 59] = [
    "Relu",
    "LeakyRelu",
    "PRelu",
    "Elu",
    "Selu",
    "Celu",
    "ThresholdedRelu",
    "Shrink",
    "Sigmoid",
    "HardSigmoid",
    "HardSwish",
    "Tanh",
    "Softplus",
    "Softsign",
    "Mish",
    "Gelu",
    "Swish",
    "Erf",
    "Exp",
    "Log",
    "Sqrt",
    "Reciprocal",
    "Abs",
    "Neg",
    "Sign",
    "Floor",
    "Ceil",
    "Round",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Clip",
    "Not",
    "Cast",
    "Pow",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Min",
    "Max",
    "Equal",
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
    "And",
    "Or",
    "Xor",
    "Where",
    "Mod",
];

/// The larger multiplier of a sum of 8-bit activations.
const ADD_MULTIPLIER: f64 = 16_384.0;
/// A multiplier below this is too coarse where it is rounded.
const FEW: f64 = 64.0;
/// Two activations up to this multiply within the field.
const PRODUCT_LIMIT: i64 = 32_000;

impl Lowering<'_> {
    /// Takes a node into the region of the one value it is a function of; whether it is one.
    pub(crate) fn join_region(&mut self, index: usize) -> bool {
        let node = self.node(index);
        let gelu = node.domain == "com.microsoft"
            && ["Gelu", "FastGelu", "QuickGelu", "BiasGelu"].contains(&node.op.as_str());
        let known = node.domain.is_empty() && ELEMENTWISE.contains(&node.op.as_str());
        if !(known || gelu) || node.outputs.len() != 1 {
            return false;
        }
        let Ok(value) = result(node) else {
            return false;
        };
        if node.op == "Cast" && !self.rounds(node, value) {
            return false;
        }
        let constants = &self.prepared.graph.constants;
        let mut root = None;
        let mut steps: Vec<usize> = Vec::new();
        for input in node.reads() {
            if let Some(constant) = constants.get(&input) {
                if constant.len() != 1 || convert::to_f64(constant.data()).is_none() {
                    return false;
                }
                continue;
            }
            let (own, before) = match self.regions.get(&input) {
                Some((own, before)) => (*own, before.clone()),
                None => (input, Vec::new()),
            };
            if root.is_some_and(|found| found != own) {
                return false;
            }
            root = Some(own);
            steps.extend(before);
        }
        let Some(root) = root else {
            return false;
        };
        if self.shape_of(root) != self.shape_of(value) {
            return false;
        }
        steps.push(index);
        steps.sort_unstable();
        steps.dedup();
        self.regions.insert(value, (root, steps));
        true
    }

    /// Whether a cast changes elements that are within the range of its target.
    fn rounds(&self, node: &Node, value: ValueId) -> bool {
        let from = operand(node, 0).map(|x| self.prepared.facts[&x].dtype);
        let to = self.prepared.facts[&value].dtype;
        let Ok(from) = from else {
            return true;
        };
        let keeps = from.is_integer() && (to.is_integer() || to.is_float());
        let truth = from == tg_float::DType::Bool && to != from;
        !(keeps || truth || from.is_float() && to.is_float())
    }

    /// Readings of several values in one order: the first that fills its tensor says which.
    pub(crate) fn together(
        &mut self,
        index: usize,
        reads: Vec<Read>,
        shape: &[usize],
    ) -> Step<(Vec<TensorId>, Strided)> {
        let name = self.node(index).name.clone();
        let mut expanded = Vec::new();
        for read in reads {
            let layout = read.layout.expanded(shape);
            let layout = layout.ok_or(Stop::Unsupported("its inputs do not broadcast"))?;
            expanded.push(Read { layout, ..read });
        }
        let dense = |read: &&Read| {
            read.layout
                .is_dense(self.builder.shape(read.tensor).elements())
        };
        let like = match expanded.iter().find(dense) {
            Some(found) => found.clone(),
            None => {
                let groups = default_groups(shape);
                let tensor = self.arranged(&expanded[0], &groups, &name)?;
                let layout = grouped_layout(shape, &groups);
                expanded[0] = Read {
                    tensor,
                    layout,
                    ..expanded[0].clone()
                };
                expanded[0].clone()
            }
        };
        let mut tensors = Vec::new();
        for read in &expanded {
            tensors.push(self.aligned(read, &like, &name)?);
        }
        Ok((tensors, like.layout))
    }

    // ------------------------------------------------------------ sums

    pub(crate) fn sum(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let value = result(node)?;
        if self.as_mask(index)? {
            return Ok(());
        }
        let inputs: Vec<ValueId> = node.reads().collect();
        if inputs.len() > TERMS_MAX {
            return unsupported("it adds too many tensors");
        }
        let mut reads = Vec::new();
        for &input in &inputs {
            reads.push(self.summand(input, value)?);
        }
        let shape = self.shape_of(value);
        let scale = self.unit_of_sum(&reads);
        for (read, &input) in reads.iter_mut().zip(&inputs) {
            if read.scale < scale {
                // Units far below those of the sum: no whole number of the sum's is one, so the term gets the sum's.
                *read = self.in_units(input, read, scale)?;
            }
        }
        let scales: Vec<f64> = reads.iter().map(|read| read.scale).collect();
        let zeros: Vec<i64> = reads.iter().map(|read| read.zero).collect();
        let (tensors, layout) = self.together(index, reads, shape)?;
        let subtracts = node.op == "Sub";
        let mut multipliers = Vec::new();
        for (position, own) in scales.iter().enumerate() {
            let multiplier = (own / scale).round().max(1.0) as i32;
            multipliers.push(if subtracts && position > 0 {
                -multiplier
            } else {
                multiplier
            });
        }
        let bias: i64 = zeros
            .iter()
            .zip(&multipliers)
            .map(|(z, &m)| -z * i64::from(m))
            .sum();
        let op = Op::Add(op::Add {
            inputs: tensors.clone(),
            multipliers,
            bias: i32::try_from(bias).map_err(|_| Stop::Unsupported("its zero points"))?,
        });
        let shape = self.builder.shape(tensors[0]);
        let name = node.name.clone();
        let tensor = self.builder.push(&name, op, shape, scale, None);
        self.give_sums(value, tensor, layout, scale);
        Ok(())
    }

    /// The unit of a sum of these.
    fn unit_of_sum(&self, reads: &[Read]) -> f64 {
        let scales = || reads.iter().map(|read| read.scale);
        let largest = scales().fold(0f64, f64::max);
        // The largest power of two for which the sum stays far within the field.
        let weight: f64 = reads
            .iter()
            .map(|read| self.builder.magnitude(read.tensor) as f64 * read.scale / largest)
            .sum();
        let room = (FIELD_BOUND - SLACK) as f64 / 4.0 / weight.max(1.0);
        let most = room.log2().floor().exp2().clamp(1.0, ADD_MULTIPLIER);
        let scale = largest / most;
        let smallest = scales().fold(f64::INFINITY, f64::min);
        if smallest >= scale && smallest < scale * FEW {
            // Few units of the finest term: as many as fit, and no part of one.
            return smallest / (smallest / scale).floor();
        }
        scale
    }

    /// A term of a sum. A mask far below everything is let reach only as far as it must.
    fn summand(&mut self, input: ValueId, sum: ValueId) -> Step<Read> {
        let least = match self.statistics.get(&input) {
            Some(found) => found.least,
            None => self.least_constant(input),
        };
        let mask = least < MASKED && self.feeds_softmax(sum);
        if !mask {
            return self.read(input, Reader::Other, 32_767);
        }
        let node = self.producers[sum.index()].map(|index| self.node(index));
        let others = node
            .into_iter()
            .flat_map(Node::reads)
            .filter(|&other| other != input);
        let reach = others
            .filter_map(|other| self.statistics.get(&other))
            .fold(0f32, |best, found| best.max(found.greatest_magnitude()));
        let scale = f64::from(3.0 * reach + 24.0) / 127.0;
        self.read_as(input, ElementType::I8, 128, Some((scale, 0)))
    }

    fn least_constant(&self, value: ValueId) -> f32 {
        let constants = &self.prepared.graph.constants;
        let values = constants
            .get(&value)
            .and_then(|tensor| convert::to_f32(tensor.data()));
        values.map_or(0.0, |values| values.into_iter().fold(0.0, f32::min))
    }

    // ------------------------------------------------------------ products

    pub(crate) fn product(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (a, b, value) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let name = node.name.clone();
        for (x, constant) in [(a, b), (b, a)] {
            if let Some((axis, gain)) = self.along_one_axis(constant, value)
                && self.shape_of(x) == self.shape_of(value)
                && !self.is_constant(x)
            {
                let read = self.read_centred(x, Reader::Other, limit(1))?;
                let offset = vec![0.0; gain.len()];
                return self.channel_affine(value, &read, axis, &gain, &offset, &name);
            }
        }
        let left = self.read_centred(a, Reader::Other, PRODUCT_LIMIT)?;
        let right = self.read_centred(b, Reader::Other, PRODUCT_LIMIT)?;
        let scale = left.scale * right.scale;
        let shape = self.shape_of(value);
        let (tensors, layout) = self.together(index, vec![left, right], shape)?;
        let shape = self.builder.shape(tensors[0]);
        let op = Op::Mul(op::Mul {
            inputs: [tensors[0], tensors[1]],
        });
        let tensor = self.builder.push(&name, op, shape, scale, None);
        self.give_sums(value, tensor, layout, scale);
        Ok(())
    }

    /// A constant that differs along one axis of a result: the axis and its values.
    fn along_one_axis(&self, constant: ValueId, value: ValueId) -> Option<(usize, Vec<f64>)> {
        let found = self
            .weights(constant)
            .filter(|_| self.is_constant(constant))?;
        let result = self.shape_of(value);
        let missing = result.len().checked_sub(found.shape.len())?;
        let longer: Vec<usize> = (0..found.shape.len())
            .filter(|&a| found.shape[a] > 1)
            .collect();
        let [axis] = longer.as_slice() else {
            return None;
        };
        (found.shape[*axis] == result[axis + missing]).then_some((axis + missing, found.values))
    }

    /// `max(x, 0) + slope min(x, 0)` with a slope per channel.
    pub(crate) fn prelu(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, slope, value) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let Some((axis, slopes)) = self.along_one_axis(slope, value) else {
            return unsupported("its slope differs along several axes");
        };
        let read = self.read_centred(x, Reader::Other, limit(1))?;
        let name = node.name.clone();
        // y = s x + (1 - s) max(x, 0), both from one tensor: a convolution of twice the channels each.
        let (tensor, layout) = self.channels_last(&read, axis, &name)?;
        let shape = self.builder.shape(tensor);
        let [low, high] = if self.builder.kind(tensor) == ElementType::I8 {
            [-128, 127]
        } else {
            [-32_767, 32_767]
        };
        let half = |this: &mut Self, clamp: [i16; 2]| -> Step<TensorId> {
            let how = tg_ir::Requantise {
                pairs: vec![tg_ir::Rescale::new(4, 2).ok_or(Stop::Unsupported("no identity"))?],
                channel_pairs: vec![0],
                zero: 0,
                range: this.builder.reach(tensor)?,
                clamp,
                table: None,
                output: this.builder.kind(tensor),
            };
            let op = Op::Requantise(op::Unary { input: tensor, how });
            Ok(this
                .builder
                .push(&format!("{name}.half"), op, shape, read.scale, None))
        };
        let (above, below) = (half(self, [0, high])?, half(self, [low, 0])?);
        let greatest = slopes.iter().fold(1e-9f64, |best, s| best.max(s.abs()));
        let unit = greatest / 127.0;
        let layer = tg_ir::LinearWeights {
            weights: slopes
                .iter()
                .map(|s| super::weights::round_i8(s / unit))
                .collect(),
            bias: vec![0; slopes.len()],
        };
        let op = Op::Conv(op::Conv {
            input: below,
            window: tg_ir::Window::new([1; 2], [1; 2], [0; 4]),
            groups: shape.channels,
            zero: 0,
        });
        let scaled = self
            .builder
            .push(&name, op, shape, read.scale * unit, Some(layer));
        let ratio = (1.0 / unit).round().clamp(1.0, 32_767.0) as i32;
        let op = Op::add([above, scaled], [ratio, 1]);
        let tensor = self.builder.push(&name, op, shape, read.scale * unit, None);
        self.give_sums(value, tensor, layout, read.scale * unit);
        Ok(())
    }

    // ------------------------------------------------------------ comparisons

    /// Two values in one unit and one order.
    fn alike(
        &mut self,
        index: usize,
        inputs: [ValueId; 2],
        shape: &[usize],
    ) -> Step<(Vec<TensorId>, Strided, f64, i64)> {
        let shared = self.common(inputs[0], &inputs)?;
        let (kind, scale, zero) = shared;
        let mut reads = Vec::new();
        for input in inputs {
            reads.push(self.read_as(input, kind, i64::MAX, Some((scale, zero)))?);
        }
        let (tensors, layout) = self.together(index, reads, shape)?;
        Ok((tensors, layout, scale, zero))
    }

    pub(crate) fn extremum(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let value = result(node)?;
        let inputs: Vec<ValueId> = node.reads().collect();
        let &[a, b] = inputs.as_slice() else {
            return unsupported("it has other than two inputs");
        };
        let which = match node.op.as_str() {
            "Max" | "Or" => Extreme::Greater,
            "Min" | "And" => Extreme::Lesser,
            _ => return unsupported("exclusive or of two computed values"),
        };
        let (tensors, layout, scale, zero) = self.alike(index, [a, b], self.shape_of(value))?;
        let op = Op::Extremum(op::Extremum {
            inputs: [tensors[0], tensors[1]],
            which,
        });
        let shape = self.builder.shape(tensors[0]);
        let name = node.name.clone();
        let tensor = self.builder.push(&name, op, shape, scale, None);
        self.give(value, tensor, layout, scale, zero);
        Ok(())
    }

    pub(crate) fn compare(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (a, b, value) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let (relation, inputs) = match node.op.as_str() {
            "Equal" => (Relation::Equal, [a, b]),
            "Greater" => (Relation::Greater, [a, b]),
            "Less" => (Relation::Greater, [b, a]),
            "GreaterOrEqual" => (Relation::GreaterOrEqual, [a, b]),
            _ => (Relation::GreaterOrEqual, [b, a]),
        };
        let (tensors, layout, ..) = self.alike(index, inputs, self.shape_of(value))?;
        let op = Op::Compare(op::Compare {
            inputs: [tensors[0], tensors[1]],
            relation,
        });
        let shape = self.builder.shape(tensors[0]);
        let name = node.name.clone();
        let tensor = self.builder.push(&name, op, shape, 1.0, None);
        self.give(value, tensor, layout, 1.0, 0);
        Ok(())
    }

    pub(crate) fn select(&mut self, index: usize) -> Step<()> {
        if self.as_mask(index)? {
            return Ok(());
        }
        let node = self.node(index);
        let (condition, value) = (operand(node, 0)?, result(node)?);
        let inputs = [operand(node, 1)?, operand(node, 2)?];
        let shape = self.shape_of(value);
        let (kind, scale, zero) = match self.masking(value, inputs) {
            Some(scale) => (ElementType::I16, scale, 0),
            None => self.common(value, &inputs)?,
        };
        let mut reads = vec![self.read_as(condition, ElementType::I8, 128, None)?];
        for input in inputs {
            reads.push(self.read_as(input, kind, i64::MAX, Some((scale, zero)))?);
        }
        let (tensors, layout) = self.together(index, reads, shape)?;
        let op = Op::Select(op::Select {
            condition: tensors[0],
            inputs: [tensors[1], tensors[2]],
        });
        let shape = self.builder.shape(tensors[0]);
        let name = node.name.clone();
        let tensor = self.builder.push(&name, op, shape, scale, None);
        self.give(value, tensor, layout, scale, zero);
        Ok(())
    }

    /// The unit of 16 bits in which a choice between scores and a constant far below them goes to a softmax: the constant is let
    /// reach only as far as it must, since in a unit that holds it whole the scores would have few digits left.
    fn masking(&self, value: ValueId, inputs: [ValueId; 2]) -> Option<f64> {
        let constants = &self.prepared.graph.constants;
        let far = |input: ValueId| {
            let values = convert::to_f32(constants.get(&input)?.data())?;
            let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let least = values.iter().copied().fold(f32::INFINITY, f32::min);
            (greatest < MASKED).then_some(-least)
        };
        let (depth, scores) = match inputs.map(far) {
            [Some(depth), None] => (depth, inputs[1]),
            [None, Some(depth)] => (depth, inputs[0]),
            _ => return None,
        };
        let reach = self.statistics.get(&scores)?.greatest_magnitude();
        let scale = f64::from(3.0 * reach + 24.0) / MASK_UNITS;
        // A constant of 8 bits is rescaled to it by a factor that there is.
        let least = f64::from(depth) / (WEIGHT_MAX * MASK_FACTOR);
        self.feeds_softmax(value).then_some(scale.max(least))
    }

    // ------------------------------------------------------------ the file's own integers

    /// Scale and zero point of a node, the zero point as a signed 8-bit one.
    fn file_unit(&self, node: &Node, value: ValueId) -> Step<(f64, i64)> {
        let scale = operand(node, 1)?;
        let Some(scale) = self.scalar(scale) else {
            return unsupported("its scale is not one constant");
        };
        let zero = match node.inputs.get(2).copied().flatten() {
            None => 0.0,
            Some(zero) => self
                .scalar(zero)
                .ok_or(Stop::Unsupported("its zero point is not one constant"))?,
        };
        let shift = match self.prepared.facts[&value].dtype {
            tg_float::DType::U8 => 128,
            tg_float::DType::I8 => 0,
            _ => return unsupported("only 8-bit integers are taken"),
        };
        Ok((scale, zero as i64 - shift))
    }

    pub(crate) fn quantise(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        let (scale, zero) = self.file_unit(node, value)?;
        let read = self.read_as(x, ElementType::I8, 128, Some((scale, zero)))?;
        self.give(value, read.tensor, read.layout, scale, zero);
        Ok(())
    }

    pub(crate) fn dequantise(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        if self.is_constant(x) {
            // Read where it is used: as weights, or as a parameter.
            return Ok(());
        }
        let (scale, zero) = self.file_unit(node, x)?;
        let found = self.raw(x)?;
        let same = (found.scale / scale - 1.0).abs() < 1e-6 && found.zero == zero;
        let integers = found.scale == 1.0;
        if !(same || integers) {
            return unsupported("its scale is not that of the integers it reads");
        }
        self.give(value, found.tensor, found.layout, scale, zero);
        Ok(())
    }

    /// Whether a softmax alone reads a value, along its last axis.
    pub(crate) fn feeds_softmax(&self, value: ValueId) -> bool {
        let graph = &self.prepared.graph;
        let mut readers = graph
            .nodes
            .iter()
            .filter(|node| node.reads().any(|v| v == value));
        let last = |node: &Node| {
            let rank = self.shape_of(value).len();
            node.is("Softmax") && axis_of(crate::passes::int(node, "axis", -1), rank) + 1 == rank
        };
        self.uses[value.index()] == 1 && readers.next().is_some_and(last)
    }
}

/// How many units the reach of masked scores has.
const MASK_UNITS: f64 = 30_000.0;
/// A factor that a rescale reaches.
const MASK_FACTOR: f64 = 8_000.0;
/// What is below this before a softmax is masked.
pub(crate) const MASKED: f32 = -500.0;
