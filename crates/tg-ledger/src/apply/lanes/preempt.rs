//! Preemption: a job may push out spot jobs to make room.
//!
//! Only jobs of tier spot are preempted, only by jobs of another tier, and only if the loss is smaller than what the new job
//! pays ([`tg_market::lane::queue::victims`]). A running job has a grace period to submit its result.

use tg_market::lane::queue::{Preemptible, victims};
use tg_market::placement::assess;
use tg_market::view::request_of;
use tg_market::{Constraint, OfferView, Quote};
use tg_types::{Amount, LeaseId, OfferId, TimestampMs};

use super::super::Execution;
use super::super::matching::{MatchContext, Outcome};
use crate::decision::Decision;
use crate::error::InvariantError;
use crate::record::{Job, JobState, Lease, Preemption};
use crate::state::{State, can_be_pushed_out};

impl Execution {
    /// Tells enough leases of one machine to end that `job` fits there; it waits until they have.
    pub(in crate::apply) fn make_room(
        &mut self,
        context: &mut MatchContext,
        job: &Job,
    ) -> Result<Outcome, InvariantError> {
        let needs = job.order.needs;
        // Stops: an endpoint that ends others' work for nothing. What is lost would be compared with the price of one run, and whoever
        // serves it could take all of its escrow before those who left are paid.
        let pushes_nobody_out = needs.preemptible || needs.gpus == 0 || job.is_endpoint();
        if pushes_nobody_out || !self.may_make_room(job) {
            return Ok(Outcome::Waits);
        }
        if !context.budget.admits(0) {
            return Ok(Outcome::Waits);
        }
        let chosen = self.cheapest_room(context, job);
        context.budget.spend_some(self.state.consents.len() as u64);
        let grace = self.state.parameters.preempt_grace;
        for (id, is_running) in chosen {
            let mut lease = self.lease(&id)?;
            let at = match is_running {
                true => self.now.saturating_add(grace),
                false => self.now,
            };
            lease.preemption = Some(Preemption { at, by: job.id });
            self.decisions.push(Decision::Preempted {
                lease: id,
                by: job.id,
            });
            self.state.put_lease(lease);
        }
        Ok(Outcome::Waits)
    }

    /// Whether any lease could end for `job`, and none was told so before.
    fn may_make_room(&self, job: &Job) -> bool {
        let consents = &self.state.consents;
        consents.len() > 0 && !consents.makes_room_for(&job.id)
    }

    /// The leases to end on the machine where least is lost.
    fn cheapest_room(&self, context: &MatchContext, job: &Job) -> Vec<(LeaseId, bool)> {
        // Only where somebody agreed to leave can room be made.
        let agreed = self.state.consents.offers();
        let chosen = self.room_among(context, job, agreed, |offer| self.holders(offer));
        debug_assert_eq!(
            chosen,
            self.room_among(
                context,
                job,
                self.state.offers.iter().map(|it| it.id),
                |offer| self
                    .state
                    .live_leases()
                    .filter(|(other, lease)| lease.offer == *offer && other.holds_machine())
                    .collect()
            ),
            "the consents answer as a look at every lease does"
        );
        chosen
    }

    /// The leases that hold something of the machine of `offer`, with their jobs; of gangs those that lead.
    fn holders(&self, offer: &OfferId) -> Vec<(&Job, &Lease)> {
        let leases = self.state.stock.holders(offer);
        leases
            .filter_map(|id| self.state.lease(&id))
            .filter(|lease| lease.lead().is_none())
            .filter_map(|lease| Some((self.state.job(&lease.job)?, lease)))
            .collect()
    }

    /// The leases to end on that machine of `offers` where least is lost.
    fn room_among<'a>(
        &'a self,
        context: &MatchContext,
        job: &Job,
        offers: impl Iterator<Item = OfferId>,
        holders: impl Fn(&OfferId) -> Vec<(&'a Job, &'a Lease)>,
    ) -> Vec<(LeaseId, bool)> {
        let stock = self.stock();
        let market = (&*stock, &context.prices);
        let Some(demand) = self.state.job_demand(job, market, self.now) else {
            return Vec::new();
        };
        let mut best: Option<(Amount, Vec<(LeaseId, bool)>)> = None;
        let rates = self.state.rates();
        for offer in offers {
            let Some(standing) = self.state.book.get(&offer) else {
                continue;
            };
            let view = standing.view(job.order.needs.class, &rates);
            let assessment = assess(&demand, &view);
            let only_room = assessment
                .broken
                .iter()
                .all(|it| matches!(it, Constraint::Busy | Constraint::Slots));
            let Some(quote) = assessment.quote.filter(|_| only_room) else {
                continue;
            };
            let held = holders(&offer);
            let Some((loss, leases)) = self.room_on(job, &view, &quote, &held) else {
                continue;
            };
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, leases));
            }
        }
        best.map(|(_, leases)| leases).unwrap_or_default()
    }

    /// What is lost on the machine of an offer where `held` holds something, and the leases to end there.
    fn room_on(
        &self,
        job: &Job,
        view: &OfferView<'_>,
        quote: &Quote,
        held: &[(&Job, &Lease)],
    ) -> Option<(Amount, Vec<(LeaseId, bool)>)> {
        // Somebody makes room there already.
        if held.iter().any(|(_, lease)| lease.preemption.is_some()) {
            return None;
        }
        let turn = State::waiting(job).turn(self.now);
        let preemptible = |(other, lease): &(&Job, &Lease)| {
            let goes_later = State::waiting(other).turn(self.now) > turn;
            Preemptible {
                job: other.sequence,
                consents: can_be_pushed_out(other, lease) && goes_later,
                units: lease.grant.gpus() * u32::from(lease.grant.gpu_milli),
                loss: loss_of(lease, self.now),
            }
        };
        let running: Vec<Preemptible> = held.iter().map(preemptible).collect();
        let wanted = job.order.needs.gpu_milli_total();
        let free = self.free_milli(&view.offer);
        let chosen = victims(&running, wanted.saturating_sub(free).max(1), quote.price)?;
        let mut loss = Amount::ZERO;
        let mut owed = Amount::ZERO;
        let mut leases = Vec::new();
        let mut gone = Vec::new();
        let parameters = &self.state.parameters;
        let end = self.now.saturating_add(parameters.preempt_grace);
        let mut is_in_time = true;
        for (other, lease) in held {
            if chosen.contains(&other.sequence) {
                // Nobody leaves for a job that cannot be served any more when the room is there.
                let starts = end.saturating_add(parameters.start_timeout);
                let is_running = other.state() == JobState::Running;
                is_in_time &=
                    !is_running || starts.saturating_add(quote.duration) <= job.order.deadline;
                loss = loss.saturating_add(loss_of(lease, self.now));
                owed = owed.saturating_add(loss_of(lease, end));
                leases.push((lease.id, other.state() == JobState::Running));
                gone.push(lease.id);
            }
        }
        // The order does not matter to anybody, but has to be one.
        leases.sort_unstable();
        // It pays its own provider and those who leave, or nobody leaves.
        let affordable = quote.price.saturating_add(owed) <= job.purse();
        // What they leave must be of use: shares of two GPUs are no GPU.
        let request = request_of(&job.order.needs).ok()?;
        let time = (quote.start, quote.until);
        let stock = self.state.stock();
        let fits = stock.room_without(&view.offer, &request, self.now, time, &gone, None);
        (affordable && is_in_time && fits.is_some()).then_some((loss, leases))
    }

    fn free_milli(&self, offer: &OfferId) -> u32 {
        let stock = self.state.stock();
        let node = stock.node(offer);
        node.map_or(0, |node| {
            let free = stock.cluster().free(node);
            free.gpu_milli.iter().map(|it| u32::from(*it)).sum()
        })
    }
}

/// What is lost with a lease: the part of its price that its work so far is worth.
pub(in crate::apply) fn loss_of(lease: &Lease, now: TimestampMs) -> Amount {
    loss_since(lease, lease.started_at().unwrap_or(now), now)
}

/// The part of a lease's price that the time from `since` to `now` is of the longest that it may take.
pub(in crate::apply) fn loss_since(lease: &Lease, since: TimestampMs, now: TimestampMs) -> Amount {
    let done = now.saturating_since(since).get();
    let whole = lease.deadline.saturating_since(lease.grant.from).get();
    lease
        .price
        .checked_mul_div_ceil(done.min(whole), whole.max(1))
        .unwrap_or(lease.price)
}
