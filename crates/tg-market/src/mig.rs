//! MIG: hardware partitions of one GPU, and where they may lie.
//!
//! A GPU has eight memory slices and seven compute slices. A profile takes a run of memory slices that may only start
//! at certain places; the table is the one NVIDIA documents for A100, H100 and H200 (MIG user guide, "supported
//! profiles" and the placements that `nvidia-smi mig -lgipp` prints). The three models have the same geometry and
//! differ in the memory of a slice. Two of three-sevenths fit; three-sevenths beside four-sevenths fit; two
//! four-sevenths do not, although seven compute slices would seem to leave three.
//!
//! What may be combined is more than "slices left": a one-slice instance at the wrong place blocks a half. So an
//! instance goes where, of the placements that are still possible for all profiles, weighted by what they hold, the
//! fewest are destroyed.

use crate::packing::shape::mix;

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
    G1,
    /// One compute slice, two memory slices.
    G1M2,
    /// Two compute slices, two memory slices.
    G2,
    /// Three compute slices, four memory slices.
    G3,
    /// Four compute slices, four memory slices.
    G4,
    /// All of it.
    G7,
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

    /// Memory slices at which it may start.
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
}

impl MigModel {
    /// Memory of one slice in MiB, rounded down from the memory of the GPU.
    #[must_use]
    pub const fn slice_mib(self) -> u32 {
        match self {
            Self::A100M40 => 4_864,
            Self::A100M80 | Self::H100M80 => 9_728,
            Self::H200M141 => 16_384,
        }
    }

    /// The smallest profile with at least `compute_slices` of seven and `memory_mib`.
    #[must_use]
    pub fn profile_for(self, compute_slices: u8, memory_mib: u32) -> Option<MigProfile> {
        MigProfile::ALL.into_iter().find(|profile| {
            profile.compute_slices() >= compute_slices
                && u32::from(profile.memory_slices()) * self.slice_mib() >= memory_mib
        })
    }
}

/// An instance on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MigInstance {
    /// What it is.
    pub profile: MigProfile,
    /// Memory slice it starts at.
    pub start: u8,
}

/// The instances of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigGpu {
    used: u8,
    compute: u8,
    instances: Vec<MigInstance>,
}

impl MigGpu {
    /// A GPU without instances.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its instances, in the order they were made.
    #[must_use]
    pub fn instances(&self) -> &[MigInstance] {
        &self.instances
    }

    /// Compute slices in use.
    #[must_use]
    pub const fn compute_used(&self) -> u8 {
        self.compute
    }

    /// Whether `profile` can start at `start`.
    #[must_use]
    pub fn fits_at(&self, profile: MigProfile, start: u8) -> bool {
        profile.starts().contains(&start)
            && self.used & profile.mask(start) == 0
            && self.compute + profile.compute_slices() <= 7
    }

    /// Where `profile` does the least harm here, with the harm: the weight of what becomes impossible.
    #[must_use]
    pub fn best_start(&self, profile: MigProfile) -> Option<(u32, u8)> {
        let now = self.options();
        profile
            .starts()
            .iter()
            .filter(|start| self.fits_at(profile, **start))
            .map(|start| {
                let mut after = self.clone();
                after.put(profile, *start);
                (now - after.options(), *start)
            })
            // Of equals the last: low slices are those that large profiles start at.
            .min_by_key(|(harm, start)| (*harm, std::cmp::Reverse(*start)))
    }

    /// Makes an instance; false if it does not fit there.
    pub fn place(&mut self, profile: MigProfile, start: u8) -> bool {
        let fits = self.fits_at(profile, start);
        if fits {
            self.put(profile, start);
        }
        fits
    }

    /// Removes an instance; false if there is none such.
    pub fn remove(&mut self, instance: MigInstance) -> bool {
        let Some(at) = self.instances.iter().position(|it| *it == instance) else {
            return false;
        };
        self.instances.remove(at);
        self.used &= !instance.profile.mask(instance.start);
        self.compute -= instance.profile.compute_slices();
        true
    }

    fn put(&mut self, profile: MigProfile, start: u8) {
        self.used |= profile.mask(start);
        self.compute += profile.compute_slices();
        self.instances.push(MigInstance { profile, start });
    }

    /// Compute slices summed over all placements that are still possible.
    fn options(&self) -> u32 {
        MigProfile::ALL
            .into_iter()
            .flat_map(|profile| profile.starts().iter().map(move |start| (profile, *start)))
            .filter(|(profile, start)| self.fits_at(*profile, *start))
            .map(|(profile, _)| u32::from(profile.compute_slices()))
            .sum()
    }
}

/// GPUs of one model that are partitioned together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigPool {
    gpus: Vec<MigGpu>,
    seed: u64,
}

impl MigPool {
    /// `count` GPUs without instances; `seed` orders equals.
    #[must_use]
    pub fn new(count: usize, seed: u64) -> Self {
        Self {
            gpus: vec![MigGpu::new(); count],
            seed,
        }
    }

    /// The GPUs.
    #[must_use]
    pub fn gpus(&self) -> &[MigGpu] {
        &self.gpus
    }

    /// Makes an instance of `profile` on the GPU where it does the least harm; GPUs in use before empty ones.
    pub fn place(&mut self, profile: MigProfile) -> Option<(usize, MigInstance)> {
        let best = self
            .gpus
            .iter()
            .enumerate()
            .filter_map(|(at, gpu)| {
                let (harm, start) = gpu.best_start(profile)?;
                Some((harm, mix(self.seed ^ at as u64), at, start))
            })
            .min()?;
        let (_, _, at, start) = best;
        self.gpus[at].put(profile, start);
        Some((at, MigInstance { profile, start }))
    }

    /// Makes instances of all `profiles` that fit, largest first, as a batch; how many of each were made, in the
    /// order given.
    pub fn place_batch(&mut self, profiles: &[MigProfile]) -> Vec<Option<(usize, MigInstance)>> {
        let mut order: Vec<usize> = (0..profiles.len()).collect();
        order.sort_by_key(|at| {
            let profile = profiles[*at];
            (
                std::cmp::Reverse(profile.memory_slices()),
                std::cmp::Reverse(profile.compute_slices()),
                *at,
            )
        });
        let mut made = vec![None; profiles.len()];
        for at in order {
            made[at] = self.place(profiles[at]);
        }
        made
    }

    /// Removes an instance; false if there is none such.
    pub fn remove(&mut self, gpu: usize, instance: MigInstance) -> bool {
        self.gpus.get_mut(gpu).is_some_and(|it| it.remove(instance))
    }
}
