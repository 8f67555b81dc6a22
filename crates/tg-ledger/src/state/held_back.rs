//! Queries about machines that are held back.

use tg_market::Hold;
use tg_types::{JobId, TimestampMs};

use super::reservations::{HeldPlace, Reservation};
use crate::record::JobState;
use crate::state::State;

impl State {
    /// The machines that are held back, in the order in which that was decided.
    #[must_use]
    pub fn reservations(&self) -> &[Reservation] {
        &self.reservations
    }

    /// What is held back for a job.
    #[must_use]
    pub fn reservation_of(&self, job: &JobId) -> Option<&Reservation> {
        self.reservations.iter().find(|it| it.job == *job)
    }

    /// What is held of machines for jobs that still wait.
    pub(crate) fn held_back(&self, now: TimestampMs) -> impl Iterator<Item = Hold> {
        let waiting = self.reservations.iter().filter_map(move |it| {
            let job = self.jobs.get(&it.job);
            let job = job.filter(|job| job.state() == JobState::Queued)?;
            Some(it.holds(job, now))
        });
        waiting.flatten()
    }

    /// Thousandths of a GPU that are free of those held back on a machine.
    pub(crate) fn idle_milli(&self, place: &HeldPlace) -> u32 {
        let Some(node) = self.stock.node(&place.offer) else {
            return 0;
        };
        let free = self.stock.cluster().free(node).gpu_milli;
        let held = (0..).zip(free);
        let held = held.filter(|(device, _)| place.grant.devices >> device & 1 == 1);
        held.map(|(_, free)| u32::from(free.min(place.grant.gpu_milli)))
            .sum()
    }
}
