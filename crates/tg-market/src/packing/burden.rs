//! What a placement takes from the work to come, for machines that change one at a time: the cost of
//! [`super::index`] without its heaps, for markets where every offer is looked at anyway, as prices and risks differ.
//!
//! The usable compute of each group is kept up to date with the machines, and prices follow from it alone: what was
//! kept up to date and what is built anew from the same machines is equal, and there is no anchor to store.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::{Cluster, NodeIndex};
use crate::packing::price::{PRICE_UNIT_BITS, PriceBook};
use crate::packing::profile::WorkloadProfile;
use crate::packing::shape::Shape;
use crate::packing::table::{PricedTables, Tables};

/// The cost of a placement in [`PricedTables`] that takes one thousandth of a GPU from all work, while none is scarce.
pub const MILLI_COST: i64 = 1 << (16 + PRICE_UNIT_BITS);

/// The usable compute of a cluster for the work that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Burden {
    tables: Arc<Tables>,
    usable: Vec<i64>,
    capacity_milli: u64,
}

impl Burden {
    /// The usable compute of `cluster` as it is, for work like `profile`.
    #[must_use]
    pub fn new(cluster: &Cluster, profile: &WorkloadProfile) -> Self {
        let most = cluster.nodes().map(|node| cluster.spec(node).cpu_milli);
        let tables = Tables::new(profile, cluster.kinds(), most.max().unwrap_or(0));
        let mut shapes: BTreeMap<Shape, i64> = BTreeMap::new();
        for node in cluster.nodes() {
            *shapes.entry(Shape::of(cluster, node)).or_default() += 1;
        }
        let mut usable = vec![0; tables.groups().len()];
        for (shape, machines) in shapes {
            for (group, value) in tables.values(&shape) {
                usable[usize::from(group)] += value * machines;
            }
        }
        Self {
            tables: Arc::new(tables),
            usable,
            capacity_milli: cluster.gpu_milli_capacity(),
        }
    }

    /// One machine looked like `before`, and is now as it is in `cluster`.
    pub fn moved(&mut self, before: &Shape, cluster: &Cluster, node: NodeIndex) {
        let after = Shape::of(cluster, node);
        if after == *before {
            return;
        }
        for (group, value) in self.tables.values(before) {
            self.usable[usize::from(group)] -= value;
        }
        for (group, value) in self.tables.values(&after) {
            self.usable[usize::from(group)] += value;
        }
    }

    /// What each machine offers to the work to come, at the prices that follow from what is usable now.
    #[must_use]
    pub fn priced(&self) -> PricedTables {
        let book = PriceBook::new(&self.tables, self.capacity_milli, self.usable.clone());
        self.tables.priced(book.prices())
    }
}
