//! What an operator says of itself, and what it is told when it is asked.

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::reach::{self, Interval, LinearReads};
use crate::limits::{BIAS_MAX, WEIGHT_MAX};
use crate::shape::{ElementType, Shape, TensorId, Tensors};

/// Where the type of an output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeRule {
    /// The operator.
    Fixed(ElementType),
    /// It is that of an input.
    SameAs(TensorId),
}

/// An operator of one tensor that is told how by a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unary<Rule> {
    /// Any tensor; activations for `Norm`.
    pub input: TensorId,
    /// The rule.
    pub how: Rule,
}

/// What an operator says of itself: one implementation for each, in the file of its family.
///
/// Each answer is about one node; the walks over a program that ask for it are [`crate::check`], [`crate::bounds`],
/// [`crate::range`], [`crate::causality`] and [`crate::scalar`]. The canonical encoding is `Encode` and `Decode`.
pub(crate) trait Operator {
    /// The name in messages and reports.
    fn name(&self) -> &'static str;

    /// The tensors it reads.
    fn inputs(&self) -> Vec<TensorId>;

    /// Where the type of its output comes from.
    fn output_type(&self) -> TypeRule;

    /// Whether accumulators may be read.
    fn takes_accumulators(&self) -> bool {
        true
    }

    /// Whether it has weights.
    fn has_weights(&self) -> bool {
        false
    }

    /// Whether it has a bias per output channel beside its weights.
    fn has_bias(&self) -> bool {
        false
    }

    /// An input of a type that does not go with the others'.
    fn mistyped(&self, _kinds: &dyn Fn(TensorId) -> ElementType) -> Option<TensorId> {
        None
    }

    /// An attribute that is out of range.
    fn fault(&self, _site: &Site<'_>) -> Option<&'static str> {
        None
    }

    /// The shape it gives for its inputs; what is the node's own to state (channels of a node with weights, k of the
    /// greatest elements) is taken from `stated`.
    fn shape(&self, stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape>;

    /// Lengths of the axes of its weights; see [`crate::Program::weight_axes`].
    fn weight_axes(
        &self,
        _output: Shape,
        _shapes: &dyn Fn(TensorId) -> Shape,
    ) -> Option<[usize; 3]> {
        None
    }

    /// Products of one output element.
    fn reduction(&self, _shapes: &dyn Fn(TensorId) -> Shape) -> usize {
        0
    }

    /// How often one output element looks at values, at most, beside those that weights multiply; a row that is sorted is looked at as often as
    /// it is compared. By this the work of a tile is bounded where it multiplies nothing.
    fn looks(&self, _shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        self.inputs().len() as u64
    }

    /// The greatest absolute value of its output, for all admissible weights and inputs.
    fn magnitude(&self, before: &Magnitudes<'_>) -> i64;

    /// The least and greatest value of its output, for all admissible weights and inputs.
    fn interval(&self, before: &Intervals<'_>) -> Interval {
        [-before.magnitude, before.magnitude]
    }

    /// The inputs that rows of weights are multiplied with; `None` if weights are no factors.
    fn linear_reads(&self) -> Option<LinearReads> {
        None
    }

    /// Per channel of the output, or one for all, the least and greatest value for given weights.
    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval>;

    /// Intervals that [`Self::reach`] gives beyond those it reads.
    fn intervals_written(&self, _output: Shape) -> usize {
        0
    }

    /// Per element of the output the latest input pixel that it may depend on.
    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest;

    /// Window positions that [`Self::latest`] looks at.
    fn positions_read(&self, _output: Shape) -> u64 {
        0
    }

    /// The value of one output element.
    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64;
}

/// Where a node stands, for its attributes: what it states, and what is known of the tensors before it.
pub(crate) struct Site<'a> {
    pub(crate) tensors: &'a dyn Tensors,
    /// The shape that the node states.
    pub(crate) stated: Shape,
    /// Per tensor the greatest absolute value of an element.
    pub(crate) magnitudes: &'a [i64],
    /// Per tensor the type of its elements.
    pub(crate) types: &'a [ElementType],
}

impl Site<'_> {
    pub(crate) fn shape(&self, tensor: TensorId) -> Shape {
        self.tensors.shape(tensor)
    }

    pub(crate) fn magnitude(&self, tensor: TensorId) -> i64 {
        self.magnitudes[tensor.index()]
    }

    /// Whether a constant is within the type of a tensor.
    pub(crate) fn fits(&self, tensor: TensorId, value: i16) -> bool {
        match self.types[tensor.index()] {
            ElementType::I8 => i8::try_from(value).is_ok(),
            ElementType::I16 | ElementType::I32 => value != i16::MIN,
        }
    }
}

/// The greatest absolute values of the tensors before a node.
pub(crate) struct Magnitudes<'a> {
    pub(crate) tensors: &'a dyn Tensors,
    pub(crate) known: &'a [i64],
}

impl Magnitudes<'_> {
    pub(crate) fn of(&self, tensor: TensorId) -> i64 {
        self.known[tensor.index()]
    }

    pub(crate) fn shape(&self, tensor: TensorId) -> Shape {
        self.tensors.shape(tensor)
    }
}

/// The least and greatest values of the tensors before a node, and the greatest absolute value of its output.
pub(crate) struct Intervals<'a> {
    pub(crate) tensors: &'a dyn Tensors,
    pub(crate) known: &'a [Interval],
    pub(crate) magnitude: i64,
}

impl Intervals<'_> {
    pub(crate) fn of(&self, tensor: TensorId) -> Interval {
        self.known[tensor.index()]
    }

    pub(crate) fn shape(&self, tensor: TensorId) -> Shape {
        self.tensors.shape(tensor)
    }

    /// The smallest interval around those of several tensors.
    pub(crate) fn hull(&self, tensors: &[TensorId]) -> Interval {
        let all = tensors.iter().map(|&tensor| self.of(tensor));
        let around = |a: Interval, b: Interval| [a[0].min(b[0]), a[1].max(b[1])];
        all.reduce(around)
            .unwrap_or([-self.magnitude, self.magnitude])
    }
}

/// The first of several tensors whose type is not that of the first.
pub(crate) fn differing(
    tensors: &[TensorId],
    kinds: &dyn Fn(TensorId) -> ElementType,
) -> Option<TensorId> {
    let first = kinds(*tensors.first()?);
    tensors.iter().copied().find(|&id| kinds(id) != first)
}

/// The shape of several tensors, if they have one.
pub(crate) fn common_shape(
    tensors: &[TensorId],
    shapes: &dyn Fn(TensorId) -> Shape,
) -> Option<Shape> {
    let first = shapes(*tensors.first()?);
    tensors
        .iter()
        .all(|&id| shapes(id) == first)
        .then_some(first)
}

/// The greatest absolute value of a bias and so many products of weights and activations.
pub(crate) fn of_weighted_sum(products: usize, activation: i64) -> i64 {
    i64::try_from(products)
        .unwrap_or(i64::MAX)
        .saturating_mul(i64::from(WEIGHT_MAX))
        .saturating_mul(activation)
        .saturating_add(i64::from(BIAS_MAX))
}
