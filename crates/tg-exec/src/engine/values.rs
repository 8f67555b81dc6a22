//! Tensors as the steps of an engine see them.

use tg_ir::IntTensor;
use tg_ir::{ElementType, TensorId};

/// The elements of a tensor, in storage order, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values<'a> {
    /// Activations of 8 bits.
    I8(&'a [i8]),
    /// Activations of 16 bits.
    I16(&'a [i16]),
    /// Accumulators, indices, tokens.
    I32(&'a [i32]),
}

/// The elements of a tensor that is written.
#[derive(Debug)]
pub(super) enum ValuesMut<'a> {
    I8(&'a mut [i8]),
    I16(&'a mut [i16]),
    I32(&'a mut [i32]),
}

/// Runs an expression with the slice of any type.
macro_rules! each {
    ($values:expr, $slice:ident => $run:expr) => {
        match $values {
            $crate::engine::values::Values::I8($slice) => $run,
            $crate::engine::values::Values::I16($slice) => $run,
            $crate::engine::values::Values::I32($slice) => $run,
        }
    };
}

/// Runs an expression with slices of one type, an output and inputs.
macro_rules! same {
    ($out:expr, $slice:ident, [$($values:expr => $input:ident),*], $run:expr) => {{
        use $crate::engine::values::{Values, ValuesMut};
        match ($out, $($values),*) {
            (ValuesMut::I8($slice), $(Values::I8($input)),*) => $run,
            (ValuesMut::I16($slice), $(Values::I16($input)),*) => $run,
            (ValuesMut::I32($slice), $(Values::I32($input)),*) => $run,
            _ => unreachable!("a valid program reads and writes one type here"),
        }
    }};
}

pub(super) use {each, same};

impl Values<'_> {
    /// Elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::I8(values) => values.len(),
            Self::I16(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the elements.
    #[must_use]
    pub const fn element_type(&self) -> ElementType {
        match self {
            Self::I8(_) => ElementType::I8,
            Self::I16(_) => ElementType::I16,
            Self::I32(_) => ElementType::I32,
        }
    }

    /// One element, widened.
    ///
    /// # Panics
    /// If there is no such element.
    #[must_use]
    pub fn at(&self, index: usize) -> i32 {
        each!(*self, values => wide(values[index]))
    }

    /// Some of the elements.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn part(&self, first: usize, count: usize) -> Self {
        match self {
            Self::I8(values) => Self::I8(&values[first..first + count]),
            Self::I16(values) => Self::I16(&values[first..first + count]),
            Self::I32(values) => Self::I32(&values[first..first + count]),
        }
    }

    /// A tensor of its own.
    #[must_use]
    pub fn to_tensor(self) -> IntTensor {
        match self {
            Self::I8(values) => IntTensor::I8(values.to_vec()),
            Self::I16(values) => IntTensor::I16(values.to_vec()),
            Self::I32(values) => IntTensor::I32(values.to_vec()),
        }
    }
}

impl<'a> From<&'a IntTensor> for Values<'a> {
    fn from(tensor: &'a IntTensor) -> Self {
        match tensor {
            IntTensor::I8(values) => Self::I8(values),
            IntTensor::I16(values) => Self::I16(values),
            IntTensor::I32(values) => Self::I32(values),
        }
    }
}

impl ValuesMut<'_> {
    pub(super) fn copy_from(self, values: Values<'_>) {
        same!(self, out, [values => from], out.copy_from_slice(from));
    }

    /// Some of the elements.
    pub(super) fn part(&mut self, first: usize, count: usize) -> ValuesMut<'_> {
        match self {
            Self::I8(values) => ValuesMut::I8(&mut values[first..first + count]),
            Self::I16(values) => ValuesMut::I16(&mut values[first..first + count]),
            Self::I32(values) => ValuesMut::I32(&mut values[first..first + count]),
        }
    }
}

/// An element as a 32-bit number.
#[inline(always)]
pub(super) fn wide<S: Into<i32>>(value: S) -> i32 {
    value.into()
}

/// Where a tensor lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub slot: usize,
    pub elements: usize,
}

impl Place {
    pub(super) fn read(self, slots: &[IntTensor]) -> Values<'_> {
        match &slots[self.slot] {
            IntTensor::I8(values) => Values::I8(&values[..self.elements]),
            IntTensor::I16(values) => Values::I16(&values[..self.elements]),
            IntTensor::I32(values) => Values::I32(&values[..self.elements]),
        }
    }

    pub(super) fn write(self, slots: &mut [IntTensor]) -> ValuesMut<'_> {
        part(&mut slots[self.slot], self.elements)
    }
}

/// The first elements of a slot.
pub(super) fn part(slot: &mut IntTensor, elements: usize) -> ValuesMut<'_> {
    match slot {
        IntTensor::I8(values) => ValuesMut::I8(&mut values[..elements]),
        IntTensor::I16(values) => ValuesMut::I16(&mut values[..elements]),
        IntTensor::I32(values) => ValuesMut::I32(&mut values[..elements]),
    }
}

/// The tensors a step may read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reads<'a> {
    pub slots: &'a [IntTensor],
    pub places: &'a [Option<Place>],
}

impl<'a> Reads<'a> {
    pub(super) fn get(&self, tensor: TensorId) -> Values<'a> {
        let place = self.places[tensor.index()].expect("a step reads tensors that were written");
        place.read(self.slots)
    }
}
