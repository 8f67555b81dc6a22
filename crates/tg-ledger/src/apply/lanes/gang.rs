//! Gangs: jobs that need several machines at the same time in one neighbourhood, and get all of them or none.
//!
//! [`tg_market::book::gang`] selects one machine for each member. Every member is paid what its own offer asks, and no
//! member more than an equal share of the maximum price.

use tg_market::Quote;
use tg_market::book::Looks;
use tg_market::book::gang::GangSurvey;
use tg_types::VerificationMode;

use super::super::Execution;
use super::super::matching::{MatchContext, Outcome};
use crate::error::InvariantError;
use crate::record::{GangRole, Job, Lease, OpenStage};

impl Execution {
    /// Places all members of a gang, or none.
    pub(in crate::apply) fn place_gang(
        &mut self,
        context: &mut MatchContext,
        job: Job,
    ) -> Result<Outcome, InvariantError> {
        if job.order.mode == VerificationMode::Replicate {
            return self.place_replicas(context, job);
        }
        let members = job.order.needs.gang;
        if !context.budget.admits(usize::from(members)) {
            return Ok(Outcome::Stopped);
        }
        let mut looks = context.budget.next();
        let found = self.find_gang(context, &job, &mut looks);
        context.budget.spend(looks);
        if looks.is_cut_off() {
            return Ok(Outcome::CutOff);
        }
        let Some(quotes) = found else {
            return Ok(Outcome::Waits);
        };
        self.lease_gang(context, job, &quotes)?;
        Ok(Outcome::Settled)
    }

    /// Leases the places of all members, the one that leads first.
    pub(in crate::apply) fn lease_gang(
        &mut self,
        context: &mut MatchContext,
        mut job: Job,
        quotes: &[Quote],
    ) -> Result<(), InvariantError> {
        let mut leases: Vec<Lease> = Vec::with_capacity(quotes.len());
        for (member, quote) in (0_u16..).zip(quotes) {
            leases.push(self.make_lease(context, &job, quote, member)?);
        }
        let Some(lead) = leases.first().map(|it| it.id) else {
            return Ok(());
        };
        let members: Vec<_> = leases.iter().skip(1).map(|it| it.id).collect();
        for mut lease in leases {
            lease.role = match lease.id == lead {
                true => GangRole::Leads {
                    members: members.clone(),
                },
                false => GangRole::Follows { lead },
            };
            self.state.put_lease(lease);
        }
        self.step(&mut job, OpenStage::Leased(lead))?;
        self.save_job(job);
        Ok(())
    }

    /// The members' places in the cheapest neighbourhood that has room for all.
    fn find_gang(
        &self,
        context: &MatchContext,
        job: &Job,
        looks: &mut Looks,
    ) -> Option<Vec<Quote>> {
        let market = (self.state.stock(), &context.prices);
        let demand = self.state.job_demand(job, market, self.now)?;
        let (rates, reserved) = (self.state.rates(), self.state.lease_fees());
        let found = self.state.book.gang(&demand, &rates, reserved, looks);
        if looks.is_cut_off() {
            return None;
        }
        debug_assert_eq!(
            found.clone().unwrap_or_default(),
            GangSurvey::new(&demand, self.views(job.order.needs.class), reserved)
                .fit()
                .members,
            "the book answers as a look at every offer does"
        );
        found
    }
}
