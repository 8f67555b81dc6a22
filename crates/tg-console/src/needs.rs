//! What a job needs of a machine and what a machine is, as flags.

use clap::Args;
use tg_market::mig::{MigModel, MigProfile};
use tg_types::resources::{GANG_MEMBERS_MAX, GPUS_MAX, PRIORITY_MAX, REGIONS_MAX};
use tg_types::{
    Amount, CapacityTier, DurationMs, GpuLink, GpuModel, GpuModelSet, JobClass, JobNeeds, Machine,
    Pricing, RegionSet, SharingMode, SharingSet, TierSet,
};

/// What a machine has beside its GPUs: what a job needs of it, or what is offered.
#[derive(Debug, Clone, Args)]
pub struct HostArguments {
    /// Processor in thousandths of a core.
    #[arg(long, default_value_t = 0, value_name = "MILLI")]
    pub cpu_milli: u32,
    /// Memory of the machine in MiB.
    #[arg(long, default_value_t = 0, value_name = "MIB")]
    pub memory: u32,
    /// Disk in GiB.
    #[arg(long, default_value_t = 0, value_name = "GIB")]
    pub disk: u32,
}

/// What a job needs beside its model's arithmetic. Without any of these, any machine will do.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Needs")]
pub struct NeedsArguments {
    /// GPUs of each machine.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=i64::from(GPUS_MAX)), value_name = "N")]
    pub gpus: u8,
    /// Share of a single GPU in thousandths.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1_000), value_name = "MILLI")]
    pub gpu_share: Option<u16>,
    /// Memory of each GPU in MiB; without it, the share's part of what the GPU has.
    #[arg(long, default_value_t = 0, value_name = "MIB")]
    pub gpu_memory: u32,
    /// A hardware partition at least like this one, by the driver's name (1g.10gb, 3g.40gb, ..).
    #[arg(long, value_parser = mig_profile, conflicts_with_all = ["gpu_share", "gpu_memory"], value_name = "PROFILE")]
    pub mig: Option<Partition>,
    /// GPU models that will do (t4, a100-80, h100, rtx4090, ..).
    #[arg(long, value_delimiter = ',', value_parser = gpu_model, value_name = "MODEL,..")]
    pub gpu_model: Vec<GpuModel>,
    /// Least compute capability, as 8.0.
    #[arg(long, value_parser = capability, value_name = "X.Y")]
    pub capability: Option<u16>,
    /// Only GPUs with tensor cores.
    #[arg(long)]
    pub tensor_cores: bool,
    /// Least link between the GPUs of a machine: pcie, nvlink, nvswitch.
    #[arg(long, default_value = "pcie", value_parser = link, value_name = "LINK")]
    pub link: GpuLink,
    /// How strictly it is kept apart from jobs on the same GPU: time-slice, mps, mig, whole.
    #[arg(long, default_value = "time-slice", value_parser = sharing, value_name = "MODE")]
    pub isolation: SharingMode,
    /// Seconds of a whole T4 that it takes; what it takes elsewhere follows from the throughput table.
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub gpu_seconds: u64,
    /// What it needs of the rest of the machine.
    #[command(flatten)]
    pub host: HostArguments,
    /// Regions that will do.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..i64::from(REGIONS_MAX)), value_name = "N,..")]
    pub region: Vec<u8>,
    /// What kind of work it is: inference, training, batch. Batch work bids in a sealed auction: --max-price is the bid,
    /// and every winner of a class pays one price.
    #[arg(long, default_value = "inference", value_parser = class, value_name = "CLASS")]
    pub class: JobClass,
    /// Machines that must run it together.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(GANG_MEMBERS_MAX)), value_name = "N")]
    pub gang: u16,
    /// Side of the square of network coordinates that a gang must fit in, in microseconds.
    #[arg(long, default_value_t = 1_000, value_name = "US")]
    pub neighbourhood: u32,
    /// Pays so many times the price, and goes first.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(PRIORITY_MAX)), value_name = "N")]
    pub priority: u8,
    /// on-demand; spot: cheaper, and others may push it out; reserved: its deadline is guaranteed or it is refused.
    #[arg(long, default_value = "on-demand", value_parser = tier, value_name = "TIER")]
    pub tier: CapacityTier,
    /// What a wrong answer would cost you beside the price. With --verify sync it comes only from who puts up twenty times the sum of both.
    #[arg(long, default_value_t = Amount::ZERO, value_name = "TGRID")]
    pub value_at_risk: Amount,
}

/// A hardware partition that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    milli: u16,
    memory_mib: u32,
}

impl NeedsArguments {
    /// Whether any machine will do, so that the grid's quotes say what the job would come to.
    pub fn are_usual(&self) -> bool {
        let usual = JobNeeds {
            value_at_risk: self.value_at_risk,
            ..JobNeeds::ANY_MACHINE
        };
        self.needs() == usual
    }

    /// The needs that the flags say.
    pub fn needs(&self) -> JobNeeds {
        let wants_part = self.gpu_share.is_some() || self.mig.is_some();
        let gpus = match (self.gpus, wants_part) {
            (0, true) => 1,
            (gpus, _) => gpus,
        };
        let share = self.mig.map(|it| it.milli).or(self.gpu_share);
        let whole = if gpus > 0 { 1_000 } else { 0 };
        let models = match self.gpu_model.is_empty() {
            true => GpuModelSet::ANY,
            false => GpuModelSet::of(&self.gpu_model),
        };
        let regions = match self.region.is_empty() {
            true => RegionSet::ANY,
            false => self.region.iter().fold(RegionSet::NONE, |set, region| {
                RegionSet::from_bits(set.bits() | RegionSet::only(*region).bits())
            }),
        };
        JobNeeds {
            class: self.class,
            gpus,
            gpu_milli: share.unwrap_or(whole),
            gpu_memory_mib: self.mig.map_or(self.gpu_memory, |it| it.memory_mib),
            models,
            capability_min: self.capability.unwrap_or(0),
            tensor_cores: self.tensor_cores,
            link_min: self.link,
            isolation: match self.mig {
                Some(_) => SharingMode::Mig,
                None => self.isolation,
            },
            cpu_milli: self.host.cpu_milli,
            memory_mib: self.host.memory,
            disk_gib: self.host.disk,
            regions,
            reference: DurationMs::from_secs(self.gpu_seconds),
            gang: self.gang,
            neighbourhood_us: match self.gang {
                1 => 0,
                _ => self.neighbourhood,
            },
            guaranteed: self.tier == CapacityTier::Reserved,
            priority: self.priority,
            preemptible: self.tier == CapacityTier::Spot,
            tier: self.tier,
            value_at_risk: self.value_at_risk,
        }
    }
}

/// The machine that is offered: what is found here, or what the flags say instead. More GPUs than there are here are refused; nothing
/// else of it is checked: who declares too much is late and pays.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Machine")]
pub struct MachineArguments {
    /// GPUs, all alike; by default the one of --device, if it is a GPU.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=i64::from(GPUS_MAX)), value_name = "N")]
    pub gpus: Option<u8>,
    /// Offer GPUs that are not here, for trying a market out: jobs are executed on the device that is.
    #[arg(long)]
    pub simulated_gpu: bool,
    /// Their model (t4, a100-80, h100, rtx4090, .., other); by default that of the device.
    #[arg(long, value_parser = gpu_model, value_name = "MODEL")]
    pub gpu_model: Option<GpuModel>,
    /// Memory of each in MiB; by default that of the device.
    #[arg(long, value_name = "MIB")]
    pub gpu_memory: Option<u32>,
    /// Their compute capability, as 8.0; by default that of the device.
    #[arg(long, value_parser = capability, value_name = "X.Y")]
    pub capability: Option<u16>,
    /// They have tensor cores; of the device it is known.
    #[arg(long)]
    pub tensor_cores: bool,
    /// How they are joined: pcie, nvlink, nvswitch.
    #[arg(long, default_value = "pcie", value_parser = link, value_name = "LINK")]
    pub link: GpuLink,
    /// How jobs may share one: time-slice, mps, mig.
    #[arg(long, value_delimiter = ',', value_parser = sharing, value_name = "MODE,..")]
    pub sharing: Vec<SharingMode>,
    /// Processor in thousandths of a core; by default all of it.
    #[arg(long, value_name = "MILLI")]
    pub cpu_milli: Option<u32>,
    /// Memory of the machine in MiB; by default three quarters of what it has.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u32>,
    /// Disk in GiB.
    #[arg(long, default_value_t = 0, value_name = "GIB")]
    pub disk: u32,
    /// Region.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..i64::from(REGIONS_MAX)), value_name = "N")]
    pub region: u8,
    /// Tiers that are sold: on-demand, spot, reserved.
    #[arg(long, value_delimiter = ',', default_value = "on-demand", value_parser = tier, value_name = "TIER,..")]
    pub tiers: Vec<CapacityTier>,
    /// The price of a GPU second follows demand, from the stated one upwards.
    #[arg(long)]
    pub dynamic: bool,
}

impl MachineArguments {
    /// The machine that the flags say; what they leave out is as it was found.
    pub fn machine(&self, found: &Machine) -> Machine {
        let gpus = self.gpus.unwrap_or(found.gpu_count);
        // Of GPUs that are not there nothing is known.
        let found = if found.gpu_count > 0 && gpus > 0 {
            *found
        } else {
            Machine {
                cpu_milli: found.cpu_milli,
                memory_mib: found.memory_mib,
                ..Machine::CPU_ONLY
            }
        };
        Machine {
            gpu_count: gpus,
            gpu: self.gpu_model.unwrap_or(found.gpu),
            gpu_memory_mib: self.gpu_memory.unwrap_or(found.gpu_memory_mib),
            capability: self.capability.unwrap_or(found.capability),
            tensor_cores: self.tensor_cores || found.tensor_cores,
            link: self.link,
            sharing: SharingSet::of(&self.sharing),
            cpu_milli: self.cpu_milli.unwrap_or(found.cpu_milli),
            memory_mib: self.memory.unwrap_or(found.memory_mib),
            disk_gib: self.disk,
            region: self.region,
            coordinate_us: [0, 0],
            tiers: TierSet::of(&self.tiers),
        }
    }

    /// How its GPU time is priced.
    pub const fn pricing(&self) -> Pricing {
        if self.dynamic {
            Pricing::Dynamic
        } else {
            Pricing::Fixed
        }
    }
}

/// The one of a name in whatever case, or the names there are.
fn word<T: Copy>(text: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, String> {
    let found = all
        .iter()
        .copied()
        .find(|it| name(*it).eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|it| name(*it)).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn gpu_model(text: &str) -> Result<GpuModel, String> {
    word(text, GpuModel::ALL, GpuModel::as_str)
}

fn link(text: &str) -> Result<GpuLink, String> {
    word(text, GpuLink::ALL, GpuLink::as_str)
}

fn sharing(text: &str) -> Result<SharingMode, String> {
    word(text, SharingMode::ALL, SharingMode::as_str)
}

fn tier(text: &str) -> Result<CapacityTier, String> {
    word(text, CapacityTier::ALL, CapacityTier::as_str)
}

/// Bids of the batch auction are sealed first, which this command does not do.
fn class(text: &str) -> Result<JobClass, String> {
    word(text, JobClass::ALL, JobClass::as_str)
}

/// `8.0` is 80.
///
/// # Errors
/// What was expected instead.
pub fn capability(text: &str) -> Result<u16, String> {
    let parts = text.split_once('.').unwrap_or((text, "0"));
    let parsed = (parts.0.parse::<u16>(), parts.1.parse::<u16>());
    match parsed {
        (Ok(major @ 0..=99), Ok(minor @ 0..=9)) => Ok(major * 10 + minor),
        _ => Err("expected a compute capability like 8.0".to_owned()),
    }
}

/// The share and the memory that a partition of this name has at least, on whichever models have one.
///
/// # Errors
/// What was expected instead.
pub fn mig_profile(text: &str) -> Result<Partition, String> {
    let all = MigModel::ALL.into_iter().flat_map(|model| {
        let profiles = MigProfile::ALL.into_iter();
        profiles.map(move |profile| (model, profile))
    });
    let named =
        all.filter(|(model, profile)| model.profile_name(*profile).eq_ignore_ascii_case(text));
    let parts = named.map(|(model, profile)| Partition {
        milli: profile.compute_milli(),
        memory_mib: model.memory_mib(profile),
    });
    parts
        .min_by_key(|it| it.memory_mib)
        .ok_or_else(|| "expected a profile like 1g.10gb, 2g.20gb, 3g.40gb or 7g.80gb".to_owned())
}

/// Reads an amount of TGRID.
///
/// # Errors
/// What is wrong with the text.
pub fn amount(text: &str) -> Result<Amount, String> {
    text.parse()
        .map_err(|error: tg_types::ParseAmountError| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Both {
        #[command(flatten)]
        needs: NeedsArguments,
    }

    #[derive(Parser)]
    struct Offered {
        #[command(flatten)]
        machine: MachineArguments,
    }

    #[test]
    fn a_machine_is_what_was_found_unless_flags_say_otherwise() {
        let found = Machine {
            gpu_count: 1,
            gpu: GpuModel::H100,
            gpu_memory_mib: 81_079,
            capability: 90,
            tensor_cores: true,
            cpu_milli: 16_000,
            memory_mib: 98_304,
            ..Machine::CPU_ONLY
        };
        let machine = |flags: &str| {
            let flags = std::iter::once("x").chain(flags.split_whitespace());
            let parsed = Offered::try_parse_from(flags);
            parsed.map(|it| it.machine.machine(&found)).ok()
        };
        assert_eq!(machine(""), Some(found));
        let four = Machine {
            gpu_count: 4,
            gpu: GpuModel::H200,
            ..found
        };
        assert_eq!(machine("--gpus 4 --gpu-model h200"), Some(four));
        let none = Machine {
            cpu_milli: 1_000,
            memory_mib: 98_304,
            ..Machine::CPU_ONLY
        };
        assert_eq!(machine("--gpus 0 --cpu-milli 1000"), Some(none));
    }

    fn needs(flags: &str) -> Result<JobNeeds, clap::Error> {
        let flags = std::iter::once("x").chain(flags.split_whitespace());
        Both::try_parse_from(flags).map(|both| both.needs.needs())
    }

    #[test]
    fn without_flags_any_machine_will_do() {
        assert_eq!(needs("").ok(), Some(JobNeeds::ANY_MACHINE));
    }

    #[test]
    fn a_share_is_of_one_gpu_and_a_partition_has_memory() {
        let share = needs("--gpu-share 250 --isolation mps").ok();
        let share = share.map(|it| (it.gpus, it.gpu_milli, it.isolation));
        assert_eq!(share, Some((1, 250, SharingMode::Mps)));
        let part = needs("--mig 3g.40gb").ok();
        let part = part.map(|it| (it.gpus, it.gpu_milli, it.gpu_memory_mib, it.isolation));
        assert_eq!(part, Some((1, 428, 38_912, SharingMode::Mig)));
    }

    #[test]
    fn names_are_taken_in_any_case() {
        for (one, other) in [
            ("--gpu-model h100,a100-80", "--gpu-model H100,A100-80"),
            ("--mig 3g.40gb", "--mig 3G.40GB"),
        ] {
            assert_eq!(needs(one).ok(), needs(other).ok());
            assert!(needs(one).is_ok(), "{one}");
        }
        assert!(needs("--gpu-model h1000").is_err());
    }

    #[test]
    fn every_need_has_its_flag() {
        let all = "--gpus 4 --gpu-model a100-80,h100 --capability 8.0 --tensor-cores --link nvswitch --gpu-seconds 60 \
                   --cpu-milli 4000 --memory 8192 --disk 10 --region 1,3 --class training --gang 2 \
                   --neighbourhood 500 --priority 2 --tier spot --gpu-memory 40000 --isolation whole --value-at-risk 2.5";
        let needs = needs(all).ok();
        let expected = JobNeeds {
            class: JobClass::Training,
            gpus: 4,
            gpu_milli: 1_000,
            gpu_memory_mib: 40_000,
            models: GpuModelSet::of(&[GpuModel::A100M80, GpuModel::H100]),
            capability_min: 80,
            tensor_cores: true,
            link_min: GpuLink::Nvswitch,
            isolation: SharingMode::Whole,
            cpu_milli: 4_000,
            memory_mib: 8_192,
            disk_gib: 10,
            regions: RegionSet::from_bits(0b1010),
            reference: DurationMs::from_secs(60),
            gang: 2,
            neighbourhood_us: 500,
            guaranteed: false,
            priority: 2,
            preemptible: true,
            tier: CapacityTier::Spot,
            value_at_risk: Amount::new(2_500_000_000_000_000_000),
        };
        assert_eq!(needs, Some(expected));
    }

    #[test]
    fn unknown_words_name_the_known_ones() {
        for (flags, known) in [
            ("--gpu-model h300", "h100"),
            ("--tier gold", "spot"),
            ("--mig 9g.1gb", "3g.40gb"),
            ("--capability best", "8.0"),
            ("--link rope", "nvlink"),
            ("--class night", "training"),
        ] {
            let error = needs(flags).err().map(|it| it.to_string());
            assert!(error.is_some_and(|it| it.contains(known)), "{flags}");
        }
    }
}
