//! Products of two tensors of activations.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Magnitudes, Operator, TypeRule};
use super::reach::{self, Interval};
use super::softmax::row_sum;
use crate::encoding::flag;
use crate::shape::{ElementType, Shape, TensorId};

/// Product of matrices, one per row of the tensors: `a(g, m, n) = sum over k of left(g, m, k) * right(g / r, n, k)`
/// if transposed, else `right(g / r, k, n)`, with r = rows of left / rows of right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatMul {
    /// Activations, left and right; their types may differ.
    pub inputs: [TensorId; 2],
    /// Whether the right tensor holds its matrices with k innermost.
    pub transposed: bool,
}

impl Operator for MatMul {
    fn name(&self) -> &'static str {
        "MatMul"
    }

    fn inputs(&self) -> Vec<TensorId> {
        self.inputs.to_vec()
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I32)
    }

    fn takes_accumulators(&self) -> bool {
        false
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        let [left, right] = self.inputs.map(shapes);
        let (inner, columns) = if self.transposed {
            (right.channels, right.width)
        } else {
            (right.width, right.channels)
        };
        (left.height.is_multiple_of(right.height) && left.channels == inner)
            .then(|| Shape::new(left.height, left.width, columns))
    }

    fn reduction(&self, shapes: &dyn Fn(TensorId) -> Shape) -> usize {
        shapes(self.inputs[0]).channels as usize
    }

    fn looks(&self, shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        2 * u64::from(shapes(self.inputs[0]).channels)
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        row_sum(self.inputs[0], before).saturating_mul(before.of(self.inputs[1]))
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        let [a, b] = self.inputs.map(|input| reach::hull(reads.of(input)));
        let terms = i64::from(reads.shape(self.inputs[0]).channels);
        let [low, high] = reach::product(a, b);
        vec![[low * terms, high * terms]]
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.multiplied(self.inputs, self.transposed, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let [left, right] = self.inputs;
        let repeated = reads.shape(left).height / reads.shape(right).height;
        let product = |k: u32| {
            let (column, channel) = if self.transposed {
                (at.channel, k)
            } else {
                (k, at.channel)
            };
            let other = Place {
                row: at.row / repeated,
                column,
                channel,
                ..at
            };
            reads.at(left, Place { channel: k, ..at }) * reads.at(right, other)
        };
        (0..reads.shape(left).channels).map(product).sum()
    }
}

impl Encode for MatMul {
    fn encode(&self, writer: &mut Writer) {
        let Self { inputs, transposed } = self;
        inputs.iter().for_each(|input| input.encode(writer));
        writer.u8(u8::from(*transposed));
    }
}

impl Decode for MatMul {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            inputs: [TensorId::decode(reader)?, TensorId::decode(reader)?],
            transposed: flag(reader, "transposed flag")?,
        })
    }
}
