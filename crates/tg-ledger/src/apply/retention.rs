//! Answers that validators keep after they were paid: the price, the statements of who holds them, and questions to these.
//!
//! The price is locked with the order and burned when the job is paid; if the job is not paid it is returned, except for the
//! price of the time during which room was kept. Paid to the validators, it would be a discount for those that order from
//! themselves to fill the disks of others. From the payment on a [`RetainedFile`] is in the state until its time is over, with
//! the validators that state that they hold it. Anybody may ask one of them for the file ([`StoredQuestion`]): all other
//! validators fetch it from that one alone, and state whether they got it.
//!
//! - *A validator that serves the file loses nothing*: more than f validators that got it end the question, and among n - f
//!   that did not are at least n - 2 f honest ones, each of which tried during the whole window.
//! - *A validator that does not have it loses its bond*: all honest others notice, and they are n - f.
//! - *Nobody gains by asking*: the fee is burned, and at most returned.

use std::sync::Arc;

use tg_types::{Address, Amount, Digest, DurationMs, JobId, JobOrder, Lane};

use super::Execution;
use crate::canary::{LedgerCanary, is_armed};
use crate::error::InvariantError;
use crate::event::{Event, QuestionEnd};
use crate::limits::RETAINED_PER_BLOCK_MAX;
use crate::record::{
    Job, KeptStage, Lease, Record, RetainedFile, Retention, SeatSet, Storage, StoredQuestion,
    question_id,
};
use crate::rent::{Charge, RentCategory};

type Done = Result<(), InvariantError>;

impl Execution {
    /// Locks what it costs to keep the answer of an order. One of a bid that was opened is kept if there is room for it and money. Stops: room
    /// that somebody fills while bids are opened, which would cost all others their deposits.
    pub(super) fn lock_retention(
        &mut self,
        job: &JobId,
        requestor: Address,
        order: &JobOrder,
    ) -> Result<Retention, InvariantError> {
        let mut charge = self.state.retention_charge(order, self.now);
        let fits = self.state.has_room_for_answer(charge.bytes)
            && charge.total() <= self.state.balance(&requestor);
        if order.needs.lane() == Lane::Auction && !fits {
            charge = Charge::default();
        }
        if !charge.total().is_zero() {
            self.debit(requestor, charge.total())?;
            self.burn(charge.entry);
            self.events.push(Event::RentDeposited {
                record: Digest::new(*job.as_bytes()),
                payer: requestor,
                deposit: charge.deposit,
                burned: charge.entry,
            });
        }
        Ok(Retention {
            bytes: charge.bytes,
            fee: charge.deposit,
        })
    }

    /// A job is paid: what was locked is burned, and validators keep its answer from now on.
    pub(super) fn begin_retention(&mut self, job: &mut Job, lease: &Lease) -> Done {
        let is_kept = job.retention.bytes > 0;
        let Some(receipt) = lease.receipt().filter(|_| is_kept) else {
            return Ok(());
        };
        let Retention { bytes, fee } = std::mem::take(&mut job.retention);
        self.burn(fee);
        self.settled_retention(job, fee, Amount::ZERO);
        let held = lease
            .delivery()
            .map_or_else(SeatSet::default, |it| it.1.held);
        let until = self.now.saturating_add(job.order.retention);
        let mut file = RetainedFile {
            job: job.id,
            requestor: job.requestor,
            digest: receipt.output,
            bytes,
            until,
            held,
            stage: KeptStage::TooFew,
        };
        self.advance_kept(&mut file);
        self.events.push(Event::AnswerKept {
            job: job.id,
            digest: file.digest,
            until,
        });
        self.state.put_retained(file);
        Ok(())
    }

    /// A job ended: what it locked for its answer and was not burned goes back.
    pub(super) fn return_retention(&mut self, job: &mut Job) -> Done {
        let Retention { fee, .. } = std::mem::take(&mut job.retention);
        self.credit(job.requestor, fee)?;
        self.settled_retention(job, Amount::ZERO, fee);
        Ok(())
    }

    fn settled_retention(&mut self, job: &Job, burned: Amount, returned: Amount) {
        if burned.is_zero() && returned.is_zero() {
            return;
        }
        self.events.push(Event::RentSettled {
            record: Digest::new(*job.id.as_bytes()),
            payer: job.requestor,
            burned,
            returned,
        });
    }

    /// Asks a validator for the answer of a job.
    pub(super) fn ask_stored(&mut self, asker: Address, job: &JobId, seat: Address) -> Done {
        let missing = InvariantError::Missing {
            table: RetainedFile::NAME,
        };
        let file = self.state.retained_of(job).ok_or(missing)?.clone();
        let fee = self.state.ask_fee(&seat);
        self.debit(asker, fee)?;
        self.burn(fee);
        let window = self.state.parameters.ask_window;
        let missing_from = self.now.saturating_add(window);
        let half = tg_types::DurationMs::new(window.get() / 2);
        self.events.push(Event::AnswerAsked {
            job: *job,
            seat,
            asker,
            fee,
        });
        self.state.questions.put(StoredQuestion {
            id: question_id(job, &seat, self.now),
            job: *job,
            digest: file.digest,
            longest: file.longest(),
            seat,
            asker,
            fee,
            missing_from,
            until: missing_from.saturating_add(half),
            held: SeatSet::default(),
            missing: SeatSet::default(),
        });
        Ok(())
    }

    /// A validator states that it holds an answer that is kept.
    pub(super) fn note_kept(&mut self, mut file: RetainedFile, place: u8) {
        file.held.insert(place);
        self.advance_kept(&mut file);
        self.state.put_retained(file);
    }

    /// Whoever stated that it holds an answer when that was already paid keeps it too.
    pub(super) fn note_delivered(&mut self, lease: &Lease, place: u8) {
        let file = self.state.retained_of(&lease.job);
        if let Some(file) = file.filter(|_| lease.delivered().is_some()) {
            self.note_kept(file.clone(), place);
        }
    }

    /// Once n - f hold it, the others have some time to do so too: then those who serve it are f + 1 honest ones at least.
    fn advance_kept(&self, file: &mut RetainedFile) {
        let storage = Storage {
            held: file.held,
            recheck: None,
        };
        if file.stage == KeptStage::TooFew && self.state.is_held(&storage) {
            let wait = self.state.parameters.verification_timeout;
            file.stage = KeptStage::Held {
                state_by: self.now.saturating_add(wait),
            };
        }
    }

    /// A validator states whether another one gave it a file.
    pub(super) fn note_question(
        &mut self,
        mut question: StoredQuestion,
        place: u8,
        is_missing: bool,
    ) -> Done {
        match is_missing {
            true => question.missing.insert(place),
            false => question.held.insert(place),
        }
        self.judge_question(question)
    }

    /// Stores a question, or ends it if the statements decide it.
    fn judge_question(&mut self, question: StoredQuestion) -> Done {
        if question.held.len() > self.state.faults_max() {
            return self.end_question(&question, QuestionEnd::Served);
        }
        if self.is_convicted(&question) {
            let end = self.charge_seat(&question)?;
            return self.end_question(&question, end);
        }
        self.state.questions.put(question);
        Ok(())
    }

    /// A validator does not have what it stated to hold.
    fn charge_seat(&mut self, question: &StoredQuestion) -> Result<QuestionEnd, InvariantError> {
        // Whoever is right has what it paid back.
        let others = self.state.questions.iter();
        let others = others.filter(|it| {
            it.job == question.job && it.seat == question.seat && it.id != question.id
        });
        let others: Vec<StoredQuestion> = others.cloned().collect();
        let fees = others
            .iter()
            .fold(question.fee, |sum, it| sum.saturating_add(it.fee));
        let bond = self.state.retention_bond().max(fees);
        let mut left = self.cut_stake(&question.seat, bond);
        let returned = question.fee.min(left);
        left = left.saturating_sub(returned);
        self.credit(question.asker, returned)?;
        // Who asked for the same file is right too. Stops: a bond for each of many questions about one file.
        for other in others {
            let returned = other.fee.min(left);
            left = left.saturating_sub(returned);
            self.credit(other.asker, returned)?;
            let end = QuestionEnd::Missing {
                burned: Amount::ZERO,
                returned,
            };
            self.end_question(&other, end)?;
        }
        let burned = left;
        self.burn(burned);
        let place = self.state.seat_of(&question.seat);
        if let (Some(place), Some(file)) = (place, self.state.retained.get(&question.job)) {
            let mut file = file.clone();
            file.held.remove(place);
            self.state.put_retained(file);
        }
        Ok(QuestionEnd::Missing { burned, returned })
    }

    fn end_question(&mut self, question: &StoredQuestion, end: QuestionEnd) -> Done {
        self.state.questions.remove(&question.id);
        self.events.push(Event::AnswerQuestionEnded {
            job: question.job,
            seat: question.seat,
            asker: question.asker,
            end,
        });
        Ok(())
    }

    /// What the passing of time does to what is kept.
    pub(super) fn run_retention(&mut self) -> Done {
        let mut noted: Vec<SeatSet> = Vec::new();
        for _ in 0..RETAINED_PER_BLOCK_MAX {
            let first = self.state.retained.first_due(RentCategory::Retained);
            let first = first.filter(|(at, _)| *at < u128::from(self.now.get()));
            let Some(file) = first
                .and_then(|(_, id)| self.state.retained.get(&id))
                .cloned()
            else {
                break;
            };
            if file.until < self.now {
                self.state.remove_retained(&file.job);
                self.events.push(Event::AnswerReleased { job: file.job });
                continue;
            }
            noted.push(file.held);
            self.state.put_retained(RetainedFile {
                stage: KeptStage::Noted,
                ..file
            });
        }
        self.note_kept_by(&noted);
        // Those that were decided within an outage, and those that nothing decides any more.
        let questions = self.state.questions.iter();
        let questions = questions.filter(|it| it.until < self.now || self.is_convicted(it));
        let questions: Vec<StoredQuestion> = questions.cloned().collect();
        for question in questions {
            let id = question.id;
            let is_over = question.until < self.now;
            // It may have ended with another one about the same file.
            if self.state.questions.get(&id).is_none() {
                continue;
            }
            self.judge_question(question)?;
            if is_over && let Some(question) = self.state.questions.get(&id).cloned() {
                self.ask_again_or_end(question)?;
            }
        }
        Ok(())
    }

    /// A question is over, and nothing was decided. Of a seat that is not there it is asked again, as long as the answer is kept. Stops: one of
    /// four that makes no block until the question is over, and keeps its seat and its bond.
    fn ask_again_or_end(&mut self, mut question: StoredQuestion) -> Done {
        let place = self.state.seat_of(&question.seat).map(usize::from);
        let seat = place.and_then(|place| self.state.seats.seats.get(place));
        let is_away = seat.is_some_and(|it| it.is_silent_at(self.height));
        if !is_away || self.state.retained_of(&question.job).is_none() {
            return self.end_question(&question, QuestionEnd::Undecided);
        }
        let window = self.state.parameters.ask_window;
        question.missing_from = self.now.saturating_add(window);
        let half = DurationMs::new(window.get() / 2);
        question.until = question.missing_from.saturating_add(half);
        question.missing = SeatSet::default();
        self.state.questions.put(question);
        Ok(())
    }

    /// Notes which validators stated in time that they hold at least half of what n - f others do, and which did not: once in a block, however
    /// many answers there are. Stops: one that keeps a few small answers, and has the share of those that keep all.
    fn note_kept_by(&mut self, files: &[SeatSet]) {
        if files.is_empty() {
            return;
        }
        let book = Arc::make_mut(&mut self.state.seats);
        for (place, seat) in (0u8..).zip(&mut book.seats) {
            let kept = files.iter().filter(|held| held.contains(place)).count();
            seat.unkept = match 2 * kept >= files.len() {
                true => 0,
                false => seat.unkept.saturating_add(1),
            };
        }
    }

    /// Whether enough found that a validator does not have a file. Nobody is convicted within an outage, nor while it is not there itself: one of four
    /// keeps its seat however long it is silent.
    fn is_convicted(&self, question: &StoredQuestion) -> bool {
        let needed = match is_armed(LedgerCanary::MissingOfOne) {
            true => 1,
            false => self.state.quorum(),
        };
        let place = self.state.seat_of(&question.seat).map(usize::from);
        let seat = place.and_then(|place| self.state.seats.seats.get(place));
        question.missing.len() >= needed
            && seat.is_some_and(|it| !it.is_silent_at(self.height))
            && self.state.windows_may_end(self.height, self.now)
    }

    /// Statements are those of the same validators at their new places, and a question ends with the seat of whoever is asked.
    pub(super) fn retention_moved(&mut self, moved: impl Fn(SeatSet) -> SeatSet) -> Done {
        let files: Vec<RetainedFile> = self.state.retained.iter().cloned().collect();
        for before in files {
            let mut file = before.clone();
            file.held = moved(file.held);
            self.advance_kept(&mut file);
            if file != before {
                self.state.put_retained(file);
            }
        }
        let questions: Vec<StoredQuestion> = self.state.questions.iter().cloned().collect();
        for mut question in questions {
            if self.state.questions.get(&question.id).is_none() {
                continue;
            }
            if self.state.seat_of(&question.seat).is_none() {
                self.end_question(&question, QuestionEnd::Undecided)?;
                continue;
            }
            question.held = moved(question.held);
            question.missing = moved(question.missing);
            self.judge_question(question)?;
        }
        Ok(())
    }
}
