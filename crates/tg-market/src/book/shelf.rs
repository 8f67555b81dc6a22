//! The machines of one kind: cohorts that look alike, groups that cost the same, and the least that any of them asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tg_types::{
    Amount, Digest, DurationMs, JobClass, Label, Machine, ModeSet, OfferId, OfferTerms, Pricing,
    TierSet,
};

use super::{Entry, Mark, Standing};
use crate::cluster::Gpu;
use crate::packing::Shape;

/// The kind of machine on a shelf. Machines of all regions are on one: they look alike, and cost what they ask.
pub(crate) type ShelfKey = Gpu;

/// All of an offer that its cost for a job follows from, beside its machine. Ordered by the price of GPU time first,
/// prices that follow demand after fixed ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tariff {
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

impl Tariff {
    /// What comes before every tariff whose price follows demand, and after all others.
    pub(crate) fn first_dynamic() -> Self {
        Self {
            is_dynamic: true,
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

/// Where an open offer lies on its shelf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// How its machine looks; `None` if something is booked there for later.
    pub(crate) shape: Option<Shape>,
    /// Its turn among equals.
    pub(crate) tie: Digest,
}

/// Offers that cost the same, in their order among equals.
pub(crate) type Group = BTreeMap<(Digest, OfferId), Arc<Entry>>;

/// Offers whose machines look alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cohort {
    pub(crate) groups: BTreeMap<Tariff, Group>,
    /// The same by the price of arithmetic, for jobs without GPU time.
    pub(crate) by_mmac: BTreeSet<(Amount, Tariff)>,
}

/// A cohort with its least asks for GPU time beside it: most are passed over for these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    /// Of prices that stand.
    fixed: Option<Amount>,
    /// Of prices that follow demand.
    moving: Option<Amount>,
    pub(crate) cohort: Arc<Cohort>,
}

impl Row {
    /// The least price of a GPU second, where the moving price is `class_price`.
    pub(crate) fn second(&self, class_price: Amount) -> Amount {
        let moving = self.moving.map(|ask| ask.max(class_price));
        let least = self.fixed.into_iter().chain(moving).min();
        least.unwrap_or(Amount::MAX)
    }

    fn note_asks(&mut self) {
        let pivot = Tariff::first_dynamic();
        let groups = &self.cohort.groups;
        let first = groups.keys().next().filter(|it| !it.is_dynamic);
        self.fixed = first.map(|it| it.second);
        self.moving = groups.range(&pivot..).next().map(|(it, _)| it.second);
    }
}

/// How often each value occurs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counts<T>(BTreeMap<T, u32>);

impl<T> Default for Counts<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + Copy> Counts<T> {
    /// Counts a value, or takes it out.
    pub(crate) fn count(&mut self, value: T, is_new: bool) {
        let count = self.0.entry(value).or_default();
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
        self.0.keys().next().copied()
    }

    /// The greatest.
    fn last(&self) -> Option<T> {
        self.0.keys().next_back().copied()
    }
}

/// Each part of the cost over all offers of a shelf.
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
    failure_ppm: [Counts<u32>; JobClass::ALL.len()],
    top: [Counts<bool>; JobClass::ALL.len()],
}

/// The least of each part of the cost over all offers of a shelf.
#[derive(Debug, Clone)]
pub(crate) struct Floor {
    /// Terms with the least prices and times; nothing else of them means anything.
    pub(crate) terms: OfferTerms,
    pub(crate) failure_ppm: u32,
}

/// All offers of one kind of machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shelf {
    /// Open offers by how their machines look.
    pub(crate) cohorts: BTreeMap<Option<Shape>, Row>,
    spread: Arc<Spread>,
}

impl Shelf {
    pub(crate) fn is_empty(&self) -> bool {
        self.spread.base.first().is_none()
    }

    /// Counts the offers that the least values are taken of.
    pub(crate) fn count(&mut self, tariff: &Tariff, is_new: bool) {
        let spread = Arc::make_mut(&mut self.spread);
        match tariff.is_dynamic {
            true => spread.moving.count(tariff.second, is_new),
            false => spread.fixed.count(tariff.second, is_new),
        }
        spread.base.count(tariff.base, is_new);
        spread.per_mmac.count(tariff.per_mmac, is_new);
        spread.latency.count(tariff.latency, is_new);
        spread.speed.count(tariff.speed, is_new);
        for (counts, mark) in spread.failure_ppm.iter_mut().zip(&tariff.marks) {
            counts.count(mark.failure_ppm, is_new);
        }
        for (counts, mark) in spread.top.iter_mut().zip(&tariff.marks) {
            counts.count(mark.top, is_new);
        }
    }

    /// How the machines of its open offers look, where nothing is booked.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.cohorts.keys().flatten()
    }

    /// The least price of a GPU second of all offers, where the moving price is `class_price`.
    pub(crate) fn second(&self, class_price: Amount) -> Amount {
        let spread = &self.spread;
        let moving = spread.moving.first().map(|ask| ask.max(class_price));
        let least = spread.fixed.first().into_iter().chain(moving).min();
        least.unwrap_or(Amount::MAX)
    }

    /// Whether some offer is of a provider that goes first among equals with jobs of `class`.
    pub(crate) fn has_top(&self, class: JobClass) -> bool {
        self.spread.top[usize::from(class.tag())].last() == Some(true)
    }

    /// The least of each part of the cost for jobs of `class`; `machine` is one of the shelf.
    pub(crate) fn floor(&self, class: JobClass, machine: &Machine) -> Option<Floor> {
        let spread = &self.spread;
        let terms = OfferTerms {
            hardware: Label::default(),
            price_base: spread.base.first()?,
            price_per_mmac: spread.per_mmac.first()?,
            latency_base_ms: spread.latency.first()?,
            speed_mmac_per_s: spread.speed.last()?,
            memory_bytes: 0,
            slots: 0,
            collateral_per_lease: Amount::ZERO,
            modes: ModeSet::EMPTY,
            machine: *machine,
            price_per_gpu_second: Amount::ZERO,
            pricing: Pricing::Fixed,
        };
        let failure_ppm = spread.failure_ppm[usize::from(class.tag())].first()?;
        Some(Floor { terms, failure_ppm })
    }

    /// Puts an open offer into its cohort; how its machine looks, if none looked like this.
    pub(crate) fn put_in(&mut self, entry: &Arc<Entry>) -> Option<Shape> {
        let Place { shape, tie } = entry.place?;
        let row = self.cohorts.entry(shape).or_default();
        let is_first = row.cohort.groups.is_empty();
        let cohort = Arc::make_mut(&mut row.cohort);
        let group = match cohort.groups.get_mut(&entry.tariff) {
            Some(group) => group,
            None => {
                let lead = (entry.tariff.per_mmac, entry.tariff.clone());
                cohort.by_mmac.insert(lead);
                cohort.groups.entry(entry.tariff.clone()).or_default()
            }
        };
        let is_new = group.is_empty();
        group.insert((tie, entry.standing.offer), Arc::clone(entry));
        if is_new {
            row.note_asks();
        }
        shape.filter(|_| is_first)
    }

    /// Takes an offer out of its cohort; how its machine looked, if none looks like this any more.
    pub(crate) fn take_out(&mut self, entry: &Entry) -> Option<Shape> {
        let Place { shape, tie } = entry.place?;
        let row = self.cohorts.get_mut(&shape)?;
        let cohort = Arc::make_mut(&mut row.cohort);
        let mut is_gone = false;
        if let Some(group) = cohort.groups.get_mut(&entry.tariff) {
            group.remove(&(tie, entry.standing.offer));
            if group.is_empty() {
                is_gone = true;
                cohort.groups.remove(&entry.tariff);
                let lead = (entry.tariff.per_mmac, entry.tariff.clone());
                cohort.by_mmac.remove(&lead);
            }
        }
        if cohort.groups.is_empty() {
            self.cohorts.remove(&shape);
            return shape;
        }
        if is_gone {
            row.note_asks();
        }
        None
    }
}
