//! Checks of the market's own transactions: needs, machines, bids, ratings, liveness reports.

use std::collections::BTreeSet;

use tg_types::limits::{ATTEMPTS_MAX, SLOTS_MAX};
use tg_types::resources::{GANG_MEMBERS_MAX, GPUS_MAX, PRIORITY_MAX, REGIONS_MAX, WHOLE_GPU_MILLI};
use tg_types::transaction::bid_commitment;
use tg_types::{
    Address, Amount, BidId, CapacityTier, Digest, DurationMs, JobId, JobNeeds, JobOrder, Lane,
    Machine, OfferId, OfferTerms, TimestampMs,
};

use super::outcome::{Check, Spent};
use crate::error::{MachineProblem, NeedsProblem, TransactionError};
use crate::limits::{BIDS_MAX, BIDS_PER_ACCOUNT_MAX, LOST_PER_VALIDATOR_MAX, OPEN_JOBS_MAX};
use crate::record::{Account, Bid, JobState, Lease, Stars};
use crate::rent::{BID_BYTES, RentCategory};
use crate::state::{Schedule, State};

/// Whether a machine of this kind can be.
pub(super) const fn check_machine(machine: &Machine) -> Check {
    let problem = if machine.gpu_count > GPUS_MAX {
        MachineProblem::Gpus
    } else if machine.region >= REGIONS_MAX {
        MachineProblem::Region
    } else if machine.tiers.is_empty() {
        MachineProblem::Tiers
    } else {
        return Ok(());
    };
    Err(TransactionError::MachineInvalid { problem })
}

/// Whether any machine could meet `needs`.
pub(super) fn check_needs(state: &State, needs: &JobNeeds) -> Check {
    match problem_of(state, needs) {
        Some(problem) => Err(TransactionError::BadNeeds { problem }),
        None => Ok(()),
    }
}

fn problem_of(state: &State, needs: &JobNeeds) -> Option<NeedsProblem> {
    let share_fits = match needs.gpus {
        0 => needs.gpu_milli == 0,
        1 => needs.gpu_milli >= 1 && needs.gpu_milli <= WHOLE_GPU_MILLI,
        _ => needs.gpu_milli == WHOLE_GPU_MILLI,
    };
    let has_time = needs.reference > DurationMs::ZERO;
    let is_spot = needs.tier == CapacityTier::Spot;
    let is_reserved = needs.tier == CapacityTier::Reserved;
    let is_bid = needs.lane() == Lane::Auction;
    let bids_plainly =
        needs.gpus > 0 && has_time && needs.priority == 1 && needs.tier == CapacityTier::OnDemand;
    let checks = [
        (needs.gpus <= GPUS_MAX, NeedsProblem::Gpus),
        (share_fits, NeedsProblem::Share),
        (
            !needs.regions.is_empty() && !needs.models.is_empty(),
            NeedsProblem::Nothing,
        ),
        (
            (1..=GANG_MEMBERS_MAX).contains(&needs.gang),
            NeedsProblem::Gang,
        ),
        (
            (1..=PRIORITY_MAX).contains(&needs.priority),
            NeedsProblem::Priority,
        ),
        (
            !has_time || needs.gpus > 0 && needs.reference <= state.parameters.job_horizon,
            NeedsProblem::Reference,
        ),
        (
            needs.preemptible == is_spot
                && needs.guaranteed == is_reserved
                && (needs.gang == 1 || !needs.guaranteed),
            NeedsProblem::Tier,
        ),
        (!is_bid || bids_plainly, NeedsProblem::Bid),
    ];
    let broken = checks.into_iter().find(|(holds, _)| !holds);
    broken.map(|(_, problem)| problem)
}

/// Whether a lease may start now.
pub(super) fn check_start(now: TimestampMs, lease: &Lease) -> Spent {
    if lease.started_at().is_some() {
        return Err(TransactionError::LeaseStarted { lease: lease.id });
    }
    if now < lease.grant.from {
        return Err(TransactionError::LeaseNotBegun {
            lease: lease.id,
            from: lease.grant.from,
        });
    }
    Ok(Amount::ZERO)
}

/// Whether a lease may hand in a result.
pub(super) const fn check_leads(lease: &Lease) -> Check {
    match lease.lead() {
        Some(lead) => Err(TransactionError::NotGangLead {
            lease: lease.id,
            lead,
        }),
        None => Ok(()),
    }
}

/// Whether the terms of an offer may change to `terms`.
pub(super) fn check_update(
    state: &State,
    now: TimestampMs,
    sender: Address,
    id: &OfferId,
    terms: &OfferTerms,
) -> Spent {
    check_withdraw(state, sender, id)?;
    let unknown = TransactionError::UnknownOffer { offer: *id };
    let offer = state.offer(id).ok_or(unknown)?;
    if offer.terms == *terms {
        return Err(TransactionError::OfferUnchanged { offer: *id });
    }
    let interval = state.parameters.offer_update_interval;
    let earliest = offer.updated_at.saturating_add(interval);
    if now < earliest {
        return Err(TransactionError::UpdateTooSoon {
            offer: *id,
            earliest,
        });
    }
    check_terms(state, terms)?;
    super::sealed::check_modes(state, sender, terms.modes)?;
    match state.has_room_as(offer, terms) {
        true => Ok(Amount::ZERO),
        false => Err(TransactionError::OfferInUse { offer: *id }),
    }
}

/// Whether a sealed bid may be made.
pub(super) fn check_bid(state: &State, account: &Account, deposit: Amount) -> Spent {
    let floor = state.parameters.bid_deposit_min;
    if deposit < floor {
        return Err(TransactionError::DepositTooLow {
            got: deposit,
            floor,
        });
    }
    if state.bids.len() >= BIDS_MAX {
        return Err(TransactionError::TooManyBids { limit: BIDS_MAX });
    }
    // Stops: open jobs that others fill while bids are sealed, which could then not be opened and would lose their deposits.
    if !state.has_place_for_bid() {
        return Err(TransactionError::TooManyOpenJobs {
            limit: OPEN_JOBS_MAX,
        });
    }
    if account.bids >= BIDS_PER_ACCOUNT_MAX {
        return Err(TransactionError::TooManyBidsOfAccount {
            limit: BIDS_PER_ACCOUNT_MAX,
        });
    }
    let entry = state.charge(RentCategory::Bids, BID_BYTES).entry;
    Ok(deposit.saturating_add(entry))
}

/// Whether a bid may be opened with this order; returns the deposit that goes back.
pub(super) fn check_reveal(
    state: &State,
    now: TimestampMs,
    sender: Address,
    id: &BidId,
    salt: &Digest,
    order: &JobOrder,
) -> Spent {
    let bid = check_bidder(state, sender, id)?;
    let expected = bid.slot.saturating_add(1);
    let got = state.parameters.slot(now);
    if got != expected {
        return Err(TransactionError::WrongSlot {
            bid: *id,
            expected,
            got,
        });
    }
    if bid_commitment(order, salt, &sender) != bid.commitment {
        return Err(TransactionError::WrongCommitment { bid: *id });
    }
    if order.needs.lane() != Lane::Auction {
        let problem = NeedsProblem::Bid;
        return Err(TransactionError::BadNeeds { problem });
    }
    Ok(bid.deposit)
}

/// The sender's sealed bid.
pub(super) fn check_bidder<'a>(
    state: &'a State,
    sender: Address,
    id: &BidId,
) -> Result<&'a Bid, TransactionError> {
    let unknown = TransactionError::UnknownBid { bid: *id };
    let bid = state.bid(id).ok_or(unknown)?;
    if bid.bidder != sender {
        return Err(TransactionError::NotBidder {
            bid: *id,
            bidder: bid.bidder,
        });
    }
    Ok(bid)
}

/// Whether the sender votes.
pub(super) fn check_validator(state: &State, sender: Address) -> Check {
    match state.validators.iter().any(|it| it.address == sender) {
        true => Ok(()),
        false => Err(TransactionError::NotValidator { sender }),
    }
}

/// Whether a rating counts.
pub(super) fn check_rating(state: &State, sender: Address, id: &JobId, stars: u8) -> Spent {
    if Stars::new(stars).is_none() {
        return Err(TransactionError::BadStars { got: stars });
    }
    let unknown = TransactionError::UnknownJob { job: *id };
    let job = state.job(id).ok_or(unknown)?;
    if job.requestor != sender {
        return Err(TransactionError::NotRequestor {
            job: *id,
            requestor: job.requestor,
        });
    }
    if job.state() != JobState::Paid {
        return Err(TransactionError::JobNotPaid {
            job: *id,
            state: job.state(),
        });
    }
    // Stops: standing bought of oneself, where nothing that a check found is paid.
    if !job.order.mode.is_checked() {
        return Err(TransactionError::NotRated {
            job: *id,
            mode: job.order.mode,
        });
    }
    if job.stars().is_some() {
        return Err(TransactionError::AlreadyRated { job: *id });
    }
    Ok(Amount::ZERO)
}

/// What it costs to pay more for a job, or to let it have more leases. It is a promise to whoever takes the job next, so it
/// only goes up; what a live lease is paid was agreed before and stays.
pub(super) fn check_raise(
    state: &State,
    now: TimestampMs,
    sender: Address,
    id: &JobId,
    (max_price, max_attempts): (Amount, u8),
) -> Spent {
    let job = state
        .job(id)
        .ok_or(TransactionError::UnknownJob { job: *id })?;
    if job.requestor != sender {
        return Err(TransactionError::NotRequestor {
            job: *id,
            requestor: job.requestor,
        });
    }
    if job.state().is_final() {
        return Err(TransactionError::JobEnded {
            job: *id,
            state: job.state(),
        });
    }
    // Who could raise a bid that is open would have seen the others'.
    if job.order.needs.lane() == Lane::Auction {
        return Err(TransactionError::BidNotRaised { job: *id });
    }
    if max_attempts > ATTEMPTS_MAX {
        return Err(TransactionError::BadAttempts {
            got: max_attempts,
            limit: ATTEMPTS_MAX,
        });
    }
    let JobOrder {
        max_price: price,
        max_attempts: attempts,
        ..
    } = job.order;
    let is_less = max_price < price || max_attempts < attempts;
    if is_less || (max_price, max_attempts) == (price, attempts) {
        return Err(TransactionError::NotRaised {
            job: *id,
            max_price: price,
            max_attempts: attempts,
        });
    }
    // Stops: an order of one attempt that is raised to sixteen, whose leases would pay no rent.
    let rent = state.raise_charge(job, max_attempts, now).total();
    Ok(max_price.saturating_sub(price).saturating_add(rent))
}

/// Whether a validator's report holds.
pub(super) fn check_report(
    state: &State,
    sender: Address,
    epoch: u64,
    lost: &[Address],
    back: &[Address],
) -> Check {
    check_validator(state, sender)?;
    let expected = Schedule::epoch(state.head.height.next());
    if epoch != expected {
        return Err(TransactionError::WrongEpoch {
            expected,
            got: epoch,
        });
    }
    let report = state.reports.get(&sender);
    if report.is_some_and(|it| it.epoch >= epoch) {
        return Err(TransactionError::ReportedBefore { epoch });
    }
    let empty = Vec::new();
    let known = report.map_or(&empty, |it| &it.lost);
    let mut named = BTreeSet::new();
    for (list, is_lost) in [(lost, false), (back, true)] {
        for (at, provider) in list.iter().enumerate() {
            let sorted = at == 0 || list[at - 1] < *provider;
            let changes = known.binary_search(provider).is_ok() == is_lost;
            let exists = state.provider(provider).is_some();
            if !sorted || !changes || !exists && !is_lost || !named.insert(*provider) {
                return Err(TransactionError::BadReport {
                    provider: *provider,
                });
            }
        }
    }
    if known.len() + lost.len() > LOST_PER_VALIDATOR_MAX + back.len() {
        return Err(TransactionError::ReportTooLong {
            limit: LOST_PER_VALIDATOR_MAX,
        });
    }
    Ok(())
}

pub(super) fn check_terms(state: &State, terms: &OfferTerms) -> Check {
    let OfferTerms {
        hardware: _,
        price_base: _,
        price_per_mmac: _,
        latency_base_ms: _,
        speed_mmac_per_s,
        memory_bytes: _,
        slots,
        collateral_per_lease,
        modes,
        machine,
        price_per_gpu_second: _,
        pricing: _,
    } = terms;
    if *slots == 0 || *slots > SLOTS_MAX {
        return Err(TransactionError::BadSlots {
            got: *slots,
            limit: SLOTS_MAX,
        });
    }
    if modes.is_empty() {
        return Err(TransactionError::NoModes);
    }
    if *speed_mmac_per_s == 0 {
        return Err(TransactionError::NoSpeed);
    }
    if *collateral_per_lease < state.parameters.collateral_min {
        return Err(TransactionError::CollateralTooLow {
            got: *collateral_per_lease,
            floor: state.parameters.collateral_min,
        });
    }
    check_machine(machine)
}

pub(super) fn check_withdraw(state: &State, sender: Address, offer: &OfferId) -> Spent {
    let found = state
        .offer(offer)
        .ok_or(TransactionError::UnknownOffer { offer: *offer })?;
    if found.provider != sender {
        return Err(TransactionError::NotOfferOwner {
            offer: *offer,
            provider: found.provider,
        });
    }
    Ok(Amount::ZERO)
}
