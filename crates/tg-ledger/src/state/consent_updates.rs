//! Updates of the index of preemptible jobs ([`Consents`]), made whenever a job or a lease is stored.

use std::sync::Arc;

use tg_types::JobId;

use super::consent_index::{Consents, LeaseConsent, can_be_pushed_out};
use crate::record::Job;
use crate::state::State;

impl State {
    /// The index of preemptible jobs, rebuilt from all jobs; equal to the one that is updated step by step.
    pub(crate) fn rebuilt_consents(&self) -> Consents {
        let mut consents = Consents::default();
        for job in self.jobs.iter() {
            consents.set(job.sequence, self.consent_of(job));
        }
        consents
    }

    /// Updates the entry of a job after it or its live lease changed.
    pub(crate) fn note_consent(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get(id) else {
            return;
        };
        let (sequence, consent) = (job.sequence, self.consent_of(job));
        let before = self.consents.by_job.get(&sequence).copied();
        if before.unwrap_or_default() != consent {
            Arc::make_mut(&mut self.consents).set(sequence, consent);
        }
    }

    fn consent_of(&self, job: &Job) -> LeaseConsent {
        let lease = job.live_lease().and_then(|id| self.leases.get(&id));
        let Some(lease) = lease else {
            return LeaseConsent::default();
        };
        LeaseConsent {
            may_leave: can_be_pushed_out(job, lease).then_some(lease.offer),
            told_by: lease.preemption.map(|it| it.by),
        }
    }
}
