//! Constants of the graph as weights of layers, and as tensors of the program.

use super::form::{Form, Lowered};
use super::lowering::{Lowering, Reader, Step, Stop, unsupported};
use super::strided::Strided;
use super::weights::{
    COARSER_MAX, FileWeights, Granularity, KnownWeights, Layer, NEAR_MAX, WEIGHT_MAX, WIDE, digits,
    given, quantise, round_i8, round_i32,
};
use std::rc::Rc;
use tg_float::{ValueId, convert};
use tg_ir::op;
use tg_ir::weights::BIAS_MAX;
use tg_ir::{ElementType, LinearWeights, Op, Shape, TensorId};

impl Lowering<'_> {
    /// The constant weights of a node, or nothing if they are computed from the input.
    pub(crate) fn weights(&self, value: ValueId) -> Option<FileWeights> {
        let constants = &self.prepared.graph.constants;
        if let Some(tensor) = constants.get(&value) {
            return Some(FileWeights {
                shape: tensor.shape().to_vec(),
                values: convert::to_f64(tensor.data())?,
                scales: None,
            });
        }
        let node = self.node(self.producers.get(value.index()).copied().flatten()?);
        if !node.is("DequantizeLinear") {
            return None;
        }
        let tensor = constants.get(&(*node.inputs.first()?)?)?;
        let shape = tensor.shape().to_vec();
        let mut values = convert::to_f64(tensor.data())?;
        let numbers = |index: usize| {
            let value = node.inputs.get(index).copied().flatten()?;
            convert::to_f64(constants.get(&value)?.data())
        };
        let scales = numbers(1)?;
        let axis = crate::passes::int(node, "axis", 1);
        let axis = if axis < 0 {
            axis + shape.len() as i64
        } else {
            axis
        };
        let axis = usize::try_from(axis)
            .ok()?
            .min(shape.len().saturating_sub(1));
        if node.attributes.contains_key("block_size") {
            return None;
        }
        if let Some(zeros) = numbers(2) {
            let inner: usize = shape.get(axis + 1..).unwrap_or(&[]).iter().product();
            for (index, value) in values.iter_mut().enumerate() {
                let channel = if zeros.len() == 1 {
                    0
                } else {
                    index / inner % zeros.len()
                };
                *value -= zeros[channel];
            }
        }
        if values.iter().any(|value| value.abs() > 128.0) {
            // Integers around a zero point that eight bits with a sign do not hold: as reals.
            let inner: usize = shape.get(axis + 1..).unwrap_or(&[]).iter().product();
            for (index, value) in values.iter_mut().enumerate() {
                let channel = if scales.len() == 1 {
                    0
                } else {
                    index / inner % scales.len()
                };
                *value *= scales[channel];
            }
            return Some(FileWeights {
                shape,
                values,
                scales: None,
            });
        }
        Some(FileWeights {
            shape,
            values,
            scales: Some((scales, axis)),
        })
    }

    /// A constant bias as reals; zeros if there is none.
    pub(crate) fn bias(&self, value: Option<ValueId>, outputs: usize) -> Step<Vec<f64>> {
        let Some(value) = value else {
            return Ok(vec![0.0; outputs]);
        };
        let Some(found) = self.weights(value) else {
            return unsupported("its bias is not a constant");
        };
        let scales = found.scales.map_or_else(|| vec![1.0], |(scales, _)| scales);
        let all = found.values.len();
        let at = |channel: usize| {
            let index = if all == 1 { 0 } else { channel };
            let scale = scales
                .get(channel)
                .or(scales.first())
                .copied()
                .unwrap_or(1.0);
            found.values.get(index).map(|value| value * scale)
        };
        let values: Option<Vec<f64>> = (0..outputs).map(at).collect();
        values
            .filter(|_| all == 1 || all == outputs)
            .ok_or(Stop::Unsupported("its bias is not one value per output"))
    }

    /// Quantises a layer's weights, in storage order `[out][k]`, by the file's scales or their own.
    pub(crate) fn layer(
        &self,
        weights: &[f64],
        scales: Option<&[f64]>,
        bias: &[f64],
        input_scale: f64,
        granularity: Granularity,
    ) -> Layer {
        match scales {
            Some(scales) => given(weights, scales, bias, input_scale),
            None => self
                .known_layer(weights, bias, input_scale, granularity)
                .unwrap_or_else(|| quantise(weights, bias, input_scale, granularity)),
        }
    }

    /// The integer weights of another node, if they are a rounding of these reals about as good as their own would be:
    /// where a file has one tensor of weights, the program has one too.
    fn known_layer(
        &self,
        weights: &[f64],
        bias: &[f64],
        input_scale: f64,
        granularity: Granularity,
    ) -> Option<Layer> {
        let row = (weights.len() / bias.len().max(1)).max(1);
        let greatest = || weights.iter().fold(0f64, |best, w| best.max(w.abs()));
        let fits = |known: &&KnownWeights| {
            let KnownWeights {
                tensor,
                unit,
                channels,
            } = known;
            let like = channels.as_ref().is_none_or(|(_, own)| *own == granularity);
            let Some((integers, axes)) = self.builder.weights(*tensor) else {
                return false;
            };
            let rows = weights.chunks(row).zip(integers.chunks(row)).zip(bias);
            like && integers.len() == weights.len()
                && axes[0] == bias.len()
                && rows
                    .enumerate()
                    .all(|(channel, ((reals, integers), bias))| {
                        let unit = unit * known.factor(channel);
                        let is_near = |(w, &q): (&f64, &i8)| {
                            (w - f64::from(q) * unit).abs() <= NEAR_MAX * unit
                        };
                        bias.abs() <= unit * input_scale * f64::from(BIAS_MAX - 1)
                            && reals.iter().zip(integers).all(is_near)
                    })
                && *unit <= COARSER_MAX * greatest() / WEIGHT_MAX
        };
        let known = self.known.iter().find(fits)?;
        let (integers, _) = self.builder.weights(known.tensor)?;
        let unit = |channel: usize| known.unit * known.factor(channel) * input_scale;
        let bias = bias.iter().enumerate();
        Some(Layer {
            weights: LinearWeights {
                weights: integers.to_vec(),
                bias: bias.map(|(c, &b)| round_i32(b / unit(c))).collect(),
            },
            scale: known.unit * input_scale,
            channels: known
                .channels
                .as_ref()
                .map(|(factors, _)| Rc::clone(factors)),
        })
    }

    /// A constant as a tensor of parameters: 8 bits, or two of 8 bits joined to 16.
    pub(crate) fn parameter(&mut self, value: ValueId) -> Step<Lowered> {
        let kind = self.bits(Reader::Other);
        if let Some(&form) = self.parameters.get(&(value, kind == ElementType::I16)) {
            let layout = Strided::contiguous(self.shape_of(value));
            return Ok(Lowered { form, layout });
        }
        let found = self.weights(value).ok_or(Stop::Unsupported(
            "it reads a constant that is not of numbers",
        ))?;
        let scale_at = found.scales.as_ref().map_or(1.0, |(scales, _)| scales[0]);
        let values: Vec<f64> = found.values.iter().map(|v| v * scale_at).collect();
        if values.iter().any(|value| !value.is_finite()) {
            return unsupported("it reads a constant that is not finite");
        }
        let shape = found.shape;
        let name = self.prepared.graph.name_of(value).to_owned();
        let stored = self.parameter_shape(&shape)?;
        let (tensor, scale) = self.parameter_tensor(&name, &values, stored, kind);
        let form = Form {
            value,
            tensor,
            scale,
            zero: 0,
            channels: None,
            function: None,
        };
        self.forms.push(form);
        self.versions.push(Vec::new());
        let form = self.forms.len() - 1;
        self.parameters
            .insert((value, kind == ElementType::I16), form);
        Ok(Lowered {
            form,
            layout: Strided::contiguous(&shape),
        })
    }

    fn parameter_shape(&self, shape: &[usize]) -> Step<Shape> {
        let (last, before) = shape.split_last().unwrap_or((&1, &[]));
        let rows: usize = before.iter().product();
        let narrow =
            |n: usize| u32::try_from(n).map_err(|_| Stop::Unsupported("a constant is too large"));
        let shape = Shape::new(narrow(rows)?, 1, narrow(*last)?);
        if shape.is_valid() {
            return Ok(shape);
        }
        unsupported("it reads a constant that is empty or too large")
    }

    /// Constants in storage order as parameters: the tensor, and the real value of its unit.
    pub(crate) fn parameter_tensor(
        &mut self,
        name: &str,
        values: &[f64],
        shape: Shape,
        kind: ElementType,
    ) -> (TensorId, f64) {
        let greatest = values
            .iter()
            .fold(0f64, |best, v| best.max(v.abs()))
            .max(1e-30);
        let one = |this: &mut Self, values: Vec<i8>, scale: f64| {
            let layer = LinearWeights {
                weights: values,
                bias: Vec::new(),
            };
            let tensor = this.builder.push(
                name,
                Op::Parameter(op::Parameter),
                shape,
                scale,
                Some(layer),
            );
            this.known.push(KnownWeights {
                tensor,
                unit: scale,
                channels: None,
            });
            tensor
        };
        let narrow = greatest / WEIGHT_MAX;
        let exact = values
            .iter()
            .all(|v| (v / narrow - (v / narrow).round()).abs() < 1e-6);
        if kind == ElementType::I8 || exact {
            let integers = values.iter().map(|v| round_i8(v / narrow)).collect();
            return (one(self, integers, narrow), narrow);
        }
        let most = f64::from(WIDE);
        let whole = values.iter().all(|value| value.fract() == 0.0) && greatest <= most;
        // Whole numbers stay what they are, in the finest unit that holds them.
        let scale = if whole {
            (greatest / most).log2().ceil().exp2()
        } else {
            greatest / most
        };
        let (high, low) = values.iter().map(|v| digits(v / scale)).unzip();
        let high = one(self, high, scale * 256.0);
        let low = one(self, low, scale);
        (self.joined(name, high, low, scale), scale)
    }

    /// `256 high + low`.
    pub(crate) fn joined(
        &mut self,
        name: &str,
        high: TensorId,
        low: TensorId,
        scale: f64,
    ) -> TensorId {
        let shape = self.builder.shape(high);
        let op = Op::add([high, low], [256, 1]);
        self.builder.push(name, op, shape, scale, None)
    }
}
