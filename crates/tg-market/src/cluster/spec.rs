//! What a machine has, and what a request needs.
//!
//! One model of a GPU for all ways to share it ([`Sharing`]): whole, cut by hardware, by MPS, by time slices. A request
//! says how much of a GPU it takes (thousandths of its compute, MiB of its memory) and how strictly it is to be kept
//! apart ([`Isolation`]); the machine says how it shares, and [`Gpu::demand`] what the request takes there.

use crate::mig::{MigModel, MigProfile};

/// Most GPUs of one machine.
pub const GPUS_PER_NODE_MAX: usize = 8;

/// Compute of one whole GPU, in thousandths of a GPU.
pub const WHOLE_GPU: u16 = 1_000;

/// How well the GPUs of one machine are joined; each kind can do what those before it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Interconnect {
    /// PCI Express only.
    #[default]
    Pcie,
    /// NVLink bridges between neighbours.
    Nvlink,
    /// Every GPU reaches every other at full speed.
    Nvswitch,
}

/// How strictly jobs on one GPU are kept apart; each class gives what those before it give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Isolation {
    /// Time slices: a quantum and a memory cap; neighbours share caches and faults.
    #[default]
    TimeSlice,
    /// MPS: a share of the multiprocessors and a memory cap that the driver enforces.
    Mps,
    /// Hardware partition (MIG), or a GPU of one's own.
    Hardware,
}

/// How a machine lets jobs share one of its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Sharing {
    /// Whole GPUs only.
    WholeOnly,
    /// Fractions, kept apart by time slices.
    #[default]
    TimeSlice,
    /// Fractions, kept apart by MPS.
    Mps,
    /// Fractions are hardware partitions; each takes the smallest profile that gives what was asked for.
    Mig(MigModel),
}

impl Sharing {
    /// Whether a fraction of a GPU can be had with at least `isolation`.
    #[must_use]
    pub const fn serves_fraction(self, isolation: Isolation) -> bool {
        match (self, isolation) {
            (Self::Mig(_), _) => true,
            (Self::WholeOnly, _) | (_, Isolation::Hardware) => false,
            (Self::TimeSlice, Isolation::Mps) => false,
            (Self::TimeSlice | Self::Mps, Isolation::TimeSlice) | (Self::Mps, Isolation::Mps) => {
                true
            }
        }
    }
}

/// A set of GPU models; model `i` is bit `i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelSet(u64);

impl ModelSet {
    /// Any model will do.
    pub const ANY: Self = Self(u64::MAX);
    /// No model.
    pub const NONE: Self = Self(0);
    /// Most models that are told apart.
    pub const MODELS_MAX: usize = 64;

    /// The set with `model` added; models from [`Self::MODELS_MAX`] on are in no set but [`Self::ANY`].
    #[must_use]
    pub const fn with(self, model: u8) -> Self {
        if model < 64 {
            Self(self.0 | 1 << model)
        } else {
            self
        }
    }

    /// Bit `n` stands for model `n`.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set of these bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether `model` is in the set.
    #[must_use]
    pub const fn contains(self, model: u8) -> bool {
        self.0 == u64::MAX || (model < 64 && self.0 >> model & 1 == 1)
    }
}

/// The GPUs of a machine; all of them are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpu {
    /// Index of the model in the catalogue of the market.
    pub model: u8,
    /// Memory of one GPU in MiB; 0 where nobody declared it.
    pub memory_mib: u32,
    /// CUDA compute capability times ten: 80 for A100, 90 for H100.
    pub capability: u16,
    /// Whether it has tensor cores.
    pub tensor_cores: bool,
    /// How the GPUs of the machine are joined.
    pub interconnect: Interconnect,
    /// How jobs may share one.
    pub sharing: Sharing,
}

/// What a request takes of each of its GPUs on one kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceDemand {
    /// Thousandths of its compute.
    pub milli: u16,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// The partition, where fractions are partitions.
    pub profile: Option<MigProfile>,
}

impl Gpu {
    /// The model of partitions, where fractions are partitions.
    #[must_use]
    pub const fn mig(&self) -> Option<MigModel> {
        match self.sharing {
            Sharing::Mig(model) => Some(model),
            Sharing::WholeOnly | Sharing::TimeSlice | Sharing::Mps => None,
        }
    }

    /// What `request` takes of each of its GPUs here; `None` if no partition has as much memory as it asks for.
    /// A partition may be more than was asked for: what it holds no other job can have.
    #[must_use]
    pub fn demand(&self, request: &Request) -> Option<DeviceDemand> {
        match self.mig().filter(|_| request.is_fraction()) {
            None => Some(DeviceDemand {
                milli: request.gpu_milli(),
                memory_mib: request.gpu_memory_on(self.memory_mib),
                profile: None,
            }),
            Some(model) => {
                let profile = request.profile_on(model)?;
                Some(DeviceDemand {
                    milli: profile.compute_milli(),
                    memory_mib: model.memory_mib(profile),
                    profile: Some(profile),
                })
            }
        }
    }
}

/// What a machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSpec {
    /// Thousandths of a CPU core.
    pub cpu_milli: u32,
    /// RAM in MiB.
    pub memory_mib: u32,
    /// Disk in GiB.
    pub disk_gib: u32,
    /// Number of GPUs, at most [`GPUS_PER_NODE_MAX`].
    pub gpu_count: u8,
    /// What they are.
    pub gpu: Gpu,
    /// Region, an index into the market's list.
    pub region: u16,
    /// Network coordinate in microseconds: the distance of two machines is the sum of the absolute differences.
    pub coordinate: [i32; 2],
}

/// Fixed attributes that a request needs of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Needs {
    /// Acceptable GPU models.
    pub models: ModelSet,
    /// Least compute capability times ten.
    pub capability_min: u16,
    /// Whether tensor cores are needed.
    pub tensor_cores: bool,
    /// Least interconnect.
    pub interconnect_min: Interconnect,
    /// The region it must run in, if any.
    pub region: Option<u16>,
    /// Least isolation from jobs on the same GPU.
    pub isolation: Isolation,
}

impl Needs {
    /// No needs.
    pub const NONE: Self = Self {
        models: ModelSet::ANY,
        capability_min: 0,
        tensor_cores: false,
        interconnect_min: Interconnect::Pcie,
        region: None,
        isolation: Isolation::TimeSlice,
    };
}

/// What a job needs of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    cpu_milli: u32,
    memory_mib: u32,
    disk_gib: u32,
    gpus: u8,
    gpu_milli: u16,
    gpu_memory_mib: u32,
    needs: Needs,
}

/// Why a request cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// More GPUs than any machine may have.
    #[error("a request for {got} gpus on one machine; the most is {GPUS_PER_NODE_MAX}")]
    TooManyGpus {
        /// What was asked for.
        got: u8,
    },
    /// A share that is none: 0, more than a whole GPU, or a fraction of several GPUs.
    #[error("a share of {got}/1000 of each of {gpus} gpus")]
    BadShare {
        /// Thousandths of each GPU.
        got: u16,
        /// How many GPUs.
        gpus: u8,
    },
}

impl Request {
    /// `gpus` devices with `gpu_milli` thousandths of each; a fraction only of a single one.
    ///
    /// # Errors
    /// If the number of GPUs or the share is out of range.
    pub const fn new(
        cpu_milli: u32,
        memory_mib: u32,
        gpus: u8,
        gpu_milli: u16,
    ) -> Result<Self, RequestError> {
        if gpus as usize > GPUS_PER_NODE_MAX {
            return Err(RequestError::TooManyGpus { got: gpus });
        }
        let fits = match gpus {
            0 => gpu_milli == 0,
            1 => gpu_milli >= 1 && gpu_milli <= WHOLE_GPU,
            _ => gpu_milli == WHOLE_GPU,
        };
        if !fits {
            return Err(RequestError::BadShare {
                got: gpu_milli,
                gpus,
            });
        }
        Ok(Self {
            cpu_milli,
            memory_mib,
            disk_gib: 0,
            gpus,
            gpu_milli,
            gpu_memory_mib: 0,
            needs: Needs::NONE,
        })
    }

    /// The same request with `needs`.
    #[must_use]
    pub const fn with_needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// The same request with `disk_gib` of disk.
    #[must_use]
    pub const fn with_disk(mut self, disk_gib: u32) -> Self {
        self.disk_gib = disk_gib;
        self
    }

    /// The same request with `mib` of memory of each GPU.
    #[must_use]
    pub const fn with_gpu_memory(mut self, mib: u32) -> Self {
        self.gpu_memory_mib = mib;
        self
    }

    /// Thousandths of a CPU core.
    #[must_use]
    pub const fn cpu_milli(&self) -> u32 {
        self.cpu_milli
    }

    /// RAM in MiB.
    #[must_use]
    pub const fn memory_mib(&self) -> u32 {
        self.memory_mib
    }

    /// Disk in GiB.
    #[must_use]
    pub const fn disk_gib(&self) -> u32 {
        self.disk_gib
    }

    /// Number of GPUs.
    #[must_use]
    pub const fn gpus(&self) -> u8 {
        self.gpus
    }

    /// Thousandths of each GPU.
    #[must_use]
    pub const fn gpu_milli(&self) -> u16 {
        self.gpu_milli
    }

    /// Memory of each GPU in MiB; 0 stands for the share of the GPU's memory that [`Self::gpu_milli`] says.
    #[must_use]
    pub const fn gpu_memory_mib(&self) -> u32 {
        self.gpu_memory_mib
    }

    /// What it needs of the machine.
    #[must_use]
    pub const fn needs(&self) -> &Needs {
        &self.needs
    }

    /// GPU compute in thousandths of a GPU, all devices together.
    #[must_use]
    pub const fn gpu_milli_total(&self) -> u32 {
        self.gpus as u32 * self.gpu_milli as u32
    }

    /// Whether it takes a part of a GPU.
    #[must_use]
    pub const fn is_fraction(&self) -> bool {
        self.gpus == 1 && self.gpu_milli < WHOLE_GPU
    }

    /// The partition a fraction takes on GPUs of `model`; `None` if none has as much memory.
    #[must_use]
    pub fn profile_on(&self, model: MigModel) -> Option<MigProfile> {
        model.profile_for_share(self.gpu_milli, self.gpu_memory_mib)
    }

    /// What it takes of the memory of each of its GPUs on a machine whose GPUs have `device_mib` and are not
    /// partitioned; see [`Gpu::demand`] for any machine.
    #[must_use]
    pub const fn gpu_memory_on(&self, device_mib: u32) -> u32 {
        if self.gpus == 0 {
            0
        } else if self.gpu_milli == WHOLE_GPU {
            if self.gpu_memory_mib > device_mib {
                self.gpu_memory_mib
            } else {
                device_mib
            }
        } else if self.gpu_memory_mib == 0 {
            (device_mib as u64 * self.gpu_milli as u64 / WHOLE_GPU as u64) as u32
        } else {
            self.gpu_memory_mib
        }
    }
}
