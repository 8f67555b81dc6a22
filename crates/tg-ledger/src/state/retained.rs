//! Answers that validators keep after they were paid: prices, and the questions that validators have to answer.

use tg_types::{
    Address, Amount, Digest, DurationMs, JobId, JobOrder, QuestionId, StorageSubject, TimestampMs,
};

use super::State;
use super::storage::{AnswerLength, Statement, StorageTask, StoredFile};
use crate::canary::{LedgerCanary, is_armed};
use crate::limits::ASK_DOUBLINGS_MAX;
use crate::record::{KeptStage, RetainedFile, StoredQuestion};
use crate::rent::{Charge, RETAINED_RECORD_BYTES, RETAINED_UNIT, RentCategory};
use crate::table::Table;

/// So many open questions about one seat double the fee of the next one.
const QUESTIONS_PER_DOUBLING: usize = 8;

/// So many open questions about all seats do so too. Stops: a few about each of many, which fill blocks with statements about them.
const ALL_QUESTIONS_PER_DOUBLING: usize = 64;

/// Files of which one validator is asked to state at one time that it holds them.
const RETAINED_TASKS_MAX: usize = 1_024;

/// A question whether another validator has a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionTask {
    /// What the statement names.
    pub subject: StorageSubject,
    /// The consensus key of the validator that is asked for it.
    pub seat: [u8; 32],
    /// The file's content hash.
    pub digest: Digest,
    /// The most bytes that it may have.
    pub longest: u32,
    /// Whether it may be stated now that the validator does not give it.
    pub is_late: bool,
}

impl State {
    /// Answers that validators keep.
    #[must_use]
    pub const fn retained(&self) -> &Table<RetainedFile> {
        &self.retained
    }

    /// Questions whether validators have what they stated to hold.
    #[must_use]
    pub const fn questions(&self) -> &Table<StoredQuestion> {
        &self.questions
    }

    /// The answer of a job, if validators keep it.
    #[must_use]
    pub fn retained_of(&self, job: &JobId) -> Option<&RetainedFile> {
        self.retained.get(job)
    }

    /// What it costs that the answer of an order is kept, at the price with it: a part is burned at once, as room is kept for it while the job is open, a part when the
    /// job is paid. Nothing if the order does not ask for it.
    /// Stops: orders that nobody serves, whose money comes back, in the place of all answers that others would have kept.
    #[must_use]
    pub fn retention_charge(&self, order: &JobOrder, now: TimestampMs) -> Charge {
        let longest = self
            .answer_length(order)
            .as_ref()
            .map(AnswerLength::longest);
        let Some(longest) = longest.filter(|_| order.retention.get() > 0) else {
            return Charge::default();
        };
        let bytes = longest.saturating_add(RETAINED_RECORD_BYTES);
        let units = units_of(self.retained_bytes.saturating_add(u64::from(bytes)));
        let full_hour = self.parameters.rent_full_hour;
        let price = RentCategory::Retained.price(full_hour, units);
        let price = price.saturating_mul(u128::from(bytes));
        let of = |time: DurationMs| Amount::new(price.saturating_mul(u128::from(time.get())));
        Charge {
            bytes,
            entry: of(order.deadline.saturating_since(now)),
            deposit: of(order.retention),
        }
    }

    /// Whether validators have room for an answer more.
    pub(crate) fn has_room_for_answer(&self, bytes: u32) -> bool {
        let bytes = self.retained_bytes.saturating_add(u64::from(bytes));
        units_of(bytes) <= RentCategory::Retained.capacity()
    }

    /// How many units of room are taken.
    pub(crate) fn retained_units(&self) -> usize {
        units_of(self.retained_bytes)
    }

    /// What it costs now to ask a validator for a file. It doubles with every eight questions about it that are open: whoever serves ends them within
    /// seconds, so that nobody floods it, and nobody keeps others from asking for the price of a few.
    #[must_use]
    pub fn ask_fee(&self, seat: &Address) -> Amount {
        let open = self.questions.iter().filter(|it| it.seat == *seat).count();
        let of_all = self.questions.len() / ALL_QUESTIONS_PER_DOUBLING;
        let doublings = (open / QUESTIONS_PER_DOUBLING)
            .max(of_all)
            .min(ASK_DOUBLINGS_MAX);
        let fee = self.parameters.verification_fee_zk;
        fee.saturating_mul(1 << doublings)
    }

    /// What a validator loses of its stake if n - f others cannot get a file from it that it stated to hold: as for a false accusation.
    #[must_use]
    pub fn retention_bond(&self) -> Amount {
        self.accusation_bond()
    }

    /// Whether a validator is asked for a file.
    pub(crate) fn is_in_question(&self, seat: &Address) -> bool {
        self.questions.iter().any(|it| it.seat == *seat)
    }

    /// What `validator` has to find out about others, by the name of the question.
    #[must_use]
    pub fn question_tasks(&self, validator: &Address) -> Vec<QuestionTask> {
        let Some(place) = self.seat_of(validator) else {
            return Vec::new();
        };
        let asked = self.questions.iter();
        let asked = asked.filter(|it| it.seat != *validator && it.waits_for(place));
        let tasks = asked.filter_map(|it| {
            let seat = self.validators.get(usize::from(self.seat_of(&it.seat)?))?;
            Some(QuestionTask {
                subject: it.id.into(),
                seat: *seat.key.as_bytes(),
                digest: it.digest,
                longest: it.longest,
                is_late: self.is_late(it),
            })
        });
        tasks.collect()
    }

    /// Files that `validator` is asked for by questions that are open, as something to look at: it gives them as they are on its disk.
    #[must_use]
    pub fn own_question_tasks(&self, validator: &Address) -> Vec<StorageTask> {
        let asked = self.questions.iter().filter(|it| it.seat == *validator);
        let tasks = asked.map(|it| StorageTask {
            subject: it.id.into(),
            files: vec![StoredFile::Answer {
                digest: it.digest,
                length: AnswerLength::AtMost(it.longest),
            }],
            is_recheck: false,
        });
        tasks.collect()
    }

    /// Whether it may be stated that the validator that is asked does not give the file.
    fn is_late(&self, question: &StoredQuestion) -> bool {
        question.missing_from <= self.head.time || is_armed(LedgerCanary::MissingOfOne)
    }

    /// Kept answers of which the validator at a place has not stated that it holds them.
    pub(super) fn retention_tasks(&self, place: u8) -> impl Iterator<Item = StorageTask> {
        let unstated = move || {
            self.retained
                .iter()
                .filter(move |it| !it.held.contains(place))
        };
        // New ones first. Stops: a thousand that nobody can have any more, before which no other is stated.
        let is_noted = |it: &&RetainedFile| it.stage == KeptStage::Noted;
        let new = unstated().filter(move |it| !is_noted(it));
        let unstated = new.chain(unstated().filter(is_noted));
        unstated.take(RETAINED_TASKS_MAX).map(|file| StorageTask {
            subject: StorageSubject::Answer(file.job),
            files: vec![StoredFile::Answer {
                digest: file.digest,
                length: AnswerLength::AtMost(file.longest()),
            }],
            is_recheck: false,
        })
    }

    /// Whether the validator at a place may state this of a question now.
    pub(super) fn is_questioned(
        &self,
        place: u8,
        (question, statement): (&QuestionId, Statement),
    ) -> bool {
        self.questions.get(question).is_some_and(|question| {
            let is_time = statement == Statement::Held || self.is_late(question);
            self.seat_of(&question.seat) != Some(place) && question.waits_for(place) && is_time
        })
    }

    pub(crate) fn put_retained(&mut self, file: RetainedFile) {
        let before = self.retained.get(&file.job).map_or(0, |it| it.bytes);
        self.count_retained(before, file.bytes);
        self.retained.put(file);
    }

    pub(crate) fn remove_retained(&mut self, id: &JobId) {
        let before = self.retained.get(id).map_or(0, |it| it.bytes);
        self.count_retained(before, 0);
        self.retained.remove(id);
    }

    /// Counts the bytes for which validators keep room, when those of one answer change.
    pub(super) fn count_retained(&mut self, before: u32, after: u32) {
        let without = self.retained_bytes.saturating_sub(u64::from(before));
        self.retained_bytes = without.saturating_add(u64::from(after));
    }

    /// The same, derived from the records.
    pub(super) fn rebuilt_retained_bytes(&self) -> u64 {
        let open = self.jobs.iter().map(|it| it.retention.bytes);
        let kept = self.retained.iter().map(|it| it.bytes);
        open.chain(kept).map(u64::from).sum()
    }
}

/// How many units of room so many bytes take.
fn units_of(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(u64::from(RETAINED_UNIT))).unwrap_or(usize::MAX)
}
