//! The value of one element, operator by operator; [`crate::scalar`] asks for a program.

use crate::shape::{Axis, Shape, TensorId, Tensors};

/// What a node reads: its weights, its own or those it is tied to, and its bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeWeights<'a> {
    /// See `LinearWeights::weights`; never empty for a tied node.
    pub weights: &'a [i8],
    /// See `LinearWeights::bias`.
    pub bias: &'a [i32],
}

/// Where an element lies.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// In storage order (row, column, channel) of the node's output.
    pub(crate) element: usize,
    pub(crate) row: u32,
    pub(crate) column: u32,
    pub(crate) channel: u32,
}

impl Place {
    pub(crate) fn of(shape: Shape, element: usize) -> Self {
        let channels = shape.channels as usize;
        let (pixel, channel) = (element / channels, element % channels);
        let narrow = |value: usize| u32::try_from(value).expect("an axis fits 32 bits");
        let width = shape.width as usize;
        Self {
            element,
            row: narrow(pixel / width),
            column: narrow(pixel % width),
            channel: narrow(channel),
        }
    }

    pub(crate) const fn with(mut self, axis: Axis, index: u32) -> Self {
        match axis {
            Axis::Rows => self.row = index,
            Axis::Columns => self.column = index,
            Axis::Channels => self.channel = index,
        }
        self
    }

    pub(crate) const fn along(&self, axis: Axis) -> u32 {
        match axis {
            Axis::Rows => self.row,
            Axis::Columns => self.column,
            Axis::Channels => self.channel,
        }
    }
}

/// The elements of tensors, widened to 32 bits.
pub trait ElementValues {
    /// An element of a tensor in storage order.
    fn value(&self, tensor: TensorId, element: usize) -> i32;

    /// The sum of products of weights with as many elements of a tensor, from `first` on.
    fn dot(&self, tensor: TensorId, first: usize, weights: &[i8]) -> i64 {
        let terms = (first..).zip(weights);
        terms
            .map(|(element, &weight)| i64::from(self.value(tensor, element)) * i64::from(weight))
            .sum()
    }
}

/// All of them; index 0 is the input.
impl ElementValues for &[Vec<i32>] {
    fn value(&self, tensor: TensorId, element: usize) -> i32 {
        self[tensor.index()][element]
    }
}

/// The tensors and weights that a node reads.
pub(crate) struct Reads<'a> {
    pub(crate) tensors: &'a dyn Tensors,
    pub(crate) values: &'a dyn ElementValues,
    /// The shape of the node's output.
    pub(crate) output: Shape,
    pub(crate) layer: Option<NodeWeights<'a>>,
}

impl Reads<'_> {
    pub(crate) fn shape(&self, tensor: TensorId) -> Shape {
        self.tensors.shape(tensor)
    }

    /// The shape of the node's output.
    pub(crate) fn output(&self) -> Shape {
        self.output
    }

    /// The node's weights.
    pub(crate) fn layer(&self) -> NodeWeights<'_> {
        self.layer.expect("a node with weights has some")
    }

    /// The sum of products of weights with as many elements of a tensor, from `first` on.
    pub(crate) fn dot(&self, tensor: TensorId, first: usize, weights: &[i8]) -> i64 {
        self.values.dot(tensor, first, weights)
    }

    /// The element of a tensor at a row, column and channel.
    pub(crate) fn at(&self, tensor: TensorId, place: Place) -> i64 {
        let shape = self.shape(tensor);
        let pixel = place.row as usize * shape.width as usize + place.column as usize;
        self.element(
            tensor,
            pixel * shape.channels as usize + place.channel as usize,
        )
    }

    /// An element of a tensor in storage order.
    pub(crate) fn value(&self, tensor: TensorId, element: usize) -> i32 {
        self.values.value(tensor, element)
    }

    /// The same, widened.
    pub(crate) fn element(&self, tensor: TensorId, element: usize) -> i64 {
        i64::from(self.values.value(tensor, element))
    }

    /// All channels of the pixel of a place.
    pub(crate) fn row(&self, tensor: TensorId, place: Place) -> Vec<i64> {
        (0..self.shape(tensor).channels)
            .map(|channel| self.at(tensor, Place { channel, ..place }))
            .collect()
    }
}
