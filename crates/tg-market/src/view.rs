//! The machines behind standing offers, and what leases hold of them: derived from the ledger's state.
//!
//! A [`Stock`] is kept up to date as leases come and go, and one built anew from the same offers and leases is equal to
//! it. Undoing unfinalised blocks needs nothing: each version of the ledger's state shares or owns its own stock. A hold
//! may begin later than now (a booking); whoever wants room meanwhile must be gone before it begins, or leave enough.

use std::collections::BTreeMap;

use tg_types::{
    DurationMs, GpuLink, GpuModel, JobClass, JobNeeds, LeaseId, Machine, OfferId, SharingMode,
    TimestampMs,
};

use crate::cluster::{
    AllocateError, Allocation, Cluster, Gpu, Interconnect, Isolation, ModelSet, Needs, NodeIndex,
    NodeSpec, Request, RequestError, Sharing,
};
use crate::throughput::{Correction, GpuClass, WorkKind, duration_on};

/// What one lease holds of the machine of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The lease.
    pub lease: LeaseId,
    /// The offer.
    pub offer: OfferId,
    /// The GPUs, a bit for each.
    pub devices: u8,
    /// What it takes of each, and of the machine.
    pub request: Request,
    /// From when on.
    pub from: TimestampMs,
    /// Until when at the latest.
    pub until: TimestampMs,
}

/// Why a hold was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// The offer is not in the stock.
    #[error("the stock has no offer {0}")]
    UnknownOffer(OfferId),
    /// The lease holds something already.
    #[error("lease {0} holds something already")]
    Held(LeaseId),
    /// The machine has too little left.
    #[error("the machine has too little left")]
    Full(#[source] AllocateError),
}

/// The machines of all offers with what is held of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stock {
    cluster: Cluster,
    offers: Vec<OfferId>,
    nodes: BTreeMap<OfferId, NodeIndex>,
    running: BTreeMap<LeaseId, (Allocation, TimestampMs)>,
    booked: BTreeMap<NodeIndex, BTreeMap<LeaseId, Hold>>,
}

impl Default for Stock {
    fn default() -> Self {
        Self::new(std::iter::empty())
    }
}

impl Stock {
    /// Empty machines, one for each offer; the order of `offers` does not matter.
    #[must_use]
    pub fn new<'a>(offers: impl Iterator<Item = (OfferId, &'a Machine)>) -> Self {
        let machines: BTreeMap<OfferId, &Machine> = offers.collect();
        let nodes = machines.keys().copied().zip((0..).map(NodeIndex)).collect();
        Self {
            cluster: Cluster::new(machines.values().map(|it| node_spec(it)).collect()),
            offers: machines.into_keys().collect(),
            nodes,
            running: BTreeMap::new(),
            booked: BTreeMap::new(),
        }
    }

    /// The machines and what is free on them now.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The machine of an offer.
    #[must_use]
    pub fn node(&self, offer: &OfferId) -> Option<NodeIndex> {
        self.nodes.get(offer).copied()
    }

    /// The offer of a machine.
    #[must_use]
    pub fn offer(&self, node: NodeIndex) -> Option<OfferId> {
        self.offers.get(node.0 as usize).copied()
    }

    /// What runs now, with the latest end.
    pub fn running(&self) -> impl Iterator<Item = (LeaseId, &Allocation, TimestampMs)> {
        self.running
            .iter()
            .map(|(lease, (allocation, until))| (*lease, allocation, *until))
    }

    /// What is booked for later on the machine of `offer`.
    pub fn bookings(&self, offer: &OfferId) -> impl Iterator<Item = &Hold> {
        self.node(offer)
            .and_then(|node| self.booked.get(&node))
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Takes what `hold` says: at once if it began at `now`, else as a booking.
    ///
    /// # Errors
    /// If the offer is unknown, the lease holds something, or the machine has too little left; then nothing is taken.
    pub fn take(&mut self, hold: &Hold, now: TimestampMs) -> Result<(), HoldError> {
        let node = self
            .node(&hold.offer)
            .ok_or(HoldError::UnknownOffer(hold.offer))?;
        let is_booked = |it: &BTreeMap<LeaseId, Hold>| it.contains_key(&hold.lease);
        if self.running.contains_key(&hold.lease) || self.booked.values().any(is_booked) {
            return Err(HoldError::Held(hold.lease));
        }
        if hold.from > now {
            self.booked
                .entry(node)
                .or_default()
                .insert(hold.lease, *hold);
            return Ok(());
        }
        let allocation = self
            .cluster
            .allocate(node, hold.devices, &hold.request)
            .map_err(HoldError::Full)?;
        self.running.insert(hold.lease, (allocation, hold.until));
        Ok(())
    }

    /// Gives back what a lease holds or booked; nothing happens if it holds nothing.
    pub fn give_back(&mut self, lease: &LeaseId) {
        if let Some((allocation, _)) = self.running.remove(lease) {
            self.cluster.release(&allocation);
            return;
        }
        for holds in self.booked.values_mut() {
            holds.remove(lease);
        }
        self.booked.retain(|_, holds| !holds.is_empty());
    }

    /// Bookings whose time has come begin.
    ///
    /// # Errors
    /// [`HoldError::Full`] if one does not fit, which [`Self::room`] rules out while leases end in time.
    pub fn advance(&mut self, now: TimestampMs) -> Result<(), HoldError> {
        let due: Vec<Hold> = self
            .booked
            .values()
            .flat_map(BTreeMap::values)
            .filter(|hold| hold.from <= now)
            .copied()
            .collect();
        for hold in due {
            self.give_back(&hold.lease);
            self.take(&hold, now)?;
        }
        Ok(())
    }

    /// When bookings of any machine begin, rising.
    pub fn booked_starts(&self) -> impl Iterator<Item = TimestampMs> {
        self.booked
            .values()
            .flat_map(BTreeMap::values)
            .map(|hold| hold.from)
    }

    /// The devices of the machine of `offer` that could serve `request` from `from` until `until`; `None` if there is
    /// no room. Everything that overlaps the time counts in full. What the machine never has is not looked at.
    #[must_use]
    pub fn room(
        &self,
        offer: &OfferId,
        request: &Request,
        now: TimestampMs,
        (from, until): (TimestampMs, TimestampMs),
    ) -> Option<u8> {
        let node = self.node(offer)?;
        let bookings = self.booked.get(&node);
        if from <= now && bookings.is_none_or(|it| it.values().all(|hold| hold.from > until)) {
            return free_devices(&self.cluster, node, request);
        }
        // Few machines have bookings: a copy of the one machine decides.
        let mut alone = Cluster::new(vec![*self.cluster.spec(node)]);
        let only = NodeIndex(0);
        for (allocation, ends) in self.running.values() {
            if allocation.node() == node && *ends >= from {
                alone
                    .allocate(only, device_mask(allocation), allocation.request())
                    .ok()?;
            }
        }
        for hold in bookings.into_iter().flat_map(BTreeMap::values) {
            if hold.from <= until && hold.until >= from {
                alone.allocate(only, hold.devices, &hold.request).ok()?;
            }
        }
        free_devices(&alone, only, request)
    }

    /// GPU compute of the machine of `offer` that is taken at any time from `from` until `until`, in thousandths.
    #[must_use]
    pub fn gpu_milli_taken(&self, offer: &OfferId, from: TimestampMs, until: TimestampMs) -> u64 {
        let Some(node) = self.node(offer) else {
            return 0;
        };
        let running = self.running.values();
        let running = running
            .filter(|(allocation, ends)| allocation.node() == node && *ends >= from)
            .map(|(allocation, _)| allocation.request());
        let booked = self
            .bookings(offer)
            .filter(|hold| hold.from <= until && hold.until >= from)
            .map(|hold| &hold.request);
        running
            .chain(booked)
            .map(|request| u64::from(request.gpu_milli_total()))
            .sum()
    }

    /// When something that is held of the machine of `offer` is given back at the latest, rising.
    #[must_use]
    pub fn ends(&self, offer: &OfferId) -> Vec<TimestampMs> {
        let node = self.node(offer);
        let running = self.running.values();
        let mut ends: Vec<TimestampMs> = running
            .filter(|(allocation, _)| Some(allocation.node()) == node)
            .map(|(_, until)| *until)
            .chain(self.bookings(offer).map(|hold| hold.until))
            .collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

fn free_devices(cluster: &Cluster, node: NodeIndex, request: &Request) -> Option<u8> {
    let fits = cluster.free(node).fits_host(request);
    fits.then(|| cluster.devices_for(node, request, None))
        .flatten()
}

fn device_mask(allocation: &Allocation) -> u8 {
    allocation.devices().fold(0, |mask, it| mask | 1 << it)
}

/// What the machine of an offer is to the cluster.
#[must_use]
pub fn node_spec(machine: &Machine) -> NodeSpec {
    let sharing = if machine.sharing.contains(SharingMode::Mps) {
        Sharing::Mps
    } else if machine.sharing.contains(SharingMode::TimeSlice) {
        Sharing::TimeSlice
    } else {
        Sharing::WholeOnly
    };
    NodeSpec {
        cpu_milli: machine.cpu_milli,
        memory_mib: machine.memory_mib,
        disk_gib: machine.disk_gib,
        gpu_count: machine.gpu_count.min(tg_types::resources::GPUS_MAX),
        gpu: Gpu {
            model: machine.gpu.tag(),
            memory_mib: machine.gpu_memory_mib,
            capability: machine.capability,
            tensor_cores: machine.tensor_cores,
            interconnect: interconnect(machine.link),
            sharing,
        },
        region: u16::from(machine.region),
        coordinate: machine.coordinate_us,
    }
}

const fn interconnect(link: GpuLink) -> Interconnect {
    match link {
        GpuLink::Pcie => Interconnect::Pcie,
        GpuLink::Nvlink => Interconnect::Nvlink,
        GpuLink::Nvswitch => Interconnect::Nvswitch,
    }
}

/// What a job asks of one machine. Regions are several, so they are no part of it.
///
/// # Errors
/// If the number of GPUs or the share is out of range.
pub fn request_of(needs: &JobNeeds) -> Result<Request, RequestError> {
    let request = Request::new(
        needs.cpu_milli,
        needs.memory_mib,
        needs.gpus,
        needs.gpu_milli,
    )?;
    let models = GpuModel::ALL
        .iter()
        .filter(|model| needs.models.contains(**model))
        .fold(ModelSet::NONE, |set, model| set.with(model.tag()));
    Ok(request
        .with_disk(needs.disk_gib)
        .with_gpu_memory(needs.gpu_memory_mib)
        .with_needs(Needs {
            models,
            capability_min: needs.capability_min,
            tensor_cores: needs.tensor_cores,
            interconnect_min: interconnect(needs.link_min),
            region: None,
            isolation: match needs.isolation {
                SharingMode::TimeSlice => Isolation::TimeSlice,
                SharingMode::Mps => Isolation::Mps,
                SharingMode::Mig | SharingMode::Whole => Isolation::Hardware,
            },
        }))
}

/// The row of the throughput table for a GPU model.
#[must_use]
pub fn gpu_class(model: GpuModel) -> Option<GpuClass> {
    let row = usize::from(model.tag()).checked_sub(1)?;
    GpuClass::ALL.get(row).copied()
}

/// What limits work of a class.
#[must_use]
pub const fn work_kind(class: JobClass) -> WorkKind {
    match class {
        JobClass::Inference | JobClass::Batch => WorkKind::IntegerInference,
        JobClass::Training => WorkKind::Training,
    }
}

/// How long the GPU time that `needs` states takes on `machine`; a model that the table does not know counts as a T4.
#[must_use]
pub fn gpu_time(machine: &Machine, needs: &JobNeeds, correction: &Correction) -> DurationMs {
    let milli = needs.gpu_milli_total();
    if milli == 0 || needs.reference == DurationMs::ZERO {
        return DurationMs::ZERO;
    }
    let whole = match gpu_class(machine.gpu) {
        Some(gpu) => duration_on(gpu, work_kind(needs.class), needs.reference, correction),
        None => needs.reference,
    };
    let shared = (u128::from(whole.get()) * 1_000).div_ceil(u128::from(milli));
    DurationMs::new(u64::try_from(shared).unwrap_or(u64::MAX))
}
