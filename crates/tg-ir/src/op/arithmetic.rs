//! Weighted sums and products, element by element.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Intervals, Magnitudes, Operator, Site, TypeRule, common_shape};
use super::reach::{self, Interval};
use crate::rescale::MULTIPLIER_MAX;
use crate::shape::{ElementType, Shape, TensorId};

/// Most terms of a weighted sum.
pub const TERMS_MAX: usize = 8;

/// Weighted sum of tensors of one shape: `a = bias + sum over t of multipliers[t] * in_t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Add {
    /// 1 to [`TERMS_MAX`] tensors of any type, also different ones.
    pub inputs: Vec<TensorId>,
    /// One factor per tensor, not 0, absolute value below 2^15.
    pub multipliers: Vec<i32>,
    /// A constant.
    pub bias: i32,
}

impl Add {
    /// Tensors and their factors.
    fn terms(&self) -> impl Iterator<Item = (TensorId, i64)> {
        let factors = self.multipliers.iter().map(|&factor| i64::from(factor));
        self.inputs.iter().copied().zip(factors)
    }
}

impl Operator for Add {
    fn name(&self) -> &'static str {
        "Add"
    }

    fn inputs(&self) -> Vec<TensorId> {
        self.inputs.clone()
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I32)
    }

    fn fault(&self, _site: &Site<'_>) -> Option<&'static str> {
        let in_range = |m: &i32| *m != 0 && m.unsigned_abs() <= MULTIPLIER_MAX;
        let counted = (1..=TERMS_MAX).contains(&self.inputs.len());
        let valid = counted
            && self.multipliers.len() == self.inputs.len()
            && self.multipliers.iter().all(in_range);
        (!valid).then_some("multiplier")
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        common_shape(&self.inputs, shapes)
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        let terms = self
            .terms()
            .map(|(id, m)| before.of(id).saturating_mul(m.abs()));
        terms.fold(i64::from(self.bias).abs(), i64::saturating_add)
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        let mut ends = [i64::from(self.bias); 2];
        for (input, factor) in self.terms() {
            let scaled = before.of(input).map(|end| end.saturating_mul(factor));
            ends[0] = ends[0].saturating_add(scaled[0].min(scaled[1]));
            ends[1] = ends[1].saturating_add(scaled[0].max(scaled[1]));
        }
        ends
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        let of_channel = |channel| {
            self.terms()
                .fold([i64::from(self.bias); 2], |[low, high], (input, m)| {
                    let [least, greatest] = reach::product(reads.at(input, channel), [m; 2]);
                    [low + least, high + greatest]
                })
        };
        (0..reads.width(&self.inputs)).map(of_channel).collect()
    }

    fn latest(&self, reads: &latest::Reads<'_>, _output: Shape) -> Latest {
        reads.added(&self.inputs, self.bias)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let terms = self.terms();
        let products = terms.map(|(input, m)| reads.element(input, at.element) * m);
        i64::from(self.bias) + products.sum::<i64>()
    }
}

impl Encode for Add {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            inputs,
            multipliers,
            bias,
        } = self;
        writer.seq(inputs);
        multipliers.iter().for_each(|&value| writer.i32(value));
        writer.i32(*bias);
    }
}

impl Decode for Add {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let inputs: Vec<TensorId> = reader.seq("terms", TERMS_MAX, 4)?;
        let multipliers = inputs.iter().map(|_| reader.i32());
        Ok(Self {
            multipliers: multipliers.collect::<Result<_, _>>()?,
            bias: reader.i32()?,
            inputs,
        })
    }
}

/// Product element by element: `a = in_0 * in_1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mul {
    /// Two activation tensors of one shape; their types may differ.
    pub inputs: [TensorId; 2],
}

impl Operator for Mul {
    fn name(&self) -> &'static str {
        "Mul"
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
        common_shape(&self.inputs, shapes)
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        let [a, b] = self.inputs.map(|input| before.of(input));
        a.saturating_mul(b)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        let of_channel = |channel| {
            let [a, b] = self.inputs.map(|input| reads.at(input, channel));
            reach::product(a, b)
        };
        (0..reads.width(&self.inputs)).map(of_channel).collect()
    }

    fn latest(&self, reads: &latest::Reads<'_>, _output: Shape) -> Latest {
        reads.product(self.inputs)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let [a, b] = self.inputs.map(|input| reads.element(input, at.element));
        a * b
    }
}

impl Encode for Mul {
    fn encode(&self, writer: &mut Writer) {
        let Self { inputs } = self;
        inputs.iter().for_each(|input| input.encode(writer));
    }
}

impl Decode for Mul {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let inputs = [TensorId::decode(reader)?, TensorId::decode(reader)?];
        Ok(Self { inputs })
    }
}
