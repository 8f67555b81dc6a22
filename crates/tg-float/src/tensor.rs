//! Tensors of every ONNX element type.
//!
//! `f16` and `bf16` are stored as their bits; numbers of eight bits or fewer without a Rust type (the float8 family,
//! float4, 4-bit and 2-bit integers) as one code per byte, the code in the low bits. The operators compute them in
//! `f32` and round once.
#![allow(
    clippy::clone_on_copy,
    reason = "one expression runs on elements of every type, texts included"
)]

use std::sync::Arc;

/// Most axes of a tensor.
pub const RANK_MAX: usize = 16;

/// The NaN that arithmetic gives, whatever NaN went in.
pub const NAN_F32: f32 = f32::from_bits(0x7fc0_0000);
/// The NaN that arithmetic on `f64` gives.
pub const NAN_F64: f64 = f64::from_bits(0x7ff8_0000_0000_0000);

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// True or false.
    Bool,
    /// Text.
    String,
    /// Float8: 4 exponent and 3 mantissa bits, finite, NaN.
    F8E4M3FN,
    /// Float8: 4 exponent and 3 mantissa bits, one zero, one NaN.
    F8E4M3FNUZ,
    /// Float8: 5 exponent and 2 mantissa bits, infinities.
    F8E5M2,
    /// Float8: 5 exponent and 2 mantissa bits, one zero, one NaN.
    F8E5M2FNUZ,
    /// A power of two: 8 exponent bits.
    F8E8M0,
    /// Float4: 2 exponent and 1 mantissa bit.
    F4E2M1,
    /// Signed, 4 bits.
    I4,
    /// Unsigned, 4 bits.
    U4,
    /// Signed, 2 bits.
    I2,
    /// Unsigned, 2 bits.
    U2,
}

impl DType {
    /// Every element type with its number in `onnx.proto`.
    pub const ALL: [(Self, i32); 24] = [
        (Self::F32, 1),
        (Self::U8, 2),
        (Self::I8, 3),
        (Self::U16, 4),
        (Self::I16, 5),
        (Self::I32, 6),
        (Self::I64, 7),
        (Self::String, 8),
        (Self::Bool, 9),
        (Self::F16, 10),
        (Self::F64, 11),
        (Self::U32, 12),
        (Self::U64, 13),
        (Self::BF16, 16),
        (Self::F8E4M3FN, 17),
        (Self::F8E4M3FNUZ, 18),
        (Self::F8E5M2, 19),
        (Self::F8E5M2FNUZ, 20),
        (Self::U4, 21),
        (Self::I4, 22),
        (Self::F4E2M1, 23),
        (Self::F8E8M0, 24),
        (Self::U2, 25),
        (Self::I2, 26),
    ];

    /// The type of a number of `onnx.proto`; `None` for complex and unknown ones.
    #[must_use]
    pub fn from_onnx(code: i64) -> Option<Self> {
        let known = Self::ALL.iter();
        known
            .clone()
            .find(|(_, number)| i64::from(*number) == code)
            .map(|(dtype, _)| *dtype)
    }

    /// Its number in `onnx.proto`.
    #[must_use]
    pub fn to_onnx(self) -> i32 {
        let found = Self::ALL.iter().find(|(dtype, _)| *dtype == self);
        found.map_or(0, |(_, number)| *number)
    }

    /// Bytes of one element in memory; 24 for text (its bytes are counted apart).
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::String => 24,
            _ => 1,
        }
    }

    /// Bits of one element in a file's raw data.
    #[must_use]
    pub const fn raw_bits(self) -> usize {
        match self {
            Self::I4 | Self::U4 | Self::F4E2M1 => 4,
            Self::I2 | Self::U2 => 2,
            _ => 8 * self.bytes(),
        }
    }

    /// Whether it is `f16` or `bf16`.
    #[must_use]
    pub const fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::BF16)
    }

    /// Whether it is a float of 16 bits or more.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::BF16)
    }

    /// Whether it is an integer of 8 bits or more.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::I8
                | Self::I16
                | Self::I32
                | Self::I64
                | Self::U8
                | Self::U16
                | Self::U32
                | Self::U64
        )
    }

    /// Whether its elements are kept as [`Data::Codes`].
    #[must_use]
    pub const fn is_code(self) -> bool {
        matches!(
            self,
            Self::F8E4M3FN
                | Self::F8E4M3FNUZ
                | Self::F8E5M2
                | Self::F8E5M2FNUZ
                | Self::F8E8M0
                | Self::F4E2M1
                | Self::I4
                | Self::U4
                | Self::I2
                | Self::U2
        )
    }
}

/// The elements of a tensor, row-major.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// `f32`.
    F32(Vec<f32>),
    /// `f64`.
    F64(Vec<f64>),
    /// The bits of `f16`.
    F16(Vec<u16>),
    /// The bits of `bf16`.
    BF16(Vec<u16>),
    /// `i8`.
    I8(Vec<i8>),
    /// `i16`.
    I16(Vec<i16>),
    /// `i32`.
    I32(Vec<i32>),
    /// `i64`.
    I64(Vec<i64>),
    /// `u8`.
    U8(Vec<u8>),
    /// `u16`.
    U16(Vec<u16>),
    /// `u32`.
    U32(Vec<u32>),
    /// `u64`.
    U64(Vec<u64>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Texts.
    String(Vec<String>),
    /// Codes of a type of eight bits or fewer, one per byte.
    Codes(DType, Vec<u8>),
}

/// Runs an expression on the elements, whatever their type, and wraps the vector it gives in the same variant.
macro_rules! map_data {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            $crate::tensor::Data::F32($values) => $crate::tensor::Data::F32($body),
            $crate::tensor::Data::F64($values) => $crate::tensor::Data::F64($body),
            $crate::tensor::Data::F16($values) => $crate::tensor::Data::F16($body),
            $crate::tensor::Data::BF16($values) => $crate::tensor::Data::BF16($body),
            $crate::tensor::Data::I8($values) => $crate::tensor::Data::I8($body),
            $crate::tensor::Data::I16($values) => $crate::tensor::Data::I16($body),
            $crate::tensor::Data::I32($values) => $crate::tensor::Data::I32($body),
            $crate::tensor::Data::I64($values) => $crate::tensor::Data::I64($body),
            $crate::tensor::Data::U8($values) => $crate::tensor::Data::U8($body),
            $crate::tensor::Data::U16($values) => $crate::tensor::Data::U16($body),
            $crate::tensor::Data::U32($values) => $crate::tensor::Data::U32($body),
            $crate::tensor::Data::U64($values) => $crate::tensor::Data::U64($body),
            $crate::tensor::Data::Bool($values) => $crate::tensor::Data::Bool($body),
            $crate::tensor::Data::String($values) => $crate::tensor::Data::String($body),
            $crate::tensor::Data::Codes(dtype, $values) => {
                $crate::tensor::Data::Codes(*dtype, $body)
            }
        }
    };
}

/// Runs an expression on the elements, whatever their type.
macro_rules! with_data {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            $crate::tensor::Data::F32($values) => $body,
            $crate::tensor::Data::F64($values) => $body,
            $crate::tensor::Data::F16($values) => $body,
            $crate::tensor::Data::BF16($values) => $body,
            $crate::tensor::Data::I8($values) => $body,
            $crate::tensor::Data::I16($values) => $body,
            $crate::tensor::Data::I32($values) => $body,
            $crate::tensor::Data::I64($values) => $body,
            $crate::tensor::Data::U8($values) => $body,
            $crate::tensor::Data::U16($values) => $body,
            $crate::tensor::Data::U32($values) => $body,
            $crate::tensor::Data::U64($values) => $body,
            $crate::tensor::Data::Bool($values) => $body,
            $crate::tensor::Data::String($values) => $body,
            $crate::tensor::Data::Codes(_, $values) => $body,
        }
    };
}

pub(crate) use {map_data, with_data};

impl Data {
    /// The element type.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::F64(_) => DType::F64,
            Self::F16(_) => DType::F16,
            Self::BF16(_) => DType::BF16,
            Self::I8(_) => DType::I8,
            Self::I16(_) => DType::I16,
            Self::I32(_) => DType::I32,
            Self::I64(_) => DType::I64,
            Self::U8(_) => DType::U8,
            Self::U16(_) => DType::U16,
            Self::U32(_) => DType::U32,
            Self::U64(_) => DType::U64,
            Self::Bool(_) => DType::Bool,
            Self::String(_) => DType::String,
            Self::Codes(dtype, _) => *dtype,
        }
    }

    /// Number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        with_data!(self, values => values.len())
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `count` elements that are zero, false or empty.
    #[must_use]
    pub fn zeros(dtype: DType, count: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(vec![0.0; count]),
            DType::F64 => Self::F64(vec![0.0; count]),
            DType::F16 => Self::F16(vec![0; count]),
            DType::BF16 => Self::BF16(vec![0; count]),
            DType::I8 => Self::I8(vec![0; count]),
            DType::I16 => Self::I16(vec![0; count]),
            DType::I32 => Self::I32(vec![0; count]),
            DType::I64 => Self::I64(vec![0; count]),
            DType::U8 => Self::U8(vec![0; count]),
            DType::U16 => Self::U16(vec![0; count]),
            DType::U32 => Self::U32(vec![0; count]),
            DType::U64 => Self::U64(vec![0; count]),
            DType::Bool => Self::Bool(vec![false; count]),
            DType::String => Self::String(vec![String::new(); count]),
            code => Self::Codes(code, vec![0; count]),
        }
    }

    /// The elements at these places, in their order.
    ///
    /// # Panics
    /// If a place is beyond the end.
    #[must_use]
    pub fn gather(&self, places: &[usize]) -> Self {
        map_data!(self, values => places.iter().map(|&place| values[place].clone()).collect())
    }

    /// Runs of `length` elements that start at these places, one after another.
    ///
    /// # Panics
    /// If a run of some length ends beyond the end.
    #[must_use]
    pub fn gather_runs(&self, starts: &[usize], length: usize) -> Self {
        if length == 1 {
            return self.gather(starts);
        }
        if length == 0 {
            // Where runs of an empty tensor begin is no place of it.
            return Self::zeros(self.dtype(), 0);
        }
        map_data!(self, values => {
            let mut out = Vec::with_capacity(starts.len() * length);
            for &start in starts {
                out.extend_from_slice(&values[start..start + length]);
            }
            out
        })
    }

    /// Appends the elements of `other`; `None` (and no change) if it has another type.
    #[must_use]
    pub fn append(&mut self, other: &Self) -> Option<()> {
        self.append_run(other, 0, other.len())
    }

    /// Appends `length` elements of `other` from `start`; `None` (and no change) if it has another type.
    ///
    /// # Panics
    /// If the run has a length and ends beyond the end of `other`.
    #[must_use]
    pub fn append_run(&mut self, other: &Self, start: usize, length: usize) -> Option<()> {
        if length == 0 {
            return (self.dtype() == other.dtype()).then_some(());
        }
        macro_rules! append {
            ($($variant:ident),*) => {
                match (self, other) {
                    $((Self::$variant(to), Self::$variant(from)) => {
                        to.extend_from_slice(&from[start..start + length]);
                        Some(())
                    })*
                    (Self::Codes(kind, to), Self::Codes(other, from)) if kind == other => {
                        to.extend_from_slice(&from[start..start + length]);
                        Some(())
                    }
                    _ => None,
                }
            };
        }
        append!(
            F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, Bool, String
        )
    }

    /// Writes the element `from` of `other` to the place `to`; `None` (and no change) if it has another type.
    ///
    /// # Panics
    /// If a place is beyond the end.
    #[must_use]
    pub fn copy_run(&mut self, to: usize, other: &Self, from: usize, length: usize) -> Option<()> {
        if length == 0 {
            return (self.dtype() == other.dtype()).then_some(());
        }
        macro_rules! copy {
            ($($variant:ident),*) => {
                match (self, other) {
                    $((Self::$variant(target), Self::$variant(source)) => {
                        target[to..to + length].clone_from_slice(&source[from..from + length]);
                        Some(())
                    })*
                    (Self::Codes(kind, target), Self::Codes(other, source)) if kind == other => {
                        target[to..to + length].copy_from_slice(&source[from..from + length]);
                        Some(())
                    }
                    _ => None,
                }
            };
        }
        copy!(
            F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, Bool, String
        )
    }
}

/// A Rust type that is an element type.
pub trait Element: Clone + PartialEq + 'static {
    /// The element type.
    const DTYPE: DType;

    /// The elements, if they have this type.
    fn slice(data: &Data) -> Option<&[Self]>;

    /// Wraps elements.
    fn wrap(values: Vec<Self>) -> Data;
}

macro_rules! element {
    ($($type:ty, $variant:ident;)*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$variant;

            fn slice(data: &Data) -> Option<&[Self]> {
                match data {
                    Data::$variant(values) => Some(values),
                    _ => None,
                }
            }

            fn wrap(values: Vec<Self>) -> Data {
                Data::$variant(values)
            }
        }
    )*};
}

element! {
    f32, F32;
    f64, F64;
    i8, I8;
    i16, I16;
    i32, I32;
    i64, I64;
    u8, U8;
    u16, U16;
    u32, U32;
    u64, U64;
    bool, Bool;
    String, String;
}

/// Why a tensor cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// Too many axes.
    #[error("a tensor has {0} axes, at most {RANK_MAX} are supported")]
    Rank(usize),
    /// The elements do not fill the shape, or their number overflows.
    #[error("a tensor of shape {shape:?} holds {elements} elements")]
    Elements {
        /// The shape.
        shape: Vec<usize>,
        /// Elements given.
        elements: usize,
    },
}

/// A tensor of the float graph, of any element type that ONNX has: a shape and the elements that fill it, row-major. No
/// axis means one element. Copies share the elements.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatTensor {
    shape: Vec<usize>,
    data: Arc<Data>,
}

impl FloatTensor {
    /// A tensor of this shape.
    ///
    /// # Errors
    /// If there are too many axes or the elements do not fill the shape.
    pub fn new(shape: Vec<usize>, data: Data) -> Result<Self, TensorError> {
        check(&shape, data.len())?;
        Ok(Self {
            shape,
            data: Arc::new(data),
        })
    }

    /// A tensor of Rust values.
    ///
    /// # Errors
    /// As [`FloatTensor::new`].
    pub fn of<T: Element>(shape: Vec<usize>, values: Vec<T>) -> Result<Self, TensorError> {
        Self::new(shape, T::wrap(values))
    }

    /// A tensor without axes.
    #[must_use]
    pub fn scalar<T: Element>(value: T) -> Self {
        Self {
            shape: Vec::new(),
            data: Arc::new(T::wrap(vec![value])),
        }
    }

    /// A tensor with one axis.
    #[must_use]
    pub fn vector<T: Element>(values: Vec<T>) -> Self {
        Self {
            shape: vec![values.len()],
            data: Arc::new(T::wrap(values)),
        }
    }

    /// Sizes of the axes.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of axes.
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The elements.
    #[must_use]
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Shape and elements; those that other tensors share are copied.
    #[must_use]
    pub fn into_parts(self) -> (Vec<usize>, Data) {
        (self.shape, Arc::unwrap_or_clone(self.data))
    }

    /// The elements.
    ///
    /// # Errors
    /// The tensor itself if others share its elements.
    pub fn into_unshared(self) -> Result<Data, Self> {
        let Self { shape, data } = self;
        Arc::try_unwrap(data).map_err(|data| Self { shape, data })
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether an axis is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Bytes it takes in memory, without its shape.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let text = match self.data() {
            Data::String(texts) => texts.iter().map(String::len).sum(),
            _ => 0,
        };
        self.len() * self.dtype().bytes() + text
    }

    /// The elements, if they have this type.
    #[must_use]
    pub fn values<T: Element>(&self) -> Option<&[T]> {
        T::slice(self.data())
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// If they do not fill it.
    pub fn reshaped(self, shape: Vec<usize>) -> Result<Self, TensorError> {
        check(&shape, self.data.len())?;
        Ok(Self { shape, ..self })
    }
}

/// Whether as many elements fill the shape.
fn check(shape: &[usize], count: usize) -> Result<(), TensorError> {
    if shape.len() > RANK_MAX {
        return Err(TensorError::Rank(shape.len()));
    }
    if elements(shape) != Some(count) {
        return Err(TensorError::Elements {
            elements: count,
            shape: shape.to_vec(),
        });
    }
    Ok(())
}

/// Largest product of the other axes where one is empty: such a tensor takes no memory that would bound it.
const EMPTY_PRODUCT_MAX: usize = 1 << 20;

/// Number of elements of a shape; `None` if it overflows, or if an axis is empty and the others are larger together
/// than 2^20.
#[must_use]
pub fn elements(shape: &[usize]) -> Option<usize> {
    let others = shape.iter().filter(|&&axis| axis != 0);
    let product = others.copied().try_fold(1usize, usize::checked_mul)?;
    if !shape.contains(&0) {
        Some(product)
    } else if product <= EMPTY_PRODUCT_MAX {
        Some(0)
    } else {
        None
    }
}

/// Distance in elements between neighbours along each axis, row-major.
#[must_use]
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_shape_is_filled_exactly() {
        assert!(FloatTensor::of(vec![2, 3], vec![0f32; 6]).is_ok());
        assert!(FloatTensor::of(vec![2, 3], vec![0f32; 5]).is_err());
        assert!(FloatTensor::of(vec![usize::MAX, 2], Vec::<f32>::new()).is_err());
        assert!(FloatTensor::of(vec![usize::MAX, 2, 0], Vec::<f32>::new()).is_err());
        assert!(FloatTensor::of(vec![1000, 2, 0], Vec::<f32>::new()).is_ok());
        assert_eq!(
            FloatTensor::of(vec![1; 17], vec![0f32]),
            Err(TensorError::Rank(17))
        );
    }

    #[test]
    fn element_types_keep_their_numbers() {
        for (dtype, code) in DType::ALL {
            assert_eq!(DType::from_onnx(code.into()), Some(dtype));
            assert_eq!(dtype.to_onnx(), code);
            assert_eq!(Data::zeros(dtype, 3).dtype(), dtype);
            assert_eq!(Data::zeros(dtype, 3).len(), 3);
        }
        assert_eq!(DType::from_onnx(14), None);
    }

    #[test]
    fn runs_are_gathered_and_appended_by_type() {
        let data = Data::I8((0..10).collect());
        assert_eq!(data.gather(&[9, 0, 9]), Data::I8(vec![9, 0, 9]));
        assert_eq!(
            data.gather_runs(&[4, 0], 3),
            Data::I8(vec![4, 5, 6, 0, 1, 2])
        );
        let mut target = Data::I8(vec![7]);
        assert_eq!(target.append_run(&data, 2, 2), Some(()));
        assert_eq!(target, Data::I8(vec![7, 2, 3]));
        assert_eq!(target.append(&Data::U8(vec![1])), None);
        assert_eq!(target.copy_run(0, &data, 8, 2), Some(()));
        assert_eq!(target, Data::I8(vec![8, 9, 3]));
    }

    #[test]
    fn strides_are_row_major() {
        assert_eq!(strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(strides(&[]), Vec::<usize>::new());
    }
}
