//! What jobs and their leases say of leaving, noted as they are put.

use std::sync::Arc;

use tg_types::JobId;

use super::consent::{Consents, Said, can_be_pushed_out};
use crate::record::Job;
use crate::state::State;

impl State {
    /// Who agreed to leave, by a look at every job: equal to what was kept up to date.
    pub(crate) fn rebuilt_consents(&self) -> Consents {
        let mut consents = Consents::default();
        for job in self.jobs.iter() {
            consents.set(job.sequence, self.said_of(job));
        }
        consents
    }

    /// Takes note of what a job and its live lease say now.
    pub(crate) fn note_consent(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get(id) else {
            return;
        };
        let (sequence, said) = (job.sequence, self.said_of(job));
        let before = self.consents.said.get(&sequence).copied();
        if before.unwrap_or_default() != said {
            Arc::make_mut(&mut self.consents).set(sequence, said);
        }
    }

    fn said_of(&self, job: &Job) -> Said {
        let lease = job.live_lease().and_then(|id| self.leases.get(&id));
        let Some(lease) = lease else {
            return Said::default();
        };
        Said {
            may_leave: can_be_pushed_out(job, lease).then_some(lease.offer),
            told_by: lease.preemption.map(|it| it.by),
        }
    }
}
