//! The standing offers, sorted so that the cheapest one that fits is found without looking at all of them.
//!
//! An [`OfferBook`] is derived from the ledger's records: one kept up to date is equal to one built anew, and undoing
//! unfinalised blocks needs nothing, as each version of the state shares or owns its own. It is three levels deep:
//!
//! 1. A *shelf* for each kind of GPUs. Which shelves a job may look at is an intersection of
//!    bitsets ([`crate::cluster::KindIndex`]).
//! 2. On a shelf, machines that look alike ([`Shape`]) are one *cohort*: a placement takes the same from the work to
//!    come on all of them, so this part of the cost is worked out once.
//! 3. In a cohort, offers whose cost for any job is equal are one *group* (price, speed, region, what is known of the
//!    provider), in the order of ties: the first that has room is the best of its group. Among cohorts that cost the
//!    same the one goes first whose machines have less free, so that not all of them need be looked at.
//!
//! The cohorts of a shelf in the order of what a place takes are remembered while prices stand ([`places`]), so a decision
//! values what changed since the last one like it, and looks at the cohorts that may win ([`merge`]).
//!
//! From cohort and group follows a lower bound of the cost, in the arithmetic of [`crate::placement`] with the least
//! that any member asks; all of it rises with each of its parts, so the bound holds with every rounding. [`search`] goes
//! by the bounds and stops where nothing can win any more. Its answer is that of [`crate::cheapest`] over all offers.
//!
//! Offers that no job can have now (no free slot, too little money for the collateral, out of reach) are in the book,
//! and in no cohort.
//!
//! Files: [`shelf`] (shelves, cohorts, groups, least values), [`search`] (the best offer), [`places`] (cohorts by what a
//! place takes), [`merge`] (the best offer by these), [`gang`] (places for gangs), [`shards`] (maps that are cheap to
//! copy), [`runs`] (sorted maps of which little is copied).

use std::collections::BTreeSet;
use std::sync::Arc;

use tg_types::{Address, Amount, GpuModel, JobClass, OfferId, OfferTerms, Pricing, TimestampMs};

use crate::demand::{OfferFacts, OfferView};
use crate::packing::Shape;
use crate::record::TrackRecord;
use crate::throughput::{Correction, ThroughputMatrix};
use crate::view::{Stock, gpu_class, node_spec, work_kind};

pub mod gang;
mod merge;
mod places;
pub(crate) mod runs;
pub mod search;
pub mod shards;
pub mod shelf;
#[cfg(test)]
mod tests;

use places::Memory;
use runs::Runs;
use shards::Shards;
use shelf::{Counts, Place, Rack, ShelfKey, Tariff};

pub use search::{Looks, Reach};

/// What the market knows of a provider's work with one class of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mark {
    /// Probability that it fails a job, in millionths.
    pub failure_ppm: u32,
    /// Whether its reputation is below the floor.
    pub removed: bool,
    /// Whether its reputation is among the top.
    pub top: bool,
}

/// An offer with all that belongs to it alone; what all offers share is in [`Rates`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The offer.
    pub offer: OfferId,
    /// Whose it is.
    pub provider: Address,
    /// What was posted.
    pub terms: OfferTerms,
    /// Slots without a lease.
    pub slots_free: u16,
    /// What the provider could lock as collateral, its fees for one lease set aside.
    pub funds: Amount,
    /// Until when the provider gets no leases.
    pub suspended_until: TimestampMs,
    /// How the provider did so far.
    pub record: TrackRecord,
    /// What is known of it with each class of jobs, in the order of their tags.
    pub marks: [Mark; JobClass::ALL.len()],
    /// Whether validators cannot reach it.
    pub offline: bool,
}

/// What all offers share: moving prices, and how fast GPUs turned out to be.
#[derive(Debug, Clone, Copy)]
pub struct Rates<'a> {
    /// The moving price of a second of each GPU model, in the order of tags.
    pub class_prices: &'a [Amount; GpuModel::ALL.len()],
    /// What GPUs reach relative to the throughput table.
    pub throughput: &'a ThroughputMatrix,
}

impl Rates<'_> {
    fn class_price(&self, model: GpuModel) -> Amount {
        let price = self.class_prices.get(usize::from(model.tag()));
        price.copied().unwrap_or_default()
    }

    fn correction(&self, model: GpuModel, class: JobClass) -> Correction {
        gpu_class(model).map_or_else(Correction::default, |gpu| {
            self.throughput.correction(gpu, work_kind(class))
        })
    }
}

impl Standing {
    /// The offer as a job of `class` sees it.
    #[must_use]
    pub fn view(&self, class: JobClass, rates: &Rates<'_>) -> OfferView<'_> {
        let mark = self.mark(class);
        let model = self.terms.machine.gpu;
        OfferView {
            offer: self.offer,
            provider: self.provider,
            terms: &self.terms,
            slots_free: self.slots_free,
            funds: self.funds,
            suspended_until: self.suspended_until,
            record: self.record,
            facts: OfferFacts {
                failure_ppm: Some(mark.failure_ppm),
                removed: mark.removed,
                top: mark.top,
                offline: self.offline,
                class_price: rates.class_price(model),
                correction: rates.correction(model, class),
            },
        }
    }

    const fn mark(&self, class: JobClass) -> &Mark {
        &self.marks[class.tag() as usize]
    }

    /// Whether some job could have it now, as far as the provider is concerned.
    fn is_open(&self) -> bool {
        self.slots_free > 0 && self.terms.collateral_per_lease <= self.funds && !self.offline
    }
}

/// A standing offer where it lies in the book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) standing: Standing,
    pub(crate) tariff: Tariff,
    shelf: ShelfKey,
    /// Its cohort, if it is open.
    place: Option<Place>,
    /// GPU compute of its machine that is free, in thousandths.
    free_milli: u32,
    /// CPU of its machine that is free, in thousandths of a core.
    cpu_milli: u32,
}

/// Offers of one GPU model whose price follows demand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Moving {
    capacity_milli: u64,
    free_milli: u64,
    asks: Arc<Counts<Amount>>,
}

/// What the offers of one GPU model whose price follows demand have, and the least that one of them asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovingLoad {
    /// GPU compute of their machines, in thousandths.
    pub capacity_milli: u64,
    /// What of it is taken.
    pub used_milli: u64,
    /// The least ask for a GPU second.
    pub floor: Amount,
}

/// GPUs of one model by what is asked for a second of them.
type Asks = Runs<Amount, u64>;

/// All standing offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfferBook {
    seed: [u8; 32],
    entries: Shards<OfferId, Arc<Entry>>,
    owners: Shards<Address, BTreeSet<OfferId>>,
    shelves: Runs<ShelfKey, Rack>,
    asks: [Arc<Asks>; GpuModel::ALL.len()],
    moving: [Moving; GpuModel::ALL.len()],
    memory: Memory,
}

impl OfferBook {
    /// An empty book whose ties go by `seed`.
    #[must_use]
    pub fn new(seed: [u8; 32]) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// An empty book whose ties go by `seed`, which remembers what this one does of machines that look alike: for the
    /// same offers, entered again.
    #[must_use]
    pub fn new_beside(&self, seed: [u8; 32]) -> Self {
        Self {
            memory: self.memory.for_another(),
            ..Self::new(seed)
        }
    }

    /// Equals are ordered by `seed` from now on: the book is the one that is built anew with it.
    pub fn turn(&mut self, seed: [u8; 32]) {
        self.seed = seed;
        self.shelves.change_each(
            |rack| rack.shelf.has_equals(),
            |rack| Arc::make_mut(&mut rack.shelf).turn(&seed),
        );
    }

    /// The providers of offers, by address.
    pub fn providers(&self) -> impl Iterator<Item = &Address> {
        self.owners.keys()
    }

    /// What orders equals.
    #[must_use]
    pub const fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// How many offers there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// An offer.
    #[must_use]
    pub fn get(&self, offer: &OfferId) -> Option<&Standing> {
        self.entries.get(offer).map(|entry| &entry.standing)
    }

    /// Every offer, by offer id.
    pub fn iter(&self) -> impl Iterator<Item = &Standing> {
        self.entries.values().map(|entry| &entry.standing)
    }

    /// The offers of a provider, by offer id.
    pub fn of_provider(&self, provider: &Address) -> impl Iterator<Item = OfferId> {
        self.owners.get(provider).into_iter().flatten().copied()
    }

    /// Open offers with the free GPU compute of their machines in thousandths, by offer id.
    pub fn open(&self) -> impl Iterator<Item = (&Standing, u32)> {
        let open = self.entries.values().filter(|entry| entry.place.is_some());
        open.map(|entry| (&entry.standing, entry.free_milli))
    }

    /// Whether any offer is open.
    #[must_use]
    pub fn has_open(&self) -> bool {
        self.shelves
            .values()
            .any(|rack| !rack.shelf.cohorts.is_empty())
    }

    /// For each GPU model the ask of the GPU in the middle, when all are in the order of their asks: nobody alone
    /// moves it.
    #[must_use]
    pub fn middle_asks(&self) -> [Amount; GpuModel::ALL.len()] {
        std::array::from_fn(|model| {
            let asks = &self.asks[model];
            let half = asks.values().sum::<u64>().div_ceil(2);
            let mut seen = 0;
            let middle = asks.iter().find(|(_, gpus)| {
                seen += **gpus;
                seen >= half
            });
            middle.map(|(ask, _)| *ask).unwrap_or_default()
        })
    }

    /// The offers of a GPU model whose price follows demand; `None` if there are none with GPUs.
    #[must_use]
    pub fn moving_load(&self, model: GpuModel) -> Option<MovingLoad> {
        let moving = self.moving.get(usize::from(model.tag()))?;
        Some(MovingLoad {
            capacity_milli: moving.capacity_milli,
            used_milli: moving.capacity_milli.saturating_sub(moving.free_milli),
            floor: moving.asks.first()?,
        })
    }

    /// Enters an offer, or what became of it, with its machine as it stands in `stock`.
    pub fn set(&mut self, standing: Standing, stock: &Stock) {
        let entry = Arc::new(Self::entry(standing, stock));
        let offer = entry.standing.offer;
        let old = self.entries.insert(offer, Arc::clone(&entry));
        if let Some(old) = old {
            // Most changes are of a machine or a slot: the sums stay.
            if old.shelf == entry.shelf && old.tariff == entry.tariff && same_asks(&old, &entry) {
                let rack = self.shelves.entry_or(&entry.shelf, Rack::default);
                let lost = rack.take_out(&self.seed, &old);
                let gained = rack.put_in(&self.seed, &entry);
                self.memory.change(&entry.shelf, lost, gained);
                if entry.counts_as_moving() {
                    let moving = &mut self.moving[entry.model()];
                    moving.free_milli -= u64::from(old.free_milli);
                    moving.free_milli += u64::from(entry.free_milli);
                }
                return;
            }
            self.forget(&old);
        }
        let owner = self.owners.entry_or_default(entry.standing.provider);
        owner.insert(offer);
        let rack = self.shelves.entry_or(&entry.shelf, Rack::default);
        rack.count(&entry, true);
        let gained = rack.put_in(&self.seed, &entry);
        self.memory.change(&entry.shelf, None, gained);
        self.sum(&entry, true);
    }

    /// Takes an offer out; nothing happens if it is not in the book.
    pub fn remove(&mut self, offer: &OfferId) {
        if let Some(old) = self.entries.remove(offer) {
            self.forget(&old);
        }
    }

    fn forget(&mut self, old: &Entry) {
        let owner = old.standing.provider;
        let left = self.owners.entry_or_default(owner);
        left.remove(&old.standing.offer);
        if left.is_empty() {
            self.owners.remove(&owner);
        }
        if let Some(rack) = self.shelves.get_mut(&old.shelf) {
            rack.count(old, false);
            let lost = rack.take_out(&self.seed, old);
            if rack.shelf.is_empty() {
                self.shelves.remove(&old.shelf);
            }
            self.memory.change(&old.shelf, lost, None);
        }
        self.sum(old, false);
    }

    /// Counts an offer in the sums of its GPU model, or takes it out of them.
    fn sum(&mut self, entry: &Entry, is_new: bool) {
        let machine = &entry.standing.terms.machine;
        if machine.gpu_count == 0 {
            return;
        }
        let ask = entry.standing.terms.price_per_gpu_second;
        let asks = Arc::make_mut(&mut self.asks[entry.model()]);
        let gpus = asks.entry_or(&ask, || 0);
        let count = u64::from(machine.gpu_count);
        *gpus = match is_new {
            true => *gpus + count,
            false => *gpus - count,
        };
        if *gpus == 0 {
            asks.remove(&ask);
        }
        if !entry.counts_as_moving() {
            return;
        }
        let moving = &mut self.moving[entry.model()];
        let (capacity, free) = (count * 1_000, u64::from(entry.free_milli));
        Arc::make_mut(&mut moving.asks).count(ask, is_new);
        if is_new {
            moving.capacity_milli += capacity;
            moving.free_milli += free;
        } else {
            moving.capacity_milli -= capacity;
            moving.free_milli -= free;
        }
    }

    fn entry(standing: Standing, stock: &Stock) -> Entry {
        let spec = node_spec(&standing.terms.machine);
        let node = stock.node(&standing.offer);
        let shape = node.map(|node| {
            // What is booked for later may be in the way: such a machine is looked at itself.
            let is_booked = stock.bookings(&standing.offer).next().is_some();
            (!is_booked).then(|| Shape {
                // Its number changes when other machines come and go; the shelf stands for it.
                kind: 0,
                ..Shape::of(stock.cluster(), node)
            })
        });
        let place = shape.filter(|_| standing.is_open());
        let place = place.map(|shape| Place { shape });
        let free = node.map(|node| stock.cluster().free(node));
        let gpu_milli = free.into_iter().flat_map(|free| free.gpu_milli);
        Entry {
            tariff: Tariff::of(&standing),
            shelf: spec.gpu,
            place,
            free_milli: gpu_milli.map(u32::from).sum(),
            cpu_milli: free.map_or(0, |free| free.cpu_milli),
            standing,
        }
    }
}

impl Entry {
    fn model(&self) -> usize {
        usize::from(self.standing.terms.machine.gpu.tag())
    }

    fn counts_as_moving(&self) -> bool {
        let terms = &self.standing.terms;
        terms.pricing == Pricing::Dynamic && terms.machine.gpu_count > 0
    }
}

/// Whether two versions of an offer count the same in the sums of their model, what is free apart, and on their shelf.
fn same_asks(old: &Entry, new: &Entry) -> bool {
    let (old, new) = (&old.standing, &new.standing);
    let (old_machine, new_machine) = (&old.terms.machine, &new.terms.machine);
    old.provider == new.provider
        && old_machine.gpu_count == new_machine.gpu_count
        && old_machine.memory_mib == new_machine.memory_mib
        && old_machine.disk_gib == new_machine.disk_gib
}
