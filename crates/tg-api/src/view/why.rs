//! Why a job is where it is.

use std::collections::{BTreeMap, BTreeSet};

use tg_ledger::{
    GangWhy, Job, JobState, Relaxation, SealingStage, State, TransactionError, WhyWaiting,
};
use tg_sdk::dto::{ConstraintDto, DryRunDto, JobWhyDto, OfferWhyDto};
use tg_types::{Address, Amount, JobOrder, Lane, TimestampMs, VerificationMode};

use super::state::{job_state, lacks};

/// Most offers that are explained: those that an order would take first.
const OFFERS_EXPLAINED_MAX: usize = 200;

/// Why a job is where it is: a sentence, its place in the queue, offers with what they lack, what to relax.
#[must_use]
pub fn why(state: &State, job: &Job) -> JobWhyDto {
    let waiting = state.why_waiting(&job.id);
    let queue_position = waiting.as_ref().map(|it| it.queue_position);
    let eta = waiting.as_ref().and_then(|it| it.eta);
    // What is free now is no time to wait for.
    let eta = eta.filter(|it| it.latest > state.head().timestamp);
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
            .take(OFFERS_EXPLAINED_MAX)
            .map(|assessment| OfferWhyDto {
                offer: assessment.offer,
                provider: assessment.provider,
                price: assessment.quote.map(|quote| quote.price),
                lacks: lacks(assessment.broken.iter().map(|it| it.explanation())),
            })
            .collect()
    });
    JobWhyDto {
        job: job.id,
        state: job_state(job.state()),
        summary: summary(state, job, waiting.as_ref()),
        queue_position,
        hint: hint(job, waiting.as_ref()),
        relaxations: waiting.as_ref().map_or_else(Vec::new, |waiting| {
            let changes = waiting.relaxations.iter().map(ToString::to_string);
            let gang = waiting.gang.iter().flat_map(gang_changes);
            changes.chain(gang).collect()
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
    let (fee, kept) = (job.verification_fee, job.retention.fee);
    let charge = lead.map(|lead| {
        let prices = after.gang_of(lead).map(|lease| lease.price);
        let beside = fee.saturating_add(kept).saturating_add(job.owed_sum());
        prices.fold(beside, Amount::saturating_add)
    });
    let mut why = why(&after, job);
    let price = match job.state() {
        JobState::Submitted => price_with_input(state, order, &mut why),
        _ => None,
    };
    Ok(DryRunDto {
        job: super::job::job(&after, job),
        why,
        charge: charge.or(price.map(|price| price.saturating_add(fee).saturating_add(kept))),
        charge_max: order.max_price.saturating_add(fee).saturating_add(kept),
    })
}

/// What an order pays providers once validators hold its input, which they say of ordered jobs only: the offers as they are now, with
/// what they lack, are added to `why`. Nothing if too few fit now, or the order is a sealed bid.
fn price_with_input(state: &State, order: &JobOrder, why: &mut JobWhyDto) -> Option<Amount> {
    let model = state.model(&order.model)?;
    if order.needs.lane() == Lane::Auction || !state.is_held(&model.storage) {
        return None;
    }
    // Of a gang each member: what it puts up has to be enough for the price of all.
    let assessments = state.assess_order(order)?;
    let is_compared = order.mode == VerificationMode::Replicate;
    let (mut rejected, mut owners) = (BTreeMap::new(), BTreeSet::new());
    let mut places = Vec::new();
    for assessment in &assessments {
        for constraint in assessment.broken.iter() {
            *rejected.entry(constraint.explanation()).or_insert(0) += 1;
        }
        if why.offers.len() < OFFERS_EXPLAINED_MAX {
            why.offers.push(OfferWhyDto {
                offer: assessment.offer,
                provider: assessment.provider,
                price: assessment.quote.map(|quote| quote.price),
                lacks: lacks(assessment.broken.iter().map(|it| it.explanation())),
            });
        }
        let quote = assessment.quote.filter(|_| assessment.broken.is_empty());
        if let (Some(quote), Some(offer)) = (quote, state.offer(&assessment.offer)) {
            let free = offer.terms.slots.saturating_sub(offer.slots_taken);
            // Members are on distinct machines, and those that are compared of distinct providers.
            let is_distinct = !is_compared || owners.insert(assessment.provider);
            if free > 0 && is_distinct {
                places.push(quote.price);
            }
        }
    }
    let counts = rejected
        .into_iter()
        .map(|(constraint, rejected)| ConstraintDto {
            constraint: constraint.to_owned(),
            rejected,
        });
    why.constraints = counts.collect();
    let members = usize::from(order.needs.gang);
    if places.len() < members {
        let found = places.len();
        why.summary.push_str(&format!(
            "; then {found} of {members} members would have a place"
        ));
        return None;
    }
    // Who is drawn does not follow from the price: the dearest of twice as many.
    let first = match is_compared {
        true => places.len().min(2 * members) - members,
        false => 0,
    };
    let prices = places.into_iter().skip(first).take(members);
    let price = prices.fold(Amount::ZERO, Amount::saturating_add);
    why.summary
        .push_str("; then offers that fit now would take it");
    Some(price)
}

fn summary(state: &State, job: &Job, waiting: Option<&WhyWaiting>) -> String {
    let failed = failures(state, job);
    let stands = match job.state() {
        JobState::Submitted => waits_for_storage(state, job),
        JobState::Queued if job.draw.as_ref().is_some_and(|it| it.seed.is_none()) => {
            "waits for the seed of a block, which draws its members".to_owned()
        }
        JobState::Queued => match waiting {
            Some(waiting) => waits(job, waiting) + &held_back(state, job),
            None => "waits: its model is not active".to_owned(),
        },
        JobState::Leased => leased(state, job).to_owned(),
        JobState::Running => "a provider works on it".to_owned(),
        JobState::Committed | JobState::Disputed
            if job.order.mode == VerificationMode::Replicate =>
        {
            replicas(state, job).to_owned()
        }
        JobState::Committed => committed(job.order.mode).to_owned(),
        JobState::Verifying => verifying(job.order.mode).to_owned(),
        JobState::Accepted => "the result is accepted".to_owned(),
        JobState::Disputed => "the result is disputed".to_owned(),
        JobState::Delivering => delivered(state, job),
        JobState::Paid | JobState::Refunded | JobState::Expired | JobState::Cancelled => job
            .end()
            .map_or_else(|| "it is over".to_owned(), |end| end.to_string()),
    };
    if failed.is_empty() {
        stands
    } else {
        format!("{stands}; earlier attempts: {}", failed.join(", "))
    }
}

/// What a job waits for that a provider has and did not start.
fn leased(state: &State, job: &Job) -> &'static str {
    let lease = job.live_lease().and_then(|it| state.lease(&it));
    let stage = lease.and_then(|it| it.sealing.as_ref()).map(|it| &it.stage);
    match stage {
        Some(SealingStage::AwaitsKey) => {
            "a provider has it and waits for the key that opens its sealed input: `tensorgrid job grant` gives it"
        }
        Some(stage @ (SealingStage::Questioned { .. } | SealingStage::Revealed { .. })) => {
            stage.as_str()
        }
        Some(SealingStage::Granted { .. }) | None => "a provider has it and has not started",
    }
}

/// What a job waits for whose provider has committed to a result.
const fn committed(mode: VerificationMode) -> &'static str {
    match mode {
        VerificationMode::Sync | VerificationMode::Optimistic => {
            "the result is committed; it waits for the seed that draws who checks it, and for what the provider opens"
        }
        _ => "the result is committed; its proof is being made",
    }
}

/// Who looks at the result of a job now.
const fn verifying(mode: VerificationMode) -> &'static str {
    match mode {
        VerificationMode::Sync => "a drawn committee runs it, or drawn parts of it, and votes",
        VerificationMode::Optimistic => {
            "a drawn validator runs it, then anybody may challenge the result for some seconds"
        }
        VerificationMode::Sealed => {
            "validators fetch the sealed answer; then its requestor has some seconds to doubt it, by showing its key"
        }
        VerificationMode::Recompute => "validators run it again",
        VerificationMode::Replicate => "validators run it again, as its members differ",
        VerificationMode::Proof | VerificationMode::None | VerificationMode::Endpoint => {
            "validators check the proof"
        }
    }
}

/// Where the members of a job of mode replicate stand.
fn replicas(state: &State, job: &Job) -> &'static str {
    let lead = job.live_lease().and_then(|it| state.lease(&it));
    let stage = lead.and_then(|it| it.replicas);
    stage.map_or("the members are compared", |it| it.as_str())
}

/// What is held back for a job that waits, and what that cost so far.
fn held_back(state: &State, job: &Job) -> String {
    let held = state.reservation_of(&job.id);
    let held = held.map_or_else(String::new, |it| {
        let seconds = it
            .from
            .saturating_since(state.head().time)
            .get()
            .div_ceil(1_000);
        let machines = it.places.len();
        format!(
            "; held back for it: {machines} of their machines, free in {seconds} s at the latest"
        )
    });
    match job.escrow_burned.is_zero() {
        true => held,
        false => format!(
            "{held}; {} TGRID of its escrow burned so far",
            job.escrow_burned
        ),
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

/// How many validators hold the answer of a job whose result nobody checks, or was found right.
fn delivered(state: &State, job: &Job) -> String {
    let needed = state.quorum();
    let lead = job.live_lease().and_then(|it| state.lease(&it));
    let held = lead.map_or(0, |it| state.answer_held_by(it).len());
    let stands = match job.order.mode {
        VerificationMode::Sync => "a committee found the result right",
        _ => "the result is committed",
    };
    format!("{stands}; it is paid when {needed} validators hold the answer; {held} do")
}

/// Why a job waits, in one sentence.
fn waits(job: &Job, waiting: &WhyWaiting) -> String {
    let considered = waiting.placement.considered;
    if considered == 0 {
        return "waits: there is no offer".to_owned();
    }
    if waiting.is_suited() {
        return "waits for the next block, which will match it".to_owned();
    }
    match &waiting.gang {
        Some(gang) => format!(
            "waits: {} of {} members have a place, each on a machine of its own within {} us of the others; {} of \
             {considered} offers fit a member",
            gang.placed, gang.members, job.order.needs.neighbourhood_us, gang.machines,
        ),
        None if waiting.is_occupied() => {
            format!("waits: every offer that could serve it is busy, of {considered}")
        }
        None => format!("waits: none of {considered} offers fits"),
    }
}

/// What would give all members of a gang a place, beside what their machines lack.
fn gang_changes(gang: &GangWhy) -> Vec<String> {
    let GangWhy {
        members,
        placed,
        machines: _,
        neighbourhood_us,
    } = gang;
    if placed >= members {
        return Vec::new();
    }
    let wider = neighbourhood_us.map(|side| {
        format!("a neighbourhood of {side} us would give all {members} members a place")
    });
    let fewer = (*placed > 1).then(|| format!("a gang of {placed} would have a place"));
    wider.into_iter().chain(fewer).collect()
}

/// How earlier leases failed.
fn failures(state: &State, job: &Job) -> Vec<String> {
    let leases = job.earlier.iter().filter_map(|id| state.lease(id));
    leases
        .filter_map(|lease| lease.end().map(|end| (lease, end)))
        .map(|(lease, end)| format!("{} {end}", lease.provider))
        .collect()
}

fn hint(job: &Job, waiting: Option<&WhyWaiting>) -> String {
    let Some(waiting) = waiting.filter(|it| !it.is_suited()) else {
        return String::new();
    };
    if waiting.placement.considered == 0 {
        return "start a provider: tensorgrid provider --price 0.01".to_owned();
    }
    let price = |it: &&Relaxation| it.is_of_price();
    let may_be_raised = job.order.needs.lane() != Lane::Auction;
    if let Some(raised) = waiting.relaxations.iter().find(price)
        && may_be_raised
    {
        return format!(
            "tensorgrid job raise {} --max-price {}",
            job.id,
            Amount::new(raised.value)
        );
    }
    if waiting.gang.is_none() && waiting.is_occupied() {
        return "wait: it gets the next free slot when its turn comes; its deadline gives the escrow back"
            .to_owned();
    }
    "cancel the job, or wait until an offer fits; its deadline gives the escrow back".to_owned()
}
