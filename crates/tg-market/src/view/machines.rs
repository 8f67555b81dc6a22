//! Machines that come, change and go, one at a time.
//!
//! What all machines together let expect of the work to come ([`super::census`]) changes rarely: when the first machine of a
//! kind comes, or the last one goes. Only then is anything looked at for every machine.

use tg_types::{LeaseId, Machine, OfferId};

use super::{Stock, node_spec};
use crate::cluster::{NodeIndex, NodeSpec};
use crate::packing::{Shape, WorkloadProfile};

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
