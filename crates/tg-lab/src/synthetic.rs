//! Generated markets for tests and benchmarks: seeded, and shaped like published GPU clusters.

use tg_types::{
    Address, Amount, DurationMs, GpuModel, JobClass, JobNeeds, Label, Machine, ModeSet, OfferId,
    OfferTerms, Pricing, RegionSet, SharingMode, SharingSet, TierSet, TimestampMs,
};

use crate::trace::{Trace, TraceJob, TraceNode};
use tg_market::book::{Mark, Standing};
use tg_market::cluster::{
    Gpu, Interconnect, Isolation, ModelSet, Needs, NodeSpec, Request, Sharing, WHOLE_GPU,
};
use tg_market::mig::{MigModel, MigProfile};
use tg_market::record::TrackRecord;
use tg_types::draw::{SplitMix64, mix};

/// A seeded sequence of numbers.
#[derive(Debug, Clone)]
pub struct Draws(SplitMix64);

impl Draws {
    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let mut numbers = SplitMix64::new(mix(seed));
        let _first = numbers.next();
        Self(numbers)
    }

    /// The next number, less than `bound` (0 if `bound` is 0).
    pub const fn below(&mut self, bound: u64) -> u64 {
        let number = self.0.next();
        if bound == 0 {
            return 0;
        }
        number % bound
    }

    /// One of `items`.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// GPUs, cores per GPU, memory per GPU in GiB, model, memory of a GPU in GiB, how common.
const MACHINES: [(u8, u32, u32, u8, u32, u64); 6] = [
    (8, 12, 48, 0, 32, 45),
    (2, 52, 256, 1, 16, 32),
    (2, 8, 60, 2, 16, 11),
    (4, 8, 32, 3, 16, 5),
    (8, 16, 96, 4, 80, 5),
    (1, 64, 512, 5, 24, 2),
];

/// A machine drawn from a mix like that of published clusters.
#[must_use]
pub fn synthetic_node(draws: &mut Draws) -> NodeSpec {
    let mut at = draws.below(MACHINES.iter().map(|it| it.5).sum());
    let mut chosen = MACHINES[0];
    for machine in MACHINES {
        if at < machine.5 {
            chosen = machine;
            break;
        }
        at -= machine.5;
    }
    let (gpu_count, cores, ram_gib, model, gpu_gib, _) = chosen;
    NodeSpec {
        cpu_milli: u32::from(gpu_count) * cores * 1_000,
        memory_mib: u32::from(gpu_count) * ram_gib * 1_024,
        disk_gib: 1_000,
        gpu_count,
        gpu: Gpu {
            model,
            memory_mib: gpu_gib * 1_024,
            capability: 70 + u16::from(model) * 4,
            tensor_cores: model != 2,
            interconnect: if gpu_count == 8 {
                Interconnect::Nvlink
            } else {
                Interconnect::Pcie
            },
            sharing: Sharing::Mps,
        },
        region: draws.below(4) as u16,
        coordinate: [draws.below(80_000) as i32, draws.below(80_000) as i32],
    }
}

/// A request drawn from a mix like that of published clusters: mostly one GPU or a share of one, some CPU only, a few
/// gangs; one in eight names GPU models.
#[must_use]
pub fn synthetic_request(draws: &mut Draws) -> Request {
    const SHARES: [u16; 8] = [810, 810, 470, 470, 320, 650, 230, 160];
    const CORES: [u32; 8] = [3_152, 4_000, 8_000, 9_810, 11_300, 11_908, 12_000, 18_708];
    const GANGS: [u8; 4] = [2, 4, 8, 8];
    let (gpus, milli) = match draws.below(1_000) {
        0..130 => (0, 0),
        130..620 => (1, WHOLE_GPU),
        620..990 => (1, *draws.pick(&SHARES)),
        _ => (*draws.pick(&GANGS), WHOLE_GPU),
    };
    let cores = *draws.pick(&CORES);
    let cpu = match gpus {
        0 => 8_000 + cores,
        1 => cores,
        gpus => u32::from(gpus) * 8_000,
    };
    let mut needs = Needs::NONE;
    if gpus > 0 && draws.below(8) == 0 {
        needs.models = ModelSet::NONE
            .with(draws.below(6) as u8)
            .with(draws.below(6) as u8);
    }
    match Request::new(cpu, cpu * 4, gpus, milli) {
        Ok(request) => request.with_needs(needs),
        // The table above has no other rows.
        Err(_) => unreachable!("the table of requests is legal"),
    }
}

/// A machine as [`synthetic_node`] draws it, but with any way to share its GPUs.
#[must_use]
pub fn sharing_node(draws: &mut Draws) -> NodeSpec {
    let mut node = synthetic_node(draws);
    node.gpu.sharing = match draws.below(8) {
        0 => Sharing::WholeOnly,
        1 | 2 => Sharing::TimeSlice,
        3 | 4 => Sharing::Mps,
        _ => Sharing::Mig(*draws.pick(&MigModel::ALL)),
    };
    if let Sharing::Mig(model) = node.gpu.sharing {
        node.gpu.model = cut_model(model).tag();
        node.gpu.memory_mib = model.memory_mib(MigProfile::G7) + draws.below(2) as u32 * 1_024;
    }
    node
}

/// The GPU that has the partitions of `model`.
#[must_use]
pub const fn cut_model(model: MigModel) -> GpuModel {
    match model {
        MigModel::A100M40 => GpuModel::A100M40,
        MigModel::A100M80 => GpuModel::A100M80,
        MigModel::H100M80 => GpuModel::H100,
        MigModel::H200M141 => GpuModel::H200,
    }
}

/// A request as [`synthetic_request`] draws it, but with any isolation and often with a memory cap.
#[must_use]
pub fn sharing_request(draws: &mut Draws) -> Request {
    let request = synthetic_request(draws);
    if request.gpus() == 0 {
        return request;
    }
    let request = request.with_needs(Needs {
        isolation: *draws.pick(&[
            Isolation::TimeSlice,
            Isolation::Mps,
            Isolation::Hardware,
            Isolation::Hardware,
        ]),
        models: ModelSet::ANY,
        ..*request.needs()
    });
    match draws.below(4) {
        0 => request.with_gpu_memory(1_024 * draws.below(48) as u32),
        _ => request,
    }
}

/// `nodes` machines and `jobs` arrivals.
#[must_use]
pub fn synthetic_trace(seed: u64, nodes: u32, jobs: u32) -> Trace {
    let mut draws = Draws::new(seed);
    let nodes = (0..nodes)
        .map(|position| TraceNode {
            name: format!("node-{position:06}"),
            spec: synthetic_node(&mut draws),
            position,
        })
        .collect();
    let jobs = (0..jobs)
        .map(|job| TraceJob {
            name: format!("job-{job:06}"),
            request: synthetic_request(&mut draws),
            arrival_s: u64::from(job) * 30,
            duration_s: 600 + draws.below(200_000),
        })
        .collect();
    Trace { nodes, jobs }
}

/// The machines of `base` and jobs of which half of those with GPUs want several, any number from 2 to 8 with 8 cores each;
/// the others are drawn from the jobs of `base`, and those without GPUs come as often as they do there. They come until one and
/// a half times of all compute is asked for.
#[must_use]
pub fn half_several(base: &Trace, seed: u64) -> Trace {
    let mut draws = Draws::new(seed);
    let of = |wanted: fn(u8) -> bool| -> Vec<Request> {
        let requests = base.requests().into_iter();
        requests.filter(|it| wanted(it.gpus())).collect()
    };
    let (none, one) = (of(|it| it == 0), of(|it| it == 1));
    let gpus = base.nodes.iter().map(|it| u64::from(it.spec.gpu_count));
    let most = gpus.sum::<u64>() * u64::from(WHOLE_GPU) * 3 / 2;
    let (mut asked, mut jobs) = (0, Vec::new());
    while asked < most && !one.is_empty() {
        let has_none = draws.below(base.jobs.len() as u64) < none.len() as u64;
        let request = match (has_none, draws.below(2)) {
            (true, _) => *draws.pick(&none),
            (false, 0) => *draws.pick(&one),
            (false, _) => {
                let gpus = 2 + draws.below(7) as u8;
                let several = Request::new(u32::from(gpus) * 8_000, 0, gpus, WHOLE_GPU);
                several.unwrap_or(one[0])
            }
        };
        asked += u64::from(request.gpu_milli_total());
        jobs.push(TraceJob {
            name: format!("job-{:06}", jobs.len()),
            request,
            arrival_s: jobs.len() as u64 * 30,
            duration_s: 600 + draws.below(200_000),
        });
    }
    Trace {
        nodes: base.nodes.clone(),
        jobs,
    }
}

/// How much the offers of a generated market differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variety {
    /// Offers of one kind of machine ask the same, and all providers are newcomers.
    Alike,
    /// Some prices and some records occur often, so that many offers are equal.
    Some,
    /// Every offer has its own price, speed and record.
    Own,
}

/// An offer of a generated market.
#[derive(Debug, Clone)]
pub struct SyntheticOffer {
    /// Its name.
    pub offer: OfferId,
    /// Whose it is.
    pub provider: Address,
    /// What it asks and gives.
    pub terms: OfferTerms,
    /// Probability that the provider fails, in millionths.
    pub failure_ppm: u32,
    /// Whether the provider's reputation is among the top.
    pub top: bool,
}

/// Offer `number` of a generated market: a machine as [`synthetic_node`] draws it, of one of four regions.
#[must_use]
pub fn synthetic_offer(draws: &mut Draws, variety: Variety, number: u64) -> SyntheticOffer {
    let spec = synthetic_node(draws);
    let one_of = |draws: &mut Draws, some: u64, own: u64| match variety {
        Variety::Alike => 0,
        Variety::Some => draws.below(some),
        Variety::Own => draws.below(own),
    };
    let gpu = GpuModel::ALL[1 + usize::from(spec.gpu.model) % (GpuModel::ALL.len() - 1)];
    let sharing = [SharingMode::Mps, SharingMode::TimeSlice, SharingMode::Mig];
    let sharing = sharing[one_of(draws, 2, 3) as usize];
    let dear = 1_000_000 * (1 + u64::from(gpu.tag()));
    let failure_ppm = 20_000 + one_of(draws, 3, 1_000) as u32 * 200;
    let top = one_of(draws, 8, 8) == 1;
    SyntheticOffer {
        offer: OfferId::new(numbered(3, number)),
        provider: Address::new(numbered(2, number)),
        terms: OfferTerms {
            hardware: Label::default(),
            price_base: Amount::new(u128::from(100 + one_of(draws, 2, 100))),
            price_per_mmac: Amount::new(u128::from(10 + one_of(draws, 3, 50))),
            latency_base_ms: DurationMs::new(10_000),
            speed_mmac_per_s: 1_000 + one_of(draws, 2, 4_000),
            memory_bytes: 1 << 30,
            slots: 64,
            collateral_per_lease: Amount::new(10),
            modes: ModeSet::UNSEALED,
            machine: Machine {
                gpu_count: spec.gpu_count,
                gpu,
                gpu_memory_mib: spec.gpu.memory_mib,
                capability: spec.gpu.capability,
                tensor_cores: spec.gpu.tensor_cores,
                sharing: SharingSet::of(&[sharing]),
                cpu_milli: spec.cpu_milli,
                memory_mib: spec.memory_mib,
                disk_gib: spec.disk_gib,
                region: spec.region as u8,
                coordinate_us: spec.coordinate,
                tiers: TierSet::ANY,
                ..Machine::CPU_ONLY
            },
            price_per_gpu_second: Amount::new(u128::from(dear / 2 + one_of(draws, 4, dear))),
            pricing: match one_of(draws, 4, 4) {
                1 => Pricing::Dynamic,
                _ => Pricing::Fixed,
            },
        },
        failure_ppm,
        top,
    }
}

/// As [`synthetic_offer`], as it stands with nothing leased.
#[must_use]
pub fn synthetic_standing(draws: &mut Draws, variety: Variety, number: u64) -> Standing {
    let SyntheticOffer {
        offer,
        provider,
        terms,
        failure_ppm,
        top,
    } = synthetic_offer(draws, variety, number);
    Standing {
        offer,
        provider,
        terms,
        slots_free: 64,
        funds: Amount::from_tgrid(1),
        suspended_until: TimestampMs::ZERO,
        record: TrackRecord::default(),
        marks: [Mark {
            failure_ppm,
            removed: false,
            top,
        }; JobClass::ALL.len()],
        offline: false,
    }
}

/// What a job of a generated market needs: [`synthetic_request`] with GPU time; every third in some regions only.
#[must_use]
pub fn synthetic_needs(draws: &mut Draws) -> JobNeeds {
    let request = synthetic_request(draws);
    let isolation = [SharingMode::TimeSlice, SharingMode::Mps, SharingMode::Mig];
    JobNeeds {
        gpus: request.gpus(),
        gpu_milli: request.gpu_milli(),
        cpu_milli: request.cpu_milli(),
        memory_mib: request.memory_mib(),
        reference: DurationMs::from_secs(match request.gpus() {
            0 => 0,
            _ => 60 * (1 + draws.below(8)),
        }),
        isolation: *draws.pick(&isolation[..2]),
        regions: match draws.below(3) {
            0 => RegionSet::only(draws.below(4) as u8),
            _ => RegionSet::ANY,
        },
        ..JobNeeds::ANY_MACHINE
    }
}

/// A name of `N` bytes.
#[must_use]
pub fn numbered<const N: usize>(kind: u8, number: u64) -> [u8; N] {
    let mut bytes = [kind; N];
    // Scattered, as names are hashes.
    bytes[..8].copy_from_slice(&mix(number).to_be_bytes());
    bytes
}
