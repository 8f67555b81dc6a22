//! What this machine offers. Nothing is claimed that is not there: by itself that is its processor; what else is
//! declared comes from whoever starts the provider.

use tg_types::{Amount, DurationMs, Label, Machine, ModeSet, OfferTerms, Pricing};

/// Declared time of a job before its size counts: pulling, committing, two or three blocks.
const LATENCY_BASE: DurationMs = DurationMs::new(1_500);

/// Declared speed without a throttle, in million multiply-accumulates a second, proving included. A cautious constant,
/// not a measurement of this machine.
const SPEED_MMAC_PER_S: u64 = 2;

/// Declared memory where the system does not tell: what the built-in models need with room to spare.
const MEMORY_BYTES: u64 = 1 << 30;

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
