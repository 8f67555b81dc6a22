//! A macro for structs that accounts sign. One table of members gives the struct, its canonical codec and its EIP-712 typed
//! data, so that the three cannot differ.

use crate::amount::Amount;
use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;
use crate::id::{Address, LeaseId, ModelId, ProgramId};
use crate::keccak::keccak256;
use crate::label::Label;
use crate::mode::{ModeSet, Tier, VerificationMode};
use crate::time::{DurationMs, TimestampMs};

/// Declares a struct by its members, each with the type and the name that typed data has for it. In brackets stand the
/// structs among its members, in the order of their names.
macro_rules! signed_struct {
    (
        $(#[$doc:meta])*
        $name:ident [$($nested:ident),*] {
            $($(#[$member_doc:meta])* $member:ident: $type:ty => $typed:literal,)*
        }
    ) => {
        $(#[$doc])*
        pub struct $name {
            $($(#[$member_doc])* pub $member: $type,)*
        }

        impl $name {
            /// The type's own part of the encoded type a wallet signs.
            pub const TYPE: &'static str =
                $crate::signed_struct::encoded_type!($name, $($typed)*);

            /// The EIP-712 struct hash.
            #[must_use]
            pub fn struct_hash(&self) -> [u8; 32] {
                let Self { $($member),* } = self;
                static TYPE_HASH: std::sync::LazyLock<[u8; 32]> = std::sync::LazyLock::new(|| {
                    let encoded_type = [$name::TYPE, $($nested::TYPE),*].concat();
                    $crate::keccak::keccak256(encoded_type.as_bytes())
                });
                let hash = $crate::signed_struct::StructHash::of(&TYPE_HASH);
                $(let hash = $crate::signed_struct::Member::hash($member, hash);)*
                hash.finish()
            }
        }

        impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                let Self { $($member),* } = self;
                $($crate::signed_struct::Member::write($member, writer);)*
            }
        }

        impl Decode for $name {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self {
                    $($member: $crate::signed_struct::Member::read(reader, stringify!($member))?,)*
                })
            }
        }
    };
}

/// `Name(first,second,..)`.
macro_rules! encoded_type {
    ($name:ident, $first:literal $($rest:literal)*) => {
        concat!(stringify!($name), "(", $first, $(",", $rest,)* ")")
    };
}

/// A member of a signed struct.
pub(crate) trait Member: Sized {
    /// Appends its canonical encoding.
    fn write(&self, writer: &mut Writer);

    /// Reads it; `name` is the member's, for errors.
    fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError>;

    /// Appends its word of typed data.
    fn hash(&self, hash: StructHash) -> StructHash;
}

/// Members with an encoding of their own, each with what it is to typed data.
macro_rules! members {
    ($($type:ty: |$value:ident, $hash:ident| $word:expr;)*) => {$(
        impl $crate::signed_struct::Member for $type {
            fn write(&self, writer: &mut Writer) {
                self.encode(writer);
            }

            fn read(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
                Self::decode(reader)
            }

            fn hash(&self, $hash: $crate::signed_struct::StructHash) -> $crate::signed_struct::StructHash {
                let $value = self;
                $word
            }
        }
    )*};
}

pub(crate) use {encoded_type, members, signed_struct};

members! {
    Amount: |it, hash| hash.amount(*it);
    Label: |it, hash| hash.label(it);
    Digest: |it, hash| hash.word(*it.as_bytes());
    ModelId: |it, hash| hash.word(*it.as_bytes());
    LeaseId: |it, hash| hash.word(*it.as_bytes());
    ProgramId: |it, hash| hash.word(*it.as_bytes());
    DurationMs: |it, hash| hash.number(u128::from(it.get()));
    TimestampMs: |it, hash| hash.number(u128::from(it.get()));
    VerificationMode: |it, hash| hash.number(u128::from(it.tag()));
    Tier: |it, hash| hash.number(u128::from(it.tag()));
    ModeSet: |it, hash| hash.number(u128::from(it.bits()));
}

/// Plain numbers.
macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Member for $type {
            fn write(&self, writer: &mut Writer) {
                writer.$type(*self);
            }

            fn read(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
                reader.$type()
            }

            fn hash(&self, hash: StructHash) -> StructHash {
                hash.number(u128::from(*self))
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 }

impl Member for bool {
    fn write(&self, writer: &mut Writer) {
        writer.u8(Self::into(*self));
    }

    fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::Invalid {
                field: name,
                value: u64::from(value),
            }),
        }
    }

    fn hash(&self, hash: StructHash) -> StructHash {
        hash.number(u128::from(*self))
    }
}

impl Member for [i32; 2] {
    fn write(&self, writer: &mut Writer) {
        self.iter().for_each(|it| writer.i32(*it));
    }

    fn read(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        Ok([reader.i32()?, reader.i32()?])
    }

    fn hash(&self, hash: StructHash) -> StructHash {
        self.iter().fold(hash, |hash, it| hash.signed(*it))
    }
}

/// A number as a word of typed data.
pub(crate) fn number_word(value: u64) -> [u8; 32] {
    let mut word = [0; 32];
    word[24..].copy_from_slice(&value.to_be_bytes());
    word
}

/// Collects the words of one struct.
pub(crate) struct StructHash {
    words: Vec<u8>,
}

impl StructHash {
    /// Of a type with this hash, which callers keep: a type's text is longer than most structs.
    pub(crate) fn of(type_hash: &[u8; 32]) -> Self {
        Self {
            words: type_hash.to_vec(),
        }
    }

    pub(crate) fn word(mut self, word: [u8; 32]) -> Self {
        self.words.extend_from_slice(&word);
        self
    }

    pub(crate) fn number(self, value: u128) -> Self {
        let mut word = [0; 32];
        word[16..].copy_from_slice(&value.to_be_bytes());
        self.word(word)
    }

    pub(crate) fn amount(self, amount: Amount) -> Self {
        self.number(amount.get())
    }

    pub(crate) fn address(self, address: Address) -> Self {
        let mut word = [0; 32];
        word[12..].copy_from_slice(address.as_bytes());
        self.word(word)
    }

    pub(crate) fn addresses(self, addresses: &[Address]) -> Self {
        let mut words = Vec::with_capacity(32 * addresses.len());
        for address in addresses {
            words.extend_from_slice(&[0; 12]);
            words.extend_from_slice(address.as_bytes());
        }
        self.word(keccak256(&words))
    }

    /// The word of an array of 32-byte words.
    pub(crate) fn words(self, words: impl Iterator<Item = [u8; 32]>) -> Self {
        let bytes: Vec<u8> = words.flatten().collect();
        self.word(keccak256(&bytes))
    }

    pub(crate) fn signed(self, value: i32) -> Self {
        let mut word = [if value < 0 { 0xff } else { 0 }; 32];
        word[28..].copy_from_slice(&value.to_be_bytes());
        self.word(word)
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        self.word(keccak256(bytes))
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn label(self, label: &Label) -> Self {
        self.text(label.as_str())
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        keccak256(&self.words)
    }
}
