//! How ids, digests and amounts are written in JSON: as text, never as numbers a reader could round.
//!
//! Used as `#[serde(with = "text")]`; [`option`] and [`list`] are for `Option<T>` and `Vec<T>`.

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
use tg_types::{
    Address, Amount, BidId, BlockId, CapacityTier, Digest, GpuLink, GpuModel, JobClass, JobId,
    KeyGrant, LeaseId, ModelId, OfferId, Pricing, ProgramId, SealingPublicKey, SharingMode,
    StateRoot, TransactionId,
};

/// A value that is read from text.
pub trait FromText: Sized {
    /// What the text should have been, for the error message.
    const EXPECTED: &'static str;

    /// Reads the value, or nothing if the text is not one.
    fn from_text(text: &str) -> Option<Self>;
}

macro_rules! from_hex {
    ($($name:ident: $expected:literal;)*) => {$(
        impl FromText for $name {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Option<Self> {
                Self::from_hex(text)
            }
        }
    )*};
}

from_hex! {
    Address: "an address: 0x and 40 hexadecimal digits";
    BidId: "a bid id: 0x and 64 hexadecimal digits";
    BlockId: "a block id: 0x and 64 hexadecimal digits";
    Digest: "a digest: 0x and 64 hexadecimal digits";
    JobId: "a job id: 0x and 64 hexadecimal digits";
    KeyGrant: "a granted key: 0x and 2336 hexadecimal digits";
    LeaseId: "a lease id: 0x and 64 hexadecimal digits";
    ModelId: "a model id: 0x and 64 hexadecimal digits";
    OfferId: "an offer id: 0x and 64 hexadecimal digits";
    ProgramId: "a program id: 0x and 64 hexadecimal digits";
    SealingPublicKey: "a sealing key: 0x and 2432 hexadecimal digits";
    StateRoot: "a state root: 0x and 64 hexadecimal digits";
    TransactionId: "a transaction id: 0x and 64 hexadecimal digits";
}

impl FromText for Amount {
    const EXPECTED: &'static str = "an amount of TGRID with at most 18 decimals, such as \"1.25\"";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

macro_rules! from_name {
    ($($name:ident: $expected:literal;)*) => {$(
        impl FromText for $name {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Option<Self> {
                Self::from_name(text)
            }
        }
    )*};
}

from_name! {
    CapacityTier: "a tier: on-demand, spot or reserved";
    GpuLink: "a link between GPUs: pcie, nvlink or nvswitch";
    GpuModel: "a GPU model, such as h100, or other";
    JobClass: "a class of jobs: inference, training or batch";
    Pricing: "a pricing: fixed or dynamic";
    SharingMode: "a way to share a GPU: time-slice, mps, mig or whole";
}

fn parse<'de, T: FromText, D: Deserializer<'de>>(text: &str) -> Result<T, D::Error> {
    T::from_text(text).ok_or_else(|| D::Error::custom(format!("expected {}", T::EXPECTED)))
}

/// Writes a value as its text.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T: std::fmt::Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads a value from its text.
///
/// # Errors
/// If the text is not such a value.
pub fn deserialize<'de, T: FromText, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    parse::<T, D>(&String::deserialize(deserializer)?)
}

/// The same for a value that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, FromText, Serializer, parse};

    /// Writes the text, or null.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: std::fmt::Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    /// Reads the text, or null.
    ///
    /// # Errors
    /// If the text is not such a value.
    pub fn deserialize<'de, T: FromText, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| parse::<T, D>(&text))
            .transpose()
    }
}

/// The same for a list of values.
pub mod list {
    use super::{Deserialize, Deserializer, FromText, Serializer, parse};

    /// Writes the texts.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: std::fmt::Display, S: Serializer>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(ToString::to_string))
    }

    /// Reads the texts.
    ///
    /// # Errors
    /// If one of them is not such a value.
    pub fn deserialize<'de, T: FromText, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        Vec::<String>::deserialize(deserializer)?
            .iter()
            .map(|text| parse::<T, D>(text))
            .collect()
    }
}
