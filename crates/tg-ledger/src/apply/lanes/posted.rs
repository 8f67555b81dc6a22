//! Posted prices: each job gets the cheapest machine that fits, at the price that its offer asks.

use tg_market::book::Looks;
use tg_market::{JobDemand, Quote};

use super::super::Execution;
use super::super::matching::{MatchContext, Outcome};
use crate::error::InvariantError;
use crate::limits::OFFERS_PER_ACCOUNT_MAX;
use crate::record::Job;

impl Execution {
    /// Gives a job to the cheapest offer; makes room for it if it goes first and nothing is free.
    pub(in crate::apply) fn place(
        &mut self,
        context: &mut MatchContext,
        job: Job,
    ) -> Result<Outcome, InvariantError> {
        if !context.budget.admits(1) {
            return Ok(Outcome::Stopped);
        }
        let mut looks = context.budget.next();
        let market = (self.state.stock(), &context.prices);
        let demand = self.state.job_demand(&job, market, self.now);
        if let Some(provider) = self.state.served_by(&job.order) {
            let chosen = demand.and_then(|it| self.state.offer_serving(&it, provider));
            context.budget.spend_some(OFFERS_PER_ACCOUNT_MAX.into());
            return match chosen {
                Some(quote) => self.lease_to(context, job, &quote),
                None => Ok(Outcome::Waits),
            };
        }
        let chosen = demand.and_then(|it| self.cheapest_at_risk(it, &mut looks));
        context.budget.spend(looks);
        if looks.is_cut_off() {
            return Ok(Outcome::CutOff);
        }
        match chosen {
            Some(quote) => self.lease_to(context, job, &quote),
            None => self.make_room(context, &job),
        }
    }

    /// The cheapest offer that risks all of its collateral, as its declared time leaves it the least window before the deadline; if there is none the
    /// cheapest of all.
    ///
    /// Stops: a provider that declares so much time that what protects it from faulty leaders lets it lose orders for next to nothing.
    fn cheapest_at_risk(&self, demand: JobDemand<'_>, looks: &mut Looks) -> Option<Quote> {
        let validators = self.state.validators.len();
        let spare = self.state.parameters.least_window(validators);
        let guarded = JobDemand {
            spare: demand.spare.saturating_add(spare),
            ..demand
        };
        let first = self.state.cheapest_offer(&demand, looks, None)?;
        if first.start.saturating_add(first.duration) <= guarded.ready_by() {
            return Some(first);
        }
        let chosen = self.state.cheapest_offer(&guarded, looks, None);
        Some(chosen.unwrap_or(first))
    }
}
