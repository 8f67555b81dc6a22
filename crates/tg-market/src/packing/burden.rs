//! What a placement takes from the work to come, for machines that change one at a time.
//!
//! The usable compute of each group is kept up to date with the machines: what was kept up to date and what is built
//! anew from the same machines is equal. Prices follow from it, or from what it was when they were set
//! ([`UsableAnchor`]), which is for the state to keep.

use std::sync::Arc;

use tg_types::{Decode, DecodeError, Encode, Reader, Writer};

use crate::cluster::{Cluster, GPUS_PER_NODE_MAX, NodeIndex, WHOLE_GPU};
use crate::packing::price::{PRICE_UNIT_BITS, PriceBook};
use crate::packing::profile::{WORK_CLASSES_MAX, WorkloadProfile};
use crate::packing::shape::Shape;
use crate::packing::table::{PricedTables, Tables};

/// The cost of a placement in [`PricedTables`] that takes one thousandth of a GPU from all work, while none is scarce.
pub const MILLI_COST: i64 = 1 << (16 + PRICE_UNIT_BITS);

/// What prices were set from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsableAnchor {
    /// Names the work that was expected.
    work: u64,
    /// GPU compute of all machines, in thousandths.
    capacity_milli: u64,
    /// What of it was usable for each group of work.
    usable: Vec<i64>,
}

/// Most groups of work: the classes of a profile, and for each model and size of machine single GPUs and all of them.
const GROUPS_MAX: usize = WORK_CLASSES_MAX + 2 * 64 * GPUS_PER_NODE_MAX;

impl Encode for UsableAnchor {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            work,
            capacity_milli,
            usable,
        } = self;
        writer.u64(*work);
        writer.u64(*capacity_milli);
        writer.count(usable.len());
        usable.iter().for_each(|it| writer.i64(*it));
    }
}

impl Decode for UsableAnchor {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (work, capacity_milli) = (reader.u64()?, reader.u64()?);
        let groups = reader.count("groups of work", GROUPS_MAX, 8)?;
        let usable = (0..groups)
            .map(|_| reader.i64())
            .collect::<Result<_, _>>()?;
        Ok(Self {
            work,
            capacity_milli,
            usable,
        })
    }
}

/// The usable compute of a cluster for the work that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Burden {
    tables: Arc<Tables>,
    /// Names the groups of work, their weights and needs.
    work: u64,
    usable: Vec<i64>,
    capacity_milli: u64,
}

impl Burden {
    /// The usable compute of `cluster` as it is, for work like `profile`.
    #[must_use]
    pub fn new(cluster: &Cluster, profile: &WorkloadProfile) -> Self {
        let most = cluster.nodes().map(|node| cluster.spec(node).cpu_milli);
        let tables = Tables::new(profile, cluster.kinds(), most.max().unwrap_or(0));
        // Machines of kinds that serve the same, and look alike, are worth the same.
        let shape = |node| {
            let shape = Shape::of(cluster, node);
            Shape {
                kind: tables.first_like(shape.kind),
                ..shape
            }
        };
        let mut shapes: Vec<Shape> = cluster.nodes().map(shape).collect();
        shapes.sort_unstable();
        let mut usable = vec![0; tables.groups().len()];
        for alike in shapes.chunk_by(|left, right| left == right) {
            for (group, value) in tables.values(&alike[0]) {
                usable[usize::from(group)] += value * alike.len() as i64;
            }
        }
        Self {
            work: tables.work(),
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

    /// A machine that looks like `shape`, with so many GPUs, came, or went.
    pub(crate) fn count(&mut self, shape: &Shape, gpus: u8, is_new: bool) {
        let capacity = u64::from(gpus) * u64::from(WHOLE_GPU);
        for (group, value) in self.tables.values(shape) {
            let usable = &mut self.usable[usize::from(group)];
            *usable += match is_new {
                true => value,
                false => -value,
            };
        }
        self.capacity_milli = match is_new {
            true => self.capacity_milli + capacity,
            false => self.capacity_milli - capacity,
        };
    }

    /// What each machine offers to the work to come, at the prices that follow from what is usable now.
    #[must_use]
    pub fn priced(&self) -> PricedTables {
        let book = self.book(self.capacity_milli, &self.usable);
        self.tables.priced(book.prices())
    }

    /// What prices are set from that are set now.
    #[must_use]
    pub fn anchor(&self) -> UsableAnchor {
        UsableAnchor {
            work: self.work,
            capacity_milli: self.capacity_milli,
            usable: self.usable.clone(),
        }
    }

    /// Whether the prices set from `anchor` stand: see [`PriceBook`].
    #[must_use]
    pub fn stands(&self, anchor: &UsableAnchor) -> bool {
        self.book_of(anchor)
            .is_some_and(|book| book.stands(&self.usable))
    }

    /// As [`Self::priced`], at the prices that were set from `anchor`; `None` if other work is expected now.
    #[must_use]
    pub fn priced_from(&self, anchor: &UsableAnchor) -> Option<PricedTables> {
        let book = self.book_of(anchor)?;
        Some(self.tables.priced(book.prices()))
    }

    fn book(&self, capacity_milli: u64, usable: &[i64]) -> PriceBook {
        let weights = self.tables.groups().iter().map(|it| it.weight);
        PriceBook::new(capacity_milli, weights, usable)
    }

    fn book_of(&self, anchor: &UsableAnchor) -> Option<PriceBook> {
        let UsableAnchor {
            work,
            capacity_milli,
            usable,
        } = anchor;
        let is_same = *work == self.work && usable.len() == self.usable.len();
        is_same.then(|| self.book(*capacity_milli, usable))
    }
}
