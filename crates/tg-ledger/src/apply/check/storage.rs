//! Checks of statements about storage, and of questions whether a validator still holds a file.

use std::collections::BTreeSet;

use tg_types::{Address, JobId, StorageSubject, TimestampMs};

use super::outcome::{Check, Spent};
use crate::error::TransactionError;
use crate::limits::{QUESTIONS_MAX, SEATS_MIN};
use crate::record::question_id;
use crate::state::{State, Statement};

/// Whether a validator can be asked for the answer of a job: it stated that it holds it, and does not give its seat back.
pub(super) fn check_ask(state: &State, now: TimestampMs, job: &JobId, seat: &Address) -> Spent {
    let kept = state.retained_of(job).filter(|it| it.until >= now);
    let kept = kept.ok_or(TransactionError::AnswerNotKept { job: *job })?;
    let place = state.seat_of(seat).filter(|it| kept.held.contains(*it));
    let record = place.and_then(|it| state.seats.seats.get(usize::from(it)));
    // Stops: questions that come one after the other, so that a seat never goes; and one that cannot go, and says that it does to be asked nothing.
    let may_go = state.validators.len() > SEATS_MIN;
    if record.is_none_or(|it| it.is_leaving && may_go) {
        let (job, seat) = (*job, *seat);
        return Err(TransactionError::NotKeeper { job, seat });
    }
    // Several may be open. Stops: a friend that asks for a file, so that nobody else can.
    if state.questions.get(&question_id(job, seat, now)).is_some() {
        let (job, seat) = (*job, *seat);
        return Err(TransactionError::AskedAlready { job, seat });
    }
    if state.questions.len() >= QUESTIONS_MAX {
        let limit = QUESTIONS_MAX;
        return Err(TransactionError::TooManyQuestions { limit });
    }
    Ok(state.ask_fee(seat))
}

/// Whether a validator may state this: each subject once, in order, and something that it was asked and did not say. What is not asked
/// any more beside it is passed over: of several reports that are sent in one moment, the first quorum is asked nothing about a file any more
/// when the others come.
pub(super) fn check_storage_report(
    state: &State,
    sender: Address,
    held: &[StorageSubject],
    missing: &[StorageSubject],
) -> Check {
    let seat = state
        .seat_of(&sender)
        .ok_or(TransactionError::NotValidator { sender })?;
    if held.is_empty() && missing.is_empty() {
        return Err(TransactionError::EmptyReport);
    }
    let (mut named, mut is_asked) = (BTreeSet::new(), false);
    for (list, statement) in [(held, Statement::Held), (missing, Statement::Missing)] {
        for (at, subject) in list.iter().enumerate() {
            let sorted = at == 0 || list[at - 1] < *subject;
            if !sorted || !named.insert(*subject) {
                return Err(TransactionError::BadStatement { subject: *subject });
            }
            is_asked |= state.is_asked(seat, (subject, statement));
        }
    }
    match named.first() {
        Some(subject) if !is_asked => Err(TransactionError::BadStatement { subject: *subject }),
        _ => Ok(()),
    }
}
