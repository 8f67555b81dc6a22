//! Answers that validators keep after they were paid, and open questions whether one of them still does.

use tg_types::{
    Address, Amount, Digest, Domain, JobId, QuestionId, TimestampMs, fields, keccak256_of, variants,
};

use crate::record::{Record, SeatSet};
use crate::rent::{Due, RETAINED_RECORD_BYTES, RentCategory};
use crate::tree::{LeafHead, kind};

/// What a job that did not end has locked, so that its answer is kept once it is paid. The default is a job whose answer nobody keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Bytes that it counts for: the most that its answer may have, and [`RETAINED_RECORD_BYTES`].
    pub bytes: u32,
    /// Burned when the job is paid; else it goes back.
    pub fee: Amount,
}

fields! { Retention { bytes, fee } }

/// How far the statements about a file came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptStage {
    /// Too few state that they hold it.
    TooFew,
    /// n - f did.
    Held {
        /// Until when the others may state it without having missed it.
        state_by: TimestampMs,
    },
    /// It was noted who missed it.
    Noted,
}

variants! {
    KeptStage: "stage of a kept answer" {
        0 = TooFew {},
        1 = Held { state_by },
        2 = Noted {},
    }
}

/// The answer of a paid job, which those who state that they hold it have to serve for some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedFile {
    /// The job.
    pub job: JobId,
    /// Who ordered it.
    pub requestor: Address,
    /// Its content hash.
    pub digest: Digest,
    /// Bytes that it counts for.
    pub bytes: u32,
    /// Until when it is kept.
    pub until: TimestampMs,
    /// Who states that it holds it.
    pub held: SeatSet,
    /// How far the statements came.
    pub stage: KeptStage,
}

fields! { RetainedFile { job, requestor, digest, bytes, until, held, stage } }

impl RetainedFile {
    /// The most bytes that it may have.
    #[must_use]
    pub const fn longest(&self) -> u32 {
        self.bytes.saturating_sub(RETAINED_RECORD_BYTES)
    }

    /// When the passing of time changes something.
    pub(crate) fn due_at(&self) -> TimestampMs {
        match self.stage {
            KeptStage::Held { state_by } => state_by.min(self.until),
            KeptStage::TooFew | KeptStage::Noted => self.until,
        }
    }
}

impl Record for RetainedFile {
    type Key = JobId;
    const KIND: u8 = kind::RETAINED;
    const NAME: &'static str = "retained files";

    fn key(&self) -> JobId {
        self.job
    }

    fn head(&self) -> LeafHead {
        LeafHead::of(Self::KIND, self.requestor)
    }

    fn money(&self) -> Amount {
        Amount::ZERO
    }

    /// In ledger time, and not by a meter: what it costs is known with the order.
    fn due(&self) -> Option<Due> {
        Some(Due {
            category: RentCategory::Retained,
            ends_at: u128::from(self.due_at().get()),
            order: 0,
        })
    }
}

/// The question whether a validator still has a file that it stated to hold: all others fetch it from that one alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredQuestion {
    /// What validators state about it: [`question_id`].
    pub id: QuestionId,
    /// Of which job it is the answer.
    pub job: JobId,
    /// Its content hash.
    pub digest: Digest,
    /// The most bytes that it may have.
    pub longest: u32,
    /// Who is asked for it.
    pub seat: Address,
    /// Who asks.
    pub asker: Address,
    /// What was burned for asking.
    pub fee: Amount,
    /// From when on validators may state that they cannot get it.
    pub missing_from: TimestampMs,
    /// When it ends undecided.
    pub until: TimestampMs,
    /// Who got it.
    pub held: SeatSet,
    /// Who did not.
    pub missing: SeatSet,
}

fields! {
    StoredQuestion {
        id, job, digest, longest, seat, asker, fee, missing_from, until, held, missing,
    }
}

impl StoredQuestion {
    /// Whether the validator at a place has stated nothing about it.
    #[must_use]
    pub const fn waits_for(&self, seat: u8) -> bool {
        !self.held.contains(seat) && !self.missing.contains(seat)
    }
}

impl Record for StoredQuestion {
    type Key = QuestionId;
    const KIND: u8 = kind::QUESTION;
    const NAME: &'static str = "questions for stored files";

    fn key(&self) -> QuestionId {
        self.id
    }

    fn head(&self) -> LeafHead {
        LeafHead::of(Self::KIND, self.seat)
    }

    fn money(&self) -> Amount {
        Amount::ZERO
    }
}

/// The name of a question that is asked at a time.
pub(crate) fn question_id(job: &JobId, seat: &Address, at: TimestampMs) -> QuestionId {
    let mut bytes = job.as_bytes().to_vec();
    bytes.extend_from_slice(seat.as_bytes());
    bytes.extend_from_slice(&at.get().to_be_bytes());
    QuestionId::new(keccak256_of(Domain::StoredQuestion, &bytes))
}
