//! How a result is checked, and under which execution semantics it was made.

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::tags;

/// How the grid checks a job's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VerificationMode {
    /// Not checked: the receipt's signature is all there is. Only where genesis allows it.
    None = 0,
    /// A TGP-1 proof that every validator verifies.
    Proof = 1,
    /// Every validator runs the program again.
    Recompute = 2,
    /// Proof of Sync: a committee that is drawn afterwards computes drawn parts of the run again.
    Sync = 3,
    /// One validator that is drawn afterwards runs the program again; then, for some time, anybody may pay to have all of them do so.
    Optimistic = 4,
    /// A service for a period of time. The requestor judges each answer itself, and pays by vouchers that it signs.
    Endpoint = 5,
    /// Several drawn providers run the program, commit to their results and open them; if these differ, every validator runs it again.
    Replicate = 6,
    /// Input and answer are encrypted between requestor and provider. If the requestor disputes the answer it reveals the key, and every
    /// validator runs the program again.
    Sealed = 7,
}

impl VerificationMode {
    /// All modes, in the order of their tags.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Proof,
        Self::Recompute,
        Self::Sync,
        Self::Optimistic,
        Self::Endpoint,
        Self::Replicate,
        Self::Sealed,
    ];

    /// Whether validators check every result before it is paid.
    #[must_use]
    pub const fn is_checked(self) -> bool {
        !matches!(self, Self::None | Self::Endpoint | Self::Sealed)
    }

    /// The tag in encodings and typed data.
    #[must_use]
    pub const fn tag(self) -> u8 {
        self as u8
    }

    /// The mode of a tag.
    #[must_use]
    pub const fn from_tag(tag: u8) -> Option<Self> {
        match tag {
            0 => Some(Self::None),
            1 => Some(Self::Proof),
            2 => Some(Self::Recompute),
            3 => Some(Self::Sync),
            4 => Some(Self::Optimistic),
            5 => Some(Self::Endpoint),
            6 => Some(Self::Replicate),
            7 => Some(Self::Sealed),
            _ => None,
        }
    }

    /// The name users write.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Proof => "proof",
            Self::Recompute => "recompute",
            Self::Sync => "sync",
            Self::Optimistic => "optimistic",
            Self::Endpoint => "endpoint",
            Self::Replicate => "replicate",
            Self::Sealed => "sealed",
        }
    }

    /// The mode of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

impl std::fmt::Display for VerificationMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Encode for VerificationMode {
    fn encode(&self, writer: &mut Writer) {
        writer.u8(self.tag());
    }
}

impl Decode for VerificationMode {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        Self::from_tag(tag).ok_or(DecodeError::Invalid {
            field: "verification mode",
            value: u64::from(tag),
        })
    }
}

/// A set of verification modes: what a provider's offer supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModeSet(u8);

impl ModeSet {
    /// No mode.
    pub const EMPTY: Self = Self(0);

    /// Every mode.
    pub const ALL: Self = Self(u8::MAX);

    /// Every mode that a provider can serve which has no sealing key.
    pub const UNSEALED: Self = Self(0b111_1111);

    /// The set of the given modes.
    #[must_use]
    pub fn of(modes: &[VerificationMode]) -> Self {
        Self(modes.iter().fold(0, |bits, mode| bits | 1 << mode.tag()))
    }

    /// Whether the mode is in the set.
    #[must_use]
    pub const fn contains(self, mode: VerificationMode) -> bool {
        self.0 & 1 << mode.tag() != 0
    }

    /// The modes of both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The modes in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether no mode is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The modes in the order of their tags.
    pub fn iter(self) -> impl Iterator<Item = VerificationMode> {
        VerificationMode::ALL
            .into_iter()
            .filter(move |mode| self.contains(*mode))
    }

    /// Bit `n` is the mode of tag `n`.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

impl Encode for ModeSet {
    fn encode(&self, writer: &mut Writer) {
        writer.u8(self.0);
    }
}

impl Decode for ModeSet {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // Every bit is a mode.
        Ok(Self(reader.u8()?))
    }
}

const _: () = assert!(VerificationMode::ALL.len() == u8::BITS as usize);

/// The execution semantics a result was made under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tier {
    /// Exact integers; the same bits on every machine.
    Tgx1 = 1,
    /// Floats in a fixed order: the same bits and the same bill on every machine.
    Tgf1 = 2,
    /// A program of WebAssembly under the first profile; the same bits and the same bill on every machine.
    Wasm1 = 3,
    /// None: the provider's own server answers, and no semantics define what the answer should be.
    Served = 4,
}

impl Tier {
    /// The tag in encodings and typed data.
    #[must_use]
    pub const fn tag(self) -> u8 {
        self as u8
    }

    /// The name users read.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tgx1 => "TGX-1",
            Self::Tgf1 => "TGF-1",
            Self::Wasm1 => "WASM-1",
            Self::Served => "served",
        }
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

tags! { Tier: "tier" { Tgx1 = 1, Tgf1 = 2, Wasm1 = 3, Served = 4 } }
