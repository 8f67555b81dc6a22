//! One function per ONNX operator.

use super::constant::{Constant, Elements};
use super::error::{NodeReason, TensorProblem};
use super::proto::{AttributeProto, NodeProto};
use super::{Importer, Meaning, Taken, within_limit};
use crate::graph::{FloatOp, Value};
use tg_ir::{Shape, Window};

/// Floats and their shape.
type Floats<'a> = (&'a [f32], &'a [usize]);

/// Why a node is not taken.
pub(super) enum Refusal {
    Node(NodeReason),
    Tensor(TensorProblem),
}

impl From<NodeReason> for Refusal {
    fn from(reason: NodeReason) -> Self {
        Self::Node(reason)
    }
}

/// A node of the file, and what is known before it.
pub(super) struct Site<'a> {
    proto: &'a NodeProto,
    importer: &'a Importer,
}

impl<'a> Site<'a> {
    pub(super) const fn new(proto: &'a NodeProto, importer: &'a Importer) -> Self {
        Self { proto, importer }
    }

    /// The node's name, or that of its first output.
    pub(super) fn name(&self) -> &'a str {
        let output = self.proto.output.first().map_or("", String::as_str);
        if self.proto.name.is_empty() {
            output
        } else {
            &self.proto.name
        }
    }

    /// Shapes of the inputs that are known.
    pub(super) fn input_shapes(&self) -> Vec<Vec<usize>> {
        let known = |name| self.importer.names.get(name);
        self.proto
            .input
            .iter()
            .filter_map(known)
            .map(|meaning| match meaning {
                Meaning::Constant(constant) => constant.shape.clone(),
                Meaning::Value(value) => self.shape(*value).to_vec(),
            })
            .collect()
    }

    /// Imports the node.
    pub(super) fn take(&self) -> Result<Taken, Refusal> {
        let outputs = self.proto.output.iter().filter(|name| !name.is_empty());
        let used = outputs.count();
        if used > 1 {
            return Err(NodeReason::Outputs(used).into());
        }
        if !(self.proto.domain.is_empty() || self.proto.domain == "ai.onnx") {
            return Err(NodeReason::Operator.into());
        }
        let taken = match self.proto.op_type.as_str() {
            "Constant" => return self.constant_node(),
            "Conv" => self.conv(),
            "Gemm" => self.gemm(),
            "MatMul" => self.matmul(),
            "Add" => self.add(),
            "Relu" => self.clip([0.0, f32::INFINITY]),
            "Clip" => self.clip_bounds().and_then(|bounds| self.clip(bounds)),
            "MaxPool" => self.max_pool(),
            "AveragePool" => self.average_pool(),
            "GlobalAveragePool" => self.global_average_pool(),
            "Flatten" => self.flatten(),
            "Reshape" => self.reshape(),
            "Transpose" => self.transpose(),
            "Identity" => Ok(Taken::Meaning(self.operand(0)?.clone())),
            "BatchNormalization" => self.batch_normalisation(),
            _ => Err(NodeReason::Operator),
        }?;
        match &taken {
            Taken::Node { shape, .. } if !within_limit(shape) => {
                Err(NodeReason::Shape("the result has more than 2^26 elements").into())
            }
            _ => Ok(taken),
        }
    }

    // ------------------------------------------------------------ operands and attributes

    fn shape(&self, value: Value) -> &'a [usize] {
        self.importer.graph.shape(value)
    }

    fn optional(&self, index: usize) -> Result<Option<&'a Meaning>, NodeReason> {
        match self.proto.input.get(index).map(String::as_str) {
            None | Some("") => Ok(None),
            Some(name) => match self.importer.names.get(name) {
                Some(meaning) => Ok(Some(meaning)),
                None => Err(NodeReason::Unknown(name.to_owned())),
            },
        }
    }

    fn operand(&self, index: usize) -> Result<&'a Meaning, NodeReason> {
        self.optional(index)?.ok_or(NodeReason::Missing(index))
    }

    fn value(&self, index: usize) -> Result<Value, NodeReason> {
        match self.operand(index)? {
            Meaning::Value(value) => Ok(*value),
            Meaning::Constant(_) => Err(NodeReason::Constant(index)),
        }
    }

    fn optional_constant(&self, index: usize) -> Result<Option<&'a Constant>, NodeReason> {
        match self.optional(index)? {
            None => Ok(None),
            Some(Meaning::Constant(constant)) => Ok(Some(constant)),
            Some(Meaning::Value(_)) => Err(NodeReason::NotConstant(index)),
        }
    }

    fn floats(&self, index: usize) -> Result<Floats<'a>, NodeReason> {
        self.optional_floats(index)?
            .ok_or(NodeReason::Missing(index))
    }

    fn optional_floats(&self, index: usize) -> Result<Option<Floats<'a>>, NodeReason> {
        let Some(constant) = self.optional_constant(index)? else {
            return Ok(None);
        };
        let floats = constant
            .as_floats()
            .ok_or(NodeReason::Shape("a float constant is needed"))?;
        Ok(Some((floats, &constant.shape)))
    }

    fn attribute(&self, name: &str) -> Option<&'a AttributeProto> {
        self.proto.attribute.iter().find(|a| a.name == name)
    }

    pub(super) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.attribute(name).map(|a| a.ints.as_slice())
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.attribute(name)
            .map_or_else(String::new, |a| String::from_utf8_lossy(&a.s).into_owned())
    }

    fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |a| a.i)
    }

    fn float(&self, name: &'static str, default: f32) -> Result<f32, NodeReason> {
        let value = self.attribute(name).map_or(default, |a| a.f);
        if value.is_finite() {
            Ok(value)
        } else {
            Err(NodeReason::Attribute {
                attribute: name,
                value: value.to_string(),
                supported: "a finite number is needed",
            })
        }
    }

    fn require_int(
        &self,
        attribute: &'static str,
        only: i64,
        supported: &'static str,
    ) -> Result<(), NodeReason> {
        let value = self.int(attribute, only);
        if value == only {
            return Ok(());
        }
        Err(NodeReason::Attribute {
            attribute,
            value: value.to_string(),
            supported,
        })
    }

    pub(super) fn require_ints(
        &self,
        attribute: &'static str,
        only: i64,
        supported: &'static str,
    ) -> Result<(), NodeReason> {
        match self.ints(attribute) {
            Some(values) if values.iter().any(|&value| value != only) => {
                Err(NodeReason::Attribute {
                    attribute,
                    value: format!("{values:?}"),
                    supported,
                })
            }
            _ => Ok(()),
        }
    }

    // ------------------------------------------------------------ shapes

    /// A `1 x C x H x W` value.
    fn image(&self, index: usize) -> Result<(Value, Shape), NodeReason> {
        let value = self.value(index)?;
        let shape = image_shape(self.shape(value))
            .ok_or(NodeReason::Shape("an input of 1xCxHxW is needed"))?;
        Ok((value, shape))
    }

    /// A `1 x N` value.
    fn row(&self, index: usize) -> Result<(Value, usize), NodeReason> {
        let value = self.value(index)?;
        match *self.shape(value) {
            [1, length] => Ok((value, length)),
            _ => Err(NodeReason::Shape(
                "an input of 1xN is needed (flatten it first)",
            )),
        }
    }

    // ------------------------------------------------------------ operators

    fn constant_node(&self) -> Result<Taken, Refusal> {
        let constant = if let Some(tensor) = self.attribute("value").and_then(|a| a.t.as_ref()) {
            Constant::read(tensor).map_err(Refusal::Tensor)?
        } else if self.attribute("value_float").is_some() {
            scalar(Constant::floats(vec![self.float("value_float", 0.0)?]))
        } else if self.attribute("value_int").is_some() {
            scalar(Constant::integers(vec![self.int("value_int", 0)]))
        } else if let Some(list) = self.attribute("value_floats") {
            if let Some(index) = list.floats.iter().position(|value| !value.is_finite()) {
                let value = list.floats[index].to_string();
                return Err(Refusal::Tensor(TensorProblem::NotFinite { index, value }));
            }
            Constant::floats(list.floats.clone())
        } else if let Some(list) = self.attribute("value_ints") {
            Constant::integers(list.ints.clone())
        } else {
            return Err(NodeReason::Shape("a float or integer constant is needed").into());
        };
        Ok(Taken::Meaning(Meaning::Constant(constant)))
    }

    fn conv(&self) -> Result<Taken, NodeReason> {
        let (input, shape) = self.image(0)?;
        let (weights, axes) = self.floats(1)?;
        self.require_int("group", 1, "only group 1 is supported")?;
        let &[outputs, inputs, rows, columns] = axes else {
            return Err(NodeReason::Shape("weights of four axes are needed"));
        };
        if inputs != shape.channels as usize || weights.is_empty() {
            return Err(NodeReason::Shape(
                "the weights' second axis is not the input's channels",
            ));
        }
        let kernel = kernel_of(rows, columns)?;
        if self.ints("kernel_shape").is_some() && self.kernel()? != kernel {
            return Err(NodeReason::Shape("kernel_shape is not that of the weights"));
        }
        let window = self.window(kernel, shape)?;
        let bias = self.bias(2, outputs, 1.0)?;
        let op = FloatOp::Conv {
            window,
            weights: weights.to_vec(),
            bias,
        };
        windowed(op, &window, input, shape, outputs)
    }

    fn gemm(&self) -> Result<Taken, NodeReason> {
        let (input, length) = self.row(0)?;
        self.require_int("transA", 0, "only transA = 0 is supported")?;
        let (alpha, beta) = (self.float("alpha", 1.0)?, self.float("beta", 1.0)?);
        let transposed = self.int("transB", 0) != 0;
        let mut taken = self.dense(input, length, transposed)?;
        if let Taken::Node {
            op: FloatOp::Dense { weights, bias },
            ..
        } = &mut taken
        {
            weights.iter_mut().for_each(|weight| *weight *= alpha);
            let outputs = bias.len();
            *bias = self.bias(2, outputs, beta)?;
        }
        Ok(taken)
    }

    fn matmul(&self) -> Result<Taken, NodeReason> {
        let (input, length) = self.row(0)?;
        self.dense(input, length, false)
    }

    /// A product with a constant matrix, input 1; `[out][in]` if `transposed`, else `[in][out]`.
    fn dense(&self, input: Value, length: usize, transposed: bool) -> Result<Taken, NodeReason> {
        let (matrix, axes) = self.floats(1)?;
        let &[first, second] = axes else {
            return Err(NodeReason::Shape("a matrix of two axes is needed"));
        };
        let (inputs, outputs) = if transposed {
            (second, first)
        } else {
            (first, second)
        };
        if inputs != length || matrix.is_empty() {
            return Err(NodeReason::Shape(
                "the matrix does not have one row per input element",
            ));
        }
        let weights = if transposed {
            matrix.to_vec()
        } else {
            let element = |index: usize| matrix[index % inputs * outputs + index / inputs];
            (0..matrix.len()).map(element).collect()
        };
        Ok(Taken::Node {
            op: FloatOp::Dense {
                weights,
                bias: vec![0.0; outputs],
            },
            inputs: vec![input],
            shape: vec![1, outputs],
        })
    }

    /// An optional bias of one value per output, times `factor`; one value is spread over all.
    fn bias(&self, index: usize, outputs: usize, factor: f32) -> Result<Vec<f32>, NodeReason> {
        let Some((values, shape)) = self.optional_floats(index)? else {
            return Ok(vec![0.0; outputs]);
        };
        let row = shape.iter().rev().skip(1).all(|&axis| axis == 1);
        match values {
            [value] if row => Ok(vec![value * factor; outputs]),
            values if row && values.len() == outputs => {
                Ok(values.iter().map(|value| value * factor).collect())
            }
            _ => Err(NodeReason::Shape(
                "a bias of one value per output is needed",
            )),
        }
    }

    fn add(&self) -> Result<Taken, NodeReason> {
        match (self.operand(0)?, self.operand(1)?) {
            (Meaning::Value(a), Meaning::Value(b)) => {
                let shape = self.shape(*a);
                if shape != self.shape(*b) {
                    return Err(NodeReason::Shape(
                        "two inputs of one shape, or a constant per channel, are needed",
                    ));
                }
                Ok(Taken::Node {
                    op: FloatOp::Add,
                    inputs: vec![*a, *b],
                    shape: shape.to_vec(),
                })
            }
            (Meaning::Value(value), Meaning::Constant(constant))
            | (Meaning::Constant(constant), Meaning::Value(value)) => {
                let shape = self.shape(*value);
                let shift = per_channel(constant, shape).ok_or(NodeReason::Shape(
                    "two inputs of one shape, or a constant per channel, are needed",
                ))?;
                Ok(affine(*value, shape, vec![1.0; shift.len()], shift))
            }
            (Meaning::Constant(_), Meaning::Constant(_)) => Err(NodeReason::Constant(0)),
        }
    }

    fn batch_normalisation(&self) -> Result<Taken, NodeReason> {
        let value = self.value(0)?;
        self.require_int("training_mode", 0, "only inference is supported")?;
        let epsilon = f64::from(self.float("epsilon", 1e-5)?);
        let shape = self.shape(value);
        let mut parameters: [&[f32]; 4] = [&[]; 4];
        for (slot, parameter) in parameters.iter_mut().enumerate() {
            *parameter = self.floats(slot + 1)?.0;
            if shape.len() < 2 || parameter.len() != shape[1] {
                return Err(NodeReason::Shape("one parameter per channel is needed"));
            }
        }
        let [gamma, beta, mean, variance] = parameters;
        let mut scale = Vec::new();
        let mut shift = Vec::new();
        for channel in 0..gamma.len() {
            let deviation = (f64::from(variance[channel]) + epsilon).sqrt();
            let factor = f64::from(gamma[channel]) / deviation;
            let term = f64::from(beta[channel]) - f64::from(mean[channel]) * factor;
            if !(factor.is_finite() && term.is_finite()) {
                return Err(NodeReason::Attribute {
                    attribute: "variance + epsilon",
                    value: (f64::from(variance[channel]) + epsilon).to_string(),
                    supported: "a positive number is needed",
                });
            }
            #[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
            {
                scale.push(factor as f32);
                shift.push(term as f32);
            }
        }
        Ok(affine(value, shape, scale, shift))
    }

    fn clip_bounds(&self) -> Result<[f32; 2], NodeReason> {
        let mut bounds = [f32::NEG_INFINITY, f32::INFINITY];
        for (index, bound) in bounds.iter_mut().enumerate() {
            if let Some((values, _)) = self.optional_floats(index + 1)? {
                let &[value] = values else {
                    return Err(NodeReason::Shape("scalar bounds are needed"));
                };
                *bound = value;
            }
        }
        if bounds[0] > bounds[1] {
            return Err(NodeReason::Attribute {
                attribute: "min, max",
                value: format!("{bounds:?}"),
                supported: "min may not be above max",
            });
        }
        Ok(bounds)
    }

    fn clip(&self, bounds: [f32; 2]) -> Result<Taken, NodeReason> {
        let value = self.value(0)?;
        Ok(Taken::Node {
            op: FloatOp::Clip { bounds },
            inputs: vec![value],
            shape: self.shape(value).to_vec(),
        })
    }

    fn max_pool(&self) -> Result<Taken, NodeReason> {
        let (input, shape) = self.image(0)?;
        self.require_int("ceil_mode", 0, "only ceil_mode = 0 is supported")?;
        self.require_int("storage_order", 0, "only storage_order = 0 is supported")?;
        let window = self.window(self.kernel()?, shape)?;
        windowed(
            FloatOp::MaxPool { window },
            &window,
            input,
            shape,
            shape.channels as usize,
        )
    }

    fn average_pool(&self) -> Result<Taken, NodeReason> {
        let (input, shape) = self.image(0)?;
        self.require_int("ceil_mode", 0, "only ceil_mode = 0 is supported")?;
        let window = self.window(self.kernel()?, shape)?;
        if window.pads != [0; 4] {
            let supported = "with padding, only count_include_pad = 1 is supported";
            if self.int("count_include_pad", 0) != 1 {
                return Err(NodeReason::Attribute {
                    attribute: "count_include_pad",
                    value: "0".to_owned(),
                    supported,
                });
            }
        }
        let channels = shape.channels as usize;
        windowed(
            FloatOp::AveragePool { window },
            &window,
            input,
            shape,
            channels,
        )
    }

    fn global_average_pool(&self) -> Result<Taken, NodeReason> {
        let (input, shape) = self.image(0)?;
        let window = Window::new([shape.height, shape.width], [1, 1], [0; 4]);
        if !window.is_valid() {
            return Err(NodeReason::Shape("an image of at most 64x64 is needed"));
        }
        let channels = shape.channels as usize;
        windowed(
            FloatOp::AveragePool { window },
            &window,
            input,
            shape,
            channels,
        )
    }

    fn flatten(&self) -> Result<Taken, NodeReason> {
        let value = self.value(0)?;
        let shape = self.shape(value);
        let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
        let axis = self.int("axis", 1);
        let from_start = if axis < 0 {
            axis.saturating_add(rank)
        } else {
            axis
        };
        let split = usize::try_from(from_start)
            .ok()
            .filter(|&split| split <= shape.len())
            .ok_or_else(|| NodeReason::Attribute {
                attribute: "axis",
                value: axis.to_string(),
                supported: "an axis of the input is needed",
            })?;
        let (outer, inner) = shape.split_at(split);
        let flat = vec![outer.iter().product(), inner.iter().product()];
        Ok(reshaped(value, flat))
    }

    fn reshape(&self) -> Result<Taken, NodeReason> {
        let target = self.optional_constant(1)?.ok_or(NodeReason::Missing(1))?;
        let target = target
            .as_integers()
            .ok_or(NodeReason::Shape("an integer shape is needed"))?;
        self.require_int("allowzero", 0, "only allowzero = 0 is supported")?;
        match self.operand(0)? {
            Meaning::Value(value) => {
                let shape = resolve_shape(target, self.shape(*value))?;
                Ok(reshaped(*value, shape))
            }
            Meaning::Constant(constant) => {
                let shape = resolve_shape(target, &constant.shape)?;
                let constant = constant
                    .reshaped(shape)
                    .ok_or(NodeReason::Shape("the elements do not fill the shape"))?;
                Ok(Taken::Meaning(Meaning::Constant(constant)))
            }
        }
    }

    fn transpose(&self) -> Result<Taken, NodeReason> {
        let operand = self.operand(0)?;
        let shape = match operand {
            Meaning::Value(value) => self.shape(*value),
            Meaning::Constant(constant) => &constant.shape,
        };
        let axes: Vec<usize> = match self.ints("perm") {
            None => (0..shape.len()).rev().collect(),
            Some(axes) => axes
                .iter()
                .map(|&axis| usize::try_from(axis).unwrap_or(usize::MAX))
                .collect(),
        };
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..shape.len()) {
            return Err(NodeReason::Attribute {
                attribute: "perm",
                value: format!("{:?}", self.ints("perm").unwrap_or_default()),
                supported: "a permutation of the axes is needed",
            });
        }
        Ok(match operand {
            Meaning::Constant(constant) => {
                Taken::Meaning(Meaning::Constant(constant.transposed(&axes)))
            }
            Meaning::Value(value) => Taken::Node {
                shape: axes.iter().map(|&axis| shape[axis]).collect(),
                op: FloatOp::Transpose { axes },
                inputs: vec![*value],
            },
        })
    }
}

fn scalar(constant: Constant) -> Constant {
    Constant {
        shape: Vec::new(),
        elements: match constant.elements {
            Elements::Floats(values) => Elements::Floats(values),
            Elements::Integers(values) => Elements::Integers(values),
        },
    }
}

fn reshaped(value: Value, shape: Vec<usize>) -> Taken {
    Taken::Node {
        op: FloatOp::Reshape,
        inputs: vec![value],
        shape,
    }
}

fn affine(value: Value, shape: &[usize], scale: Vec<f32>, shift: Vec<f32>) -> Taken {
    Taken::Node {
        op: FloatOp::Affine { scale, shift },
        inputs: vec![value],
        shape: shape.to_vec(),
    }
}

fn windowed(
    op: FloatOp,
    window: &Window,
    input: Value,
    shape: Shape,
    channels: usize,
) -> Result<Taken, NodeReason> {
    let [height, width] = window
        .output(shape)
        .ok_or(NodeReason::Shape("the kernel is larger than the input"))?;
    Ok(Taken::Node {
        op,
        inputs: vec![input],
        shape: vec![1, channels, height as usize, width as usize],
    })
}

fn kernel_of(rows: usize, columns: usize) -> Result<[u32; 2], NodeReason> {
    let side = |size: usize| u32::try_from(size).ok();
    side(rows)
        .zip(side(columns))
        .map(|(rows, columns)| [rows, columns])
        .ok_or(NodeReason::Shape("the kernel is too large"))
}

/// `1 x C x H x W` as height, width, channels.
pub(crate) fn image_shape(shape: &[usize]) -> Option<Shape> {
    let &[1, channels, height, width] = shape else {
        return None;
    };
    let axis = |size: usize| u32::try_from(size).ok();
    let shape = Shape::new(axis(height)?, axis(width)?, axis(channels)?);
    shape.is_valid().then_some(shape)
}

/// A constant that broadcasts over all but axis 1 of `shape`, as one value per channel.
fn per_channel(constant: &Constant, shape: &[usize]) -> Option<Vec<f32>> {
    let values = constant.as_floats()?;
    let &channels = shape.get(1)?;
    let offset = shape.len().checked_sub(constant.shape.len())?;
    let fits = constant
        .shape
        .iter()
        .enumerate()
        .all(|(axis, &size)| size == 1 || (axis + offset == 1 && size == channels));
    if !fits {
        return None;
    }
    match values {
        [value] => Some(vec![*value; channels]),
        values => (values.len() == channels).then(|| values.to_vec()),
    }
}

/// The target of a `Reshape`: 0 copies an axis, one -1 takes what remains.
fn resolve_shape(target: &[i64], from: &[usize]) -> Result<Vec<usize>, NodeReason> {
    const MISFIT: NodeReason = NodeReason::Shape("the elements do not fill the target shape");
    let elements: usize = from.iter().product();
    let mut open = None;
    let mut shape = Vec::new();
    for (axis, &size) in target.iter().enumerate() {
        shape.push(match size {
            0 => *from.get(axis).ok_or(MISFIT)?,
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            size => usize::try_from(size).map_err(|_| MISFIT)?,
        });
    }
    let product = shape
        .iter()
        .try_fold(1usize, |product, &axis| product.checked_mul(axis))
        .ok_or(MISFIT)?;
    if let Some(axis) = open
        && product != 0
    {
        shape[axis] = elements / product;
    }
    let filled = shape
        .iter()
        .try_fold(1usize, |product, &axis| product.checked_mul(axis));
    if filled == Some(elements) && shape.len() <= 8 {
        Ok(shape)
    } else {
        Err(MISFIT)
    }
}
