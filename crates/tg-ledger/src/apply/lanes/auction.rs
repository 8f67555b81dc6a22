//! The batch auction: once per slot, all bids that were revealed in earlier slots, at one price for each class.
//!
//! A class is a GPU model. Quantities are seconds of a T4, which the throughput table converts to seconds of every other
//! model, so that bids and asks of all classes are comparable; what an offer asks beside GPU time is paid on top.
//! [`tg_market::lane::auction`] clears them. A bid is served as a whole or not at all. All winners of a class pay one price,
//! at most what they bid and at least what the machine asks.

use std::cell::Cell;
use std::collections::BTreeMap;

use tg_market::book::{Looks, Reach};
use tg_market::lane::auction::{Ask, Bid, ClassSet, Clearing, clear_uniform};
use tg_market::placement::{ask, assess, compare_quotes, has_stake};
use tg_market::view::gpu_time;
use tg_market::{JobDemand, OfferView, Quote};
use tg_types::{Amount, DurationMs, JobClass, JobId, JobNeeds, Lane, Pricing};

use super::super::Execution;
use super::super::matching::{MatchContext, Outcome, Share};
use crate::decision::Decision;
use crate::error::InvariantError;
use crate::limits::AUCTION_BIDS_MAX;
use crate::record::{Job, JobState};
use crate::state::State;

/// A bid with its job.
struct Entry {
    job: JobId,
    /// Thousandths of a GPU.
    units: u32,
    /// What a second of a T4 is worth to it.
    value: Amount,
    accepts: ClassSet,
}

/// Rounds of clearing in which bids that were served in part leave.
const ROUNDS_MAX: usize = 4;

impl Execution {
    /// Clears the auction of the slot that is over, if there is one.
    pub(in crate::apply) fn clear_auction(
        &mut self,
        context: &mut MatchContext,
    ) -> Result<(), InvariantError> {
        let slot = self.state.parameters.slot(self.now);
        if slot <= self.state.schedule.cleared_slot {
            return Ok(());
        }
        self.state.schedule.cleared_slot = slot;
        let mut entries = self.entries(context, slot);
        if entries.is_empty() {
            return Ok(());
        }
        let asks = asks(&self.state);
        let mut clearing = Clearing::default();
        for round in 1..=ROUNDS_MAX {
            let bids: Vec<Bid> = entries.iter().map(bid_of).collect();
            clearing = clear_uniform(&bids, &asks);
            let before = entries.len();
            let mut at = 0;
            let bought = &clearing.bought;
            let is_partial = |index: usize, units: u32| {
                let got: u32 = bought[index].values().sum();
                got > 0 && got < units
            };
            let partial: Vec<bool> = (0..before)
                .map(|index| is_partial(index, entries[index].units))
                .collect();
            // What is served in part in the last round is not served.
            if round == ROUNDS_MAX || partial.iter().all(|it| !it) {
                break;
            }
            entries.retain(|_| {
                at += 1;
                !partial[at - 1]
            });
        }
        for (class, price) in &clearing.prices {
            self.decisions.push(Decision::Cleared {
                slot,
                class: *class,
                price: *price,
            });
        }
        context.budget.turn_to(Share::Awards);
        self.serve(context, &entries, &clearing)
    }

    /// The bids that take part, in the order of their turns, with the classes that have a machine for them. Where there are more than a slot
    /// looks at, another part of them is looked at in each.
    fn entries(&self, context: &mut MatchContext, slot: u64) -> Vec<Entry> {
        let mut jobs: Vec<&Job> = self
            .state
            .queued_jobs()
            .filter(|job| {
                job.order.needs.lane() == Lane::Auction
                    && job.revealed_in.is_some_and(|it| it < slot)
            })
            .collect();
        jobs.sort_by_key(|job| State::waiting(job).turn(self.now));
        let (count, first) = (jobs.len(), first_of(slot, jobs.len()));
        jobs.rotate_left(first);
        jobs.truncate(AUCTION_BIDS_MAX);
        let stock = self.stock();
        let mut entries = Vec::new();
        for (turn, job) in (first..).zip(jobs) {
            let needs = &job.order.needs;
            if !context.budget.admits(1) {
                break;
            }
            let market = (&*stock, &context.prices);
            let Some(demand) = self.state.job_demand(job, market, self.now) else {
                continue;
            };
            let mut looks = context.budget.next();
            let (accepts, base) = self.classes_for(&demand, &mut looks);
            context.budget.spend(looks);
            if looks.is_cut_off() {
                break;
            }
            // What an offer asks beside GPU time is paid on top, so it is no part of the bid.
            let value = per_second(job.purse().saturating_sub(base), needs);
            if accepts != ClassSet::NONE && !value.is_zero() {
                let entry = Entry {
                    job: job.id,
                    units: needs.gpu_milli_total(),
                    value,
                    accepts,
                };
                entries.push((turn % count, entry));
            }
        }
        // Among equals the turn decides, wherever the slot began.
        entries.sort_by_key(|(turn, _)| *turn);
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    /// The classes that have a machine for a bid, and the least that one of these machines asks beside GPU time. The least: whoever posts a
    /// dear offer must not make bids worth nothing. A machine that asks more is paid that out of the bid, if it can, and is the last to be chosen.
    fn classes_for(&self, demand: &JobDemand<'_>, looks: &mut Looks) -> (ClassSet, Amount) {
        let found = Cell::new((ClassSet::NONE, Amount::MAX));
        let of = |view: &OfferView<'_>| {
            let base = view.terms.price(demand.macs).unwrap_or(Amount::MAX);
            (view.terms.machine.gpu.tag(), base)
        };
        let wants = |view: &OfferView<'_>| {
            let (accepts, least) = found.get();
            let (class, base) = of(view);
            !accepts.contains(class) || base < least
        };
        let rates = self.state.rates();
        self.state
            .book
            .survey(demand, &rates, looks, wants, |view| {
                let (accepts, least) = found.get();
                let (class, base) = of(view);
                found.set((accepts.with(class), least.min(base)));
            });
        if looks.is_cut_off() {
            return found.get();
        }
        debug_assert_eq!(
            found.get(),
            self.views(demand.needs.class)
                .filter(|view| assess(demand, view).broken.is_empty())
                .map(|view| of(&view))
                .fold(
                    (ClassSet::NONE, Amount::MAX),
                    |(set, least), (class, base)| { (set.with(class), least.min(base)) }
                ),
            "the book answers as a look at every offer does"
        );
        found.get()
    }

    /// Gives the winners their machines: for each the one that asks least of those that the price pays.
    fn serve(
        &mut self,
        context: &mut MatchContext,
        entries: &[Entry],
        clearing: &Clearing,
    ) -> Result<(), InvariantError> {
        for (index, entry) in entries.iter().enumerate() {
            let got: &BTreeMap<u8, u32> = &clearing.bought[index];
            if got.values().sum::<u32>() < entry.units {
                continue;
            }
            let job = self.job(&entry.job)?;
            debug_assert_eq!(job.state(), JobState::Queued, "a bid is served once");
            if !context.budget.admits(1) {
                break;
            }
            let Some(quote) = self.winner(context, &job, got, &clearing.prices) else {
                continue;
            };
            let Outcome::Settled = self.lease_to(context, job, &quote)? else {
                continue;
            };
        }
        Ok(())
    }

    fn winner(
        &self,
        context: &mut MatchContext,
        job: &Job,
        got: &BTreeMap<u8, u32>,
        prices: &BTreeMap<u8, Amount>,
    ) -> Option<Quote> {
        let market = (self.state.stock(), &context.prices);
        let demand = self.state.job_demand(job, market, self.now)?;
        let sold = |view: &OfferView<'_>| {
            let class = view.terms.machine.gpu.tag();
            let price = prices.get(&class).filter(|_| got.contains_key(&class))?;
            let time = price.checked_mul_div_ceil(job.order.needs.reference.get(), 1_000)?;
            let paid = view.terms.price(job.macs)?.checked_add(time)?;
            let paid = paid.min(job.purse());
            let assessment = assess(&demand, view);
            let quote = assessment.quote.filter(|_| assessment.broken.is_empty());
            // Stops: an offer that fits nothing, and clears the market below what any machine asks. A machine that asks more is paid that, if
            // the bid does.
            let price = quote.as_ref().map(|it| it.price.max(paid))?;
            // Stops: a lie that wins the price of all winners, on collateral for what its own offer asks.
            let suits = |it: &Quote| has_stake(&demand, Some(price), it.collateral);
            let quote = quote.filter(|it| price <= job.purse() && suits(it))?;
            Some(Quote { price, ..quote })
        };
        let (book, rates) = (&self.state.book, self.state.rates());
        let mut looks = context.budget.next();
        let chosen = book.find(&demand, &rates, Reach::Now, &mut looks, |view, _| {
            sold(view)
        });
        context.budget.spend(looks);
        if looks.is_cut_off() {
            return None;
        }
        debug_assert_eq!(
            chosen,
            self.views(job.order.needs.class)
                .filter_map(|view| sold(&view))
                .min_by(|left, right| compare_quotes(&demand.tie_seed, left, right)),
            "the book answers as a look at every offer does"
        );
        chosen
    }
}

/// The place of the first bid that a slot looks at, among `count` in the order of their turns. Places of slots that follow one another
/// are spread over all bids as multiples of the golden ratio are over a circle: if each slot looks at one of `n` parts of them, all are
/// looked at within `3 n` slots, without a record of where the last one stopped.
///
/// Stops: bids which nothing can serve, and which come first in every slot.
fn first_of(slot: u64, count: usize) -> usize {
    /// 2^64 over the golden ratio.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let place = u128::from(slot.wrapping_mul(STEP)) * count as u128;
    (place >> u64::BITS) as usize
}

const fn bid_of(entry: &Entry) -> Bid {
    Bid {
        accepts: entry.accepts,
        units: entry.units,
        value: entry.value,
    }
}

/// What a second of a T4 is worth to a job, rounded down.
pub(super) fn per_second(max_price: Amount, needs: &JobNeeds) -> Amount {
    let ms = u128::from(needs.reference.get().max(1));
    Amount::new(max_price.get().saturating_mul(1_000) / ms)
}

/// What is free on the machines, at what a second of a T4 costs on each.
fn asks(state: &State) -> Vec<Ask> {
    let rates = state.rates();
    let open = state.book.open();
    open.filter_map(|(standing, free_milli)| {
        ask_of(&standing.view(JobClass::Batch, &rates), free_milli)
    })
    .collect()
}

fn ask_of(view: &OfferView<'_>, units: u32) -> Option<Ask> {
    if units == 0 {
        return None;
    }
    let second = JobNeeds {
        class: JobClass::Batch,
        gpus: 1,
        gpu_milli: 1_000,
        reference: DurationMs::from_secs(1),
        ..JobNeeds::ANY_MACHINE
    };
    let terms = view.terms;
    let time = gpu_time(&terms.machine, &second, &view.facts.correction);
    let per_second = match terms.pricing {
        Pricing::Fixed => terms.price_per_gpu_second,
        Pricing::Dynamic => terms.price_per_gpu_second.max(view.facts.class_price),
    };
    debug_assert!(ask(terms, &view.facts, 0, &second).1 >= time);
    Some(Ask {
        class: terms.machine.gpu.tag(),
        units,
        cost: per_second.checked_mul_div_ceil(time.get(), 1_000)?,
    })
}
