//! The best offer of a book, by lower bounds of the cost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;

use tg_types::{Amount, DurationMs, GpuModel, RegionSet};

use super::bucket::{
    BoundedBucket, BucketKey, CostTerms, Group, Row, ServiceGroups, ShapeClass, price_of,
};
use super::offers::OfferBook;
use super::runs::Finder;
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

/// Buckets that lack something the job needs which are passed over in the time of one look. One that has all counts one.
const BUCKETS_PER_LOOK: u64 = 16;

/// Looks that one bucket counts for whose shape classes are gone through in their order.
const ORDER_LOOKS: u64 = 4;

/// Shape classes which are valued in the time of one look at an offer. Each search counts them, since
/// a validator may remember nothing of its footprint.
const CLASSES_PER_LOOK: u64 = 8;

/// Services of a shape class that are passed over, or gone to, in the time of one look.
const SERVICES_PER_LOOK: u64 = 16;

/// When what is looked for may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// At once: the machines as they look now decide, and what a place takes from the work to come counts.
    Now,
    /// At once or later: only the terms bound the cost.
    Later,
}

/// How much was looked at: shape classes, groups and offers. It follows from the book and the demand alone. A search stops once
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

    /// One shape class, with its services.
    pub(super) fn note_services(&mut self, shape_class: &ShapeClass) {
        self.note_many(1 + shape_class.services() as u64 / SERVICES_PER_LOOK);
    }

    /// The shape classes of a bucket are put in order.
    pub(super) const fn note_order(&mut self, shape_classes: usize) {
        self.note_many(ORDER_LOOKS + (shape_classes as u64).div_ceil(CLASSES_PER_LOOK));
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

/// What the offers of one bucket have in common for one job, and the least of what they have not.
pub(super) struct CandidateBucket<'a> {
    pub(super) gpu: BucketKey,
    pub(super) bounded: &'a BoundedBucket,
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

/// A shape class with the least that its cheapest offer may cost before its place counts.
struct CandidateClass<'a> {
    least: Amount,
    shape: Option<&'a Shape>,
    candidate: usize,
    shape_class: &'a ShapeClass,
}

/// The offers of one service of a shape class.
struct Part<'a> {
    service_groups: &'a ServiceGroups,
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
        let candidates = search.candidates(looks);
        match search.order_keys(&candidates) {
            Some((prices, keys)) => {
                search.merge(&candidates, (prices, &keys), looks, &mut quote_of)
            }
            None => search.sweep(&candidates, looks, &mut quote_of),
        }
    }

    /// Whether a job may be waiting for machines whose price follows demand: some kind of machine has what it needs, and offers of it the mode, the memory
    /// and the time, though not always one and the same. What runs there now does not matter. `false` if the search was cut off.
    #[must_use]
    pub fn may_serve_moving(
        &self,
        demand: &JobDemand<'_>,
        rates: &Rates<'_>,
        looks: &mut Looks,
    ) -> bool {
        let Some(search) = Search::new(self, demand, rates, Reach::Later) else {
            return false;
        };
        let all = search.stock.cluster().kinds();
        looks.note_many(JOB_LOOKS + all.len() as u64 / KINDS_PER_LOOK);
        let mut before: Option<&BucketKey> = None;
        for gpu in search.kinds.iter().filter_map(|kind| all.gpu(kind)) {
            if looks.is_cut_off() {
                return false;
            }
            // Kinds with the same GPUs follow each other.
            if before.replace(gpu) == Some(gpu) {
                continue;
            }
            looks.note();
            let bounded = self.buckets.get(gpu);
            let serves = |it: &BoundedBucket| it.edges.may_serve_moving(demand);
            if search.has_gpu_memory(gpu) && bounded.is_some_and(serves) {
                return true;
            }
        }
        false
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
        let candidates = search.candidates(looks);
        for (candidate, shape_class) in search.fitting(&candidates, looks) {
            let by_service = shape_class.serving(demand);
            for (cost_terms, group) in
                by_service.flat_map(|(_, service_groups)| service_groups.groups.iter())
            {
                looks.note();
                if looks.is_cut_off() {
                    return;
                }
                let views = || group.values().map(|it| search.view(&it.standing));
                let Some(first) = views().next() else {
                    continue;
                };
                if !wants(&first)
                    || search
                        .group_bound(&candidates[candidate], cost_terms, 0)
                        .is_none()
                {
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

    /// The buckets that could serve the job.
    pub(super) fn candidates(&self, looks: &mut Looks) -> Vec<CandidateBucket<'a>> {
        let all = self.stock.cluster().kinds();
        looks.note_many(JOB_LOOKS + all.len() as u64 / KINDS_PER_LOOK);
        let mut serving = self.kinds.iter().peekable();
        let mut bounded_buckets = Finder::new(&self.book.buckets);
        let mut class: Option<GpuTime> = None;
        let (mut passed, mut candidates) = (0_u64, Vec::new());
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
            let bounded: Option<&'a BoundedBucket> = bounded_buckets.find(gpu);
            let serves =
                |it: &&BoundedBucket| self.has_gpu_memory(gpu) && it.edges.may_serve(self.demand);
            let Some(bounded) = bounded.filter(serves) else {
                passed += 1;
                looks.note_many(u64::from(passed % BUCKETS_PER_LOOK == 0));
                continue;
            };
            looks.note();
            let is_like = |it: &GpuTime| (it.model.tag(), it.sharing) == (gpu.model, gpu.sharing);
            class = class
                .filter(is_like)
                .or_else(|| self.gpu_time(gpu, bounded));
            let Some(class) = class else { continue };
            let kinds = self.distinct_kinds(all, gpu, (first, last));
            candidates.push(self.candidate((gpu, bounded), class, kinds));
        }
        candidates
    }

    /// Whether GPUs have the memory that the job needs of each.
    fn has_gpu_memory(&self, gpu: &BucketKey) -> bool {
        let demand = gpu.demand(&self.request);
        self.request.gpus() == 0 || demand.is_some_and(|it| it.memory_mib <= gpu.memory_mib)
    }

    /// Of the kinds from `first` to `last` that serve the job, which have these GPUs, one for each way to value machines.
    fn distinct_kinds(
        &self,
        all: &KindIndex,
        gpu: &BucketKey,
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

    /// The shape classes that may have room at a price within the limit.
    fn candidate_classes(
        &self,
        candidates: &[CandidateBucket<'a>],
        looks: &mut Looks,
    ) -> Vec<CandidateClass<'a>> {
        let mut candidate_classes = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            for (shape, row) in candidate.bounded.bucket.shape_classes.iter() {
                looks.note();
                if looks.is_cut_off() {
                    return candidate_classes;
                }
                if self.reach == Reach::Now && !self.has_cpu(shape.as_ref(), row) {
                    continue;
                }
                if let Some(least) = self.least_of(candidate, row) {
                    candidate_classes.push(CandidateClass {
                        least,
                        shape: shape.as_ref(),
                        candidate: at,
                        shape_class: &row.shape_class,
                    });
                }
            }
        }
        candidate_classes
    }

    /// The best offer by a look at every shape class of `candidates`.
    fn sweep(
        &self,
        candidates: &[CandidateBucket<'a>],
        looks: &mut Looks,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) -> Option<Quote> {
        let candidate_classes = self.candidate_classes(candidates, looks);
        // By the least cost; what a place takes is worked out for those only that may win without it.
        let heads = candidate_classes.iter().enumerate();
        let mut heap: BinaryHeap<_> = heads
            .map(|(at, candidate_class)| Reverse((candidate_class.least, at, None)))
            .collect();
        let mut best: Option<Quote> = None;
        while let Some(Reverse((bound, at, burden))) = heap.pop() {
            if looks.is_cut_off() || best.is_some_and(|best| best.expected_cost < bound) {
                break;
            }
            let candidate_class = &candidate_classes[at];
            let candidate = &candidates[candidate_class.candidate];
            if let Some(burden) = burden {
                let shape_class = (
                    candidate_class.shape_class,
                    burden,
                    candidate_class.shape.is_some(),
                );
                self.walk(candidate, shape_class, looks, &mut best, quote_of);
            } else if let Some(burden) = self.burden(candidate, candidate_class) {
                let packing = self.packing(candidate, burden, candidate.duration);
                let bound = candidate_class.least.saturating_add(packing);
                heap.push(Reverse((bound, at, Some(burden))));
            }
        }
        best
    }

    /// The shape classes that may have room at a price within the limit, with the number of their candidate bucket. What a place takes is not
    /// worked out for it.
    pub(super) fn fitting(
        &self,
        candidates: &[CandidateBucket<'a>],
        looks: &mut Looks,
    ) -> Vec<(usize, &'a ShapeClass)> {
        let mut found = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            looks.note_order(candidate.bounded.bucket.shape_classes.len());
            if looks.is_cut_off() {
                break;
            }
            for (shape, row) in candidate.bounded.bucket.shape_classes.iter() {
                // What is booked may be in the way of any place there: it is looked at itself.
                let may_have_place = |shape: &Shape| shape.choices(&self.request).next().is_some();
                let has_cpu = self.has_cpu(shape.as_ref(), row);
                if !has_cpu || !shape.as_ref().is_none_or(may_have_place) {
                    continue;
                }
                looks.note_services(&row.shape_class);
                if self.least_of(candidate, row).is_some() {
                    found.push((at, &*row.shape_class));
                }
            }
        }
        found
    }

    /// Whether a machine of a shape class has the CPU now. What is booked says nothing: it is looked at itself.
    pub(super) fn has_cpu(&self, shape: Option<&Shape>, row: &Row) -> bool {
        shape.is_none() || row.cpu_milli >= self.request.cpu_milli()
    }

    /// The least that the cheapest offer of a shape class may cost before its place counts; `None` if that is above the
    /// limit.
    pub(super) fn least_of(&self, candidate: &CandidateBucket<'a>, row: &Row) -> Option<Amount> {
        let second = row.second(candidate.class.price);
        let risk = self.risk(row.failure_ppm(self.demand.needs.class), candidate);
        self.cost_of(candidate.class.work.price(candidate.base, second), risk)
    }

    /// What is lost by failure where all of a candidate fail with `failure_ppm` millionths at least.
    fn risk(&self, failure_ppm: u32, candidate: &CandidateBucket<'a>) -> Amount {
        self.demand
            .max_price
            .ppm_ceil(failure_ppm)
            .max(candidate.risk)
    }

    /// As [`Self::least_of`], of all shape classes of a candidate.
    pub(super) fn least_of_all(&self, candidate: &CandidateBucket<'a>) -> Option<Amount> {
        let second = candidate.bounded.edges.second(candidate.class.price);
        self.cost_of(
            candidate.class.work.price(candidate.base, second),
            candidate.risk,
        )
    }

    /// The GPU time of the job on machines of a bucket; `None` if no offer is open.
    fn gpu_time(&self, gpu: &BucketKey, bounded: &BoundedBucket) -> Option<GpuTime> {
        let needs = self.demand.needs;
        let machine = bounded.bucket.machine()?;
        let correction = self.rates.correction(machine.gpu, needs.class);
        Some(GpuTime {
            model: machine.gpu,
            sharing: gpu.sharing,
            work: gpu_work(machine, needs, &correction),
            price: self.rates.class_price(machine.gpu),
        })
    }

    /// A bucket of which machines of `kinds` could serve the job.
    fn candidate(
        &self,
        (gpu, bounded): (&BucketKey, &'a BoundedBucket),
        class: GpuTime,
        kinds: Kinds,
    ) -> CandidateBucket<'a> {
        let JobDemand {
            needs,
            macs,
            max_price,
            ..
        } = *self.demand;
        let edges = &bounded.edges;
        CandidateBucket {
            gpu: *gpu,
            bounded,
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

    /// What a place on machines of a shape class takes from the work to come at least; `None` if there is no place.
    fn burden(
        &self,
        candidate: &CandidateBucket<'a>,
        candidate_class: &CandidateClass<'_>,
    ) -> Option<i64> {
        let (Reach::Now, Some(shape)) = (self.reach, candidate_class.shape) else {
            return Some(0);
        };
        match self.prices {
            None => shape.choices(&self.request).next().map(|_| 0),
            Some(prices) => {
                let of = |kind: &u16| {
                    let kind = *kind;
                    prices.least_burden(&Shape { kind, ..*shape }, &self.request)
                };
                candidate.kinds.as_slice().iter().filter_map(of).min()
            }
        }
    }

    pub(super) fn packing(
        &self,
        candidate: &CandidateBucket<'a>,
        burden: i64,
        duration: DurationMs,
    ) -> Amount {
        match (self.reach, self.prices) {
            (Reach::Now, Some(prices)) => prices.cost(candidate.class.model, burden, duration),
            _ => Amount::ZERO,
        }
    }

    /// Goes through the groups of a shape class as long as they may win: what a place takes there at least, and whether all
    /// its machines look alike.
    pub(super) fn walk(
        &self,
        candidate: &CandidateBucket<'a>,
        (shape_class, burden, is_alike): (&'a ShapeClass, i64, bool),
        looks: &mut Looks,
        best: &mut Option<Quote>,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) {
        looks.note_many(shape_class.services() as u64 / SERVICES_PER_LOOK);
        for (failure_ppm, service_groups) in shape_class.serving(self.demand) {
            let part = Part {
                service_groups,
                risk: self.risk(failure_ppm, candidate),
                burden,
                is_alike,
            };
            if !self.may_win(candidate, &part, Some(Amount::ZERO), *looks, best.as_ref()) {
                // Of the first class those that follow fail as often, or more.
                match self.demand.needs.class.tag() {
                    0 => return,
                    _ => continue,
                }
            }
            match candidate.class.work.is_none() {
                true => self.walk_arithmetic(candidate, &part, looks, best, quote_of),
                false => self.walk_menu(candidate, &part, looks, best, quote_of),
            }
        }
    }

    /// Goes through the groups of one service.
    fn walk_menu(
        &self,
        candidate: &CandidateBucket<'a>,
        part: &Part<'a>,
        looks: &mut Looks,
        best: &mut Option<Quote>,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) {
        let groups = &part.service_groups.groups;
        let fixed = groups
            .iter()
            .take_while(|(cost_terms, _)| !cost_terms.is_dynamic);
        for (cost_terms, group) in fixed {
            let price = candidate
                .class
                .work
                .price(candidate.base, cost_terms.second);
            if !self.may_win(candidate, part, price, *looks, best.as_ref()) {
                break;
            }
            let found = (cost_terms, || Some(group));
            self.look(candidate, part, found, looks, best, quote_of);
        }
        if groups
            .last()
            .is_none_or(|(cost_terms, _)| !cost_terms.is_dynamic)
        {
            return;
        }
        let pivot = CostTerms::first_dynamic();
        for (cost_terms, group) in groups.range_from(Bound::Included(&pivot)) {
            let second = cost_terms.second.max(candidate.class.price);
            let price = candidate.class.work.price(candidate.base, second);
            if !self.may_win(candidate, part, price, *looks, best.as_ref()) {
                break;
            }
            let found = (cost_terms, || Some(group));
            self.look(candidate, part, found, looks, best, quote_of);
        }
    }

    /// As [`Self::walk_menu`], for a job without GPU time: by the price of arithmetic, and then by what is asked beside it.
    fn walk_arithmetic(
        &self,
        candidate: &CandidateBucket<'a>,
        part: &Part<'a>,
        looks: &mut Looks,
        best: &mut Option<Quote>,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) {
        let service_groups = part.service_groups;
        if let Some((cost_terms, group)) = service_groups
            .groups
            .first()
            .filter(|_| service_groups.by_mmac.is_empty())
        {
            let found = (cost_terms, || Some(group));
            return self.look(candidate, part, found, looks, best, quote_of);
        }
        let mmacs = self.demand.macs.div_ceil(1_000_000);
        let price = |per_mmac: Amount, base: Amount| price_of(base, per_mmac, mmacs);
        let mut from = (Amount::ZERO, Amount::ZERO, CostTerms::first());
        loop {
            let mut dearer = None;
            for ((per_mmac, base, cost_terms), ()) in
                service_groups.by_mmac.range_from(Bound::Included(&from))
            {
                let least = price(*per_mmac, candidate.bounded.edges.base);
                if !self.may_win(candidate, part, least, *looks, best.as_ref()) {
                    return;
                }
                let least = price(*per_mmac, *base);
                if !self.may_win(candidate, part, least, *looks, best.as_ref()) {
                    // Nor do those that ask as much for arithmetic and more beside it.
                    looks.note();
                    dearer = per_mmac.checked_add(Amount::new(1));
                    break;
                }
                let found = (cost_terms, || service_groups.groups.get(cost_terms));
                self.look(candidate, part, found, looks, best, quote_of);
            }
            let Some(per_mmac) = dearer else { return };
            from = (per_mmac, Amount::ZERO, CostTerms::first());
        }
    }

    /// Whether an offer of a part of a candidate at `price` may win.
    fn may_win(
        &self,
        candidate: &CandidateBucket<'a>,
        part: &Part<'a>,
        price: Option<Amount>,
        looks: Looks,
        best: Option<&Quote>,
    ) -> bool {
        let cost = self.cost_of(price, part.risk);
        let packing = self.packing(candidate, part.burden, candidate.duration);
        let cost = cost.map(|cost| cost.saturating_add(packing));
        let wins = |cost| best.is_none_or(|best| cost <= best.expected_cost);
        !looks.is_cut_off() && cost.is_some_and(wins)
    }

    /// Looks for the first of a group that has room, if the group may win.
    fn look(
        &self,
        candidate: &CandidateBucket<'a>,
        part: &Part<'a>,
        (cost_terms, group): (&CostTerms, impl Fn() -> Option<&'a Group>),
        looks: &mut Looks,
        best: &mut Option<Quote>,
        quote_of: &mut QuoteOf<'_, 'a>,
    ) {
        looks.note();
        let Some(bound) = self.group_bound(candidate, cost_terms, part.burden) else {
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
    /// follows from the cost terms alone: no offer is touched for it.
    pub(super) fn group_bound(
        &self,
        candidate: &CandidateBucket<'a>,
        cost_terms: &CostTerms,
        burden: i64,
    ) -> Option<Amount> {
        let JobDemand {
            macs,
            max_price,
            start,
            needs,
            ..
        } = *self.demand;
        if !cost_terms.serves(self.demand) {
            return None;
        }
        let duration = cost_terms
            .duration(macs)
            .saturating_add(candidate.class.work.time);
        if start.saturating_add(duration) > self.demand.ready_by() {
            return None;
        }
        let second = match cost_terms.is_dynamic {
            false => cost_terms.second,
            true => cost_terms.second.max(candidate.class.price),
        };
        let price = candidate
            .class
            .work
            .price(cost_terms.price(macs.div_ceil(1_000_000)), second);
        let failure_ppm = cost_terms.mark(needs.class).failure_ppm;
        let cost = self.cost_of(price, max_price.ppm_ceil(failure_ppm))?;
        Some(cost.saturating_add(self.packing(candidate, burden, duration)))
    }
}
