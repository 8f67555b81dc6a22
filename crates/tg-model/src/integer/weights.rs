//! Weights of linear nodes: from floats, or the file's own integers; and constants as tensors.

use super::form::{Form, Lowered};
use super::strided::Strided;
use super::{Lowering, Step, Stop, unsupported};
use crate::net::{ValueId, convert};
use std::rc::Rc;
use tg_ir::weights::BIAS_MAX;
use tg_ir::{ElementType, LinearWeights, Op, Shape, TensorId};

/// Greatest quantised weight.
const WEIGHT_MAX: f64 = 127.0;

/// Weights in the order of the file.
#[derive(Debug, Clone)]
pub(crate) struct FileWeights {
    pub(crate) shape: Vec<usize>,
    /// Reals, or integers in units of `scales`.
    pub(crate) values: Vec<f64>,
    /// Units of the file's own integers along an axis, if it has them.
    pub(crate) scales: Option<(Vec<f64>, usize)>,
}

/// Whether the channels of a layer may have different scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// Each channel takes the layer's scale, or a half, a quarter or an eighth of it.
    PerChannel,
    /// One scale, so that accumulators of different channels compare.
    PerTensor,
}

/// A quantised layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) weights: LinearWeights,
    /// Real value of one unit of the accumulator of a channel of factor 1.
    pub(crate) scale: f64,
    /// Per channel the factor on that, if channels differ.
    pub(crate) channels: Option<Rc<[f64]>>,
}

/// Channel scales are the layer's largest one times 2^-j for j up to this: one multiplier, a few shifts.
const HALVINGS_MAX: i32 = 3;

/// Quantises `[out][k]` weights and their bias for activations of a scale.
///
/// A scale is large enough for the channel's greatest weight to fit 127 and for its bias to fit [`BIAS_MAX`].
pub(crate) fn quantise(
    weights: &[f64],
    bias: &[f64],
    input_scale: f64,
    granularity: Granularity,
) -> Layer {
    let rows = || {
        weights
            .chunks_exact((weights.len() / bias.len()).max(1))
            .zip(bias)
    };
    let needed: Vec<f64> = rows()
        .map(|(row, &bias)| {
            let greatest = row.iter().fold(0f64, |best, w| best.max(w.abs()));
            let for_bias = bias.abs() / (input_scale * f64::from(BIAS_MAX - 1));
            (greatest / WEIGHT_MAX).max(for_bias)
        })
        .collect();
    let largest = needed.iter().copied().fold(0f64, f64::max);
    let largest = if largest > 0.0 {
        largest
    } else {
        1.0 / WEIGHT_MAX
    };
    let most = match granularity {
        Granularity::PerChannel => HALVINGS_MAX,
        Granularity::PerTensor => 0,
    };
    let factor = |needed: &f64| {
        let fits = |halvings: &i32| largest * 0.5f64.powi(*halvings) >= *needed;
        0.5f64.powi((0..=most).rev().find(fits).unwrap_or(0))
    };
    let factors: Vec<f64> = needed.iter().map(factor).collect();
    let mut quantised = LinearWeights {
        weights: Vec::with_capacity(weights.len()),
        bias: Vec::with_capacity(bias.len()),
    };
    for ((row, &bias), factor) in rows().zip(&factors) {
        let scale = largest * factor;
        quantised
            .weights
            .extend(row.iter().map(|&w| round_i8(w / scale)));
        quantised.bias.push(round_i32(bias / (scale * input_scale)));
    }
    Layer {
        weights: quantised,
        scale: largest * input_scale,
        channels: differing(factors),
    }
}

/// The file's own integers, and a bias in units of their scales.
pub(crate) fn given(weights: &[f64], scales: &[f64], bias: &[f64], input_scale: f64) -> Layer {
    let first = scales.first().copied().unwrap_or(1.0);
    let of = |channel: usize| scales.get(channel).copied().unwrap_or(first);
    let each = bias.iter().enumerate();
    Layer {
        weights: LinearWeights {
            weights: weights.iter().map(|&w| round_i8(w)).collect(),
            bias: each
                .map(|(c, &b)| round_i32(b / (input_scale * of(c))))
                .collect(),
        },
        scale: first * input_scale,
        channels: differing((0..bias.len()).map(|channel| of(channel) / first).collect()),
    }
}

fn differing(factors: Vec<f64>) -> Option<Rc<[f64]>> {
    let differ = factors.iter().any(|&factor| factor != 1.0);
    differ.then(|| factors.into())
}

pub(crate) fn round_i8(value: f64) -> i8 {
    value.round().clamp(-WEIGHT_MAX, WEIGHT_MAX) as i8
}

fn round_i32(value: f64) -> i32 {
    let most = f64::from(BIAS_MAX);
    value.round().clamp(-most, most) as i32
}

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
            None => quantise(weights, bias, input_scale, granularity),
        }
    }

    /// A constant as a tensor of parameters: 8 bits, or two of 8 bits joined to 16.
    pub(crate) fn parameter(&mut self, value: ValueId) -> Step<Lowered> {
        let kind = self.bits(super::Reader::Other);
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
            this.builder
                .push(name, Op::Parameter, shape, scale, Some(layer))
        };
        let narrow = greatest / WEIGHT_MAX;
        let exact = values
            .iter()
            .all(|v| (v / narrow - (v / narrow).round()).abs() < 1e-6);
        if kind == ElementType::I8 || exact {
            let integers = values.iter().map(|v| round_i8(v / narrow)).collect();
            return (one(self, integers, narrow), narrow);
        }
        let scale = greatest / f64::from(WIDE);
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

/// Greatest magnitude of two joined digits.
pub(crate) const WIDE: i32 = 127 * 256 + 127;

/// A number up to [`WIDE`] as two digits, `256 high + low`.
pub(crate) fn digits(value: f64) -> (i8, i8) {
    let rounded = value.round().clamp(-f64::from(WIDE), f64::from(WIDE));
    let high = (rounded / 256.0).round();
    (round_i8(high), round_i8(rounded - high * 256.0))
}
