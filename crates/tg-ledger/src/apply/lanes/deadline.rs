//! Guaranteed deadlines: a job that is admitted has a reservation.
//!
//! When such a job is first considered it either gets a lease that begins now or later, with its collateral locked and its
//! machine held for that time, or it is refused and its escrow returned. Others use the machine before that only if they end
//! in time. The price rises with the share of the machine that is reserved at that time, on the curve of
//! [`tg_market::lane::deadline::reserved_price`]: from the offer's price of tier reserved to [`PRICE_SPAN`] times as much.

use tg_market::book::{Looks, Reach};
use tg_market::lane::deadline::{PARTS, reserved_price};
use tg_market::placement::{assess, compare_quotes, has_stake, is_large_enough};
use tg_market::{JobDemand, OfferView, Quote, Stock};
use tg_types::{Amount, TimestampMs};

use super::super::Execution;
use super::super::matching::{MatchContext, Outcome};
use crate::decision::Decision;
use crate::error::InvariantError;
use crate::limits::BOOKING_STARTS_MAX;
use crate::record::{Job, Unpaid};

/// How many times its price on an empty machine a reservation on a full one costs.
pub(crate) const PRICE_SPAN: u64 = 4;

impl Execution {
    /// Admits a job with a guaranteed deadline, or refuses it.
    pub(in crate::apply) fn book(
        &mut self,
        context: &mut MatchContext,
        job: Job,
    ) -> Result<Outcome, InvariantError> {
        if !context.budget.admits(1) {
            return Ok(Outcome::Stopped);
        }
        let mut looks = context.budget.next_of(BOOKING_STARTS_MAX as u64);
        let market = (self.state.stock(), &context.prices);
        let demand = self.state.job_demand(&job, market, self.now);
        let chosen = demand.and_then(|it| self.best_booking(&it, &mut looks));
        let spent = looks.get().saturating_mul(BOOKING_STARTS_MAX as u64);
        context.budget.spend_some(spent);
        if looks.is_cut_off() {
            return Ok(Outcome::CutOff);
        }
        match chosen {
            Some(quote) => self.lease_to(context, job, &quote),
            // Its provider failed: it was admitted once, and waits for another chance until its deadline.
            None if !job.earlier.is_empty() => Ok(Outcome::Waits),
            None => {
                self.decisions.push(Decision::Refused { job: job.id });
                self.end_unpaid(job, Unpaid::NotAdmitted)?;
                Ok(Outcome::Settled)
            }
        }
    }

    /// The cheapest reservation over all offers and starts.
    fn best_booking(&self, demand: &JobDemand<'_>, looks: &mut Looks) -> Option<Quote> {
        let (book, rates) = (&self.state.book, self.state.rates());
        let chosen = book.find(demand, &rates, Reach::Later, looks, |view, _| {
            booking(demand, view)
        });
        if looks.is_cut_off() {
            return None;
        }
        debug_assert_eq!(
            chosen,
            self.views(demand.needs.class)
                .filter_map(|view| booking(demand, &view))
                .min_by(|left, right| compare_quotes(&demand.tie_seed, left, right)),
            "the book answers as a look at every offer does"
        );
        chosen
    }
}

/// The earliest reservation on one offer.
fn booking(demand: &JobDemand<'_>, view: &OfferView<'_>) -> Option<Quote> {
    let stock = demand.stock?;
    if !is_large_enough(&view.terms.machine, demand.needs) {
        return None;
    }
    let ends = stock.ends(&view.offer);
    let later = ends
        .iter()
        .filter(|end| **end >= demand.now)
        .take(BOOKING_STARTS_MAX - 1)
        .map(|end| TimestampMs::new(end.get().saturating_add(1)));
    for start in std::iter::once(demand.now).chain(later) {
        let demand = JobDemand { start, ..*demand };
        let assessment = assess(&demand, view);
        let quote = assessment.quote.filter(|_| assessment.broken.is_empty());
        let Some(quote) = quote else { continue };
        let price = price_of_place(stock, view, &quote)?;
        let rise = price.saturating_sub(quote.price);
        // Stops: a lie that wins the raised price, on collateral for what the offer asks.
        let is_covered = has_stake(&demand, Some(price), quote.collateral);
        return (price <= demand.max_price && is_covered).then(|| Quote {
            price,
            expected_cost: quote.expected_cost.saturating_add(rise),
            ..quote
        });
    }
    None
}

/// What a reservation costs on a machine of which something is taken at that time.
fn price_of_place(stock: &Stock, view: &OfferView<'_>, quote: &Quote) -> Option<Amount> {
    let node = stock.node(&view.offer)?;
    let gpus = u64::from(stock.cluster().spec(node).gpu_count);
    let (taken, total) = match gpus {
        0 => {
            let slots = u64::from(view.terms.slots);
            (slots.saturating_sub(u64::from(view.slots_free)), slots)
        }
        _ => (
            stock.gpu_milli_taken(&view.offer, quote.start, quote.until),
            gpus * 1_000,
        ),
    };
    let parts = taken.saturating_mul(u64::from(PARTS)) / total.max(1);
    let parts = u32::try_from(parts).unwrap_or(PARTS).min(PARTS - 1);
    let high = quote.price.checked_mul_div_ceil(PRICE_SPAN, 1)?;
    Some(reserved_price(quote.price, high, parts))
}
