//! What an attacker fills a market with: which offers, which orders, and what changes in every block.

use tg_types::{
    Amount, CapacityTier, DurationMs, GpuModel, JobClass, JobNeeds, Label, Machine, ModeSet,
    OfferTerms, Pricing, RegionSet, SharingMode, SharingSet, TierSet, VerificationMode,
};

/// What keeps the waiting orders from being served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Miss {
    /// No offer serves their mode.
    Mode,
    /// They need a little more RAM than any machine has: only a look at the machine says so.
    Ram,
    /// They need more GPU memory than any machine has.
    GpuMemory,
    /// Only slow offers are cheap enough for them.
    Deadline,
    /// They need machines on which spot jobs run, and more GPUs than those hold.
    Room,
}

/// A filled market, and what an attacker does in each block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) offers: usize,
    /// Orders that wait for one machine.
    pub(crate) jobs: usize,
    /// Orders that wait for several.
    pub(crate) gangs: usize,
    /// Jobs of tier spot that run.
    pub(crate) spot: usize,
    /// How many different prices, GPU memories (kinds of machine) and CPU sizes the offers have.
    pub(crate) prices: usize,
    pub(crate) kinds: usize,
    pub(crate) sizes: usize,
    /// Microseconds between neighbours, of which there are 256 in a row.
    pub(crate) apart: i32,
    pub(crate) miss: Miss,
    /// How many different CPU demands the orders have.
    pub(crate) footprints: usize,
    /// Members of gangs: from, and how many sizes.
    pub(crate) members: (u16, u16),
    /// Sides of neighbourhoods, from 1 microsecond.
    pub(crate) sides: u32,
    /// Shares instead of whole GPUs.
    pub(crate) is_shared: bool,
    /// In every block: offers updated, offers posted, orders raised, orders taken back, new orders with a guaranteed
    /// deadline, new orders, new gangs.
    pub(crate) updates: usize,
    pub(crate) posts: usize,
    pub(crate) raises: usize,
    pub(crate) cancels: usize,
    pub(crate) guaranteed: usize,
    pub(crate) orders: usize,
    pub(crate) new_gangs: usize,
}

/// The market of the review: lonely machines, each at its own price.
pub(crate) const LONELY: Shape = Shape {
    name: "lonely machines, each at its price",
    offers: 65_000,
    jobs: 8_900,
    gangs: 1_000,
    spot: 0,
    prices: usize::MAX,
    kinds: 1,
    sizes: 1,
    apart: 1_000,
    miss: Miss::Mode,
    footprints: 1,
    members: (2, 31),
    sides: 900,
    is_shared: false,
    updates: 0,
    posts: 0,
    raises: 0,
    cancels: 0,
    guaranteed: 0,
    orders: 0,
    new_gangs: 0,
};

/// What is measured.
pub(crate) const SHAPES: [Shape; 18] = [
    LONELY,
    Shape {
        name: "all offers alike",
        prices: 1,
        ..LONELY
    },
    Shape {
        name: "orders that almost fit, offers alike",
        prices: 1,
        miss: Miss::Ram,
        ..LONELY
    },
    Shape {
        name: "orders that almost fit, each offer at its price",
        miss: Miss::Ram,
        ..LONELY
    },
    Shape {
        name: "offers too slow for the orders",
        miss: Miss::Deadline,
        ..LONELY
    },
    Shape {
        name: "each machine of its own kind",
        kinds: usize::MAX,
        miss: Miss::GpuMemory,
        ..LONELY
    },
    Shape {
        name: "4,000 kinds, orders that almost fit",
        kinds: 4_000,
        miss: Miss::Ram,
        ..LONELY
    },
    Shape {
        name: "machines of all sizes, each order its footprint",
        sizes: 512,
        footprints: 10_000,
        miss: Miss::Ram,
        is_shared: true,
        ..LONELY
    },
    Shape {
        name: "gangs of 2 among machines 3 us apart",
        apart: 3,
        members: (2, 1),
        sides: 900,
        ..LONELY
    },
    Shape {
        name: "gangs of 32, some neighbourhoods nearly full",
        apart: 100,
        members: (32, 1),
        sides: 550,
        miss: Miss::Ram,
        ..LONELY
    },
    Shape {
        name: "spot jobs that could make room",
        spot: 4_000,
        jobs: 4_900,
        miss: Miss::Room,
        ..LONELY
    },
    Shape {
        name: "400 offers updated in every block",
        updates: 400,
        ..LONELY
    },
    Shape {
        name: "400 orders raised in every block",
        raises: 400,
        ..LONELY
    },
    Shape {
        name: "150 taken back and ordered anew in every block",
        cancels: 150,
        orders: 150,
        ..LONELY
    },
    Shape {
        name: "40 guaranteed deadlines ordered in every block",
        guaranteed: 40,
        miss: Miss::Ram,
        ..LONELY
    },
    Shape {
        name: "machines of new kinds posted in every block",
        kinds: usize::MAX,
        miss: Miss::GpuMemory,
        posts: 20,
        ..LONELY
    },
    Shape {
        name: "200 offers updated beside 4,000 leases",
        spot: 4_000,
        jobs: 4_900,
        miss: Miss::Room,
        updates: 200,
        ..LONELY
    },
    Shape {
        name: "everything at once",
        prices: 40_000,
        kinds: 3_000,
        sizes: 64,
        footprints: 10_000,
        miss: Miss::Ram,
        updates: 60,
        posts: 10,
        raises: 20,
        guaranteed: 20,
        orders: 30,
        new_gangs: 4,
        ..LONELY
    },
];

/// Machines that only orders of [`Miss::Room`] and spot jobs may use.
const SPOT_REGION: u8 = 1;

fn region(number: u8) -> RegionSet {
    RegionSet::from_bits(1 << number)
}

/// RAM of every machine.
const RAM_MIB: u32 = 65_536;

impl Shape {
    /// The terms of offer `number`; `version` says how often it was changed.
    pub(crate) fn terms(&self, number: usize, version: usize) -> OfferTerms {
        let at = i32::try_from(number).unwrap();
        let price = 1_000_000_000_000_000 + (number % self.prices) as u128 + 7 * version as u128;
        let is_spot = number < self.spot;
        OfferTerms {
            hardware: Label::default(),
            price_base: Amount::new(price),
            price_per_mmac: Amount::ZERO,
            latency_base_ms: match self.miss {
                Miss::Deadline => DurationMs::from_secs(7_200),
                _ => DurationMs::new(500),
            },
            speed_mmac_per_s: 1_000,
            memory_bytes: 1 << 20,
            slots: 4,
            collateral_per_lease: Amount::from_tgrid(1),
            // Orders of a missing mode wait for one that nobody but the honest provider serves.
            modes: match self.miss {
                Miss::Mode => ModeSet::of(&[VerificationMode::None]),
                _ => ModeSet::UNSEALED,
            },
            machine: Machine {
                gpu_count: match is_spot {
                    true => 2,
                    false => 1,
                },
                gpu: GpuModel::T4,
                gpu_memory_mib: 16_384 + (number % self.kinds) as u32,
                capability: 75,
                sharing: match self.is_shared {
                    true => SharingSet::of(&[SharingMode::TimeSlice]),
                    false => SharingSet::NONE,
                },
                cpu_milli: 8_000 + 2_000 * (number % self.sizes) as u32,
                memory_mib: RAM_MIB,
                disk_gib: 100,
                region: match is_spot {
                    true => SPOT_REGION,
                    false => 0,
                },
                coordinate_us: [self.apart * (at % 256), self.apart * (at / 256)],
                tiers: TierSet::ANY,
                ..Machine::CPU_ONLY
            },
            price_per_gpu_second: Amount::new(price),
            pricing: Pricing::Fixed,
        }
    }

    /// The terms of an honest provider: like the others', and fast.
    pub(crate) fn honest_terms(&self) -> OfferTerms {
        let attackers = self.terms(self.spot, 0);
        OfferTerms {
            price_base: Amount::new(2_000_000_000_000_000),
            price_per_gpu_second: Amount::new(2_000_000_000_000_000),
            latency_base_ms: DurationMs::new(500),
            slots: 64,
            modes: ModeSet::UNSEALED,
            machine: Machine {
                gpu_count: 8,
                cpu_milli: 512_000,
                region: 2,
                ..attackers.machine
            },
            ..attackers
        }
    }

    /// One GPU of any machine.
    fn gpu(number: usize, footprints: usize, is_shared: bool) -> JobNeeds {
        JobNeeds {
            gpus: 1,
            gpu_milli: match is_shared {
                true => 1_000 - (number % footprints.min(900)) as u16,
                false => 1_000,
            },
            cpu_milli: 1_000 + 2_000 * (number % footprints.min(400)) as u32,
            reference: DurationMs::from_secs(10),
            regions: region(0),
            ..JobNeeds::ANY_MACHINE
        }
    }

    /// What an order of the attacker that waits for one machine asks for.
    pub(crate) fn job(&self, number: usize) -> (VerificationMode, JobNeeds) {
        let gpu = Self::gpu(number, self.footprints, self.is_shared);
        let none = VerificationMode::None;
        match self.miss {
            Miss::Mode => (VerificationMode::Proof, gpu),
            Miss::Ram => (
                none,
                JobNeeds {
                    memory_mib: RAM_MIB + 1,
                    ..gpu
                },
            ),
            Miss::GpuMemory => (
                none,
                JobNeeds {
                    gpu_memory_mib: 1 << 20,
                    ..gpu
                },
            ),
            Miss::Deadline => (none, gpu),
            Miss::Room => (
                none,
                JobNeeds {
                    gpus: 2,
                    regions: region(SPOT_REGION),
                    ..gpu
                },
            ),
        }
    }

    /// A gang order of the attacker.
    pub(crate) fn gang(&self, number: usize) -> JobNeeds {
        let (least, kinds) = self.members;
        JobNeeds {
            gang: least + (number % usize::from(kinds)) as u16,
            neighbourhood_us: 1 + (number as u32 % self.sides),
            ..Self::gpu(number, self.footprints, self.is_shared)
        }
    }

    /// An order with a guaranteed deadline.
    pub(crate) fn guaranteed(&self, number: usize) -> JobNeeds {
        JobNeeds {
            guaranteed: true,
            tier: CapacityTier::Reserved,
            ..self.job(number).1
        }
    }

    /// A job of tier spot that runs on one of the attacker's machines.
    pub(crate) fn spot_job(&self) -> JobNeeds {
        JobNeeds {
            preemptible: true,
            tier: CapacityTier::Spot,
            regions: region(SPOT_REGION),
            reference: DurationMs::from_secs(3_600),
            ..Self::gpu(0, 1, false)
        }
    }

    /// What an honest order asks for: an answer within a second.
    pub(crate) fn honest_job() -> JobNeeds {
        JobNeeds {
            class: JobClass::Inference,
            regions: RegionSet::ANY,
            reference: DurationMs::new(200),
            ..Self::gpu(0, 1, false)
        }
    }
}
