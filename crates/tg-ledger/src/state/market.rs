//! The state as `tg-market` sees it: what a job needs, what the offers give, and why a job waits.

use tg_market::{Assessment, JobDemand, OfferView, Placement, best_offer, explain};
use tg_types::{Address, Amount, JobId, JobOrder, TimestampMs};

use crate::record::{Job, JobState, ModelFacts, ModelState, Offer};
use crate::state::State;

/// Transactions that serve one lease: start, receipt, evidence.
const LEASE_TRANSACTIONS: usize = 3;

/// Why a job waits: every offer seen from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhyWaiting {
    /// What a match would choose now, and how many offers break which constraint.
    pub placement: Placement,
    /// Each offer with what it lacks, fitting ones first.
    pub assessments: Vec<Assessment>,
}

impl State {
    /// Why a queued job has no provider yet; `None` if the job does not exist or does not wait.
    #[must_use]
    pub fn why_waiting(&self, id: &JobId) -> Option<WhyWaiting> {
        let job = self.job(id)?;
        if job.state != JobState::Queued {
            return None;
        }
        let facts = self.active_model(&job.order)?;
        let demand = self.demand(&job.order, facts, &job.excluded, self.head.timestamp);
        Some(WhyWaiting {
            placement: best_offer(&demand, self.offer_views()),
            assessments: explain(&demand, self.offer_views()),
        })
    }

    /// Every offer seen from an order that was not signed yet; `None` if its model is not active.
    #[must_use]
    pub fn assess_order(&self, order: &JobOrder) -> Option<Vec<Assessment>> {
        let facts = self.active_model(order)?;
        let demand = self.demand(order, facts, &[], self.head.timestamp);
        Some(explain(&demand, self.offer_views()))
    }

    /// What the validators found out about an order's model; `None` unless it is active.
    pub(crate) fn active_model(&self, order: &JobOrder) -> Option<&ModelFacts> {
        match &self.model(&order.model)?.state {
            ModelState::Active(facts) => Some(facts),
            ModelState::Pending | ModelState::Refused(_) => None,
        }
    }

    /// What an order needs at a time.
    pub(crate) fn demand<'a>(
        &self,
        order: &JobOrder,
        facts: &ModelFacts,
        excluded: &'a [Address],
        now: TimestampMs,
    ) -> JobDemand<'a> {
        JobDemand {
            macs: facts.macs,
            // The least that any run needs: its input and its output.
            memory_bytes: u64::from(facts.input_len) + u64::from(facts.output_len),
            mode: order.mode,
            max_price: order.max_price,
            now,
            deadline: order.deadline,
            excluded,
            tie_seed: *self.head.block.as_bytes(),
        }
    }

    /// What a waiting job needs; `None` if its model is not active.
    pub(crate) fn job_demand<'a>(&self, job: &'a Job, now: TimestampMs) -> Option<JobDemand<'a>> {
        let facts = self.active_model(&job.order)?;
        Some(self.demand(&job.order, facts, &job.excluded, now))
    }

    /// The offers as they stand now.
    pub(crate) fn offer_views(&self) -> impl Iterator<Item = OfferView<'_>> {
        self.offers.iter().map(|offer| self.offer_view(offer))
    }

    /// What a provider pays in fees to serve one lease. A provider that could lock its last coin could not hand in
    /// its result.
    pub(crate) fn lease_fees(&self) -> Amount {
        let fee = self.parameters.transaction_fee;
        (0..LEASE_TRANSACTIONS).fold(Amount::ZERO, |sum, _| sum.saturating_add(fee))
    }

    pub(crate) fn offer_view<'a>(&self, offer: &'a Offer) -> OfferView<'a> {
        let provider = self.provider(&offer.provider);
        OfferView {
            offer: offer.id,
            provider: offer.provider,
            terms: &offer.terms,
            slots_free: offer.terms.slots.saturating_sub(offer.slots_taken),
            funds: self
                .balance(&offer.provider)
                .saturating_sub(self.lease_fees()),
            suspended_until: provider.map_or(TimestampMs::ZERO, |it| it.suspended_until),
            record: provider.map(|it| it.record).unwrap_or_default(),
        }
    }
}
