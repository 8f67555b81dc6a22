//! Macros that derive encoder and decoder from one list of fields, tags or variants, so that the two cannot differ.

/// Encoder and decoder of structs: their fields in the order of the list, which names all of them.
///
/// A field is written as its type is. After a colon stands what a field needs beside its type: `seq("leases", 8, 32)`, a
/// counted sequence with the name that errors use, the most entries, and the least bytes of one; `flag("offline")`, a `bool`
/// and its name; `bytes("proof", 1 << 20)`, counted bytes with their name and how many at most; `lists("blocks", 8, 1 << 20)`, a
/// counted sequence of such bytes.
///
/// ```
/// use tg_types::{Amount, Decode, Encode, fields};
///
/// #[derive(Debug, PartialEq)]
/// struct Bill {
///     total: Amount,
///     paid: bool,
///     parts: Vec<Amount>,
/// }
///
/// fields! { Bill { total, paid: flag("paid"), parts: seq("parts", 100, 16) } }
///
/// let bill = Bill { total: Amount::ZERO, paid: true, parts: vec![Amount::ZERO] };
/// assert_eq!(bill.to_bytes().len(), 16 + 1 + 4 + 16);
/// assert_eq!(Bill::from_bytes(&bill.to_bytes()), Ok(bill));
/// ```
#[macro_export]
macro_rules! fields {
    ($($name:ident { $($field:ident $(: $how:ident($($with:expr),+ $(,)?))?),* $(,)? })*) => {$(
        impl $crate::Encode for $name {
            fn encode(&self, writer: &mut $crate::Writer) {
                let Self { $($field),* } = self;
                $($crate::encode_field!(writer, $field $(, $how)?);)*
            }
        }

        impl $crate::Decode for $name {
            fn decode(reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $($field: $crate::decode_field!(reader $(, $how($($with),+))?)),* })
            }
        }
    )*};
}

/// Encoder and decoder of enums without fields: one byte. The text names the enum in errors.
///
/// ```
/// use tg_types::{Encode, tags};
///
/// enum Side { Left, Right }
///
/// tags! { Side: "side" { Left = 0, Right = 1 } }
///
/// assert_eq!(Side::Right.to_bytes(), [1]);
/// ```
#[macro_export]
macro_rules! tags {
    ($($name:ident: $text:literal { $($variant:ident = $tag:literal),+ $(,)? })*) => {$(
        impl $crate::Encode for $name {
            fn encode(&self, writer: &mut $crate::Writer) {
                writer.u8(match self { $(Self::$variant => $tag),+ });
            }
        }

        impl $crate::Decode for $name {
            fn decode(reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                match reader.u8()? {
                    $($tag => Ok(Self::$variant),)+
                    tag => Err($crate::DecodeError::Invalid { field: $text, value: u64::from(tag) }),
                }
            }
        }
    )*};
}

/// Encoder and decoder of enums: a tag, then the variant's fields, as in [`fields!`](crate::fields!) or, where they have no
/// names, in parentheses under names of the list.
///
/// ```
/// use tg_types::{Amount, Decode, Encode, variants};
///
/// #[derive(Debug, PartialEq)]
/// enum Payment {
///     None,
///     Cash { amount: Amount },
///     Later(u64),
///     Signed(Vec<u8>),
/// }
///
/// variants! {
///     Payment: "payment" { 0 = None {}, 1 = Cash { amount }, 2 = Later(days), 3 = Signed(text: bytes("text", 64)) }
/// }
///
/// assert_eq!(Payment::Cash { amount: Amount::ZERO }.to_bytes()[0], 1);
/// assert!(Payment::from_bytes(&[4]).is_err());
/// ```
#[macro_export]
macro_rules! variants {
    ($($name:ident: $text:literal { $($tag:literal = $variant:ident $body:tt),+ $(,)? })*) => {$(
        impl $crate::Encode for $name {
            fn encode(&self, writer: &mut $crate::Writer) {
                match self {
                    $($crate::variant!(pattern $variant $body) => {
                        writer.u8($tag);
                        $crate::variant!(encode writer $body);
                    })+
                }
            }
        }

        impl $crate::Decode for $name {
            fn decode(reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                match reader.u8()? {
                    $($tag => Ok($crate::variant!(decode reader $variant $body)),)+
                    tag => Err($crate::DecodeError::Invalid { field: $text, value: u64::from(tag) }),
                }
            }
        }
    )*};
}

/// One variant of [`variants!`](crate::variants): its pattern, and what is written and read of it.
#[doc(hidden)]
#[macro_export]
macro_rules! variant {
    (pattern $variant:ident ($($field:ident $(: $how:ident($($with:expr),+ $(,)?))?),+ $(,)?)) => {
        Self::$variant($($field),+)
    };
    (pattern $variant:ident { $($field:ident $(: $how:ident($($with:expr),+ $(,)?))?),* $(,)? }) => {
        Self::$variant { $($field),* }
    };
    (encode $writer:ident ($($field:ident $(: $how:ident($($with:expr),+ $(,)?))?),+ $(,)?)) => {
        $($crate::encode_field!($writer, $field $(, $how)?);)+
    };
    (encode $writer:ident { $($field:ident $(: $how:ident($($with:expr),+ $(,)?))?),* $(,)? }) => {
        $($crate::encode_field!($writer, $field $(, $how)?);)*
    };
    (decode $reader:ident $variant:ident ($($field:ident $(: $how:ident($($with:expr),+ $(,)?))?),+ $(,)?)) => {
        Self::$variant($({ let $field = $crate::decode_field!($reader $(, $how($($with),+))?); $field }),+)
    };
    (decode $reader:ident $variant:ident { $($field:ident $(: $how:ident($($with:expr),+ $(,)?))?),* $(,)? }) => {
        Self::$variant { $($field: $crate::decode_field!($reader $(, $how($($with),+))?)),* }
    };
}

/// Writes one field.
#[doc(hidden)]
#[macro_export]
macro_rules! encode_field {
    ($writer:ident, $field:ident) => {
        $crate::Encode::encode($field, $writer)
    };
    ($writer:ident, $field:ident, seq) => {
        $writer.seq($field)
    };
    ($writer:ident, $field:ident, flag) => {
        $writer.u8(u8::from(*$field))
    };
    ($writer:ident, $field:ident, bytes) => {
        $writer.bytes($field)
    };
    ($writer:ident, $field:ident, lists) => {{
        $writer.count($field.len());
        $field.iter().for_each(|bytes| $writer.bytes(bytes));
    }};
}

/// Reads one field.
#[doc(hidden)]
#[macro_export]
macro_rules! decode_field {
    ($reader:ident) => {
        $crate::Decode::decode($reader)?
    };
    ($reader:ident, seq($name:expr, $limit:expr, $entry_bytes:expr)) => {
        $reader.seq($name, $limit, $entry_bytes)?
    };
    ($reader:ident, flag($name:expr)) => {
        $reader.flag($name)?
    };
    ($reader:ident, bytes($name:expr, $limit:expr)) => {
        $reader.bytes($name, $limit)?.to_vec()
    };
    // A list is counted in four bytes at least.
    ($reader:ident, lists($name:expr, $limit:expr, $bytes:expr)) => {{
        let count = $reader.count($name, $limit, 4)?;
        let lists = (0..count).map(|_| Ok($reader.bytes($name, $bytes)?.to_vec()));
        lists.collect::<Result<Vec<Vec<u8>>, $crate::DecodeError>>()?
    }};
}
