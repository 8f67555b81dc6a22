//! What a gateway's answer shows, decided without asking anybody: `light` asks, and this takes the answer or refuses it.
//!
//! No I/O and no clock: the time is an argument. So the same lines decide in a client of HTTP and in the simulator, whose gateways lie.

use tg_types::chain::{
    AnswerError, FinalAnswer, HeadTooOld, NetworkTrust, SeatChanges, TrustedHead, content_digest,
};
use tg_types::{Encode, TimestampMs, Writer};

use crate::dto::{StateAnswerDto, StateRecordDto};

/// Why an answer is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShownError {
    /// The answer is not the bytes of one.
    #[error("the grid's proof cannot be read")]
    Unreadable,
    /// The record that came with the proof is not the one that the state has.
    #[error("the record that the grid gives is not the one that the final state has")]
    OtherContent,
    /// The answer shows nothing: the gateway lies, or is of another network.
    #[error("what the grid says is not shown to be true")]
    NotShown(#[from] AnswerError),
    /// What is known of the chain is too old to follow it from.
    #[error("the chain is not followed from what is known of it")]
    Old(#[from] HeadTooOld),
}

/// What a client knows of a chain, and by which it takes answers.
#[derive(Debug, Clone)]
pub struct AnswerChecks {
    trust: NetworkTrust,
    head: TrustedHead,
}

impl AnswerChecks {
    /// The checks of a client that knows `head` of the network.
    #[must_use]
    pub const fn new(trust: NetworkTrust, head: TrustedHead) -> Self {
        Self { trust, head }
    }

    /// The newest block that is known to be final.
    #[must_use]
    pub const fn head(&self) -> &TrustedHead {
        &self.head
    }

    /// Whether what is known is young enough at `now` of the client's own clock to go on from.
    ///
    /// # Errors
    /// [`HeadTooOld`] if not.
    pub const fn check_age(&self, now: TimestampMs) -> Result<(), HeadTooOld> {
        self.head.check_age(now, self.trust.period())
    }

    /// What an answer shows of a record.
    ///
    /// # Errors
    /// [`ShownError`] if nothing; [`AnswerError::Finality`] in it may mean that other validators vote than those that are known.
    pub fn take(
        &mut self,
        told: &StateAnswerDto,
        record: StateRecordDto,
        id: &[u8],
    ) -> Result<FinalAnswer, ShownError> {
        let answer = told.read().ok_or(ShownError::Unreadable)?;
        Ok(self.head.check(&answer, &record.leaf_key(id))?)
    }

    /// Takes changes of the set of validators.
    ///
    /// # Errors
    /// [`ShownError::NotShown`] if one is not shown by the set before it; those before are taken.
    pub fn learn(&mut self, changes: &SeatChanges) -> Result<(), ShownError> {
        Ok(self.head.learn(changes)?)
    }
}

/// The canonical bytes of a record that an answer shows, of those that came with it; nothing if there is no such record.
///
/// # Errors
/// [`ShownError::OtherContent`] if what came is not what the state has, or nothing came.
pub fn content(shown: &FinalAnswer, told: &StateAnswerDto) -> Result<Option<Vec<u8>>, ShownError> {
    let Some((head, digest)) = shown.found else {
        return Ok(None);
    };
    let bytes = told.content().ok_or(ShownError::OtherContent)?;
    // Stops: an order, a price or a provider that the record does not have.
    match content_digest(head.kind, &RecordBytes(&bytes)) == digest {
        true => Ok(Some(bytes)),
        false => Err(ShownError::OtherContent),
    }
}

/// The canonical encoding of a record.
struct RecordBytes<'a>(&'a [u8]);

impl Encode for RecordBytes<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(self.0);
    }
}
