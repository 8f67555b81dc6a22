//! The cohorts of each shelf in the order of what a place on them takes from the work to come, remembered for as long
//! as the prices of placements stand.
//!
//! What a request takes on a machine follows from its [`Footprint`], from how the machine looks, and from the prices:
//! not from who else is there. So a cohort is valued once for each footprint, when it is first met, and stays valued
//! when its machines come and go. Each shelf has a log of looks that some machine took on; an order reads on in it when
//! it is asked next, and drops a look that no machine has any more when it comes across it.
//!
//! This is a memory and no state: answers and [`super::Looks`] are the same whether it is kept, brought over from
//! another version of the book, or empty. All copies of a book share one memory, which belongs to the version that
//! used it last; another version that wants it says what its own machines look like, and goes on from there. It is
//! empty again when the tables of prices differ.

use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::OfferBook;
use super::shelf::{Shelf, ShelfKey};
use crate::cluster::{Gpu, Request};
use crate::packing::Shape;
use crate::packing::table::{CPU_UNIT_MILLI, CPU_UNITS_MAX, PricedTables};
use crate::view::PackingPrices;

/// Length at which the older half of a shelf's log is dropped. An order that had not read it looks at all cohorts.
const LOG_MAX: usize = 1 << 16;

/// Looks kept although no machine has them any more, before a shelf is forgotten.
const LOOKS_IDLE_MAX: usize = 1 << 16;

/// Cohorts in all orders together, some 80 bytes each; then all orders are forgotten.
const SPOTS_MAX: usize = 1 << 21;

/// Orders; then all are forgotten. Each has a byte for each look of its shelf.
const ORDERS_MAX: usize = 1 << 12;

/// What the value of a place depends on in a request: requests with the same footprint take the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Footprint(Request);

impl Footprint {
    /// The footprint of `request` on machines with any GPUs.
    #[must_use]
    pub fn of(request: &Request) -> Self {
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
        // CPU counts in units, rounded down where it must fit and up where it is taken.
        let whole = request.cpu_milli() / CPU_UNIT_MILLI * CPU_UNIT_MILLI;
        let cpu_milli = whole + u32::from(whole < request.cpu_milli());
        let alike = Request::new(cpu_milli, 0, request.gpus(), request.gpu_milli());
        Self(alike.map_or(*request, |it| it.with_gpu_memory(gpu_memory_mib)))
    }
}

/// What `request` takes at least from the work to come on a machine of `shape`; `None` if there is no place.
pub(super) fn burden(shape: &Shape, request: &Request, prices: &PackingPrices) -> Option<i64> {
    has_cpu(shape, request).then_some(())?;
    prices.least_burden(shape, request)
}

/// Whether a machine of `shape` may have the CPU for `request`.
pub(super) fn has_cpu(shape: &Shape, request: &Request) -> bool {
    let units = shape.cpu_units;
    let beyond = (u32::from(units) + 1).saturating_mul(CPU_UNIT_MILLI);
    units >= CPU_UNITS_MAX || request.cpu_milli() < beyond
}

/// A cohort in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    /// What a place takes at least.
    pub(super) burden: i64,
    /// How its machines look; of kind 0.
    pub(super) shape: Shape,
    /// Number of the look on its shelf.
    look: u32,
}

/// The cohorts of a shelf with a place for one footprint.
#[derive(Debug, Default)]
struct Order {
    /// How far it read the log; `None` before it read anything.
    cursor: Option<u64>,
    /// Looks that are in `spots`, or have no place.
    is_known: Vec<bool>,
    spots: BTreeSet<Spot>,
}

/// What is remembered of a shelf.
#[derive(Debug, Default)]
struct ShelfPlaces {
    numbers: BTreeMap<Shape, u32>,
    looks: Vec<Shape>,
    /// For each look whether a machine has it now.
    is_here: Vec<bool>,
    here: usize,
    /// Looks that machines took on.
    log: Vec<u32>,
    log_base: u64,
    orders: BTreeMap<(u16, Footprint), Order>,
}

impl ShelfPlaces {
    fn number(&mut self, shape: &Shape) -> u32 {
        if let Some(number) = self.numbers.get(shape) {
            return *number;
        }
        let number = self.looks.len() as u32;
        self.numbers.insert(*shape, number);
        self.looks.push(*shape);
        self.is_here.push(false);
        number
    }

    /// A machine looks like `shape` where none did.
    fn gain(&mut self, shape: &Shape) {
        let number = self.number(shape);
        let is_here = &mut self.is_here[number as usize];
        if *is_here {
            return;
        }
        *is_here = true;
        self.here += 1;
        self.log.push(number);
        if self.log.len() >= LOG_MAX {
            let half = self.log.len() / 2;
            self.log.drain(..half);
            self.log_base += half as u64;
        }
    }

    /// No machine looks like `shape` any more.
    fn lose(&mut self, shape: &Shape) {
        let number = self.number(shape);
        let is_here = &mut self.is_here[number as usize];
        self.here -= usize::from(*is_here);
        *is_here = false;
    }

    /// Machines look as those of `shelf` do.
    fn tell(&mut self, shelf: &Shelf) {
        let before = std::mem::take(&mut self.is_here);
        self.is_here = vec![false; before.len()];
        self.here = 0;
        for shape in shelf.shapes() {
            let number = self.number(shape);
            if before.get(number as usize).copied().unwrap_or(false) {
                self.is_here[number as usize] = true;
                self.here += 1;
            } else {
                self.gain(shape);
            }
        }
    }

    fn is_overgrown(&self) -> bool {
        self.looks.len() > LOOKS_IDLE_MAX + 2 * self.here
    }

    /// Brings an order up to date with the log; the number of cohorts that it has more.
    fn catch_up(&mut self, key: (u16, Footprint), prices: &PackingPrices) -> usize {
        let end = self.log_base + self.log.len() as u64;
        let order = self.orders.entry(key).or_default();
        let before = order.spots.len();
        order.is_known.resize(self.looks.len(), false);
        let read = |number: u32| {
            let at = number as usize;
            if order.is_known[at] || !self.is_here[at] {
                return;
            }
            order.is_known[at] = true;
            let shape = self.looks[at];
            let (kind, Footprint(request)) = key;
            let burden = burden(&Shape { kind, ..shape }, &request, prices);
            order.spots.extend(burden.map(|burden| Spot {
                burden,
                shape,
                look: number,
            }));
        };
        match order.cursor.and_then(|it| it.checked_sub(self.log_base)) {
            Some(from) => self.log[from as usize..].iter().copied().for_each(read),
            None => (0..self.looks.len() as u32).for_each(read),
        }
        order.cursor = Some(end);
        order.spots.len() - before
    }
}

/// What is remembered of all shelves, under one set of prices.
#[derive(Debug)]
pub(super) struct Places {
    tables: Arc<PricedTables>,
    shelves: BTreeMap<ShelfKey, ShelfPlaces>,
    spots: usize,
    orders: usize,
}

/// One order as a search goes through it.
#[derive(Debug)]
pub(super) struct Run<'p> {
    spots: btree_set::Iter<'p, Spot>,
    is_here: &'p [bool],
    /// What it came across that is not here any more.
    gone: Vec<Spot>,
}

impl Iterator for Run<'_> {
    type Item = Spot;

    fn next(&mut self) -> Option<Spot> {
        for spot in self.spots.by_ref() {
            if self.is_here[spot.look as usize] {
                return Some(*spot);
            }
            self.gone.push(*spot);
        }
        None
    }
}

impl Run<'_> {
    /// What it came across that no machine looks like any more.
    pub(super) fn into_gone(self) -> Vec<Spot> {
        self.gone
    }
}

/// Which order: of machines with these GPUs, of a kind that stands for all on the shelf, for one footprint.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderKey {
    gpu: ShelfKey,
    kind: u16,
    footprint: Footprint,
}

impl OrderKey {
    pub(super) fn new(gpu: &ShelfKey, kind: u16, request: &Request) -> Self {
        Self {
            gpu: *gpu,
            kind,
            footprint: Footprint::on(gpu, request),
        }
    }
}

impl Places {
    /// Brings the orders of `keys` up to date.
    pub(super) fn catch_up(&mut self, keys: &[OrderKey], prices: &PackingPrices) {
        if self.spots > SPOTS_MAX || self.orders > ORDERS_MAX {
            self.forget_orders();
        }
        for key in keys {
            let shelf = self.shelves.entry(key.gpu).or_default();
            let before = shelf.orders.len();
            self.spots += shelf.catch_up((key.kind, key.footprint), prices);
            self.orders += shelf.orders.len() - before;
        }
    }

    /// The order of `key`, from the least; it must be up to date.
    pub(super) fn run(&self, key: &OrderKey) -> Option<Run<'_>> {
        let shelf = self.shelves.get(&key.gpu)?;
        let order = shelf.orders.get(&(key.kind, key.footprint))?;
        Some(Run {
            spots: order.spots.iter(),
            is_here: &shelf.is_here,
            gone: Vec::new(),
        })
    }

    /// Drops from an order what is not here any more; the log says when it is again.
    pub(super) fn drop_gone(&mut self, key: &OrderKey, gone: &[Spot]) {
        let shelf = self.shelves.get_mut(&key.gpu);
        let orders = shelf.map(|it| &mut it.orders);
        let Some(order) = orders.and_then(|it| it.get_mut(&(key.kind, key.footprint))) else {
            return;
        };
        for spot in gone {
            order.is_known[spot.look as usize] = false;
            self.spots -= usize::from(order.spots.remove(spot));
        }
    }

    fn forget_orders(&mut self) {
        for shelf in self.shelves.values_mut() {
            shelf.orders.clear();
        }
        (self.spots, self.orders) = (0, 0);
    }

    /// Machines look as those of `book` do.
    fn tell(&mut self, book: &OfferBook) {
        let none = Shelf::default();
        for (gpu, places) in &mut self.shelves {
            let shelf = book.shelves.get(gpu).map_or(&none, |it| it);
            places.tell(shelf);
        }
        for (gpu, shelf) in &book.shelves {
            if !self.shelves.contains_key(gpu) {
                let mut places = ShelfPlaces::default();
                places.tell(shelf);
                self.shelves.insert(*gpu, places);
            }
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
    /// The places of `book` under `prices`, for the version that asks.
    pub(super) fn places(&mut self, book: &OfferBook, prices: &PackingPrices) -> &mut Places {
        let tables = prices.tables();
        let places = self.places.get_or_insert_with(|| {
            // Whatever version asks, it is not the one that this was told of.
            self.told = u64::MAX;
            Places {
                tables: Arc::clone(tables),
                shelves: BTreeMap::new(),
                spots: 0,
                orders: 0,
            }
        });
        if !Arc::ptr_eq(&places.tables, tables) {
            if places.tables != *tables {
                places.forget_orders();
            }
            places.tables = Arc::clone(tables);
        }
        if self.told != book.memory.version {
            places.tell(book);
            self.told = book.memory.version;
        }
        places
    }

    /// The version that was told of changes, and becomes the one that was named last.
    fn change(&mut self, gpu: &ShelfKey, lost: Option<Shape>, gained: Option<Shape>) {
        let Some(places) = &mut self.places else {
            return;
        };
        let shelf = places.shelves.entry(*gpu).or_default();
        if lost != gained {
            lost.iter().for_each(|it| shelf.lose(it));
            gained.iter().for_each(|it| shelf.gain(it));
        }
        self.told = self.last;
        if shelf.is_overgrown() {
            let orders = std::mem::take(shelf).orders;
            places.spots -= orders.values().map(|it| it.spots.len()).sum::<usize>();
            places.orders -= orders.len();
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

    /// The book changes: on the shelf of `gpu` no machine looks like `lost` any more, and one looks like `gained` where
    /// none did.
    pub(super) fn change(&mut self, gpu: &ShelfKey, lost: Option<Shape>, gained: Option<Shape>) {
        let version = {
            let shared = &mut *self.lock();
            shared.last += 1;
            if shared.told == self.version {
                shared.change(gpu, lost, gained);
            }
            shared.last
        };
        self.version = version;
    }
}
