//! MIG: hardware partitions of one GPU, and where they may lie.
//!
//! A GPU has eight memory slices and seven compute slices. A profile takes a run of memory slices that may only start
//! at certain places; the table is the one NVIDIA documents for A100, H100 and H200 (MIG user guide, "supported
//! profiles" and the placements that `nvidia-smi mig -lgipp` prints). The three models have the same geometry and
//! differ in the memory of a slice. Two of three-sevenths fit; three-sevenths beside four-sevenths fit; two
//! four-sevenths do not, although seven compute slices would seem to leave three.
//!
//! The places are such that whatever fits by memory slices fits by compute slices too (a test tries all), so the state
//! of a GPU is the set of its free memory slices: one byte. What may be combined is more than how many are left: a
//! one-slice instance at the wrong place blocks a half. So an instance goes where, of the placements that are still
//! possible for all profiles, weighted by the compute they hold, the fewest are destroyed. Both that and how many of a
//! profile still fit are tables over the 256 states, made by the compiler.

/// Free memory slices of a GPU without instances, a bit for each.
pub const ALL_FREE: u8 = u8::MAX;

/// Compute slices of a GPU.
pub const COMPUTE_SLICES: u16 = 7;

/// GPU models with MIG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MigModel {
    /// A100 with 40 GB.
    A100M40,
    /// A100 with 80 GB.
    A100M80,
    /// H100 with 80 GB.
    H100M80,
    /// H200 with 141 GB.
    H200M141,
}

/// A kind of instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MigProfile {
    /// One compute slice, one memory slice.
    G1 = 0,
    /// One compute slice, two memory slices.
    G1M2 = 1,
    /// Two compute slices, two memory slices.
    G2 = 2,
    /// Three compute slices, four memory slices.
    G3 = 3,
    /// Four compute slices, four memory slices.
    G4 = 4,
    /// All of it.
    G7 = 5,
}

impl MigProfile {
    /// Every profile, smallest first.
    pub const ALL: [Self; 6] = [Self::G1, Self::G1M2, Self::G2, Self::G3, Self::G4, Self::G7];

    /// Compute slices of seven.
    #[must_use]
    pub const fn compute_slices(self) -> u8 {
        match self {
            Self::G1 | Self::G1M2 => 1,
            Self::G2 => 2,
            Self::G3 => 3,
            Self::G4 => 4,
            Self::G7 => 7,
        }
    }

    /// Compute in thousandths of the GPU, rounded down.
    #[must_use]
    pub const fn compute_milli(self) -> u16 {
        self.compute_slices() as u16 * 1_000 / COMPUTE_SLICES
    }

    /// Memory slices of eight that its placement covers.
    #[must_use]
    pub const fn memory_slices(self) -> u8 {
        match self {
            Self::G1 => 1,
            Self::G1M2 | Self::G2 => 2,
            Self::G3 | Self::G4 => 4,
            Self::G7 => 8,
        }
    }

    /// Memory slices at which it may start. No two of its placements overlap.
    #[must_use]
    pub const fn starts(self) -> &'static [u8] {
        match self {
            Self::G1 => &[0, 1, 2, 3, 4, 5, 6],
            Self::G1M2 => &[0, 2, 4, 6],
            Self::G2 => &[0, 2, 4],
            Self::G3 => &[0, 4],
            Self::G4 | Self::G7 => &[0],
        }
    }

    /// The memory slices it covers when it starts at `start`, a bit for each.
    #[must_use]
    pub const fn mask(self, start: u8) -> u8 {
        let ones = (1_u16 << self.memory_slices()) - 1;
        (ones << start) as u8
    }

    /// Whether it can start at `start` where the slices `free` are free.
    #[must_use]
    pub fn fits_at(self, free: u8, start: u8) -> bool {
        self.starts().contains(&start) && free & self.mask(start) == self.mask(start)
    }

    /// How many instances of it fit beside each other into the slices `free`.
    #[must_use]
    pub const fn count_in(self, free: u8) -> u8 {
        COUNTS[self as usize][free as usize]
    }

    /// Where in the slices `free` it does the least harm: of what could still be placed, the least is destroyed. Of
    /// equals the last, as large profiles start low.
    #[must_use]
    pub const fn best_start(self, free: u8) -> Option<u8> {
        match STARTS[self as usize][free as usize] {
            NOWHERE => None,
            start => Some(start),
        }
    }
}

impl MigModel {
    /// Every model.
    pub const ALL: [Self; 4] = [Self::A100M40, Self::A100M80, Self::H100M80, Self::H200M141];

    /// Memory of one slice in MiB, rounded down from the memory of the GPU.
    #[must_use]
    pub const fn slice_mib(self) -> u32 {
        match self {
            Self::A100M40 => 4_864,
            Self::A100M80 | Self::H100M80 => 9_728,
            Self::H200M141 => 16_384,
        }
    }

    /// Memory of an instance of `profile` in MiB.
    #[must_use]
    pub const fn memory_mib(self, profile: MigProfile) -> u32 {
        self.slice_mib() * profile.memory_slices() as u32
    }

    /// What the driver calls `profile` on this model.
    #[must_use]
    pub const fn profile_name(self, profile: MigProfile) -> &'static str {
        let names = match self {
            Self::A100M40 => [
                "1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb",
            ],
            Self::A100M80 | Self::H100M80 => [
                "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb",
            ],
            Self::H200M141 => [
                "1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb",
            ],
        };
        names[profile as usize]
    }

    /// The smallest profile with at least `compute_slices` of seven and `memory_mib`.
    #[must_use]
    pub fn profile_for(self, compute_slices: u8, memory_mib: u32) -> Option<MigProfile> {
        MigProfile::ALL.into_iter().find(|profile| {
            profile.compute_slices() >= compute_slices && self.memory_mib(*profile) >= memory_mib
        })
    }

    /// The smallest profile that gives `milli` thousandths of a GPU and `memory_mib`; without stated memory (0) what
    /// the profile comes with.
    #[must_use]
    pub fn profile_for_share(self, milli: u16, memory_mib: u32) -> Option<MigProfile> {
        let slices = (u32::from(milli) * u32::from(COMPUTE_SLICES)).div_ceil(1_000);
        self.profile_for(u8::try_from(slices).ok()?, memory_mib)
    }
}

/// An instance on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MigInstance {
    /// What it is.
    pub profile: MigProfile,
    /// Number of the memory slice it starts at, from 0.
    pub start: u8,
}

impl MigInstance {
    /// The memory slices it covers, a bit for each.
    #[must_use]
    pub const fn mask(self) -> u8 {
        self.profile.mask(self.start)
    }
}

type PerState = [[u8; 256]; MigProfile::ALL.len()];

const NOWHERE: u8 = u8::MAX;

static COUNTS: PerState = counts();

static STARTS: PerState = starts();

const fn counts() -> PerState {
    let mut counts = [[0; 256]; MigProfile::ALL.len()];
    let mut profile = 0;
    while profile < MigProfile::ALL.len() {
        let mut free = 0;
        while free < 256 {
            counts[profile][free] = placements(MigProfile::ALL[profile], free as u8) as u8;
            free += 1;
        }
        profile += 1;
    }
    counts
}

const fn starts() -> PerState {
    let mut best = [[NOWHERE; 256]; MigProfile::ALL.len()];
    let mut index = 0;
    while index < MigProfile::ALL.len() {
        let profile = MigProfile::ALL[index];
        let mut free = 0;
        while free < 256 {
            // What is still possible afterwards is to be the most.
            let mut most = 0;
            let mut at = 0;
            while at < profile.starts().len() {
                let start = profile.starts()[at];
                let mask = profile.mask(start);
                if free as u8 & mask == mask {
                    let left = 1 + options(free as u8 & !mask);
                    if left >= most {
                        most = left;
                        best[index][free] = start;
                    }
                }
                at += 1;
            }
            free += 1;
        }
        index += 1;
    }
    best
}

/// At how many places `profile` can start.
const fn placements(profile: MigProfile, free: u8) -> u32 {
    let mut count = 0;
    let mut at = 0;
    while at < profile.starts().len() {
        let mask = profile.mask(profile.starts()[at]);
        if free & mask == mask {
            count += 1;
        }
        at += 1;
    }
    count
}

/// Compute slices summed over all placements that are possible.
const fn options(free: u8) -> u32 {
    let mut sum = 0;
    let mut index = 0;
    while index < MigProfile::ALL.len() {
        let profile = MigProfile::ALL[index];
        sum += placements(profile, free) * profile.compute_slices() as u32;
        index += 1;
    }
    sum
}
