//! Matching: waiting jobs, in the order of their turns, each in its lane.
//!
//! A block looks at a bounded number of offers. If the bound is reached, the next block goes on where this one
//! stopped, so a crowd of jobs that fit nowhere cannot starve the ones behind it. Turns are those of
//! [`tg_market::lane::queue`]: paid priority, growing with the wait; whoever waited long enough goes by age alone.

use std::collections::BTreeSet;

use tg_market::book::{Footprint, Looks};
use tg_market::lane::queue::{Turn, Waiting};
use tg_market::{OfferView, PackingPrices, Quote, Stock};
use tg_types::{Amount, Domain, JobClass, JobId, Lane, LeaseId, keccak256_of};

use super::Execution;
use crate::decision::Decision;
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::{COHORTS_PER_LOOK, LEASES_PER_BLOCK_MAX, LOOKS_PER_BLOCK_MAX};
use crate::record::{Grant, Job, JobState, Lease, Offer, Record};
use crate::state::State;

/// What a unit of work is offered for before priority: all posted prices are the offers', so priority alone orders.
const TURN_PRICE: Amount = Amount::new(1 << 32);

impl State {
    /// A waiting job as the queue sees it.
    pub(crate) fn waiting(job: &Job) -> Waiting {
        Waiting {
            job: job.sequence,
            price: TURN_PRICE,
            priority: job.order.needs.priority,
            since: job.ordered_at(),
        }
    }

    /// The least priority that would put `job` first among those that wait now, if any does.
    pub(crate) fn priority_to_be_next(&self, job: &Job) -> Option<u8> {
        let waiting: Vec<Waiting> = self.queued_jobs().map(Self::waiting).collect();
        let own = Self::waiting(job);
        let now = self.head.time;
        let others = waiting.iter().filter(|it| it.job != own.job);
        let first: Option<Turn> = others.map(|it| it.turn(now)).min();
        (1..=tg_types::resources::PRIORITY_MAX).find(|priority| {
            let tried = Waiting {
                priority: *priority,
                ..own
            };
            first.is_none_or(|first| tried.turn(now) < first)
        })
    }
}

/// How many times its gas a lease risks on a model for which too few owners were paid.
const UNKNOWN_MODEL_GAS: u64 = 10;

/// What a block's placements are priced by, and what may still be done in it.
pub(super) struct Board {
    /// What placements take from the work to come, for all decisions of the block.
    pub(super) prices: PackingPrices,
    pub(super) budget: Budget,
}

/// What may still be done in this block.
#[derive(Debug, Default)]
pub(super) struct Budget {
    looks: u64,
    leases: usize,
    /// For which footprints cohorts were valued in this block.
    valued: BTreeSet<Footprint>,
}

impl Budget {
    /// Whether another job may be looked at that would get `leases` leases.
    pub(super) const fn admits(&self, leases: usize) -> bool {
        self.looks < LOOKS_PER_BLOCK_MAX
            && self.leases.saturating_add(leases) <= LEASES_PER_BLOCK_MAX
    }

    /// Counts what was looked at for one job. A validator may remember nothing of its footprint: so each costs the block
    /// once what valuing the cohorts for it takes, whether they were valued before or not.
    pub(super) fn spend(&mut self, looks: Looks) {
        self.looks = self.looks.saturating_add(looks.get());
        if let Some((footprint, cohorts)) = looks.valued()
            && self.valued.insert(footprint)
        {
            self.looks = self.looks.saturating_add(cohorts / COHORTS_PER_LOOK);
        }
    }

    /// Counts what was looked at beside offers.
    pub(super) const fn spend_some(&mut self, looks: u64) {
        self.looks = self.looks.saturating_add(looks);
    }
}

/// What came of a waiting job.
pub(super) enum Outcome {
    /// It has a lease, or it ended.
    Settled,
    /// It waits on.
    Waits,
    /// The block's budget is used up before it was looked at.
    Stopped,
}

impl Execution {
    /// Matches waiting jobs within the block's bounds.
    pub(crate) fn run_matching(&mut self) -> Result<(), InvariantError> {
        self.state.refresh_stock(self.now)?;
        self.state.refresh_book();
        self.move_prices();
        let mut board = Board {
            prices: self.state.refresh_prices(self.height),
            budget: Budget::default(),
        };
        let queue = self.queue();
        self.state.match_cursor = 0;
        self.move_running(&mut board)?;
        self.clear_auction(&mut board)?;
        for (sequence, id) in queue {
            let job = self.job(&id)?;
            // The auction settled it.
            if job.state != JobState::Queued {
                continue;
            }
            let outcome = match job.order.needs.lane() {
                Lane::Auction => Outcome::Waits,
                Lane::Deadline => self.book(&mut board, job)?,
                Lane::Posted | Lane::Gang if !self.state.book.has_open() => Outcome::Waits,
                Lane::Posted => self.place(&mut board, job)?,
                Lane::Gang => self.place_gang(&mut board, job)?,
            };
            if let Outcome::Stopped = outcome {
                self.state.match_cursor = sequence;
                break;
            }
        }
        Ok(())
    }

    /// The waiting jobs in the order of their turns, from where the last block stopped.
    fn queue(&self) -> Vec<(u64, JobId)> {
        let mut waiting: Vec<(Turn, u64, JobId)> = self
            .state
            .queued_jobs()
            .map(|job| (State::waiting(job).turn(self.now), job.sequence, job.id))
            .collect();
        waiting.sort_unstable();
        let cursor = self.state.match_cursor;
        let at = waiting
            .iter()
            .position(|(_, sequence, _)| *sequence >= cursor);
        if cursor > 0
            && let Some(at) = at
        {
            waiting.rotate_left(at);
        }
        waiting
            .into_iter()
            .map(|(_, sequence, id)| (sequence, id))
            .collect()
    }

    /// The offers as they stand, as a job of `class` sees them.
    pub(super) fn views(&self, class: JobClass) -> impl Iterator<Item = OfferView<'_>> {
        let rates = self.state.rates();
        let all = self.state.book.iter();
        all.map(move |standing| standing.view(class, &rates))
    }

    /// The machines as they stand; whoever changes a lease must have let go of it.
    pub(super) fn stock(&self) -> std::sync::Arc<Stock> {
        std::sync::Arc::clone(&self.state.stock)
    }

    /// Gives a job to one offer.
    pub(super) fn lease_to(
        &mut self,
        board: &mut Board,
        mut job: Job,
        quote: &Quote,
    ) -> Result<Outcome, InvariantError> {
        let lease = self.make_lease(board, &job, quote, 0)?;
        job.leases.push(lease.id);
        self.state.put_lease(lease);
        self.step(&mut job, JobState::Leased)?;
        self.save_job(job);
        Ok(Outcome::Settled)
    }

    /// Locks the provider's collateral, takes the slot and the machine, and names the lease; `member` is 0 for a lease of
    /// its own and for the one that leads a gang.
    pub(super) fn make_lease(
        &mut self,
        board: &mut Board,
        job: &Job,
        quote: &Quote,
        member: u16,
    ) -> Result<Lease, InvariantError> {
        let missing = InvariantError::Missing { table: Offer::NAME };
        let mut offer = self.state.offer(&quote.offer).ok_or(missing)?.clone();
        self.debit(quote.provider, quote.collateral)?;
        offer.slots_taken = offer.slots_taken.saturating_add(1);
        let lease = self.new_lease(job, quote, &offer, member);
        self.state.put_offer(offer);
        self.state.hold(job, &lease, self.now)?;
        self.events.push(Event::LeaseMade {
            lease: lease.id,
            job: job.id,
            offer: lease.offer,
            provider: lease.provider,
            price: lease.price,
            collateral: lease.collateral,
        });
        self.decisions.push(Decision::Placed {
            job: job.id,
            lease: lease.id,
            offer: lease.offer,
            price: lease.price,
            devices: lease.grant.devices,
            from: lease.grant.from,
        });
        board.budget.leases += 1;
        self.state.refresh_book();
        Ok(lease)
    }

    /// What of a lease's collateral is lost for being late or gone: all of it, or little as long as nobody knows whether
    /// the model can be served.
    fn at_risk(&self, job: &Job, collateral: Amount) -> Amount {
        let needed = usize::from(self.state.parameters.owners_paid_min);
        let model = self.state.model(&job.order.model);
        if model.is_some_and(|it| it.owners_paid.len() >= needed) {
            return collateral;
        }
        let gas = self.state.lease_fees();
        let little = gas.checked_mul_div_ceil(UNKNOWN_MODEL_GAS, 1);
        collateral.min(little.unwrap_or(collateral))
    }

    fn new_lease(&self, job: &Job, quote: &Quote, offer: &Offer, member: u16) -> Lease {
        let parameters = &self.state.parameters;
        let machine = &offer.terms.machine;
        Lease {
            id: lease_id(job, member),
            job: job.id,
            offer: quote.offer,
            provider: quote.provider,
            price: quote.price,
            collateral: quote.collateral,
            at_risk: self.at_risk(job, quote.collateral),
            locked: quote.collateral,
            matched_at: self.now,
            matched_height: self.height,
            start_by: quote
                .start
                .saturating_add(parameters.start_timeout)
                .min(quote.until),
            deadline: quote.until,
            started_at: None,
            receipt: None,
            evidence: None,
            verify_by: None,
            end: None,
            ended_at: None,
            grant: Grant::of(
                &job.order.needs,
                machine,
                (quote.devices, quote.partition),
                quote.start,
            ),
            preemption: None,
            members: Vec::new(),
            lead: None,
        }
    }
}

/// The name of a job's next lease, or of another member of its gang.
pub(super) fn lease_id(job: &Job, member: u16) -> LeaseId {
    let mut bytes = job.id.as_bytes().to_vec();
    bytes.extend_from_slice(&(job.leases.len() as u64).to_be_bytes());
    if member > 0 {
        bytes.extend_from_slice(&member.to_be_bytes());
    }
    LeaseId::new(keccak256_of(Domain::Lease, &bytes))
}
