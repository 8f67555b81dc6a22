//! Arguments of the commands that speak to a grid.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tg_cuda::DeviceChoice;
use tg_types::Amount;

use super::accounts::REQUESTOR;
use super::needs::{MachineArguments, NeedsArguments};

/// Which grid.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApiArguments {
    /// Address of the grid's API.
    #[arg(
        long,
        env = "TENSORGRID_API",
        default_value = "http://127.0.0.1:7070",
        value_name = "URL"
    )]
    pub(crate) api: String,
}

/// Who signs.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeyArguments {
    /// File with the key that signs (64 hexadecimal digits).
    #[arg(long, env = "TENSORGRID_KEY", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Funded account of a development network that signs if there is no key file.
    #[arg(long, default_value = REQUESTOR, value_name = "NAME")]
    pub(crate) account: String,
}

/// How a result is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Verify {
    /// By a proof that every validator checks, and this command again.
    Proof,
    /// By nobody; on development networks only.
    None,
}

/// `up`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid up\n  tensorgrid up --data-dir /var/lib/grid --listen 127.0.0.1:7171 --providers 0\n\n\
                  The network is labelled development: the keys of its funded accounts follow from public names. \
                  Ctrl-C stops cleanly; a second Ctrl-C stops at once. State survives both, and SIGKILL."
)]
pub(crate) struct UpArguments {
    /// Folder of the grid's state.
    #[arg(long, default_value = "./tensorgrid-data", value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Where the API listens. It has no login: keep it on loopback unless the network is closed.
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Validators in this process; the number is fixed at the first start.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(crate) validators: u16,
    /// Providers in this process.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=6))]
    pub(crate) providers: u16,
    /// Do not register the built-in models.
    #[arg(long)]
    pub(crate) no_models: bool,
    /// Begin a new consensus epoch at the highest final block: for a grid whose validators have lost the journals of their
    /// votes and so may not go on. Blocks that were not final are left; nothing that was final is.
    #[arg(long)]
    pub(crate) new_epoch: bool,
}

/// `provider`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  tensorgrid provider --price 0.02\n  tensorgrid provider --price 0.005 --throttle-mmac-per-s 1 --key ./slow.key\n  \
                  tensorgrid provider list\n\nA provider locks its collateral with every lease, and loses it if its \
                  result is rejected or late. Ctrl-C withdraws the offer and finishes what was started."
)]
pub(crate) struct ProviderArguments {
    /// Commands about providers; without one, this machine becomes one.
    #[command(subcommand)]
    pub(crate) command: Option<ProviderCommand>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    /// Price of a job in TGRID.
    #[arg(long, default_value = "0.02", value_parser = amount, value_name = "TGRID")]
    pub(crate) price: Amount,
    /// Price of each million multiply-accumulates, on top.
    #[arg(long, default_value = "0", value_parser = amount, value_name = "TGRID")]
    pub(crate) price_per_mmac: Amount,
    /// Collateral locked with every lease.
    #[arg(long, default_value = "1", value_parser = amount, value_name = "TGRID")]
    pub(crate) collateral: Amount,
    /// Price of a second of one whole GPU, on top, for the GPU time that a job states.
    #[arg(long, default_value = "0", value_parser = amount, value_name = "TGRID")]
    pub(crate) price_per_gpu_second: Amount,
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    /// Leases at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) slots: u16,
    /// Most that a day of rent may cost for the offer, and for the provider's record, before they are left to lapse.
    #[arg(long, default_value = "0.05", value_parser = amount, value_name = "TGRID")]
    pub(crate) rent_per_day_max: Amount,
    /// Slow the work down to this speed, and say so in the offer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) throttle_mmac_per_s: Option<u64>,
    /// Answer jobs of mode proof by proofs in zero knowledge: they hide what the model computes between input and output.
    #[arg(long)]
    pub(crate) masked: bool,
    /// Where jobs are executed: cpu, cuda:N, or auto, the first GPU that passes the check or else the CPU. A GPU runs the check
    /// of `tensorgrid device --check` first, and one that fails is refused. Proofs are made on the CPU.
    #[arg(long, default_value_t = DeviceChoice::Auto, value_name = "DEVICE")]
    pub(crate) device: DeviceChoice,
    /// File of the provider's key; made if it is missing.
    #[arg(long, default_value = "./tensorgrid-provider/key", value_name = "FILE")]
    pub(crate) key: PathBuf,
}

/// Commands about providers.
#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// List the open offers.
    List(ApiArguments),
}

/// `infer`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid infer lenet-digits seven.png\n  tensorgrid infer mlp-digits digit.npy --verify none --max-price 0.05 --yes\n  \
                  tensorgrid infer lenet-digits seven.png --gpu-share 250 --gpu-seconds 2 --max-price 1 --dry-run\n\n\
                  The proof is verified here again, against the public model: the grid is not trusted. Exit code 3 \
                  says that a proof, the job or the order was rejected."
)]
pub(crate) struct InferArguments {
    /// The model: its name, its id, or the beginning of its id.
    pub(crate) model: String,
    /// The input: .npy (f32 or u8), .json ({"input_data": [[...]]}) or .png (8-bit, the model's size).
    pub(crate) input: PathBuf,
    /// Print the integers of the answer, as the program gives and stores them, instead of reals in the order of the file.
    #[arg(long)]
    pub(crate) raw: bool,
    /// How the result is checked.
    #[arg(long, value_enum, default_value = "proof")]
    pub(crate) verify: Verify,
    /// Most that is paid to the provider, in TGRID; twice what the third cheapest asks if absent.
    #[arg(long, value_parser = amount, value_name = "TGRID")]
    pub(crate) max_price: Option<Amount>,
    /// Seconds the job may take.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(crate) deadline_s: u64,
    /// Providers to try at most.
    #[arg(long, default_value_t = tg_types::limits::ATTEMPTS_USUAL, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) attempts: u8,
    /// Do not ask before spending.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Say what ordering would come to in the next block, and order nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// What a sealed bid locks until it is opened (--class batch), in TGRID; the network's least if absent.
    #[arg(long, value_parser = amount, value_name = "TGRID")]
    pub(crate) deposit: Option<Amount>,
    #[command(flatten)]
    pub(crate) needs: NeedsArguments,
    /// Write the proof, with its input and output, for `tensorgrid verify`.
    #[arg(long, value_name = "FILE")]
    pub(crate) proof_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `model add`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tensorgrid model add lenet.tgm lenet.tgv --name my-lenet")]
pub(crate) struct ModelAddArguments {
    /// The program with its weights (.tgm); the grid's providers will see it.
    pub(crate) model: PathBuf,
    /// Its public part (.tgv).
    pub(crate) public: PathBuf,
    /// Name on the grid; the compiled one if absent.
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `model show`.
#[derive(Debug, Args)]
pub(crate) struct ModelShowArguments {
    /// The model: its name, its id, or the beginning of its id.
    pub(crate) model: String,
    /// Write the public part (.tgv).
    #[arg(long, value_name = "F.tgv")]
    pub(crate) public_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// Commands about jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// List jobs, newest first.
    List(JobListArguments),
    /// Show a job: its states, its leases, its money.
    Show(JobArguments),
    /// Say why a job is where it is, offer by offer.
    Why(JobArguments),
    /// Show the receipt of a paid job.
    Receipt(JobReceiptArguments),
    /// Pay more for a job that did not end, or let it try more providers.
    Raise(JobRaiseArguments),
    /// Take back a job that waits.
    Cancel(JobCancelArguments),
}

/// `job list`.
#[derive(Debug, Args)]
pub(crate) struct JobListArguments {
    /// At most so many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `job show` and `job why`.
#[derive(Debug, Args)]
pub(crate) struct JobArguments {
    /// The job's id, or the beginning of it.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `job receipt`.
#[derive(Debug, Args)]
pub(crate) struct JobReceiptArguments {
    /// The job's id, or the beginning of it.
    pub(crate) job: String,
    /// Write the proof, with its input and output, for `tensorgrid verify`.
    #[arg(long, value_name = "FILE")]
    pub(crate) proof_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `job raise`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid job raise 3fa1b2 --max-price 0.05 --attempts 5\n\n\
                  Neither may become less. The difference is locked, and what is not needed of it comes back."
)]
pub(crate) struct JobRaiseArguments {
    /// The job's id, or the beginning of it.
    pub(crate) job: String,
    /// Most that is paid to the provider, in TGRID; as it is if absent.
    #[arg(long, value_parser = amount, value_name = "TGRID", required_unless_present = "attempts")]
    pub(crate) max_price: Option<Amount>,
    /// Providers to try at most; as it is if absent.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) attempts: Option<u8>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `job cancel`.
#[derive(Debug, Args)]
pub(crate) struct JobCancelArguments {
    /// The job's id, or the beginning of it.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// Commands about rent.
#[derive(Debug, Subcommand)]
pub(crate) enum RentCommand {
    /// Show what a record costs a day, what is left of its deposit, and for how long.
    Show(RentShowArguments),
    /// Add to a record's deposit. Whoever paid the first deposit gets back what is left in the end.
    Pay(RentPayArguments),
}

/// `rent show`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid rent show lenet-digits\n  tensorgrid rent show 0x52908400098527886E0F7030069857D2E4169EE7"
)]
pub(crate) struct RentShowArguments {
    /// A model (name, id or beginning of its id), an offer or a job (id or beginning of it), or a provider (its address).
    pub(crate) record: String,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `rent pay`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid rent pay lenet-digits --days 30\n  tensorgrid rent pay 3fa1b2c4 --amount 0.01 --yes\n\n\
                  Days are counted at the price of now, which rises when the ledger's tables are more than half full. \
                  Anyone may pay; it is a gift to whoever paid the first deposit."
)]
pub(crate) struct RentPayArguments {
    /// A model (name, id or beginning of its id), an offer or a job (id or beginning of it), or a provider (its address).
    pub(crate) record: String,
    /// Pay for so many days at the price of now.
    #[arg(long, value_name = "N", required_unless_present = "amount", conflicts_with = "amount", value_parser = clap::value_parser!(u32).range(1..=3_650))]
    pub(crate) days: Option<u32>,
    /// Pay so much, in TGRID.
    #[arg(long, value_parser = amount, value_name = "TGRID")]
    pub(crate) amount: Option<Amount>,
    /// Do not ask before spending.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `balance`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid balance\n  tensorgrid balance 0x52908400098527886E0F7030069857D2E4169EE7"
)]
pub(crate) struct BalanceArguments {
    /// An address; on a development network all funded accounts if absent.
    pub(crate) address: Option<String>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// Reads an amount of TGRID.
fn amount(text: &str) -> Result<Amount, String> {
    text.parse()
        .map_err(|error: tg_types::ParseAmountError| error.to_string())
}
