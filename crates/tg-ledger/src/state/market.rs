//! The state in the terms of `tg-market`: what a job needs, and what offers provide.

use std::collections::BTreeSet;

use tg_market::pricing;
use tg_market::throughput::Correction;
use tg_market::view::{gpu_class, work_kind};
use tg_market::{
    Assessment, Constraint, JobDemand, OfferFacts, OfferView, PackingPrices, Stock, explain,
};
use tg_types::{
    Address, Amount, DurationMs, Height, JobClass, JobOrder, ModelId, Tier, TimestampMs,
    VerificationMode,
};

use crate::error::TransactionError;
use crate::gas::{LEASE_GAS, REPLICA_GAS};
use crate::limits::{CHALLENGERS_WAITING_MAX, EPOCH_BLOCKS};
use crate::parameters::UnverifiedJobs;
use crate::record::{Job, ModelFacts, ModelState, Offer};
use crate::state::State;

/// Failure probability up to which a provider counts as known: four verified results without a failure.
const KNOWN_FAILURE_PPM: u32 = 250_000;

impl State {
    /// Every offer seen from an order that was not signed yet; `None` if its model is not active.
    #[must_use]
    pub fn assess_order(&self, order: &JobOrder) -> Option<Vec<Assessment>> {
        let facts = self.active_model(order)?;
        let prices = self.packing_prices();
        let market = (&*self.stock, &prices);
        let demand = self.demand(order, facts, &[], market, self.head.time);
        Some(explain(&demand, self.views_for(order)))
    }

    /// The facts of a model that a job of this mode may name.
    ///
    /// # Errors
    /// If there is no such model, it is not active, or its jobs cannot be checked so.
    pub fn orderable(
        &self,
        model: &ModelId,
        mode: VerificationMode,
    ) -> Result<&ModelFacts, TransactionError> {
        let found = self
            .model(model)
            .ok_or(TransactionError::UnknownModel { model: *model })?;
        let facts = match &found.state {
            ModelState::Active(facts) => facts,
            ModelState::Pending | ModelState::Refused(_) => {
                return Err(TransactionError::ModelNotActive {
                    model: *model,
                    state: found.state.as_str(),
                });
            }
        };
        if facts.served_by().is_some() && mode != VerificationMode::Endpoint {
            return Err(TransactionError::ServedAsEndpoint { model: *model });
        }
        let repeated = self.parameters.repeated_macs_max;
        match mode {
            VerificationMode::Proof if !facts.provable => {
                Err(TransactionError::ModelNotProvable { model: *model })
            }
            VerificationMode::Recompute | VerificationMode::Replicate
                if !facts.is_recomputable(repeated) =>
            {
                Err(TransactionError::ModelNotRecomputable { model: *model })
            }
            VerificationMode::Optimistic
                if !facts.is_recomputable(repeated) && !facts.is_disputed_by_tile(repeated) =>
            {
                Err(TransactionError::ModelNotWatched { model: *model })
            }
            // Stops: work that nobody is paid for, of a run that fails at its end or of an answer that is short.
            VerificationMode::Endpoint if !matches!(facts.tier, Tier::Tgx1 | Tier::Served) => {
                Err(TransactionError::NotServable { model: *model })
            }
            VerificationMode::Sync
                if !facts.is_sampled()
                    && !facts.is_run_whole(self.parameters.whole_run_macs_max) =>
            {
                Err(TransactionError::ModelNotSampled { model: *model })
            }
            VerificationMode::None
                if self.parameters.unverified_jobs == UnverifiedJobs::Refused =>
            {
                Err(TransactionError::UnverifiedJobsRefused)
            }
            // Its requestor may have every validator run it.
            VerificationMode::Sealed
                if facts.tier == Tier::Wasm1 || !facts.is_recomputable(repeated) =>
            {
                Err(TransactionError::ModelNotSealed { model: *model })
            }
            VerificationMode::Proof
            | VerificationMode::Sealed
            | VerificationMode::Recompute
            | VerificationMode::Sync
            | VerificationMode::Optimistic
            | VerificationMode::Replicate
            | VerificationMode::Endpoint
            | VerificationMode::None => Ok(facts),
        }
    }

    /// The maximum price of an order that names none ([`pricing::usual_max_price`], and the least that the network takes);
    /// `None` if its model is not active or no offer could ever serve it. What `order` says of it does not count.
    #[must_use]
    pub fn usual_max_price(&self, order: &JobOrder) -> Option<Amount> {
        let assessments = self.assess_order(&JobOrder {
            max_price: Amount::MAX,
            ..order.clone()
        })?;
        // Members are drawn among those whose price is within the limit: twice as many as there are members.
        let choices = match order.mode {
            VerificationMode::Replicate => {
                let twice = order.needs.gang.saturating_mul(2);
                order
                    .max_attempts
                    .max(u8::try_from(twice).unwrap_or(u8::MAX))
            }
            _ => order.max_attempts,
        };
        let asks = |passes: fn(Constraint) -> bool| {
            let able = move |it: &&Assessment| it.broken.iter().all(passes);
            let asks = assessments.iter().filter(able);
            let asks = asks.filter_map(|it| Some((it.provider, it.quote?.price)));
            let all: Vec<_> = asks.collect();
            // Offers that never served say nothing about what serving costs, where enough others do.
            let known = all
                .iter()
                .copied()
                .filter(|(owner, _)| self.is_known(owner, order.needs.class));
            let known: Vec<_> = known.collect();
            let owners: BTreeSet<Address> = known.iter().map(|(owner, _)| *owner).collect();
            let asks = match owners.len() >= usize::from(choices) {
                true => known,
                false => all,
            };
            pricing::usual_max_price(asks.into_iter(), choices)
        };
        // Who failed lately does not set the price where others serve.
        let each = asks(Constraint::is_occupied).or_else(|| asks(Constraint::may_pass))?;
        let all = each.checked_mul_div_ceil(u64::from(order.needs.gang), 1);
        let least = self.parameters.job_price_min;
        Some(all.unwrap_or(Amount::MAX).max(least))
    }

    /// Whether verified results of a class, and what was paid by those who rated them, speak for a provider without its
    /// collateral.
    fn is_known(&self, provider: &Address, class: JobClass) -> bool {
        let provider = self.provider(provider);
        let now = provider.map(|it| it.at_epoch(self.schedule.epoch));
        let for_one = self.parameters.reputation_stake;
        now.is_some_and(|it| {
            it.reputation_with(class).failure_ppm(Amount::ZERO, for_one) <= KNOWN_FAILURE_PPM
        })
    }

    /// What the validators found out about an order's model; `None` unless it is active.
    pub(crate) fn active_model(&self, order: &JobOrder) -> Option<&ModelFacts> {
        match &self.model(&order.model)?.state {
            ModelState::Active(facts) => Some(facts),
            ModelState::Pending | ModelState::Refused(_) => None,
        }
    }

    /// The least that whoever serves an order puts up, whatever it asks: whoever challenges a wrong result has its fee back out of that, and where
    /// others may wait meanwhile, they too.
    fn stake_of(&self, order: &JobOrder, facts: &ModelFacts) -> Amount {
        let fee = self.parameters.challenge_fee();
        let is_by_tile = facts.is_disputed_by_tile(self.parameters.repeated_macs_max);
        match (order.mode, is_by_tile) {
            (VerificationMode::Optimistic, true) => {
                // Half of each fee is held.
                let all = fee.checked_mul_div_ceil(CHALLENGERS_WAITING_MAX as u64 + 1, 2);
                all.unwrap_or(Amount::MAX)
            }
            (VerificationMode::Optimistic, false) | (VerificationMode::Sealed, _) => fee,
            _ => Amount::ZERO,
        }
    }

    /// What an order needs at a time.
    pub(crate) fn demand<'a>(
        &self,
        order: &'a JobOrder,
        facts: &ModelFacts,
        excluded: &'a [Address],
        (stock, prices): (&'a Stock, &'a PackingPrices),
        now: TimestampMs,
    ) -> JobDemand<'a> {
        JobDemand {
            macs: facts.macs,
            memory_bytes: facts.memory,
            mode: order.mode,
            stake_min: self.stake_of(order, facts),
            max_price: order.max_price,
            now,
            deadline: order.deadline,
            // The key is granted after the match, and the work begins after that.
            spare: match order.mode {
                VerificationMode::Sealed => self.parameters.grant_window,
                _ => DurationMs::ZERO,
            },
            excluded,
            tie_seed: *self.schedule.tie_seed.as_bytes(),
            needs: &order.needs,
            stock: Some(stock),
            prices: Some(prices),
            start: now,
            lease_factor: self.parameters.duration_factor,
            // An endpoint has its machine to the end.
            lease_grace: match order.mode {
                VerificationMode::Endpoint => DurationMs::new(u64::MAX),
                VerificationMode::Sealed => {
                    let window = self.parameters.grant_window;
                    self.parameters.lease_grace.saturating_add(window)
                }
                _ if order.needs.gang > 1 => self.gang_grace(),
                _ => self.parameters.lease_grace,
            },
        }
    }

    /// What members of a gang have beside the time that they declare: they also wait until all have started, and all parts come before the
    /// result. Stops: a member that starts or hands in its part so late that another one cannot finish.
    pub(crate) fn gang_grace(&self) -> DurationMs {
        let parts = self.parameters.least_window(self.validators.len());
        let others = self.parameters.start_timeout.saturating_add(parts);
        self.parameters.lease_grace.saturating_add(others)
    }

    /// What a waiting job needs; `None` if its model is not active.
    pub(crate) fn job_demand<'a>(
        &self,
        job: &'a Job,
        market: (&'a Stock, &'a PackingPrices),
        now: TimestampMs,
    ) -> Option<JobDemand<'a>> {
        let facts = self.active_model(&job.order)?;
        let demand = self.demand(&job.order, facts, &job.excluded, market, now);
        // What it owes to those who made room for it comes out of the same purse, and so does what was held back for it.
        Some(JobDemand {
            max_price: job.purse(),
            ..demand
        })
    }

    /// What placements take from the work to come: at the prices that stand, or at those that the next block sets.
    pub(crate) fn packing_prices(&self) -> PackingPrices {
        let anchor = &self.schedule.anchor;
        let stands = self.stock.stands(anchor);
        if let Some(prices) = self.placing.as_ref().filter(|_| stands) {
            return prices.clone();
        }
        let prices = stands.then(|| self.stock.prices_from(anchor)).flatten();
        let terms = self.offers.iter().map(|offer| &offer.terms);
        prices.unwrap_or_else(|| self.stock.packing_prices(terms))
    }

    /// The prices of placements in the block of `height`: those that stand, or else they are set anew from the machines
    /// as they are. What GPU seconds usually cost is looked up once an epoch. Stock and book must be up to date.
    ///
    /// All of it follows from what is encoded: whether prices stand, from the anchor, the offers, the expected work and
    /// what leases hold.
    pub(crate) fn refresh_prices(&mut self, height: Height) -> PackingPrices {
        if !self.stock.stands(&self.schedule.anchor) {
            self.schedule.anchor = self.stock.anchor(self.book.middle_asks());
            self.placing = None;
        } else if height.get().is_multiple_of(EPOCH_BLOCKS) {
            let anchor = std::mem::take(&mut self.schedule.anchor);
            self.schedule.anchor = anchor.with_seconds(self.book.middle_asks());
        }
        let anchor = &self.schedule.anchor;
        let prices = match self.placing.take() {
            Some(prices) => prices.with_seconds_of(anchor),
            None => self.packing_prices(),
        };
        self.placing = Some(prices.clone());
        prices
    }

    /// The offers as they stand now.
    pub(crate) fn offer_views(&self, class: JobClass) -> impl Iterator<Item = OfferView<'_>> {
        self.offers.iter().map(move |offer| OfferView {
            facts: self.offer_facts(offer, class),
            ..self.offer_view(offer)
        })
    }

    /// What the market knows about an offer for jobs of a class.
    pub(crate) fn offer_facts(&self, offer: &Offer, class: JobClass) -> OfferFacts {
        let stake = offer.terms.collateral_per_lease;
        let for_one = self.parameters.reputation_stake;
        let model = usize::from(offer.terms.machine.gpu.tag());
        // As it counts now: what nobody touched was not decayed where it is kept.
        let provider = self.provider(&offer.provider);
        let provider = provider.map(|it| it.at_epoch(self.schedule.epoch));
        let provider = provider.as_ref();
        let failure = provider.map(|it| it.reputation_with(class).failure_ppm(stake, for_one));
        OfferFacts {
            failure_ppm: failure,
            removed: provider.is_some_and(|it| it.is_removed(class, stake, for_one)),
            top: provider.is_some_and(|it| it.is_top(class, stake, for_one)),
            offline: provider.is_some_and(|it| it.is_offline),
            class_price: self.schedule.prices.get(model).copied().unwrap_or_default(),
            correction: self.correction(offer, class),
        }
    }

    /// How fast the GPUs of an offer turned out to be with jobs of a class, relative to the throughput table.
    pub(crate) fn correction(&self, offer: &Offer, class: JobClass) -> Correction {
        gpu_class(offer.terms.machine.gpu).map_or_else(Correction::default, |gpu| {
            self.schedule.throughput.correction(gpu, work_kind(class))
        })
    }

    /// What a provider prepays for the gas of one lease beside its collateral: at the least base fee, as nobody else can
    /// take the room that its transactions have. Otherwise whoever fills the rest of the blocks would make leases dear.
    pub(crate) const fn lease_fees(&self) -> Amount {
        self.parameters.base_fee_min.saturating_mul(LEASE_GAS)
    }

    /// The same of a lease of one mode: members of a job of mode `replicate` have one transaction more.
    pub(crate) const fn lease_fees_of(&self, mode: VerificationMode) -> Amount {
        let gas = match mode {
            VerificationMode::Replicate => REPLICA_GAS,
            VerificationMode::None
            | VerificationMode::Proof
            | VerificationMode::Recompute
            | VerificationMode::Sync
            | VerificationMode::Optimistic
            | VerificationMode::Sealed
            | VerificationMode::Endpoint => LEASE_GAS,
        };
        self.parameters.base_fee_min.saturating_mul(gas)
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
            facts: OfferFacts::default(),
        }
    }
}
