//! Fully connected layers.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Magnitudes, Operator, TypeRule, of_weighted_sum};
use super::reach::{self, Interval, LinearReads};
use crate::shape::{ElementType, Shape, TensorId};

/// Fully connected: `a(o) = bias[o] + sum over pixels p, channels i of w[o, p, i] * in(p, i)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dense {
    /// Activations.
    pub input: TensorId,
}

impl Dense {
    /// Lengths of the axes of its weights.
    const fn axes(output: Shape, input: Shape) -> [usize; 3] {
        let outputs = output.channels as usize;
        [outputs, input.pixels(), input.channels as usize]
    }

    /// What rows of its weights are multiplied with.
    const fn linear(&self) -> LinearReads {
        LinearReads {
            input: self.input,
            groups: 1,
            padding: None,
        }
    }
}

impl Operator for Dense {
    fn name(&self) -> &'static str {
        "Dense"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I32)
    }

    fn takes_accumulators(&self) -> bool {
        false
    }

    fn has_weights(&self) -> bool {
        true
    }

    fn has_bias(&self) -> bool {
        true
    }

    fn shape(&self, stated: Shape, _shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        Some(Shape::vector(stated.channels))
    }

    fn weight_axes(&self, output: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<[usize; 3]> {
        Some(Self::axes(output, shapes(self.input)))
    }

    fn reduction(&self, shapes: &dyn Fn(TensorId) -> Shape) -> usize {
        shapes(self.input).elements()
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        let products = self.reduction(&|id| before.shape(id));
        of_weighted_sum(products, before.of(self.input))
    }

    fn linear_reads(&self) -> Option<LinearReads> {
        Some(self.linear())
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        reads.weighted(
            Self::axes(reads.output(), reads.shape(self.input)),
            self.linear(),
        )
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.all_of(self.input, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let inputs = reads.shape(self.input).elements();
        let layer = reads.layer();
        let row = &layer.weights[at.element * inputs..][..inputs];
        i64::from(layer.bias[at.element]) + reads.dot(self.input, 0, row)
    }
}

impl Encode for Dense {
    fn encode(&self, writer: &mut Writer) {
        let Self { input } = self;
        input.encode(writer);
    }
}

impl Decode for Dense {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let input = TensorId::decode(reader)?;
        Ok(Self { input })
    }
}
