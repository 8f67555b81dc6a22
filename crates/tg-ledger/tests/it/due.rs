//! When the mere passing of time changes something, worked out from the records and not from the queues by which blocks find it.

use tg_ledger::{EndpointMeter, Job, JobState, KeptStage, Lease, ModelState, ReplicaStage, State};
use tg_types::{Amount, DurationMs, TimestampMs};

/// The earliest block time at which it does; `None` if nothing waits.
pub(crate) fn next_timeout(state: &State) -> Option<TimestampMs> {
    let wait = state.parameters().verification_timeout;
    let models = state.models().iter();
    let models = models.filter(|model| model.state == ModelState::Pending);
    let models = models.map(|model| model.registered_at.saturating_add(wait));
    let waiting = state.submitted_jobs().chain(state.queued_jobs());
    let waiting = waiting.map(|job| job.order.deadline);
    let live = state.live_leases();
    let live = live.map(|(job, lease)| lease_due(state, job, lease));
    let bids = state.bids().iter().map(|bid| {
        let lapses = state.parameters().slot_begins(bid.slot.saturating_add(2));
        TimestampMs::new(lapses.get().saturating_sub(1))
    });
    let kept = state.retained().iter().map(|file| match file.stage {
        KeptStage::Held { state_by } => state_by.min(file.until),
        KeptStage::TooFew | KeptStage::Noted => file.until,
    });
    let questions = state.questions().iter().map(|it| it.until);
    models
        .chain(waiting)
        .chain(live)
        .chain(bids)
        .chain(kept)
        .chain(questions)
        .min()
        .map(|due| TimestampMs::new(due.get().saturating_add(1)))
}

fn lease_due(state: &State, job: &Job, lease: &Lease) -> TimestampMs {
    let due = match job.state() {
        JobState::Running if lease.meter.is_some() => endpoint_ends(state, job, lease),
        JobState::Leased => lease.start_by.min(lease.deadline),
        JobState::Verifying => lease.verify_by().unwrap_or(lease.deadline),
        JobState::Delivering => lease.delivery().map_or(lease.deadline, |(by, _)| by),
        JobState::Committed => match lease.replicas {
            Some(ReplicaStage::Opening { open_by: due })
            | Some(ReplicaStage::Agreed { deliver_by: due }) => due,
            Some(ReplicaStage::Differ) | None => lease.deadline,
        },
        _ => lease.deadline,
    };
    let waits = matches!(job.state(), JobState::Leased | JobState::Running);
    let preempted = lease.preemption.filter(|_| waits);
    preempted.map_or(due, |it| due.min(it.at))
}

/// When the lease of an endpoint ends if nothing is claimed and nothing more locked.
fn endpoint_ends(state: &State, job: &Job, lease: &Lease) -> TimestampMs {
    let wait = state.parameters().verification_timeout;
    let (Some(meter), Some(start)) = (lease.meter, lease.started_at()) else {
        return lease.deadline;
    };
    let end = meter.ends_at.unwrap_or(lease.deadline).min(lease.deadline);
    let spent = lasts(&meter, job.escrow()).map(|it| start.saturating_add(it));
    let last = end.saturating_add(wait);
    spent.filter(|it| *it < end).map_or(last, |it| it.min(last))
}

/// How long after the start what is `left` of the escrow is spent, if nothing more is claimed; `None` if never.
fn lasts(meter: &EndpointMeter, left: Amount) -> Option<DurationMs> {
    let time = left.saturating_add(meter.paid);
    let time = time.saturating_sub(meter.vouchers).get();
    let spent = time.checked_mul(60_000)?.checked_div(meter.minute.get())?;
    Some(DurationMs::new(u64::try_from(spent).ok()?))
}
