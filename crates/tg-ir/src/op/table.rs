//! Tensors and tables of weights that nothing is multiplied with.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Magnitudes, Operator, Site, TypeRule};
use super::reach::{self, Interval};
use crate::limits::WEIGHT_MAX;
use crate::shape::{Axis, ElementType, Shape, TensorId};

/// A tensor of weights, as i8 activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter;

impl Operator for Parameter {
    fn name(&self) -> &'static str {
        "Parameter"
    }

    fn inputs(&self) -> Vec<TensorId> {
        Vec::new()
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I8)
    }

    fn has_weights(&self) -> bool {
        true
    }

    fn shape(&self, stated: Shape, _shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        Some(stated)
    }

    fn weight_axes(
        &self,
        output: Shape,
        _shapes: &dyn Fn(TensorId) -> Shape,
    ) -> Option<[usize; 3]> {
        Some([output.pixels(), 1, output.channels as usize])
    }

    fn magnitude(&self, _before: &Magnitudes<'_>) -> i64 {
        i64::from(WEIGHT_MAX)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        reads.weights()
    }

    fn latest(&self, _reads: &latest::Reads<'_>, output: Shape) -> Latest {
        vec![0; output.elements()]
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        i64::from(reads.layer().weights[at.element])
    }
}

impl Encode for Parameter {
    fn encode(&self, _writer: &mut Writer) {}
}

impl Decode for Parameter {
    fn decode(_reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

/// Rows of a table of weights: `z(y, x, c) = w[min(max(in(y, x), 0), rows - 1)][c]`, i8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embed {
    /// Any tensor with one channel.
    pub input: TensorId,
    /// Rows of the table.
    pub rows: u32,
}

impl Operator for Embed {
    fn name(&self) -> &'static str {
        "Embed"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I8)
    }

    fn has_weights(&self) -> bool {
        true
    }

    fn fault(&self, _site: &Site<'_>) -> Option<&'static str> {
        (self.rows == 0 || self.rows > 1 << 20).then_some("number of rows")
    }

    fn shape(&self, stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        let input = shapes(self.input);
        (input.channels == 1).then(|| input.with_axis(Axis::Channels, stated.channels))
    }

    fn weight_axes(
        &self,
        output: Shape,
        _shapes: &dyn Fn(TensorId) -> Shape,
    ) -> Option<[usize; 3]> {
        Some([self.rows as usize, 1, output.channels as usize])
    }

    fn magnitude(&self, _before: &Magnitudes<'_>) -> i64 {
        i64::from(WEIGHT_MAX)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        reads.weights()
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.by_row(self.input, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let row = reads.at(self.input, Place { channel: 0, ..at });
        let row = usize::try_from(row.clamp(0, i64::from(self.rows) - 1)).expect("clamped");
        let channels = reads.output().channels as usize;
        i64::from(reads.layer().weights[row * channels + at.channel as usize])
    }
}

impl Encode for Embed {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, rows } = self;
        input.encode(writer);
        writer.u32(*rows);
    }
}

impl Decode for Embed {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            rows: reader.u32()?,
        })
    }
}
