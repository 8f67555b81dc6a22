//! A cluster with its index: placing, giving back, and taking back what was not finalised.

use crate::cluster::{Allocation, Cluster, NodeIndex, Request};
use crate::packing::index::{IndexStats, PackingIndex};
use crate::packing::profile::WorkloadProfile;

/// A placement that was made.
pub type Placed = Allocation;

/// A point in the journal to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UndoMark(u64);

#[derive(Debug, Clone)]
enum Change {
    Taken(Allocation),
    GivenBack(Allocation),
    /// Prices moved; what they were set from before.
    Priced(Vec<i64>),
}

/// Places requests one at a time; every step can be undone until it is made final.
///
/// ```
/// use tg_market::cluster::{Cluster, Gpu, Interconnect, NodeSpec, Request, Sharing};
/// use tg_market::packing::{PackingScheduler, WorkloadProfile};
///
/// let gpu = Gpu { model: 0, memory_mib: 24_576, capability: 86, tensor_cores: true,
///     interconnect: Interconnect::Pcie, sharing: Sharing::Mps };
/// let node = NodeSpec { cpu_milli: 16_000, memory_mib: 65_536, disk_gib: 500, gpu_count: 2, gpu,
///     region: 0, coordinate: [0, 0] };
/// let half = Request::new(4_000, 8_192, 1, 500)?;
/// let mut scheduler = PackingScheduler::new(Cluster::new(vec![node]), &WorkloadProfile::of([&half]), 7);
/// let mark = scheduler.mark();
/// let held: Vec<_> = std::iter::from_fn(|| scheduler.place(&half)).collect();
/// assert_eq!(held.len(), 4);
/// scheduler.undo_to(mark);
/// assert!(scheduler.place(&half).is_some());
/// # Ok::<(), tg_market::cluster::RequestError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PackingScheduler {
    cluster: Cluster,
    index: PackingIndex,
    journal: Vec<Change>,
    journal_base: u64,
}

impl PackingScheduler {
    /// A scheduler for `cluster` as it is, for work like `profile`; `seed` orders what costs the same.
    #[must_use]
    pub fn new(cluster: Cluster, profile: &WorkloadProfile, seed: u64) -> Self {
        let index = PackingIndex::new(&cluster, profile, seed);
        Self {
            cluster,
            index,
            journal: Vec::new(),
            journal_base: 0,
        }
    }

    /// A scheduler rebuilt from state: the cluster and what its prices were set from. `None` if the anchor is of
    /// another profile.
    #[must_use]
    pub fn restore(
        cluster: Cluster,
        profile: &WorkloadProfile,
        seed: u64,
        anchor: &[i64],
    ) -> Option<Self> {
        let mut scheduler = Self::new(cluster, profile, seed);
        scheduler.index.restore_anchor(anchor).then_some(scheduler)
    }

    /// Expects work like `profile` from now on; prices are set anew. What came before is final.
    pub fn learn(&mut self, profile: &WorkloadProfile) {
        self.make_final(self.mark());
        self.index = PackingIndex::new(&self.cluster, profile, self.index.seed());
    }

    /// The machines.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The index.
    #[must_use]
    pub const fn index(&self) -> &PackingIndex {
        &self.index
    }

    /// How much work the index did.
    #[must_use]
    pub const fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    /// What the prices were set from; part of the state.
    #[must_use]
    pub fn anchor(&self) -> &[i64] {
        self.index.book().anchor()
    }

    /// Where `request` would be placed now.
    pub fn best(&mut self, request: &Request) -> Option<(NodeIndex, u8)> {
        self.index.best(&self.cluster, request)
    }

    /// Places `request` where it does the least harm; `None` if no machine fits.
    pub fn place(&mut self, request: &Request) -> Option<Placed> {
        let (node, devices) = self.best(request)?;
        self.place_on(node, devices, request)
    }

    /// Places `request` on `devices` (a bit for each) of `node`; `None` if it does not fit there.
    pub fn place_on(&mut self, node: NodeIndex, devices: u8, request: &Request) -> Option<Placed> {
        let allocation = self.cluster.allocate(node, devices, request).ok()?;
        self.journal.push(Change::Taken(allocation));
        self.changed(node);
        Some(allocation)
    }

    /// Gives back what `allocation` holds.
    ///
    /// # Panics
    /// If it was given back before.
    pub fn release(&mut self, allocation: &Allocation) {
        self.cluster.release(allocation);
        self.journal.push(Change::GivenBack(*allocation));
        self.changed(allocation.node());
    }

    /// The present point in the journal.
    #[must_use]
    pub fn mark(&self) -> UndoMark {
        UndoMark(self.journal_base + self.journal.len() as u64)
    }

    /// Takes back everything since `mark`.
    ///
    /// # Panics
    /// If `mark` was made final.
    pub fn undo_to(&mut self, mark: UndoMark) {
        assert!(mark.0 >= self.journal_base, "what is final is not undone");
        let mut anchor = None;
        while self.mark() > mark {
            match self.journal.pop() {
                Some(Change::Taken(allocation)) => {
                    self.cluster.release(&allocation);
                    self.index
                        .node_changed(&self.cluster, allocation.node(), false);
                }
                Some(Change::GivenBack(allocation)) => {
                    self.cluster.retake(&allocation);
                    self.index
                        .node_changed(&self.cluster, allocation.node(), false);
                }
                Some(Change::Priced(before)) => anchor = Some(before),
                None => break,
            }
        }
        if let Some(anchor) = anchor {
            self.index.restore_anchor(&anchor);
        }
    }

    /// Everything up to `mark` is final: it can no longer be undone.
    pub fn make_final(&mut self, mark: UndoMark) {
        let count = mark.0.saturating_sub(self.journal_base) as usize;
        let count = count.min(self.journal.len());
        self.journal.drain(..count);
        self.journal_base += count as u64;
    }

    fn changed(&mut self, node: NodeIndex) {
        if self.index.node_changed(&self.cluster, node, true) {
            let before = self.index.book().anchor_before().to_vec();
            self.journal.push(Change::Priced(before));
        }
    }
}
