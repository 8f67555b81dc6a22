//! Which jobs agreed to be preempted, and which were told to leave; derived from jobs and leases.
//!
//! The index is updated whenever a job or a lease is stored, so that a job that looks for room visits only machines on which
//! a job may be preempted, and not every lease.

use std::collections::{BTreeMap, BTreeSet};

use tg_types::{JobId, OfferId};

use crate::limits::PREEMPTIONS_MAX;
use crate::record::{Job, JobState, Lease};

/// Whether the live lease of a job may be preempted, and whether it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LeaseConsent {
    /// The offer on whose machine it may be preempted.
    pub(super) may_leave: Option<OfferId>,
    /// The job for which it was told to end.
    pub(super) told_by: Option<JobId>,
}

/// An index of the jobs whose live leases may be preempted, or are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Consents {
    /// By the sequence of the job.
    pub(super) by_job: BTreeMap<u64, LeaseConsent>,
    may_leave: BTreeMap<OfferId, BTreeSet<u64>>,
    told_by: BTreeMap<JobId, BTreeSet<u64>>,
}

impl Consents {
    /// The offers on whose machines a job may be preempted, by offer id.
    pub(crate) fn offers(&self) -> impl Iterator<Item = OfferId> {
        self.may_leave.keys().copied()
    }

    /// On how many machines a job may be preempted.
    pub(crate) fn len(&self) -> usize {
        self.may_leave.len()
    }

    /// Whether a job was told to make room for `job`, and still runs.
    pub(crate) fn makes_room_for(&self, job: &JobId) -> bool {
        self.told_by.contains_key(job)
    }

    pub(super) fn set(&mut self, sequence: u64, consent: LeaseConsent) {
        let before = self.by_job.remove(&sequence).unwrap_or_default();
        if let Some(offer) = before.may_leave {
            drop_from(&mut self.may_leave, &offer, sequence);
        }
        if let Some(job) = before.told_by {
            drop_from(&mut self.told_by, &job, sequence);
        }
        if consent == LeaseConsent::default() {
            return;
        }
        self.by_job.insert(sequence, consent);
        if let Some(offer) = consent.may_leave {
            self.may_leave.entry(offer).or_default().insert(sequence);
        }
        if let Some(job) = consent.told_by {
            self.told_by.entry(job).or_default().insert(sequence);
        }
    }
}

fn drop_from<K: Ord>(map: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, sequence: u64) {
    if let Some(set) = map.get_mut(key) {
        set.remove(&sequence);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

/// Whether a lease may be preempted.
pub(crate) fn can_be_pushed_out(job: &Job, lease: &Lease) -> bool {
    let waits = matches!(job.state(), JobState::Leased | JobState::Running);
    let agreed = job.order.needs.preemptible && job.preemptions < PREEMPTIONS_MAX;
    waits && agreed && lease.members().is_empty() && lease.preemption.is_none()
}
