//! Who takes part: validators, requestors, and simulated providers with machines of all kinds.

use tg_ledger::{ConsensusKey, Genesis, Parameters, Validator, development_domain};
use tg_types::{
    Amount, DurationMs, GpuLink, GpuModel, Label, Machine, ModeSet, OfferTerms, Pricing,
    SharingMode, SharingSet, TierSet, TimestampMs, Wallet,
};

/// Simulated providers.
pub(super) const PROVIDERS: usize = 200;

/// Accounts that order.
pub(super) const REQUESTORS: usize = 40;

/// Validators, each with a ledger of its own.
pub(super) const VALIDATORS: usize = 4;

/// Time of the genesis block.
pub(super) const START: u64 = 1_700_000_000_000;

/// The wallets of everyone.
pub(super) struct Participants {
    pub(super) validators: Vec<Wallet>,
    pub(super) requestors: Vec<Wallet>,
    pub(super) providers: Vec<Wallet>,
}

impl Participants {
    pub(super) fn new() -> Self {
        let wallets = |role: &str, count: usize| -> Vec<Wallet> {
            (0..count)
                .map(|index| Wallet::from_seed(format!("market demo {role} {index}").as_bytes()))
                .collect()
        };
        let mut validators = wallets("validator", VALIDATORS);
        validators.sort_by_key(Wallet::address);
        Self {
            validators,
            requestors: wallets("requestor", REQUESTORS),
            providers: wallets("provider", PROVIDERS),
        }
    }

    /// Who has what before the first block.
    pub(super) fn genesis(&self) -> Genesis {
        let funds = |wallets: &[Wallet], tgrid: u64| -> Vec<_> {
            wallets
                .iter()
                .map(|it| (it.address(), Amount::from_tgrid(tgrid)))
                .collect()
        };
        let mut accounts = funds(&self.requestors, 100_000);
        accounts.extend(funds(&self.providers, 1_000));
        accounts.sort();
        let validators = self.validators.iter().zip(0_u8..);
        Genesis {
            domain: development_domain(),
            parameters: Parameters {
                lease_grace: DurationMs::from_secs(5),
                duration_factor: 2,
                leader_timeout: DurationMs::new(300),
                ..Parameters::development()
            },
            timestamp: TimestampMs::new(START),
            accounts,
            validators: validators
                .map(|(wallet, index)| Validator {
                    address: wallet.address(),
                    key: ConsensusKey::new([index; 32]),
                    stake: Amount::from_tgrid(1_000),
                })
                .collect(),
        }
    }
}

/// Model, GPUs, memory of each in MiB, compute capability, tensor cores, link, thousandths of a TGRID a second.
type Kind = (GpuModel, u8, u32, u16, bool, GpuLink, u64);

/// The kinds of machine, with how many of each twenty providers have.
const KINDS: [(usize, Kind); 7] = [
    (4, (GpuModel::T4, 2, 15_360, 75, true, GpuLink::Pcie, 2)),
    (
        4,
        (GpuModel::Rtx3090, 1, 24_576, 86, true, GpuLink::Pcie, 3),
    ),
    (
        3,
        (GpuModel::Rtx4090, 2, 24_576, 89, true, GpuLink::Pcie, 6),
    ),
    (3, (GpuModel::A10, 4, 23_028, 86, true, GpuLink::Pcie, 5)),
    (
        3,
        (
            GpuModel::A100M80,
            4,
            81_920,
            80,
            true,
            GpuLink::Nvswitch,
            14,
        ),
    ),
    (
        2,
        (GpuModel::H100, 8, 81_559, 90, true, GpuLink::Nvswitch, 40),
    ),
    (1, (GpuModel::Other, 0, 0, 0, false, GpuLink::Pcie, 0)),
];

/// What provider `index` offers.
pub(super) fn terms(index: usize) -> OfferTerms {
    let mut at = index % 20;
    let mut kind = KINDS[0].1;
    for (count, this) in KINDS {
        kind = this;
        if at < count {
            break;
        }
        at -= count;
    }
    let (gpu, gpus, memory, capability, tensor, link, milli) = kind;
    // Every provider asks a little more or less than others of its kind.
    let ask = u128::from(milli) * 1_000_000_000_000_000 * (90 + (index as u128 * 7) % 21) / 100;
    let place = index % 4;
    OfferTerms {
        hardware: Label::lossy(&format!("simulated {gpus} x {gpu}")),
        price_base: Amount::new(1_000_000_000_000_000),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::new(500),
        speed_mmac_per_s: 1_000,
        memory_bytes: 1 << 30,
        slots: 32,
        collateral_per_lease: Amount::from_tgrid(1),
        modes: ModeSet::UNSEALED,
        machine: Machine {
            gpu_count: gpus,
            gpu,
            gpu_memory_mib: memory,
            capability,
            tensor_cores: tensor,
            link,
            sharing: match index % 3 {
                // Every third A100 and H100 is cut into partitions; the others lend whole GPUs.
                0 if capability >= 80 && link == GpuLink::Nvswitch => {
                    SharingSet::of(&[SharingMode::Mig])
                }
                0 => SharingSet::NONE,
                1 => SharingSet::of(&[SharingMode::TimeSlice]),
                _ => SharingSet::of(&[SharingMode::TimeSlice, SharingMode::Mps]),
            },
            cpu_milli: 32_000,
            memory_mib: 131_072,
            disk_gib: 1_000,
            region: u8::try_from(place).unwrap_or(0),
            coordinate_us: [30_000 * place as i32, (index % 50) as i32 * 10],
            tiers: TierSet::ANY,
        },
        price_per_gpu_second: Amount::new(ask),
        pricing: match index % 5 {
            0 => Pricing::Dynamic,
            _ => Pricing::Fixed,
        },
    }
}
