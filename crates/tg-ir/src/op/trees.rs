//! Sums of decision trees; their encoding is [`crate::forest`].

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Magnitudes, Operator, Site, TypeRule};
use super::reach::{self, Interval};
use crate::forest::Forest;
use crate::shape::{ElementType, Shape, TensorId};

/// Decision trees over the channels: `a(o) = bias[o] + sum over trees of leaf(o)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trees {
    /// Activations, one pixel.
    pub input: TensorId,
    /// The trees.
    pub forest: Forest,
}

impl Operator for Trees {
    fn name(&self) -> &'static str {
        "Trees"
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

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        let features = site.shape(self.input).channels as usize;
        (!self.forest.is_valid(features)).then_some("forest")
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        let outputs = u32::try_from(self.forest.outputs()).ok()?;
        (shapes(self.input).pixels() == 1).then(|| Shape::vector(outputs))
    }

    fn looks(&self, _shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        self.forest.steps()
    }

    fn magnitude(&self, _before: &Magnitudes<'_>) -> i64 {
        self.forest.magnitude()
    }

    fn reach(&self, _reads: &reach::Reads<'_>) -> Vec<Interval> {
        let magnitude = self.forest.magnitude();
        vec![[-magnitude, magnitude]]
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.all_of(self.input, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let forest = &self.forest;
        let feature = |feature| reads.value(self.input, feature);
        let leaf = |tree| forest.leaf(tree, feature);
        let of = |tree| i64::from(forest.leaves[leaf(tree) * forest.outputs() + at.element]);
        i64::from(forest.bias[at.element]) + (0..forest.roots.len()).map(of).sum::<i64>()
    }
}

impl Encode for Trees {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, forest } = self;
        input.encode(writer);
        forest.encode(writer);
    }
}

impl Decode for Trees {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            forest: Forest::decode(reader)?,
        })
    }
}
