//! What the passing of time does. A time limit holds to its last millisecond: only later blocks see it passed.

use tg_types::JobId;

use super::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::record::{
    AbandonedBecause, EndReason, Job, JobState, LatePhase, Lease, LeaseEnd, Model, ModelState,
    RefusedBecause,
};

impl Execution {
    /// Ends everything whose time is over: registrations, leases, then waiting jobs.
    pub(super) fn run_timeouts(&mut self) -> Result<(), InvariantError> {
        self.refuse_undelivered_models();
        let live: Vec<JobId> = self.state.live.values().copied().collect();
        for id in live {
            let job = self.job(&id)?;
            let Some(lease) = job.live_lease() else {
                continue;
            };
            let lease = self.lease(&lease)?;
            if let Some(end) = self.lapse(&job, &lease) {
                self.fail(job, lease, end)?;
            }
        }
        let late: Vec<JobId> = self
            .state
            .queued_jobs()
            .filter(|job| job.order.deadline < self.now)
            .map(|job| job.id)
            .collect();
        for id in late {
            let job = self.job(&id)?;
            let (state, reason) = match job.leases.is_empty() {
                true => (JobState::Expired, EndReason::NoProviderInTime),
                false => (JobState::Refunded, EndReason::DeadlinePassed),
            };
            self.end_unpaid(job, state, reason)?;
        }
        Ok(())
    }

    /// How a lease ends by time, if it does.
    fn lapse(&self, job: &Job, lease: &Lease) -> Option<LeaseEnd> {
        let (due, end) = match job.state {
            JobState::Leased => (
                lease.start_by,
                LeaseEnd::Abandoned(AbandonedBecause::NotStarted),
            ),
            JobState::Running => (lease.deadline, LeaseEnd::Late(LatePhase::Running)),
            JobState::Committed => (lease.deadline, LeaseEnd::Late(LatePhase::Committed)),
            JobState::Verifying => (
                lease.verify_by?,
                LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered),
            ),
            JobState::Queued
            | JobState::Accepted
            | JobState::Paid
            | JobState::Refunded
            | JobState::Disputed
            | JobState::Expired
            | JobState::Cancelled => return None,
        };
        (due < self.now).then_some(end)
    }

    fn refuse_undelivered_models(&mut self) {
        let wait = self.state.parameters.verification_timeout;
        let late: Vec<Model> = self
            .state
            .models
            .iter()
            .filter(|model| model.state == ModelState::Pending)
            .filter(|model| model.registered_at.saturating_add(wait) < self.now)
            .cloned()
            .collect();
        for mut model in late {
            model.state = ModelState::Refused(RefusedBecause::NotDelivered);
            self.events.push(Event::ModelChanged {
                model: model.id,
                state: model.state.clone(),
            });
            self.state.put_model(model);
        }
    }
}
