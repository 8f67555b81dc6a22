//! Reservations for jobs that waited long enough and fit nowhere: EASY backfilling (Lifka 1995; Mu'alem and Feitelson 2001).
//!
//! A job for all GPUs of a machine would wait as long as jobs for one of them keep coming. Once it waited as long as it may
//! ([`super::queue::Waiting::patience`], a bound in the GPU time that it states), machines are held back for it: those that
//! are free first if nobody else comes, as the longest times of the leases there say. Others get a place there only if they
//! must have ended before (a lease is cut at its longest time, so who states too little loses its lease and delays nobody).
//!
//! **Who pays.** What stays idle on GPUs that are held back is lost to others and to the machine's owner, so whoever it is
//! held back for pays for it: [`IdleRate`], the job's own price for that time and no less than the machine asks for its GPUs,
//! burned, out of its maximum price. Nobody
//! gains from it, and holding machines back costs as much as it takes from others, whether the job is served, taken back or
//! served elsewhere. Who leaves nothing in its maximum price beside the price has nothing held back ([`PAID_AHEAD`]).

use std::collections::BTreeMap;

use tg_types::{Address, Amount, DurationMs, OfferId, Pricing, TimestampMs};

use crate::book::gang::{Cell, cell_of, member_demand};
use crate::constraint::Constraint;
use crate::demand::{JobDemand, OfferView};
use crate::placement::{Quote, assess};
use crate::view::request_of;

/// How much idle time a job must be able to pay, beside its price, for machines to be held back. So each time they are, more
/// is paid than the last block of it, which may stay unpaid, can hold back.
pub const PAID_AHEAD: DurationMs = DurationMs::from_secs(60);

/// Machines whose leases are looked at for one reservation.
pub const MACHINES_MAX: usize = 256;

/// Offers whose terms are looked at for one reservation of a single machine.
pub const OFFERS_MAX: usize = 8_192;

/// What a machine that is held back for a job costs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleRate {
    /// What the job would pay there.
    pub price: Amount,
    /// The declared time there.
    pub duration: DurationMs,
    /// What the machine asks for a second of a GPU: an order that states too little time would pay little for much else.
    pub second: Amount,
}

impl IdleRate {
    /// What a place costs a job: its price and declared time there, and what the offer asks for a GPU second.
    #[must_use]
    pub fn of(quote: &Quote, view: &OfferView<'_>) -> Self {
        let asked = view.terms.price_per_gpu_second;
        Self {
            price: quote.price,
            duration: quote.duration,
            second: match view.terms.pricing {
                Pricing::Fixed => asked,
                Pricing::Dynamic => asked.max(view.facts.class_price),
            },
        }
    }

    /// What a job of `milli` thousandths of a GPU pays for `idle` of it, in thousandths of a GPU times milliseconds. Rounded up;
    /// more than can be written is [`Amount::MAX`].
    ///
    /// ```
    /// # use tg_market::lane::backfill::IdleRate;
    /// # use tg_types::{Amount, DurationMs};
    /// let (price, duration) = (Amount::new(1_000), DurationMs::new(600));
    /// let rate = IdleRate { price, duration, second: Amount::ZERO };
    /// // Half of two GPUs for a tenth of the time.
    /// assert_eq!(rate.of_idle(2_000, 1_000 * 60), Amount::new(50));
    /// // A GPU for 60 ms.
    /// let second = Amount::new(10_000);
    /// assert_eq!(IdleRate { second, ..rate }.of_idle(2_000, 1_000 * 60), Amount::new(600));
    /// ```
    #[must_use]
    pub fn of_idle(&self, milli: u32, idle: u64) -> Amount {
        let whole = u64::from(milli.max(1)).saturating_mul(self.duration.get().max(1));
        let by_price = self.price.checked_mul_div_ceil(idle, whole);
        let by_second = self.second.checked_mul_div_ceil(idle, 1_000_000);
        let most = |amount: Option<Amount>| amount.unwrap_or(Amount::MAX);
        most(by_price).max(most(by_second))
    }
}

/// The collateral that leases on the machine of an offer lock, which comes back to its provider.
pub type Locked<'f> = dyn Fn(&OfferId) -> Amount + 'f;

/// The machines that could take all members of a job first, each with its place, its price and one common start: of those
/// with the same start the cheapest. Empty if none can. Of many `offers` those that come first are looked at.
///
/// Of a gang all machines of a neighbourhood are looked at, or none: at most [`MACHINES_MAX`].
#[must_use]
pub fn earliest<'a>(
    demand: &JobDemand<'_>,
    offers: impl Iterator<Item = OfferView<'a>>,
    locked: &Locked<'_>,
) -> Vec<Quote> {
    let demand = member_demand(demand);
    let members = usize::from(demand.needs.gang.max(1));
    let suits = |it: &OfferView<'a>| suits(&demand, it, locked);
    if members == 1 {
        let places = offers.take(OFFERS_MAX).filter(suits).take(MACHINES_MAX);
        let quotes = places.filter_map(|it| quote_later(&demand, &it));
        let first = quotes.min_by_key(|it| (it.start, it.expected_cost, it.offer));
        return first.into_iter().collect();
    }
    let mut cells: BTreeMap<Cell, Vec<OfferView<'a>>> = BTreeMap::new();
    for view in offers.filter(suits) {
        let cell = cell_of(&view.terms.machine, demand.needs);
        cells.entry(cell).or_default().push(view);
    }
    let (mut looked, mut best) = (0, Vec::new());
    for offers in cells.into_values().filter(|it| it.len() >= members) {
        looked += offers.len();
        let quotes = together(&demand, &offers, locked);
        let start = |quotes: &Vec<Quote>| quotes.first().map(|it| it.start);
        if !quotes.is_empty() && (best.is_empty() || start(&quotes) < start(&best)) {
            best = quotes;
        }
        if looked >= MACHINES_MAX {
            break;
        }
    }
    best
}

/// The places of `members` on machines of one neighbourhood that are free first.
fn together(demand: &JobDemand<'_>, offers: &[OfferView<'_>], locked: &Locked<'_>) -> Vec<Quote> {
    let members = usize::from(demand.needs.gang);
    let looked = offers.iter().take(MACHINES_MAX);
    let mut quotes: Vec<(Quote, Amount)> = looked
        .filter_map(|it| {
            let funds = it.funds.saturating_add(locked(&it.offer));
            Some((quote_later(demand, it)?, funds))
        })
        .collect();
    quotes.sort_unstable_by_key(|(it, _)| (it.start, it.expected_cost, it.offer));
    // What all machines of one provider lock together must be there.
    let mut spent: BTreeMap<Address, Amount> = BTreeMap::new();
    quotes.retain(|(quote, funds)| {
        let before = spent.get(&quote.provider).copied().unwrap_or_default();
        let after = before.saturating_add(quote.collateral);
        let has = after <= *funds;
        if has {
            spent.insert(quote.provider, after);
        }
        has
    });
    quotes.truncate(members);
    let mut quotes: Vec<Quote> = quotes.into_iter().map(|(quote, _)| quote).collect();
    if quotes.len() < members {
        return Vec::new();
    }
    let start = quotes.iter().map(|it| it.start).max();
    let start = start.unwrap_or(demand.now);
    // They begin together, and are held as long as the slowest may take.
    let takes = |it: &Quote| it.until.saturating_since(it.start);
    let longest = quotes.iter().map(takes).max().unwrap_or_default();
    for quote in &mut quotes {
        quote.start = start;
        quote.until = start.saturating_add(longest).min(demand.deadline);
        if start.saturating_add(quote.duration) > demand.ready_by() {
            return Vec::new();
        }
    }
    quotes
}

/// Whether an offer could take the job some day, as far as its terms and its provider say, and the job could pay for what
/// is held back.
#[must_use]
pub fn suits(demand: &JobDemand<'_>, view: &OfferView<'_>, locked: &Locked<'_>) -> bool {
    let quote = quote_at(demand, view, demand.now);
    quote.is_some_and(|it| {
        let has_funds = || view.funds.saturating_add(locked(&view.offer));
        pays_ahead(demand, &it, view)
            && (it.collateral <= view.funds || it.collateral <= has_funds())
    })
}

/// Whether a job can pay its price and [`PAID_AHEAD`].
fn pays_ahead(demand: &JobDemand<'_>, quote: &Quote, view: &OfferView<'_>) -> bool {
    let milli = demand.needs.gpu_milli_total().max(1);
    let idle = u64::from(milli).saturating_mul(PAID_AHEAD.get());
    let ahead = IdleRate::of(quote, view).of_idle(milli, idle);
    quote.price.saturating_add(ahead.max(Amount::new(1))) <= demand.max_price
}

/// What an offer would cost a job that begins there as soon as there is room.
fn quote_later(demand: &JobDemand<'_>, view: &OfferView<'_>) -> Option<Quote> {
    let request = request_of(demand.needs).ok()?;
    let (start, room) = demand
        .stock?
        .earliest_room(&view.offer, &request, demand.now)?;
    quote_at(demand, view, start).map(|quote| Quote {
        devices: room.devices,
        partition: room.partition,
        ..quote
    })
}

/// What an offer would cost from `start` on, as far as its terms go; `None` if they forbid it then.
#[must_use]
pub fn quote_at(demand: &JobDemand<'_>, view: &OfferView<'_>, start: TimestampMs) -> Option<Quote> {
    let terms = assess(
        &JobDemand {
            stock: None,
            start,
            ..*demand
        },
        view,
    );
    let passes = |it: Constraint| matches!(it, Constraint::Slots | Constraint::Funds);
    terms.quote.filter(|_| terms.broken.iter().all(passes))
}
