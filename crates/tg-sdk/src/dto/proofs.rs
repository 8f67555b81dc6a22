//! What a final state has, with all that shows it.

use serde::{Deserialize, Serialize};
use tg_types::chain::{LeafKey, StateAnswer, kind};
use tg_types::{Decode, Encode};

use crate::text::FromText;

/// What kind of record a proof is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StateRecordDto {
    /// An account and its balance, by address.
    Account,
    /// An offer.
    Offer,
    /// A model.
    Model,
    /// A job without its money.
    Job,
    /// A lease without its collateral.
    Lease,
    /// What an open job locks, by the job.
    Escrow,
    /// What a live lease locks, by the lease.
    Collateral,
}

impl StateRecordDto {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Account,
        Self::Offer,
        Self::Model,
        Self::Job,
        Self::Lease,
        Self::Escrow,
        Self::Collateral,
    ];

    /// The word in paths.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Offer => "offer",
            Self::Model => "model",
            Self::Job => "job",
            Self::Lease => "lease",
            Self::Escrow => "escrow",
            Self::Collateral => "collateral",
        }
    }

    /// What the record of these bytes of an id stands under.
    #[must_use]
    pub fn leaf_key(self, id: &[u8]) -> LeafKey {
        let kind = match self {
            Self::Account => kind::ACCOUNT,
            Self::Offer => kind::OFFER,
            Self::Model => kind::MODEL,
            Self::Job => kind::JOB,
            Self::Lease => kind::LEASE,
            Self::Escrow => kind::ESCROW,
            Self::Collateral => kind::COLLATERAL,
        };
        LeafKey::of(kind, id)
    }
}

impl FromText for StateRecordDto {
    const EXPECTED: &'static str =
        "a kind of record: account, offer, model, job, lease, escrow or collateral";

    fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What a final state has, for somebody who trusts nobody but the seats of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StateAnswerDto {
    /// Height of the block whose state it is: not checked until `answer` is.
    pub height: u64,
    /// Canonical bytes of certificate, headers and proof: 0x and hexadecimal digits.
    pub answer: String,
    /// Canonical bytes of the record, of which the answer shows the digest: 0x and hexadecimal digits. Absent if there is none, and for money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl From<&StateAnswer> for StateAnswerDto {
    fn from(answer: &StateAnswer) -> Self {
        Self {
            height: answer.headers.last().map_or(0, |it| it.height.get()),
            answer: digits(&answer.to_bytes()),
            content: None,
        }
    }
}

/// 0x and hexadecimal digits.
fn digits(bytes: &[u8]) -> String {
    let mut text = "0x".to_owned();
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

/// The bytes of 0x and hexadecimal digits.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    if digits.len() % 2 == 1 {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| Some((value(pair[0])? << 4 | value(pair[1])?) as u8))
        .collect()
}

fn digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0')
}

impl StateAnswerDto {
    /// The same with the record's canonical bytes.
    #[must_use]
    pub fn with_content(self, record: &[u8]) -> Self {
        Self {
            content: Some(digits(record)),
            ..self
        }
    }

    /// The answer, not checked yet; nothing if the bytes are none.
    #[must_use]
    pub fn read(&self) -> Option<StateAnswer> {
        StateAnswer::from_bytes(&bytes_of(&self.answer)?).ok()
    }

    /// The record's bytes, not checked yet; nothing if there are none.
    #[must_use]
    pub fn content(&self) -> Option<Vec<u8>> {
        bytes_of(self.content.as_ref()?)
    }
}
