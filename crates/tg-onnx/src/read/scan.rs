//! What decoding a file would take in memory, found from its bytes before anything is decoded.
//!
//! A protobuf decoder makes a structure for every message it meets, and an empty message has two bytes: millions of
//! empty nodes take a hundred times the size of their file. [`decoded_bytes`] walks the same bytes, allocates nothing,
//! and adds up what the decoder would keep.

use crate::proto::{
    AttributeProto, DimensionProto, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, SparseTensorProto, StringStringEntryProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto,
};
use std::mem::size_of;

/// Deepest nesting of messages; the decoder has the same limit.
const DEPTH_MAX: usize = 100;

/// A message of the format, with the fields that hold something of a size of their own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Message {
    Model,
    Function,
    OperatorSet,
    Graph,
    Sparse,
    Node,
    Attribute,
    Tensor,
    Entry,
    ValueInfo,
    Type,
    TensorType,
    Shape,
    Dimension,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
enum Field {
    Message(Message),
    /// Text or bytes.
    Bytes,
    /// A list of numbers of so many bytes each in memory.
    Numbers(usize),
    /// A single number, or a field that is skipped.
    Nothing,
}

impl Message {
    const fn size(self) -> usize {
        match self {
            Self::Model => size_of::<ModelProto>(),
            Self::Function => size_of::<FunctionProto>(),
            Self::OperatorSet => size_of::<OperatorSetIdProto>(),
            Self::Graph => size_of::<GraphProto>(),
            Self::Sparse => size_of::<SparseTensorProto>(),
            Self::Node => size_of::<NodeProto>(),
            Self::Attribute => size_of::<AttributeProto>(),
            Self::Tensor => size_of::<TensorProto>(),
            Self::Entry => size_of::<StringStringEntryProto>(),
            Self::ValueInfo => size_of::<ValueInfoProto>(),
            Self::Type => size_of::<TypeProto>(),
            Self::TensorType => size_of::<TensorTypeProto>(),
            Self::Shape => size_of::<TensorShapeProto>(),
            Self::Dimension => size_of::<DimensionProto>(),
        }
    }

    /// The fields of [`crate::proto`], by number.
    const fn field(self, number: u64) -> Field {
        use Field::{Bytes, Message, Numbers};
        match (self, number) {
            (Self::Model, 7) | (Self::Attribute, 6) => Message(Self::Graph),
            (Self::Model, 8) | (Self::Function, 9) => Message(Self::OperatorSet),
            (Self::Model, 25) => Message(Self::Function),
            (Self::Function, 7) | (Self::Graph, 1) => Message(Self::Node),
            (Self::Function, 11) | (Self::Node, 5) => Message(Self::Attribute),
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) => Message(Self::Tensor),
            (Self::Graph, 11 | 12) => Message(Self::ValueInfo),
            (Self::Graph, 15) => Message(Self::Sparse),
            (Self::Tensor, 13) => Message(Self::Entry),
            (Self::ValueInfo, 2) => Message(Self::Type),
            (Self::Type, 1) => Message(Self::TensorType),
            (Self::TensorType, 2) => Message(Self::Shape),
            (Self::Shape, 1) => Message(Self::Dimension),
            (Self::Function, 1 | 4 | 5 | 10 | 13)
            | (Self::OperatorSet | Self::ValueInfo, 1)
            | (Self::Graph | Self::Dimension, 2)
            | (Self::Node, 1..=4 | 7 | 8)
            | (Self::Attribute, 1 | 4 | 9 | 21)
            | (Self::Tensor, 6 | 8 | 9)
            | (Self::Entry, 1 | 2) => Bytes,
            (Self::Attribute, 7) | (Self::Tensor, 4 | 5) => Numbers(4),
            (Self::Attribute, 8) | (Self::Tensor, 1 | 7 | 10 | 11) => Numbers(8),
            _ => Field::Nothing,
        }
    }
}

/// Bytes of memory that decoding takes at most, counting that a growing list may hold twice what it needs; nothing if
/// the bytes are not in the format's framing (the decoder then says so). Takes time in proportion to the bytes.
pub(super) fn decoded_bytes(bytes: &[u8], message: Message) -> Option<usize> {
    let mut cursor = Cursor(bytes);
    cursor.message(message, DEPTH_MAX)
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// All fields to the end of the bytes.
    fn message(&mut self, message: Message, depth: usize) -> Option<usize> {
        let mut total = 0usize;
        while !self.0.is_empty() {
            let key = self.varint()?;
            let field = message.field(key >> 3);
            let taken = match key & 7 {
                0 => {
                    self.varint()?;
                    one(field)
                }
                1 => {
                    self.take(8)?;
                    one(field)
                }
                2 => {
                    let length = usize::try_from(self.varint()?).ok()?;
                    let inside = self.take(length)?;
                    delimited(field, inside, depth)?
                }
                5 => {
                    self.take(4)?;
                    one(field)
                }
                // Groups, which the format does not have: the decoder skips them field by field.
                3 | 4 => 0,
                _ => return None,
            };
            total = total.saturating_add(taken);
        }
        Some(total)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for place in 0..10 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}

/// One number by itself.
const fn one(field: Field) -> usize {
    match field {
        Field::Numbers(width) => 2 * width,
        _ => 0,
    }
}

fn delimited(field: Field, inside: &[u8], depth: usize) -> Option<usize> {
    Some(match field {
        Field::Message(message) => {
            let deeper = depth.checked_sub(1)?;
            let below = Cursor(inside).message(message, deeper)?;
            below.saturating_add(2 * message.size())
        }
        Field::Bytes => inside.len().saturating_add(2 * size_of::<String>()),
        Field::Numbers(width) => {
            // A packed list: a number ends where a byte has no continuation bit. Floats have four bytes or eight and
            // are counted too often at worst.
            let ends = inside.iter().filter(|&&byte| byte & 0x80 == 0).count();
            ends.saturating_mul(2 * width)
        }
        Field::Nothing => 0,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use prost::Message as _;

    fn file(graph: GraphProto) -> Vec<u8> {
        ModelProto {
            graph: Some(graph),
            ..ModelProto::default()
        }
        .encode_to_vec()
    }

    #[test]
    fn empty_messages_are_counted_at_their_size_in_memory() {
        for count in [0usize, 1, 1000] {
            let nodes = GraphProto {
                node: vec![NodeProto::default(); count],
                ..GraphProto::default()
            };
            let found = decoded_bytes(&file(nodes), Message::Model).unwrap();
            let structures = size_of::<GraphProto>() + count * size_of::<NodeProto>();
            assert_eq!(found, 2 * structures);
        }
    }

    #[test]
    fn texts_lists_and_constants_are_counted() {
        let tensor = TensorProto {
            dims: vec![1; 10],
            raw_data: vec![7; 1000],
            name: "weights".to_owned(),
            ..TensorProto::default()
        };
        let graph = GraphProto {
            initializer: vec![tensor],
            ..GraphProto::default()
        };
        let found = decoded_bytes(&file(graph), Message::Model).unwrap();
        let texts = 2 * 2 * size_of::<String>() + 1000 + "weights".len();
        let lists = 10 * 2 * size_of::<i64>();
        let structures = 2 * (size_of::<GraphProto>() + size_of::<TensorProto>());
        assert_eq!(found, texts + lists + structures);
    }

    #[test]
    fn what_is_not_framed_is_left_to_the_decoder() {
        for bytes in [&[0xff; 40][..], &[0x3a, 5, 1], &[0x3a], &[7]] {
            assert_eq!(decoded_bytes(bytes, Message::Model), None, "{bytes:?}");
            assert!(ModelProto::decode(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn nesting_beyond_the_decoder_ends() {
        let mut graph = GraphProto::default();
        for _ in 0..60 {
            let attribute = AttributeProto {
                g: Some(graph),
                ..AttributeProto::default()
            };
            let node = NodeProto {
                attribute: vec![attribute],
                ..NodeProto::default()
            };
            graph = GraphProto {
                node: vec![node],
                ..GraphProto::default()
            };
        }
        let bytes = file(graph);
        assert_eq!(decoded_bytes(&bytes, Message::Model), None);
        assert!(ModelProto::decode(bytes.as_slice()).is_err());
    }
}
