//! Machines that look alike to the cost of a placement.

use crate::cluster::{Cluster, GPUS_PER_NODE_MAX, NodeIndex, Request, WHOLE_GPU};
use crate::mig::{ALL_FREE, MigModel};
use crate::packing::units::{cpu_units_ceil, cpu_units_floor};

/// What the cost of a placement sees of a machine: its kind, its free CPU in whole units, and the free compute of
/// its GPUs in falling order. Of GPUs that are cut into partitions it sees the free memory slices instead of the free
/// compute: eight bits, all set for a GPU that is free, so that these too come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Kind of the machine.
    pub kind: u16,
    /// Free CPU in units, rounded down.
    pub cpu_units: u16,
    /// The model of partitions, where GPUs are cut; follows from the kind.
    pub mig: Option<MigModel>,
    /// Free compute of each GPU ([`Cluster::slot`]), falling.
    pub gpu_milli: [u16; GPUS_PER_NODE_MAX],
}

impl Shape {
    /// A machine of kind 0 with nothing free.
    pub const NOTHING: Self = Self {
        kind: 0,
        cpu_units: 0,
        mig: None,
        gpu_milli: [0; GPUS_PER_NODE_MAX],
    };

    /// The shape of `node` as it is now.
    #[must_use]
    pub fn of(cluster: &Cluster, node: NodeIndex) -> Self {
        let free = cluster.free(node);
        let mig = cluster.spec(node).gpu.mig();
        let mut gpu_milli = match mig {
            None => free.gpu_milli,
            Some(_) => free.mig_free.map(u16::from),
        };
        gpu_milli.sort_unstable_by(|left, right| right.cmp(left));
        Self {
            kind: cluster.kind(node) as u16,
            mig,
            cpu_units: cpu_units_floor(free.cpu_milli),
            gpu_milli,
        }
    }

    /// What a GPU that is free shows.
    const fn whole(&self) -> u16 {
        match self.mig {
            None => WHOLE_GPU,
            Some(_) => ALL_FREE as u16,
        }
    }

    /// All of it in one number: two shapes have the same only if they are the same.
    #[must_use]
    pub fn pack(&self) -> u128 {
        let mut packed = u128::from(self.kind) << 16 | u128::from(self.cpu_units);
        for milli in self.gpu_milli {
            packed = packed << 10 | u128::from(milli);
        }
        packed
    }

    /// The shape after `request` took a part of the device with `milli` free (fractions), whole devices, or CPU only.
    /// CPU is rounded against the request. The caller has checked that it fits.
    #[must_use]
    pub fn after(&self, request: &Request, milli: u16) -> Self {
        let mut after = *self;
        after.cpu_units = self
            .cpu_units
            .saturating_sub(cpu_units_ceil(request.cpu_milli()));
        if request.is_fraction() {
            let left = self.left_on(request, milli).unwrap_or(0);
            if let Some(position) = after.gpu_milli.iter().position(|it| *it == milli) {
                let mut position = position;
                while position + 1 < GPUS_PER_NODE_MAX && after.gpu_milli[position + 1] > left {
                    after.gpu_milli[position] = after.gpu_milli[position + 1];
                    position += 1;
                }
                after.gpu_milli[position] = left;
            }
        } else if request.gpus() > 0 {
            let count = usize::from(request.gpus());
            after.gpu_milli.copy_within(count.., 0);
            for milli in &mut after.gpu_milli[GPUS_PER_NODE_MAX - count..] {
                *milli = 0;
            }
        }
        after
    }

    /// What is left of a device with `milli` free when `request`, a fraction, took its part; `None` if it does not
    /// fit. A partition goes to its [best place](crate::mig::MigProfile::best_start).
    fn left_on(&self, request: &Request, milli: u16) -> Option<u16> {
        let Some(model) = self.mig else {
            return milli.checked_sub(request.gpu_milli());
        };
        let profile = request.profile_on(model)?;
        let start = profile.best_start(milli as u8)?;
        Some(milli & !u16::from(profile.mask(start)))
    }

    /// The distinct amounts of free compute on a device that `request` could be served from: one for each way to
    /// place it that differs in cost. Empty if the GPUs do not suffice.
    pub fn choices(&self, request: &Request) -> impl Iterator<Item = u16> + use<> {
        let mut found = [None; GPUS_PER_NODE_MAX];
        let count = usize::from(request.gpus());
        if count == 0 {
            found[0] = Some(0);
        } else if request.is_fraction() {
            let mut last = None;
            for (slot, milli) in found.iter_mut().zip(self.gpu_milli) {
                if last != Some(milli) && self.left_on(request, milli).is_some() {
                    *slot = Some(milli);
                    last = Some(milli);
                }
            }
        } else if self.gpu_milli[count - 1] >= self.whole() {
            found[0] = Some(request.gpu_milli());
        }
        found.into_iter().flatten()
    }
}
