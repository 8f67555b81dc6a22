//! Quantised operators as float operators between `DequantizeLinear` and `QuantizeLinear`: the same real numbers, and
//! one form for lowering to take the file's own scales and zero points from.

use super::PrepareError;
use super::edit::{constant, input, output, scalar_of};
use std::collections::BTreeSet;
use tg_float::{Attribute, FloatTensor, Graph, Node, ValueId, convert};

/// Rewrites every quantised operator it knows.
pub(super) fn rewrite(graph: &mut Graph) -> Result<(), PrepareError> {
    // Integers that are an answer are given as they are.
    let shown: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    let nodes = std::mem::take(&mut graph.nodes);
    let mut dynamic = BTreeSet::new();
    for node in nodes {
        let mut rewriter = Rewriter {
            graph: &mut *graph,
            node: &node,
            dynamic: &mut dynamic,
            shown: &shown,
            written: Vec::new(),
        };
        match rewriter.write() {
            None => graph.nodes.push(node),
            Some(Ok(())) => {
                let written = rewriter.written;
                graph.nodes.extend(written);
            }
            Some(Err(reason)) => {
                return Err(PrepareError::Node {
                    node: node.name.clone(),
                    op: node.op.clone(),
                    reason,
                });
            }
        }
    }
    Ok(())
}

/// Why a quantised node is not taken.
type Refusal = &'static str;

const SHORT: Refusal = "it lacks an input";
/// Version whose `QuantizeLinear` has an axis and every 8-bit type.
const QDQ_VERSION: i64 = 13;

struct Rewriter<'a> {
    graph: &'a mut Graph,
    node: &'a Node,
    /// Values of which `DynamicQuantizeLinear` made integers: floats here, in units of 1.
    dynamic: &'a mut BTreeSet<ValueId>,
    /// What the graph gives.
    shown: &'a BTreeSet<ValueId>,
    written: Vec<Node>,
}

impl Rewriter<'_> {
    fn write(&mut self) -> Option<Result<(), Refusal>> {
        let microsoft = self.node.domain == "com.microsoft";
        if !microsoft && !self.node.domain.is_empty() {
            return None;
        }
        Some(match self.node.op.as_str() {
            "QLinearConv" if !microsoft => self.convolution(),
            "QLinearMatMul" if !microsoft => self.product("MatMul"),
            "QGemm" => self.gemm(),
            "QLinearAdd" => self.product("Add"),
            "QLinearMul" => self.product("Mul"),
            "QLinearSigmoid" => self.unary("Sigmoid"),
            "QLinearLeakyRelu" => self.unary("LeakyRelu"),
            "QLinearGlobalAveragePool" if int_is_zero(self.node, "channels_last") => {
                self.unary("GlobalAveragePool")
            }
            "QLinearAveragePool" if int_is_zero(self.node, "channels_last") => {
                self.unary("AveragePool")
            }
            "QLinearConcat" => self.concat(),
            "ConvInteger" if !microsoft => self.integer("Conv"),
            "MatMulInteger" if !microsoft => self.integer("MatMul"),
            "DynamicQuantizeLinear"
                if !microsoft && !self.node.gives().any(|value| self.shown.contains(&value)) =>
            {
                self.unquantised()
            }
            "DequantizeLinear"
                if input(self.node, 0).is_some_and(|x| self.dynamic.contains(&x)) =>
            {
                self.input(0).and_then(|value| self.pass(value))
            }
            "QuantizeLinear" | "DequantizeLinear" if microsoft => self.standard(),
            _ => return None,
        })
    }

    fn input(&self, index: usize) -> Result<ValueId, Refusal> {
        input(self.node, index).ok_or(SHORT)
    }

    /// A value read back as floats.
    fn dequantised(
        &mut self,
        index: usize,
        scale: Option<usize>,
        zero: Option<usize>,
        axis: i64,
    ) -> Result<ValueId, Refusal> {
        let name = format!("{}.input{index}", self.node.name);
        let scale = match scale {
            Some(scale) => self.input(scale)?,
            None => constant(self.graph, &format!("{name}.scale"), Vec::new(), vec![1.0]),
        };
        let mut inputs = vec![self.input(index)?, scale];
        if let Some(zero) = zero.and_then(|zero| input(self.node, zero)) {
            inputs.push(zero);
        }
        let value = self.graph.fresh(name.clone());
        let node = Node::new(&name, "DequantizeLinear", QDQ_VERSION, inputs, vec![value])
            .with("axis", Attribute::Int(axis));
        self.written.push(node);
        Ok(value)
    }

    /// The float operator with the node's own attributes, and its result.
    fn float(&mut self, op: &str, inputs: Vec<ValueId>) -> ValueId {
        let name = self.node.name.clone();
        let value = self.graph.fresh(format!("{name}.float"));
        let mut node = Node::new(&name, op, super::edit::VERSION, inputs, vec![value]);
        node.attributes = self.node.attributes.clone();
        self.written.push(node);
        value
    }

    fn quantised(&mut self, value: ValueId, scale: usize, zero: usize) -> Result<(), Refusal> {
        let mut inputs = vec![value, self.input(scale)?];
        if let Some(zero) = input(self.node, zero) {
            inputs.push(zero);
        }
        let name = format!("{}.quantise", self.node.name);
        let result = output(self.node).ok_or(SHORT)?;
        self.written.push(Node::new(
            &name,
            "QuantizeLinear",
            QDQ_VERSION,
            inputs,
            vec![result],
        ));
        Ok(())
    }

    /// A bias of integers in units of the product of two scales.
    fn bias(&mut self, index: usize, scales: [usize; 2]) -> Result<Option<ValueId>, Refusal> {
        let Some(value) = input(self.node, index) else {
            return Ok(None);
        };
        let integers = self
            .graph
            .constants
            .get(&value)
            .ok_or("its bias is not a constant")?;
        let integers = convert::to_f64(integers.data()).ok_or("its bias is not of numbers")?;
        let first = scalar_of(self.graph, Some(self.input(scales[0])?))
            .ok_or("the scale of its input is not one constant")?;
        let second = self.graph.constants.get(&self.input(scales[1])?);
        let second = second
            .and_then(|tensor| convert::to_f64(tensor.data()))
            .ok_or("the scale of its weights is not constant")?;
        let each = |(channel, integer): (usize, &f64)| {
            let scale = second
                .get(channel)
                .or(second.first())
                .copied()
                .unwrap_or(1.0);
            (integer * first * scale) as f32
        };
        let values: Vec<f32> = integers.iter().enumerate().map(each).collect();
        let name = format!("{}.bias", self.node.name);
        Ok(Some(constant(
            self.graph,
            &name,
            vec![values.len()],
            values,
        )))
    }

    fn convolution(&mut self) -> Result<(), Refusal> {
        let x = self.dequantised(0, Some(1), Some(2), 1)?;
        let w = self.dequantised(3, Some(4), Some(5), 0)?;
        let mut inputs = vec![x, w];
        inputs.extend(self.bias(8, [1, 4])?);
        let value = self.float("Conv", inputs);
        self.quantised(value, 6, 7)
    }

    fn product(&mut self, op: &str) -> Result<(), Refusal> {
        let a = self.dequantised(0, Some(1), Some(2), -2)?;
        let b = self.dequantised(3, Some(4), Some(5), -1)?;
        let value = self.float(op, vec![a, b]);
        self.quantised(value, 6, 7)
    }

    fn gemm(&mut self) -> Result<(), Refusal> {
        let transposed = !int_is_zero(self.node, "transB");
        let a = self.dequantised(0, Some(1), Some(2), -2)?;
        let b = self.dequantised(3, Some(4), Some(5), i64::from(!transposed))?;
        let mut inputs = vec![a, b];
        inputs.extend(self.bias(6, [1, 4])?);
        let value = self.float("Gemm", inputs);
        if input(self.node, 7).is_some() {
            self.quantised(value, 7, 8)
        } else {
            self.pass(value)
        }
    }

    fn unary(&mut self, op: &str) -> Result<(), Refusal> {
        let x = self.dequantised(0, Some(1), Some(2), 1)?;
        let value = self.float(op, vec![x]);
        self.quantised(value, 3, 4)
    }

    fn concat(&mut self) -> Result<(), Refusal> {
        let mut inputs = Vec::new();
        let mut index = 2;
        while index + 1 < self.node.inputs.len() {
            inputs.push(self.dequantised(index, Some(index + 1), Some(index + 2), 1)?);
            index += 3;
        }
        let value = self.float("Concat", inputs);
        self.quantised(value, 0, 1)
    }

    /// Integers whose scale each input chooses for itself stay floats: a program's scales come from calibration.
    fn unquantised(&mut self) -> Result<(), Refusal> {
        let (x, value) = (self.input(0)?, output(self.node).ok_or(SHORT)?);
        self.pass(x)?;
        self.dynamic.insert(value);
        let others = [(1, 1f32), (2, 0f32)];
        for (slot, number) in others {
            if let Some(value) = self.node.outputs.get(slot).copied().flatten() {
                self.graph
                    .constants
                    .insert(value, FloatTensor::scalar(number));
            }
        }
        Ok(())
    }

    /// Sums of integers: the float operator in units of one.
    fn integer(&mut self, op: &str) -> Result<(), Refusal> {
        let first = self.input(0)?;
        let dynamic = self.dynamic.contains(&first);
        let w = self.dequantised(1, None, None, 1)?;
        let w = self.without(w, 3, (op == "Conv").then_some(3))?;
        if dynamic {
            let value = self.float(op, vec![first, w]);
            return self.pass(value);
        }
        let x = self.dequantised(0, None, None, 1)?;
        let x = self.without(x, 2, None)?;
        let value = self.float(op, vec![x, w]);
        let value = {
            let cast = self.graph.fresh(format!("{}.rounded", self.node.name));
            let name = format!("{}.rounded", self.node.name);
            let node = Node::new(&name, "Cast", QDQ_VERSION, vec![value], vec![cast])
                .with("to", Attribute::Int(6));
            self.written.push(node);
            cast
        };
        self.pass(value)
    }

    /// A value less its zero point, if it has one.
    fn without(
        &mut self,
        value: ValueId,
        index: usize,
        trailing: Option<usize>,
    ) -> Result<ValueId, Refusal> {
        let Some(zero) = input(self.node, index) else {
            return Ok(value);
        };
        let tensor = self
            .graph
            .constants
            .get(&zero)
            .ok_or("its zero point is not constant")?;
        let values = convert::to_f32(tensor.data()).ok_or("its zero point is not a number")?;
        if values.iter().all(|&value| value == 0.0) {
            return Ok(value);
        }
        let mut shape = tensor.shape().to_vec();
        if values.len() > 1 {
            shape.extend(std::iter::repeat_n(1, trailing.unwrap_or(0)));
        }
        let name = format!("{}.zero{index}", self.node.name);
        let tensor = FloatTensor::of(shape, values).map_err(|_| "its zero point has no shape")?;
        let zero = self.graph.constant(name.clone(), tensor);
        let result = self.graph.fresh(name.clone());
        self.written.push(Node::new(
            &name,
            "Sub",
            QDQ_VERSION,
            vec![value, zero],
            vec![result],
        ));
        Ok(result)
    }

    /// The same operator in ONNX's own domain.
    fn standard(&mut self) -> Result<(), Refusal> {
        let mut node = self.node.clone();
        node.domain = String::new();
        node.version = QDQ_VERSION;
        self.written.push(node);
        Ok(())
    }

    fn pass(&mut self, value: ValueId) -> Result<(), Refusal> {
        let result = output(self.node).ok_or(SHORT)?;
        let name = format!("{}.result", self.node.name);
        self.written.push(Node::new(
            &name,
            "Identity",
            QDQ_VERSION,
            vec![value],
            vec![result],
        ));
        Ok(())
    }
}

fn int_is_zero(node: &Node, name: &str) -> bool {
    super::edit::int(node, name, 0) == 0
}
