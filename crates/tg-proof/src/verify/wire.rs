//! The bytes of messages: a serde format with fixed widths.
//!
//! Integers are little-endian in their own width, so that a field element has four bytes (a varint needs five of
//! most). A list starts with its length in four bytes; tuples, arrays and structs have none; an option or an enum
//! starts with one byte. Everything else that serde knows is refused: no message has it.

use crate::algebra::field::EXTENSION_DEGREE;
use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, SeqAccess, VariantAccess, Visitor,
};
use serde::ser::{
    SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple, SerializeTupleStruct,
    SerializeTupleVariant, Serializer,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of an extension element.
pub(crate) const EXTENSION: u64 = 4 * EXTENSION_DEGREE as u64;
/// Bytes of the length of a list.
pub(crate) const LENGTH: u64 = 4;

/// Why bytes are no message, or a type is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// Fewer bytes than the message has.
    #[error("the bytes end within the message")]
    End,
    /// More bytes than the message has.
    #[error("bytes follow the message")]
    Rest,
    /// A length, option or variant that no message has.
    #[error("no message has this tag or length")]
    Tag,
    /// A type this format does not hold.
    #[error("this type has no encoding")]
    Type,
    /// A value its own type refuses.
    #[error("a value is not of its type")]
    Value,
}

impl serde::ser::Error for WireError {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Value
    }
}

impl serde::de::Error for WireError {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Value
    }
}

/// The bytes of a message.
pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, WireError> {
    let mut bytes = Vec::new();
    value.serialize(Out(&mut bytes))?;
    Ok(bytes)
}

/// The message that some bytes begin with; they are then what follows it.
pub(crate) fn take<'a, T: Deserialize<'a>>(bytes: &mut &'a [u8]) -> Result<T, WireError> {
    T::deserialize(In(bytes))
}

/// The message of some bytes, all of them.
pub(crate) fn from_bytes<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, WireError> {
    let mut rest = bytes;
    let value = take(&mut rest)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(WireError::Rest)
    }
}

struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn length(&mut self, length: usize) -> Result<(), WireError> {
        let length = u32::try_from(length).map_err(|_| WireError::Tag)?;
        self.0.extend_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn variant(&mut self, index: u32) -> Result<(), WireError> {
        self.0
            .push(u8::try_from(index).map_err(|_| WireError::Tag)?);
        Ok(())
    }
}

macro_rules! write_integers {
    ($($method:ident $type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<(), WireError> {
            self.0.extend_from_slice(&value.to_le_bytes());
            Ok(())
        })*
    };
}

macro_rules! refuse {
    ($($method:ident $type:ty),*) => {
        $(fn $method(self, _: $type) -> Result<Self::Ok, WireError> {
            Err(WireError::Type)
        })*
    };
}

impl<'a> Serializer for Out<'a> {
    type Ok = ();
    type Error = WireError;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = serde::ser::Impossible<(), WireError>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    write_integers!(serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64);
    refuse!(
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_f32 f32, serialize_f64 f64, serialize_char char, serialize_str &str, serialize_bytes &[u8]
    );

    fn serialize_bool(self, value: bool) -> Result<(), WireError> {
        self.0.push(u8::from(value));
        Ok(())
    }

    fn serialize_none(self) -> Result<(), WireError> {
        self.0.push(0);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), WireError> {
        self.0.push(1);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), WireError> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), WireError> {
        Ok(())
    }

    fn serialize_unit_variant(
        mut self,
        _: &'static str,
        index: u32,
        _: &'static str,
    ) -> Result<(), WireError> {
        self.variant(index)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), WireError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), WireError> {
        self.variant(index)?;
        value.serialize(self)
    }

    fn serialize_seq(mut self, length: Option<usize>) -> Result<Self, WireError> {
        self.length(length.ok_or(WireError::Type)?)?;
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, WireError> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, WireError> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        mut self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, WireError> {
        self.variant(index)?;
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, WireError> {
        Err(WireError::Type)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, WireError> {
        Ok(self)
    }

    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, WireError> {
        self.variant(index)?;
        Ok(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! write_parts {
    ($($trait:ident $method:ident),*) => {
        $(impl $trait for Out<'_> {
            type Ok = ();
            type Error = WireError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WireError> {
                value.serialize(Out(&mut *self.0))
            }

            fn end(self) -> Result<(), WireError> {
                Ok(())
            }
        })*
    };
}

write_parts!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

macro_rules! write_fields {
    ($($trait:ident),*) => {
        $(impl $trait for Out<'_> {
            type Ok = ();
            type Error = WireError;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                _: &'static str,
                value: &T,
            ) -> Result<(), WireError> {
                value.serialize(Out(&mut *self.0))
            }

            fn end(self) -> Result<(), WireError> {
                Ok(())
            }
        })*
    };
}

write_fields!(SerializeStruct, SerializeStructVariant);

/// Reads from the front of a slice and leaves the rest.
struct In<'a, 'b>(&'b mut &'a [u8]);

impl In<'_, '_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(WireError::End)?;
        *self.0 = rest;
        Ok(*head)
    }

    /// A length that the bytes left can hold, if every element has at least one byte.
    fn length(&mut self) -> Result<usize, WireError> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        if length > self.0.len() {
            Err(WireError::End)
        } else {
            Ok(length)
        }
    }
}

macro_rules! read_integers {
    ($($method:ident $visit:ident $type:ty),*) => {
        $(fn $method<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, WireError> {
            visitor.$visit(<$type>::from_le_bytes(self.array()?))
        })*
    };
}

macro_rules! refuse_reading {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'a>>(self, _: V) -> Result<V::Value, WireError> {
            Err(WireError::Type)
        })*
    };
}

impl<'a> Deserializer<'a> for In<'a, '_> {
    type Error = WireError;

    read_integers!(
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64
    );
    refuse_reading!(
        deserialize_any deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_map
        deserialize_identifier deserialize_ignored_any
    );

    fn deserialize_bool<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, WireError> {
        match self.array()? {
            [0] => visitor.visit_bool(false),
            [1] => visitor.visit_bool(true),
            _ => Err(WireError::Tag),
        }
    }

    fn deserialize_option<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, WireError> {
        match self.array()? {
            [0] => visitor.visit_none(),
            [1] => visitor.visit_some(self),
            _ => Err(WireError::Tag),
        }
    }

    fn deserialize_unit<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, WireError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, WireError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, WireError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, WireError> {
        let left = self.length()?;
        visitor.visit_seq(Items {
            bytes: self.0,
            left,
        })
    }

    fn deserialize_tuple<V: Visitor<'a>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, WireError> {
        visitor.visit_seq(Items {
            bytes: self.0,
            left: length,
        })
    }

    fn deserialize_tuple_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, WireError> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, WireError> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, WireError> {
        visitor.visit_enum(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

struct Items<'a, 'b> {
    bytes: &'b mut &'a [u8],
    left: usize,
}

impl<'a> SeqAccess<'a> for Items<'a, '_> {
    type Error = WireError;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, WireError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(In(&mut *self.bytes)).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'a> EnumAccess<'a> for In<'a, '_> {
    type Error = WireError;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'a>>(
        mut self,
        seed: T,
    ) -> Result<(T::Value, Self), WireError> {
        let [index] = self.array()?;
        let index: U32Deserializer<WireError> = u32::from(index).into_deserializer();
        Ok((seed.deserialize(index)?, self))
    }
}

impl<'a> VariantAccess<'a> for In<'a, '_> {
    type Error = WireError;

    fn unit_variant(self) -> Result<(), WireError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, WireError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'a>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, WireError> {
        self.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, WireError> {
        self.deserialize_tuple(fields.len(), visitor)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::algebra::field::E;
    use p3_field::{BasedVectorSpace, PrimeCharacteristicRing};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Part {
        None,
        Some(u16),
        Many { list: Vec<u32>, flag: bool },
        Pair(u8, Option<u64>),
    }

    fn check<T: Serialize + for<'a> Deserialize<'a> + PartialEq + fmt::Debug>(
        value: &T,
        bytes: &[u8],
    ) {
        assert_eq!(to_bytes(value).unwrap(), bytes);
        assert_eq!(&from_bytes::<T>(bytes).unwrap(), value);
        for end in 0..bytes.len() {
            assert!(from_bytes::<T>(&bytes[..end]).is_err(), "{end}");
        }
        let longer = [bytes, &[0]].concat();
        assert_eq!(from_bytes::<T>(&longer).unwrap_err(), WireError::Rest);
    }

    #[test]
    fn values_have_the_stated_bytes() {
        check(&Part::None, &[0]);
        check(&Part::Some(0x0102), &[1, 2, 1]);
        let many = Part::Many {
            list: vec![7, 1 << 31],
            flag: true,
        };
        check(&many, &[2, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 128, 1]);
        check(&Part::Pair(9, None), &[3, 9, 0]);
        check(&Part::Pair(9, Some(1)), &[3, 9, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
        check(&[[1u8, 2], [3, 4]], &[1, 2, 3, 4]);
        let element = E::from_basis_coefficients_fn(|_| -p3_koala_bear::KoalaBear::ONE);
        assert_eq!(to_bytes(&element).unwrap().len(), 20);
        assert_eq!(
            from_bytes::<E>(&to_bytes(&element).unwrap()).unwrap(),
            element
        );
    }

    #[test]
    fn bytes_that_are_no_value_are_refused() {
        assert_eq!(from_bytes::<Part>(&[4]).unwrap_err(), WireError::Value);
        assert_eq!(
            from_bytes::<Option<u8>>(&[2, 0]).unwrap_err(),
            WireError::Tag
        );
        assert_eq!(from_bytes::<bool>(&[2]).unwrap_err(), WireError::Tag);
        // A stated length beyond the bytes is refused before anything is allocated.
        let long = [u8::MAX; 4];
        assert_eq!(from_bytes::<Vec<u8>>(&long).unwrap_err(), WireError::End);
        // An element not below the prime.
        assert_eq!(
            from_bytes::<E>(&[u8::MAX; 20]).unwrap_err(),
            WireError::Value
        );
        assert_eq!(to_bytes(&"text").unwrap_err(), WireError::Type);
        assert_eq!(to_bytes(&1.5f32).unwrap_err(), WireError::Type);
    }
}
