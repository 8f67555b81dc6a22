//! The best offer of a book by the orders of [`super::places`]: the shape classes of all buckets, from the least that a place
//! takes, merged by lower bounds of the cost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tg_types::Amount;

use super::bucket::{Row, ShapeClass};
use super::places::{OrderKey, Run, Spot};
use super::search::{CandidateBucket, Looks, QuoteOf, Reach, Search};
use crate::packing::Shape;
use crate::placement::Quote;
use crate::view::PackingPrices;

/// The prices under which orders are kept, and the order of each candidate bucket.
type Orders<'d, 'k> = (&'d PackingPrices, &'k [OrderKey]);

/// A lower bound of the cost, whose candidate, and the shape class it is of; before it is known, [`NEXT`].
type Bound = Reverse<(Amount, usize, usize)>;

/// A bucket with so few shape classes has no order: all of them are looked at. So whoever spreads machines over many kinds makes
/// no order for each of them, and what a place takes, which depends on looks alone, is worked out once.
const FEW_CLASSES: usize = 8;

/// What a place takes at least by how machines are valued and how they look; `None` if there is none.
type Burdens = BTreeMap<(Option<u16>, Shape), Option<i64>>;

/// In place of a shape class: the bound is that of the next one in the order of the bucket.
const NEXT: usize = usize::MAX;

/// The shape classes of one candidate bucket from the least.
struct Lane<'p> {
    /// `None` until the least of the candidate may win.
    run: Option<Run<'p>>,
    /// The least that an offer of the candidate costs before its place counts.
    least: Amount,
    /// Whether an offer of the candidate may go first among equals.
    has_top: bool,
    /// The next one.
    next: Option<Spot>,
    /// The only shape class, and what a place there takes at least.
    only: Option<(Option<Shape>, i64)>,
}

/// A shape class that may win.
struct Closer<'a> {
    shape_class: &'a ShapeClass,
    burden: i64,
    /// How all of its machines look.
    shape: Option<Shape>,
}

/// What a search knows of its candidates before it looks at places.
struct Opened<'a, 'p> {
    heap: BinaryHeap<Bound>,
    closer: Vec<Closer<'a>>,
    lanes: Vec<Option<Lane<'p>>>,
}

impl<'a> Search<'a, '_> {
    /// The orders of `candidates`; `None` where what a place takes does not count, or machines of one bucket differ in it.
    pub(super) fn order_keys(
        &self,
        candidates: &[CandidateBucket<'a>],
    ) -> Option<(&PackingPrices, Vec<OrderKey>)> {
        let prices = self.prices.filter(|_| self.reach == Reach::Now)?;
        let key = |candidate: &CandidateBucket<'a>| match *candidate.kinds.as_slice() {
            [kind] => Some(OrderKey::new(&candidate.gpu, kind, &self.request)),
            _ => None,
        };
        let keys = candidates.iter().map(key).collect::<Option<Vec<_>>>()?;
        Some((prices, keys))
    }

    /// The best offer of `candidates`.
    pub(super) fn merge(
        &self,
        candidates: &[CandidateBucket<'a>],
        (prices, keys): Orders<'_, '_>,
        looks: &mut Looks,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) -> Option<Quote> {
        let mut shared = self.book.memory.lock();
        let places = shared.places((&self.book.buckets, &self.book.memory), prices);
        places.trim();
        let Opened {
            mut heap,
            mut closer,
            mut lanes,
        } = self.open(candidates, (prices, keys), looks);
        let mut best: Option<Quote> = None;
        while let Some(Reverse((bound, at, which))) = heap.pop() {
            if looks.is_cut_off() || best.is_some_and(|best| best.expected_cost < bound) {
                break;
            }
            let candidate = &candidates[at];
            if let Some(Closer {
                shape_class,
                burden,
                shape,
            }) = closer.get(which)
            {
                let has_top = candidate.bounded.edges.has_top(self.demand.needs.class);
                if shape.is_some_and(|it| is_later_equal(&it, bound, best.as_ref(), has_top)) {
                    continue;
                }
                let shape_class = (*shape_class, *burden, shape.is_some());
                self.walk(candidate, shape_class, looks, &mut best, quote_of);
                continue;
            }
            let Some(lane) = &mut lanes[at] else { continue };
            if let Some((shape, burden)) = lane.only {
                let is_later = |it| is_later_equal(&it, bound, best.as_ref(), lane.has_top);
                let row = candidate.bounded.bucket.shape_classes.get(&shape);
                if let Some(row) = row.filter(|_| !shape.is_some_and(is_later)) {
                    let found = (shape, burden, row);
                    self.consider((at, candidate), found, &mut closer, &mut heap, looks);
                }
                continue;
            }
            if lane.run.is_none() {
                looks.note_order(candidate.bounded.bucket.shape_classes.len());
                lane.run = Some(places.begin(&keys[at], prices));
                // What is booked may be in the way of any place there: it takes nothing at least.
                if let Some(row) = candidate.bounded.bucket.shape_classes.get(&None) {
                    self.consider(
                        (at, candidate),
                        (None, 0, row),
                        &mut closer,
                        &mut heap,
                        looks,
                    );
                }
            } else if let Some(spot) = lane.next.take() {
                if is_later_equal(&spot.shape, bound, best.as_ref(), lane.has_top) {
                    lane.skip_beyond(spot.burden);
                } else if let Some(row) = row_of(candidate, &spot.shape) {
                    let found = (Some(spot.shape), spot.burden, row);
                    self.consider((at, candidate), found, &mut closer, &mut heap, looks);
                }
            }
            self.advance((at, candidate), &mut lanes, &mut heap);
        }
        for lane in lanes.into_iter().flatten() {
            if let Some(run) = lane.run {
                places.end(run);
            }
        }
        best
    }

    /// The candidates before any order is made: bounds of all that may win, and of buckets without orders what each of their shape classes
    /// takes.
    fn open<'p>(
        &self,
        candidates: &[CandidateBucket<'a>],
        (prices, keys): Orders<'_, '_>,
        looks: &mut Looks,
    ) -> Opened<'a, 'p> {
        let mut heap = BinaryHeap::with_capacity(2 * candidates.len());
        let mut closer: Vec<Closer<'a>> = Vec::with_capacity(candidates.len());
        let mut lanes: Vec<Option<Lane<'p>>> = Vec::with_capacity(candidates.len());
        let mut burdens = Burdens::new();
        for (at, candidate) in candidates.iter().enumerate() {
            if let Some(shape) = candidate.bounded.edges.only {
                let burden = self.burden_on(shape.as_ref(), keys[at], prices, &mut burdens);
                let lane = burden.and_then(|it| self.lane(candidate, Some((shape, it))));
                if let Some(lane) = &lane {
                    heap.push(Reverse((lane.least, at, NEXT)));
                }
                lanes.push(lane);
                continue;
            }
            let shape_classes = &candidate.bounded.bucket.shape_classes;
            if shape_classes.len() <= FEW_CLASSES {
                lanes.push(None);
                for (shape, row) in shape_classes.iter() {
                    let burden = self.burden_on(shape.as_ref(), keys[at], prices, &mut burdens);
                    if let Some(burden) = burden {
                        let found = (*shape, burden, row);
                        self.consider((at, candidate), found, &mut closer, &mut heap, looks);
                    }
                }
                continue;
            }
            let lane = self.lane(candidate, None);
            if let Some(lane) = &lane {
                heap.push(Reverse((lane.least, at, NEXT)));
            }
            lanes.push(lane);
        }
        Opened {
            heap,
            closer,
            lanes,
        }
    }

    /// The shape classes of a candidate before any was looked at; `None` if all cost more than the limit.
    fn lane<'p>(
        &self,
        candidate: &CandidateBucket<'a>,
        only: Option<(Option<Shape>, i64)>,
    ) -> Option<Lane<'p>> {
        let least = self.least_of_all(candidate)?;
        let burden = only.map_or(0, |(_, burden)| burden);
        Some(Lane {
            run: None,
            least: least.saturating_add(self.packing(candidate, burden, candidate.duration)),
            has_top: candidate.bounded.edges.has_top(self.demand.needs.class),
            next: None,
            only,
        })
    }

    /// What a place takes at least on machines that look like `shape`; `None` if there is no place. What is booked may be
    /// in the way of any place: it takes nothing at least.
    fn burden_on(
        &self,
        shape: Option<&Shape>,
        key: OrderKey,
        prices: &PackingPrices,
        burdens: &mut Burdens,
    ) -> Option<i64> {
        let Some(shape) = shape else { return Some(0) };
        let kind = key.kind();
        let table = prices.tables().table_of(usize::from(kind));
        let burden = || prices.least_burden(&Shape { kind, ..*shape }, &self.request);
        *burdens.entry((table, *shape)).or_insert_with(burden)
    }

    /// A shape class is looked at closer, once it is among the least.
    fn consider(
        &self,
        (at, candidate): (usize, &CandidateBucket<'a>),
        (shape, burden, row): (Option<Shape>, i64, &'a Row),
        closer: &mut Vec<Closer<'a>>,
        heap: &mut BinaryHeap<Bound>,
        looks: &mut Looks,
    ) {
        looks.note();
        if !self.has_cpu(shape.as_ref(), row) {
            return;
        }
        let Some(least) = self.least_of(candidate, row) else {
            return;
        };
        let packing = self.packing(candidate, burden, candidate.duration);
        heap.push(Reverse((least.saturating_add(packing), at, closer.len())));
        closer.push(Closer {
            shape_class: &row.shape_class,
            burden,
            shape,
        });
    }

    /// Goes on to the next shape class of a candidate.
    fn advance(
        &self,
        (at, candidate): (usize, &CandidateBucket<'a>),
        lanes: &mut [Option<Lane<'_>>],
        heap: &mut BinaryHeap<Bound>,
    ) {
        let Some(Some(lane)) = lanes.get_mut(at) else {
            return;
        };
        lane.next = lane.run.as_mut().and_then(Iterator::next);
        if let Some(spot) = lane.next {
            let packing = self.packing(candidate, spot.burden, candidate.duration);
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
}

/// Whether an offer on a machine that looks like `shape` and costs `bound` at least comes after `best`; and so do all that
/// follow in a lane and take as much.
fn is_later_equal(shape: &Shape, bound: Amount, best: Option<&Quote>, has_top: bool) -> bool {
    best.is_some_and(|best| {
        let goes_first = best.is_top || !has_top;
        best.expected_cost == bound && goes_first && best.look < *shape
    })
}

/// The shape class of machines that look like `shape`.
fn row_of<'a>(candidate: &CandidateBucket<'a>, shape: &Shape) -> Option<&'a Row> {
    let row = candidate.bounded.bucket.shape_classes.get(&Some(*shape));
    debug_assert!(row.is_some(), "the memory was told of this book");
    row
}
