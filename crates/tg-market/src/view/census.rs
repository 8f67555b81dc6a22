//! How many machines there are of what tells expectations apart: one more or less changes what is expected only where it is
//! the first of a kind, or the last.

use crate::book::runs::Runs;
use crate::cluster::{Cluster, Kind, KindIndex, NodeSpec};
use crate::packing::units::cpu_units_floor;
use crate::packing::{Burden, WorkloadProfile};

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
    pub(super) fn count(&mut self, spec: &NodeSpec, is_new: bool) -> bool {
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

    pub(super) fn kinds(&self) -> KindIndex {
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
