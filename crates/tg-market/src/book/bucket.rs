//! The machines of one kind: classes of machines that look alike, groups that cost the same, and the least that any of them asks.

use std::ops::Bound;
use std::sync::Arc;

use tg_types::{
    Amount, Digest, DurationMs, JobClass, Machine, ModeSet, OfferId, OfferTerms, Pricing, TierSet,
};

use super::runs::Runs;
use super::standing::{Mark, Standing};
use crate::cluster::Gpu;
use crate::demand::JobDemand;
use crate::packing::Shape;
use crate::placement::tie_key;

/// The kind of machine in a bucket. Machines of all regions are in one: they look alike, and cost what they ask.
pub(crate) type BucketKey = Gpu;

/// All of an offer that its cost for a job follows from, beside its machine. Ordered by the price of GPU time first,
/// prices that follow demand after fixed ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CostTerms {
    pub(crate) is_dynamic: bool,
    pub(crate) second: Amount,
    pub(crate) per_mmac: Amount,
    base: Amount,
    latency: DurationMs,
    speed: u64,
    memory: u64,
    modes: ModeSet,
    tiers: TierSet,
    region: u8,
    marks: [Mark; JobClass::ALL.len()],
}

impl CostTerms {
    /// What comes before all cost terms whose price follows demand, and after all others.
    pub(crate) fn first_dynamic() -> Self {
        Self {
            is_dynamic: true,
            ..Self::first()
        }
    }

    /// What comes before all cost terms.
    pub(crate) fn first() -> Self {
        Self {
            is_dynamic: false,
            second: Amount::ZERO,
            per_mmac: Amount::ZERO,
            base: Amount::ZERO,
            latency: DurationMs::ZERO,
            speed: 0,
            memory: 0,
            modes: ModeSet::EMPTY,
            tiers: TierSet::of(&[]),
            region: 0,
            marks: Default::default(),
        }
    }

    /// Its place among those for jobs without GPU time.
    fn lead(&self) -> (Amount, Amount, Self) {
        (self.per_mmac, self.base, self.clone())
    }

    /// [`OfferTerms::price`], where `mmacs` millions of multiply-accumulates have begun.
    pub(crate) fn price(&self, mmacs: u64) -> Option<Amount> {
        price_of(self.base, self.per_mmac, mmacs)
    }

    /// [`OfferTerms::duration`].
    pub(crate) fn duration(&self, macs: u64) -> DurationMs {
        duration_of(self.latency, self.speed, macs)
    }

    /// Whether the offer serves such a job, its price and its machine apart.
    pub(crate) fn serves(&self, demand: &JobDemand<'_>) -> bool {
        let needs = demand.needs;
        self.modes.contains(demand.mode)
            && self.tiers.contains(needs.tier)
            && needs.regions.contains(self.region)
            && demand.memory_bytes <= self.memory
            && !self.mark(needs.class).removed
    }

    /// What is known of the provider with a class of jobs.
    pub(crate) const fn mark(&self, class: JobClass) -> &Mark {
        &self.marks[class.tag() as usize]
    }

    pub(crate) fn of(standing: &Standing) -> Self {
        let OfferTerms {
            hardware: _,
            price_base,
            price_per_mmac,
            latency_base_ms,
            speed_mmac_per_s,
            memory_bytes,
            slots: _,
            collateral_per_lease: _,
            modes,
            machine,
            price_per_gpu_second,
            pricing,
        } = &standing.terms;
        Self {
            is_dynamic: *pricing == Pricing::Dynamic,
            second: *price_per_gpu_second,
            per_mmac: *price_per_mmac,
            base: *price_base,
            latency: *latency_base_ms,
            speed: *speed_mmac_per_s,
            memory: *memory_bytes,
            modes: *modes,
            tiers: machine.tiers,
            region: machine.region,
            marks: standing.marks,
        }
    }
}

/// [`OfferTerms::price`], where `mmacs` millions of multiply-accumulates have begun.
pub(crate) fn price_of(base: Amount, per_mmac: Amount, mmacs: u64) -> Option<Amount> {
    let work = per_mmac.get().checked_mul(u128::from(mmacs))?;
    base.checked_add(Amount::new(work))
}

/// [`OfferTerms::duration`].
fn duration_of(latency: DurationMs, speed: u64, macs: u64) -> DurationMs {
    if speed == 0 {
        return DurationMs::new(u64::MAX);
    }
    let work = match speed.checked_mul(1_000) {
        Some(per_ms) => macs.div_ceil(per_ms),
        None => u64::from(macs > 0),
    };
    latency.saturating_add(DurationMs::new(work))
}

/// Where an open offer lies in its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// How its machine looks; `None` if something is booked there for later.
    pub(crate) shape: Option<Shape>,
}

/// The turn of an offer among equals.
pub(crate) type Turn = (Digest, OfferId);

/// A standing offer where it lies in the book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BookEntry {
    pub(crate) standing: Standing,
    pub(crate) cost_terms: CostTerms,
    pub(super) bucket: BucketKey,
    /// Its shape class, if it is open.
    pub(super) place: Option<Place>,
    /// GPU compute of its machine that is free, in thousandths.
    pub(super) free_milli: u32,
    /// CPU of its machine that is free, in thousandths of a core.
    pub(super) cpu_milli: u32,
}

impl BookEntry {
    pub(super) fn model(&self) -> usize {
        usize::from(self.standing.terms.machine.gpu.tag())
    }

    /// Whether the offer counts for the moving price of its model: it follows demand, and its provider could take a job or has one.
    ///
    /// Stops: an offer that nobody can have, and which lowers the price of all others by what it asks, or as capacity that is free.
    pub(super) fn counts_as_moving(&self) -> bool {
        let Standing {
            terms,
            funds,
            offline,
            ..
        } = &self.standing;
        let serves = terms.collateral_per_lease <= *funds && !offline;
        let is_used = self.free_milli < u32::from(terms.machine.gpu_count) * 1_000;
        let counts = serves || is_used;
        terms.pricing == Pricing::Dynamic && terms.machine.gpu_count > 0 && counts
    }
}

/// The turn of an offer under a seed.
fn turn_of(seed: &[u8; 32], entry: &BookEntry) -> Turn {
    let offer = entry.standing.offer;
    (tie_key(seed, offer), offer)
}

/// Offers that cost the same, in their order among equals. Who is alone has no turn: another seed changes nothing there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Group {
    One(Arc<BookEntry>),
    Many(Runs<Turn, Arc<BookEntry>>),
}

impl Group {
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(entries) => entries.len(),
        }
    }

    const fn is_shared(&self) -> bool {
        matches!(self, Self::Many(_))
    }

    /// The offers in their order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<BookEntry>> {
        let (one, many) = match self {
            Self::One(entry) => (Some(entry), None),
            Self::Many(entries) => (None, Some(entries.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Adds an offer, or replaces what it was.
    fn put(&mut self, seed: &[u8; 32], entry: &Arc<BookEntry>) {
        let new = || (turn_of(seed, entry), Arc::clone(entry));
        match self {
            Self::One(old) if old.standing.offer == entry.standing.offer => {
                *old = Arc::clone(entry);
            }
            Self::One(old) => {
                let mut both = vec![(turn_of(seed, old), Arc::clone(old)), new()];
                both.sort_by_key(|(turn, _)| *turn);
                *self = Self::Many(Runs::of_sorted(both));
            }
            Self::Many(entries) => {
                let (turn, entry) = new();
                entries.insert(turn, entry);
            }
        }
    }

    /// Takes an offer out of several.
    fn take(&mut self, seed: &[u8; 32], entry: &BookEntry) {
        if let Self::Many(entries) = self {
            entries.remove(&turn_of(seed, entry));
            if let (1, Some((_, last))) = (entries.len(), entries.first()) {
                *self = Self::One(Arc::clone(last));
            }
        }
    }

    /// Another seed orders equals from now on.
    fn turn(&mut self, seed: &[u8; 32]) {
        if let Self::Many(entries) = self {
            let turned = entries
                .values()
                .map(|it| (turn_of(seed, it), Arc::clone(it)));
            let mut turned: Vec<_> = turned.collect();
            turned.sort_unstable_by_key(|(turn, _)| *turn);
            *entries = Runs::of_sorted(turned);
        }
    }
}

/// What decides whether an offer serves a job at all, in steps: offers that serve no such job are passed over together, however
/// cheap they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Service {
    /// How likely the provider is to fail, for each class of jobs.
    failure: [FailureLevel; JobClass::ALL.len()],
    modes: ModeSet,
    tiers: TierSet,
    region: u8,
    /// Bits of the memory for models, the RAM and the disk.
    memory: u32,
    ram: u32,
    disk: u32,
}

impl Service {
    fn of(entry: &BookEntry) -> Self {
        let (cost_terms, machine) = (&entry.cost_terms, &entry.standing.terms.machine);
        Self {
            failure: cost_terms.marks.map(|it| FailureLevel::of(it.failure_ppm)),
            modes: cost_terms.modes,
            tiers: cost_terms.tiers,
            region: cost_terms.region,
            memory: bits(cost_terms.memory),
            ram: bits(u64::from(machine.memory_mib)),
            disk: bits(u64::from(machine.disk_gib)),
        }
    }

    /// Whether some offer like this may serve the job.
    fn serves(&self, demand: &JobDemand<'_>) -> bool {
        let needs = demand.needs;
        self.modes.contains(demand.mode)
            && self.tiers.contains(needs.tier)
            && needs.regions.contains(self.region)
            && bits(demand.memory_bytes) <= self.memory
            && bits(u64::from(needs.memory_mib)) <= self.ram
            && bits(u64::from(needs.disk_gib)) <= self.disk
    }
}

/// A probability in 256 steps for each power of two, so that a bound of the cost with the least of a step is close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct FailureLevel(u16);

impl FailureLevel {
    /// Bits of a probability that are told apart beside its power of two.
    const BITS: u32 = 8;

    /// The level of a probability in millionths.
    const fn of(ppm: u32) -> Self {
        let shift = (u32::BITS - ppm.leading_zeros()).saturating_sub(Self::BITS + 1);
        Self((shift << Self::BITS) as u16 + (ppm >> shift) as u16)
    }

    /// The least probability of this level, in millionths.
    const fn least_ppm(self) -> u32 {
        let level = self.0 as u32;
        let shift = (level >> Self::BITS).saturating_sub(1);
        (level - (shift << Self::BITS)) << shift
    }
}

const fn bits(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Offers of one service whose machines look alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ServiceGroups {
    pub(crate) groups: Runs<CostTerms, Group>,
    /// The same by the price of arithmetic, then by what is asked beside it, for jobs without GPU time; empty where there is
    /// one group.
    pub(crate) by_mmac: Runs<(Amount, Amount, CostTerms), ()>,
}

impl ServiceGroups {
    fn has_equals(&self) -> bool {
        self.groups.values().any(Group::is_shared)
    }

    /// Adds the only offer of a new group.
    fn open(&mut self, entry: &Arc<BookEntry>) {
        let alone = Group::One(Arc::clone(entry));
        let before = self.groups.first().filter(|_| self.groups.len() == 1);
        if let Some(lead) = before.map(|(cost_terms, _)| cost_terms.lead()) {
            self.by_mmac.insert(lead, ());
        }
        self.groups.insert(entry.cost_terms.clone(), alone);
        if self.groups.len() > 1 {
            self.by_mmac.insert(entry.cost_terms.lead(), ());
        }
    }

    /// Takes out a group of which nothing is left.
    fn close(&mut self, cost_terms: &CostTerms) {
        self.groups.remove(cost_terms);
        match self.groups.len() {
            0 | 1 => self.by_mmac = Runs::default(),
            _ => {
                self.by_mmac.remove(&cost_terms.lead());
            }
        }
    }
}

/// Offers whose machines look alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ShapeClass {
    by_service: Runs<Service, ServiceGroups>,
    /// Free CPU of the machines, in thousandths of a core.
    cpus: Counts<u32>,
}

/// How machines look, and the most CPU that one of them has free; `None` if no machine looks so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) shape: Shape,
    pub(crate) cpu_milli: Option<u32>,
}

impl ShapeClass {
    /// The offers that may serve a job, with the least probability in millionths that their providers fail it; it rises for
    /// jobs of the first class.
    pub(crate) fn serving<'a>(
        &'a self,
        demand: &JobDemand<'_>,
    ) -> impl Iterator<Item = (u32, &'a ServiceGroups)> {
        let class = usize::from(demand.needs.class.tag());
        let by_service = self.by_service.iter();
        let serving = by_service.filter(|(service, _)| service.serves(demand));
        serving.map(move |(service, service_groups)| {
            (service.failure[class].least_ppm(), service_groups)
        })
    }

    /// How many services there are.
    pub(crate) const fn services(&self) -> usize {
        self.by_service.len()
    }

    /// All groups of offers that cost the same.
    #[cfg(test)]
    pub(crate) fn by_service(&self) -> impl Iterator<Item = &ServiceGroups> {
        self.by_service.values()
    }

    fn has_equals(&self) -> bool {
        self.by_service.values().any(ServiceGroups::has_equals)
    }
}

/// The least price of a GPU second of prices that stand and of such that follow demand, where the moving price is
/// `class_price`.
fn least_second(fixed: Option<Amount>, moving: Option<Amount>, class_price: Amount) -> Amount {
    let moving = moving.map(|ask| ask.max(class_price));
    let least = fixed.into_iter().chain(moving).min();
    least.unwrap_or(Amount::MAX)
}

/// A shape class with its least asks for GPU time beside it: most are passed over for these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    /// Of prices that stand.
    fixed: Option<Amount>,
    /// Of prices that follow demand.
    moving: Option<Amount>,
    /// The least level of failure of its providers, for each class of jobs.
    failure: [FailureLevel; JobClass::ALL.len()],
    /// The most CPU that one of its machines has free: machines that look alike differ by less than a unit.
    pub(crate) cpu_milli: u32,
    pub(crate) shape_class: Arc<ShapeClass>,
}

impl Row {
    /// The least price of a GPU second, where the moving price is `class_price`.
    pub(crate) fn second(&self, class_price: Amount) -> Amount {
        least_second(self.fixed, self.moving, class_price)
    }

    /// The least probability in millionths that a provider fails a job of `class`.
    pub(crate) fn failure_ppm(&self, class: JobClass) -> u32 {
        self.failure[usize::from(class.tag())].least_ppm()
    }

    fn note_asks(&mut self) {
        (self.fixed, self.moving) = (None, None);
        let first = self.shape_class.by_service.keys().next();
        self.failure = first.map_or_else(Default::default, |it| it.failure);
        let pivot = CostTerms::first_dynamic();
        for (service, service_groups) in self.shape_class.by_service.iter() {
            for (least, level) in self.failure.iter_mut().zip(service.failure) {
                *least = level.min(*least);
            }
            let first = service_groups
                .groups
                .keys()
                .next()
                .filter(|it| !it.is_dynamic);
            let fixed = first.map(|it| it.second);
            let mut moving = service_groups.groups.range_from(Bound::Included(&pivot));
            let moving = moving.next().map(|(it, _)| it.second);
            self.fixed = self.fixed.into_iter().chain(fixed).min();
            self.moving = self.moving.into_iter().chain(moving).min();
        }
    }
}

/// How often each value occurs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counts<T>(Runs<T, u32>);

impl<T> Default for Counts<T> {
    fn default() -> Self {
        Self(Runs::default())
    }
}

impl<T: Ord + Copy> Counts<T> {
    /// Counts a value, or takes it out.
    pub(crate) fn count(&mut self, value: T, is_new: bool) {
        let count = self.0.entry_or(&value, || 0);
        *count = match is_new {
            true => *count + 1,
            false => *count - 1,
        };
        if *count == 0 {
            self.0.remove(&value);
        }
    }

    /// The least.
    pub(crate) fn first(&self) -> Option<T> {
        self.0.first().map(|(value, _)| *value)
    }

    /// The greatest.
    fn last(&self) -> Option<T> {
        self.0.last().map(|(value, _)| *value)
    }
}

/// Each part of the cost over all offers of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Spread {
    /// Of prices of GPU time that stand.
    fixed: Counts<Amount>,
    /// Of prices of GPU time that follow demand.
    moving: Counts<Amount>,
    base: Counts<Amount>,
    per_mmac: Counts<Amount>,
    latency: Counts<DurationMs>,
    speed: Counts<u64>,
    modes: Counts<ModeSet>,
    /// Memory for models, RAM and disk, of which a job may need more than any offer has.
    memory: Counts<u64>,
    ram: Counts<u32>,
    disk: Counts<u32>,
    failure_ppm: [Counts<u32>; JobClass::ALL.len()],
    top: [Counts<bool>; JobClass::ALL.len()],
}

/// The least, or the greatest, of each part of the cost over all offers of a bucket: beside it, so that a search passes over
/// buckets without a look at what lies in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edges {
    /// Modes that some offer serves.
    modes: ModeSet,
    /// Whether some offer is open.
    is_open: bool,
    /// How the machines of all open offers look, if they look alike.
    pub(crate) only: Option<Option<Shape>>,
    /// The most RAM, disk, and memory for models.
    ram: u32,
    disk: u32,
    memory: u64,
    /// The least price of GPU time of those that stand, and of those that follow demand.
    fixed: Option<Amount>,
    moving: Option<Amount>,
    /// The least prices and times of the rest.
    pub(crate) base: Amount,
    pub(crate) per_mmac: Amount,
    latency: DurationMs,
    speed: u64,
    failure_ppm: [u32; JobClass::ALL.len()],
    /// Whether some provider goes first among equals.
    top: [bool; JobClass::ALL.len()],
}

impl Default for Edges {
    fn default() -> Self {
        Self::of(&Spread::default())
    }
}

impl Edges {
    /// Of offers none of which is open.
    fn of(spread: &Spread) -> Self {
        let or_zero = |counts: &Counts<Amount>| counts.first().unwrap_or(Amount::ZERO);
        Self {
            modes: spread
                .modes
                .0
                .keys()
                .fold(ModeSet::EMPTY, |all, it| all.or(*it)),
            is_open: false,
            only: None,
            ram: spread.ram.last().unwrap_or(0),
            disk: spread.disk.last().unwrap_or(0),
            memory: spread.memory.last().unwrap_or(0),
            fixed: spread.fixed.first(),
            moving: spread.moving.first(),
            base: or_zero(&spread.base),
            per_mmac: or_zero(&spread.per_mmac),
            latency: spread.latency.first().unwrap_or(DurationMs::ZERO),
            speed: spread.speed.last().unwrap_or(0),
            failure_ppm: spread
                .failure_ppm
                .each_ref()
                .map(|it| it.first().unwrap_or(0)),
            top: spread.top.each_ref().map(|it| it.last() == Some(true)),
        }
    }

    /// Whether some offer is open, some serves the job's mode, some has the memory, the RAM and the disk for it, and some is
    /// fast enough before GPU time counts: not always one and the same.
    pub(crate) fn may_serve(&self, demand: &JobDemand<'_>) -> bool {
        self.is_open && self.has_all_for(demand)
    }

    /// Whether some price follows demand, and [`Self::may_serve`] would hold if nothing ran on the machines.
    pub(crate) fn may_serve_moving(&self, demand: &JobDemand<'_>) -> bool {
        self.moving.is_some() && self.has_all_for(demand)
    }

    fn has_all_for(&self, demand: &JobDemand<'_>) -> bool {
        let needs = demand.needs;
        let ready = demand.start.saturating_add(self.duration(demand.macs));
        ready <= demand.ready_by()
            && self.ram >= needs.memory_mib
            && self.disk >= needs.disk_gib
            && self.memory >= demand.memory_bytes
            && self.modes.contains(demand.mode)
    }

    /// The least price of a GPU second of all offers, where the moving price is `class_price`.
    pub(crate) fn second(&self, class_price: Amount) -> Amount {
        least_second(self.fixed, self.moving, class_price)
    }

    /// The least that is asked for `mmacs` millions of multiply-accumulates; `None` if it cannot be written.
    pub(crate) fn price(&self, mmacs: u64) -> Option<Amount> {
        price_of(self.base, self.per_mmac, mmacs)
    }

    /// The least declared time.
    pub(crate) fn duration(&self, macs: u64) -> DurationMs {
        duration_of(self.latency, self.speed, macs)
    }

    /// The least probability that a provider fails a job of `class`.
    pub(crate) fn failure_ppm(&self, class: JobClass) -> u32 {
        self.failure_ppm[usize::from(class.tag())]
    }

    /// Whether some offer is of a provider that goes first among equals with jobs of `class`.
    pub(crate) fn has_top(&self, class: JobClass) -> bool {
        self.top[usize::from(class.tag())]
    }
}

/// A bucket with its edges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BoundedBucket {
    pub(crate) edges: Edges,
    pub(crate) bucket: Arc<Bucket>,
}

impl BoundedBucket {
    /// Counts an offer, or takes it out of the count.
    pub(crate) fn count(&mut self, entry: &BookEntry, is_new: bool) {
        let bucket = Arc::make_mut(&mut self.bucket);
        bucket.count(entry, is_new);
        self.edges = Edges {
            is_open: self.edges.is_open,
            only: self.edges.only,
            ..Edges::of(&bucket.spread)
        };
    }

    /// [`Bucket::put_in`].
    pub(crate) fn put_in(&mut self, seed: &[u8; 32], entry: &Arc<BookEntry>) -> Option<Look> {
        let bucket = Arc::make_mut(&mut self.bucket);
        let gained = bucket.put_in(seed, entry);
        self.note_open();
        gained
    }

    /// [`Bucket::take_out`].
    pub(crate) fn take_out(&mut self, seed: &[u8; 32], entry: &BookEntry) -> Option<Look> {
        let bucket = Arc::make_mut(&mut self.bucket);
        let lost = bucket.take_out(seed, entry);
        self.note_open();
        lost
    }

    fn note_open(&mut self) {
        let shape_classes = &self.bucket.shape_classes;
        self.edges.is_open = !shape_classes.is_empty();
        let is_one = shape_classes.len() == 1;
        let first = shape_classes.keys().next().filter(|_| is_one);
        self.edges.only = first.copied();
    }
}

/// All offers of one kind of machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Bucket {
    /// Open offers by how their machines look.
    pub(crate) shape_classes: Runs<Option<Shape>, Row>,
    spread: Arc<Spread>,
}

impl Bucket {
    pub(crate) fn is_empty(&self) -> bool {
        self.spread.base.first().is_none()
    }

    /// Counts the offers that the least and the greatest values are taken of.
    fn count(&mut self, entry: &BookEntry, is_new: bool) {
        let (cost_terms, machine) = (&entry.cost_terms, &entry.standing.terms.machine);
        let spread = Arc::make_mut(&mut self.spread);
        match cost_terms.is_dynamic {
            true => spread.moving.count(cost_terms.second, is_new),
            false => spread.fixed.count(cost_terms.second, is_new),
        }
        spread.base.count(cost_terms.base, is_new);
        spread.per_mmac.count(cost_terms.per_mmac, is_new);
        spread.latency.count(cost_terms.latency, is_new);
        spread.speed.count(cost_terms.speed, is_new);
        spread.modes.count(cost_terms.modes, is_new);
        spread.memory.count(cost_terms.memory, is_new);
        spread.ram.count(machine.memory_mib, is_new);
        spread.disk.count(machine.disk_gib, is_new);
        for (counts, mark) in spread.failure_ppm.iter_mut().zip(&cost_terms.marks) {
            counts.count(mark.failure_ppm, is_new);
        }
        for (counts, mark) in spread.top.iter_mut().zip(&cost_terms.marks) {
            counts.count(mark.top, is_new);
        }
    }

    /// How the machines of its open offers look, where nothing is booked.
    pub(crate) fn looks(&self) -> impl Iterator<Item = Look> {
        let rows = self.shape_classes.iter();
        rows.filter_map(|(shape, row)| {
            Some(Look {
                shape: (*shape)?,
                cpu_milli: Some(row.cpu_milli),
            })
        })
    }

    /// A machine of it, if one is open.
    pub(crate) fn machine(&self) -> Option<&Machine> {
        let row = self.shape_classes.values().next()?;
        let group = row
            .shape_class
            .by_service
            .values()
            .next()?
            .groups
            .values()
            .next()?;
        let entry = group.values().next()?;
        Some(&entry.standing.terms.machine)
    }

    /// Puts an open offer into its shape class; what the machines of that are now.
    fn put_in(&mut self, seed: &[u8; 32], entry: &Arc<BookEntry>) -> Option<Look> {
        let Place { shape } = entry.place?;
        let row = self.shape_classes.entry_or(&shape, Row::default);
        let shape_class = Arc::make_mut(&mut row.shape_class);
        shape_class.cpus.count(entry.cpu_milli, true);
        row.cpu_milli = row.cpu_milli.max(entry.cpu_milli);
        let cpu_milli = Some(row.cpu_milli);
        let service_groups = shape_class
            .by_service
            .entry_or(&Service::of(entry), ServiceGroups::default);
        if let Some(group) = service_groups.groups.get_mut(&entry.cost_terms) {
            group.put(seed, entry);
        } else {
            service_groups.open(entry);
            row.note_asks();
        }
        shape.map(|shape| Look { shape, cpu_milli })
    }

    /// Takes an offer out of its shape class; what the machines of that are now.
    fn take_out(&mut self, seed: &[u8; 32], entry: &BookEntry) -> Option<Look> {
        let Place { shape } = entry.place?;
        let row = self.shape_classes.get_mut(&shape)?;
        let shape_class = Arc::make_mut(&mut row.shape_class);
        shape_class.cpus.count(entry.cpu_milli, false);
        let cpu_milli = shape_class.cpus.last();
        row.cpu_milli = cpu_milli.unwrap_or(0);
        let service = Service::of(entry);
        let service_groups = shape_class.by_service.get_mut(&service)?;
        let group = service_groups.groups.get_mut(&entry.cost_terms)?;
        if group.len() > 1 {
            group.take(seed, entry);
            return shape.map(|shape| Look { shape, cpu_milli });
        }
        service_groups.close(&entry.cost_terms);
        if service_groups.groups.is_empty() {
            shape_class.by_service.remove(&service);
        }
        if shape_class.by_service.is_empty() {
            self.shape_classes.remove(&shape);
        } else {
            row.note_asks();
        }
        shape.map(|shape| Look { shape, cpu_milli })
    }

    /// Whether any offers cost the same.
    pub(crate) fn has_equals(&self) -> bool {
        let mut rows = self.shape_classes.values();
        rows.any(|row| row.shape_class.has_equals())
    }

    /// Another seed orders equals from now on.
    pub(crate) fn turn(&mut self, seed: &[u8; 32]) {
        self.shape_classes.change_each(
            |row| row.shape_class.has_equals(),
            |row| {
                let by_service = &mut Arc::make_mut(&mut row.shape_class).by_service;
                by_service.change_each(ServiceGroups::has_equals, |service_groups| {
                    service_groups
                        .groups
                        .change_each(Group::is_shared, |group| group.turn(seed));
                });
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_failure_are_close_from_below() {
        let mut last = FailureLevel::default();
        for ppm in (0..5_000)
            .chain((5_000..2_000_000).step_by(77))
            .chain([u32::MAX])
        {
            let level = FailureLevel::of(ppm);
            let least = level.least_ppm();
            assert!(level >= last && least <= ppm && ppm - least <= ppm / 256);
            assert_eq!(FailureLevel::of(least), level);
            last = level;
        }
    }
}
