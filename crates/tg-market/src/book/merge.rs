//! The best offer of a book by the orders of [`super::places`]: the cohorts of all shelves, from the least that a place
//! takes, merged by lower bounds of the cost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tg_types::Amount;

use super::places::{OrderKey, Run, Spot};
use super::search::{Looks, Lot, QuoteOf, Reach, Search};
use super::shelf::{Cohort, Row};
use crate::packing::Shape;
use crate::placement::Quote;
use crate::view::PackingPrices;

/// The prices under which orders are kept, and the order of each lot.
type Orders<'d, 'k> = (&'d PackingPrices, &'k [OrderKey]);

/// A lower bound of the cost, whose lot, and the cohort it is of; before it is known, [`NEXT`].
type Bound = Reverse<(Amount, usize, usize)>;

/// In place of a cohort: the bound is that of the next one in the order of the lot.
const NEXT: usize = usize::MAX;

/// The cohorts of one lot from the least.
struct Lane<'p> {
    /// `None` until the least of the lot may win.
    run: Option<Run<'p>>,
    /// The least that an offer of the lot costs before its place counts.
    least: Amount,
    /// Whether an offer of the lot may go first among equals.
    has_top: bool,
    /// The next one.
    next: Option<Spot>,
}

/// A cohort that may win.
struct Closer<'a> {
    cohort: &'a Cohort,
    burden: i64,
    /// How all of its machines look.
    shape: Option<Shape>,
}

impl<'a> Search<'a, '_> {
    /// The orders of `lots`; `None` where what a place takes does not count, or machines of one shelf differ in it.
    pub(super) fn order_keys(&self, lots: &[Lot<'a>]) -> Option<(&PackingPrices, Vec<OrderKey>)> {
        let prices = self.prices.filter(|_| self.reach == Reach::Now)?;
        let key = |lot: &Lot<'a>| match *lot.kinds.as_slice() {
            [kind] => Some(OrderKey::new(&lot.gpu, kind, &self.request)),
            _ => None,
        };
        let keys = lots.iter().map(key).collect::<Option<Vec<_>>>()?;
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
        places.trim();
        let mut heap = BinaryHeap::with_capacity(4 * lots.len());
        let mut closer: Vec<Closer<'a>> = Vec::with_capacity(32);
        let mut lanes: Vec<Option<Lane<'_>>> = Vec::with_capacity(lots.len());
        for (at, lot) in lots.iter().enumerate() {
            let lane = self.least_of_all(lot).map(|least| Lane {
                run: None,
                least,
                has_top: lot.rack.edges.has_top(self.demand.needs.class),
                next: None,
            });
            if let Some(lane) = &lane {
                heap.push(Reverse((lane.least, at, NEXT)));
            }
            lanes.push(lane);
        }
        let mut best: Option<Quote> = None;
        while let Some(Reverse((bound, at, which))) = heap.pop() {
            if looks.is_cut_off() || best.is_some_and(|best| best.expected_cost < bound) {
                break;
            }
            let lot = &lots[at];
            if let Some(Closer {
                cohort,
                burden,
                shape,
            }) = closer.get(which)
            {
                let cohort = (*cohort, *burden, shape.is_some());
                self.walk(lot, cohort, looks, &mut best, quote_of);
                continue;
            }
            let Some(lane) = &mut lanes[at] else { continue };
            if lane.run.is_none() {
                looks.note_order(lot.rack.shelf.cohorts.len());
                lane.run = Some(places.begin(&keys[at], prices));
                // What is booked may be in the way of any place there: it takes nothing at least.
                if let Some(row) = lot.rack.shelf.cohorts.get(&None) {
                    self.consider((at, lot), (None, 0, row), &mut closer, &mut heap, looks);
                }
            } else if let Some(spot) = lane.next.take() {
                if lane.is_later_equal(&spot, bound, &best) {
                    lane.skip_beyond(spot.burden);
                } else if let Some(row) = row_of(lot, &spot.shape) {
                    let found = (Some(spot.shape), spot.burden, row);
                    self.consider((at, lot), found, &mut closer, &mut heap, looks);
                }
            }
            self.advance((at, lot), &mut lanes, &mut heap);
        }
        for lane in lanes.into_iter().flatten() {
            if let Some(run) = lane.run {
                places.end(run);
            }
        }
        best
    }

    /// A cohort is looked at closer, once it is among the least.
    fn consider(
        &self,
        (at, lot): (usize, &Lot<'a>),
        (shape, burden, row): (Option<Shape>, i64, &'a Row),
        closer: &mut Vec<Closer<'a>>,
        heap: &mut BinaryHeap<Bound>,
        looks: &mut Looks,
    ) {
        looks.note();
        let Some(least) = self.least_of(lot, row) else {
            return;
        };
        let packing = self.packing(lot, burden, lot.duration);
        heap.push(Reverse((least.saturating_add(packing), at, closer.len())));
        closer.push(Closer {
            cohort: &row.cohort,
            burden,
            shape,
        });
    }

    /// Goes on to the next cohort of a lot.
    fn advance(
        &self,
        (at, lot): (usize, &Lot<'a>),
        lanes: &mut [Option<Lane<'_>>],
        heap: &mut BinaryHeap<Bound>,
    ) {
        let Some(Some(lane)) = lanes.get_mut(at) else {
            return;
        };
        lane.next = lane.run.as_mut().and_then(Iterator::next);
        if let Some(spot) = lane.next {
            let packing = self.packing(lot, spot.burden, lot.duration);
            heap.push(Reverse((lane.least.saturating_add(packing), at, NEXT)));
        }
    }
}

impl Lane<'_> {
    /// Leaves out what is left of those that take as much as `burden`.
    fn skip_beyond(&mut self, burden: i64) {
        if let Some(run) = &mut self.run {
            run.skip_beyond(burden);
        }
    }

    /// Whether an offer of a cohort that costs `bound` at least, and all that follow in the lane and take as much, come
    /// after `best`.
    fn is_later_equal(&self, spot: &Spot, bound: Amount, best: &Option<Quote>) -> bool {
        best.is_some_and(|best| {
            let goes_first = best.is_top || !self.has_top;
            best.expected_cost == bound && goes_first && best.look < spot.shape
        })
    }
}

/// The cohort of machines that look like `shape`.
fn row_of<'a>(lot: &Lot<'a>, shape: &Shape) -> Option<&'a Row> {
    let row = lot.rack.shelf.cohorts.get(&Some(*shape));
    debug_assert!(row.is_some(), "the memory was told of this book");
    row
}
