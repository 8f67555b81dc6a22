//! Why a job is where it is.

use tg_ledger::{Job, JobState, LeaseEnd, State, TransactionError};
use tg_sdk::dto::{ConstraintDto, DryRunDto, JobWhyDto, OfferWhyDto};
use tg_types::{Address, Amount, JobOrder, TimestampMs};

use super::{job_state, lacks};

/// Why a job is where it is: a sentence, its place in the queue, every offer with what it lacks, what to relax.
#[must_use]
pub fn why(state: &State, job: &Job) -> JobWhyDto {
    let waiting = state.why_waiting(&job.id);
    let queue_position = waiting.as_ref().map(|it| it.queue_position);
    let eta = waiting.as_ref().and_then(|it| it.eta);
    let constraints = waiting.as_ref().map_or_else(Vec::new, |waiting| {
        let rejections = waiting.placement.rejections.iter();
        rejections
            .map(|(constraint, count)| ConstraintDto {
                constraint: constraint.explanation().to_owned(),
                rejected: u64::from(count),
            })
            .collect()
    });
    let offers = waiting.as_ref().map_or_else(Vec::new, |waiting| {
        let assessments = waiting.assessments.iter();
        assessments
            .map(|assessment| OfferWhyDto {
                offer: assessment.offer,
                provider: assessment.provider,
                price: assessment.quote.map(|quote| quote.price),
                lacks: lacks(assessment.broken.iter().map(|it| it.explanation())),
            })
            .collect()
    });
    let considered = waiting.as_ref().map(|waiting| waiting.placement.considered);
    let suitable = waiting
        .as_ref()
        .is_some_and(|waiting| waiting.placement.chosen.is_some());
    JobWhyDto {
        job: job.id,
        state: job_state(job.state),
        summary: summary(state, job, considered, suitable),
        queue_position,
        hint: hint(state, job, considered, suitable),
        relaxations: waiting.as_ref().map_or_else(Vec::new, |waiting| {
            waiting
                .relaxations
                .iter()
                .map(ToString::to_string)
                .collect()
        }),
        priority_to_be_next: waiting.as_ref().and_then(|it| it.priority_to_be_next),
        price_to_be_next: waiting.as_ref().and_then(|it| it.price_to_be_next),
        eta_earliest_ms: eta.map(|it| it.earliest.get()),
        eta_latest_ms: eta.map(|it| it.latest.get()),
        constraints,
        offers,
    }
}

/// What an order would come to in the next block, at `now` or as soon after the last block as can be.
///
/// # Errors
/// If it would be refused.
pub fn dry_run(
    state: &State,
    requestor: Address,
    order: &JobOrder,
    now: TimestampMs,
) -> Result<DryRunDto, TransactionError> {
    let next = TimestampMs::new(state.head().timestamp.get().saturating_add(1));
    let (after, id) = state.after_dry_run(requestor, order, now.max(next))?;
    let unknown = TransactionError::UnknownJob { job: id };
    let job = after.job(&id).ok_or(unknown)?;
    let lead = job.live_lease().and_then(|lease| after.lease(&lease));
    let fee = job.verification_fee;
    let charge = lead.map(|lead| {
        let prices = after.gang_of(lead).map(|lease| lease.price);
        prices.fold(fee.saturating_add(job.owed_sum()), Amount::saturating_add)
    });
    Ok(DryRunDto {
        job: super::job(&after, job),
        why: why(&after, job),
        charge,
        charge_max: order.max_price.saturating_add(fee),
    })
}

fn summary(state: &State, job: &Job, considered: Option<u32>, suitable: bool) -> String {
    let failed = failures(state, job);
    let stands = match job.state {
        JobState::Submitted => waits_for_storage(state, job),
        JobState::Queued => match (considered, suitable) {
            (Some(0), _) => "waits: there is no offer".to_owned(),
            (Some(_), true) => "waits for the next block, which will match it".to_owned(),
            (Some(count), false) => format!("waits: none of {count} offers fits"),
            (None, _) => "waits: its model is not active".to_owned(),
        },
        JobState::Leased => "a provider has it and has not started".to_owned(),
        JobState::Running => "a provider works on it".to_owned(),
        JobState::Committed => "the result is committed; its proof is being made".to_owned(),
        JobState::Verifying => "validators check the proof".to_owned(),
        JobState::Accepted => "the result is accepted".to_owned(),
        JobState::Disputed => "the result is disputed".to_owned(),
        JobState::Paid | JobState::Refunded | JobState::Expired | JobState::Cancelled => job
            .end
            .map_or_else(|| "it is over".to_owned(), |end| end.to_string()),
    };
    if failed.is_empty() {
        stands
    } else {
        format!("{stands}; earlier attempts: {}", failed.join(", "))
    }
}

/// What validators do not hold yet.
fn waits_for_storage(state: &State, job: &Job) -> String {
    let needed = state.quorum();
    let held = job.storage.held.len();
    if held < needed {
        return format!("waits until {needed} validators hold its input; {held} do");
    }
    let model = state.model(&job.order.model);
    let held = model.map_or(0, |it| it.storage.held.len());
    format!("waits until {needed} validators hold its model's files; {held} do")
}

/// How earlier leases failed.
fn failures(state: &State, job: &Job) -> Vec<String> {
    let leases = job.leases.iter().filter_map(|id| state.lease(id));
    leases
        .filter_map(|lease| lease.end.as_ref().map(|end| (lease, end)))
        .filter(|(_, end)| **end != LeaseEnd::Fulfilled)
        .map(|(lease, end)| format!("{} {end}", lease.provider))
        .collect()
}

fn hint(state: &State, job: &Job, considered: Option<u32>, suitable: bool) -> String {
    if job.state != JobState::Queued || suitable {
        return String::new();
    }
    if considered == Some(0) {
        return "start a provider: tensorgrid provider --price 0.01".to_owned();
    }
    let asks = state
        .offers()
        .iter()
        .filter_map(|offer| offer.terms.price(job.macs));
    match asks.min() {
        Some(ask) if ask > job.order.max_price => {
            format!("raise --max-price to {ask} or more: the cheapest offer asks that")
        }
        _ => "cancel the job, or wait until an offer fits; its deadline gives the escrow back"
            .to_owned(),
    }
}
