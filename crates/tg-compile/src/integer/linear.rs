//! Products with weights: convolutions, Gemm, and products of matrices with a constant one.

use super::form::{Form, Read};
use super::lowering::{
    ChannelScales, Lowering, Precision, Reader, Step, Stop, limit, list, narrow, operand, result,
    unsupported,
};
use super::strided::{Factor, Strided, grouped_layout, rechannelled};
use super::weights::{Granularity, KnownWeights, Layer};
use crate::passes::int;
use tg_float::{Node, ValueId};
use tg_ir::op;
use tg_ir::weights::BIAS_MAX;
use tg_ir::{ElementType, Op, Shape, TensorId, Window};

/// Halvings of a layer's scale for channels of smaller weights: few pairs, small segment tables.
const SHIFTS_MAX: i32 = 3;
/// The same where activations have 16 bits: a pair each.
const WIDE_SHIFTS_MAX: i32 = 15;
/// Weights that so many products read are one tensor of parameters.
const SHARED_MIN: usize = 3;

impl Lowering<'_> {
    fn granularity(&self, index: usize) -> Granularity {
        if self.raw_outputs.contains(&index) {
            return Granularity::PerTensor;
        }
        let narrow = self.bits(Reader::Other) == ElementType::I8
            || self.options.precision == Precision::Mixed && self.multiplied_alone(index);
        match (self.options.scales, narrow) {
            // A clamp to 16 bits takes a power of two.
            (_, false) => Granularity::Shifts(WIDE_SHIFTS_MAX),
            (ChannelScales::Shifts, true) => Granularity::Shifts(SHIFTS_MAX),
            (ChannelScales::Clusters, true) => Granularity::Clusters,
        }
    }

    /// Of a factor per channel: its reader is not known yet.
    fn gain_granularity(&self) -> Granularity {
        if self.bits(Reader::Other) == ElementType::I8 {
            Granularity::Shifts(SHIFTS_MAX)
        } else {
            Granularity::Shifts(WIDE_SHIFTS_MAX)
        }
    }

    /// Whether only products read what a node gives, so that it becomes 8 bits with mixed precision.
    fn multiplied_alone(&self, index: usize) -> bool {
        let graph = &self.prepared.graph;
        let mut values: Vec<ValueId> = self.node(index).gives().collect();
        let mut seen = 0;
        while let Some(&value) = values.get(seen) {
            seen += 1;
            if graph.outputs.contains(&value) {
                return false;
            }
            for node in graph.nodes.iter().filter(|n| n.reads().any(|v| v == value)) {
                match node.op.as_str() {
                    "Conv" | "ConvTranspose" | "Gemm" | "MatMul" | "Einsum" => {}
                    "Relu" | "Clip" | "LeakyRelu" | "Sigmoid" | "Tanh" | "Gelu" | "Erf"
                    | "HardSigmoid" | "HardSwish" | "Reshape" | "Transpose" | "Flatten"
                    | "Squeeze" | "Unsqueeze" | "Identity" => values.extend(node.gives()),
                    _ => return false,
                }
            }
        }
        true
    }

    /// Accumulators of a layer, of activations of a scale, as the form of a value.
    fn accumulate(
        &mut self,
        index: usize,
        value: ValueId,
        (op, shape): (Op, Shape),
        (layer, input_scale): (Layer, f64),
        layout: Strided,
    ) {
        let Layer {
            weights,
            scale,
            channels,
        } = layer;
        let name = self.node(index).name.clone();
        let tensor = self.builder.push(&name, op, shape, scale, Some(weights));
        let granularity = self.granularity(index);
        self.known.push(KnownWeights {
            tensor,
            unit: scale / input_scale,
            channels: channels.clone().map(|factors| (factors, granularity)),
        });
        let form = Form {
            value,
            tensor,
            scale,
            zero: 0,
            channels,
            function: None,
        };
        self.give_form(value, layout, form);
    }

    // ------------------------------------------------------------ convolutions

    pub(crate) fn convolution(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        let Some(weights) = self.weights(operand(node, 1)?) else {
            return unsupported("its weights are not constant");
        };
        let (input, output) = (self.shape_of(x), self.shape_of(value));
        let rank = input.len();
        if !(3..=4).contains(&rank) || input[0] != 1 {
            return unsupported("only one input of one or two spatial axes is taken");
        }
        let transposed = node.op == "ConvTranspose";
        let groups = usize::try_from(int(node, "group", 1)).unwrap_or(1).max(1);
        let window = window_of(
            node,
            &weights.shape[2..],
            &input[2..],
            &output[2..],
            transposed,
        )?;
        let (channels, outputs) = (input[1], output[1]);
        let positions = window.positions();
        let per_group = channels / groups;
        let limit = limit(positions * per_group);
        let read = self.read(x, Reader::Product, limit)?;
        let axes: [&[usize]; 3] = if rank == 4 {
            [&[0, 2], &[3], &[1]]
        } else {
            [&[0, 2], &[], &[1]]
        };
        let name = node.name.clone();
        let tensor = self.arranged(&read, &axes.map(<[usize]>::to_vec), &name)?;
        let order = KernelOrder {
            positions,
            inputs: per_group,
            outputs: outputs / groups,
            transposed,
        };
        let (stored, axis) = (order.stored(&weights.values), usize::from(transposed));
        let scales = match &weights.scales {
            Some((scales, own))
                if scales.len() == 1 || *own == axis && groups == 1 || *own == 0 && !transposed =>
            {
                Some(scales.as_slice())
            }
            Some(_) => return unsupported("its weights have scales along another axis"),
            None => None,
        };
        let mut bias = self.bias(node.inputs.get(2).copied().flatten(), outputs)?;
        self.correct_bias(
            index,
            x,
            &stored,
            scales,
            &mut bias,
            (read.scale, positions, groups),
        );
        let mut layer = self.layer(&stored, scales, &bias, read.scale, self.granularity(index));
        shift_bias(&mut layer, read.zero);
        let op = Op::Conv(op::Conv {
            input: tensor,
            window,
            groups: narrow(groups)?,
            zero: i16::try_from(read.zero).map_err(|_| Stop::Unsupported("its zero point"))?,
        });
        let side = window.output(self.builder.shape(tensor));
        let [height, width] = side.ok_or(Stop::Unsupported("its window does not fit"))?;
        let shape = Shape::new(height, width, narrow(outputs)?);
        let layout = grouped_layout(output, &axes.map(<[usize]>::to_vec));
        self.accumulate(index, value, (op, shape), (layer, read.scale), layout);
        Ok(())
    }

    /// Adds to the bias what rounding the weights takes away on average.
    fn correct_bias(
        &self,
        index: usize,
        x: ValueId,
        stored: &[f64],
        scales: Option<&[f64]>,
        bias: &mut [f64],
        (input_scale, positions, groups): (f64, usize, usize),
    ) {
        let means = self
            .statistics
            .get(&x)
            .map(crate::calibrate::Statistics::means);
        let Some(means) = means.filter(|means| !means.is_empty() && scales.is_none()) else {
            return;
        };
        let row = stored.len() / bias.len();
        let inputs = row / positions;
        if means.len() != inputs * groups {
            return;
        }
        let layer = self.layer(stored, None, bias, input_scale, self.granularity(index));
        let outputs = bias.len() / groups;
        for (channel, bias) in bias.iter_mut().enumerate() {
            let factor = layer
                .channels
                .as_ref()
                .map_or(1.0, |factors| factors[channel]);
            let unit = layer.scale / input_scale * factor;
            let first = channel / outputs * inputs;
            let lost: f64 = (0..row)
                .map(|k| {
                    let at = channel * row + k;
                    let rounded = f64::from(layer.weights.weights[at]) * unit;
                    (stored[at] - rounded) * means[first + k % inputs]
                })
                .sum();
            *bias += lost;
        }
    }

    // ------------------------------------------------------------ matrices

    pub(crate) fn gemm(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        if int(node, "transA", 0) != 0 {
            return unsupported("its first matrix is transposed");
        }
        let factor = |name: &str| match node.attributes.get(name) {
            Some(tg_float::Attribute::Float(value)) => f64::from(*value),
            _ => 1.0,
        };
        let Some(mut weights) = self.weights(operand(node, 1)?) else {
            return unsupported("its weights are not constant");
        };
        let transposed = int(node, "transB", 0) != 0;
        let alpha = factor("alpha");
        if alpha != 1.0 {
            let own = weights.scales.take().map_or(1.0, |(scales, _)| scales[0]);
            weights.values.iter_mut().for_each(|w| *w *= alpha * own);
        }
        let outputs = weights.shape[usize::from(!transposed)];
        let mut bias = self.bias(node.inputs.get(2).copied().flatten(), outputs)?;
        bias.iter_mut().for_each(|b| *b *= factor("beta"));
        self.matrix(index, x, value, &weights, transposed, &bias)
    }

    pub(crate) fn matmul(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, w, value) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let shared = self.uses[w.index()] >= SHARED_MIN && self.is_constant(w);
        let weights = self
            .weights(w)
            .filter(|weights| weights.shape.len() == 2 && !shared);
        let Some(weights) = weights.filter(|_| !self.is_constant(x)) else {
            return self.matrices(index);
        };
        let outputs = weights.shape[1];
        match self.following_bias(value, outputs) {
            Some((sum, bias, value)) => {
                self.absorbed.insert(sum);
                self.matrix(index, x, value, &weights, false, &bias)
            }
            None => self.matrix(index, x, value, &weights, false, &vec![0.0; outputs]),
        }
    }

    /// The sum with a constant per output that alone reads a value.
    fn following_bias(&self, value: ValueId, outputs: usize) -> Option<(usize, Vec<f64>, ValueId)> {
        let graph = &self.prepared.graph;
        if self.uses[value.index()] != 1 {
            return None;
        }
        let sum = graph
            .nodes
            .iter()
            .position(|node| node.reads().any(|v| v == value))?;
        let node = &graph.nodes[sum];
        let other = node.reads().find(|&v| v != value)?;
        let found = self.weights(other)?;
        let along_last = found.values.len() == 1 || found.shape.last() == Some(&found.values.len());
        let taken = node.is("Add")
            && along_last
            && self.shape_of(result(node).ok()?) == self.shape_of(value);
        let bias = self.bias(Some(other), outputs).ok().filter(|_| taken)?;
        Some((sum, bias, result(node).ok()?))
    }

    /// `x W + b` along the last axis of x, W `[k][out]` or transposed.
    fn matrix(
        &mut self,
        index: usize,
        x: ValueId,
        value: ValueId,
        weights: &super::weights::FileWeights,
        transposed: bool,
        bias: &[f64],
    ) -> Step<()> {
        let shape = self.shape_of(x);
        let inner = *shape
            .last()
            .ok_or(Stop::Unsupported("it reads a single number"))?;
        let outputs = bias.len();
        let along = |k: usize, out: usize| {
            let at = if transposed {
                out * inner + k
            } else {
                k * outputs + out
            };
            weights.values[at]
        };
        let scales = match &weights.scales {
            Some((scales, axis)) if scales.len() == 1 || *axis == usize::from(!transposed) => {
                Some(scales.as_slice())
            }
            Some(_) => return unsupported("its weights have scales along another axis"),
            None => None,
        };
        let read = self.read(x, Reader::Product, limit(inner))?;
        let each = (0..outputs).flat_map(|out| (0..inner).map(move |k| (k, out)));
        let stored: Vec<f64> = each.map(|(k, out)| along(k, out)).collect();
        let mut bias = bias.to_vec();
        self.correct_bias(index, x, &stored, scales, &mut bias, (read.scale, 1, 1));
        let bias = bias.as_slice();
        let rows: usize = shape.iter().product::<usize>() / inner.max(1);
        let elements = self.builder.shape(read.tensor).elements();
        let result_shape = self.shape_of(value);
        if rows == 1 && read.layout.is_dense(elements) {
            // One row: the weights take the order in which the elements lie.
            let mut place = vec![0; inner];
            for (k, source) in read.layout.sources().into_iter().enumerate() {
                place[source] = k;
            }
            let each = (0..outputs).flat_map(|out| place.iter().map(move |&k| (k, out)));
            let stored: Vec<f64> = each.map(|(k, out)| along(k, out)).collect();
            let mut layer = self.layer(&stored, scales, bias, read.scale, self.granularity(index));
            shift_bias(&mut layer, read.zero);
            let op = Op::Dense(op::Dense { input: read.tensor });
            let shape = Shape::vector(narrow(outputs)?);
            let layout = Strided::contiguous(result_shape);
            self.accumulate(index, value, (op, shape), (layer, read.scale), layout);
            return Ok(());
        }
        let mut layer = self.layer(&stored, scales, bias, read.scale, self.granularity(index));
        shift_bias(&mut layer, read.zero);
        let name = self.node(index).name.clone();
        let (tensor, layout) = self.channels_last(&read, shape.len() - 1, &name)?;
        let op = Op::conv(tensor, Window::new([1; 2], [1; 2], [0; 4]));
        let own = self.builder.shape(tensor);
        let shape = Shape::new(own.height, own.width, narrow(outputs)?);
        let layout = rechannelled(&layout, result_shape.len() - 1, inner, outputs);
        self.accumulate(index, value, (op, shape), (layer, read.scale), layout);
        Ok(())
    }

    // ------------------------------------------------------------ channels

    /// A tensor whose channels are one axis of the value, and the value's layout in it.
    pub(crate) fn channels_last(
        &mut self,
        read: &Read,
        axis: usize,
        name: &str,
    ) -> Step<(TensorId, Strided)> {
        let sizes = read.layout.sizes();
        let size = sizes[axis];
        let shape = self.builder.shape(read.tensor);
        let own = match read.layout.axes[axis].as_slice() {
            [] => size == 1,
            [factor] => *factor == Factor { size, stride: 1 },
            _ => false,
        };
        if own && shape.channels as usize == size && read.layout.is_dense(shape.elements()) {
            return Ok((read.tensor, read.layout.clone()));
        }
        let others: Vec<usize> = (0..sizes.len()).filter(|&other| other != axis).collect();
        let groups = [others, Vec::new(), vec![axis]];
        let tensor = self.arranged(read, &groups, name)?;
        Ok((tensor, grouped_layout(&sizes, &groups)))
    }

    /// `gain x + offset` along an axis, as a convolution of as many groups as channels.
    pub(crate) fn channel_affine(
        &mut self,
        value: ValueId,
        read: &Read,
        axis: usize,
        gain: &[f64],
        offset: &[f64],
        name: &str,
    ) -> Step<()> {
        let (tensor, layout) = self.channels_last(read, axis, name)?;
        let mut layer = self.layer(gain, None, offset, read.scale, self.gain_granularity());
        shift_bias(&mut layer, read.zero);
        let op = Op::Conv(op::Conv {
            input: tensor,
            window: Window::new([1; 2], [1; 2], [0; 4]),
            groups: narrow(gain.len())?,
            zero: 0,
        });
        let shape = self.builder.shape(tensor);
        let Layer {
            weights,
            scale,
            channels,
        } = layer;
        let tensor = self.builder.push(name, op, shape, scale, Some(weights));
        let form = Form {
            value,
            tensor,
            scale,
            zero: 0,
            channels,
            function: None,
        };
        self.give_form(value, layout, form);
        Ok(())
    }

    /// A tensor without weights as the accumulators of a value.
    pub(crate) fn give_sums(
        &mut self,
        value: ValueId,
        tensor: TensorId,
        layout: Strided,
        scale: f64,
    ) {
        debug_assert_ne!(self.builder.kind(tensor), ElementType::I8);
        self.give(value, tensor, layout, scale, 0);
    }
}

/// `sum w (x - zero) = sum w x - zero sum w`: the zero point of the input as part of the bias.
fn shift_bias(layer: &mut Layer, zero: i64) {
    if zero == 0 {
        return;
    }
    let weights = &mut layer.weights;
    let row = weights.weights.len() / weights.bias.len();
    for (bias, row) in weights
        .bias
        .iter_mut()
        .zip(weights.weights.chunks_exact(row))
    {
        let sum: i64 = row.iter().map(|&w| i64::from(w)).sum();
        let most = i64::from(BIAS_MAX);
        let shifted = (i64::from(*bias) - zero * sum).clamp(-most, most);
        *bias = i32::try_from(shifted).unwrap_or(0);
    }
}

/// How a file orders a kernel.
struct KernelOrder {
    positions: usize,
    inputs: usize,
    /// Of one group.
    outputs: usize,
    transposed: bool,
}

impl KernelOrder {
    /// `[out][in][position]`, or `[in][out of the group][position]` with positions flipped, as `[out][position][in]`.
    fn stored(&self, weights: &[f64]) -> Vec<f64> {
        let Self {
            positions,
            inputs,
            outputs,
            transposed,
        } = *self;
        let all = weights.len() / positions / inputs.max(1);
        let at = |out: usize, position: usize, input: usize| {
            if transposed {
                let input = out / outputs * inputs + input;
                (input * outputs + out % outputs) * positions + positions - 1 - position
            } else {
                (out * inputs + input) * positions + position
            }
        };
        let mut stored = Vec::with_capacity(weights.len());
        for out in 0..all {
            for position in 0..positions {
                stored.extend((0..inputs).map(|input| weights[at(out, position, input)]));
            }
        }
        stored
    }
}

/// The window of a convolution or pooling over one or two axes.
pub(crate) fn window_of(
    node: &Node,
    kernel: &[usize],
    input: &[usize],
    output: &[usize],
    transposed: bool,
) -> Step<Window> {
    let axes = kernel.len();
    let one = vec![1; axes];
    let strides = list(node, "strides").unwrap_or_else(|| one.clone());
    let dilations = list(node, "dilations").unwrap_or(one);
    let mut pads = list(node, "pads").unwrap_or_else(|| vec![0; 2 * axes]);
    let auto = match node.attributes.get("auto_pad") {
        Some(tg_float::Attribute::Text(text)) => text.as_slice(),
        _ => b"NOTSET",
    };
    if strides.len() != axes || dilations.len() != axes || pads.len() != 2 * axes {
        return unsupported("its attributes have another number of axes than its kernel");
    }
    for axis in 0..axes {
        let reach = (kernel[axis] - 1) * dilations[axis] + 1;
        if auto != b"NOTSET" && auto != b"VALID" && !transposed {
            let total = ((output[axis] - 1) * strides[axis] + reach).saturating_sub(input[axis]);
            let lower = auto == b"SAME_LOWER";
            pads[axis] = if lower { total.div_ceil(2) } else { total / 2 };
            pads[axes + axis] = total - pads[axis];
        } else if transposed {
            // The output is what it is, whether by padding or by `output_shape`.
            let whole = (input[axis] - 1) * strides[axis] + 2 * reach - 1;
            let before = (reach - 1).checked_sub(pads[axis]);
            let before = before.ok_or(Stop::Unsupported("it cuts more than its kernel reaches"))?;
            let needed = (output[axis] + reach - 1) as i64;
            let plain = (whole - 2 * (reach - 1)) as i64;
            let after = needed - plain - before as i64;
            pads[axis] = before;
            pads[axes + axis] = usize::try_from(after)
                .map_err(|_| Stop::Unsupported("it cuts more than its kernel reaches"))?;
        } else {
            // A window that starts in the padding after the input (`ceil_mode`) needs more of it.
            let covered = (output[axis] - 1) * strides[axis] + reach;
            let given = input[axis] + pads[axis] + pads[axes + axis];
            pads[axes + axis] += covered.saturating_sub(given);
        }
    }
    let pair = |list: &[usize], missing: usize| -> Step<[u32; 2]> {
        Ok([
            narrow(list[0])?,
            narrow(list.get(1).copied().unwrap_or(missing))?,
        ])
    };
    let [top, left] = pair(&pads[..axes], 0)?;
    let [bottom, right] = pair(&pads[axes..], 0)?;
    let steps = pair(&strides, 1)?;
    let window = Window {
        kernel: pair(kernel, 1)?,
        stride: if transposed { [1; 2] } else { steps },
        pads: [top, left, bottom, right],
        dilation: pair(&dilations, 1)?,
        spread: if transposed { steps } else { [1; 2] },
    };
    if window.is_valid() {
        return Ok(window);
    }
    unsupported("its window is larger, or padded wider, than a program's may be")
}
