//! Machines that are held back for jobs that waited long enough, in the lanes of posted prices and of gangs.
//!
//! A job that has waited for its [`Waiting::patience`](tg_market::lane::queue::Waiting::patience) and fits nowhere gets the
//! machines that become free first ([`tg_market::lane::backfill`]). They are held in the stock like a reservation, so other
//! jobs run there only if they must end before. In every block the job is considered in its turn and takes the cheapest
//! place that exists, held back or not; at the latest it has the machines when all leases on them must have ended. Meanwhile
//! it pays block by block for the machines that stay idle, and what it cannot pay for is released.

use tg_market::book::gang::member_demand;
use tg_market::lane::backfill::{IdleRate, OFFERS_MAX, earliest, quote_at, suits};
use tg_market::view::request_of;
use tg_market::{OfferView, Quote};
use tg_types::VerificationMode;
use tg_types::{Amount, JobId, Lane, OfferId, TimestampMs};

use super::super::Execution;
use super::super::matching::{MatchContext, Outcome, Share};
use crate::decision::Decision;
use crate::error::InvariantError;
use crate::event::BurnedBecause;
use crate::limits::{OFFERS_PER_RESERVATION, RESERVATIONS_MAX};
use crate::record::{Grant, Job, JobState};
use crate::state::{HeldPlace, Reservation, State};

/// Looks that the choice of machines for one job counts for: an offer for each 8 whose terms are looked at, and 16 for each
/// machine whose leases are.
const CHOICE_LOOKS: u64 = 1 << 13;

/// Jobs for which machines are looked for in one block.
const CHOICES_MAX: usize = 2;

impl State {
    /// Jobs for which machines may be held back at one time.
    fn reservations_max(&self) -> usize {
        (1 + self.offers.len() / OFFERS_PER_RESERVATION).min(RESERVATIONS_MAX)
    }

    /// Whether machines may be held back for a job by now.
    fn may_hold_back_for(&self, job: &Job, now: TimestampMs) -> bool {
        let needs = &job.order.needs;
        let waiting = Self::waiting(job);
        matches!(needs.lane(), Lane::Posted | Lane::Gang)
            && needs.gpus > 0
            && !needs.preemptible
            // Whose members are drawn, nobody knows before.
            && job.order.mode != VerificationMode::Replicate
            && now.saturating_since(waiting.since) >= waiting.patience()
    }
}

impl Execution {
    /// Burns what jobs pay for what was idle on machines held back for them since the last block. It is done before anything
    /// else, so nobody gets around it by what the block has.
    pub(in crate::apply) fn charge_for_held_back(&mut self) {
        let time = self.now.saturating_since(self.state.head.time).get();
        for reservation in self.state.reservations.clone() {
            let Some(mut job) = self.state.job(&reservation.job).cloned() else {
                continue;
            };
            let milli = job.order.needs.gpu_milli_total();
            let idle = |place: &HeldPlace| {
                let idle = u64::from(self.state.idle_milli(place)).saturating_mul(time);
                place.rate.of_idle(milli, idle)
            };
            let due = reservation.places.iter().map(idle);
            let due = due.fold(Amount::ZERO, Amount::saturating_add);
            // What it needs to pay for the machines themselves is left to it.
            let free = job.purse().saturating_sub(reservation.price());
            let amount = due.min(free);
            if self.burn_escrow(&mut job, amount, BurnedBecause::Idle) {
                self.state.put_job(job);
            }
        }
    }

    /// Lets go of what is held back for jobs that do not wait any more, and keeps what begins now from being taken for a
    /// lease; the jobs for which it begins.
    pub(in crate::apply) fn postpone_reservations(&mut self) -> Result<Vec<JobId>, InvariantError> {
        let mut due = Vec::new();
        let held = std::mem::take(&mut self.state.reservations);
        let mut kept = Vec::with_capacity(held.len());
        for mut reservation in held {
            let job = self.job(&reservation.job)?;
            let waits = job.state() == JobState::Queued;
            if !waits || reservation.from <= self.now {
                self.state.let_go_of(&job, &reservation);
            }
            if !waits {
                continue;
            }
            if reservation.from <= self.now {
                due.push(job.id);
                reservation.from = TimestampMs::new(self.now.get().saturating_add(1));
                self.state.hold_back(&job, &reservation, self.now)?;
            }
            kept.push(reservation);
        }
        self.state.reservations = kept;
        Ok(due)
    }

    /// Looks for a place for a job for which machines are held back: anywhere, or there. What is held back for it stays so if
    /// it still can be.
    pub(in crate::apply) fn place_reserved(
        &mut self,
        context: &mut MatchContext,
        id: &JobId,
        due: &[JobId],
    ) -> Result<(), InvariantError> {
        let at = self.state.reservations.iter().position(|it| it.job == *id);
        let Some(at) = at else { return Ok(()) };
        let reservation = self.state.reservations.remove(at);
        let job = self.job(id)?;
        self.state.let_go_of(&job, &reservation);
        self.state.refresh_book();
        context.budget.turn_to(Share::Reserved);
        context.budget.divide(self.state.reservations_max() as u64);
        let outcome = match job.order.needs.lane() {
            Lane::Gang => self.place_gang(context, job.clone())?,
            Lane::Posted | Lane::Auction | Lane::Deadline => self.place(context, job.clone())?,
        };
        let was_looked_at = match outcome {
            Outcome::Settled => return Ok(()),
            Outcome::Waits => true,
            Outcome::CutOff | Outcome::Stopped => false,
        };
        if !was_looked_at && self.place_where_held(context, &job, &reservation)? {
            return Ok(());
        }
        // Who could not have what was kept for it by now waits for something else.
        let is_over = was_looked_at && due.contains(id);
        let renewed = self.renewed(context, &job, reservation);
        if let Some(renewed) = renewed.filter(|_| !is_over) {
            self.state.hold_back(&job, &renewed, self.now)?;
            self.state.reservations.insert(at, renewed);
        }
        self.state.refresh_book();
        Ok(())
    }

    /// Places a job on the one machine held back for it, where all others were too many to look at; whether it did.
    fn place_where_held(
        &mut self,
        context: &mut MatchContext,
        job: &Job,
        reservation: &Reservation,
    ) -> Result<bool, InvariantError> {
        let [place] = reservation.places.as_slice() else {
            return Ok(false);
        };
        if !context.budget.has_leases(1) {
            return Ok(false);
        }
        let quote = {
            let market = (self.state.stock(), &context.prices);
            let Some(demand) = self.state.job_demand(job, market, self.now) else {
                return Ok(false);
            };
            let view = self.view_of(&place.offer, job);
            view.and_then(|view| tg_market::placement::quote_now(&demand, &view, None))
        };
        match quote {
            Some(quote) => {
                let done = self.lease_to(context, job.clone(), &quote)?;
                Ok(matches!(done, Outcome::Settled))
            }
            None => Ok(false),
        }
    }

    /// An offer as a job sees it.
    fn view_of(&self, offer: &OfferId, job: &Job) -> Option<OfferView<'_>> {
        let standing = self.state.book.get(offer)?;
        Some(standing.view(job.order.needs.class, &self.state.rates()))
    }

    /// What comes back to the provider of an offer when the leases on its machine end.
    fn locked_on(&self, offer: &OfferId) -> Amount {
        let leases = self.state.stock.holders(offer);
        let locked = leases.filter_map(|id| self.state.lease(&id));
        locked.fold(Amount::ZERO, |sum, it| sum.saturating_add(it.locked()))
    }

    /// What is held back for a job that it was let go of for a moment, as early as it can be now; `None` if an offer does not
    /// suit any more, or the job cannot pay.
    fn renewed(
        &self,
        context: &MatchContext,
        job: &Job,
        mut reservation: Reservation,
    ) -> Option<Reservation> {
        if job.purse() <= reservation.price() {
            return None;
        }
        let stock = self.state.stock();
        let market = (stock, &context.prices);
        let demand = self.state.job_demand(job, market, self.now)?;
        let demand = member_demand(&demand);
        let request = request_of(&job.order.needs).ok()?;
        let mut from = self.now;
        let mut rooms = Vec::with_capacity(reservation.places.len());
        for place in &reservation.places {
            let view = self.view_of(&place.offer, job)?;
            let quote = quote_at(&demand, &view, reservation.from)?;
            let funds = view.funds.saturating_add(self.locked_on(&place.offer));
            if quote.price > place.rate.price || quote.collateral > funds {
                return None;
            }
            let time = (reservation.from, reservation.until);
            let room = stock.room(&place.offer, &request, self.now, time, None)?;
            let earlier = stock.earliest_room(&place.offer, &request, self.now);
            let earlier = earlier.filter(|(start, _)| *start <= reservation.from);
            let (start, room) = earlier.unwrap_or((reservation.from, room));
            from = from.max(start);
            rooms.push(room);
        }
        let soon = TimestampMs::new(self.now.get().saturating_add(1));
        reservation.from = from.max(soon);
        for (place, room) in reservation.places.iter_mut().zip(rooms) {
            place.grant.devices = room.devices;
            place.grant.partition = room.partition;
            place.grant.from = reservation.from;
        }
        Some(reservation)
    }

    /// Holds machines back for the first of those that fit nowhere and waited long enough, and for another one of them in
    /// turn: who waits for what nobody ever has takes nothing from those behind it.
    pub(in crate::apply) fn make_reservations(
        &mut self,
        context: &mut MatchContext,
        waits: &[JobId],
    ) -> Result<(), InvariantError> {
        let has_waited = |id: &&JobId| {
            let job = self.state.job(id);
            job.is_some_and(|job| self.state.may_hold_back_for(job, self.now))
        };
        let waits: Vec<JobId> = waits.iter().filter(has_waited).copied().collect();
        if waits.is_empty() {
            return Ok(());
        }
        let turn = usize::try_from(self.height.get()).unwrap_or(0) % waits.len();
        let mut tried = vec![waits[0]];
        tried.extend((turn > 0).then(|| waits[turn]));
        tried.truncate(CHOICES_MAX);
        context.budget.turn_to(Share::Reserved);
        for id in tried {
            let job = self.job(&id)?;
            if !context.budget.admits(0) || job.state() != JobState::Queued {
                continue;
            }
            context.budget.spend_some(CHOICE_LOOKS);
            let chosen = self.choose(context, &job);
            if let Some(start) = chosen.first().map(|it| it.start)
                && self.give_way_to(start)?
            {
                self.reserve(&job, &chosen)?;
            }
        }
        Ok(())
    }

    /// The machines that a job could have first.
    fn choose(&self, context: &MatchContext, job: &Job) -> Vec<Quote> {
        let market = (self.state.stock(), &context.prices);
        let Some(demand) = self.state.job_demand(job, market, self.now) else {
            return Vec::new();
        };
        let rates = self.state.rates();
        let class = job.order.needs.class;
        let book = &self.state.book;
        // Another part of a large market in each block.
        let after = self.height.get().wrapping_mul(OFFERS_MAX as u64);
        let skip = usize::try_from(after % book.len().max(1) as u64).unwrap_or(0);
        let offers = book.iter().skip(skip).chain(book.iter().take(skip));
        let offers = offers.map(|it| it.view(class, &rates));
        let locked = |offer: &OfferId| self.locked_on(offer);
        let chosen = earliest(&demand, offers, &locked);
        debug_assert!(
            chosen.iter().all(|quote| {
                let view = self.view_of(&quote.offer, job);
                view.is_some_and(|it| suits(&member_demand(&demand), &it, &locked))
            }),
            "what is held back suits the job"
        );
        chosen
    }

    /// Whether there is room for one reservation more that begins at `start`: if they are too many, the one that begins last
    /// gives way, if that is later. So whoever makes many of them that last long is in nobody's way.
    fn give_way_to(&mut self, start: TimestampMs) -> Result<bool, InvariantError> {
        if self.state.reservations.len() < self.state.reservations_max() {
            return Ok(true);
        }
        let all = self.state.reservations.iter().enumerate();
        let last = all.max_by_key(|(at, it)| (it.from, *at));
        let last = last.filter(|(_, it)| it.from > start).map(|(at, _)| at);
        let Some(at) = last else { return Ok(false) };
        let reservation = self.state.reservations.remove(at);
        let job = self.job(&reservation.job)?;
        self.state.let_go_of(&job, &reservation);
        self.state.refresh_book();
        Ok(true)
    }

    /// Holds the machines of `quotes` back for a job.
    fn reserve(&mut self, job: &Job, quotes: &[Quote]) -> Result<(), InvariantError> {
        let soon = TimestampMs::new(self.now.get().saturating_add(1));
        let from = quotes.iter().map(|it| it.start).max().unwrap_or(soon);
        let from = from.max(soon);
        let until = quotes.iter().map(|it| it.until).max().unwrap_or(from);
        let mut places = Vec::with_capacity(quotes.len());
        for quote in quotes {
            let Some(view) = self.view_of(&quote.offer, job) else {
                return Ok(());
            };
            let (machine, rate) = (view.terms.machine, IdleRate::of(quote, &view));
            let place = (quote.devices, quote.partition);
            places.push(HeldPlace {
                offer: quote.offer,
                grant: Grant::of(&job.order.needs, &machine, place, from),
                rate,
            });
            self.decisions.push(Decision::Reserved {
                job: job.id,
                offer: quote.offer,
                from,
            });
        }
        let reservation = Reservation {
            job: job.id,
            from,
            until,
            places,
        };
        self.state.hold_back(job, &reservation, self.now)?;
        self.state.refresh_book();
        self.state.reservations.push(reservation);
        Ok(())
    }
}
