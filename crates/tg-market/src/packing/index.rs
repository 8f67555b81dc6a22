//! The best machine for a request without looking at all machines.
//!
//! Machines of one [`Shape`] cost the same, so for each distinct request there is a heap of shapes, not of machines.
//! A heap learns of shapes that got members from a log, when it is asked next. When prices move, its costs are not
//! computed anew: with `L` the least ratio of a new price to its old one, `L` times the old cost (less a bound for
//! rounding) is a lower bound of the new one, so only shapes whose bound reaches the best exact cost are looked at.
//! What comes out is what [`crate::packing::scan::best`] finds (a test), so the index is not part of any state: one
//! that is rebuilt gives the same answers as one that was kept up to date.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::cluster::{Cluster, GPUS_PER_NODE_MAX, KindSet, NodeIndex, Request};
use crate::packing::price::PriceBook;
use crate::packing::profile::WorkloadProfile;
use crate::packing::shape::{Candidate, Shape, mix};
use crate::packing::table::{CPU_UNIT_MILLI, GroupValue, PricedTables, Tables};

/// Most distinct requests that have a heap; when there are more, all heaps are dropped and built again on demand.
pub const REQUESTS_MAX: usize = 4_096;

/// Length at which the older half of the log of gains is dropped. A heap that had not read it looks at all shapes.
const LOG_MAX: usize = 1 << 16;

/// Shapes kept although no machine has them any more, before the index is built anew.
const SHAPES_IDLE_MAX: usize = 1 << 19;

/// Fixed point of price ratios.
const RATIO_BITS: u32 = 32;

/// Ratios below this make bounds too loose; then a heap is built anew.
const RATIO_MIN: u64 = 1 << (RATIO_BITS - 12);

/// How much work the index did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexStats {
    /// Costs computed.
    pub evaluations: u64,
    /// Times prices moved.
    pub price_changes: u64,
    /// Shapes ever seen since the index was built.
    pub shapes: u64,
}

/// Bit of [`RequestHeap::present`]: every way to place the request on the shape is in a heap, or none ever is.
const ALL_PRESENT: u16 = 1 << GPUS_PER_NODE_MAX;

#[derive(Debug, Clone)]
struct ShapeEntry {
    tie: [u64; 2],
    /// Ranks of the machines that have this shape now.
    members: BTreeSet<u32>,
    values: Box<[GroupValue]>,
    priced: i64,
    priced_epoch: u32,
    /// Some heap dropped it although it had members: its next gain is logged.
    parked: bool,
}

/// Candidates that were exact under older prices: a cost times `ratio` (less the slack) is a lower bound now.
#[derive(Debug, Clone)]
struct Aged {
    ratio: u64,
    heap: BinaryHeap<Reverse<Candidate>>,
}

impl Aged {
    /// A lower bound of the present cost of the first candidate.
    fn least(&self, slack: i64) -> Option<i64> {
        let Reverse(first) = self.heap.peek()?;
        // Below zero is rounding only, and says nothing.
        if first.cost < 0 {
            return Some(i64::MIN);
        }
        let scaled = (i128::from(first.cost) * i128::from(self.ratio)) >> RATIO_BITS;
        Some((scaled as i64).saturating_sub(slack))
    }

    /// Takes in `other`, with its costs in the unit of these.
    fn absorb(&mut self, other: Self) {
        let own = i128::from(self.ratio);
        let ratio = i128::from(other.ratio);
        let moved = other.heap.into_iter().map(|Reverse(mut candidate)| {
            if candidate.cost >= 0 {
                let cost = i128::from(candidate.cost) * ratio / own;
                candidate.cost = i64::try_from(cost).unwrap_or(i64::MAX);
            }
            Reverse(candidate)
        });
        self.heap.extend(moved);
    }
}

/// Most prices that a heap remembers costs of.
const AGED_MAX: usize = 6;

#[derive(Debug, Clone)]
struct RequestHeap {
    kinds: KindSet,
    /// Exact under the prices of `epoch`.
    exact: BinaryHeap<Reverse<Candidate>>,
    /// Exact under older prices.
    aged: Vec<Aged>,
    epoch: u32,
    /// How much a bound may be off by rounding.
    slack: i64,
    cursor: u64,
    /// For each shape, which of its devices are in a heap, and [`ALL_PRESENT`].
    present: Vec<u16>,
}

/// Finds the best machine; derived from a [`Cluster`], a [`WorkloadProfile`] and the anchors of its prices.
#[derive(Debug, Clone)]
pub struct PackingIndex {
    seed: u64,
    tables: Tables,
    priced: PricedTables,
    book: PriceBook,
    /// For each step between epochs and each kind of machine, the least ratio of the prices it depends on. The first is
    /// the step from no prices.
    ratios: Vec<Box<[u64]>>,
    /// For each kind, how much a cost may be off by rounding.
    slacks: Box<[i64]>,
    rank_of: Vec<u32>,
    node_at: Vec<u32>,
    node_shape: Vec<u32>,
    shapes: Vec<ShapeEntry>,
    /// What each shape is and whether it has members, apart from the rest: heaps that catch up read it for many.
    looks: Vec<Shape>,
    occupied: Vec<bool>,
    lookup: BTreeMap<u128, u32>,
    shapes_active: usize,
    requests: BTreeMap<Request, u32>,
    heaps: Vec<RequestHeap>,
    log: Vec<u32>,
    log_base: u64,
    stats: IndexStats,
}

impl PackingIndex {
    /// The index of `cluster` as it is now. `seed` orders what costs the same.
    #[must_use]
    pub fn new(cluster: &Cluster, profile: &WorkloadProfile, seed: u64) -> Self {
        let cpu_milli_max = cluster
            .nodes()
            .map(|node| cluster.spec(node).cpu_milli)
            .max()
            .unwrap_or(0);
        let tables = Tables::new(profile, cluster.kinds(), cpu_milli_max);
        let (rank_of, node_at) = ranks(cluster, seed);
        let book = PriceBook::new(&tables, 0, vec![0; tables.groups().len()]);
        let priced = tables.priced(book.prices());
        let mut index = Self {
            seed,
            priced,
            book,
            tables,
            ratios: Vec::new(),
            slacks: Box::default(),
            rank_of,
            node_at,
            node_shape: vec![0; cluster.len()],
            shapes: Vec::new(),
            looks: Vec::new(),
            occupied: Vec::new(),
            lookup: BTreeMap::new(),
            shapes_active: 0,
            requests: BTreeMap::new(),
            heaps: Vec::new(),
            log: Vec::new(),
            log_base: 0,
            stats: IndexStats::default(),
        };
        for node in cluster.nodes() {
            let id = index.intern(Shape::of(cluster, node));
            index.node_shape[node.0 as usize] = id;
            let rank = index.rank_of[node.0 as usize];
            index.shapes[id as usize].members.insert(rank);
            index.occupied[id as usize] = true;
        }
        index.shapes_active = index.shapes.len();
        let mut usable = vec![0_i64; index.tables.groups().len()];
        for entry in &index.shapes {
            for (group, value) in &entry.values {
                usable[usize::from(*group)] += value * entry.members.len() as i64;
            }
        }
        index.book = PriceBook::new(&index.tables, cluster.gpu_milli_capacity(), usable);
        index.reprice();
        index
    }

    /// Sets the prices that belong to `anchor` (see [`PriceBook::anchor`]); false if it is of another profile.
    pub fn restore_anchor(&mut self, anchor: &[i64]) -> bool {
        let restored = self.book.restore_anchor(anchor);
        if restored {
            self.reprice();
            self.heaps.clear();
            self.requests.clear();
        }
        restored
    }

    /// The prices.
    #[must_use]
    pub const fn book(&self) -> &PriceBook {
        &self.book
    }

    /// The tables under the present prices.
    #[must_use]
    pub const fn priced(&self) -> &PricedTables {
        &self.priced
    }

    /// Position of `node` in the order of machines that cost the same.
    ///
    /// # Panics
    /// If `node` is not of the cluster.
    #[must_use]
    pub fn rank(&self, node: NodeIndex) -> u32 {
        self.rank_of[node.0 as usize]
    }

    /// The seed of the order among what costs the same.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// How much work was done.
    #[must_use]
    pub const fn stats(&self) -> IndexStats {
        self.stats
    }

    /// The cheapest machine for `request` and the devices to take, if any machine fits.
    pub fn best(&mut self, cluster: &Cluster, request: &Request) -> Option<(NodeIndex, u8)> {
        let heap_index = self.heap_of(cluster, request);
        self.catch_up(heap_index, request);
        loop {
            self.tighten(heap_index, request);
            let heap = &mut self.heaps[heap_index];
            let Reverse(top) = heap.exact.peek().copied()?;
            let entry = &mut self.shapes[top.shape as usize];
            let shape = &self.looks[top.shape as usize];
            let preferred = request.is_fraction().then_some(top.milli);
            for rank in &entry.members {
                let node = NodeIndex(self.node_at[*rank as usize]);
                if cluster.free(node).fits_host(request)
                    && let Some(devices) = cluster.devices_for(node, request, preferred)
                {
                    return Some((node, devices));
                }
            }
            entry.parked |= !entry.members.is_empty();
            heap.exact.pop();
            heap.forget(top.shape, shape, top.milli);
        }
    }

    /// Takes note that what is free on `node` changed. With `settle`, prices may move; true if they did.
    pub fn node_changed(&mut self, cluster: &Cluster, node: NodeIndex, settle: bool) -> bool {
        let old = self.node_shape[node.0 as usize];
        let shape = Shape::of(cluster, node);
        if self.looks[old as usize] == shape {
            // Same shape, other CPU or memory: a heap that dropped the shape must hear of it.
            if self.shapes[old as usize].parked {
                self.log_gain(old);
            }
            return false;
        }
        let new = self.intern(shape);
        let rank = self.rank_of[node.0 as usize];
        self.node_shape[node.0 as usize] = new;
        self.shapes[old as usize].members.remove(&rank);
        let emptied = self.shapes[old as usize].members.is_empty();
        self.occupied[old as usize] = !emptied;
        self.shapes_active -= usize::from(emptied);
        let entry = &mut self.shapes[new as usize];
        let first = entry.members.is_empty();
        entry.members.insert(rank);
        self.occupied[new as usize] = true;
        self.shapes_active += usize::from(first);
        if first || entry.parked {
            self.log_gain(new);
        }
        self.book.shift(
            &self.shapes[old as usize].values,
            &self.shapes[new as usize].values,
        );
        if self.shapes.len() > SHAPES_IDLE_MAX + 2 * self.shapes_active {
            self.drop_idle_shapes();
        }
        let moved = settle && self.book.settle();
        if moved {
            self.reprice();
        }
        moved
    }

    fn log_gain(&mut self, shape: u32) {
        self.shapes[shape as usize].parked = false;
        self.log.push(shape);
        if self.log.len() >= LOG_MAX {
            let half = self.log.len() / 2;
            self.log.drain(..half);
            self.log_base += half as u64;
        }
    }

    fn intern(&mut self, shape: Shape) -> u32 {
        let packed = shape.pack();
        if let Some(id) = self.lookup.get(&packed) {
            return *id;
        }
        let id = self.shapes.len() as u32;
        self.looks.push(shape);
        self.occupied.push(false);
        self.shapes.push(ShapeEntry {
            tie: halves(shape.tie(self.seed)),
            members: BTreeSet::new(),
            values: self.tables.values(&shape).into_boxed_slice(),
            priced: 0,
            priced_epoch: 0,
            parked: false,
        });
        self.lookup.insert(packed, id);
        self.stats.shapes += 1;
        id
    }

    fn drop_idle_shapes(&mut self) {
        let shapes = std::mem::take(&mut self.shapes);
        let looks = std::mem::take(&mut self.looks);
        self.occupied.clear();
        self.lookup.clear();
        let mut moved = vec![0; shapes.len()];
        for (old, mut entry) in shapes.into_iter().enumerate() {
            if !entry.members.is_empty() {
                entry.parked = false;
                moved[old] = self.shapes.len() as u32;
                self.lookup.insert(looks[old].pack(), moved[old]);
                self.shapes.push(entry);
                self.looks.push(looks[old]);
                self.occupied.push(true);
            }
        }
        for shape in &mut self.node_shape {
            *shape = moved[*shape as usize];
        }
        self.heaps.clear();
        self.requests.clear();
        self.log_base += self.log.len() as u64;
        self.log.clear();
    }

    /// New price tables, and the least ratio of a price to what it was.
    fn reprice(&mut self) {
        let before = self.stats.price_changes;
        self.stats.price_changes += 1;
        let new = self.tables.priced(self.book.prices());
        let groups = (0..self.tables.kinds()).map(|kind| self.tables.served_by(kind));
        let ratio = |groups: &[u16]| match before {
            0 => 0,
            _ => self.book.ratio_min(groups, RATIO_BITS),
        };
        self.ratios.push(groups.clone().map(ratio).collect());
        let slack = |groups: &[u16]| self.tables.rounding_slack(groups, self.book.prices());
        self.slacks = groups.map(slack).collect();
        self.priced = new;
    }

    fn epoch(&self) -> u32 {
        self.ratios.len() as u32
    }

    fn heap_of(&mut self, cluster: &Cluster, request: &Request) -> usize {
        if let Some(index) = self.requests.get(request) {
            return *index as usize;
        }
        if self.heaps.len() >= REQUESTS_MAX {
            self.heaps.clear();
            self.requests.clear();
        }
        let index = self.heaps.len();
        let mut heap = RequestHeap {
            kinds: cluster.kinds().filter(request),
            exact: BinaryHeap::new(),
            aged: Vec::new(),
            epoch: self.epoch(),
            slack: 0,
            cursor: 0,
            present: Vec::new(),
        };
        self.read_all(&mut heap, request);
        self.heaps.push(heap);
        self.requests.insert(*request, index as u32);
        index
    }

    /// Brings a heap to the present prices and shapes.
    fn catch_up(&mut self, heap_index: usize, request: &Request) {
        // The heap leaves its place for the while, so that the index can be borrowed beside it.
        let mut heap = std::mem::replace(&mut self.heaps[heap_index], RequestHeap::vacant());
        if heap.epoch != self.epoch() {
            self.age(&mut heap, request);
        }
        if heap.cursor < self.log_base {
            self.read_all(&mut heap, request);
        } else {
            let from = (heap.cursor - self.log_base) as usize;
            for position in from..self.log.len() {
                let shape = self.log[position];
                self.offer(&mut heap, request, shape);
            }
            heap.cursor = self.log_base + self.log.len() as u64;
        }
        self.heaps[heap_index] = heap;
    }

    fn read_all(&mut self, heap: &mut RequestHeap, request: &Request) {
        for shape in 0..self.shapes.len() as u32 {
            self.offer(heap, request, shape);
        }
        heap.cursor = self.log_base + self.log.len() as u64;
    }

    /// Turns exact costs of older prices into bounds under the present ones.
    fn age(&mut self, heap: &mut RequestHeap, request: &Request) {
        // Each kind by its own prices; of all kinds that the request may use the least.
        let steps = &self.ratios[heap.epoch as usize..];
        let kinds = (0..self.tables.kinds()).filter(|kind| heap.kinds.contains(*kind));
        let of_kind = |kind: usize| {
            steps.iter().fold(1_u64 << RATIO_BITS, |step, ratios| {
                ((u128::from(step) * u128::from(ratios[kind])) >> RATIO_BITS) as u64
            })
        };
        let step = kinds.clone().map(of_kind).min().unwrap_or(1 << RATIO_BITS);
        heap.slack = kinds.map(|kind| self.slacks[kind]).max().unwrap_or(0);
        heap.epoch = self.epoch();
        for aged in &mut heap.aged {
            aged.ratio = ((u128::from(aged.ratio) * u128::from(step)) >> RATIO_BITS) as u64;
        }
        if !heap.exact.is_empty() {
            heap.aged.push(Aged {
                ratio: step,
                heap: std::mem::take(&mut heap.exact),
            });
        }
        if heap.aged.iter().any(|aged| aged.ratio < RATIO_MIN) {
            *heap = RequestHeap {
                kinds: std::mem::take(&mut heap.kinds),
                epoch: heap.epoch,
                slack: heap.slack,
                ..RequestHeap::vacant()
            };
            self.read_all(heap, request);
            return;
        }
        heap.aged.retain(|aged| !aged.heap.is_empty());
        if heap.aged.len() > AGED_MAX {
            heap.aged.sort_by_key(|aged| Reverse(aged.heap.len()));
            if let Some(least) = heap.aged.pop()
                && let Some(other) = heap.aged.last_mut()
            {
                other.absorb(least);
            }
        }
    }

    /// Makes exact every bound that could beat the best exact cost.
    fn tighten(&mut self, heap_index: usize, request: &Request) {
        loop {
            let heap = &mut self.heaps[heap_index];
            let bounds = heap.aged.iter().enumerate();
            let bounds = bounds.filter_map(|(at, aged)| Some((aged.least(heap.slack)?, at)));
            let Some((least, at)) = bounds.min() else {
                return;
            };
            let top = heap.exact.peek();
            if top.is_some_and(|Reverse(top)| least > top.cost) {
                return;
            }
            let Some(Reverse(bound)) = heap.aged[at].heap.pop() else {
                return;
            };
            let shape = self.looks[bound.shape as usize];
            let exact = self.occupied[bound.shape as usize]
                .then(|| self.cost(request, bound.shape, bound.milli));
            let heap = &mut self.heaps[heap_index];
            match exact {
                Some(cost) => heap.exact.push(Reverse(Candidate { cost, ..bound })),
                None => heap.forget(bound.shape, &shape, bound.milli),
            }
        }
    }

    /// Puts the ways to place `request` on machines of `shape` into its heap, as far as they are not there.
    fn offer(&mut self, heap: &mut RequestHeap, request: &Request, id: u32) {
        let at = id as usize;
        if heap.present.len() <= at {
            heap.present.resize(self.shapes.len(), 0);
        }
        if heap.present[at] & ALL_PRESENT != 0 || !self.occupied[at] {
            return;
        }
        heap.present[at] |= ALL_PRESENT;
        let shape = self.looks[at];
        let cpu_within = (u32::from(shape.cpu_units) + 1) * CPU_UNIT_MILLI > request.cpu_milli()
            || shape.cpu_units == crate::packing::table::CPU_UNITS_MAX;
        if !cpu_within || !heap.kinds.contains(usize::from(shape.kind)) {
            return;
        }
        let tie = self.shapes[at].tie;
        for milli in shape.choices(request) {
            let bit = device_bit(&shape, milli);
            if heap.present[at] & bit == 0 {
                heap.present[at] |= bit;
                let cost = self.cost(request, id, milli);
                heap.exact.push(Reverse(Candidate {
                    cost,
                    tie,
                    shape: id,
                    milli,
                }));
            }
        }
    }

    fn cost(&mut self, request: &Request, id: u32, milli: u16) -> i64 {
        self.stats.evaluations += 1;
        let epoch = self.epoch();
        let entry = &mut self.shapes[id as usize];
        if entry.priced_epoch != epoch {
            entry.priced = self.priced.value(&self.looks[id as usize]);
            entry.priced_epoch = epoch;
        }
        let after = self.looks[id as usize].after(request, milli);
        entry.priced - self.priced.value(&after)
    }
}

impl RequestHeap {
    fn vacant() -> Self {
        Self {
            kinds: KindSet::default(),
            exact: BinaryHeap::new(),
            aged: Vec::new(),
            epoch: 0,
            slack: 0,
            cursor: 0,
            present: Vec::new(),
        }
    }

    /// One way to place the request, on the device of shape `id` with `milli` free, is in no heap any more.
    fn forget(&mut self, id: u32, shape: &Shape, milli: u16) {
        self.present[id as usize] &= !(device_bit(shape, milli) | ALL_PRESENT);
    }
}

/// The upper and the lower half.
const fn halves(number: u128) -> [u64; 2] {
    [(number >> 64) as u64, number as u64]
}

/// The bit of the first device of `shape` with `milli` free; the lowest for requests without GPUs.
fn device_bit(shape: &Shape, milli: u16) -> u16 {
    let position = shape.gpu_milli.iter().position(|it| *it <= milli);
    1 << position.unwrap_or(0)
}

/// Machines in the order of their hash with `seed`: rank of each machine, and the machine at each rank.
fn ranks(cluster: &Cluster, seed: u64) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<(u64, u32)> = cluster
        .nodes()
        .map(|node| (mix(seed ^ mix(u64::from(node.0))), node.0))
        .collect();
    order.sort_unstable();
    let mut rank_of = vec![0; order.len()];
    for (rank, (_, node)) in order.iter().enumerate() {
        rank_of[*node as usize] = rank as u32;
    }
    (rank_of, order.into_iter().map(|(_, node)| node).collect())
}
