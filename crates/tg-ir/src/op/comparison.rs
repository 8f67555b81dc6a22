//! Comparisons of two tensors, element by element, and what is chosen by them.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Intervals, Magnitudes, Operator, TypeRule, common_shape, differing};
use super::reach::{self, Interval};
use crate::encoding::tags;
use crate::shape::{ElementType, Shape, TensorId};

/// Which of two elements is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extreme {
    /// The greater one.
    Greater,
    /// The lesser one.
    Lesser,
}

/// A relation of two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `a == b`.
    Equal,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    GreaterOrEqual,
}

tags!(Extreme, "extremum", Extreme::Greater => 0, Extreme::Lesser => 1);
tags!(Relation, "relation", Relation::Equal => 0, Relation::Greater => 1, Relation::GreaterOrEqual => 2);

/// The greater or lesser of two tensors, element by element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extremum {
    /// Two tensors of any one type and one shape.
    pub inputs: [TensorId; 2],
    /// Which.
    pub which: Extreme,
}

/// 1 where the relation holds, 0 elsewhere, as i8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// Two tensors of any one type and one shape.
    pub inputs: [TensorId; 2],
    /// The relation.
    pub relation: Relation,
}

/// `condition != 0 ? in_0 : in_1`, element by element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// An i8 tensor.
    pub condition: TensorId,
    /// Two tensors of any one type, all of one shape.
    pub inputs: [TensorId; 2],
}

impl Operator for Extremum {
    fn name(&self) -> &'static str {
        "Extremum"
    }

    fn inputs(&self) -> Vec<TensorId> {
        self.inputs.to_vec()
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::SameAs(self.inputs[0])
    }

    fn mistyped(&self, kinds: &dyn Fn(TensorId) -> ElementType) -> Option<TensorId> {
        differing(&self.inputs, kinds)
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        common_shape(&self.inputs, shapes)
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        let [a, b] = self.inputs.map(|input| before.of(input));
        a.max(b)
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        before.hull(&self.inputs)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        reads.hulls(&self.inputs)
    }

    fn latest(&self, reads: &latest::Reads<'_>, _output: Shape) -> Latest {
        reads.joined(&self.inputs)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let [a, b] = self.inputs.map(|input| reads.element(input, at.element));
        match self.which {
            Extreme::Greater => a.max(b),
            Extreme::Lesser => a.min(b),
        }
    }
}

impl Operator for Compare {
    fn name(&self) -> &'static str {
        "Compare"
    }

    fn inputs(&self) -> Vec<TensorId> {
        self.inputs.to_vec()
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I8)
    }

    fn mistyped(&self, kinds: &dyn Fn(TensorId) -> ElementType) -> Option<TensorId> {
        differing(&self.inputs, kinds)
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        common_shape(&self.inputs, shapes)
    }

    fn magnitude(&self, _before: &Magnitudes<'_>) -> i64 {
        1
    }

    fn interval(&self, _before: &Intervals<'_>) -> Interval {
        [0, 1]
    }

    fn reach(&self, _reads: &reach::Reads<'_>) -> Vec<Interval> {
        vec![[0, 1]]
    }

    fn latest(&self, reads: &latest::Reads<'_>, _output: Shape) -> Latest {
        reads.joined(&self.inputs)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let [a, b] = self.inputs.map(|input| reads.element(input, at.element));
        i64::from(match self.relation {
            Relation::Equal => a == b,
            Relation::Greater => a > b,
            Relation::GreaterOrEqual => a >= b,
        })
    }
}

impl Operator for Select {
    fn name(&self) -> &'static str {
        "Select"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.condition, self.inputs[0], self.inputs[1]]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::SameAs(self.inputs[0])
    }

    fn mistyped(&self, kinds: &dyn Fn(TensorId) -> ElementType) -> Option<TensorId> {
        let is_bool = kinds(self.condition) == ElementType::I8;
        differing(&self.inputs, kinds).or_else(|| (!is_bool).then_some(self.condition))
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        common_shape(&Operator::inputs(self), shapes)
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        let [a, b] = self.inputs.map(|input| before.of(input));
        a.max(b)
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        before.hull(&self.inputs)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        reads.hulls(&self.inputs)
    }

    fn latest(&self, reads: &latest::Reads<'_>, _output: Shape) -> Latest {
        reads.joined(&Operator::inputs(self))
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let first = reads.element(self.condition, at.element) != 0;
        reads.element(self.inputs[usize::from(!first)], at.element)
    }
}

impl Encode for Extremum {
    fn encode(&self, writer: &mut Writer) {
        let Self { inputs, which } = self;
        inputs.iter().for_each(|input| input.encode(writer));
        which.encode(writer);
    }
}

impl Decode for Extremum {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            inputs: [TensorId::decode(reader)?, TensorId::decode(reader)?],
            which: Extreme::decode(reader)?,
        })
    }
}

impl Encode for Compare {
    fn encode(&self, writer: &mut Writer) {
        let Self { inputs, relation } = self;
        inputs.iter().for_each(|input| input.encode(writer));
        relation.encode(writer);
    }
}

impl Decode for Compare {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            inputs: [TensorId::decode(reader)?, TensorId::decode(reader)?],
            relation: Relation::decode(reader)?,
        })
    }
}

impl Encode for Select {
    fn encode(&self, writer: &mut Writer) {
        let Self { condition, inputs } = self;
        condition.encode(writer);
        inputs.iter().for_each(|input| input.encode(writer));
    }
}

impl Decode for Select {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            condition: TensorId::decode(reader)?,
            inputs: [TensorId::decode(reader)?, TensorId::decode(reader)?],
        })
    }
}
