//! The best offer of a book, by lower bounds of the cost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;

use tg_types::{Amount, DurationMs, GpuModel, RegionSet};

use super::offers::OfferBook;
use super::runs::Finder;
use super::shelf::{Cohort, Group, Menu, Rack, Row, ShelfKey, Tariff, price_of};
use super::standing::{Rates, Standing};
use crate::cluster::{KindIndex, KindSet, Request, Sharing};
use crate::demand::{JobDemand, OfferView};
use crate::packing::Shape;
use crate::placement::{GpuWork, Quote, assess, charged, compare_quotes, gpu_work, quote_now};
use crate::view::{PackingPrices, Stock, request_of};

/// Kinds of machine that are passed over by their bits in the time of one look.
const KINDS_PER_LOOK: u64 = 64;

/// Looks that any job counts for which the book is asked.
const JOB_LOOKS: u64 = 8;

/// Shelves that lack something the job needs which are passed over in the time of one look. One that has all counts one.
const SHELVES_PER_LOOK: u64 = 16;

/// Looks that one shelf counts for whose cohorts are gone through in their order.
const ORDER_LOOKS: u64 = 4;

/// Cohorts of machines that look alike which are valued in the time of one look at an offer. Each search counts them, since
/// a validator may remember nothing of its footprint.
const COHORTS_PER_LOOK: u64 = 8;

/// Services of a cohort that are passed over, or gone to, in the time of one look.
const SERVICES_PER_LOOK: u64 = 16;

/// When what is looked for may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// At once: the machines as they look now decide, and what a place takes from the work to come counts.
    Now,
    /// At once or later: only the terms bound the cost.
    Later,
}

/// How much was looked at: cohorts, groups and offers. It follows from the book and the demand alone. A search stops once
/// it looked at more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    looked: u64,
    most: u64,
}

impl Default for Looks {
    /// As many as it takes.
    fn default() -> Self {
        Self::up_to(u64::MAX)
    }
}

impl Looks {
    /// At most `most`.
    #[must_use]
    pub const fn up_to(most: u64) -> Self {
        Self { looked: 0, most }
    }

    /// A `times`-th of it.
    #[must_use]
    pub const fn divided(self, times: u64) -> Self {
        Self {
            looked: self.looked / times,
            most: self.most / times,
        }
    }

    /// Whether the search was cut off: what it found then means nothing.
    #[must_use]
    pub const fn is_cut_off(self) -> bool {
        self.looked > self.most
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.looked
    }

    pub(super) const fn note(&mut self) {
        self.looked = self.looked.saturating_add(1);
    }

    pub(super) const fn note_many(&mut self, looks: u64) {
        self.looked = self.looked.saturating_add(looks);
    }

    /// One cohort, with its services.
    pub(super) fn note_services(&mut self, cohort: &Cohort) {
        self.note_many(1 + cohort.services() as u64 / SERVICES_PER_LOOK);
    }

    /// The cohorts of a shelf are put in order.
    pub(super) const fn note_order(&mut self, cohorts: usize) {
        self.note_many(ORDER_LOOKS + (cohorts as u64).div_ceil(COHORTS_PER_LOOK));
    }
}

/// One job before the book.
pub(super) struct Search<'a, 'd> {
    pub(super) demand: &'d JobDemand<'d>,
    rates: &'d Rates<'d>,
    pub(super) request: Request,
    kinds: KindSet,
    stock: &'d Stock,
    pub(super) prices: Option<&'d PackingPrices>,
    pub(super) reach: Reach,
    pub(super) book: &'a OfferBook,
}

/// What the offers of one shelf have in common for one job, and the least of what they have not.
pub(super) struct Lot<'a> {
    pub(super) gpu: ShelfKey,
    pub(super) rack: &'a Rack,
    /// Kinds of its machines, one for each way to value what they have.
    pub(super) kinds: Kinds,
    class: GpuTime,
    /// The least price of the arithmetic.
    base: Option<Amount>,
    pub(super) duration: DurationMs,
    risk: Amount,
}

/// Kinds of machine: mostly one.
pub(super) enum Kinds {
    One(u16),
    Several(Vec<u16>),
}

impl Kinds {
    pub(super) fn as_slice(&self) -> &[u16] {
        match self {
            Self::One(kind) => std::slice::from_ref(kind),
            Self::Several(kinds) => kinds,
        }
    }
}

/// What GPU time a job takes, and what a second of it costs, on machines with the same model that share GPUs alike.
#[derive(Clone, Copy)]
struct GpuTime {
    model: GpuModel,
    sharing: Sharing,
    work: GpuWork,
    /// The moving price of a second.
    price: Amount,
}

/// A cohort with the least that its cheapest offer may cost before its place counts.
struct Aisle<'a> {
    least: Amount,
    shape: Option<&'a Shape>,
    lot: usize,
    cohort: &'a Cohort,
}

/// The offers of one service of a cohort.
struct Part<'a> {
    menu: &'a Menu,
    /// What is lost by failure at least.
    risk: Amount,
    /// What a place takes at least.
    burden: i64,
    /// Whether all its machines look alike.
    is_alike: bool,
}

/// What makes a quote of an offer, unless it costs more than the second argument.
pub(super) type QuoteOf<'f, 'a> = dyn FnMut(&OfferView<'a>, Option<Amount>) -> Option<Quote> + 'f;

impl OfferBook {
    /// The cheapest offer for `demand` that fits now: what [`crate::cheapest`] chooses of all of them, `except` one.
    #[must_use]
    pub fn cheapest(
        &self,
        demand: &JobDemand<'_>,
        rates: &Rates<'_>,
        looks: &mut Looks,
        except: Option<&tg_types::OfferId>,
    ) -> Option<Quote> {
        self.find(demand, rates, Reach::Now, looks, |view, most| {
            if except == Some(&view.offer) {
                return None;
            }
            quote_now(demand, view, most)
        })
    }

    /// The best of the quotes that `quote_of` makes for open offers, in the order of [`compare_quotes`]. A quote must
    /// cost as much as [`assess`] says, or more; `quote_of` may leave out what costs more than its second argument.
    #[must_use]
    pub fn find<'a>(
        &'a self,
        demand: &JobDemand<'_>,
        rates: &Rates<'_>,
        reach: Reach,
        looks: &mut Looks,
        mut quote_of: impl FnMut(&OfferView<'a>, Option<Amount>) -> Option<Quote>,
    ) -> Option<Quote> {
        let search = Search::new(self, demand, rates, reach)?;
        let lots = search.lots(looks);
        match search.order_keys(&lots) {
            Some((prices, keys)) => search.merge(&lots, (prices, &keys), looks, &mut quote_of),
            None => search.sweep(&lots, looks, &mut quote_of),
        }
    }

    /// Shows `found` one fitting offer of each group that `wants` is interested in.
    pub fn survey<'a>(
        &'a self,
        demand: &JobDemand<'_>,
        rates: &Rates<'_>,
        looks: &mut Looks,
        mut wants: impl FnMut(&OfferView<'a>) -> bool,
        mut found: impl FnMut(&OfferView<'a>),
    ) {
        let Some(search) = Search::new(self, demand, rates, Reach::Now) else {
            return;
        };
        let lots = search.lots(looks);
        for (lot, cohort) in search.fitting(&lots, looks) {
            let menus = cohort.serving(demand);
            for (tariff, group) in menus.flat_map(|(_, menu)| menu.groups.iter()) {
                looks.note();
                if looks.is_cut_off() {
                    return;
                }
                let views = || group.values().map(|it| search.view(&it.standing));
                let Some(first) = views().next() else {
                    continue;
                };
                if !wants(&first) || search.group_bound(&lots[lot], tariff, 0).is_none() {
                    continue;
                }
                for view in views() {
                    looks.note();
                    if assess(demand, &view).broken.is_empty() {
                        found(&view);
                        break;
                    }
                }
            }
        }
    }
}

impl<'a, 'd> Search<'a, 'd> {
    /// `None` if no machine could ever serve the job.
    pub(super) fn new(
        book: &'a OfferBook,
        demand: &'d JobDemand<'d>,
        rates: &'d Rates<'d>,
        reach: Reach,
    ) -> Option<Self> {
        let stock = demand.stock?;
        let request = request_of(demand.needs).ok()?;
        let all = stock.cluster().kinds();
        let mut kinds = all.filter(&request);
        let regions = demand.needs.regions;
        if regions != RegionSet::ANY {
            let is_in = |region| u8::try_from(region).is_ok_and(|it| regions.contains(it));
            kinds.intersect(&all.in_regions(is_in));
        }
        Some(Self {
            kinds,
            prices: demand.prices.filter(|_| demand.start <= demand.now),
            demand,
            rates,
            request,
            stock,
            reach,
            book,
        })
    }

    pub(super) fn view(&self, standing: &'a Standing) -> OfferView<'a> {
        standing.view(self.demand.needs.class, self.rates)
    }

    /// The shelves that could serve the job.
    pub(super) fn lots(&self, looks: &mut Looks) -> Vec<Lot<'a>> {
        let all = self.stock.cluster().kinds();
        looks.note_many(JOB_LOOKS + all.len() as u64 / KINDS_PER_LOOK);
        let mut serving = self.kinds.iter().peekable();
        let mut racks = Finder::new(&self.book.shelves);
        let mut class: Option<GpuTime> = None;
        let (mut passed, mut lots) = (0_u64, Vec::new());
        // Kinds with the same GPUs follow each other.
        while let Some(first) = serving.next() {
            if looks.is_cut_off() {
                break;
            }
            let Some(gpu) = all.gpu(first) else { continue };
            let mut last = first;
            while let Some(kind) = serving.next_if(|it| all.gpu(*it) == Some(gpu)) {
                last = kind;
            }
            let rack: Option<&'a Rack> = racks.find(gpu);
            let serves = |it: &&Rack| self.has_gpu_memory(gpu) && it.edges.may_serve(self.demand);
            let Some(rack) = rack.filter(serves) else {
                passed += 1;
                looks.note_many(u64::from(passed % SHELVES_PER_LOOK == 0));
                continue;
            };
            looks.note();
            let is_like = |it: &GpuTime| (it.model.tag(), it.sharing) == (gpu.model, gpu.sharing);
            class = class.filter(is_like).or_else(|| self.gpu_time(gpu, rack));
            let Some(class) = class else { continue };
            let kinds = self.distinct_kinds(all, gpu, (first, last));
            lots.push(self.lot((gpu, rack), class, kinds));
        }
        lots
    }

    /// Whether GPUs have the memory that the job needs of each.
    fn has_gpu_memory(&self, gpu: &ShelfKey) -> bool {
        let demand = gpu.demand(&self.request);
        self.request.gpus() == 0 || demand.is_some_and(|it| it.memory_mib <= gpu.memory_mib)
    }

    /// Of the kinds from `first` to `last` that serve the job, which have these GPUs, one for each way to value machines.
    fn distinct_kinds(
        &self,
        all: &KindIndex,
        gpu: &ShelfKey,
        (first, last): (usize, usize),
    ) -> Kinds {
        let Some(prices) = self.prices else {
            return Kinds::Several(Vec::new());
        };
        let is_other = |kind: Option<usize>| kind.and_then(|it| all.gpu(it)) != Some(gpu);
        if first == last && is_other(first.checked_sub(1)) && is_other(Some(first + 1)) {
            return Kinds::One(first as u16);
        }
        let kinds = (first..=last).filter(|it| self.kinds.contains(*it));
        let distinct = prices.distinct(all.with_gpu(gpu), kinds);
        match distinct[..] {
            [kind] => Kinds::One(kind),
            _ => Kinds::Several(distinct),
        }
    }

    /// The cohorts that may have room at a price within the limit.
    fn aisles(&self, lots: &[Lot<'a>], looks: &mut Looks) -> Vec<Aisle<'a>> {
        let mut aisles = Vec::new();
        for (at, lot) in lots.iter().enumerate() {
            for (shape, row) in lot.rack.shelf.cohorts.iter() {
                looks.note();
                if looks.is_cut_off() {
                    return aisles;
                }
                if self.reach == Reach::Now && !self.has_cpu(shape.as_ref(), row) {
                    continue;
                }
                if let Some(least) = self.least_of(lot, row) {
                    aisles.push(Aisle {
                        least,
                        shape: shape.as_ref(),
                        lot: at,
                        cohort: &row.cohort,
                    });
                }
            }
        }
        aisles
    }

    /// The best offer by a look at every cohort of `lots`.
    fn sweep(
        &self,
        lots: &[Lot<'a>],
        looks: &mut Looks,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) -> Option<Quote> {
        let aisles = self.aisles(lots, looks);
        // By the least cost; what a place takes is worked out for those only that may win without it.
        let heads = aisles.iter().enumerate();
        let mut heap: BinaryHeap<_> = heads
            .map(|(at, aisle)| Reverse((aisle.least, at, None)))
            .collect();
        let mut best: Option<Quote> = None;
        while let Some(Reverse((bound, at, burden))) = heap.pop() {
            if looks.is_cut_off() || best.is_some_and(|best| best.expected_cost < bound) {
                break;
            }
            let aisle = &aisles[at];
            let lot = &lots[aisle.lot];
            if let Some(burden) = burden {
                let cohort = (aisle.cohort, burden, aisle.shape.is_some());
                self.walk(lot, cohort, looks, &mut best, quote_of);
            } else if let Some(burden) = self.burden(lot, aisle) {
                let packing = self.packing(lot, burden, lot.duration);
                let bound = aisle.least.saturating_add(packing);
                heap.push(Reverse((bound, at, Some(burden))));
            }
        }
        best
    }

    /// The cohorts that may have room at a price within the limit, with the number of their lot. What a place takes is not
    /// worked out for it.
    pub(super) fn fitting(&self, lots: &[Lot<'a>], looks: &mut Looks) -> Vec<(usize, &'a Cohort)> {
        let mut found = Vec::new();
        for (at, lot) in lots.iter().enumerate() {
            looks.note_order(lot.rack.shelf.cohorts.len());
            if looks.is_cut_off() {
                break;
            }
            for (shape, row) in lot.rack.shelf.cohorts.iter() {
                // What is booked may be in the way of any place there: it is looked at itself.
                let may_have_place = |shape: &Shape| shape.choices(&self.request).next().is_some();
                let has_cpu = self.has_cpu(shape.as_ref(), row);
                if !has_cpu || !shape.as_ref().is_none_or(may_have_place) {
                    continue;
                }
                looks.note_services(&row.cohort);
                if self.least_of(lot, row).is_some() {
                    found.push((at, &*row.cohort));
                }
            }
        }
        found
    }

    /// Whether a machine of a cohort has the CPU now. What is booked says nothing: it is looked at itself.
    pub(super) fn has_cpu(&self, shape: Option<&Shape>, row: &Row) -> bool {
        shape.is_none() || row.cpu_milli >= self.request.cpu_milli()
    }

    /// The least that the cheapest offer of a cohort may cost before its place counts; `None` if that is above the
    /// limit.
    pub(super) fn least_of(&self, lot: &Lot<'a>, row: &Row) -> Option<Amount> {
        let second = row.second(lot.class.price);
        let risk = self.risk(row.failure_ppm(self.demand.needs.class), lot);
        self.cost_of(lot.class.work.price(lot.base, second), risk)
    }

    /// What is lost by failure where all of a lot fail with `failure_ppm` millionths at least.
    fn risk(&self, failure_ppm: u32, lot: &Lot<'a>) -> Amount {
        self.demand.max_price.ppm_ceil(failure_ppm).max(lot.risk)
    }

    /// As [`Self::least_of`], of all cohorts of a lot.
    pub(super) fn least_of_all(&self, lot: &Lot<'a>) -> Option<Amount> {
        let second = lot.rack.edges.second(lot.class.price);
        self.cost_of(lot.class.work.price(lot.base, second), lot.risk)
    }

    /// The GPU time of the job on machines of a shelf; `None` if no offer is open.
    fn gpu_time(&self, gpu: &ShelfKey, rack: &Rack) -> Option<GpuTime> {
        let needs = self.demand.needs;
        let machine = rack.shelf.machine()?;
        let correction = self.rates.correction(machine.gpu, needs.class);
        Some(GpuTime {
            model: machine.gpu,
            sharing: gpu.sharing,
            work: gpu_work(machine, needs, &correction),
            price: self.rates.class_price(machine.gpu),
        })
    }

    /// A shelf of which machines of `kinds` could serve the job.
    fn lot(&self, (gpu, rack): (&ShelfKey, &'a Rack), class: GpuTime, kinds: Kinds) -> Lot<'a> {
        let JobDemand {
            needs,
            macs,
            max_price,
            ..
        } = *self.demand;
        let edges = &rack.edges;
        Lot {
            gpu: *gpu,
            rack,
            kinds,
            class,
            base: edges.price(macs.div_ceil(1_000_000)),
            duration: edges.duration(macs).saturating_add(class.work.time),
            risk: max_price.ppm_ceil(edges.failure_ppm(needs.class)),
        }
    }

    /// What a price makes of the cost at least; `None` if it is above the limit.
    fn cost_of(&self, price: Option<Amount>, risk: Amount) -> Option<Amount> {
        let price = charged(price?, self.demand.needs)?;
        (price <= self.demand.max_price).then(|| price.saturating_add(risk))
    }

    /// What a place on machines of a cohort takes from the work to come at least; `None` if there is no place.
    fn burden(&self, lot: &Lot<'a>, aisle: &Aisle<'_>) -> Option<i64> {
        let (Reach::Now, Some(shape)) = (self.reach, aisle.shape) else {
            return Some(0);
        };
        match self.prices {
            None => shape.choices(&self.request).next().map(|_| 0),
            Some(prices) => {
                let of = |kind: &u16| {
                    let kind = *kind;
                    prices.least_burden(&Shape { kind, ..*shape }, &self.request)
                };
                lot.kinds.as_slice().iter().filter_map(of).min()
            }
        }
    }

    pub(super) fn packing(&self, lot: &Lot<'a>, burden: i64, duration: DurationMs) -> Amount {
        match (self.reach, self.prices) {
            (Reach::Now, Some(prices)) => prices.cost(lot.class.model, burden, duration),
            _ => Amount::ZERO,
        }
    }

    /// Goes through the groups of a cohort as long as they may win: what a place takes there at least, and whether all
    /// its machines look alike.
    pub(super) fn walk(
        &self,
        lot: &Lot<'a>,
        (cohort, burden, is_alike): (&'a Cohort, i64, bool),
        looks: &mut Looks,
        best: &mut Option<Quote>,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) {
        looks.note_many(cohort.services() as u64 / SERVICES_PER_LOOK);
        for (failure_ppm, menu) in cohort.serving(self.demand) {
            let part = Part {
                menu,
                risk: self.risk(failure_ppm, lot),
                burden,
                is_alike,
            };
            if !self.may_win(lot, &part, Some(Amount::ZERO), *looks, best.as_ref()) {
                // Of the first class those that follow fail as often, or more.
                match self.demand.needs.class.tag() {
                    0 => return,
                    _ => continue,
                }
            }
            match lot.class.work.is_none() {
                true => self.walk_arithmetic(lot, &part, looks, best, quote_of),
                false => self.walk_menu(lot, &part, looks, best, quote_of),
            }
        }
    }

    /// Goes through the groups of one service.
    fn walk_menu(
        &self,
        lot: &Lot<'a>,
        part: &Part<'a>,
        looks: &mut Looks,
        best: &mut Option<Quote>,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) {
        let groups = &part.menu.groups;
        let fixed = groups.iter().take_while(|(tariff, _)| !tariff.is_dynamic);
        for (tariff, group) in fixed {
            let price = lot.class.work.price(lot.base, tariff.second);
            if !self.may_win(lot, part, price, *looks, best.as_ref()) {
                break;
            }
            let found = (tariff, || Some(group));
            self.look(lot, part, found, looks, best, quote_of);
        }
        if groups.last().is_none_or(|(tariff, _)| !tariff.is_dynamic) {
            return;
        }
        let pivot = Tariff::first_dynamic();
        for (tariff, group) in groups.range_from(Bound::Included(&pivot)) {
            let second = tariff.second.max(lot.class.price);
            let price = lot.class.work.price(lot.base, second);
            if !self.may_win(lot, part, price, *looks, best.as_ref()) {
                break;
            }
            let found = (tariff, || Some(group));
            self.look(lot, part, found, looks, best, quote_of);
        }
    }

    /// As [`Self::walk_menu`], for a job without GPU time: by the price of arithmetic, and then by what is asked beside it.
    fn walk_arithmetic(
        &self,
        lot: &Lot<'a>,
        part: &Part<'a>,
        looks: &mut Looks,
        best: &mut Option<Quote>,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) {
        let menu = part.menu;
        if let Some((tariff, group)) = menu.groups.first().filter(|_| menu.by_mmac.is_empty()) {
            let found = (tariff, || Some(group));
            return self.look(lot, part, found, looks, best, quote_of);
        }
        let mmacs = self.demand.macs.div_ceil(1_000_000);
        let price = |per_mmac: Amount, base: Amount| price_of(base, per_mmac, mmacs);
        let mut from = (Amount::ZERO, Amount::ZERO, Tariff::first());
        loop {
            let mut dearer = None;
            for ((per_mmac, base, tariff), ()) in menu.by_mmac.range_from(Bound::Included(&from)) {
                let least = price(*per_mmac, lot.rack.edges.base);
                if !self.may_win(lot, part, least, *looks, best.as_ref()) {
                    return;
                }
                let least = price(*per_mmac, *base);
                if !self.may_win(lot, part, least, *looks, best.as_ref()) {
                    // Nor do those that ask as much for arithmetic and more beside it.
                    looks.note();
                    dearer = per_mmac.checked_add(Amount::new(1));
                    break;
                }
                let found = (tariff, || menu.groups.get(tariff));
                self.look(lot, part, found, looks, best, quote_of);
            }
            let Some(per_mmac) = dearer else { return };
            from = (per_mmac, Amount::ZERO, Tariff::first());
        }
    }

    /// Whether an offer of a part of a lot at `price` may win.
    fn may_win(
        &self,
        lot: &Lot<'a>,
        part: &Part<'a>,
        price: Option<Amount>,
        looks: Looks,
        best: Option<&Quote>,
    ) -> bool {
        let cost = self.cost_of(price, part.risk);
        let packing = self.packing(lot, part.burden, lot.duration);
        let cost = cost.map(|cost| cost.saturating_add(packing));
        let wins = |cost| best.is_none_or(|best| cost <= best.expected_cost);
        !looks.is_cut_off() && cost.is_some_and(wins)
    }

    /// Looks for the first of a group that has room, if the group may win.
    fn look(
        &self,
        lot: &Lot<'a>,
        part: &Part<'a>,
        (tariff, group): (&Tariff, impl Fn() -> Option<&'a Group>),
        looks: &mut Looks,
        best: &mut Option<Quote>,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) {
        looks.note();
        let Some(bound) = self.group_bound(lot, tariff, part.burden) else {
            return;
        };
        let is_beaten = |best: &Option<Quote>| best.is_some_and(|it| it.expected_cost < bound);
        if is_beaten(best) {
            return;
        }
        for entry in group().into_iter().flat_map(Group::values) {
            if looks.is_cut_off() || is_beaten(best) {
                return;
            }
            looks.note();
            let most = best.map(|best| best.expected_cost);
            let Some(quote) = quote_of(&self.view(&entry.standing), most) else {
                continue;
            };
            let seed = &self.demand.tie_seed;
            if best.is_none_or(|best| compare_quotes(seed, &quote, &best).is_lt()) {
                *best = Some(quote);
            }
            // Nobody in the group costs less, and those who cost the same come later, if they look the same.
            if quote.expected_cost == bound && part.is_alike {
                return;
            }
        }
    }

    /// The cost of a group where it takes least from the work to come; `None` if its terms do not suit the job. It
    /// follows from the tariff alone: no offer is touched for it.
    pub(super) fn group_bound(
        &self,
        lot: &Lot<'a>,
        tariff: &Tariff,
        burden: i64,
    ) -> Option<Amount> {
        let JobDemand {
            macs,
            max_price,
            start,
            deadline,
            needs,
            ..
        } = *self.demand;
        if !tariff.serves(self.demand) {
            return None;
        }
        let duration = tariff.duration(macs).saturating_add(lot.class.work.time);
        if start.saturating_add(duration) > deadline {
            return None;
        }
        let second = match tariff.is_dynamic {
            false => tariff.second,
            true => tariff.second.max(lot.class.price),
        };
        let price = lot
            .class
            .work
            .price(tariff.price(macs.div_ceil(1_000_000)), second);
        let failure_ppm = tariff.mark(needs.class).failure_ppm;
        let cost = self.cost_of(price, max_price.ppm_ceil(failure_ppm))?;
        Some(cost.saturating_add(self.packing(lot, burden, duration)))
    }
}
