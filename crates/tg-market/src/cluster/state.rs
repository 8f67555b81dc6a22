//! What is free on every machine; taking and giving back.

use super::filter::KindIndex;
use super::spec::{GPUS_PER_NODE_MAX, NodeSpec, Request, WHOLE_GPU};

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
}

impl NodeFree {
    fn of(spec: &NodeSpec) -> Self {
        let mut free = Self {
            cpu_milli: spec.cpu_milli,
            memory_mib: spec.memory_mib,
            disk_gib: spec.disk_gib,
            gpu_milli: [0; GPUS_PER_NODE_MAX],
            gpu_memory_mib: [0; GPUS_PER_NODE_MAX],
        };
        for device in 0..usize::from(spec.gpu_count).min(GPUS_PER_NODE_MAX) {
            free.gpu_milli[device] = WHOLE_GPU;
            free.gpu_memory_mib[device] = spec.gpu.memory_mib;
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
}

/// What one job holds of one machine. Only [`Cluster::allocate`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocation {
    node: NodeIndex,
    devices: u8,
    request: Request,
    gpu_memory_mib: u32,
}

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

    /// What was asked for.
    #[must_use]
    pub const fn request(&self) -> &Request {
        &self.request
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
    specs: Vec<NodeSpec>,
    free: Vec<NodeFree>,
    kinds: KindIndex,
    kind_of: Vec<u16>,
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
            specs,
            kinds,
            kind_of,
        }
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
    pub const fn kinds(&self) -> &KindIndex {
        &self.kinds
    }

    /// GPU compute of all machines, in thousandths of a GPU.
    #[must_use]
    pub fn gpu_milli_capacity(&self) -> u64 {
        let gpus: u64 = self.specs.iter().map(|it| u64::from(it.gpu_count)).sum();
        gpus * u64::from(WHOLE_GPU)
    }

    /// Whether the devices of `node` can serve `request`, and which: for a fraction one with exactly
    /// `preferred_milli` free (any that suffices if `None`), with the least memory left; for whole GPUs the first.
    /// Host resources and fixed needs are not looked at.
    #[must_use]
    pub fn devices_for(
        &self,
        node: NodeIndex,
        request: &Request,
        preferred_milli: Option<u16>,
    ) -> Option<u8> {
        let free = self.free(node);
        let memory = request.gpu_memory_on(self.spec(node).gpu.memory_mib);
        let serves = |device: &usize| {
            let milli = free.gpu_milli[*device];
            milli >= request.gpu_milli()
                && free.gpu_memory_mib[*device] >= memory
                && preferred_milli.is_none_or(|preferred| preferred == milli)
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
        let spec = self
            .specs
            .get(node.0 as usize)
            .ok_or(AllocateError::UnknownNode(node.0))?;
        let gpu_memory_mib = request.gpu_memory_on(spec.gpu.memory_mib);
        let free = &mut self.free[node.0 as usize];
        if !free.fits_host(request) {
            return Err(AllocateError::Host);
        }
        if devices.count_ones() != u32::from(request.gpus()) {
            return Err(AllocateError::Devices);
        }
        let allocation = Allocation {
            node,
            devices,
            request: *request,
            gpu_memory_mib,
        };
        for device in allocation.devices() {
            if device >= usize::from(spec.gpu_count) {
                return Err(AllocateError::Devices);
            }
            if free.gpu_milli[device] < request.gpu_milli()
                || free.gpu_memory_mib[device] < gpu_memory_mib
            {
                return Err(AllocateError::Gpu {
                    device: device as u8,
                });
            }
        }
        free.cpu_milli -= request.cpu_milli();
        free.memory_mib -= request.memory_mib();
        free.disk_gib -= request.disk_gib();
        for device in allocation.devices() {
            free.gpu_milli[device] -= request.gpu_milli();
            free.gpu_memory_mib[device] -= gpu_memory_mib;
        }
        Ok(allocation)
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
        for device in allocation.devices() {
            free.gpu_milli[device] += request.gpu_milli();
            free.gpu_memory_mib[device] += allocation.gpu_memory_mib;
            within &= free.gpu_milli[device] <= WHOLE_GPU
                && free.gpu_memory_mib[device] <= spec.gpu.memory_mib;
        }
        assert!(within, "an allocation was given back twice");
    }
}
