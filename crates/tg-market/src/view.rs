//! The machines behind standing offers, and what leases hold of them: derived from the ledger's state.
//!
//! A [`Stock`] is kept up to date as leases come and go, and one built anew from the same offers and leases is equal to
//! it. Undoing unfinalised blocks needs nothing: each version of the ledger's state shares or owns its own stock. A hold
//! may begin later than now (a booking); whoever wants room meanwhile must be gone before it begins, or leave enough.

mod census;
mod machines;

use std::collections::BTreeMap;
use std::sync::Arc;

use tg_types::{
    Amount, Decode, DecodeError, DurationMs, Encode, GpuLink, GpuModel, JobClass, JobNeeds,
    LeaseId, Machine, OfferId, OfferTerms, Reader, SharingMode, TimestampMs, Writer,
};

use crate::book::shards::{Shards, Sorted};
use crate::cluster::{
    AllocateError, Allocation, Cluster, Gpu, Interconnect, Isolation, ModelSet, Needs, NodeIndex,
    NodeSpec, Request, RequestError, Sharing,
};
use crate::mig::{MigInstance, MigModel};
use crate::packing::burden::{MILLI_COST, UsableAnchor};
use crate::packing::table::PricedTables;
use crate::packing::{Burden, Shape, WorkloadProfile};
use crate::throughput::{Correction, GpuClass, WorkKind, duration_on};

use census::Census;

/// What one lease holds of the machine of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The lease.
    pub lease: LeaseId,
    /// The offer.
    pub offer: OfferId,
    /// The GPUs, a bit for each.
    pub devices: u8,
    /// The hardware partition of the one GPU, where fractions are partitions.
    pub partition: Option<MigInstance>,
    /// What it takes of each, and of the machine.
    pub request: Request,
    /// From when on.
    pub from: TimestampMs,
    /// Until when at the latest.
    pub until: TimestampMs,
}

/// Why a hold was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// The offer is not in the stock.
    #[error("the stock has no offer {0}")]
    UnknownOffer(OfferId),
    /// The lease holds something already.
    #[error("lease {0} holds something already")]
    Held(LeaseId),
    /// The machine has too little left.
    #[error("the machine has too little left")]
    Full(#[source] AllocateError),
}

/// Where a request has room on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The GPUs, a bit for each.
    pub devices: u8,
    /// The hardware partition of the one GPU, where fractions are partitions.
    pub partition: Option<MigInstance>,
    /// What it takes there from the work to come, in units of [`MILLI_COST`] for a thousandth of a GPU.
    pub burden: i64,
    /// How the machine looks now, of kind 0.
    pub look: Shape,
}

/// What runs on one machine: until when at the latest.
type Running = Sorted<LeaseId, (Allocation, TimestampMs)>;

/// The machines of all offers with what is held of them.
///
/// Two are equal if they hold the same, whatever numbers the machines have: a machine keeps its number while others come
/// and go, and one built anew numbers them in the order of offers. Nothing that is decided depends on the numbers.
#[derive(Debug, Clone)]
pub struct Stock {
    cluster: Cluster,
    offers: Arc<Vec<OfferId>>,
    nodes: Shards<OfferId, NodeIndex>,
    census: Census,
    running: Shards<OfferId, Arc<Running>>,
    /// The machine of each lease that runs.
    places: Shards<LeaseId, NodeIndex>,
    booked: BTreeMap<OfferId, BTreeMap<LeaseId, Hold>>,
    /// On whose machine each lease booked something.
    bookings: BTreeMap<LeaseId, OfferId>,
    burden: Burden,
}

impl Default for Stock {
    fn default() -> Self {
        Self::new(std::iter::empty(), &WorkloadProfile::new())
    }
}

impl Stock {
    /// Empty machines, one for each offer, where work like `work` is expected beside what the machines themselves let
    /// expect; the order of `offers` does not matter.
    #[must_use]
    pub fn new<'a>(
        offers: impl Iterator<Item = (OfferId, &'a Machine)>,
        work: &WorkloadProfile,
    ) -> Self {
        let machines: BTreeMap<OfferId, &Machine> = offers.collect();
        let mut nodes = Shards::default();
        for (offer, node) in machines.keys().zip((0..).map(NodeIndex)) {
            nodes.insert(*offer, node);
        }
        let specs: Vec<NodeSpec> = machines.values().map(|it| node_spec(it)).collect();
        let census = Census::of(&specs);
        let cluster = Cluster::new(specs);
        Self {
            burden: census.burden(&cluster, work),
            census,
            cluster,
            offers: Arc::new(machines.into_keys().collect()),
            nodes,
            running: Shards::default(),
            places: Shards::default(),
            booked: BTreeMap::new(),
            bookings: BTreeMap::new(),
        }
    }

    /// Expects work like `work` from now on.
    pub fn expect(&mut self, work: &WorkloadProfile) {
        self.burden = self.census.burden(&self.cluster, work);
    }

    /// What a placement takes from the work to come, in money, as the machines stand; the GPU seconds of each model cost
    /// the middle one of what `terms` ask for them.
    #[must_use]
    pub fn packing_prices<'a>(&self, terms: impl Iterator<Item = &'a OfferTerms>) -> PackingPrices {
        self.packing_prices_at(middle_asks(terms))
    }

    /// As [`Self::packing_prices`], with what a GPU second of each model costs.
    #[must_use]
    pub fn packing_prices_at(&self, seconds: [Amount; GpuModel::ALL.len()]) -> PackingPrices {
        PackingPrices {
            tables: Arc::new(self.burden.priced()),
            seconds,
        }
    }

    /// What prices are set from that are set now.
    #[must_use]
    pub fn anchor(&self, seconds: [Amount; GpuModel::ALL.len()]) -> PriceAnchor {
        PriceAnchor {
            usable: self.burden.anchor(),
            seconds,
        }
    }

    /// Whether the prices set from `anchor` stand: the same work is expected, and of no kind of it half of what could be
    /// used is lost, or half as much come, since they were set.
    #[must_use]
    pub fn stands(&self, anchor: &PriceAnchor) -> bool {
        self.burden.stands(&anchor.usable)
    }

    /// The prices that were set from `anchor`; `None` if another kind of work is expected now.
    #[must_use]
    pub fn prices_from(&self, anchor: &PriceAnchor) -> Option<PackingPrices> {
        Some(PackingPrices {
            tables: Arc::new(self.burden.priced_from(&anchor.usable)?),
            seconds: anchor.seconds,
        })
    }

    /// The machines and what is free on them now.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The machine of an offer.
    #[must_use]
    pub fn node(&self, offer: &OfferId) -> Option<NodeIndex> {
        self.nodes.get(offer).copied()
    }

    /// The offer of a machine.
    #[must_use]
    pub fn offer(&self, node: NodeIndex) -> Option<OfferId> {
        self.offers.get(node.0 as usize).copied()
    }

    /// What runs now, with the latest end.
    pub fn running(&self) -> impl Iterator<Item = (LeaseId, &Allocation, TimestampMs)> {
        self.running
            .values()
            .flat_map(|it| it.iter())
            .map(|(lease, (allocation, until))| (*lease, allocation, *until))
    }

    /// What runs on one machine.
    fn running_on(
        &self,
        node: NodeIndex,
    ) -> impl Iterator<Item = (&LeaseId, &Allocation, TimestampMs)> {
        let offer = self.offers.get(node.0 as usize);
        let running = offer.and_then(|offer| self.running.get(offer));
        let running = running.into_iter().flat_map(|it| it.iter());
        running.map(|(lease, (allocation, until))| (lease, allocation, *until))
    }

    /// The leases that hold something of the machine of `offer` now, or booked it for later.
    pub fn holders(&self, offer: &OfferId) -> impl Iterator<Item = LeaseId> {
        let node = self.node(offer).into_iter();
        let running = node.flat_map(|node| self.running_on(node));
        let booked = self.bookings(offer).map(|hold| hold.lease);
        running.map(|(lease, _, _)| *lease).chain(booked)
    }

    /// What is booked for later on the machine of `offer`.
    pub fn bookings(&self, offer: &OfferId) -> impl Iterator<Item = &Hold> {
        let booked = self.booked.get(offer).into_iter();
        booked.flat_map(BTreeMap::values)
    }

    /// Takes what `hold` says: at once if it began at `now`, else as a booking.
    ///
    /// # Errors
    /// If the offer is unknown, the lease holds something, or the machine has too little left; then nothing is taken.
    pub fn take(&mut self, hold: &Hold, now: TimestampMs) -> Result<(), HoldError> {
        let node = self
            .node(&hold.offer)
            .ok_or(HoldError::UnknownOffer(hold.offer))?;
        if self.places.get(&hold.lease).is_some() || self.bookings.contains_key(&hold.lease) {
            return Err(HoldError::Held(hold.lease));
        }
        if hold.from > now {
            self.book(hold);
            return Ok(());
        }
        let before = Shape::of(&self.cluster, node);
        let allocation = allocate(&mut self.cluster, node, hold).map_err(HoldError::Full)?;
        self.burden.moved(&before, &self.cluster, node);
        self.places.insert(hold.lease, node);
        let running = self.running.entry_or_default(hold.offer);
        Arc::make_mut(running).insert(hold.lease, (allocation, hold.until));
        Ok(())
    }

    fn book(&mut self, hold: &Hold) {
        let booked = self.booked.entry(hold.offer).or_default();
        booked.insert(hold.lease, *hold);
        self.bookings.insert(hold.lease, hold.offer);
    }

    /// Takes what was booked, as [`Self::take`]. If its time has come and what should have ended is still there, it waits
    /// as a booking, and so does what was booked behind it on this machine.
    ///
    /// # Errors
    /// If the offer is unknown, or the lease holds something; then nothing is taken.
    pub fn take_in_turn(&mut self, hold: &Hold, now: TimestampMs) -> Result<(), HoldError> {
        let waits = hold.from <= now && self.is_awaited(&hold.offer, now);
        if !waits {
            match self.take(hold, now) {
                Err(HoldError::Full(_)) => {}
                done => return done,
            }
        }
        self.book(hold);
        Ok(())
    }

    /// Whether a booking whose time has come waits for the machine of `offer`.
    fn is_awaited(&self, offer: &OfferId, now: TimestampMs) -> bool {
        self.bookings(offer).any(|hold| hold.from <= now)
    }

    /// Gives back what a lease holds or booked; nothing happens if it holds nothing.
    pub fn give_back(&mut self, lease: &LeaseId) {
        if let Some(node) = self.places.remove(lease) {
            let Some(offer) = self.offer(node) else {
                return;
            };
            let running = Arc::make_mut(self.running.entry_or_default(offer));
            let held = running.remove(lease);
            if running.is_empty() {
                self.running.remove(&offer);
            }
            let Some((allocation, _)) = held else { return };
            let before = Shape::of(&self.cluster, node);
            self.cluster.release(&allocation);
            self.burden.moved(&before, &self.cluster, node);
            return;
        }
        let Some(offer) = self.bookings.remove(lease) else {
            return;
        };
        if let Some(holds) = self.booked.get_mut(&offer) {
            holds.remove(lease);
            if holds.is_empty() {
                self.booked.remove(&offer);
            }
        }
    }

    /// Bookings whose time has come.
    pub fn due(&self, now: TimestampMs) -> impl Iterator<Item = &Hold> {
        let holds = self.booked.values().flat_map(BTreeMap::values);
        holds.filter(move |hold| hold.from <= now)
    }

    /// Bookings whose time has come begin, on each machine in the order of their starts. While leases end in time,
    /// [`Self::room`] has seen to it that they fit; one that does not, because after an outage what should have ended has
    /// some more time, waits, and so do those behind it on its machine.
    ///
    /// # Errors
    /// [`HoldError::UnknownOffer`] or [`HoldError::Held`] if the stock contradicts itself.
    pub fn advance(&mut self, now: TimestampMs) -> Result<(), HoldError> {
        let mut due: Vec<Hold> = self.due(now).copied().collect();
        due.sort_unstable_by_key(|hold| (hold.offer, hold.from, hold.lease));
        for holds in due.chunk_by(|left, right| left.offer == right.offer) {
            for hold in holds {
                self.give_back(&hold.lease);
            }
            for hold in holds {
                self.take_in_turn(hold, now)?;
            }
        }
        Ok(())
    }

    /// Where the machine of `offer` could serve `request` from `from` until `until`; `None` if there is no room.
    /// Everything that overlaps the time counts in full, and so does what should have ended by now. There is no room where a
    /// booking waits whose time has come. What the machine never has is not looked at. Of the GPUs that could, those where
    /// least is taken from the work to come at `prices`.
    #[must_use]
    pub fn room(
        &self,
        offer: &OfferId,
        request: &Request,
        now: TimestampMs,
        (from, until): (TimestampMs, TimestampMs),
        prices: Option<&PackingPrices>,
    ) -> Option<Room> {
        let node = self.node(offer)?;
        let bookings = self.booked.get(offer);
        if from <= now && bookings.is_none_or(|it| it.values().all(|hold| hold.from > until)) {
            return room_on(
                &self.cluster,
                node,
                self.cluster.kind(node),
                request,
                prices,
            );
        }
        self.room_without(offer, request, now, (from, until), &[], prices)
    }

    /// As [`Self::room`], if the leases `gone` held nothing.
    #[must_use]
    pub fn room_without(
        &self,
        offer: &OfferId,
        request: &Request,
        now: TimestampMs,
        (from, until): (TimestampMs, TimestampMs),
        gone: &[LeaseId],
        prices: Option<&PackingPrices>,
    ) -> Option<Room> {
        let node = self.node(offer)?;
        if self.is_awaited(offer, now) {
            return None;
        }
        // Few machines are looked at like this: a copy of the one machine decides.
        let mut alone = Cluster::new(vec![*self.cluster.spec(node)]);
        let only = NodeIndex(0);
        for (lease, allocation, ends) in self.running_on(node) {
            let is_there = ends >= from || ends < now;
            if is_there && !gone.contains(lease) {
                alone
                    .allocate_at(
                        only,
                        device_mask(allocation),
                        allocation.request(),
                        allocation.mig(),
                    )
                    .ok()?;
            }
        }
        for hold in self.bookings(offer) {
            if hold.from <= until && hold.until >= from && !gone.contains(&hold.lease) {
                alone
                    .allocate_at(only, hold.devices, &hold.request, hold.partition)
                    .ok()?;
            }
        }
        let room = room_on(&alone, only, self.cluster.kind(node), request, prices)?;
        Some(Room {
            // As it is, whoever will be gone.
            look: look_of(&self.cluster, node),
            ..room
        })
    }

    /// From when on the machine of `offer` has room for `request` if nobody else comes: `now`, or a millisecond after what
    /// runs there must have ended, with the room. `None` if it never has, if something is booked there, or if something that
    /// should have ended by now is in the way.
    #[must_use]
    pub fn earliest_room(
        &self,
        offer: &OfferId,
        request: &Request,
        now: TimestampMs,
    ) -> Option<(TimestampMs, Room)> {
        if self.bookings(offer).next().is_some() {
            return None;
        }
        let end = TimestampMs::new(u64::MAX);
        let room = |from| self.room_without(offer, request, now, (from, end), &[], None);
        let ends = self.ends(offer).into_iter().filter(|it| *it >= now);
        let later = ends.map(|end| TimestampMs::new(end.get().saturating_add(1)));
        let starts: Vec<TimestampMs> = std::iter::once(now).chain(later).collect();
        // The later, the less is in the way.
        let first = starts.partition_point(|start| room(*start).is_none());
        let start = *starts.get(first)?;
        Some((start, room(start)?))
    }

    /// What `request` takes from the work to come on the GPUs `devices` of the machine of `offer`; `None` if it does not
    /// fit there.
    #[must_use]
    pub fn burden_of(
        &self,
        offer: &OfferId,
        request: &Request,
        devices: u8,
        prices: &PackingPrices,
    ) -> Option<i64> {
        let node = self.node(offer)?;
        let shape = Shape::of(&self.cluster, node);
        let slot = match request.is_fraction() {
            true => self
                .cluster
                .slot(node, devices.trailing_zeros().min(7) as usize),
            false => request.gpu_milli(),
        };
        let fits = shape.choices(request).any(|choice| choice == slot) || request.gpus() == 0;
        let after = shape.after(request, slot);
        fits.then(|| (prices.tables.value(&shape) - prices.tables.value(&after)).max(0))
    }

    /// GPU compute of the machine of `offer` that is taken at any time from `from` until `until`, in thousandths.
    #[must_use]
    pub fn gpu_milli_taken(&self, offer: &OfferId, from: TimestampMs, until: TimestampMs) -> u64 {
        let Some(node) = self.node(offer) else {
            return 0;
        };
        let running = self
            .running_on(node)
            .filter(|(_, _, ends)| *ends >= from)
            .map(|(_, allocation, _)| allocation.request());
        let booked = self
            .bookings(offer)
            .filter(|hold| hold.from <= until && hold.until >= from)
            .map(|hold| &hold.request);
        running
            .chain(booked)
            .map(|request| u64::from(request.gpu_milli_total()))
            .sum()
    }

    /// When something that is held of the machine of `offer` is given back at the latest, rising.
    #[must_use]
    pub fn ends(&self, offer: &OfferId) -> Vec<TimestampMs> {
        let running = self.node(offer).into_iter();
        let mut ends: Vec<TimestampMs> = running
            .flat_map(|node| self.running_on(node))
            .map(|(_, _, until)| until)
            .chain(self.bookings(offer).map(|hold| hold.until))
            .collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

/// Takes what `hold` says of the machine `node`.
fn allocate(
    cluster: &mut Cluster,
    node: NodeIndex,
    hold: &Hold,
) -> Result<Allocation, AllocateError> {
    // Where fractions are partitions, which one is part of the hold: nothing else would put it there again.
    let demand = cluster.spec(node).gpu.demand(&hold.request);
    let is_cut = demand.is_some_and(|it| it.profile.is_some());
    if is_cut != hold.partition.is_some() {
        return Err(AllocateError::Devices);
    }
    cluster.allocate_at(node, hold.devices, &hold.request, hold.partition)
}

/// Whether a machine has room for all of `holds` at one time.
#[must_use]
pub fn has_room_for(machine: &Machine, mut holds: impl Iterator<Item = Hold>) -> bool {
    let mut alone = Cluster::new(vec![node_spec(machine)]);
    holds.all(|hold| allocate(&mut alone, NodeIndex(0), &hold).is_ok())
}

/// How a machine looks, apart from its kind.
fn look_of(cluster: &Cluster, node: NodeIndex) -> Shape {
    Shape {
        kind: 0,
        ..Shape::of(cluster, node)
    }
}

/// The room on one machine, which is of kind `kind` to `prices`.
fn room_on(
    cluster: &Cluster,
    node: NodeIndex,
    kind: usize,
    request: &Request,
    prices: Option<&PackingPrices>,
) -> Option<Room> {
    if !cluster.free(node).fits_host(request) {
        return None;
    }
    let look = look_of(cluster, node);
    let found = |devices: u8, burden: i64| Room {
        devices,
        partition: cluster.partition(node, devices, request),
        burden,
        look,
    };
    let Some(prices) = prices else {
        let devices = cluster.devices_for(node, request, None)?;
        return Some(found(devices, 0));
    };
    let shape = Shape {
        kind: kind as u16,
        ..look
    };
    let before = prices.tables.value(&shape);
    let choices = shape.choices(request).filter_map(|slot| {
        let preferred = request.is_fraction().then_some(slot);
        let devices = cluster.devices_for(node, request, preferred)?;
        let burden = before - prices.tables.value(&shape.after(request, slot));
        Some((burden, slot, devices))
    });
    let (burden, _, devices) = choices.min()?;
    Some(found(devices, burden.max(0)))
}

/// What the prices of placements were set from: a part of the ledger's state, so that prices may stand for many blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PriceAnchor {
    usable: UsableAnchor,
    seconds: [Amount; GpuModel::ALL.len()],
}

impl PriceAnchor {
    /// The same, with what a GPU second of each model costs now.
    #[must_use]
    pub fn with_seconds(self, seconds: [Amount; GpuModel::ALL.len()]) -> Self {
        Self { seconds, ..self }
    }
}

impl Encode for PriceAnchor {
    fn encode(&self, writer: &mut Writer) {
        let Self { usable, seconds } = self;
        usable.encode(writer);
        seconds.iter().for_each(|it| it.encode(writer));
    }
}

impl Decode for PriceAnchor {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut anchor = Self {
            usable: UsableAnchor::decode(reader)?,
            ..Self::default()
        };
        for second in &mut anchor.seconds {
            *second = Amount::decode(reader)?;
        }
        Ok(anchor)
    }
}

/// What a placement takes from the work to come, in money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackingPrices {
    tables: Arc<PricedTables>,
    seconds: [Amount; GpuModel::ALL.len()],
}

impl PackingPrices {
    /// For each way to value what machines of `kinds` have, the first kind of `all` that is valued so.
    #[must_use]
    pub fn distinct(
        &self,
        all: impl Iterator<Item = usize>,
        kinds: impl Iterator<Item = usize>,
    ) -> Vec<u16> {
        let mut found: Vec<usize> = Vec::new();
        let is_like = |one: usize, other: usize| {
            let of = |kind| self.tables.table_of(kind);
            of(one) == of(other)
        };
        for kind in kinds {
            if !found.iter().any(|it| is_like(*it, kind)) {
                found.push(kind);
            }
        }
        for kind in all {
            let like = found.iter_mut().find(|it| is_like(**it, kind));
            like.into_iter().for_each(|it| *it = kind.min(*it));
        }
        found.into_iter().map(|it| it as u16).collect()
    }

    /// The same tables, with what a GPU second of each model costs as `anchor` has it.
    #[must_use]
    pub fn with_seconds_of(self, anchor: &PriceAnchor) -> Self {
        Self {
            seconds: anchor.seconds,
            ..self
        }
    }

    /// The value of what machines have, under these prices.
    #[must_use]
    pub const fn tables(&self) -> &Arc<PricedTables> {
        &self.tables
    }

    /// What `request` takes at least from the work to come on a machine of `shape`; `None` if its GPUs have no place.
    #[must_use]
    pub fn least_burden(&self, shape: &Shape, request: &Request) -> Option<i64> {
        // Most machines of a full market have no place: what they are worth is not worked out.
        let left = self.most_left(shape, request)?;
        Some((self.tables.value(shape) - left).max(0))
    }

    /// What a machine of `shape` is worth to the work to come at most when `request` took its place; `None` if its GPUs
    /// have no place.
    #[must_use]
    pub fn most_left(&self, shape: &Shape, request: &Request) -> Option<i64> {
        let left = shape.choices(request);
        left.map(|slot| self.tables.value(&shape.after(request, slot)))
            .max()
    }

    /// What it costs others that `burden` is taken from them for `time` on a machine with GPUs of `model`: the usable
    /// compute that is lost to them, each kind of it the dearer the less there is, at the usual price of these GPUs.
    #[must_use]
    pub fn cost(&self, model: GpuModel, burden: i64, time: DurationMs) -> Amount {
        /// Parts of a thousandth of a GPU that are kept.
        const PARTS: i64 = 1 << 10;
        let parts = (burden.max(0) / (MILLI_COST / PARTS)).unsigned_abs();
        // Thousandths of a GPU times milliseconds are millionths of a GPU second.
        let millionths = parts.saturating_mul(time.get());
        let second = self.seconds.get(usize::from(model.tag())).copied();
        second
            .unwrap_or_default()
            .checked_mul_div_ceil(millionths, 1_000_000 * PARTS.unsigned_abs())
            .unwrap_or(Amount::MAX)
    }
}

/// For each GPU model the ask of the GPU in the middle, when all are in the order of their asks: nobody alone moves it.
fn middle_asks<'a>(terms: impl Iterator<Item = &'a OfferTerms>) -> [Amount; GpuModel::ALL.len()] {
    let mut asks: [Vec<(Amount, u64)>; GpuModel::ALL.len()] = std::array::from_fn(|_| Vec::new());
    for terms in terms.filter(|it| it.machine.gpu_count > 0) {
        let model = usize::from(terms.machine.gpu.tag());
        asks[model].push((
            terms.price_per_gpu_second,
            u64::from(terms.machine.gpu_count),
        ));
    }
    asks.map(|mut asks| {
        asks.sort_unstable();
        let half = asks.iter().map(|(_, gpus)| gpus).sum::<u64>().div_ceil(2);
        let mut seen = 0;
        let middle = asks.iter().find(|(_, gpus)| {
            seen += gpus;
            seen >= half
        });
        middle.map(|(ask, _)| *ask).unwrap_or_default()
    })
}

fn device_mask(allocation: &Allocation) -> u8 {
    allocation.devices().fold(0, |mask, it| mask | 1 << it)
}

/// What the machine of an offer is to the cluster. GPUs that may be partitioned are: a fraction of one is a partition,
/// whatever isolation it asks for.
#[must_use]
pub fn node_spec(machine: &Machine) -> NodeSpec {
    let mig = mig_model(machine.gpu).filter(|_| machine.sharing.contains(SharingMode::Mig));
    let sharing = if let Some(model) = mig {
        Sharing::Mig(model)
    } else if machine.sharing.contains(SharingMode::Mps) {
        Sharing::Mps
    } else if machine.sharing.contains(SharingMode::TimeSlice) {
        Sharing::TimeSlice
    } else {
        Sharing::WholeOnly
    };
    NodeSpec {
        cpu_milli: machine.cpu_milli,
        memory_mib: machine.memory_mib,
        disk_gib: machine.disk_gib,
        gpu_count: machine.gpu_count.min(tg_types::resources::GPUS_MAX),
        gpu: Gpu {
            model: machine.gpu.tag(),
            memory_mib: machine.gpu_memory_mib,
            capability: machine.capability,
            tensor_cores: machine.tensor_cores,
            interconnect: interconnect(machine.link),
            sharing,
        },
        region: u16::from(machine.region),
        coordinate: machine.coordinate_us,
    }
}

const fn interconnect(link: GpuLink) -> Interconnect {
    match link {
        GpuLink::Pcie => Interconnect::Pcie,
        GpuLink::Nvlink => Interconnect::Nvlink,
        GpuLink::Nvswitch => Interconnect::Nvswitch,
    }
}

/// What a job asks of one machine. Regions are several, so they are no part of it.
///
/// # Errors
/// If the number of GPUs or the share is out of range.
pub fn request_of(needs: &JobNeeds) -> Result<Request, RequestError> {
    let request = Request::new(
        needs.cpu_milli,
        needs.memory_mib,
        needs.gpus,
        needs.gpu_milli,
    )?;
    let models = GpuModel::ALL
        .iter()
        .filter(|model| needs.models.contains(**model))
        .fold(ModelSet::NONE, |set, model| set.with(model.tag()));
    Ok(request
        .with_disk(needs.disk_gib)
        .with_gpu_memory(needs.gpu_memory_mib)
        .with_needs(Needs {
            models,
            capability_min: needs.capability_min,
            tensor_cores: needs.tensor_cores,
            interconnect_min: interconnect(needs.link_min),
            region: None,
            isolation: match needs.isolation {
                SharingMode::TimeSlice => Isolation::TimeSlice,
                SharingMode::Mps => Isolation::Mps,
                SharingMode::Mig | SharingMode::Whole => Isolation::Hardware,
            },
        }))
}

/// The partitions of a GPU model, if it has any.
#[must_use]
pub const fn mig_model(model: GpuModel) -> Option<MigModel> {
    match model {
        GpuModel::A100M40 => Some(MigModel::A100M40),
        GpuModel::A100M80 => Some(MigModel::A100M80),
        GpuModel::H100 => Some(MigModel::H100M80),
        GpuModel::H200 => Some(MigModel::H200M141),
        GpuModel::Other
        | GpuModel::T4
        | GpuModel::P100
        | GpuModel::V100
        | GpuModel::A10
        | GpuModel::L4
        | GpuModel::Rtx3090
        | GpuModel::Rtx4090 => None,
    }
}

/// Thousandths of a GPU, all GPUs together, that a job with `needs` takes of `machine`: what it asks for, or what the
/// partition has that gives as much.
#[must_use]
pub fn held_milli(machine: &Machine, needs: &JobNeeds) -> u32 {
    let asked = needs.gpu_milli_total();
    let partition = request_of(needs)
        .ok()
        .filter(Request::is_fraction)
        .and_then(|request| node_spec(machine).gpu.demand(&request))
        .filter(|demand| demand.profile.is_some());
    partition.map_or(asked, |demand| u32::from(demand.milli))
}

/// The row of the throughput table for a GPU model.
#[must_use]
pub fn gpu_class(model: GpuModel) -> Option<GpuClass> {
    let row = usize::from(model.tag()).checked_sub(1)?;
    GpuClass::ALL.get(row).copied()
}

/// What limits work of a class.
#[must_use]
pub const fn work_kind(class: JobClass) -> WorkKind {
    match class {
        JobClass::Inference | JobClass::Batch => WorkKind::IntegerInference,
        JobClass::Training => WorkKind::Training,
    }
}

/// How long the GPU time that `needs` states takes on `machine`; a model that the table does not know counts as a T4.
#[must_use]
pub fn gpu_time(machine: &Machine, needs: &JobNeeds, correction: &Correction) -> DurationMs {
    let milli = held_milli(machine, needs);
    if milli == 0 || needs.reference == DurationMs::ZERO {
        return DurationMs::ZERO;
    }
    let whole = match gpu_class(machine.gpu) {
        Some(gpu) => duration_on(gpu, work_kind(needs.class), needs.reference, correction),
        None => needs.reference,
    };
    let shared = (u128::from(whole.get()) * 1_000).div_ceil(u128::from(milli));
    DurationMs::new(u64::try_from(shared).unwrap_or(u64::MAX))
}
