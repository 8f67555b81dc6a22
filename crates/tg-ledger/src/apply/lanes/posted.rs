//! Posted prices: one job to the cheapest machine that fits, at what it asks.

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
        let chosen = demand.and_then(|it| self.state.cheapest_offer(&it, &mut looks, None));
        context.budget.spend(looks);
        if looks.is_cut_off() {
            return Ok(Outcome::CutOff);
        }
        match chosen {
            Some(quote) => self.lease_to(context, job, &quote),
            None => self.make_room(context, &job),
        }
    }
}
