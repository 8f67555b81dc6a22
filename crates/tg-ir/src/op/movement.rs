//! Elements moved, repeated, left out, joined or surrounded.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Intervals, Magnitudes, Operator, Site, TypeRule, Unary, differing};
use super::reach::{self, Interval};
use crate::shape::{AXIS_MAX, Axis, ElementType, Shape, TensorId};
use crate::view::View;

/// Elements moved, repeated or left out; [`View`] says which input element each output element is.
impl Operator for Unary<View> {
    fn name(&self) -> &'static str {
        "View"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::SameAs(self.input)
    }

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        let inside = self.how.is_valid(site.shape(self.input).elements());
        let is_whole = self.how.elements() == Some(site.stated.elements() as u64);
        (!inside || !is_whole).then_some("view")
    }

    fn shape(&self, stated: Shape, _shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        Some(stated)
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        before.of(self.input)
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        before.of(self.input)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        vec![reach::hull(reads.of(self.input))]
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        let latest = reads.tensor(self.input);
        let source = |element| latest[self.how.source(element)];
        (0..output.elements()).map(source).collect()
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        reads.element(self.input, self.how.source(at.element))
    }
}

impl Encode for Unary<View> {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, how } = self;
        input.encode(writer);
        how.encode(writer);
    }
}

impl Decode for Unary<View> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            how: View::decode(reader)?,
        })
    }
}

/// Most tensors of a concatenation.
pub const CONCAT_MAX: usize = 256;

/// Tensors one after the other along an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concat {
    /// 1 to [`CONCAT_MAX`] tensors of any one type, alike but for the axis.
    pub inputs: Vec<TensorId>,
    /// The axis along which they follow each other.
    pub axis: Axis,
}

impl Operator for Concat {
    fn name(&self) -> &'static str {
        "Concat"
    }

    fn inputs(&self) -> Vec<TensorId> {
        self.inputs.clone()
    }

    fn output_type(&self) -> TypeRule {
        let first = self.inputs.first();
        first.map_or(TypeRule::Fixed(ElementType::I8), |&input| {
            TypeRule::SameAs(input)
        })
    }

    fn mistyped(&self, kinds: &dyn Fn(TensorId) -> ElementType) -> Option<TensorId> {
        differing(&self.inputs, kinds)
    }

    fn fault(&self, _site: &Site<'_>) -> Option<&'static str> {
        let counted = (1..=CONCAT_MAX).contains(&self.inputs.len());
        (!counted).then_some("number of concatenated tensors")
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        let first = shapes(*self.inputs.first()?);
        let mut length = 0u32;
        for shape in self.inputs.iter().map(|&input| shapes(input)) {
            if shape.with_axis(self.axis, 1) != first.with_axis(self.axis, 1) {
                return None;
            }
            length = length.checked_add(shape.axis(self.axis))?;
        }
        Some(first.with_axis(self.axis, length))
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        let all = self.inputs.iter().map(|&input| before.of(input));
        all.max().unwrap_or(0)
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        before.hull(&self.inputs)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        if self.axis != Axis::Channels {
            return reads.hulls(&self.inputs);
        }
        let of_input = |&input: &TensorId| {
            let channels = reads.shape(input).channels as usize;
            (0..channels).map(move |channel| reads.at(input, channel))
        };
        self.inputs.iter().flat_map(of_input).collect()
    }

    fn intervals_written(&self, output: Shape) -> usize {
        match self.axis {
            Axis::Channels => output.channels as usize,
            Axis::Rows | Axis::Columns => 0,
        }
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.concatenated(&self.inputs, self.axis, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let mut index = at.along(self.axis);
        for &input in &self.inputs {
            let length = reads.shape(input).axis(self.axis);
            if index < length {
                return reads.at(input, at.with(self.axis, index));
            }
            index -= length;
        }
        unreachable!("the output is as long as its parts together")
    }
}

impl Encode for Concat {
    fn encode(&self, writer: &mut Writer) {
        let Self { inputs, axis } = self;
        writer.seq(inputs);
        axis.encode(writer);
    }
}

impl Decode for Concat {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            inputs: reader.seq("concatenated tensors", CONCAT_MAX, 4)?,
            axis: Axis::decode(reader)?,
        })
    }
}

/// A constant border.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pad {
    /// Any tensor.
    pub input: TensorId,
    /// Elements before: rows, columns, channels.
    pub before: [u32; 3],
    /// Elements after.
    pub after: [u32; 3],
    /// Their value, within the input's type.
    pub value: i16,
}

impl Operator for Pad {
    fn name(&self) -> &'static str {
        "Pad"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::SameAs(self.input)
    }

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        (!site.fits(self.input, self.value)).then_some("padding value")
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        let Shape {
            height,
            width,
            channels,
        } = shapes(self.input);
        let side = |axis: usize, length: u32| {
            length
                .checked_add(self.before[axis])?
                .checked_add(self.after[axis])
        };
        Some(Shape::new(
            side(0, height)?,
            side(1, width)?,
            side(2, channels)?,
        ))
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        before.of(self.input).max(i64::from(self.value).abs())
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        with_value(before.of(self.input), self.value)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        vec![with_value(reach::hull(reads.of(self.input)), self.value)]
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.padded(self.input, self.before, self.value, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let shape = reads.shape(self.input);
        let source = [Axis::Rows, Axis::Columns, Axis::Channels]
            .into_iter()
            .zip(self.before)
            .try_fold(at, |at, (axis, before)| {
                let index = at.along(axis).checked_sub(before)?;
                (index < shape.axis(axis)).then(|| at.with(axis, index))
            });
        source.map_or(i64::from(self.value), |at| reads.at(self.input, at))
    }
}

fn with_value([low, high]: Interval, value: i16) -> Interval {
    [low.min(i64::from(value)), high.max(i64::from(value))]
}

impl Encode for Pad {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            input,
            before,
            after,
            value,
        } = self;
        input.encode(writer);
        let sides = before.iter().chain(after);
        sides.for_each(|&side| writer.u32(side));
        writer.u16(value.cast_unsigned());
    }
}

impl Decode for Pad {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let input = TensorId::decode(reader)?;
        let mut sides = [[0u32; 3]; 2];
        for side in sides.iter_mut().flatten() {
            *side = reader.u32()?;
        }
        let [before, after] = sides;
        Ok(Self {
            input,
            before,
            after,
            value: reader.u16()?.cast_signed(),
        })
    }
}

/// Slices picked along an axis: slice j of the output is slice `indices[j]` of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gather {
    /// Any tensor.
    pub input: TensorId,
    /// The axis along which slices are picked.
    pub axis: Axis,
    /// Input slices.
    pub indices: Vec<u32>,
}

impl Operator for Gather {
    fn name(&self) -> &'static str {
        "Gather"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::SameAs(self.input)
    }

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        let length = site.shape(self.input).axis(self.axis);
        let is_outside = self.indices.iter().any(|&index| index >= length);
        is_outside.then_some("gathered slices")
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        let slices = u32::try_from(self.indices.len()).ok()?;
        Some(shapes(self.input).with_axis(self.axis, slices))
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        before.of(self.input)
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        before.of(self.input)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        if self.axis != Axis::Channels {
            return reads.of(self.input).to_vec();
        }
        let picked = self.indices.iter();
        picked
            .map(|&index| reads.at(self.input, index as usize))
            .collect()
    }

    fn intervals_written(&self, _output: Shape) -> usize {
        match self.axis {
            Axis::Channels => self.indices.len(),
            Axis::Rows | Axis::Columns => 0,
        }
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.picked(self.input, self.axis, &self.indices, output)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let index = self.indices[at.along(self.axis) as usize];
        reads.at(self.input, at.with(self.axis, index))
    }
}

impl Encode for Gather {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            input,
            axis,
            indices,
        } = self;
        input.encode(writer);
        axis.encode(writer);
        writer.count(indices.len());
        indices.iter().for_each(|&index| writer.u32(index));
    }
}

impl Decode for Gather {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let input = TensorId::decode(reader)?;
        let axis = Axis::decode(reader)?;
        let count = reader.count("gathered slices", AXIS_MAX as usize, 4)?;
        let indices = (0..count).map(|_| reader.u32());
        Ok(Self {
            input,
            axis,
            indices: indices.collect::<Result<_, _>>()?,
        })
    }
}
