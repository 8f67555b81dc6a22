//! Execution of the market's own transactions: updates of offers, sealed bids, ratings, liveness reports.

use tg_types::{
    Address, Amount, BidId, Digest, JobId, LeaseId, OfferId, OfferTerms, VerifiedTransaction,
    bid_id,
};

use super::Execution;
use crate::decision::Decision;
use crate::error::InvariantError;
use crate::event::Event;
use crate::record::{
    AbandonedBecause, Bid, JobPhase, Lease, LeaseEnd, LivenessReport, Offer, Record, Stars,
    Validator,
};
use crate::rent::{BID_BYTES, RentCategory};
use crate::state::Schedule;

type Done = Result<(), InvariantError>;

impl Execution {
    /// Changes the terms of an offer; its leases keep their prices and what they hold.
    pub(crate) fn update_offer(&mut self, id: &OfferId, terms: &OfferTerms) -> Done {
        let missing = InvariantError::Missing { table: Offer::NAME };
        let mut offer = self.state.offer(id).ok_or(missing)?.clone();
        offer.terms = terms.clone();
        offer.updated_at = self.now;
        self.events.push(Event::OfferUpdated {
            offer: *id,
            provider: offer.provider,
        });
        self.pledge(offer.provider, terms.collateral_per_lease)?;
        self.state.put_offer(offer);
        Ok(())
    }

    /// Lets a job cost more, or have more leases, and locks the difference, with the rent of what there may be more of it.
    pub(crate) fn raise(&mut self, id: &JobId, max_price: Amount, max_attempts: u8) -> Done {
        let mut job = self.job(id)?;
        let charge = self.state.raise_charge(&job, max_attempts, self.now);
        if charge.bytes > 0 {
            let name = Digest::new(*id.as_bytes());
            let before = job.rent;
            let settled = (RentCategory::OpenJobs, before);
            let mut rent = self.settle_rent(settled, before.deposit, name)?;
            let more = self.pay_charge(charge, job.requestor, name)?;
            rent.deposit = rent.deposit.saturating_add(more);
            rent.bytes = rent.bytes.saturating_add(charge.bytes);
            job.rent = rent;
        }
        let more = max_price.saturating_sub(job.order.max_price);
        self.debit(job.requestor, more)?;
        if let JobPhase::Open { escrow, .. } = &mut job.phase {
            *escrow = escrow.saturating_add(more);
        }
        job.order.max_price = max_price;
        job.order.max_attempts = max_attempts;
        self.save_job(job);
        Ok(())
    }

    /// Locks the deposit of a sealed bid.
    pub(super) fn commit_bid(
        &mut self,
        transaction: &VerifiedTransaction,
        commitment: Digest,
        deposit: Amount,
    ) -> Done {
        let bidder = transaction.sender();
        let entry = self.state.charge(RentCategory::Bids, BID_BYTES).entry;
        self.burn_rent(bidder, None, entry)?;
        self.debit(bidder, deposit)?;
        self.update_account(bidder, |account| account.bids += 1)?;
        let id = bid_id(transaction.id());
        self.state.put_bid(Bid {
            id,
            bidder,
            commitment,
            deposit,
            slot: self.state.parameters.slot(self.now),
        });
        self.events.push(Event::BidCommitted {
            bid: id,
            bidder,
            deposit,
        });
        Ok(())
    }

    /// Gives the deposit of a bid back that orders `job`.
    pub(super) fn reveal_bid(&mut self, id: &BidId, job: JobId) -> Done {
        let missing = InvariantError::Missing { table: Bid::NAME };
        let bid = self.state.bid(id).ok_or(missing)?.clone();
        self.state.bids.remove(id);
        self.credit(bid.bidder, bid.deposit)?;
        self.update_account(bid.bidder, |account| {
            account.bids = account.bids.saturating_sub(1);
        })?;
        self.events.push(Event::BidRevealed {
            bid: *id,
            bidder: bid.bidder,
            deposit: bid.deposit,
            job,
        });
        Ok(())
    }

    /// Notes what a requestor thinks of the provider of a paid job; it weighs what was spent on it.
    pub(super) fn rate(&mut self, id: &JobId, stars: u8) -> Done {
        let mut job = self.job(id)?;
        let JobPhase::Paid {
            lease,
            settlement,
            stars: given,
        } = &mut job.phase
        else {
            return Err(InvariantError::Missing { table: Lease::NAME });
        };
        *given = Stars::new(stars);
        let (lease, spent) = (*lease, settlement.price);
        let lease = self.lease(&lease)?;
        self.events.push(Event::Rated {
            job: *id,
            provider: lease.provider,
            stars,
        });
        // A provider that left in the meantime has no record.
        if let Some(mut provider) = self.state.provider(&lease.provider).cloned() {
            provider.decay(Schedule::epoch(self.height));
            provider.reputation[usize::from(job.order.needs.class.tag())].rate(stars, spent);
            self.state.put_provider(provider);
        }
        self.state.put_job(job);
        Ok(())
    }

    /// Takes a validator's report, and ends the leases of providers that more than two thirds of stake have lost.
    pub(super) fn report_liveness(
        &mut self,
        validator: Address,
        epoch: u64,
        lost: &[Address],
        back: &[Address],
    ) -> Done {
        let before = self.state.reports.get(&validator);
        let mut all = before.map(|it| it.lost.clone()).unwrap_or_default();
        all.retain(|provider| back.binary_search(provider).is_err());
        all.extend_from_slice(lost);
        all.sort_unstable();
        self.state.put_report(LivenessReport {
            validator,
            epoch,
            lost: all,
        });
        for address in lost.iter().chain(back) {
            self.judge_liveness(*address)?;
        }
        Ok(())
    }

    fn judge_liveness(&mut self, address: Address) -> Done {
        let says_lost = |validator: &Validator| {
            let report = self.state.reports.get(&validator.address);
            report.is_some_and(|it| it.lost.binary_search(&address).is_ok())
        };
        // As many seats as in all votes, since a few of genesis may have put up more than all others together; and two thirds of what is at stake,
        // so that those who lost theirs find nobody lost.
        let (mut seats, mut stake, mut total) = (0, 0_u128, 0_u128);
        for validator in self.state.validators.iter() {
            // On networks without stake every validator counts the same.
            let weight = validator.stake.get().max(1);
            total = total.saturating_add(weight);
            if says_lost(validator) {
                seats += 1;
                stake = stake.saturating_add(weight);
            }
        }
        let has_stake = stake.saturating_mul(3) > total.saturating_mul(2);
        let is_offline = has_stake && seats >= self.state.quorum();
        let Some(provider) = self.state.provider(&address) else {
            return Ok(());
        };
        if provider.is_offline == is_offline {
            return Ok(());
        }
        let mut provider = provider.clone();
        provider.is_offline = is_offline;
        self.state.put_provider(provider);
        self.events.push(Event::LivenessChanged {
            provider: address,
            is_offline,
        });
        if is_offline {
            self.lose_leases(address)?;
        }
        Ok(())
    }

    /// Ends what a lost provider works on; the jobs wait again and are matched in the same block.
    fn lose_leases(&mut self, provider: Address) -> Done {
        let mut lost: Vec<(JobId, LeaseId, Vec<LeaseId>)> = Vec::new();
        for (job, lead) in self.state.live_leases() {
            if !job.holds_machine() {
                continue;
            }
            let members = self.state.gang_of(lead);
            let guilty: Vec<LeaseId> = members
                .filter(|it| it.provider == provider)
                .map(|it| it.id)
                .collect();
            if !guilty.is_empty() {
                lost.push((job.id, lead.id, guilty));
            }
        }
        let end = LeaseEnd::Abandoned(AbandonedBecause::ProviderLost);
        for (job, lead, guilty) in lost {
            let (job, lead) = (self.job(&job)?, self.lease(&lead)?);
            for lease in &guilty {
                self.decisions.push(Decision::Lost { lease: *lease });
            }
            self.fail_gang(job, &lead, &guilty, &end)?;
        }
        Ok(())
    }
}
