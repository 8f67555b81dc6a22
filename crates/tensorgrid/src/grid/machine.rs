//! What this machine offers. Nothing is claimed that is not there: by itself that is its processor, its memory and the GPU that
//! executes; what else is declared comes from whoever starts the provider.

use tg_console::needs::MachineArguments;
use tg_console::outcome::{Exit, Failure, Outcome};
use tg_cuda::DeviceInfo;
use tg_types::{Amount, DurationMs, GpuModel, Label, Machine, ModeSet, OfferTerms, Pricing};

/// Declared time of a job before its size counts: pulling, committing, two or three blocks.
const LATENCY_BASE: DurationMs = DurationMs::new(1_500);

/// Declared speed without a throttle, in million multiply-accumulates a second, proving included. A cautious constant,
/// not a measurement of this machine.
const SPEED_MMAC_PER_S: u64 = 2;

/// Declared memory where the system does not tell: what the built-in models need with room to spare.
const MEMORY_BYTES: u64 = 1 << 30;

/// Ten times the compute capability from which on GPUs have tensor cores (Volta).
const TENSOR_CORES_SINCE: u32 = 70;

/// Memory that proofs may take: three quarters of what the machine has, in whole GiB. A job is matched only where its proof
/// fits.
fn memory_bytes() -> u64 {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = told.lines().find_map(|line| {
        let rest = line.strip_prefix("MemTotal:")?;
        rest.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    let whole = total.map_or(0, |kib| ((kib / 4 * 3) >> 20) << 30);
    whole.max(MEMORY_BYTES)
}

/// This machine with the GPU that executes, if one does.
pub(crate) fn found(gpu: Option<&DeviceInfo>) -> Machine {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let whole = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let host = Machine {
        cpu_milli: whole(threads as u64 * 1_000),
        memory_mib: whole(memory_bytes() >> 20),
        ..Machine::CPU_ONLY
    };
    let Some(gpu) = gpu else {
        return host;
    };
    let capability = gpu.capability_number();
    Machine {
        gpu_count: 1,
        gpu: gpu_model(&gpu.name, gpu.memory_bytes),
        gpu_memory_mib: whole(gpu.memory_bytes >> 20),
        capability: u16::try_from(capability).unwrap_or(u16::MAX),
        tensor_cores: capability >= TENSOR_CORES_SINCE,
        ..host
    }
}

/// Refuses to offer more GPUs than the driver of this machine sees, unless they are said to be simulated.
///
/// Stops: a flag by which a provider is late with every job, and loses its collateral.
pub(crate) fn check_gpus(declared: &MachineArguments, look: impl FnOnce() -> usize) -> Outcome {
    let count = declared.gpus.map_or(0, usize::from);
    if count == 0 || declared.simulated_gpu {
        return Ok(());
    }
    let seen = look();
    if count <= seen {
        return Ok(());
    }
    let text = format!("--gpus {count}: this machine has {seen}");
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
        "`tensorgrid device` says what is found here; --simulated-gpu offers them all the same, for trying a market out",
    ))
}

/// The model that the market knows by a driver's name for it; `Other` for what it does not know, and for a part of a GPU.
fn gpu_model(name: &str, memory_bytes: u64) -> GpuModel {
    let words: Vec<&str> = name.split([' ', '-']).collect();
    let is = |word: &str| words.contains(&word);
    if ["MIG", "Ti", "Laptop", "Max", "GRID", "D"]
        .into_iter()
        .any(is)
    {
        return GpuModel::Other;
    }
    let a100 = if memory_bytes >> 30 > 50 {
        GpuModel::A100M80
    } else {
        GpuModel::A100M40
    };
    let known = [
        ("T4", GpuModel::T4),
        ("P100", GpuModel::P100),
        ("V100", GpuModel::V100),
        ("A10", GpuModel::A10),
        ("L4", GpuModel::L4),
        ("3090", GpuModel::Rtx3090),
        ("4090", GpuModel::Rtx4090),
        ("A100", a100),
        ("H100", GpuModel::H100),
        ("H200", GpuModel::H200),
    ];
    let found = known.into_iter().find(|(word, _)| is(word));
    found.map_or(GpuModel::Other, |(_, model)| model)
}

/// The processor, and the throttle if there is one.
pub(crate) fn hardware(throttle_mmac_per_s: Option<u64>) -> String {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpu = format!("CPU, {threads} threads");
    match throttle_mmac_per_s {
        Some(throttle) => format!("{cpu}, throttled to {throttle} Mmac/s"),
        None => cpu,
    }
}

/// What a provider asks and risks.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// Per job.
    pub(crate) price: Amount,
    /// Per million multiply-accumulates.
    pub(crate) price_per_mmac: Amount,
    /// Per second of a GPU.
    pub(crate) price_per_gpu_second: Amount,
    /// Whether that follows demand.
    pub(crate) pricing: Pricing,
    /// What is declared of the machine.
    pub(crate) machine: Machine,
    /// Leases at once.
    pub(crate) slots: u16,
    /// Per lease.
    pub(crate) collateral: Amount,
    /// Slows the work down, and says so.
    pub(crate) throttle_mmac_per_s: Option<u64>,
}

impl Ask {
    /// An ask for one lease at a time on the processor alone.
    pub(crate) const fn of_processor(price: Amount, collateral: Amount) -> Self {
        Self {
            price,
            price_per_mmac: Amount::ZERO,
            price_per_gpu_second: Amount::ZERO,
            pricing: Pricing::Fixed,
            machine: Machine::CPU_ONLY,
            slots: 1,
            collateral,
            throttle_mmac_per_s: None,
        }
    }
}

/// An offer of this machine.
pub(crate) fn terms(ask: &Ask) -> OfferTerms {
    OfferTerms {
        hardware: Label::lossy(&hardware(ask.throttle_mmac_per_s)),
        price_base: ask.price,
        price_per_mmac: ask.price_per_mmac,
        latency_base_ms: LATENCY_BASE,
        speed_mmac_per_s: ask.throttle_mmac_per_s.unwrap_or(SPEED_MMAC_PER_S),
        memory_bytes: memory_bytes(),
        slots: ask.slots,
        collateral_per_lease: ask.collateral,
        modes: ModeSet::ALL,
        machine: ask.machine,
        price_per_gpu_second: ask.price_per_gpu_second,
        pricing: ask.pricing,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct OfferedMachine {
        #[command(flatten)]
        machine: MachineArguments,
    }

    #[test]
    fn gpus_that_are_not_there_are_offered_only_as_simulated_ones() {
        let check = |flags: &str, seen: usize| {
            let words = std::iter::once("x").chain(flags.split_whitespace());
            let parsed = OfferedMachine::try_parse_from(words);
            parsed
                .map(|it| check_gpus(&it.machine, || seen).is_ok())
                .ok()
        };
        for (flags, seen, is_taken) in [
            ("", 0, true),
            ("--gpus 0", 0, true),
            ("--gpus 1", 0, false),
            ("--gpus 2 --gpu-model h100", 2, true),
            ("--gpus 4", 2, false),
            ("--gpus 4 --simulated-gpu", 2, true),
        ] {
            assert_eq!(check(flags, seen), Some(is_taken), "{flags}");
        }
    }

    #[test]
    fn drivers_names_are_known_models_or_others() {
        let gib = |count: u64| count << 30;
        for (name, memory, model) in [
            ("NVIDIA H100 80GB HBM3", 80, GpuModel::H100),
            ("NVIDIA H100 PCIe", 80, GpuModel::H100),
            ("NVIDIA H200", 141, GpuModel::H200),
            ("NVIDIA A100-SXM4-80GB", 80, GpuModel::A100M80),
            ("NVIDIA A100-PCIE-40GB", 40, GpuModel::A100M40),
            ("Tesla T4", 15, GpuModel::T4),
            ("Tesla V100-SXM2-16GB", 16, GpuModel::V100),
            ("NVIDIA GeForce RTX 4090", 24, GpuModel::Rtx4090),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", 16, GpuModel::Other),
            ("NVIDIA GeForce RTX 3090 Ti", 24, GpuModel::Other),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10, GpuModel::Other),
            ("NVIDIA A10G", 24, GpuModel::Other),
            ("NVIDIA L40S", 48, GpuModel::Other),
            ("NVIDIA B200", 180, GpuModel::Other),
        ] {
            assert_eq!(gpu_model(name, gib(memory)), model, "{name}");
        }
    }

    #[test]
    fn a_gpu_that_executes_is_part_of_the_machine() {
        let gpu = DeviceInfo {
            ordinal: 0,
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            uuid: String::new(),
            memory_bytes: 81_079 << 20,
            capability: [9, 0],
            multiprocessors: 132,
        };
        let host = found(None);
        assert!(host.gpu_count == 0 && host.cpu_milli >= 1_000 && host.memory_mib >= 1_024);
        let expected = Machine {
            gpu_count: 1,
            gpu: GpuModel::H100,
            gpu_memory_mib: 81_079,
            capability: 90,
            tensor_cores: true,
            ..host
        };
        assert_eq!(found(Some(&gpu)), expected);
    }
}
