//! The best offer of a book by the orders of [`super::places`]: the cohorts of all shelves, from the least that a place
//! takes, merged by lower bounds of the cost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tg_types::Amount;

use super::places::{Footprint, OrderKey, Run, Spot};
use super::search::{Looks, Lot, QuoteOf, Reach, Search};
use super::shelf::{Cohort, Row};
use crate::placement::Quote;
use crate::view::PackingPrices;

/// The prices under which orders are kept, and the order of each lot.
type Orders<'d, 'k> = (&'d PackingPrices, &'k [OrderKey]);

/// A lower bound of the cost, whose lot, and the cohort it is of; before it is known, [`NEXT`].
type Bound = Reverse<(Amount, usize, usize)>;

/// In place of a cohort: the bound is that of the next one in the order of the lot.
const NEXT: usize = usize::MAX;

/// The cohorts of one lot from the least.
struct Lane<'a, 'p> {
    run: Run<'p>,
    /// The least that an offer of the lot costs before its place counts.
    least: Amount,
    /// The next one.
    next: Option<(i64, &'a Row)>,
}

impl<'a> Search<'a, '_> {
    /// The orders of `lots`; `None` where what a place takes does not count, or machines of one shelf differ in it.
    pub(super) fn order_keys(
        &self,
        lots: &[Lot<'a>],
        looks: &mut Looks,
    ) -> Option<(&PackingPrices, Vec<OrderKey>)> {
        let prices = self.prices.filter(|_| self.reach == Reach::Now)?;
        let key = |lot: &Lot<'a>| match lot.kinds[..] {
            [kind] => Some(OrderKey::new(&lot.gpu, kind, &self.request)),
            _ => None,
        };
        let keys = lots.iter().map(key).collect::<Option<Vec<_>>>()?;
        let cohorts = lots.iter().map(|lot| lot.shelf.cohorts.len() as u64);
        looks.note_valued(Footprint::of(&self.request), cohorts.sum());
        Some((prices, keys))
    }

    /// The best offer of `lots`.
    pub(super) fn merge(
        &self,
        lots: &[Lot<'a>],
        (prices, keys): Orders<'_, '_>,
        looks: &mut Looks,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) -> Option<Quote> {
        let mut shared = self.book.memory.lock();
        let places = shared.places(self.book, prices);
        places.catch_up(keys, prices);
        let mut heap = BinaryHeap::with_capacity(4 * lots.len());
        let mut cohorts: Vec<(&'a Cohort, i64)> = Vec::with_capacity(32);
        let mut lanes: Vec<Option<Lane<'a, '_>>> = Vec::with_capacity(lots.len());
        for (at, (lot, key)) in lots.iter().zip(keys).enumerate() {
            let least = self.least_of_all(lot);
            let lane = least.zip(places.run(key)).map(|(least, run)| Lane {
                run,
                least,
                next: None,
            });
            lanes.push(lane);
            // What is booked may be in the way of any place there: it takes nothing at least.
            if let Some(row) = lot.shelf.cohorts.get(&None) {
                self.consider(lot, at, (0, row), &mut cohorts, &mut heap, looks);
            }
            self.advance(lot, at, &mut lanes, &mut heap);
        }
        let mut best: Option<Quote> = None;
        while let Some(Reverse((bound, at, cohort))) = heap.pop() {
            if best.is_some_and(|best| best.expected_cost < bound) {
                break;
            }
            let lot = &lots[at];
            if let Some(cohort) = cohorts.get(cohort) {
                self.walk(lot, *cohort, looks, &mut best, quote_of);
                continue;
            }
            let next = lanes[at].as_mut().and_then(|lane| lane.next.take());
            if let Some(next) = next {
                self.consider(lot, at, next, &mut cohorts, &mut heap, looks);
            }
            self.advance(lot, at, &mut lanes, &mut heap);
        }
        let gone: Vec<Vec<Spot>> = lanes
            .into_iter()
            .map(|lane| lane.map_or_else(Vec::new, |lane| lane.run.into_gone()))
            .collect();
        for (key, gone) in keys.iter().zip(&gone) {
            places.drop_gone(key, gone);
        }
        best
    }

    /// A cohort is looked at closer, once it is among the least.
    fn consider(
        &self,
        lot: &Lot<'a>,
        at: usize,
        (burden, row): (i64, &'a Row),
        cohorts: &mut Vec<(&'a Cohort, i64)>,
        heap: &mut BinaryHeap<Bound>,
        looks: &mut Looks,
    ) {
        looks.note();
        let Some(least) = self.least_of(lot, row) else {
            return;
        };
        let packing = self.packing(lot, burden, lot.duration);
        heap.push(Reverse((least.saturating_add(packing), at, cohorts.len())));
        cohorts.push((&row.cohort, burden));
    }

    /// Goes on to the next cohort of a lot.
    fn advance(
        &self,
        lot: &Lot<'a>,
        at: usize,
        lanes: &mut [Option<Lane<'a, '_>>],
        heap: &mut BinaryHeap<Bound>,
    ) {
        let Some(Some(lane)) = lanes.get_mut(at) else {
            return;
        };
        lane.next = lane.run.next().and_then(|spot| row_of(lot, &spot));
        if let Some((burden, _)) = lane.next {
            let packing = self.packing(lot, burden, lot.duration);
            heap.push(Reverse((lane.least.saturating_add(packing), at, NEXT)));
        }
    }

    /// The cohorts with a place at a price within the limit, with the number of their lot.
    pub(super) fn merge_fitting(
        &self,
        lots: &[Lot<'a>],
        (prices, keys): Orders<'_, '_>,
        looks: &mut Looks,
    ) -> Vec<(usize, &'a Cohort)> {
        let mut shared = self.book.memory.lock();
        let places = shared.places(self.book, prices);
        places.catch_up(keys, prices);
        let mut found = Vec::new();
        for (at, (lot, key)) in lots.iter().zip(keys).enumerate() {
            let booked = lot.shelf.cohorts.get(&None).into_iter();
            let spots = places.run(key).into_iter().flatten();
            let rows = spots.filter_map(|spot| row_of(lot, &spot));
            for row in booked.chain(rows.map(|(_, row)| row)) {
                looks.note();
                if self.least_of(lot, row).is_some() {
                    found.push((at, &*row.cohort));
                }
            }
        }
        found
    }
}

/// The cohort of a spot.
fn row_of<'a>(lot: &Lot<'a>, spot: &Spot) -> Option<(i64, &'a Row)> {
    let row = lot.shelf.cohorts.get(&Some(spot.shape));
    debug_assert!(row.is_some(), "the memory was told of this book");
    row.map(|row| (spot.burden, row))
}
