//! Repacking: now and then one running job moves to another machine, where it takes less from others.
//!
//! Waiting jobs need not be moved: they wait in one queue for all machines, and get what becomes free in the same block. A
//! running job is moved only if it agreed to preemption (tier spot), only within a budget (a hundredth of what runs in an
//! hour, [`MOVE_LEASE_MS`]), and only if the gain exceeds the loss. The gain is the cost of staying (price, risk, and what
//! its place takes from expected demand for the time that it may still run) minus the cost of the best other place; the loss
//! is the work so far. It has the grace period of any preempted job to submit its result.

use tg_market::book::Looks;
use tg_market::placement::assess;
use tg_market::view::request_of;
use tg_market::{JobDemand, OfferView, PackingPrices, Stock};
use tg_types::{Amount, LeaseId};

use super::super::Execution;
use super::super::matching::MatchContext;
use super::preempt::loss_of;
use crate::decision::Decision;
use crate::error::InvariantError;
use crate::limits::{EPOCH_BLOCKS, MOVE_CANDIDATES_MAX, MOVE_LEASE_MS};
use crate::record::{Job, Lease, Preemption};
use crate::state::can_be_pushed_out;

impl Execution {
    /// Lets the budget grow with what ran since the last block, and once an epoch tells the lease whose move gains most
    /// to end, if the budget allows one.
    pub(in crate::apply) fn move_running(
        &mut self,
        context: &mut MatchContext,
    ) -> Result<(), InvariantError> {
        let since = self.now.saturating_since(self.state.head.time).get();
        let running = self.state.live.len() as u64;
        let most = MOVE_LEASE_MS.saturating_mul((running / 100).max(1));
        let credit = &mut self.state.schedule.move_credit;
        *credit = credit
            .saturating_add(since.saturating_mul(running))
            .min(most);
        let due = self.height.get().is_multiple_of(EPOCH_BLOCKS);
        if !due || *credit < MOVE_LEASE_MS {
            return Ok(());
        }
        let Some(id) = self.best_move(context) else {
            return Ok(());
        };
        self.state.schedule.move_credit -= MOVE_LEASE_MS;
        let mut lease = self.lease(&id)?;
        let at = self.now.saturating_add(self.state.parameters.preempt_grace);
        lease.preemption = Some(Preemption { at, by: lease.job });
        self.decisions.push(Decision::Preempted {
            lease: id,
            by: lease.job,
        });
        self.state.put_lease(lease);
        Ok(())
    }

    /// The lease whose move gains most, if any gains.
    fn best_move(&self, context: &mut MatchContext) -> Option<LeaseId> {
        let candidates = self
            .state
            .live_leases()
            .filter(|(job, lease)| can_be_pushed_out(job, lease) && lease.started_at().is_some())
            .take(MOVE_CANDIDATES_MAX);
        let mut trial = Stock::clone(&self.state.stock);
        let mut best: Option<(Amount, LeaseId)> = None;
        for (job, lease) in candidates {
            if !context.budget.admits(0) {
                break;
            }
            trial.give_back(&lease.id);
            let mut looks = context.budget.next();
            let gain = self.gain_of_move(job, lease, (&trial, &context.prices), &mut looks);
            context.budget.spend(looks);
            if crate::state::put_in_stock(&mut trial, job, lease, self.now).is_err() {
                break;
            }
            // Where the search was cut off nothing is known to be gained.
            if !looks.is_cut_off() && gain > best.map_or(Amount::ZERO, |(most, _)| most) {
                best = Some((gain, lease.id));
            }
        }
        best.map(|(_, lease)| lease)
    }

    /// What is gained if the job of `lease`, whose place is free in `market`, starts anew on the best other offer.
    fn gain_of_move(
        &self,
        job: &Job,
        lease: &Lease,
        market: (&Stock, &PackingPrices),
        looks: &mut Looks,
    ) -> Amount {
        let Some(demand) = self.state.job_demand(job, market, self.now) else {
            return Amount::ZERO;
        };
        // Its own machine looks different without it; all others are as the book has them.
        let elsewhere = self
            .state
            .cheapest_offer(&demand, looks, Some(&lease.offer));
        let (class, rates) = (job.order.needs.class, self.state.rates());
        let own = self.state.book.get(&lease.offer);
        let own = own.map(|standing| standing.view(class, &rates));
        let stay = own.and_then(|view| self.cost_of_staying(&demand, &view, job, lease));
        let (Some(elsewhere), Some(stay)) = (elsewhere, stay) else {
            return Amount::ZERO;
        };
        let moved = elsewhere
            .expected_cost
            .saturating_add(loss_of(lease, self.now));
        stay.saturating_sub(moved)
    }

    /// What the job costs if it stays: its price, the risk, and its place for the time that is left.
    fn cost_of_staying(
        &self,
        demand: &JobDemand<'_>,
        view: &OfferView<'_>,
        job: &Job,
        lease: &Lease,
    ) -> Option<Amount> {
        let quote = assess(demand, view).quote?;
        let risk = quote
            .expected_cost
            .saturating_sub(quote.price)
            .saturating_sub(quote.packing);
        let request = request_of(&job.order.needs).ok()?;
        let (stock, prices) = (demand.stock?, demand.prices?);
        let burden = stock.burden_of(&lease.offer, &request, lease.grant.devices, prices)?;
        let ends = lease.started_at()?.saturating_add(quote.duration);
        let left = ends.saturating_since(self.now);
        let place = prices.cost(view.terms.machine.gpu, burden, left);
        // Both places at today's price: that the price fell is no reason to move.
        Some(quote.price.saturating_add(risk).saturating_add(place))
    }
}
