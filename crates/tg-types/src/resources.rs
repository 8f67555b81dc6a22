//! What machines have and what jobs need: the terms in which offers and orders are matched.
//!
//! A machine without GPUs and a job that any machine can run are the simplest cases and the defaults
//! ([`Machine::CPU_ONLY`], [`JobNeeds::ANY_MACHINE`]).

use crate::amount::Amount;
use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::signed_struct::{members, signed_struct};
use crate::time::DurationMs;

/// Most GPUs of one machine.
pub const GPUS_MAX: u8 = 8;

/// One whole GPU, in thousandths.
pub const WHOLE_GPU_MILLI: u16 = 1_000;

/// Most regions of a network; region `i` is bit `i` of a [`RegionSet`].
pub const REGIONS_MAX: u8 = 64;

/// Members of a job of mode `replicate` whose order names no number: a wrong answer needs that all are of one hand.
pub const REPLICAS_USUAL: u16 = 3;

/// Most members of a gang.
pub const GANG_MEMBERS_MAX: u16 = 32;

/// Most that paid priority multiplies the price.
pub const PRIORITY_MAX: u8 = 8;

/// Declares an enumeration that travels as one byte and has a name for people.
#[macro_export]
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident, $field:literal, {
        $($(#[$item_doc:meta])* $item:ident = $tag:literal => $text:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$item_doc])* $item = $tag,)*
        }

        impl $name {
            /// All of them, in the order of their tags.
            pub const ALL: &'static [Self] = &[$(Self::$item),*];

            /// The tag in encodings and typed data.
            #[must_use]
            pub const fn tag(self) -> u8 {
                self as u8
            }

            /// The one of a tag.
            #[must_use]
            pub const fn from_tag(tag: u8) -> Option<Self> {
                match tag {
                    $($tag => Some(Self::$item),)*
                    _ => None,
                }
            }

            /// The name users write.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$item => $text,)*
                }
            }

            /// The one of a name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.as_str() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl $crate::Encode for $name {
            fn encode(&self, writer: &mut $crate::Writer) {
                writer.u8(self.tag());
            }
        }

        impl $crate::Decode for $name {
            fn decode(reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                let tag = reader.u8()?;
                Self::from_tag(tag).ok_or($crate::DecodeError::Invalid {
                    field: $field,
                    value: u64::from(tag),
                })
            }
        }
    };
}

wire_enum! {
    /// A GPU model that the throughput table of the market knows, or another one.
    GpuModel, "gpu model", {
        /// No GPU, or one that the table does not know.
        Other = 0 => "other",
        /// Tesla T4: the reference of [`JobNeeds::reference`].
        T4 = 1 => "t4",
        /// Tesla P100, PCIe, 16 GB.
        P100 = 2 => "p100",
        /// Tesla V100, PCIe.
        V100 = 3 => "v100",
        /// A10.
        A10 = 4 => "a10",
        /// L4.
        L4 = 5 => "l4",
        /// GeForce RTX 3090.
        Rtx3090 = 6 => "rtx3090",
        /// GeForce RTX 4090.
        Rtx4090 = 7 => "rtx4090",
        /// A100, PCIe, 40 GB.
        A100M40 = 8 => "a100-40",
        /// A100, SXM, 80 GB.
        A100M80 = 9 => "a100-80",
        /// H100, SXM, 80 GB.
        H100 = 10 => "h100",
        /// H200, SXM, 141 GB.
        H200 = 11 => "h200",
    }
}

wire_enum! {
    /// How the GPUs of one machine are joined; each kind can do what those before it can.
    GpuLink, "gpu link", {
        /// PCI Express only.
        Pcie = 0 => "pcie",
        /// NVLink bridges between neighbours.
        Nvlink = 1 => "nvlink",
        /// Every GPU reaches every other at full speed.
        Nvswitch = 2 => "nvswitch",
    }
}

wire_enum! {
    /// How a job shares a GPU with others; as a need, how strictly it must be kept apart at least. Each kind keeps
    /// apart at least as well as those before it.
    SharingMode, "sharing mode", {
        /// Time slices: a quantum and a memory cap; neighbours share caches and faults.
        TimeSlice = 0 => "time-slice",
        /// MPS: a share of the multiprocessors and a memory cap that the driver enforces.
        Mps = 1 => "mps",
        /// A MIG instance: a hardware partition.
        Mig = 2 => "mig",
        /// The whole GPU.
        Whole = 3 => "whole",
    }
}

wire_enum! {
    /// What kind of work a job is; decides how fast each GPU is at it.
    JobClass, "job class", {
        /// Answers that somebody waits for.
        Inference = 0 => "inference",
        /// Training.
        Training = 1 => "training",
        /// Work that may wait: it bids in the batch auction.
        Batch = 2 => "batch",
    }
}

wire_enum! {
    /// What a requestor may count on, and how it is priced.
    CapacityTier, "capacity tier", {
        /// Runs until it is done.
        OnDemand = 0 => "on-demand",
        /// Cheaper, and may be pushed out by others.
        Spot = 1 => "spot",
        /// Booked ahead: for jobs with a guaranteed deadline.
        Reserved = 2 => "reserved",
    }
}

wire_enum! {
    /// How an offer's GPU time is priced.
    Pricing, "pricing", {
        /// What the offer asks.
        Fixed = 0 => "fixed",
        /// What the offer asks, or the moving price of its class if that is higher.
        Dynamic = 1 => "dynamic",
    }
}

/// How a job is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// At posted prices, at once.
    Posted,
    /// All members at one time or none.
    Gang,
    /// Admitted with a reservation, or refused.
    Deadline,
    /// By sealed bids, one price for each class.
    Auction,
}

impl Lane {
    /// The lane's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Posted => "posted",
            Self::Gang => "gang",
            Self::Deadline => "deadline",
            Self::Auction => "auction",
        }
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Declares a set over an enumeration or a small number, as bits.
macro_rules! bit_set {
    ($(#[$doc:meta])* $name:ident($bits:ident), $field:literal, all $all:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($bits);

        impl $name {
            /// Nothing.
            pub const NONE: Self = Self(0);

            /// Everything.
            pub const ANY: Self = Self($all);

            /// The set of these bits; those beyond [`Self::ANY`] are dropped.
            #[must_use]
            pub const fn from_bits(bits: $bits) -> Self {
                Self(bits & $all)
            }

            /// Bit `n` stands for member `n`.
            #[must_use]
            pub const fn bits(self) -> $bits {
                self.0
            }

            /// Whether nothing is in it.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            const fn has(self, index: u8) -> bool {
                (index as u32) < $bits::BITS && self.0 >> index & 1 == 1
            }
        }

        impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                writer.$bits(self.0);
            }
        }

        impl Decode for $name {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let bits = reader.$bits()?;
                if Self::from_bits(bits).0 != bits {
                    return Err(DecodeError::Invalid {
                        field: $field,
                        value: u64::from(bits),
                    });
                }
                Ok(Self(bits))
            }
        }
    };
}

bit_set! {
    /// GPU models; model of tag `n` is bit `n`.
    GpuModelSet(u16), "gpu models", all (1 << 12) - 1
}

bit_set! {
    /// Regions; region `n` is bit `n`.
    RegionSet(u64), "regions", all u64::MAX
}

bit_set! {
    /// Ways to share a GPU that an offer allows, beside whole GPUs; mode of tag `n` is bit `n`.
    SharingSet(u8), "sharing modes", all 0b111
}

bit_set! {
    /// Tiers of capacity that an offer sells; tier of tag `n` is bit `n`.
    TierSet(u8), "capacity tiers", all 0b111
}

impl GpuModelSet {
    /// The set of `models`.
    #[must_use]
    pub fn of(models: &[GpuModel]) -> Self {
        Self(models.iter().fold(0, |bits, it| bits | 1 << it.tag()))
    }

    /// Whether `model` is in it.
    #[must_use]
    pub const fn contains(self, model: GpuModel) -> bool {
        self.has(model.tag())
    }
}

impl RegionSet {
    /// One region.
    #[must_use]
    pub const fn only(region: u8) -> Self {
        if region < REGIONS_MAX {
            Self(1 << region)
        } else {
            Self::NONE
        }
    }

    /// Whether `region` is in it.
    #[must_use]
    pub const fn contains(self, region: u8) -> bool {
        self.has(region)
    }
}

impl SharingSet {
    /// The set of `modes`; whole GPUs are always possible and not counted.
    #[must_use]
    pub fn of(modes: &[SharingMode]) -> Self {
        Self::from_bits(modes.iter().fold(0, |bits, it| bits | 1 << it.tag()))
    }

    /// Whether GPUs may be shared in this way.
    #[must_use]
    pub const fn contains(self, mode: SharingMode) -> bool {
        matches!(mode, SharingMode::Whole) || self.has(mode.tag())
    }

    /// The mode with the least isolation that is still at least `isolation`, if a part of a GPU can be had so.
    #[must_use]
    pub fn at_least(self, isolation: SharingMode) -> Option<SharingMode> {
        SharingMode::ALL
            .iter()
            .copied()
            .find(|it| *it != SharingMode::Whole && *it >= isolation && self.contains(*it))
    }
}

impl TierSet {
    /// On-demand only.
    pub const ON_DEMAND: Self = Self(1);

    /// The set of `tiers`.
    #[must_use]
    pub fn of(tiers: &[CapacityTier]) -> Self {
        Self(tiers.iter().fold(0, |bits, it| bits | 1 << it.tag()))
    }

    /// Whether `tier` is in it.
    #[must_use]
    pub const fn contains(self, tier: CapacityTier) -> bool {
        self.has(tier.tag())
    }
}

signed_struct! {
    /// The machine behind an offer, as its provider declares it. Nothing of it is checked when it is posted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    Machine [] {
        /// GPUs, at most [`GPUS_MAX`]; all of them alike.
        gpu_count: u8 => "uint8 gpuCount",
        /// Their model.
        gpu: GpuModel => "uint8 gpu",
        /// Memory of each in MiB.
        gpu_memory_mib: u32 => "uint32 gpuMemoryMib",
        /// CUDA compute capability times ten: 80 for A100, 90 for H100.
        capability: u16 => "uint16 capability",
        /// Whether they have tensor cores.
        tensor_cores: bool => "bool tensorCores",
        /// How they are joined.
        link: GpuLink => "uint8 link",
        /// How jobs may share one.
        sharing: SharingSet => "uint8 sharing",
        /// Thousandths of a CPU core.
        cpu_milli: u32 => "uint32 cpuMilli",
        /// RAM in MiB.
        memory_mib: u32 => "uint32 memoryMib",
        /// Disk in GiB.
        disk_gib: u32 => "uint32 diskGib",
        /// Region, below [`REGIONS_MAX`].
        region: u8 => "uint8 region",
        /// Network coordinate in microseconds: the distance of two machines is the sum of the absolute differences.
        coordinate_us: [i32; 2] => "int32 x,int32 y",
        /// What capacity is sold.
        tiers: TierSet => "uint8 tiers",
    }
}

impl Machine {
    /// A machine of which nothing but the offer's own memory and speed is declared.
    pub const CPU_ONLY: Self = Self {
        gpu_count: 0,
        gpu: GpuModel::Other,
        gpu_memory_mib: 0,
        capability: 0,
        tensor_cores: false,
        link: GpuLink::Pcie,
        sharing: SharingSet::NONE,
        cpu_milli: 0,
        memory_mib: 0,
        disk_gib: 0,
        region: 0,
        coordinate_us: [0, 0],
        tiers: TierSet::ON_DEMAND,
    };
}

signed_struct! {
    /// What a job needs beside its model's arithmetic, and how it wants to be matched.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    JobNeeds [] {
        /// What kind of work it is.
        class: JobClass => "uint8 class",
        /// GPUs (of each member of a gang); 0 runs on any machine.
        gpus: u8 => "uint8 gpus",
        /// Share of each GPU in thousandths; a fraction only of a single GPU; 0 without GPUs.
        gpu_milli: u16 => "uint16 gpuMilli",
        /// Memory of each GPU in MiB; 0 for the share of it that `gpu_milli` says.
        gpu_memory_mib: u32 => "uint32 gpuMemoryMib",
        /// GPU models that will do.
        models: GpuModelSet => "uint16 models",
        /// Least compute capability times ten.
        capability_min: u16 => "uint16 capabilityMin",
        /// Whether tensor cores are needed.
        tensor_cores: bool => "bool tensorCores",
        /// Least link between GPUs.
        link_min: GpuLink => "uint8 linkMin",
        /// How strictly it must be kept apart from jobs on the same GPU.
        isolation: SharingMode => "uint8 isolation",
        /// Thousandths of a CPU core.
        cpu_milli: u32 => "uint32 cpuMilli",
        /// RAM in MiB.
        memory_mib: u32 => "uint32 memoryMib",
        /// Disk in GiB.
        disk_gib: u32 => "uint32 diskGib",
        /// Regions that will do.
        regions: RegionSet => "uint64 regions",
        /// GPU time it takes on a whole T4, beside the model's arithmetic; what it takes elsewhere follows from the
        /// throughput table.
        reference: DurationMs => "uint64 referenceMs",
        /// Members that must run together, 1 to [`GANG_MEMBERS_MAX`]; 1 is no gang.
        gang: u16 => "uint16 gang",
        /// Side of the square of network coordinates that a gang must fit in, in microseconds.
        neighbourhood_us: u32 => "uint32 neighbourhoodUs",
        /// Whether the deadline must be guaranteed by a reservation when the job is admitted.
        guaranteed: bool => "bool guaranteed",
        /// 1 to [`PRIORITY_MAX`]: multiplies the price that is paid, and goes first.
        priority: u8 => "uint8 priority",
        /// Whether it may be pushed out and started again.
        preemptible: bool => "bool preemptible",
        /// Tier of capacity.
        tier: CapacityTier => "uint8 tier",
        /// What a wrong answer would cost the requestor beside the price. A result that is checked in part comes only from who puts up
        /// twenty times the sum of both.
        value_at_risk: Amount => "uint128 valueAtRisk",
    }
}

impl JobNeeds {
    /// An inference that any machine can run.
    pub const ANY_MACHINE: Self = Self {
        class: JobClass::Inference,
        gpus: 0,
        gpu_milli: 0,
        gpu_memory_mib: 0,
        models: GpuModelSet::ANY,
        capability_min: 0,
        tensor_cores: false,
        link_min: GpuLink::Pcie,
        isolation: SharingMode::TimeSlice,
        cpu_milli: 0,
        memory_mib: 0,
        disk_gib: 0,
        regions: RegionSet::ANY,
        reference: DurationMs::ZERO,
        gang: 1,
        neighbourhood_us: 0,
        guaranteed: false,
        priority: 1,
        preemptible: false,
        tier: CapacityTier::OnDemand,
        value_at_risk: Amount::ZERO,
    };

    /// How the job is matched.
    #[must_use]
    pub const fn lane(&self) -> Lane {
        if self.gang > 1 {
            Lane::Gang
        } else if self.guaranteed {
            Lane::Deadline
        } else if matches!(self.class, JobClass::Batch) {
            Lane::Auction
        } else {
            Lane::Posted
        }
    }

    /// GPU compute of one member in thousandths of a GPU.
    #[must_use]
    pub const fn gpu_milli_total(&self) -> u32 {
        self.gpus as u32 * self.gpu_milli as u32
    }
}

members! {
    GpuModel: |it, hash| hash.number(u128::from(it.tag()));
    GpuLink: |it, hash| hash.number(u128::from(it.tag()));
    SharingMode: |it, hash| hash.number(u128::from(it.tag()));
    JobClass: |it, hash| hash.number(u128::from(it.tag()));
    CapacityTier: |it, hash| hash.number(u128::from(it.tag()));
    Pricing: |it, hash| hash.number(u128::from(it.tag()));
    GpuModelSet: |it, hash| hash.number(u128::from(it.bits()));
    RegionSet: |it, hash| hash.number(u128::from(it.bits()));
    SharingSet: |it, hash| hash.number(u128::from(it.bits()));
    TierSet: |it, hash| hash.number(u128::from(it.bits()));
    Machine: |it, hash| hash.word(it.struct_hash());
    JobNeeds: |it, hash| hash.word(it.struct_hash());
}
