//! Matching: waiting jobs are offered machines in the order of their turns, each in its lane.
//!
//! A block looks at a bounded number of offers. Each lane has its own [`Share`] of them, and a second one for jobs that began
//! to wait in this block. When a share is used up, the next block continues in that lane where this one stopped; jobs that
//! arrive meanwhile come after the current round. Jobs that began to wait in this block divide their share: each may look at
//! an equal part of what is left, and leaves what it does not need to those behind it. A search that is cut off decides
//! nothing: the job waits and is considered in the rounds. One search per block may run to its end beyond its share. So many
//! jobs that fit nowhere starve neither the jobs behind them, nor another lane, nor new orders. Turns are those of
//! [`tg_market::lane::queue`]: paid priority, growing with the wait, over the GPU time that an order states; jobs that waited
//! long enough go by age alone.

use tg_market::book::Looks;
use tg_market::lane::queue::{Turn, Waiting};
use tg_market::{OfferView, PackingPrices, Quote, Stock};
use tg_types::{Amount, DurationMs, JobClass, JobId, Lane, VerificationMode};

use super::Execution;
use crate::decision::Decision;
use crate::error::InvariantError;
use crate::event::Event;
use crate::limits::{LEASES_PER_BLOCK_MAX, LOOKS_PER_BLOCK};
use crate::record::{
    EndpointMeter, GangRole, Grant, Job, Lease, LeasePhase, LeaseProgress, Offer, OpenStage,
    Record, lease_id,
};
use crate::state::{Cursors, State, waiting_of};

impl State {
    /// A waiting job as the queue sees it.
    pub(crate) fn waiting(job: &Job) -> Waiting {
        waiting_of(job)
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

/// How many times its gas a lease risks on a model for which too few owners were paid, or with too near a deadline.
const LITTLE_RISK_GAS: u64 = 10;

/// What a block's placements are priced by, and what may still be done in it.
pub(super) struct MatchContext {
    /// What placements take from the work to come, for all decisions of the block.
    pub(super) prices: PackingPrices,
    pub(super) budget: Budget,
}

/// What a part of a block's looks is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// Jobs of a lane; those that began to wait in this block apart.
    Lane { lane: Lane, is_new: bool },
    /// Leases that may be told to move.
    Moves,
    /// Jobs for which machines are held back, and the choice of such machines.
    Reserved,
    /// Machines for whoever won in an auction: bids that nothing can serve must not use up what these are found with.
    Awards,
}

impl Share {
    /// How many there are.
    const COUNT: usize = 10;

    const AUCTION: Self = Self::Lane {
        lane: Lane::Auction,
        is_new: false,
    };

    const fn index(self) -> usize {
        match self {
            Self::Lane { lane, is_new } => match lane {
                Lane::Posted => is_new as usize,
                Lane::Gang => 2 + is_new as usize,
                Lane::Deadline => 4 + is_new as usize,
                Lane::Auction => 6,
            },
            Self::Moves => 7,
            Self::Reserved => 8,
            Self::Awards => 9,
        }
    }

    /// The looks that it has in a block.
    const fn limit(self) -> u64 {
        LOOKS_PER_BLOCK[self.index()]
    }
}

const _: () = assert!(LOOKS_PER_BLOCK.len() == Share::COUNT);

/// What may still be done in this block.
#[derive(Debug)]
pub(super) struct Budget {
    /// What is being done.
    share: Share,
    /// Into how many parts what is left of the share is divided, one for the next search.
    parts: u64,
    /// Whether the next search may go on beyond the share, if none did yet.
    may_go_on: bool,
    went_on: bool,
    looks: [u64; Share::COUNT],
    leases: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            share: Share::Moves,
            parts: 1,
            may_go_on: false,
            went_on: false,
            looks: [0; Share::COUNT],
            leases: 0,
        }
    }
}

impl Budget {
    /// What is looked at from now on is for this.
    pub(super) const fn turn_to(&mut self, share: Share) {
        self.share = share;
        self.parts = 1;
        self.may_go_on = false;
    }

    /// The next search has one of `parts` equal parts of what is left.
    pub(super) const fn divide(&mut self, parts: u64) {
        self.parts = parts;
    }

    /// The next searches may go on to their end, until one of them went beyond the share.
    const fn go_on(&mut self) {
        self.may_go_on = true;
    }

    /// What the next search may look at.
    pub(super) const fn next(&self) -> Looks {
        if self.may_go_on && !self.went_on {
            return Looks::up_to(u64::MAX);
        }
        let left = self
            .share
            .limit()
            .saturating_sub(self.looks[self.share.index()]);
        Looks::up_to(left / self.parts)
    }

    /// As [`Self::next`], of a search each look of which counts `times`.
    pub(super) const fn next_of(&self, times: u64) -> Looks {
        self.next().divided(times)
    }

    /// Whether another job may be looked at that would get `leases` leases.
    pub(super) const fn admits(&self, leases: usize) -> bool {
        self.looks[self.share.index()] < self.share.limit()
            && self.leases.saturating_add(leases) <= LEASES_PER_BLOCK_MAX
    }

    /// Whether there is room in the block for `leases` more.
    pub(super) const fn has_leases(&self, leases: usize) -> bool {
        self.leases.saturating_add(leases) <= LEASES_PER_BLOCK_MAX
    }

    /// How many leases were made so far.
    pub(super) const fn leases(&self) -> usize {
        self.leases
    }

    /// Only so many leases were made: the others were on trial.
    pub(super) const fn set_leases(&mut self, made: usize) {
        self.leases = made;
    }

    /// Counts what was looked at for one job.
    pub(super) const fn spend(&mut self, looks: Looks) {
        self.spend_some(looks.get());
    }

    /// Counts what was looked at beside offers, or several times.
    pub(super) const fn spend_some(&mut self, looks: u64) {
        let spent = &mut self.looks[self.share.index()];
        *spent = spent.saturating_add(looks);
        self.went_on |= self.may_go_on && *spent > self.share.limit();
    }

    /// What was looked at in all.
    fn looks(&self) -> u64 {
        self.looks.iter().sum()
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
    /// What it might look at was used up before anything was decided.
    CutOff,
}

/// A waiting job in the order in which a block looks at them.
struct InQueue {
    /// Whether this round reached it already, or began before it came: those that it did not reach come first.
    was_reached: bool,
    turn: Turn,
    id: JobId,
    share: Share,
}

/// Lanes whose waiting jobs are looked at in rounds.
const LANES: [Lane; 3] = [Lane::Posted, Lane::Gang, Lane::Deadline];

impl Execution {
    /// Matches waiting jobs within the block's bounds; how much was looked at.
    pub(crate) fn run_matching(&mut self) -> Result<u64, InvariantError> {
        let due = self.postpone_reservations()?;
        self.state.refresh_stock(self.now)?;
        self.state.refresh_book();
        let prices = self.state.refresh_prices(self.height);
        self.move_prices(&prices);
        let mut context = MatchContext {
            prices,
            budget: Budget::default(),
        };
        let queue = self.queue();
        let before = std::mem::take(&mut self.state.cursors);
        context.budget.turn_to(Share::Moves);
        self.move_running(&mut context)?;
        context.budget.turn_to(Share::AUCTION);
        context.budget.go_on();
        self.clear_auction(&mut context)?;
        let waits = self.place_in_turn(&mut context, queue, (&before, &due))?;
        self.make_reservations(&mut context, &waits)?;
        Ok(context.budget.looks())
    }

    /// Looks at every waiting job for which its lane has looks left; `before` says where the last block stopped, and `due` for
    /// whom held back machines are free now. The jobs that fit nowhere, in the order of their turns.
    fn place_in_turn(
        &mut self,
        context: &mut MatchContext,
        queue: Vec<InQueue>,
        (before, due): (&Cursors, &[JobId]),
    ) -> Result<Vec<JobId>, InvariantError> {
        let mut waits = Vec::new();
        let mut to_come = [0_u64; Share::COUNT];
        queue.iter().for_each(|it| to_come[it.share.index()] += 1);
        // Of the lanes that stopped one after the other: the first job of its round is looked at to the end.
        let stopped_at = |lane: &Lane| before.of(*lane).is_some();
        let stopped_lanes: Vec<Lane> = LANES.into_iter().filter(stopped_at).collect();
        let turn = self.height.get() % (stopped_lanes.len() as u64).max(1);
        let mut goes_on = stopped_lanes.get(turn as usize).copied();
        let mut stopped = [false; Share::COUNT];
        for entry in queue {
            let Share::Lane { lane, is_new } = entry.share else {
                continue;
            };
            if self.state.reservation_of(&entry.id).is_some() {
                self.place_reserved(context, &entry.id, due)?;
                continue;
            }
            let at = entry.share.index();
            let needs_open = matches!(lane, Lane::Posted | Lane::Gang);
            let is_idle = needs_open && !self.state.book.has_open();
            if lane == Lane::Auction || stopped[at] || is_idle {
                continue;
            }
            let job = self.job(&entry.id)?;
            context.budget.turn_to(entry.share);
            if is_new {
                context.budget.divide(to_come[at].max(1));
                to_come[at] -= 1;
            } else if goes_on == Some(lane) {
                context.budget.go_on();
                goes_on = None;
            }
            let cursor = before.stop_at(&job, entry.was_reached, self.state.totals.jobs);
            let outcome = match lane {
                Lane::Deadline => self.book(context, job)?,
                Lane::Gang => self.place_gang(context, job)?,
                Lane::Posted | Lane::Auction => self.place(context, job)?,
            };
            if matches!(outcome, Outcome::Waits) {
                waits.push(entry.id);
            }
            let stops = match outcome {
                Outcome::Stopped => true,
                // Of those that came in this block each has a part of its own.
                Outcome::CutOff => !is_new,
                Outcome::Settled | Outcome::Waits => false,
            };
            if stops {
                stopped[at] = true;
                if !is_new {
                    self.state.cursors.stop(lane, cursor);
                }
            }
        }
        Ok(waits)
    }

    /// The waiting jobs in the order of their turns; in each lane from where the last block stopped, and those that came
    /// since the round began behind it.
    fn queue(&self) -> Vec<InQueue> {
        let cursors = &self.state.cursors;
        let resumes = LANES.map(|lane| {
            let cursor = cursors.of(lane);
            (lane, cursor.map(|it| (it.turn(self.now), it.round)))
        });
        let mut waiting: Vec<InQueue> = self
            .state
            .queued_jobs()
            .map(|job| {
                let lane = job.order.needs.lane();
                let turn = State::waiting(job).turn(self.now);
                let is_new = job
                    .history
                    .last()
                    .is_some_and(|it| it.height == self.height);
                let from = resumes.iter().find(|it| it.0 == lane).and_then(|it| it.1);
                let is_behind =
                    from.is_some_and(|(from, round)| turn < from || job.sequence >= round);
                InQueue {
                    was_reached: !is_new && is_behind,
                    turn,
                    id: job.id,
                    share: Share::Lane { lane, is_new },
                }
            })
            .collect();
        waiting.sort_unstable_by_key(|it| (it.was_reached, it.turn));
        waiting
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
        context: &mut MatchContext,
        mut job: Job,
        quote: &Quote,
    ) -> Result<Outcome, InvariantError> {
        let lease = self.make_lease(context, &job, quote, 0)?;
        let id = lease.id;
        self.state.put_lease(lease);
        self.step(&mut job, OpenStage::Leased(id))?;
        self.save_job(job);
        Ok(Outcome::Settled)
    }

    /// Locks the provider's collateral, takes the slot and the machine, and names the lease; `member` is 0 for a lease of
    /// its own and for the one that leads a gang.
    pub(super) fn make_lease(
        &mut self,
        context: &mut MatchContext,
        job: &Job,
        quote: &Quote,
        member: u16,
    ) -> Result<Lease, InvariantError> {
        let missing = InvariantError::Missing { table: Offer::NAME };
        let mut offer = self.state.offer(&quote.offer).ok_or(missing)?.clone();
        self.debit(quote.provider, quote.collateral)?;
        offer.slots_taken = offer.slots_taken.saturating_add(1);
        let mut lease = self.new_lease(job, quote, &offer, member);
        lease.sealing = self.sealing_of(job, quote)?;
        if lease.sealing.is_some() {
            // Nothing can be started before there is a key.
            let window = self.state.parameters.grant_window;
            lease.start_by = quote.start.saturating_add(window).min(quote.until);
        }
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
        self.prepay_gas(job, &mut lease)?;
        self.decisions.push(Decision::Placed {
            job: job.id,
            lease: lease.id,
            offer: lease.offer,
            price: lease.price,
            devices: lease.grant.devices,
            from: lease.grant.from,
        });
        context.budget.leases += 1;
        self.state.refresh_book();
        Ok(lease)
    }

    /// What of a lease's collateral is lost for being late or gone: all of it, or little as long as nobody knows whether
    /// the model can be served, or if the job's deadline leaves so little beside the declared time that faulty
    /// validators could keep the result out of blocks until it is over. A member of a gang waits for the start of the others, and the parts have
    /// such a window before the result has its own.
    fn at_risk(&self, job: &Job, quote: &Quote) -> Amount {
        let needed = usize::from(self.state.parameters.owners_paid_min);
        let model = self.state.model(&job.order.model);
        let is_known = model.is_some_and(|it| it.owners_paid.len() >= needed);
        let validators = self.state.validators.len();
        let least = self.state.parameters.least_window(validators);
        let key = match job.order.mode {
            VerificationMode::Sealed => self.state.parameters.grant_window,
            _ => DurationMs::ZERO,
        };
        let (wait, least) = match job.order.needs.gang > 1 {
            true => (self.state.parameters.start_timeout, least.saturating_mul(2)),
            false => (DurationMs::ZERO, least),
        };
        let ready = quote
            .start
            .saturating_add(key)
            .saturating_add(wait)
            .saturating_add(quote.duration);
        if is_known && ready.saturating_add(least) <= quote.until {
            return quote.collateral;
        }
        let gas = self.state.lease_fees();
        let little = gas.checked_mul_div_ceil(LITTLE_RISK_GAS, 1);
        quote.collateral.min(little.unwrap_or(quote.collateral))
    }

    fn new_lease(&self, job: &Job, quote: &Quote, offer: &Offer, member: u16) -> Lease {
        let parameters = &self.state.parameters;
        let machine = &offer.terms.machine;
        let prices = self.endpoint_prices(job, offer);
        Lease {
            id: lease_id(job, member),
            job: job.id,
            offer: quote.offer,
            provider: quote.provider,
            price: prices.map_or(quote.price, |it| it.run),
            collateral: quote.collateral,
            at_risk: self.at_risk(job, quote),
            gas: Amount::ZERO,
            matched_at: self.now,
            matched_height: self.height,
            start_by: quote
                .start
                .saturating_add(parameters.start_timeout)
                .min(quote.until),
            deadline: quote.until,
            phase: LeasePhase::Live(LeaseProgress::Waiting),
            grant: Grant::of(
                &job.order.needs,
                machine,
                (quote.devices, quote.partition),
                quote.start,
            ),
            preemption: None,
            role: GangRole::Leads {
                members: Vec::new(),
            },
            check: None,
            meter: prices.map(|it| EndpointMeter::new(it.minute)),
            replicas: None,
            session: None,
            sealing: None,
        }
    }
}
