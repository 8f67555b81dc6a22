//! What an evaluation costs, counted: the same on every machine, whatever it runs on.
//!
//! A unit is about one multiply-add of a product of `f32` matrices. Before a node is executed, it is charged
//! [`NODE`], [`OPERAND`] for each input and output, [`ELEMENT`] for each element of its inputs and attributes, and what its
//! operator does beyond that; after it, [`ELEMENT`] for each element of its results. What an operator adds stands where it
//! computes, as multiply-adds (`Meter::charge`) or steps of [`STEP`] units, from sizes alone, with two exceptions that are charged as
//! they go: paths through trees and the boxes that `NonMaxSuppression` compares. `docs/PROTOCOL.md` has the table.
//!
//! Joining nodes, packing constants, threads and instructions change none of it: a joined group is charged node by node.

use super::broadcast::broadcast_shape;
use super::meter::STEP;
use crate::graph::{Attribute, Node};
use crate::tensor::{DType, Data, FloatTensor, elements};

/// Units of a node, whatever it computes: finding its operator and its values.
pub const NODE: u64 = 1 << 14;

/// Units of an input or an output that a node names.
pub const OPERAND: u64 = 1 << 10;

/// Units of an element that is read or given.
pub const ELEMENT: u64 = 16;

/// An input as far as its cost goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostedTensor<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
    /// Bytes of its texts.
    pub(crate) text: u64,
}

impl<'a> CostedTensor<'a> {
    pub(crate) fn of(tensor: &'a FloatTensor) -> Self {
        let text = match tensor.data() {
            Data::String(texts) => texts.iter().map(|text| text.len() as u64).sum(),
            _ => 0,
        };
        Self {
            dtype: tensor.dtype(),
            shape: tensor.shape(),
            text,
        }
    }

    /// An `f32` tensor of this shape.
    pub(crate) const fn f32(shape: &'a [usize]) -> Self {
        Self {
            dtype: DType::F32,
            shape,
            text: 0,
        }
    }

    /// Units of its elements. An empty axis counts as one: loops go over the others.
    pub(crate) fn units(&self) -> u64 {
        let sizes = self.shape.iter().map(|&size| size.max(1) as u64);
        let count = sizes.fold(1u64, u64::saturating_mul);
        let size = count.saturating_add(self.text);
        size.saturating_mul(ELEMENT)
    }
}

/// What a node costs before it is executed, but for what its operator charges itself.
pub(crate) fn of_node(node: &Node, inputs: &[Option<CostedTensor<'_>>]) -> u64 {
    let named = (node.inputs.len() + node.outputs.len()) as u64;
    let given = inputs.iter().flatten().map(CostedTensor::units);
    let attributes = node.attributes.values().map(of_attribute);
    let parts = given.chain(attributes).fold(0u64, u64::saturating_add);
    NODE.saturating_add(named.saturating_mul(OPERAND))
        .saturating_add(parts)
        .saturating_add(of_functions(node, inputs))
}

fn of_attribute(attribute: &Attribute) -> u64 {
    let count = match attribute {
        // A body is charged when it is executed.
        Attribute::Other(_) | Attribute::Float(_) | Attribute::Int(_) | Attribute::Graph(_) => 1,
        Attribute::Text(text) => text.len() as u64,
        Attribute::Floats(list) => list.len() as u64,
        Attribute::Ints(list) => list.len() as u64,
        Attribute::Texts(list) => list.iter().map(|text| 1 + text.len() as u64).sum(),
        Attribute::Tensor(tensor) => return CostedTensor::of(tensor).units(),
        Attribute::Tensors(list) => {
            let units = list.iter().map(|tensor| CostedTensor::of(tensor).units());
            return units.fold(0, u64::saturating_add);
        }
    };
    count.saturating_mul(ELEMENT)
}

/// Steps of a function of each element, for operators that go element by element.
fn steps_of(op: &str) -> u64 {
    match op {
        "Exp" | "Log" | "Erf" | "Tanh" | "Sigmoid" | "Elu" | "Celu" | "Selu" | "Softplus"
        | "Mish" | "Gelu" | "Swish" | "SwiGLU" | "Sqrt" | "Div" | "Reciprocal" | "Softmax"
        | "LogSoftmax" | "Softsign" => 2,
        "Sin" | "Cos" | "Tan" | "Asin" | "Acos" | "Atan" | "Sinh" | "Cosh" | "Asinh" | "Acosh"
        | "Atanh" | "Cast" | "CastLike" | "QuantizeLinear" | "DequantizeLinear" => 16,
        "Pow" | "Mod" | "LRN" => 48,
        _ => 0,
    }
}

/// The functions of a node that goes element by element, for each element of what its inputs broadcast to.
fn of_functions(node: &Node, inputs: &[Option<CostedTensor<'_>>]) -> u64 {
    let first = inputs.first().copied().flatten();
    let is_float = first.is_none_or(|first| first.dtype.is_float());
    let wide = first.is_some_and(|first| first.dtype == DType::F64);
    let steps = match steps_of(&node.op) {
        0 => 0,
        // Binary64 takes polynomials of more terms, integers are divided in 128 bits.
        steps if wide || !is_float => steps.saturating_mul(16),
        steps => steps,
    };
    let per_element = steps * STEP;
    if per_element == 0 {
        return 0;
    }
    let shapes: Vec<&[usize]> = inputs.iter().flatten().map(|input| input.shape).collect();
    // Where they do not broadcast, the operator reads the first alone, or refuses them.
    let joined = broadcast_shape(&shapes).ok();
    let shape = joined.as_deref().or(first.map(|first| first.shape));
    let count = shape.and_then(elements).unwrap_or(usize::MAX);
    (count as u64).saturating_mul(per_element)
}
