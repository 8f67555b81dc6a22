//! Effects of statements about storage. A job waits for a provider once enough validators hold what it needs; an answer that
//! nobody checks, or that only few validators have, is paid once enough of them hold it.

use tg_types::{Address, StorageSubject};

use super::Execution;
use crate::canary::{LedgerCanary, is_armed};
use crate::error::InvariantError;
use crate::event::Event;
use crate::record::{Job, JobState, Lease, Model, OpenStage, Storage};
use crate::state::Statement;

type Done = Result<(), InvariantError>;

impl Execution {
    /// Takes a validator's statements. What is not asked any more is passed over.
    pub(super) fn report_storage(
        &mut self,
        validator: Address,
        held: &[StorageSubject],
        missing: &[StorageSubject],
    ) -> Done {
        let no_seat = InvariantError::Missing {
            table: "validators",
        };
        let seat = self.state.seat_of(&validator).ok_or(no_seat)?;
        let held = held.iter().map(|it| (it, Statement::Held));
        let missing = missing.iter().map(|it| (it, Statement::Missing));
        for (subject, statement) in held.chain(missing) {
            if !self.state.is_asked(seat, (subject, statement)) {
                continue;
            }
            match subject {
                StorageSubject::Job(job) => self.note_input(self.job(job)?, seat, statement)?,
                StorageSubject::Model(model) => {
                    self.note_model(self.model(model)?, seat, statement)?;
                }
                StorageSubject::Lease(lease) => {
                    self.note_lease_file(self.lease(lease)?, seat, statement)?;
                }
                StorageSubject::Answer(job) => {
                    if let Some(file) = self.state.retained_of(job).cloned() {
                        self.note_kept(file, seat);
                    }
                }
                StorageSubject::Question(question) => {
                    if let Some(question) = self.state.questions.get(question).cloned() {
                        self.note_question(question, seat, statement == Statement::Missing)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn note_input(&mut self, mut job: Job, seat: u8, statement: Statement) -> Done {
        note(&mut job.storage, seat, statement);
        if job.state() == JobState::Submitted && self.is_ready(&job) {
            self.step(&mut job, OpenStage::Queued)?;
        }
        self.judge_input(job)
    }

    fn note_lease_file(&mut self, mut lease: Lease, seat: u8, statement: Statement) -> Done {
        if let Some(storage) = lease.storage_mut() {
            note(storage, seat, statement);
        }
        if statement == Statement::Held {
            self.note_delivered(&lease, seat);
        }
        self.go_on_if_held(lease)
    }

    /// Stores a lease of which validators have to hold a file, and does what follows if enough do.
    pub(super) fn go_on_if_held(&mut self, mut lease: Lease) -> Done {
        self.begin_vote_if_held(&mut lease);
        self.advance_if_held(&mut lease);
        let is_delivered = lease.delivery().is_some()
            && (self.state.is_answer_held(&lease) || is_armed(LedgerCanary::PaidBeforeHeld));
        if is_delivered {
            let job = self.job(&lease.job)?;
            return self.accept(job, lease);
        }
        self.state.put_lease(lease);
        Ok(())
    }

    fn note_model(&mut self, mut model: Model, seat: u8, statement: Statement) -> Done {
        let was_held = self.state.is_held(&model.storage);
        note(&mut model.storage, seat, statement);
        let is_held = self.state.is_held(&model.storage);
        let id = model.id;
        self.judge_model(model)?;
        if was_held || !is_held {
            return Ok(());
        }
        self.events.push(Event::ModelHeld { model: id });
        let submitted = self.state.submitted.clone();
        for job in submitted.values() {
            let mut job = self.job(job)?;
            if job.order.model == id && self.is_ready(&job) {
                self.step(&mut job, OpenStage::Queued)?;
                self.save_job(job);
            }
        }
        Ok(())
    }

    /// Whether enough validators hold a job's input and its model's files.
    pub(super) fn is_ready(&self, job: &Job) -> bool {
        let model = self.state.model(&job.order.model);
        let has_input = job.is_endpoint() || self.state.is_held(&job.storage);
        has_input && model.is_some_and(|it| self.state.is_held(&it.storage))
    }
}

/// Writes a statement down.
fn note(storage: &mut Storage, seat: u8, statement: Statement) {
    match statement {
        Statement::Held => storage.held.insert(seat),
        Statement::Missing => {}
    }
    if let Some(recheck) = &mut storage.recheck {
        match statement {
            Statement::Held => recheck.held.insert(seat),
            Statement::Missing => recheck.missing.insert(seat),
        }
    }
}
