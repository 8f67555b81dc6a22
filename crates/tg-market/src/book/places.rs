//! The shape classes of each bucket in the order of what a place on them takes from the work to come, remembered for as long
//! as the prices of placements stand.
//!
//! What a request takes on a machine follows from its [`Footprint`], from how the machine looks, and from the prices:
//! not from who else is there. So a shape class is valued once for each footprint, when it is first met, and stays valued
//! when its machines come and go. Each bucket has a log of looks that some machine took on; an order reads on in it when
//! it is asked next, and drops a look that no machine has any more, or none with the CPU that is asked for, when it comes
//! across it. Where machines' CPU is nearly used a place takes nothing from the work to come, as no GPU work fits there any
//! more: such shape classes are the first of every order, and most of them have a little less CPU than a job takes.
//!
//! When prices move, nothing is valued anew at once. With `L` the least ratio of a new price to its old one, `L` times the
//! old value (less a bound for rounding) is a lower bound of the new one, so only shape classes are valued whose bound reaches
//! the one that is looked at.
//!
//! This is a memory and no state: answers and [`super::Looks`] are the same whether it is kept, brought over from
//! another version of the book, or empty. All copies of a book share one memory, which belongs to the version that
//! used it last; another version that wants it says what its own machines look like, and goes on from there. It is
//! empty again when other work is expected.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::bucket::{BoundedBucket, Bucket, BucketKey, Look};
use super::runs::Runs;
use crate::cluster::{Gpu, Request};
use crate::packing::Shape;
use crate::packing::table::{PricedTables, STEP_BITS};
use crate::view::PackingPrices;

/// Length at which the older half of a bucket's log is dropped. An order that had not read it looks at all shape classes.
const LOG_MAX: usize = 1 << 16;

/// Looks kept although no machine has them any more, before a bucket is forgotten.
const LOOKS_IDLE_MAX: usize = 1 << 14;

/// Shape classes in all orders together, some 80 bytes each; then all orders are forgotten.
const SPOTS_MAX: usize = 1 << 21;

/// Orders; then all are forgotten. Each has a byte for each look of its bucket.
const ORDERS_MAX: usize = 1 << 12;

/// A step of prices below this makes bounds too loose; then an order is forgotten.
const STEP_MIN: u64 = 1 << (STEP_BITS - 12);

/// What the value of a place depends on in a request: requests with the same footprint take the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footprint(Request);

impl Footprint {
    /// The footprint of `request` on machines with any GPUs.
    fn of(request: &Request) -> Self {
        // Memory counts where it decides on a partition.
        let memory = match request.is_fraction() {
            true => request.gpu_memory_mib(),
            false => 0,
        };
        Self::with_memory(request, memory)
    }

    /// The footprint of `request` on machines with these GPUs.
    fn on(gpu: &Gpu, request: &Request) -> Self {
        match gpu.mig() {
            Some(_) => Self::of(request),
            None => Self::with_memory(request, 0),
        }
    }

    fn with_memory(request: &Request, gpu_memory_mib: u32) -> Self {
        let cpu_milli = request.cpu_milli();
        let alike = Request::new(cpu_milli, 0, request.gpus(), request.gpu_milli());
        Self(alike.map_or(*request, |it| it.with_gpu_memory(gpu_memory_mib)))
    }

    /// All that tells it apart, and the kind of machine, in one number.
    fn pack(&self, kind: u16) -> u128 {
        let Self(request) = self;
        let gpus = u128::from(request.gpus()) << 16 | u128::from(request.gpu_milli());
        let host = u128::from(request.cpu_milli()) << 32 | u128::from(request.gpu_memory_mib());
        u128::from(kind) << 88 | gpus << 64 | host
    }
}

/// A shape class in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    /// What a place takes at least.
    pub(super) burden: i64,
    /// How its machines look; of kind 0.
    pub(super) shape: Shape,
    /// Number of the look in its bucket.
    look: u32,
}

/// A set of numbers, a bit for each: of what a search touches at random little must be fetched.
#[derive(Debug, Default)]
struct Marks(Vec<u64>);

impl Marks {
    /// Makes room for the numbers below `count`.
    fn grow(&mut self, count: usize) {
        self.0.resize(count.div_ceil(64).max(self.0.len()), 0);
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, at: usize, is_set: bool) {
        let bit = 1 << (at % 64);
        match is_set {
            true => self.0[at / 64] |= bit,
            false => self.0[at / 64] &= !bit,
        }
    }
}

/// The shape classes of a bucket with a place for one footprint.
#[derive(Debug, Default)]
struct Order {
    /// How far it read the log; `None` before it read anything.
    cursor: Option<u64>,
    /// Looks that are in `spots` or `aged`, or have no place.
    known: Marks,
    /// Valued under the present prices.
    spots: BTreeSet<Spot>,
    /// Valued under older prices: `ratio` times the burden, less `slack`, is a lower bound.
    aged: BTreeSet<Spot>,
    ratio: u64,
    slack: i64,
}

impl Order {
    fn len(&self) -> usize {
        self.spots.len() + self.aged.len()
    }

    /// A lower bound of what those take that were valued under older prices.
    fn least_aged(&self) -> Option<i64> {
        let first = self.aged.first()?;
        let scaled = (i128::from(first.burden) * i128::from(self.ratio)) >> STEP_BITS;
        Some((scaled as i64).saturating_sub(self.slack))
    }

    /// Prices moved: every one is at least `step` times what it was. False if that says too little.
    fn age(&mut self, step: u64, slack: i64) -> bool {
        self.slack = slack;
        let spots = std::mem::take(&mut self.spots);
        if self.aged.is_empty() {
            (self.aged, self.ratio) = (spots, step);
            return step >= STEP_MIN;
        }
        let product = (u128::from(self.ratio) * u128::from(step)) >> STEP_BITS;
        self.ratio = product as u64;
        if self.ratio < STEP_MIN {
            return false;
        }
        // In the unit of those that were valued longer ago.
        let scaled = spots.into_iter().map(|spot| {
            let burden = i128::from(spot.burden) * i128::from(step) / i128::from(self.ratio);
            Spot {
                burden: i64::try_from(burden).unwrap_or(i64::MAX),
                ..spot
            }
        });
        self.aged.extend(scaled);
        true
    }

    /// A look is in the order no more; the log says when a machine has it again.
    fn forget(&mut self, look: u32) {
        self.known.set(look as usize, false);
    }
}

/// What is remembered of a bucket.
#[derive(Debug, Default)]
struct BucketPlaces {
    /// By [`Shape::pack`].
    numbers: BTreeMap<u128, u32>,
    looks: Vec<Shape>,
    /// What a machine of each look is worth to the work to come, by the kind that was asked for last.
    worth: Vec<Option<(u16, i64)>>,
    /// For each look the most CPU that a machine has free which has it now.
    cpus: Vec<Option<u32>>,
    here: usize,
    /// Looks that machines took on, or of which one has more CPU free than any had before.
    log: Vec<u32>,
    log_base: u64,
    /// Where the order of each kind and footprint is.
    order_places: BTreeMap<u128, u32>,
    /// An order that is lent leaves its place.
    orders: Vec<(u16, Option<Box<Order>>)>,
}

impl BucketPlaces {
    fn number(&mut self, shape: &Shape) -> u32 {
        let packed = shape.pack();
        if let Some(number) = self.numbers.get(&packed) {
            return *number;
        }
        let number = self.looks.len() as u32;
        self.numbers.insert(packed, number);
        self.looks.push(*shape);
        self.worth.push(None);
        self.cpus.push(None);
        number
    }

    /// The machines that look so are these now.
    fn note(&mut self, look: &Look) {
        let number = self.number(&look.shape);
        let before = std::mem::replace(&mut self.cpus[number as usize], look.cpu_milli);
        self.here += usize::from(look.cpu_milli.is_some());
        self.here -= usize::from(before.is_some());
        // No CPU at all is more than no machine.
        if look.cpu_milli > before {
            self.log(number);
        }
    }

    fn log(&mut self, look: u32) {
        self.log.push(look);
        if self.log.len() >= LOG_MAX {
            let half = self.log.len() / 2;
            self.log.drain(..half);
            self.log_base += half as u64;
        }
    }

    /// Machines look as those of `bucket` do.
    fn tell(&mut self, bucket: &Bucket) {
        let before = std::mem::take(&mut self.cpus);
        self.cpus = vec![None; before.len()];
        self.here = 0;
        for look in bucket.looks() {
            let number = self.number(&look.shape);
            self.cpus[number as usize] = look.cpu_milli;
            self.here += 1;
            let had = before.get(number as usize).copied().flatten();
            if look.cpu_milli > had {
                self.log(number);
            }
        }
    }

    /// Whether some machine of a look has the CPU for the request of `key`.
    fn has_cpu(&self, look: u32, key: &OrderKey) -> bool {
        let Footprint(request) = &key.footprint;
        let most = self.cpus.get(look as usize).copied().flatten();
        most.is_some_and(|most| most >= request.cpu_milli())
    }

    /// Shape classes in all its orders.
    fn spots(&self) -> usize {
        let orders = self.orders.iter().filter_map(|(_, order)| order.as_ref());
        orders.map(|it| it.len()).sum()
    }

    fn is_overgrown(&self) -> bool {
        self.looks.len() > LOOKS_IDLE_MAX + 2 * self.here
    }

    /// Where the order of `key` is; it begins to be if it was not.
    fn place_of(&mut self, key: &OrderKey) -> u32 {
        let next = self.orders.len() as u32;
        let place = self.order_places.entry(key.footprint.pack(key.kind));
        let place = *place.or_insert(next);
        if place == next {
            self.orders.push((key.kind, None));
        }
        place
    }

    /// Forgets the orders that are not to be kept, as `keeps` says of their kinds.
    fn retain_orders(&mut self, mut keeps: impl FnMut(u16, &mut Order) -> bool) {
        let orders = &mut self.orders;
        let mut kept = Vec::with_capacity(orders.len());
        self.order_places.retain(|_, place| {
            let (kind, order) = &mut orders[*place as usize];
            let order = order
                .take()
                .and_then(|mut it| keeps(*kind, &mut it).then_some(it));
            let is_kept = order.is_some();
            if is_kept {
                *place = kept.len() as u32;
                kept.push((*kind, order));
            }
            is_kept
        });
        self.orders = kept;
    }

    /// What the request of `key` takes at least on a machine of a look.
    fn burden(&mut self, key: &OrderKey, look: u32, prices: &PackingPrices) -> Option<i64> {
        let OrderKey {
            kind, footprint, ..
        } = *key;
        let Footprint(request) = footprint;
        let at = look as usize;
        let shape = Shape {
            kind,
            ..self.looks[at]
        };
        let left = prices.most_left(&shape, &request)?;
        let worth = match self.worth[at].filter(|(of, _)| *of == kind) {
            Some((_, worth)) => worth,
            None => prices.tables().value(&shape),
        };
        self.worth[at] = Some((kind, worth));
        Some((worth - left).max(0))
    }

    /// Brings an order up to date with the log.
    fn catch_up(&mut self, order: &mut Order, key: &OrderKey, prices: &PackingPrices) {
        let end = self.log_base + self.log.len() as u64;
        order.known.grow(self.looks.len());
        let unread = order.cursor.and_then(|it| it.checked_sub(self.log_base));
        let count = match unread {
            Some(from) => self.log.len() - from as usize,
            None => self.looks.len(),
        };
        for index in 0..count {
            let look = match unread {
                Some(from) => self.log[from as usize + index],
                None => index as u32,
            };
            let at = look as usize;
            if !self.has_cpu(look, key) || order.known.has(at) {
                continue;
            }
            order.known.set(at, true);
            if let Some(burden) = self.burden(key, look, prices) {
                order.spots.insert(Spot {
                    burden,
                    shape: self.looks[at],
                    look,
                });
            }
        }
        order.cursor = Some(end);
    }
}

/// What is remembered of all buckets, under one set of prices.
#[derive(Debug)]
pub(super) struct Places {
    tables: Arc<PricedTables>,
    /// Where each bucket is.
    bucket_places: BTreeMap<BucketKey, u32>,
    buckets: Vec<BucketPlaces>,
    spots: usize,
    orders: usize,
}

/// One order as a search goes through it, with its bucket, which the memory lends for the while.
#[derive(Debug)]
pub(super) struct Run<'d> {
    key: OrderKey,
    /// Where its bucket is, and the order on it.
    place: (u32, u32),
    bucket: BucketPlaces,
    order: Box<Order>,
    /// How many shape classes were in the order.
    was: usize,
    after: Bound<Spot>,
    prices: &'d PackingPrices,
}

impl Iterator for Run<'_> {
    type Item = Spot;

    fn next(&mut self) -> Option<Spot> {
        loop {
            let rest = self.order.spots.range((self.after, Bound::Unbounded));
            let exact = rest.copied().next();
            let may_be_less = |least: i64| exact.is_none_or(|spot| least <= spot.burden);
            if self.order.least_aged().is_some_and(may_be_less) {
                let aged = self.order.aged.pop_first()?;
                self.value(&aged);
                continue;
            }
            let spot = exact?;
            self.after = Bound::Excluded(spot);
            if self.bucket.has_cpu(spot.look, &self.key) {
                return Some(spot);
            }
            self.order.spots.remove(&spot);
            self.order.forget(spot.look);
        }
    }
}

impl Run<'_> {
    /// Values a shape class under the present prices.
    fn value(&mut self, aged: &Spot) {
        let burden = match self.bucket.has_cpu(aged.look, &self.key) {
            true => self.bucket.burden(&self.key, aged.look, self.prices),
            false => None,
        };
        match burden {
            Some(burden) => {
                self.order.spots.insert(Spot { burden, ..*aged });
            }
            None => self.order.forget(aged.look),
        }
    }

    /// Leaves out what is left of those that take as much as `burden`.
    pub(super) fn skip_beyond(&mut self, burden: i64) {
        self.after = Bound::Included(Spot {
            burden: burden.saturating_add(1),
            shape: Shape::NOTHING,
            look: 0,
        });
    }
}

/// Which order: of machines with these GPUs, of a kind that stands for all in the bucket, for one footprint.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderKey {
    gpu: BucketKey,
    kind: u16,
    footprint: Footprint,
}

impl OrderKey {
    pub(super) const fn kind(&self) -> u16 {
        self.kind
    }

    pub(super) fn new(gpu: &BucketKey, kind: u16, request: &Request) -> Self {
        Self {
            gpu: *gpu,
            kind,
            footprint: Footprint::on(gpu, request),
        }
    }
}

impl Places {
    /// Forgets all orders if there are too many; not while one is lent.
    pub(super) fn trim(&mut self) {
        if self.spots > SPOTS_MAX || self.orders > ORDERS_MAX {
            self.forget_orders();
        }
    }

    /// Lends the order of `key`, up to date.
    pub(super) fn begin<'d>(&mut self, key: &OrderKey, prices: &'d PackingPrices) -> Run<'d> {
        let at = self.bucket_place(&key.gpu);
        let mut bucket = std::mem::take(&mut self.buckets[at as usize]);
        let place = bucket.place_of(key);
        let order = bucket.orders[place as usize].1.take();
        self.orders += usize::from(order.is_none());
        let mut order = order.unwrap_or_default();
        let was = order.len();
        bucket.catch_up(&mut order, key, prices);
        Run {
            key: *key,
            place: (at, place),
            bucket,
            order,
            was,
            after: Bound::Unbounded,
            prices,
        }
    }

    /// Takes back what was lent.
    pub(super) fn end(&mut self, run: Run<'_>) {
        let Run {
            key: _,
            place: (at, place),
            mut bucket,
            order,
            was,
            after: _,
            prices: _,
        } = run;
        self.spots = self.spots + order.len() - was;
        bucket.orders[place as usize].1 = Some(order);
        self.buckets[at as usize] = bucket;
    }

    /// Where a bucket is; it begins to be remembered if it was not.
    fn bucket_place(&mut self, gpu: &BucketKey) -> u32 {
        let next = self.buckets.len() as u32;
        let place = *self.bucket_places.entry(*gpu).or_insert(next);
        if place == next {
            self.buckets.push(BucketPlaces::default());
        }
        place
    }

    /// Prices moved from `self.tables` to `tables`.
    fn age(&mut self, tables: &PricedTables) {
        let before = Arc::clone(&self.tables);
        (self.spots, self.orders) = (0, 0);
        for bucket in &mut self.buckets {
            bucket.worth.fill(None);
            bucket.retain_orders(|kind, order| {
                let step = tables.step_from(&before, usize::from(kind));
                step.is_some_and(|(step, slack)| order.age(step, slack))
            });
            self.orders += bucket.orders.len();
            self.spots += bucket.spots();
        }
    }

    fn forget_orders(&mut self) {
        for bucket in &mut self.buckets {
            bucket.order_places.clear();
            bucket.orders.clear();
            bucket.worth.fill(None);
        }
        (self.spots, self.orders) = (0, 0);
    }

    /// Machines look as those on `buckets` do.
    fn tell(&mut self, buckets: &Runs<BucketKey, BoundedBucket>) {
        let none = Bucket::default();
        for gpu in buckets.keys() {
            self.bucket_place(gpu);
        }
        for (gpu, place) in &self.bucket_places {
            let bucket = buckets.get(gpu).map_or(&none, |it| &*it.bucket);
            self.buckets[*place as usize].tell(bucket);
        }
    }
}

/// The memory that all versions of a book share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    places: Option<Places>,
    /// The version of the book that `places` are told of.
    told: u64,
    /// The last version that was named.
    last: u64,
}

impl Shared {
    /// The places on the buckets of a book under `prices`, for the version that asks: the one that has `memory`.
    pub(super) fn places(
        &mut self,
        (buckets, memory): (&Runs<BucketKey, BoundedBucket>, &Memory),
        prices: &PackingPrices,
    ) -> &mut Places {
        let tables = prices.tables();
        let places = self.places.get_or_insert_with(|| {
            // Whatever version asks, it is not the one that this was told of.
            self.told = u64::MAX;
            Places {
                tables: Arc::clone(tables),
                bucket_places: BTreeMap::new(),
                buckets: Vec::new(),
                spots: 0,
                orders: 0,
            }
        });
        if !Arc::ptr_eq(&places.tables, tables) {
            if places.tables != *tables {
                places.age(tables);
            }
            places.tables = Arc::clone(tables);
        }
        if self.told != memory.version {
            places.tell(buckets);
            self.told = memory.version;
        }
        places
    }

    /// The version that was told of changes, and becomes the one that was named last.
    fn change(&mut self, gpu: &BucketKey, left: Option<Look>, joined: Option<Look>) {
        let Some(places) = &mut self.places else {
            return;
        };
        let at = places.bucket_place(gpu) as usize;
        let bucket = &mut places.buckets[at];
        let is_left = |it: &&Look| joined.is_none_or(|joined| joined.shape != it.shape);
        left.iter().filter(is_left).for_each(|it| bucket.note(it));
        joined.iter().for_each(|it| bucket.note(it));
        self.told = self.last;
        if bucket.is_overgrown() {
            let forgotten = std::mem::take(bucket);
            places.spots -= forgotten.spots();
            places.orders -= forgotten.orders.len();
            // What is here now is told again.
            self.told = u64::MAX;
        }
    }
}

/// A book's part in the memory that its versions share. Books with different memories are equal.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    shared: Arc<Mutex<Shared>>,
    /// Names what the book says: changes get a new one.
    version: u64,
}

impl PartialEq for Memory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memory {}

impl Memory {
    /// What is remembered, for as long as the guard lives.
    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|poisoned| {
            // Whoever held it did not finish.
            self.shared.clear_poison();
            let mut shared = PoisonError::into_inner(poisoned);
            shared.places = None;
            shared
        })
    }

    /// The memory for a book built anew beside the one that has this.
    pub(super) fn for_another(&self) -> Self {
        let mut shared = self.lock();
        shared.last += 1;
        Self {
            version: shared.last,
            shared: Arc::clone(&self.shared),
        }
    }

    /// The book changes: in the bucket of `gpu` a machine `left` those that look like one another, and `joined` others; both are
    /// said as they are after it.
    pub(super) fn change(&mut self, gpu: &BucketKey, left: Option<Look>, joined: Option<Look>) {
        let version = {
            let shared = &mut *self.lock();
            shared.last += 1;
            if shared.told == self.version {
                shared.change(gpu, left, joined);
            }
            shared.last
        };
        self.version = version;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_drops_its_older_half_counts_on() {
        let mut bucket = BucketPlaces::default();
        for noted in 1..=LOG_MAX as u64 + 10 {
            bucket.log(3);
            assert_eq!(bucket.log_base + bucket.log.len() as u64, noted);
        }
        assert!(bucket.log.len() < LOG_MAX, "the older half is gone");
    }
}
