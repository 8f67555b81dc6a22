//! Machines that come, change and go, one at a time.
//!
//! What all machines together let expect of the work to come ([`Census`]) changes rarely: when the first machine of a
//! kind comes, or the last one goes. Only then is anything looked at for every machine.

use tg_types::{LeaseId, Machine, OfferId};

use super::{Stock, node_spec};
use crate::book::runs::Runs;
use crate::cluster::{Cluster, Kind, KindIndex, NodeIndex, NodeSpec};
use crate::packing::units::cpu_units_floor;
use crate::packing::{Burden, Shape, WorkloadProfile};

/// How many machines there are of what tells expectations apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Census {
    /// By fixed attributes.
    kinds: Runs<Kind, u32>,
    /// By model, number of GPUs and CPU, of those with GPUs.
    sizes: Runs<(u8, u8, u32), u32>,
    /// By CPU.
    cpus: Runs<u32, u32>,
}

/// Counts one more, or one less; whether it is the first or was the last.
fn count<K: Ord + Clone>(counts: &mut Runs<K, u32>, key: &K, is_new: bool) -> bool {
    let count = counts.entry_or(key, || 0);
    *count = match is_new {
        true => *count + 1,
        false => *count - 1,
    };
    let left = *count;
    if left == 0 {
        counts.remove(key);
    }
    left == u32::from(is_new)
}

impl Census {
    pub(super) fn of(specs: &[NodeSpec]) -> Self {
        let mut census = Self::default();
        for spec in specs {
            census.count(spec, true);
        }
        census
    }

    /// Counts a machine that came or went; whether other kinds exist now, or other work is expected.
    fn count(&mut self, spec: &NodeSpec, is_new: bool) -> bool {
        let most = self.most_units();
        let kind = (spec.gpu, spec.region);
        let mut changed = count(&mut self.kinds, &kind, is_new);
        if spec.gpu_count > 0 {
            let size = (spec.gpu.model, spec.gpu_count, spec.cpu_milli);
            let is_least = |census: &Self| census.least_of(&size) == Some(&size);
            let was_least = is_least(self);
            let is_edge = count(&mut self.sizes, &size, is_new);
            changed |= is_edge && (was_least || is_least(self));
        }
        count(&mut self.cpus, &spec.cpu_milli, is_new);
        changed || most != self.most_units()
    }

    /// Of the machines with this model and number of GPUs, the size with the least CPU.
    fn least_of(&self, size: &(u8, u8, u32)) -> Option<&(u8, u8, u32)> {
        let from = (size.0, size.1, 0);
        let mut sizes = self.sizes.range_from(std::ops::Bound::Included(&from));
        let first = sizes.next().map(|(size, _)| size);
        first.filter(|it| (it.0, it.1) == (size.0, size.1))
    }

    /// The most CPU of a machine, in units of the tables.
    fn most_units(&self) -> u16 {
        cpu_units_floor(self.cpus.last().map_or(0, |(cpu, _)| *cpu))
    }

    fn kinds(&self) -> KindIndex {
        KindIndex::of_kinds(self.kinds.keys().copied().collect())
    }

    /// What is expected of `cluster`: work like `work`, and what its machines let expect.
    pub(super) fn burden(&self, cluster: &Cluster, work: &WorkloadProfile) -> Burden {
        let sizes = self.sizes.keys().copied();
        let mut profile = WorkloadProfile::prior(sizes, work);
        profile.join_seen(work);
        Burden::new(cluster, &profile)
    }
}

impl Stock {
    /// The machines of offers came, changed (what they held must have been given back) or, without a machine, went: as if
    /// the stock was built anew.
    ///
    /// Work is done for each change, and for all machines only if some kind is new or gone; whether that was so, and prices
    /// are of other work.
    pub fn change<'a>(
        &mut self,
        changes: impl Iterator<Item = (OfferId, Option<&'a Machine>)>,
        work: &WorkloadProfile,
    ) -> bool {
        let mut is_other = false;
        for (offer, machine) in changes {
            let spec = machine.map(node_spec);
            let node = self.node(&offer);
            if node.map(|node| *self.cluster.spec(node)) == spec {
                continue;
            }
            if let Some(node) = node {
                is_other |= self.drop_machine(&offer, node);
            }
            if let Some(spec) = spec {
                is_other |= self.add_machine(offer, spec);
            }
        }
        if is_other {
            self.cluster.set_kinds(self.census.kinds());
            self.burden = self.census.burden(&self.cluster, work);
        }
        is_other
    }

    /// Whether a lease holds or booked something.
    #[must_use]
    pub fn has(&self, lease: &LeaseId) -> bool {
        self.places.get(lease).is_some() || self.bookings.contains_key(lease)
    }

    fn add_machine(&mut self, offer: OfferId, spec: NodeSpec) -> bool {
        let is_other = self.census.count(&spec, true);
        let node = self.cluster.push(spec);
        std::sync::Arc::make_mut(&mut self.offers).push(offer);
        self.nodes.insert(offer, node);
        let shape = Shape::of(&self.cluster, node);
        self.burden.count(&shape, spec.gpu_count, true);
        is_other
    }

    fn drop_machine(&mut self, offer: &OfferId, node: NodeIndex) -> bool {
        let held: Vec<_> = self.holders(offer).collect();
        held.iter().for_each(|lease| self.give_back(lease));
        let spec = *self.cluster.spec(node);
        let shape = Shape::of(&self.cluster, node);
        self.burden.count(&shape, spec.gpu_count, false);
        let is_other = self.census.count(&spec, false);
        self.cluster.swap_remove(node);
        self.nodes.remove(offer);
        let offers = std::sync::Arc::make_mut(&mut self.offers);
        offers.swap_remove(node.0 as usize);
        // The last machine has its number now.
        if let Some(moved) = offers.get(node.0 as usize).copied() {
            self.nodes.insert(moved, node);
            if self.running.get(&moved).is_some() {
                let running = std::sync::Arc::make_mut(self.running.entry_or_default(moved));
                for (lease, (allocation, _)) in running.iter_mut() {
                    *allocation = allocation.on(node);
                    self.places.insert(*lease, node);
                }
            }
        }
        is_other
    }
}

impl PartialEq for Stock {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            cluster: _,
            offers: _,
            nodes,
            census,
            running: _,
            places: _,
            booked,
            bookings: _,
            burden,
        } = self;
        // Of what runs, all but the number of the machine.
        let alone = NodeIndex(0);
        let machine = |stock: &Self, offer: &OfferId| {
            let node = stock.node(offer)?;
            let running = stock.running_on(node);
            let running: Vec<_> = running
                .map(|(lease, allocation, until)| (*lease, allocation.on(alone), until))
                .collect();
            let (spec, free) = (stock.cluster.spec(node), stock.cluster.free(node));
            Some((*spec, *free, running))
        };
        nodes.len() == other.nodes.len()
            && *census == other.census
            && *booked == other.booked
            && *burden == other.burden
            && nodes
                .keys()
                .all(|offer| machine(self, offer) == machine(other, offer))
    }
}

impl Eq for Stock {}
