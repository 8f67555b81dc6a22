//! What is free on every machine; taking and giving back.

use std::sync::Arc;

use super::filter::KindIndex;
use super::spec::{
    DeviceDemand, GPUS_PER_NODE_MAX, Isolation, NodeSpec, Request, Sharing, WHOLE_GPU,
};
use crate::mig::{ALL_FREE, MigInstance, MigModel, MigProfile};

/// A machine of a [`Cluster`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// What is free on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeFree {
    /// Thousandths of a CPU core.
    pub cpu_milli: u32,
    /// RAM in MiB.
    pub memory_mib: u32,
    /// Disk in GiB.
    pub disk_gib: u32,
    /// Compute of each GPU, in thousandths; 0 beyond the last.
    pub gpu_milli: [u16; GPUS_PER_NODE_MAX],
    /// Memory of each GPU in MiB.
    pub gpu_memory_mib: [u32; GPUS_PER_NODE_MAX],
    /// Memory slices of each GPU that no partition and no holder of the whole GPU covers, a bit for each. Jobs that
    /// share by MPS or time slices cover none.
    pub mig_free: [u8; GPUS_PER_NODE_MAX],
}

impl NodeFree {
    fn of(spec: &NodeSpec) -> Self {
        let mut free = Self {
            cpu_milli: spec.cpu_milli,
            memory_mib: spec.memory_mib,
            disk_gib: spec.disk_gib,
            gpu_milli: [0; GPUS_PER_NODE_MAX],
            gpu_memory_mib: [0; GPUS_PER_NODE_MAX],
            mig_free: [0; GPUS_PER_NODE_MAX],
        };
        for device in 0..usize::from(spec.gpu_count).min(GPUS_PER_NODE_MAX) {
            free.gpu_milli[device] = WHOLE_GPU;
            free.gpu_memory_mib[device] = spec.gpu.memory_mib;
            free.mig_free[device] = ALL_FREE;
        }
        free
    }

    /// Whether CPU, RAM and disk suffice for `request`.
    #[must_use]
    pub const fn fits_host(&self, request: &Request) -> bool {
        self.cpu_milli >= request.cpu_milli()
            && self.memory_mib >= request.memory_mib()
            && self.disk_gib >= request.disk_gib()
    }

    /// Whether `device` has what `demand` takes.
    fn has(&self, device: usize, demand: &DeviceDemand) -> bool {
        let free = self.mig_free[device];
        self.gpu_milli[device] >= demand.milli
            && self.gpu_memory_mib[device] >= demand.memory_mib
            && demand
                .profile
                .is_none_or(|profile| profile.best_start(free).is_some())
    }
}

/// What one job holds of one machine. Only [`Cluster::allocate`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocation {
    node: NodeIndex,
    devices: u8,
    request: Request,
    gpu_milli: u16,
    gpu_memory_mib: u32,
    mig: Option<MigInstance>,
}

/// How a job holds its GPUs: what the provider sets up and enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grant {
    /// It has none.
    NoGpu,
    /// All of each.
    Whole,
    /// A hardware partition of one.
    Mig {
        /// Of which model.
        model: MigModel,
        /// Which one.
        instance: MigInstance,
    },
    /// A share of the multiprocessors of one under MPS.
    Mps {
        /// Thousandths of the multiprocessors.
        share_milli: u16,
        /// Most device memory, in MiB.
        memory_mib: u32,
    },
    /// A turn on one in every [`TIME_SLICE_PERIOD_US`].
    TimeSlice {
        /// Length of the turn in microseconds.
        quantum_us: u32,
        /// Most device memory, in MiB.
        memory_mib: u32,
    },
}

/// Everybody on a time-sliced GPU gets one turn in so many microseconds: long against a switch (some hundred
/// microseconds), short against what a person notices.
pub const TIME_SLICE_PERIOD_US: u32 = 100_000;

impl Allocation {
    /// The machine.
    #[must_use]
    pub const fn node(&self) -> NodeIndex {
        self.node
    }

    /// The GPUs it holds (parts of), by index on the machine.
    pub fn devices(&self) -> impl Iterator<Item = usize> + use<> {
        let mask = self.devices;
        (0..GPUS_PER_NODE_MAX).filter(move |device| mask >> device & 1 == 1)
    }

    /// The same on a machine that has another number now.
    pub(crate) const fn on(self, node: NodeIndex) -> Self {
        Self { node, ..self }
    }

    /// What was asked for.
    #[must_use]
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Thousandths of each GPU that it holds: what was asked for, or what its partition has.
    #[must_use]
    pub const fn gpu_milli(&self) -> u16 {
        self.gpu_milli
    }

    /// Memory of each GPU that it holds, in MiB.
    #[must_use]
    pub const fn gpu_memory_mib(&self) -> u32 {
        self.gpu_memory_mib
    }

    /// Its hardware partition, if that is how it shares its GPU.
    #[must_use]
    pub const fn mig(&self) -> Option<MigInstance> {
        self.mig
    }

    /// The memory slices of its GPUs that it covers: all of a whole GPU, else those of its partition, if any.
    fn mig_slices(&self) -> u8 {
        if self.request.is_fraction() {
            self.mig.map_or(0, MigInstance::mask)
        } else {
            ALL_FREE
        }
    }
}

/// Why an allocation was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// There is no such machine.
    #[error("there is no machine {0}")]
    UnknownNode(u32),
    /// CPU, RAM or disk does not suffice.
    #[error("the machine has too little cpu, memory or disk left")]
    Host,
    /// The named devices are not as many as were asked for, or do not exist.
    #[error("the devices do not match the request")]
    Devices,
    /// The machine does not share GPUs, or not with the isolation that was asked for.
    #[error("the machine does not share its gpus with {isolation:?} isolation")]
    Sharing {
        /// What was asked for.
        isolation: Isolation,
    },
    /// A device has too little compute or memory left.
    #[error("gpu {device} has too little left")]
    Gpu {
        /// Which one.
        device: u8,
    },
}

/// All machines with what is free on them.
#[derive(Debug, Clone)]
pub struct Cluster {
    specs: Arc<Vec<NodeSpec>>,
    free: Vec<NodeFree>,
    kinds: Arc<KindIndex>,
    kind_of: Arc<Vec<u16>>,
}

impl PartialEq for Cluster {
    fn eq(&self, other: &Self) -> bool {
        self.specs == other.specs && self.free == other.free
    }
}

impl Eq for Cluster {}

impl Cluster {
    /// Empty machines. GPUs beyond [`GPUS_PER_NODE_MAX`] of one machine are not used.
    #[must_use]
    pub fn new(specs: Vec<NodeSpec>) -> Self {
        let kinds = KindIndex::new(&specs);
        let kind_of = specs
            .iter()
            .map(|spec| kinds.kind_of(spec).unwrap_or(0) as u16)
            .collect();
        Self {
            free: specs.iter().map(NodeFree::of).collect(),
            specs: Arc::new(specs),
            kinds: Arc::new(kinds),
            kind_of: Arc::new(kind_of),
        }
    }

    /// Adds an empty machine, of one of the kinds that are known.
    pub(crate) fn push(&mut self, spec: NodeSpec) -> NodeIndex {
        self.free.push(NodeFree::of(&spec));
        let kind = self.kinds.kind_of(&spec).unwrap_or(0) as u16;
        Arc::make_mut(&mut self.kind_of).push(kind);
        Arc::make_mut(&mut self.specs).push(spec);
        NodeIndex(self.specs.len() as u32 - 1)
    }

    /// Takes a machine away; the last one has its number then.
    ///
    /// # Panics
    /// If `node` is not of this cluster.
    pub(crate) fn swap_remove(&mut self, node: NodeIndex) {
        let at = node.0 as usize;
        self.free.swap_remove(at);
        Arc::make_mut(&mut self.kind_of).swap_remove(at);
        Arc::make_mut(&mut self.specs).swap_remove(at);
    }

    /// Numbers the kinds anew, after machines of others came or the last ones of some went.
    pub(crate) fn set_kinds(&mut self, kinds: KindIndex) {
        // Most kinds have only moved by some places.
        let moved = self.kinds.places_in(&kinds);
        let kind_of = |(spec, before): (&NodeSpec, &u16)| {
            let now = moved.get(usize::from(*before)).copied();
            let now = now.filter(|it| kinds.is_of(usize::from(*it), spec));
            now.unwrap_or_else(|| kinds.kind_of(spec).unwrap_or(0) as u16)
        };
        let machines = self.specs.iter().zip(self.kind_of.iter());
        self.kind_of = Arc::new(machines.map(kind_of).collect());
        self.kinds = Arc::new(kinds);
    }

    /// How many machines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Every machine.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0..self.specs.len() as u32).map(NodeIndex)
    }

    /// What `node` has.
    ///
    /// # Panics
    /// If `node` is not of this cluster.
    #[must_use]
    pub fn spec(&self, node: NodeIndex) -> &NodeSpec {
        &self.specs[node.0 as usize]
    }

    /// What is free on `node`.
    ///
    /// # Panics
    /// If `node` is not of this cluster.
    #[must_use]
    pub fn free(&self, node: NodeIndex) -> &NodeFree {
        &self.free[node.0 as usize]
    }

    /// The kind of `node`.
    ///
    /// # Panics
    /// If `node` is not of this cluster.
    #[must_use]
    pub fn kind(&self, node: NodeIndex) -> usize {
        usize::from(self.kind_of[node.0 as usize])
    }

    /// The kinds of machine and their filters.
    #[must_use]
    pub fn kinds(&self) -> &KindIndex {
        &self.kinds
    }

    /// GPU compute of all machines, in thousandths of a GPU.
    #[must_use]
    pub fn gpu_milli_capacity(&self) -> u64 {
        let gpus: u64 = self.specs.iter().map(|it| u64::from(it.gpu_count)).sum();
        gpus * u64::from(WHOLE_GPU)
    }

    /// What tells the devices of `node` apart for a fraction: compute free in thousandths, or, where fractions are
    /// partitions, the free memory slices, a bit for each.
    ///
    /// # Panics
    /// If there is no such device.
    #[must_use]
    pub fn slot(&self, node: NodeIndex, device: usize) -> u16 {
        let free = self.free(node);
        match self.spec(node).gpu.mig() {
            None => free.gpu_milli[device],
            Some(_) => u16::from(free.mig_free[device]),
        }
    }

    /// Whether `device` of `node` has what `request` takes of one device. Host resources and fixed needs are not
    /// looked at.
    #[must_use]
    pub fn device_serves(&self, node: NodeIndex, device: usize, request: &Request) -> bool {
        let demand = self.spec(node).gpu.demand(request);
        device < GPUS_PER_NODE_MAX && demand.is_some_and(|it| self.free(node).has(device, &it))
    }

    /// How many parts like what `request` takes of one device `device` of `node` can still give.
    #[cfg(test)]
    pub(crate) fn device_room(&self, node: NodeIndex, device: usize, request: &Request) -> u32 {
        let Some(demand) = self.spec(node).gpu.demand(request) else {
            return 0;
        };
        let free = self.free(node);
        let times = |have: u32, need: u32| have.checked_div(need).unwrap_or(u32::MAX);
        let compute = match demand.profile {
            Some(profile) => u32::from(profile.count_in(free.mig_free[device])),
            None => times(u32::from(free.gpu_milli[device]), u32::from(demand.milli)),
        };
        compute.min(times(free.gpu_memory_mib[device], demand.memory_mib))
    }

    /// Whether the devices of `node` can serve `request`, and which: for a fraction one whose [`Self::slot`] is
    /// `preferred_slot` (any that suffices if `None`), with the least memory left; for whole GPUs the first.
    /// Host resources and fixed needs are not looked at.
    #[must_use]
    pub fn devices_for(
        &self,
        node: NodeIndex,
        request: &Request,
        preferred_slot: Option<u16>,
    ) -> Option<u8> {
        let free = self.free(node);
        let demand = self.spec(node).gpu.demand(request)?;
        let serves = |device: &usize| {
            free.has(*device, &demand)
                && preferred_slot.is_none_or(|preferred| preferred == self.slot(node, *device))
        };
        match request.gpus() {
            0 => Some(0),
            1 if request.is_fraction() => (0..GPUS_PER_NODE_MAX)
                .filter(serves)
                .min_by_key(|device| (free.gpu_memory_mib[*device], *device))
                .map(|device| 1 << device),
            count => {
                let mut mask = 0_u8;
                let mut found = 0;
                for device in (0..GPUS_PER_NODE_MAX).filter(serves) {
                    if found < count {
                        mask |= 1 << device;
                        found += 1;
                    }
                }
                (found == count).then_some(mask)
            }
        }
    }

    /// Whether `node` could take `request` now.
    #[must_use]
    pub fn fits(&self, node: NodeIndex, request: &Request) -> bool {
        self.free(node).fits_host(request)
            && self.kinds.filter(request).contains(self.kind(node))
            && self.devices_for(node, request, None).is_some()
    }

    /// The partition that `request` would take of the first of `devices` of `node`; `None` if it takes none, or has no
    /// place there.
    #[must_use]
    pub fn partition(
        &self,
        node: NodeIndex,
        devices: u8,
        request: &Request,
    ) -> Option<MigInstance> {
        let profile = self.spec(node).gpu.demand(request)?.profile?;
        let slices = self.free(node).mig_free;
        let start = profile.best_start(*slices.get(devices.trailing_zeros() as usize)?)?;
        Some(MigInstance { profile, start })
    }

    /// Takes what `request` asks for on `devices` (a bit for each) of `node`. Fixed needs are the caller's matter.
    ///
    /// # Errors
    /// If something does not suffice; then nothing is taken.
    pub fn allocate(
        &mut self,
        node: NodeIndex,
        devices: u8,
        request: &Request,
    ) -> Result<Allocation, AllocateError> {
        self.allocate_at(node, devices, request, None)
    }

    /// As [`Self::allocate`], with the partition at a known place if `partition` names one.
    ///
    /// # Errors
    /// If something does not suffice or the partition is not what the request takes; then nothing is taken.
    pub fn allocate_at(
        &mut self,
        node: NodeIndex,
        devices: u8,
        request: &Request,
        partition: Option<MigInstance>,
    ) -> Result<Allocation, AllocateError> {
        let spec = self
            .specs
            .get(node.0 as usize)
            .ok_or(AllocateError::UnknownNode(node.0))?;
        let isolation = request.needs().isolation;
        if request.is_fraction() && !spec.gpu.sharing.serves_fraction(isolation) {
            return Err(AllocateError::Sharing { isolation });
        }
        let free = &self.free[node.0 as usize];
        if !free.fits_host(request) {
            return Err(AllocateError::Host);
        }
        if devices.count_ones() != u32::from(request.gpus()) {
            return Err(AllocateError::Devices);
        }
        let first = devices.trailing_zeros() as usize;
        let too_little = |device: usize| AllocateError::Gpu {
            device: device as u8,
        };
        let demand = spec.gpu.demand(request).ok_or(too_little(first))?;
        let start = |profile: MigProfile| {
            let start = profile.best_start(*free.mig_free.get(first)?)?;
            Some(MigInstance { profile, start })
        };
        if let Some(MigInstance { profile, start }) = partition {
            let slices = free.mig_free.get(first).copied().unwrap_or(0);
            if demand.profile != Some(profile) || !profile.fits_at(slices, start) {
                return Err(too_little(first));
            }
        }
        let allocation = Allocation {
            node,
            devices,
            request: *request,
            gpu_milli: demand.milli,
            gpu_memory_mib: demand.memory_mib,
            mig: partition.or_else(|| demand.profile.and_then(start)),
        };
        for device in allocation.devices() {
            if device >= usize::from(spec.gpu_count) {
                return Err(AllocateError::Devices);
            }
            if !free.has(device, &demand) {
                return Err(too_little(device));
            }
        }
        self.take(&allocation);
        Ok(allocation)
    }

    /// Takes what is known to be free.
    fn take(&mut self, allocation: &Allocation) {
        let free = &mut self.free[allocation.node.0 as usize];
        free.cpu_milli -= allocation.request.cpu_milli();
        free.memory_mib -= allocation.request.memory_mib();
        free.disk_gib -= allocation.request.disk_gib();
        let slices = allocation.mig_slices();
        for device in allocation.devices() {
            free.gpu_milli[device] -= allocation.gpu_milli;
            free.gpu_memory_mib[device] -= allocation.gpu_memory_mib;
            free.mig_free[device] &= !slices;
        }
    }

    /// How `allocation` holds its GPUs.
    #[must_use]
    pub fn grant(&self, allocation: &Allocation) -> Grant {
        let share_milli = allocation.gpu_milli;
        let memory_mib = allocation.gpu_memory_mib;
        if allocation.request.gpus() == 0 {
            return Grant::NoGpu;
        }
        if !allocation.request.is_fraction() {
            return Grant::Whole;
        }
        match (self.spec(allocation.node).gpu.sharing, allocation.mig) {
            (Sharing::Mig(model), Some(instance)) => Grant::Mig { model, instance },
            (Sharing::Mps, _) => Grant::Mps {
                share_milli,
                memory_mib,
            },
            // `allocate` makes no fraction of GPUs that are not shared.
            (Sharing::TimeSlice | Sharing::WholeOnly | Sharing::Mig(_), _) => Grant::TimeSlice {
                quantum_us: TIME_SLICE_PERIOD_US / u32::from(WHOLE_GPU) * u32::from(share_milli),
                memory_mib,
            },
        }
    }

    /// Gives back what `allocation` holds.
    ///
    /// # Panics
    /// If more would be free than the machine has: the allocation is of another cluster or was given back before.
    pub fn release(&mut self, allocation: &Allocation) {
        let spec = &self.specs[allocation.node.0 as usize];
        let free = &mut self.free[allocation.node.0 as usize];
        let request = &allocation.request;
        free.cpu_milli += request.cpu_milli();
        free.memory_mib += request.memory_mib();
        free.disk_gib += request.disk_gib();
        let mut within = free.cpu_milli <= spec.cpu_milli
            && free.memory_mib <= spec.memory_mib
            && free.disk_gib <= spec.disk_gib;
        let slices = allocation.mig_slices();
        for device in allocation.devices() {
            within &= free.mig_free[device] & slices == 0;
            free.gpu_milli[device] += allocation.gpu_milli;
            free.gpu_memory_mib[device] += allocation.gpu_memory_mib;
            free.mig_free[device] |= slices;
            within &= free.gpu_milli[device] <= WHOLE_GPU
                && free.gpu_memory_mib[device] <= spec.gpu.memory_mib;
        }
        assert!(within, "an allocation was given back twice");
    }
}
