//! Wire types of machines and needs.

use serde::{Deserialize, Serialize};
use tg_types::{
    Amount, CapacityTier, DurationMs, GpuLink, GpuModel, GpuModelSet, JobClass, JobNeeds, Machine,
    Pricing, RegionSet, SharingMode, SharingSet, TierSet,
};

use crate::text;

/// The machine behind an offer, as its provider declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MachineDto {
    /// GPUs, all of them alike.
    pub gpus: u8,
    /// Their model.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gpu: GpuModel,
    /// Memory of each in MiB.
    pub gpu_memory_mib: u32,
    /// CUDA compute capability times ten.
    pub capability: u16,
    /// Whether they have tensor cores.
    pub tensor_cores: bool,
    /// How they are joined.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub link: GpuLink,
    /// How jobs may share one, beside whole GPUs.
    #[serde(with = "text::list")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub sharing: Vec<SharingMode>,
    /// Thousandths of a CPU core.
    pub cpu_milli: u32,
    /// RAM in MiB.
    pub memory_mib: u32,
    /// Disk in GiB.
    pub disk_gib: u32,
    /// Number of its region, 0 to 63: the bit of it in the regions that an order names.
    pub region: u8,
    /// Network coordinate in microseconds.
    pub coordinate_us: [i32; 2],
    /// What capacity is sold.
    #[serde(with = "text::list")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub tiers: Vec<CapacityTier>,
}

impl Default for MachineDto {
    fn default() -> Self {
        Self::from(&Machine::CPU_ONLY)
    }
}

impl From<&Machine> for MachineDto {
    fn from(machine: &Machine) -> Self {
        let Machine {
            gpu_count,
            gpu,
            gpu_memory_mib,
            capability,
            tensor_cores,
            link,
            sharing,
            cpu_milli,
            memory_mib,
            disk_gib,
            region,
            coordinate_us,
            tiers,
        } = *machine;
        let modes = SharingMode::ALL.iter().copied();
        Self {
            gpus: gpu_count,
            gpu,
            gpu_memory_mib,
            capability,
            tensor_cores,
            link,
            sharing: modes
                .filter(|mode| *mode != SharingMode::Whole && sharing.contains(*mode))
                .collect(),
            cpu_milli,
            memory_mib,
            disk_gib,
            region,
            coordinate_us,
            tiers: CapacityTier::ALL
                .iter()
                .copied()
                .filter(|tier| tiers.contains(*tier))
                .collect(),
        }
    }
}

impl From<MachineDto> for Machine {
    fn from(dto: MachineDto) -> Self {
        let MachineDto {
            gpus,
            gpu,
            gpu_memory_mib,
            capability,
            tensor_cores,
            link,
            sharing,
            cpu_milli,
            memory_mib,
            disk_gib,
            region,
            coordinate_us,
            tiers,
        } = dto;
        Self {
            gpu_count: gpus,
            gpu,
            gpu_memory_mib,
            capability,
            tensor_cores,
            link,
            sharing: SharingSet::of(&sharing),
            cpu_milli,
            memory_mib,
            disk_gib,
            region,
            coordinate_us,
            tiers: TierSet::of(&tiers),
        }
    }
}

/// What a job needs beside its model's arithmetic, and how it is matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobNeedsDto {
    /// How it is matched: posted, gang, deadline or auction.
    pub lane: String,
    /// What kind of work it is.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub class: JobClass,
    /// GPUs of each member; 0 runs on any machine.
    pub gpus: u8,
    /// Share of each GPU in thousandths.
    pub gpu_milli: u16,
    /// Memory of each GPU in MiB; 0 for the share of it.
    pub gpu_memory_mib: u32,
    /// GPU models that will do; nothing for any.
    pub models: Option<Vec<String>>,
    /// Least compute capability times ten.
    pub capability_min: u16,
    /// Whether tensor cores are needed.
    pub tensor_cores: bool,
    /// Least link between GPUs.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub link_min: GpuLink,
    /// How strictly it must be kept apart from jobs on the same GPU.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub isolation: SharingMode,
    /// Thousandths of a CPU core.
    pub cpu_milli: u32,
    /// RAM in MiB.
    pub memory_mib: u32,
    /// Disk in GiB.
    pub disk_gib: u32,
    /// Regions that will do; nothing for any.
    pub regions: Option<Vec<u8>>,
    /// GPU time on a whole T4.
    pub reference_ms: u64,
    /// Members that run together; 1 is no gang.
    pub gang: u16,
    /// Side of the square that a gang must fit in, in microseconds.
    pub neighbourhood_us: u32,
    /// Whether the deadline must be guaranteed.
    pub guaranteed: bool,
    /// What multiplies the price, 1 to 8; 1 is usual.
    pub priority: u8,
    /// Whether it may be pushed out.
    pub preemptible: bool,
    /// Tier of capacity.
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub tier: CapacityTier,
    /// What a wrong answer would cost the requestor beside the price.
    #[serde(with = "text", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub value_at_risk: Amount,
}

impl From<&JobNeeds> for JobNeedsDto {
    fn from(needs: &JobNeeds) -> Self {
        let JobNeeds {
            class,
            gpus,
            gpu_milli,
            gpu_memory_mib,
            models,
            capability_min,
            tensor_cores,
            link_min,
            isolation,
            cpu_milli,
            memory_mib,
            disk_gib,
            regions,
            reference,
            gang,
            neighbourhood_us,
            guaranteed,
            priority,
            preemptible,
            tier,
            value_at_risk,
        } = *needs;
        let named = GpuModel::ALL.iter().filter(|it| models.contains(**it));
        let numbered = (0..tg_types::resources::REGIONS_MAX).filter(|it| regions.contains(*it));
        Self {
            lane: needs.lane().as_str().to_owned(),
            class,
            gpus,
            gpu_milli,
            gpu_memory_mib,
            models: (models != GpuModelSet::ANY)
                .then(|| named.map(|it| it.as_str().to_owned()).collect()),
            capability_min,
            tensor_cores,
            link_min,
            isolation,
            cpu_milli,
            memory_mib,
            disk_gib,
            regions: (regions != RegionSet::ANY).then(|| numbered.collect()),
            reference_ms: DurationMs::get(reference),
            gang,
            neighbourhood_us,
            guaranteed,
            priority,
            preemptible,
            tier,
            value_at_risk,
        }
    }
}

/// What is free to choose when an offer's pricing is left out.
pub(super) const fn fixed() -> Pricing {
    Pricing::Fixed
}
