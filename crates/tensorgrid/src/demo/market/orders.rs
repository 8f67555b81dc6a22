//! What is ordered: a thousand jobs of all lanes, the same in every run.

use tg_types::draw::SplitMix64;
use tg_types::{
    Amount, CapacityTier, Digest, DurationMs, GpuModel, GpuModelSet, JobClass, JobNeeds, JobOrder,
    ModelId, RegionSet, SharingMode, TimestampMs, VerificationMode,
};

/// Jobs that are ordered.
pub(super) const JOBS: usize = 1_000;

/// The model that all jobs name; nobody computes it here.
pub(super) const MODEL: ModelId = ModelId::new([0x4d; 32]);

/// Bytes of its input.
pub(super) const INPUT_LEN: u32 = 16;

/// What job `index` needs: of ten, four are whole GPUs at posted prices (of which one is urgent now and then), one a
/// share of a GPU, one any machine, one spot, one guaranteed, one a bid, and one a gang, a bid or a training.
pub(super) fn needs(index: usize, draw: &mut SplitMix64) -> JobNeeds {
    let reference = DurationMs::from_secs(10 + draw.below(50));
    let whole = JobNeeds {
        gpus: 1,
        gpu_milli: 1_000,
        reference,
        cpu_milli: 2_000,
        memory_mib: 4_096,
        ..JobNeeds::ANY_MACHINE
    };
    match index % 10 {
        0..=3 => JobNeeds {
            priority: match draw.below(6) {
                0 => 2,
                1 => 4,
                _ => 1,
            },
            ..whole
        },
        4 => JobNeeds {
            gpu_milli: 250 * (1 + draw.below(2)) as u16,
            gpu_memory_mib: 4_096,
            isolation: match draw.below(3) {
                0 => SharingMode::TimeSlice,
                1 => SharingMode::Mps,
                _ => SharingMode::Mig,
            },
            ..whole
        },
        5 => JobNeeds::ANY_MACHINE,
        6 => JobNeeds {
            preemptible: true,
            tier: CapacityTier::Spot,
            ..whole
        },
        7 => JobNeeds {
            guaranteed: true,
            tier: CapacityTier::Reserved,
            ..whole
        },
        8 => bid(whole),
        _ => match draw.below(3) {
            0 => JobNeeds {
                gang: 2 + draw.below(3) as u16,
                neighbourhood_us: 1_000,
                class: JobClass::Training,
                ..whole
            },
            1 => bid(whole),
            _ => JobNeeds {
                class: JobClass::Training,
                gpus: 1 << draw.below(3),
                capability_min: 80,
                tensor_cores: true,
                reference: DurationMs::from_secs(60 + draw.below(200)),
                ..whole
            },
        },
    }
}

const fn bid(needs: JobNeeds) -> JobNeeds {
    JobNeeds {
        class: JobClass::Batch,
        ..needs
    }
}

/// What nobody here has: eight H200 in one machine with hardware partitions, in region 9.
pub(super) fn impossible() -> JobNeeds {
    JobNeeds {
        class: JobClass::Training,
        gpus: 8,
        gpu_milli: 1_000,
        gpu_memory_mib: 140_000,
        models: GpuModelSet::of(&[GpuModel::H200]),
        regions: RegionSet::only(9),
        reference: DurationMs::from_secs(60),
        ..JobNeeds::ANY_MACHINE
    }
}

/// An order of these needs.
pub(super) fn order(needs: JobNeeds, index: usize, now: TimestampMs) -> JobOrder {
    let mut input = [0; 32];
    input[..8].copy_from_slice(&(index as u64).to_be_bytes());
    JobOrder {
        model: MODEL,
        input: Digest::new(input),
        input_len: INPUT_LEN,
        mode: VerificationMode::None,
        max_price: Amount::from_tgrid(40 + 17 * (index as u64 % 7)),
        deadline: now.saturating_add(DurationMs::from_secs(match needs.guaranteed {
            true => 240,
            false => 3_600,
        })),
        max_attempts: 3,
        retention: tg_types::DurationMs::ZERO,
        needs,
    }
}
