//! The batch auction: once per slot, all bids that were revealed in earlier slots, at one price for each class.
//!
//! A class is a GPU model. Quantities are seconds of a T4, which the throughput table converts to seconds of every other
//! model, so that bids and asks of all classes are comparable; what an offer asks beside GPU time is paid on top.
//! [`tg_market::lane::auction`] clears them. A bid is served as a whole or not at all. All winners of a class pay one price,
//! at most what they bid and at least what the machine asks. A class does not say whether a machine has what a bid needs beside GPUs, so
//! winners are placed on trial before their price counts.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tg_market::book::{Looks, Reach};
use tg_market::lane::auction::{Ask, Bid, ClassSet, Clearing, clear_uniform};
use tg_market::placement::{ask, assess, compare_quotes, has_stake};
use tg_market::view::gpu_time;
use tg_market::{JobDemand, OfferView, Quote};
use tg_types::{Amount, DurationMs, JobClass, JobId, JobNeeds, Lane, Pricing};

use super::super::Execution;
use super::super::matching::{MatchContext, Share};
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

/// How often what was cleared is tried: each time without the bids that won before and found no machine.
const TRIALS_MAX: usize = 4;

/// What a bid won of each class, and the price of each.
type Won<'a> = (&'a BTreeMap<u8, u32>, &'a BTreeMap<u8, Amount>);

/// What came of one clearing: who takes part, by the places in the list of bids, and what each of them got.
struct Cleared {
    taking: Vec<usize>,
    clearing: Clearing,
}

impl Execution {
    /// Clears the auction of the slot that is over, if there is one.
    ///
    /// Stops: bids that fit one machine of a class, and win units of others which they cannot use: they would raise the price for all who
    /// win, or leave nothing. A price stands only if every winner has a machine; whoever finds none takes no part in the next
    /// clearing. If some are left after all, nobody pays by a clearing.
    pub(in crate::apply) fn clear_auction(
        &mut self,
        context: &mut MatchContext,
    ) -> Result<(), InvariantError> {
        let slot = self.state.parameters.slot(self.now);
        if slot <= self.state.schedule.cleared_slot {
            return Ok(());
        }
        self.state.schedule.cleared_slot = slot;
        let entries = self.entries(context, slot);
        if entries.is_empty() {
            return Ok(());
        }
        let asks = asks(&self.state);
        context.budget.turn_to(Share::Awards);
        let before = context.budget.leases();
        let mut taking: Vec<usize> = (0..entries.len()).collect();
        for _ in 0..TRIALS_MAX {
            let cleared = clear(&entries, taking.clone(), &asks);
            let mut tried = self.clone();
            tried.announce(slot, &cleared.clearing);
            let without = tried.serve(context, &entries, &cleared)?;
            let made = context.budget.leases();
            context.budget.set_leases(before);
            // Without looks nothing else could be found.
            if without.is_empty() || !context.budget.admits(1) {
                context.budget.set_leases(made);
                *self = tried;
                return Ok(());
            }
            taking.retain(|place| !without.contains(place));
        }
        self.serve_as_asked(context, &entries)
    }

    /// Notes what was cleared.
    fn announce(&mut self, slot: u64, clearing: &Clearing) {
        for (class, price) in &clearing.prices {
            self.decisions.push(Decision::Cleared {
                slot,
                class: *class,
                price: *price,
            });
        }
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

    /// Gives the winners their machines: for each the one that asks least of those that the price pays. The winners for which there is none,
    /// and the bids that won a part of what they need.
    fn serve(
        &mut self,
        context: &mut MatchContext,
        entries: &[Entry],
        cleared: &Cleared,
    ) -> Result<BTreeSet<usize>, InvariantError> {
        let Cleared { taking, clearing } = cleared;
        let mut without = BTreeSet::new();
        for (place, got) in taking.iter().zip(&clearing.bought) {
            let (entry, units) = (&entries[*place], got.values().sum::<u32>());
            if units == 0 {
                continue;
            }
            if units < entry.units {
                without.insert(*place);
                continue;
            }
            // How many leases a block has, and how much it looks at, says nothing about a bid.
            if !context.budget.admits(1) {
                break;
            }
            let job = self.job(&entry.job)?;
            debug_assert_eq!(job.state(), JobState::Queued, "a bid is served once");
            match self.winner(context, &job, Some((got, &clearing.prices))) {
                Some(quote) => {
                    self.lease_to(context, job, &quote)?;
                }
                None => {
                    without.insert(*place);
                }
            }
        }
        Ok(without)
    }

    /// Gives the bids machines, the one that is worth most first, at what each machine asks: bids that fit nothing take nothing from others then.
    fn serve_as_asked(
        &mut self,
        context: &mut MatchContext,
        entries: &[Entry],
    ) -> Result<(), InvariantError> {
        let mut by_value: Vec<&Entry> = entries.iter().collect();
        by_value.sort_by_key(|entry| Reverse(entry.value));
        for entry in by_value {
            if !context.budget.admits(1) {
                break;
            }
            let job = self.job(&entry.job)?;
            if let Some(quote) = self.winner(context, &job, None) {
                self.lease_to(context, job, &quote)?;
            }
        }
        Ok(())
    }

    /// The machine for a bid, among those of the classes that it got, at their prices; without them among all, at what the machine asks.
    fn winner(&self, context: &mut MatchContext, job: &Job, won: Option<Won<'_>>) -> Option<Quote> {
        let market = (self.state.stock(), &context.prices);
        let demand = self.state.job_demand(job, market, self.now)?;
        let sold = |view: &OfferView<'_>| {
            let paid = match won {
                Some((got, prices)) => {
                    let class = view.terms.machine.gpu.tag();
                    let price = prices.get(&class).filter(|_| got.contains_key(&class))?;
                    let time =
                        price.checked_mul_div_ceil(job.order.needs.reference.get(), 1_000)?;
                    let paid = view.terms.price(job.macs)?.checked_add(time)?;
                    paid.min(job.purse())
                }
                None => Amount::ZERO,
            };
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

/// The place of the first bid that a slot looks at, among `count` in the order of their turns; likewise of what a block looks at. Places of slots that follow one another
/// are spread over all bids as multiples of the golden ratio are over a circle: if each slot looks at one of `n` parts of them, all are
/// looked at within `3 n` slots, without a record of where the last one stopped.
///
/// Stops: bids which nothing can serve, and which come first in every slot.
pub(super) fn first_of(slot: u64, count: usize) -> usize {
    /// 2^64 over the golden ratio.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let place = u128::from(slot.wrapping_mul(STEP)) * count as u128;
    (place >> u64::BITS) as usize
}

/// Clears bids until nobody is served in part.
fn clear(entries: &[Entry], mut taking: Vec<usize>, asks: &[Ask]) -> Cleared {
    let mut round = 1;
    loop {
        let bids: Vec<Bid> = taking.iter().map(|it| bid_of(&entries[*it])).collect();
        let clearing = clear_uniform(&bids, asks);
        let is_whole = |(place, got): &(&usize, &BTreeMap<u8, u32>)| {
            let units: u32 = got.values().sum();
            units == 0 || units >= entries[**place].units
        };
        let found = taking.iter().zip(&clearing.bought);
        let whole: Vec<usize> = found.filter(is_whole).map(|(place, _)| *place).collect();
        // What is served in part in the last round is not served.
        if round == ROUNDS_MAX || whole.len() == taking.len() {
            return Cleared { taking, clearing };
        }
        taking = whole;
        round += 1;
    }
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
