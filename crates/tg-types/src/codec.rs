//! The canonical codec: one value has one encoding, and a decoder reads it or names what is wrong.
//!
//! Integers are little-endian and of fixed width; sequences carry a `u32` count that is checked against the bytes
//! that remain before anything is allocated; an enum starts with one tag byte. A decoder never reads past its
//! input, never allocates more than a constant factor of it, and refuses trailing bytes.

/// Writes canonical bytes.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// The bytes written so far.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes written so far, less those that were taken away.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes away the first bytes, which somebody has read: what is written next has their room.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn remove_front(&mut self, count: usize) {
        self.bytes.drain(..count);
    }

    /// Appends bytes as they are, without a count.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends two bytes, little-endian.
    pub fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }

    /// Appends four bytes, little-endian.
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    /// Appends eight bytes, little-endian.
    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    /// Appends sixteen bytes, little-endian.
    pub fn u128(&mut self, value: u128) {
        self.raw(&value.to_le_bytes());
    }

    /// Appends a signed 32-bit integer, little-endian two's complement.
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_le_bytes());
    }

    /// Appends a signed 64-bit integer, little-endian two's complement.
    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_le_bytes());
    }

    /// Appends the IEEE-754 bits of a float.
    pub fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    /// Appends a `u32` count.
    ///
    /// # Panics
    /// If `count` does not fit 32 bits: no value of the grid is that long.
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("sequences of the grid are shorter than 2^32"));
    }

    /// Appends arrays of bytes one after the other, faster than each by itself.
    pub fn arrays<const N: usize>(&mut self, arrays: impl ExactSizeIterator<Item = [u8; N]>) {
        let start = self.bytes.len();
        self.bytes.resize(start + N * arrays.len(), 0);
        let (places, _) = self.bytes[start..].as_chunks_mut::<N>();
        for (place, array) in places.iter_mut().zip(arrays) {
            *place = array;
        }
    }

    /// Appends a counted byte string.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// Appends a counted UTF-8 string.
    pub fn str(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Appends a counted sequence.
    pub fn seq<T: Encode>(&mut self, items: &[T]) {
        self.count(items.len());
        for item in items {
            item.encode(self);
        }
    }
}

/// Why bytes are not the canonical encoding of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The input ended inside a value.
    #[error("input ends at byte {offset} while {needed} more are needed")]
    Truncated {
        /// Where the input ended.
        offset: usize,
        /// How many bytes the next value needs.
        needed: usize,
    },
    /// Bytes remain after the value.
    #[error("{extra} bytes follow the value")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// A count is above the limit of its field.
    #[error("{field} has {count} entries, at most {limit} are allowed")]
    TooLong {
        /// The field.
        field: &'static str,
        /// The count that was read.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A tag or value that its field does not admit.
    #[error("{field} has the invalid value {value}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// The value that was read.
        value: u64,
    },
    /// A string that is not UTF-8.
    #[error("{field} is not UTF-8")]
    NotUtf8 {
        /// The field.
        field: &'static str,
    },
}

/// Reads canonical bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Bytes not read yet.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// Where the reader stands.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Takes `length` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer remain.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        if length > self.remaining() {
            return Err(DecodeError::Truncated {
                offset: self.bytes.len(),
                needed: length - self.remaining(),
            });
        }
        let taken = &self.bytes[self.offset..self.offset + length];
        self.offset += length;
        Ok(taken)
    }

    /// Takes an array.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer bytes remain.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Takes a little-endian `u16`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Takes a little-endian `u32`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Takes a little-endian `u64`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Takes a little-endian `u128`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// Takes a little-endian `i32`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// Takes a little-endian `i64`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Takes a finite float that is not negative zero.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] for NaN, infinities and -0, so that one value has one encoding.
    pub fn f32(&mut self, field: &'static str) -> Result<f32, DecodeError> {
        let bits = self.u32()?;
        let value = f32::from_bits(bits);
        if !value.is_finite() || bits == 0x8000_0000 {
            return Err(DecodeError::Invalid {
                field,
                value: u64::from(bits),
            });
        }
        Ok(value)
    }

    /// Takes one byte that is 0 or 1.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::Invalid`] for another byte.
    pub fn flag(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::Invalid {
                field,
                value: u64::from(value),
            }),
        }
    }

    /// Takes a count of at most `limit` entries of at least `entry_bytes` each.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] above the limit, [`DecodeError::Truncated`] if that many cannot remain.
    pub fn count(
        &mut self,
        field: &'static str,
        limit: usize,
        entry_bytes: usize,
    ) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if count > limit {
            return Err(DecodeError::TooLong {
                field,
                count,
                limit,
            });
        }
        let needed = count.saturating_mul(entry_bytes);
        if needed > self.remaining() {
            return Err(DecodeError::Truncated {
                offset: self.bytes.len(),
                needed: needed - self.remaining(),
            });
        }
        Ok(count)
    }

    /// Takes a counted byte string of at most `limit` bytes.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] or [`DecodeError::Truncated`].
    pub fn bytes(&mut self, field: &'static str, limit: usize) -> Result<&'a [u8], DecodeError> {
        let count = self.count(field, limit, 1)?;
        self.raw(count)
    }

    /// Takes a counted UTF-8 string of at most `limit` bytes.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`], [`DecodeError::Truncated`] or [`DecodeError::NotUtf8`].
    pub fn str(&mut self, field: &'static str, limit: usize) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(field, limit)?).map_err(|_| DecodeError::NotUtf8 { field })
    }

    /// Takes a counted sequence of at most `limit` values of at least `entry_bytes` bytes each.
    ///
    /// # Errors
    /// Those of the count and of each value.
    pub fn seq<T: Decode>(
        &mut self,
        field: &'static str,
        limit: usize,
        entry_bytes: usize,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(field, limit, entry_bytes)?;
        (0..count).map(|_| T::decode(self)).collect()
    }

    /// Ends reading.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes remain.
    pub const fn finish(self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            extra => Err(DecodeError::Trailing { extra }),
        }
    }
}

/// A value with one canonical encoding.
pub trait Encode {
    /// Appends the encoding.
    fn encode(&self, writer: &mut Writer);

    /// The whole encoding.
    fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.encode(&mut writer);
        writer.into_bytes()
    }
}

/// A value that can be read back from its canonical encoding, and from nothing else.
pub trait Decode: Sized {
    /// Takes the value from the reader.
    ///
    /// # Errors
    /// If the bytes are not the canonical encoding of a value.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Reads one value that fills `bytes` exactly.
    ///
    /// # Errors
    /// If the bytes are not the canonical encoding of a value, or more follow.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

macro_rules! integers {
    ($($kind:ident)*) => {$(
        impl Encode for $kind {
            fn encode(&self, writer: &mut Writer) {
                writer.$kind(*self);
            }
        }

        impl Decode for $kind {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                reader.$kind()
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 u128 i32 i64 }

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(self);
    }
}

impl<const N: usize> Decode for [u8; N] {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.array()
    }
}

/// One byte that says whether a value follows, then the value.
impl<T: Encode> Encode for Box<T> {
    fn encode(&self, writer: &mut Writer) {
        T::encode(self, writer);
    }
}

impl<T: Decode> Decode for Box<T> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        T::decode(reader).map(Self::new)
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, writer: &mut Writer) {
        writer.u8(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode(writer);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.flag("option")? {
            false => None,
            true => Some(T::decode(reader)?),
        })
    }
}
