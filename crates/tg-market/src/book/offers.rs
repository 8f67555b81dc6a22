//! The book: every offer with its place in a bucket, and the sums over all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tg_types::{Address, Amount, GpuModel, OfferId};

use super::bucket::{BookEntry, BoundedBucket, BucketKey, CostTerms, Counts, Place};
use super::places::Memory;
use super::runs::Runs;
use super::shards::Shards;
use super::standing::Standing;
use crate::packing::Shape;
use crate::view::{Stock, node_spec};

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
    entries: Shards<OfferId, Arc<BookEntry>>,
    owners: Shards<Address, BTreeSet<OfferId>>,
    pub(super) buckets: Runs<BucketKey, BoundedBucket>,
    asks: [Arc<Asks>; GpuModel::ALL.len()],
    moving: [Moving; GpuModel::ALL.len()],
    pub(super) memory: Memory,
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
        self.buckets.change_each(
            |bounded| bounded.bucket.has_equals(),
            |bounded| Arc::make_mut(&mut bounded.bucket).turn(&seed),
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
        self.buckets
            .values()
            .any(|bounded| !bounded.bucket.shape_classes.is_empty())
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
            if old.bucket == entry.bucket
                && old.cost_terms == entry.cost_terms
                && same_asks(&old, &entry)
                && old.counts_as_moving() == entry.counts_as_moving()
            {
                let bounded = self.buckets.entry_or(&entry.bucket, BoundedBucket::default);
                let lost = bounded.take_out(&self.seed, &old);
                let gained = bounded.put_in(&self.seed, &entry);
                self.memory.change(&entry.bucket, lost, gained);
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
        let bounded = self.buckets.entry_or(&entry.bucket, BoundedBucket::default);
        bounded.count(&entry, true);
        let gained = bounded.put_in(&self.seed, &entry);
        self.memory.change(&entry.bucket, None, gained);
        self.sum(&entry, true);
    }

    /// Takes an offer out; nothing happens if it is not in the book.
    pub fn remove(&mut self, offer: &OfferId) {
        if let Some(old) = self.entries.remove(offer) {
            self.forget(&old);
        }
    }

    fn forget(&mut self, old: &BookEntry) {
        let owner = old.standing.provider;
        let left = self.owners.entry_or_default(owner);
        left.remove(&old.standing.offer);
        if left.is_empty() {
            self.owners.remove(&owner);
        }
        if let Some(bounded) = self.buckets.get_mut(&old.bucket) {
            bounded.count(old, false);
            let lost = bounded.take_out(&self.seed, old);
            if bounded.bucket.is_empty() {
                self.buckets.remove(&old.bucket);
            }
            self.memory.change(&old.bucket, lost, None);
        }
        self.sum(old, false);
    }

    /// Counts an offer in the sums of its GPU model, or takes it out of them.
    fn sum(&mut self, entry: &BookEntry, is_new: bool) {
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

    fn entry(standing: Standing, stock: &Stock) -> BookEntry {
        let spec = node_spec(&standing.terms.machine);
        let node = stock.node(&standing.offer);
        let shape = node.map(|node| {
            // What is booked for later may be in the way: such a machine is looked at itself.
            let is_booked = stock.bookings(&standing.offer).next().is_some();
            (!is_booked).then(|| Shape {
                // Its number changes when other machines come and go; the bucket stands for it.
                kind: 0,
                ..Shape::of(stock.cluster(), node)
            })
        });
        let place = shape.filter(|_| standing.is_open());
        let place = place.map(|shape| Place { shape });
        let free = node.map(|node| stock.cluster().free(node));
        let gpu_milli = free.into_iter().flat_map(|free| free.gpu_milli);
        BookEntry {
            cost_terms: CostTerms::of(&standing),
            bucket: spec.gpu,
            place,
            free_milli: gpu_milli.map(u32::from).sum(),
            cpu_milli: free.map_or(0, |free| free.cpu_milli),
            standing,
        }
    }
}

/// Whether two versions of an offer count the same in the sums of their model, what is free apart, and in their bucket.
fn same_asks(old: &BookEntry, new: &BookEntry) -> bool {
    let (old, new) = (&old.standing, &new.standing);
    let (old_machine, new_machine) = (&old.terms.machine, &new.terms.machine);
    old.provider == new.provider
        && old_machine.gpu_count == new_machine.gpu_count
        && old_machine.memory_mib == new_machine.memory_mib
        && old_machine.disk_gib == new_machine.disk_gib
}
