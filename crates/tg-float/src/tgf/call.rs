//! One operator's call: its inputs, attributes and memory.

use super::error::{Budget, OpError, RunError};
use super::meter::{Meter, STEP, product};
use super::product::Prepared;
use super::real::Real;
use crate::convert;
use crate::graph::{Attribute, Graph, Node};
use crate::tensor::{DType, Data, Element, FloatTensor, RANK_MAX, TensorError, elements};
use std::cell::Cell;

/// A function that computes an operator.
pub(crate) type Kernel = fn(&Call<'_>) -> Results;

/// How an operator takes `f16` and `bf16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// It is given `f32` and its `f32` results are rounded to the type of the first half float among its inputs.
    Widen,
    /// It takes them as they are.
    Native,
}

/// A family's answer for an operator.
pub(crate) type Entry = (Kernel, Half);

/// A function that executes the body of a control operator: the values of the body's outputs within the budget.
pub(crate) type RunGraph =
    fn(&Graph, &[&FloatTensor], &Budget, &Meter) -> Result<Vec<FloatTensor>, RunError>;

/// What a call may take, and what executes its bodies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Means<'a> {
    pub(crate) budget: Budget,
    pub(crate) meter: &'a Meter,
    pub(crate) run: RunGraph,
}

/// A node with the values it reads.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) node: &'a Node,
    pub(crate) inputs: &'a [Option<&'a FloatTensor>],
    /// Bytes that may still be allocated.
    left: Cell<usize>,
    pub(crate) means: Means<'a>,
    /// Bytes that a text of a result may have.
    text: usize,
    /// What was made of its constants before.
    pub(super) prepared: Option<&'a Prepared>,
}

/// Results of an operator, in the order of its outputs; trailing ones that nobody asked for may be missing.
pub(crate) type Results = Result<Vec<FloatTensor>, OpError>;

impl<'a> Call<'a> {
    pub(crate) fn new(
        node: &'a Node,
        inputs: &'a [Option<&'a FloatTensor>],
        means: Means<'a>,
    ) -> Self {
        Self {
            node,
            inputs,
            left: Cell::new(means.budget.bytes),
            means,
            text: longest_text(node, inputs),
            prepared: None,
        }
    }

    // ------------------------------------------------------------ inputs

    /// An input, if it is given.
    pub(crate) fn optional(&self, index: usize) -> Option<&'a FloatTensor> {
        self.inputs.get(index).copied().flatten()
    }

    /// An input that must be given.
    pub(crate) fn input(&self, index: usize) -> Result<&'a FloatTensor, OpError> {
        self.optional(index).ok_or(OpError::Missing { index })
    }

    /// The elements of an input that must be given and have this type.
    pub(crate) fn values<T: Element>(&self, index: usize) -> Result<&'a [T], OpError> {
        let tensor = self.input(index)?;
        tensor.values().ok_or(OpError::Type {
            index,
            got: tensor.dtype(),
        })
    }

    /// The elements of an input that, if given, must have this type.
    pub(crate) fn optional_values<T: Element>(
        &self,
        index: usize,
    ) -> Result<Option<&'a [T]>, OpError> {
        match self.optional(index) {
            None => Ok(None),
            Some(_) => self.values(index).map(Some),
        }
    }

    /// The integers of an input that must be given (any integer type).
    pub(crate) fn integers(&self, index: usize) -> Result<Vec<i64>, OpError> {
        let tensor = self.input(index)?;
        convert::to_i64(tensor.data()).ok_or(OpError::Type {
            index,
            got: tensor.dtype(),
        })
    }

    /// The integers of an input, if it is given.
    pub(crate) fn optional_integers(&self, index: usize) -> Result<Option<Vec<i64>>, OpError> {
        match self.optional(index) {
            None => Ok(None),
            Some(_) => self.integers(index).map(Some),
        }
    }

    /// The only integer of an input, if it is given.
    pub(crate) fn optional_integer(&self, index: usize) -> Result<Option<i64>, OpError> {
        let Some(values) = self.optional_integers(index)? else {
            return Ok(None);
        };
        match values.as_slice() {
            [value] => Ok(Some(*value)),
            _ => Err(OpError::invalid("an input of one element has several")),
        }
    }

    /// An input as `f32`s, whatever its number type; for parameters such as scales.
    pub(crate) fn optional_floats(&self, index: usize) -> Result<Option<Vec<f32>>, OpError> {
        match self.optional(index) {
            None => Ok(None),
            Some(tensor) => convert::to_f32(tensor.data())
                .map(Some)
                .ok_or(OpError::Type {
                    index,
                    got: tensor.dtype(),
                }),
        }
    }

    /// An output is asked for.
    pub(crate) fn wants(&self, index: usize) -> bool {
        matches!(self.node.outputs.get(index), Some(Some(_)))
    }

    // ------------------------------------------------------------ attributes

    pub(crate) fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.node.attributes.get(name)
    }

    /// An integer attribute.
    pub(crate) fn int(&self, name: &'static str, default: i64) -> Result<i64, OpError> {
        Ok(self.optional_int(name)?.unwrap_or(default))
    }

    pub(crate) fn optional_int(&self, name: &'static str) -> Result<Option<i64>, OpError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Int(value)) => Ok(Some(*value)),
            Some(_) => Err(OpError::Attribute { name }),
        }
    }

    /// An attribute that is 0 or 1.
    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Result<bool, OpError> {
        Ok(self.int(name, default.into())? != 0)
    }

    /// A float attribute.
    pub(crate) fn float(&self, name: &'static str, default: f32) -> Result<f32, OpError> {
        Ok(self.optional_float(name)?.unwrap_or(default))
    }

    pub(crate) fn optional_float(&self, name: &'static str) -> Result<Option<f32>, OpError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Float(value)) => Ok(Some(*value)),
            Some(_) => Err(OpError::Attribute { name }),
        }
    }

    /// A list of integers, if the attribute is given.
    pub(crate) fn ints(&self, name: &'static str) -> Result<Option<&'a [i64]>, OpError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(_) => Err(OpError::Attribute { name }),
        }
    }

    /// A list of floats, if the attribute is given.
    pub(crate) fn floats(&self, name: &'static str) -> Result<Option<&'a [f32]>, OpError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Floats(values)) => Ok(Some(values)),
            Some(_) => Err(OpError::Attribute { name }),
        }
    }

    /// A text attribute.
    pub(crate) fn text(
        &self,
        name: &'static str,
        default: &'static str,
    ) -> Result<&'a str, OpError> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Text(bytes)) => {
                std::str::from_utf8(bytes).map_err(|_| OpError::Attribute { name })
            }
            Some(_) => Err(OpError::Attribute { name }),
        }
    }

    /// A list of texts, if the attribute is given.
    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<Vec<&'a str>>, OpError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Texts(list)) => {
                let texts = list.iter().map(|bytes| std::str::from_utf8(bytes));
                let texts: Result<Vec<&str>, _> = texts.collect();
                texts.map(Some).map_err(|_| OpError::Attribute { name })
            }
            Some(_) => Err(OpError::Attribute { name }),
        }
    }

    /// A tensor attribute, if it is given.
    pub(crate) fn tensor(&self, name: &'static str) -> Result<Option<&'a FloatTensor>, OpError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Tensor(tensor)) => Ok(Some(tensor)),
            Some(_) => Err(OpError::Attribute { name }),
        }
    }

    /// The list of integers of an input (newer versions) or an attribute (older ones).
    pub(crate) fn ints_at(
        &self,
        index: usize,
        name: &'static str,
    ) -> Result<Option<Vec<i64>>, OpError> {
        match self.ints(name)? {
            Some(values) => Ok(Some(values.to_vec())),
            None => self.optional_integers(index),
        }
    }

    // ------------------------------------------------------------ axes and memory

    /// An axis of a tensor with `rank` axes, counted from the end if negative.
    pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize, OpError> {
        let signed = rank as i64;
        let from_start = if axis < 0 { axis + signed } else { axis };
        if (0..signed).contains(&from_start) {
            Ok(from_start as usize)
        } else {
            Err(OpError::Axis { axis, rank })
        }
    }

    /// Distinct axes, in ascending order.
    pub(crate) fn axes(axes: &[i64], rank: usize) -> Result<Vec<usize>, OpError> {
        if axes.len() > RANK_MAX {
            // Before a rank that is counted from them: no tensor has so many.
            return Err(OpError::Tensor(TensorError::Rank(axes.len())));
        }
        let axes: Result<Vec<usize>, _> = axes.iter().map(|&a| Self::axis(a, rank)).collect();
        let mut axes = axes?;
        axes.sort_unstable();
        if axes.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(OpError::invalid("an axis is named twice"));
        }
        Ok(axes)
    }

    /// Takes memory for `count` elements from the budget, before it is allocated.
    pub(crate) fn reserve(&self, count: usize, dtype: DType) -> Result<(), OpError> {
        let bytes = count.saturating_mul(self.bytes(dtype));
        let left = self.left.get();
        if bytes > left {
            return Err(OpError::Memory { bytes, left });
        }
        self.means.meter.admit(count)?;
        self.left.set(left - bytes);
        Ok(())
    }

    /// Gives memory back to the budget, for scratch that was freed.
    pub(crate) fn release(&self, count: usize, dtype: DType) {
        let bytes = count.saturating_mul(self.bytes(dtype));
        self.left.set(self.left.get().saturating_add(bytes));
    }

    /// Bytes that an element of a result may take: a text is one of those that the node is given.
    const fn bytes(&self, dtype: DType) -> usize {
        match dtype {
            DType::String => dtype.bytes().saturating_add(self.text),
            other => other.bytes(),
        }
    }

    /// Takes memory for texts of this many bytes each.
    pub(crate) fn reserve_texts(&self, count: usize, bytes: usize) -> Result<(), OpError> {
        self.reserve(count.saturating_mul(bytes), DType::U8)
    }

    /// Takes units of work for as many multiply-adds as the product of these counts.
    pub(crate) fn charge(&self, counts: &[usize]) -> Result<(), OpError> {
        self.means.meter.charge(product(counts))
    }

    /// Takes units of work for as many steps as the product of these counts.
    pub(crate) fn charge_steps(&self, counts: &[usize]) -> Result<(), OpError> {
        let steps = product(counts);
        self.means.meter.charge(steps.saturating_mul(STEP))
    }

    /// Number of elements of a result of this shape and type, taken from the budget.
    pub(crate) fn reserve_shape(&self, shape: &[usize], dtype: DType) -> Result<usize, OpError> {
        let count = elements(shape).ok_or(OpError::Memory {
            bytes: usize::MAX,
            left: self.left.get(),
        })?;
        self.reserve(count, dtype)?;
        Ok(count)
    }

    /// Bytes still to be had.
    pub(crate) fn left(&self) -> usize {
        self.left.get()
    }

    /// A vector of a default value for a result of this shape.
    pub(crate) fn filled<T: Element>(&self, shape: &[usize], value: T) -> Result<Vec<T>, OpError> {
        let count = self.reserve_shape(shape, T::DTYPE)?;
        Ok(vec![value; count])
    }

    /// A vector of unspecified numbers for a result of this shape, all of which are then written.
    pub(super) fn buffer<R: Real>(&self, shape: &[usize]) -> Result<Vec<R>, OpError> {
        Ok(R::take(self.reserve_shape(shape, R::DTYPE)?))
    }

    /// Refuses with a reason.
    pub(crate) fn refuse<T>(&self, reason: &'static str) -> Result<T, OpError> {
        Err(OpError::Refused { reason })
    }

    /// An input has a type that the operator does not take here.
    pub(crate) fn wrong_type(&self, index: usize) -> OpError {
        match self.optional(index) {
            Some(tensor) => OpError::Type {
                index,
                got: tensor.dtype(),
            },
            None => OpError::Missing { index },
        }
    }
}

/// Bytes of the longest text that a node is given.
fn longest_text(node: &Node, inputs: &[Option<&FloatTensor>]) -> usize {
    let of_tensor = |tensor: &FloatTensor| match tensor.data() {
        Data::String(texts) => texts.iter().map(String::len).max().unwrap_or(0),
        _ => 0,
    };
    let of_attribute = |attribute: &Attribute| match attribute {
        Attribute::Text(text) => text.len(),
        Attribute::Texts(list) => list.iter().map(Vec::len).max().unwrap_or(0),
        Attribute::Tensor(tensor) => of_tensor(tensor),
        _ => 0,
    };
    let inputs = inputs.iter().flatten().map(|tensor| of_tensor(tensor));
    let attributes = node.attributes.values().map(of_attribute);
    inputs.chain(attributes).max().unwrap_or(0)
}

/// One result of Rust values.
pub(crate) fn one<T: Element>(shape: Vec<usize>, values: Vec<T>) -> Results {
    Ok(vec![tensor(shape, T::wrap(values))?])
}

/// A tensor, its elements checked against its shape.
pub(crate) fn tensor(shape: Vec<usize>, data: Data) -> Result<FloatTensor, OpError> {
    FloatTensor::new(shape, data).map_err(OpError::Tensor)
}
