//! Matching: waiting jobs, oldest first, to the cheapest feasible offers.
//!
//! A block looks at a bounded number of offers. If the bound is reached, the next block goes on where this one
//! stopped, so a crowd of jobs that fit nowhere cannot starve the ones behind it.

use tg_market::{OfferView, Quote, best_offer};
use tg_types::{Amount, Domain, DurationMs, JobId, LeaseId, OfferTerms, keccak256_of};

use super::Execution;
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::{ASSESSMENTS_PER_BLOCK_MAX, LEASES_PER_BLOCK_MAX};
use crate::record::{Job, JobState, Lease, Offer, Record};

impl Execution {
    /// Matches waiting jobs within the block's bounds.
    pub(crate) fn run_matching(&mut self) -> Result<(), InvariantError> {
        let offers: Vec<Offer> = self.state.offers.iter().cloned().collect();
        let mut views: Vec<OfferView<'_>> =
            offers.iter().map(|it| self.state.offer_view(it)).collect();
        let mut slots: u64 = views.iter().map(|view| u64::from(view.slots_free)).sum();
        let reserved = self.state.lease_fees();
        let mut assessments: u64 = 0;
        let mut leases = 0;
        let start = self.state.match_cursor;
        let queue: Vec<(u64, JobId)> = self
            .state
            .queued
            .range(start..)
            .chain(self.state.queued.range(..start))
            .map(|(sequence, id)| (*sequence, *id))
            .collect();
        self.state.match_cursor = 0;
        for (sequence, id) in queue {
            if slots == 0 {
                break;
            }
            assessments += views.len() as u64;
            if assessments > ASSESSMENTS_PER_BLOCK_MAX || leases == LEASES_PER_BLOCK_MAX {
                self.state.match_cursor = sequence;
                break;
            }
            let job = self.job(&id)?;
            let chosen = self
                .state
                .job_demand(&job, self.now)
                .and_then(|demand| best_offer(&demand, views.iter().copied()).chosen);
            let Some(quote) = chosen else { continue };
            self.make_lease(job, &quote)?;
            slots -= 1;
            leases += 1;
            take_from_views(&mut views, &quote, reserved);
        }
        Ok(())
    }

    /// Locks the provider's collateral and gives it the job, in one transition.
    fn make_lease(&mut self, mut job: Job, quote: &Quote) -> Result<(), InvariantError> {
        let missing = InvariantError::Missing { table: Offer::NAME };
        let mut offer = self.state.offer(&quote.offer).ok_or(missing)?.clone();
        self.debit(quote.provider, quote.collateral)?;
        offer.slots_taken = offer.slots_taken.saturating_add(1);
        let lease = self.new_lease(&job, quote, &offer.terms);
        self.state.put_offer(offer);
        job.leases.push(lease.id);
        self.events.push(Event::LeaseMade {
            lease: lease.id,
            job: job.id,
            offer: lease.offer,
            provider: lease.provider,
            price: lease.price,
            collateral: lease.collateral,
        });
        self.state.put_lease(lease);
        self.step(&mut job, JobState::Leased)?;
        self.save_job(job);
        Ok(())
    }

    fn new_lease(&self, job: &Job, quote: &Quote, terms: &OfferTerms) -> Lease {
        let parameters = &self.state.parameters;
        let allowed: DurationMs = terms
            .duration(job.macs)
            .saturating_mul(u64::from(parameters.duration_factor))
            .saturating_add(parameters.lease_grace);
        let deadline = self.now.saturating_add(allowed).min(job.order.deadline);
        Lease {
            id: lease_id(job),
            job: job.id,
            offer: quote.offer,
            provider: quote.provider,
            price: quote.price,
            collateral: quote.collateral,
            locked: quote.collateral,
            matched_at: self.now,
            matched_height: self.height,
            start_by: self
                .now
                .saturating_add(parameters.start_timeout)
                .min(deadline),
            deadline,
            started_at: None,
            receipt: None,
            evidence: None,
            verify_by: None,
            end: None,
            ended_at: None,
        }
    }
}

/// The name of a job's next lease.
fn lease_id(job: &Job) -> LeaseId {
    let mut bytes = job.id.as_bytes().to_vec();
    bytes.extend_from_slice(&(job.leases.len() as u64).to_be_bytes());
    LeaseId::new(keccak256_of(Domain::Lease, &bytes))
}

/// What a lease takes from the offers that later jobs of the block see.
fn take_from_views(views: &mut [OfferView<'_>], quote: &Quote, reserved: Amount) {
    for view in views {
        if view.offer == quote.offer {
            view.slots_free = view.slots_free.saturating_sub(1);
        }
        if view.provider == quote.provider {
            view.funds = view
                .funds
                .saturating_sub(quote.collateral)
                .saturating_sub(reserved);
        }
    }
}
