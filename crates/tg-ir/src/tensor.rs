//! The integers of one tensor, of an input or of an output.

use crate::shape::ElementType;

/// The elements of a tensor of an integer program (TGX-1), in storage order (row, column, channel).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntTensor {
    /// Activations of 8 bits.
    I8(Vec<i8>),
    /// Activations of 16 bits.
    I16(Vec<i16>),
    /// Accumulators, indices, tokens.
    I32(Vec<i32>),
}

impl IntTensor {
    /// A tensor of a type from widened elements.
    ///
    /// # Panics
    /// If an element does not fit the type.
    #[must_use]
    pub fn of(kind: ElementType, elements: &[i32]) -> Self {
        const FITS: &str = "every element fits the type";
        let elements = elements.iter();
        match kind {
            ElementType::I8 => Self::I8(
                elements
                    .map(|&value| i8::try_from(value).expect(FITS))
                    .collect(),
            ),
            ElementType::I16 => Self::I16(
                elements
                    .map(|&value| i16::try_from(value).expect(FITS))
                    .collect(),
            ),
            ElementType::I32 => Self::I32(elements.copied().collect()),
        }
    }

    /// A tensor of a type from its bytes (see [`Self::to_bytes`]), or nothing if their number is no multiple of the
    /// element's.
    #[must_use]
    pub fn from_bytes(kind: ElementType, bytes: &[u8]) -> Option<Self> {
        if !bytes.len().is_multiple_of(kind.bytes()) {
            return None;
        }
        Some(match kind {
            ElementType::I8 => Self::I8(bytes.iter().map(|byte| byte.cast_signed()).collect()),
            ElementType::I16 => {
                let words = bytes.as_chunks::<2>().0.iter();
                Self::I16(words.map(|&word| i16::from_le_bytes(word)).collect())
            }
            ElementType::I32 => {
                let words = bytes.as_chunks::<4>().0.iter();
                Self::I32(words.map(|&word| i32::from_le_bytes(word)).collect())
            }
        })
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

    /// Elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::I8(values) => values.len(),
            Self::I16(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// An element, widened to 32 bits.
    ///
    /// # Panics
    /// If there is no such element.
    #[must_use]
    pub fn value(&self, element: usize) -> i32 {
        match self {
            Self::I8(values) => i32::from(values[element]),
            Self::I16(values) => i32::from(values[element]),
            Self::I32(values) => values[element],
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The activations of 8 bits, or nothing if these are of another type.
    #[must_use]
    pub fn activations(&self) -> Option<&[i8]> {
        match self {
            Self::I8(values) => Some(values),
            Self::I16(_) | Self::I32(_) => None,
        }
    }

    /// The accumulators, or nothing if these are activations.
    #[must_use]
    pub fn accumulators(&self) -> Option<&[i32]> {
        match self {
            Self::I8(_) | Self::I16(_) => None,
            Self::I32(values) => Some(values),
        }
    }

    /// The elements widened to 32 bits.
    #[must_use]
    pub fn widened(&self) -> Vec<i32> {
        match self {
            Self::I8(values) => values.iter().map(|&value| i32::from(value)).collect(),
            Self::I16(values) => values.iter().map(|&value| i32::from(value)).collect(),
            Self::I32(values) => values.clone(),
        }
    }

    /// One, two or four bytes per element, little-endian two's complement.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::I8(values) => values.iter().map(|value| value.cast_unsigned()).collect(),
            // Arrays first: their number is known, so that they are copied many at once.
            Self::I16(values) => {
                let bytes: Vec<[u8; 2]> = values.iter().map(|value| value.to_le_bytes()).collect();
                bytes.into_flattened()
            }
            Self::I32(values) => {
                let bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_le_bytes()).collect();
                bytes.into_flattened()
            }
        }
    }
}

/// The index of the greatest value, the lowest one of equal values, or nothing for an empty list.
#[must_use]
pub fn top_class(values: &[i32]) -> Option<usize> {
    let greatest = values.iter().max()?;
    values.iter().position(|value| value == greatest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_written_with_their_least_byte_first() {
        let check = |tensor: IntTensor, expected: &[u8]| assert_eq!(tensor.to_bytes(), expected);
        check(IntTensor::I8(vec![-1, 2]), &[255, 2]);
        check(IntTensor::I16(vec![-2, 0x0102]), &[254, 255, 2, 1]);
        check(
            IntTensor::I32(vec![0x0102_0304, -1]),
            &[4, 3, 2, 1, 255, 255, 255, 255],
        );
    }

    #[test]
    fn ties_take_the_lowest_class() {
        assert_eq!(top_class(&[3, 9, -1, 9]), Some(1));
        assert_eq!(top_class(&[]), None);
    }
}
