//! Why a job waits: what excludes machines, what would let it run, and when.

use crate::cluster::{Allocation, Cluster, ModelSet, Needs, NodeIndex, Request, WHOLE_GPU};
use tg_types::TimestampMs;

/// One thing a request needs and a machine may lack. The first kind never changes for a machine, the second does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lack {
    /// The machine is in another region.
    Region = 0,
    /// Its GPU is of another model.
    Model = 1,
    /// Its compute capability is too low.
    Capability = 2,
    /// It has no tensor cores.
    TensorCores = 3,
    /// Its GPUs are joined too loosely.
    Interconnect = 4,
    /// It does not share GPUs, or not with this isolation.
    Isolation = 5,
    /// It has fewer GPUs.
    GpuCount = 6,
    /// Its GPUs have less memory.
    GpuMemory = 7,
    /// It has less CPU, RAM or disk even when empty.
    HostSize = 8,
    /// Too many of its GPUs are taken.
    GpuBusy = 9,
    /// Its CPU is taken.
    CpuBusy = 10,
    /// Its RAM is taken.
    MemoryBusy = 11,
    /// Its disk is taken.
    DiskBusy = 12,
}

impl Lack {
    /// Every one, in the order of its number.
    pub const ALL: [Self; 13] = [
        Self::Region,
        Self::Model,
        Self::Capability,
        Self::TensorCores,
        Self::Interconnect,
        Self::Isolation,
        Self::GpuCount,
        Self::GpuMemory,
        Self::HostSize,
        Self::GpuBusy,
        Self::CpuBusy,
        Self::MemoryBusy,
        Self::DiskBusy,
    ];

    /// What it means, as a sentence about the machine.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Region => "is in another region",
            Self::Model => "has another GPU model",
            Self::Capability => "has too low a compute capability",
            Self::TensorCores => "has no tensor cores",
            Self::Interconnect => "joins its GPUs too loosely",
            Self::Isolation => "does not share a GPU with this isolation",
            Self::GpuCount => "has fewer GPUs",
            Self::GpuMemory => "has GPUs with less memory",
            Self::HostSize => "has less CPU, RAM or disk",
            Self::GpuBusy => "has too many GPUs taken",
            Self::CpuBusy => "has its CPU taken",
            Self::MemoryBusy => "has its RAM taken",
            Self::DiskBusy => "has its disk taken",
        }
    }

    /// Whether it can pass when other jobs end.
    #[must_use]
    pub const fn passes(self) -> bool {
        self as u8 >= Self::GpuBusy as u8
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// One change of a request that would place it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relaxation {
    /// Run in any region.
    AnyRegion,
    /// Take any GPU model.
    AnyModel,
    /// Accept this compute capability.
    Capability(u16),
    /// Do without tensor cores.
    NoTensorCores,
    /// Accept any interconnect.
    AnyInterconnect,
    /// Accept time slices.
    AnyIsolation,
    /// Ask for this share of a GPU, in thousandths.
    GpuMilli(u16),
    /// Ask for this many GPUs.
    Gpus(u8),
    /// Ask for this much memory of each GPU, in MiB.
    GpuMemoryMib(u32),
    /// Ask for this much CPU, in thousandths of a core.
    CpuMilli(u32),
    /// Ask for this much RAM, in MiB.
    MemoryMib(u32),
    /// Ask for this much disk, in GiB.
    DiskGib(u32),
}

/// When a request may fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eta {
    /// Not before, if every job ends as early as it may and nobody else takes its place.
    pub earliest: TimestampMs,
    /// By then, if every job ends as late as it may and nobody else takes its place.
    pub latest: TimestampMs,
}

/// A running job with the interval in which it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// What it holds.
    pub allocation: Allocation,
    /// Earliest end.
    pub earliest: TimestampMs,
    /// Latest end.
    pub latest: TimestampMs,
}

/// Why a request is not placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// Machines looked at.
    pub machines: u32,
    /// Machines that could take it now.
    pub fitting: u32,
    /// Machines that could take it when empty.
    pub possible: u32,
    counts: [u32; Lack::ALL.len()],
    sole: [u32; Lack::ALL.len()],
    /// Single changes that would place it now, each the smallest of its kind.
    pub relaxations: Vec<Relaxation>,
}

impl Diagnosis {
    /// Machines that lack `lack`; one that lacks several things counts under each.
    #[must_use]
    pub const fn count(&self, lack: Lack) -> u32 {
        self.counts[lack as usize]
    }

    /// Machines that lack nothing but `lack`.
    #[must_use]
    pub const fn sole_count(&self, lack: Lack) -> u32 {
        self.sole[lack as usize]
    }

    /// What any machine lacks, with how many lack it.
    pub fn lacks(&self) -> impl Iterator<Item = (Lack, u32)> + '_ {
        Lack::ALL
            .into_iter()
            .map(|lack| (lack, self.count(lack)))
            .filter(|(_, count)| *count > 0)
    }
}

/// Looks at every machine of `cluster` from `request`.
#[must_use]
pub fn diagnose(cluster: &Cluster, request: &Request) -> Diagnosis {
    let mut diagnosis = Diagnosis {
        machines: 0,
        fitting: 0,
        possible: 0,
        counts: [0; Lack::ALL.len()],
        sole: [0; Lack::ALL.len()],
        relaxations: Vec::new(),
    };
    let mut relaxations = Vec::new();
    for node in cluster.nodes() {
        let lacks = lacks_of(cluster, node, request);
        diagnosis.machines += 1;
        diagnosis.fitting += u32::from(lacks == 0);
        let lasting = Lack::ALL.into_iter().filter(|lack| !lack.passes());
        let lasting = lasting.fold(0, |all, lack| all | lack.bit());
        diagnosis.possible += u32::from(lacks & lasting == 0);
        for lack in Lack::ALL {
            if lacks & lack.bit() != 0 {
                diagnosis.counts[lack as usize] += 1;
                if lacks == lack.bit() {
                    diagnosis.sole[lack as usize] += 1;
                }
            }
        }
        relaxations.extend(relaxations_on(cluster, node, request));
    }
    diagnosis.relaxations = smallest_of_each(relaxations);
    diagnosis
}

/// What `node` lacks, a bit for each. Empty exactly if the request fits.
fn lacks_of(cluster: &Cluster, node: NodeIndex, request: &Request) -> u16 {
    let spec = cluster.spec(node);
    let free = cluster.free(node);
    let needs = request.needs();
    let mut lacks = 0;
    let mut need = |lack: Lack, holds: bool| {
        if !holds {
            lacks |= lack.bit();
        }
    };
    need(
        Lack::Region,
        needs.region.is_none_or(|region| region == spec.region),
    );
    // A partition with as much memory may not exist.
    let demand = spec.gpu.demand(request);
    let memory_within = demand.is_some_and(|it| it.memory_mib <= spec.gpu.memory_mib);
    if request.gpus() > 0 {
        need(Lack::Model, needs.models.contains(spec.gpu.model));
        need(
            Lack::Capability,
            spec.gpu.capability >= needs.capability_min,
        );
        need(
            Lack::TensorCores,
            spec.gpu.tensor_cores || !needs.tensor_cores,
        );
        need(
            Lack::Interconnect,
            spec.gpu.interconnect >= needs.interconnect_min,
        );
        need(
            Lack::Isolation,
            !request.is_fraction() || spec.gpu.sharing.serves_fraction(needs.isolation),
        );
        need(Lack::GpuCount, spec.gpu_count >= request.gpus());
        need(Lack::GpuMemory, memory_within);
    }
    let host_size = spec.cpu_milli >= request.cpu_milli()
        && spec.memory_mib >= request.memory_mib()
        && spec.disk_gib >= request.disk_gib();
    need(Lack::HostSize, host_size);
    // A machine that is too small is not also busy.
    let busy = spec.gpu_count >= request.gpus() && memory_within;
    need(
        Lack::GpuBusy,
        !busy || cluster.devices_for(node, request, None).is_some(),
    );
    need(
        Lack::CpuBusy,
        !host_size || free.cpu_milli >= request.cpu_milli(),
    );
    need(
        Lack::MemoryBusy,
        !host_size || free.memory_mib >= request.memory_mib(),
    );
    need(
        Lack::DiskBusy,
        !host_size || free.disk_gib >= request.disk_gib(),
    );
    lacks
}

/// `request` with one change; `None` if the change makes no sense for it.
#[must_use]
pub fn relaxed(request: &Request, relaxation: Relaxation) -> Option<Request> {
    let needs = *request.needs();
    let with = |needs: Needs| Some(request.with_needs(needs));
    let rebuilt = |cpu, memory, disk, gpus, milli, gpu_memory| {
        Request::new(cpu, memory, gpus, milli).ok().map(|it| {
            it.with_needs(needs)
                .with_disk(disk)
                .with_gpu_memory(gpu_memory)
        })
    };
    let (cpu, memory, disk) = (
        request.cpu_milli(),
        request.memory_mib(),
        request.disk_gib(),
    );
    let (gpus, milli, gpu_memory) = (
        request.gpus(),
        request.gpu_milli(),
        request.gpu_memory_mib(),
    );
    match relaxation {
        Relaxation::AnyRegion => with(Needs {
            region: None,
            ..needs
        }),
        Relaxation::AnyModel => with(Needs {
            models: ModelSet::ANY,
            ..needs
        }),
        Relaxation::Capability(capability_min) => with(Needs {
            capability_min,
            ..needs
        }),
        Relaxation::NoTensorCores => with(Needs {
            tensor_cores: false,
            ..needs
        }),
        Relaxation::AnyInterconnect => with(Needs {
            interconnect_min: crate::cluster::Interconnect::Pcie,
            ..needs
        }),
        Relaxation::AnyIsolation => with(Needs {
            isolation: crate::cluster::Isolation::TimeSlice,
            ..needs
        }),
        Relaxation::GpuMilli(milli) => rebuilt(cpu, memory, disk, gpus, milli, gpu_memory),
        Relaxation::Gpus(gpus) => rebuilt(cpu, memory, disk, gpus, milli, gpu_memory),
        Relaxation::GpuMemoryMib(mib) => rebuilt(cpu, memory, disk, gpus, milli, mib),
        Relaxation::CpuMilli(cpu) => rebuilt(cpu, memory, disk, gpus, milli, gpu_memory),
        Relaxation::MemoryMib(memory) => rebuilt(cpu, memory, disk, gpus, milli, gpu_memory),
        Relaxation::DiskGib(disk) => rebuilt(cpu, memory, disk, gpus, milli, gpu_memory),
    }
}

/// The changes that would place `request` on `node` now.
fn relaxations_on(
    cluster: &Cluster,
    node: NodeIndex,
    request: &Request,
) -> impl Iterator<Item = Relaxation> {
    let spec = cluster.spec(node);
    let free = cluster.free(node);
    let needs = request.needs();
    let whole = free.gpu_milli.iter().filter(|it| **it == WHOLE_GPU).count() as u8;
    let most = free.gpu_milli.iter().copied().max().unwrap_or(0);
    let most_memory = free.gpu_memory_mib.iter().copied().max().unwrap_or(0);
    let mut tried = Vec::new();
    if needs.region.is_some() {
        tried.push(Relaxation::AnyRegion);
    }
    if needs.models != ModelSet::ANY {
        tried.push(Relaxation::AnyModel);
    }
    if spec.gpu.capability < needs.capability_min {
        tried.push(Relaxation::Capability(spec.gpu.capability));
    }
    if needs.tensor_cores {
        tried.push(Relaxation::NoTensorCores);
    }
    tried.push(Relaxation::AnyInterconnect);
    tried.push(Relaxation::AnyIsolation);
    if request.gpus() == 1 && most > 0 && most < request.gpu_milli() {
        tried.push(Relaxation::GpuMilli(most));
    }
    if whole > 0 && whole < request.gpus() {
        tried.push(Relaxation::Gpus(whole));
    }
    if most_memory > 0 && most_memory < request.gpu_memory_mib() {
        tried.push(Relaxation::GpuMemoryMib(most_memory));
    }
    if free.cpu_milli < request.cpu_milli() {
        tried.push(Relaxation::CpuMilli(free.cpu_milli));
    }
    if free.memory_mib < request.memory_mib() {
        tried.push(Relaxation::MemoryMib(free.memory_mib));
    }
    if free.disk_gib < request.disk_gib() {
        tried.push(Relaxation::DiskGib(free.disk_gib));
    }
    let fits_now = lacks_of(cluster, node, request) == 0;
    tried.into_iter().filter(move |relaxation| {
        !fits_now
            && relaxed(request, *relaxation).is_some_and(|it| lacks_of(cluster, node, &it) == 0)
    })
}

/// Of each kind of change the one that gives up least: amounts are what is still asked for, so the greatest.
fn smallest_of_each(mut relaxations: Vec<Relaxation>) -> Vec<Relaxation> {
    relaxations.sort_unstable_by(|left, right| right.cmp(left));
    relaxations.dedup_by_key(|it| std::mem::discriminant(it));
    relaxations.sort_unstable();
    relaxations
}

/// When `request` fits if the jobs of `running` end and nobody else takes their place; `None` if it never does.
#[must_use]
pub fn eta(
    cluster: &Cluster,
    request: &Request,
    running: &[Ending],
    now: TimestampMs,
) -> Option<Eta> {
    let by = |end: fn(&Ending) -> TimestampMs| {
        let mut cluster = cluster.clone();
        let mut order: Vec<&Ending> = running.iter().collect();
        order.sort_by_key(|it| (end(it), it.allocation));
        if cluster.nodes().any(|node| cluster.fits(node, request)) {
            return Some(now);
        }
        for ending in order {
            cluster.release(&ending.allocation);
            if cluster.fits(ending.allocation.node(), request) {
                return Some(end(ending).max(now));
            }
        }
        None
    };
    Some(Eta {
        earliest: by(|it| it.earliest)?,
        latest: by(|it| it.latest)?,
    })
}
