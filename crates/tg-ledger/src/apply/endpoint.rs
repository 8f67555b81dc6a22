//! Endpoints: leases that serve requests for a period of time, and are paid while they run.
//!
//! The ledger counts the time and the requestor signs for the answers ([`tg_types::Voucher`]), so nobody has to judge what a
//! provider claims. A lease ends in one of four ways, and each pays what it earned out of what is left of the escrow:
//!
//! | ended by | when | the job |
//! |---|---|---|
//! | its provider, with its last claim | at any time | waits for another provider, or ends if its time is over or it was cancelled |
//! | lack of money | what it earned is all that is left | waits for more money (`RaiseJob`) until its deadline |
//! | its requestor | `verification_timeout` after it cancelled the job, for the last claim | ends |
//! | its deadline | likewise | ends |
//!
//! A lease whose provider is lost ends as any other: the provider is not paid what it did not claim, and the job gets another
//! provider, or ends if it was cancelled.

use tg_market::placement::{EndpointPrices, endpoint_prices};
use tg_types::{Amount, DurationMs, JobId, LeaseId, SignedVoucher};

use super::Execution;
use super::lifecycle::exclude;
use crate::error::InvariantError;
use crate::event::Event;
use crate::record::{
    EndReason, EndpointMeter, Job, JobPhase, JobState, Lease, LeaseEnd, Offer, Settlement,
};

type Done = Result<(), InvariantError>;

/// Who leaves an endpoint sooner than that does not get it again.
const SERVED_LEAST: DurationMs = DurationMs::from_secs(60);

impl Execution {
    /// What an offer asks for a job that is an endpoint.
    pub(super) fn endpoint_prices(&self, job: &Job, offer: &Offer) -> Option<EndpointPrices> {
        if !job.is_endpoint() {
            return None;
        }
        if self.state.served_by(&job.order).is_some() {
            // Its card says what tokens cost, and nothing else is paid.
            return Some(EndpointPrices {
                minute: Amount::ZERO,
                run: Amount::ZERO,
            });
        }
        let facts = self.state.offer_facts(offer, job.order.needs.class);
        endpoint_prices(&offer.terms, &facts, job.macs, &job.order.needs)
    }

    /// Pays a provider what it claims, and ends its lease if it says so.
    pub(super) fn settle_endpoint(
        &mut self,
        id: &LeaseId,
        voucher: Option<&SignedVoucher>,
        ends: bool,
    ) -> Done {
        let mut lease = self.lease(id)?;
        let mut job = self.job(&lease.job)?;
        if let (Some(meter), Some(signed)) = (&mut lease.meter, voucher) {
            meter.vouchers = signed.voucher.amount;
            meter.answered = signed.voucher.answered;
        }
        self.pay_earned(&mut job, &mut lease)?;
        if ends {
            // Stops: an offer that takes the same endpoint again and again, starts it and leaves. Who served for a while may come back, as after a
            // restart, and so may the only provider of a served model.
            let served = self
                .now
                .saturating_since(lease.started_at().unwrap_or(self.now));
            if served < SERVED_LEAST && self.state.served_by(&job.order).is_none() {
                exclude(&mut job, &lease);
            }
            return self.end_endpoint(job, lease);
        }
        self.state.put_lease(lease);
        self.save_job(job);
        Ok(())
    }

    /// Takes note that a requestor takes back the job of a lease that serves. Its provider has time for a last claim.
    pub(super) fn stop_endpoint(&mut self, mut lease: Lease) {
        let now = self.now;
        if let Some(meter) = &mut lease.meter {
            meter.ends_at.get_or_insert(now);
        }
        self.state.put_lease(lease);
    }

    /// Ends the leases of endpoints whose time or money is over.
    pub(super) fn end_endpoints(&mut self) -> Done {
        let over = self
            .state
            .live_leases()
            .filter(|(job, lease)| self.is_over(job, lease));
        let over: Vec<JobId> = over.map(|(job, _)| job.id).collect();
        for id in over {
            let mut job = self.job(&id)?;
            let Some(lease) = job.live_lease() else {
                continue;
            };
            let mut lease = self.lease(&lease)?;
            self.pay_earned(&mut job, &mut lease)?;
            self.end_endpoint(job, lease)?;
        }
        Ok(())
    }

    fn is_over(&self, job: &Job, lease: &Lease) -> bool {
        let Some(meter) = lease.meter.filter(|_| job.state() == JobState::Running) else {
            return false;
        };
        let wait = self.state.parameters.verification_timeout;
        let end = meter
            .ends_at
            .map_or(lease.deadline, |at| at.min(lease.deadline));
        let owed = self.owed(lease, &meter);
        let is_spent = !owed.is_zero() && owed >= job.escrow();
        is_spent || end.saturating_add(wait) < self.now
    }

    /// What a lease earned and was not paid.
    fn owed(&self, lease: &Lease, meter: &EndpointMeter) -> Amount {
        let earned = lease.started_at().map_or(Amount::ZERO, |start| {
            meter.earned(start, self.now.min(lease.deadline))
        });
        earned.saturating_sub(meter.paid)
    }

    /// Pays what a lease earned, at most what is left of its job's escrow.
    fn pay_earned(&mut self, job: &mut Job, lease: &mut Lease) -> Done {
        let Some(meter) = lease.meter else {
            return Ok(());
        };
        let amount = self.owed(lease, &meter).min(job.escrow());
        if amount.is_zero() {
            return Ok(());
        }
        if let JobPhase::Open { escrow, .. } = &mut job.phase {
            *escrow = escrow.saturating_sub(amount);
        }
        job.served = job.served.saturating_add(amount);
        lease.meter = Some(EndpointMeter {
            paid: meter.paid.saturating_add(amount),
            ..meter
        });
        self.credit(lease.provider, amount)?;
        self.update_provider(lease, |provider| {
            provider.earned = provider.earned.saturating_add(amount);
        })?;
        self.events.push(Event::EndpointPaid {
            lease: lease.id,
            job: job.id,
            provider: lease.provider,
            amount,
        });
        Ok(())
    }

    /// Ends a lease that was paid; its job goes on if it has time left and was not taken back.
    fn end_endpoint(&mut self, mut job: Job, lease: Lease) -> Done {
        let provider = lease.provider;
        let is_last = lease.is_taken_back() || job.order.deadline < self.now;
        self.update_provider(&lease, |provider| {
            provider.record.accepted = provider.record.accepted.saturating_add(1);
        })?;
        let id = lease.id;
        self.let_go(lease, LeaseEnd::Fulfilled)?;
        if !is_last {
            // No attempt failed.
            job.declined = job.declined.saturating_add(1);
            return self.requeue(job);
        }
        self.note_step(&mut job, JobState::Accepted)?;
        let settlement = Settlement {
            price: job.served,
            refund: job.escrow(),
            ..Settlement::default()
        };
        self.credit(job.requestor, settlement.refund)?;
        self.note_step(&mut job, JobState::Paid)?;
        job.phase = JobPhase::Paid {
            lease: id,
            settlement,
            stars: None,
        };
        self.close_job(job, Some(provider), EndReason::Fulfilled, settlement)
    }
}
