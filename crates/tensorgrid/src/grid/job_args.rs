//! Arguments of the commands about jobs, of job files, and of what jobs cost.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tg_console::needs::amount;
use tg_types::Amount;

use super::connect_args::{ApiArguments, KeyArguments, TrustArguments};
use super::order_args::CloudPriceArguments;
use super::projects;

/// Commands about jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// List jobs, newest first, as the API tells them: nothing proves a list.
    List(JobListArguments),
    /// Show a job: its states, its leases, its money.
    Show(JobShowArguments),
    /// Say why a job is where it is, offer by offer.
    Why(JobArguments),
    /// Show the receipt of a paid job.
    Receipt(JobReceiptArguments),
    /// Pay more for a job that did not end, or let it try more providers.
    Raise(JobRaiseArguments),
    /// Take back a job that has no result yet; whoever works on it is paid for its time.
    Cancel(JobCancelArguments),
    /// Dispute the result of a job of mode optimistic before it is paid.
    Challenge(JobChallengeArguments),
    /// Ask whether a validator still has the answer that it stated to keep.
    AskStored(JobAskStoredArguments),
    /// Grant the key of a sealed job to each provider that gets it, until one runs it: what `infer --seal` does by itself.
    Grant(JobGrantArguments),
    /// Show the key of a sealed job to everybody, so that validators look at its grant or its result.
    Reveal(JobRevealArguments),
    /// Wait for a job's end, check its proof and print the result: the second half of `infer --detach`.
    Fetch(JobFetchArguments),
    /// Read job files, and say what they ask for or what is wrong with them, without a grid.
    Validate(JobValidateArguments),
    /// Order what a job file asks for.
    Submit(JobSubmitArguments),
    /// Print the JSON Schema of job files.
    Schema,
    /// Sum up what an account spent, by model and day.
    Cost(JobCostArguments),
}

/// `job challenge`.
#[derive(Debug, Args)]
#[command(
    after_help = "Costs the fee of mode recompute, which comes back out of the provider's collateral if the result is wrong.\n\
                  Of a model that is too long for all validators to repeat this command runs it here and says what a right run gives; the provider shows where that is wrong, and every \
                  validator computes the one tile at which they differ.\n\
                  Possible from the time that a watcher is drawn until the result is accepted: some ten seconds."
)]
pub(crate) struct JobChallengeArguments {
    /// The job's id, or the beginning of it; anybody's.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `job ask-stored`.
#[derive(Debug, Args)]
#[command(
    after_help = "Costs the fee of a proof, which comes back if the validator does not have the answer: then it loses a part of its bond.\n\
                  All other validators fetch the answer from this one alone. One that gives it is done within seconds; one that does not has \
                  six hours, so that no restart convicts anybody. `job show` says who keeps an answer, and what was found.\n\n\
                  Example:\n  tensorgrid job ask-stored 3fa1b2 0x52908400098527886E0F7030069857D2E4169EE7"
)]
pub(crate) struct JobAskStoredArguments {
    /// The job's id, or the beginning of it; anybody's.
    pub(crate) job: String,
    /// Address of the validator, as `job show` and `seat list` have it.
    pub(crate) seat: String,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
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

/// `job show`.
#[derive(Debug, Args)]
pub(crate) struct JobShowArguments {
    /// The job's id, or the beginning of it.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `job why`.
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

/// `job fetch`.
#[derive(Debug, Args)]
pub(crate) struct JobFetchArguments {
    /// The job's id, or the beginning of it.
    pub(crate) job: String,
    /// What was ordered, as `infer --detach --json` printed it: the result is checked against that instead of what the API says was ordered.
    #[arg(long, value_name = "MODEL:INPUT:MODE")]
    pub(crate) order: Option<String>,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// Print the integers of the answer, as the program gives and stores them, instead of reals in the order of the file.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Write the proof, with its input and output, for `tensorgrid verify`.
    #[arg(long, value_name = "FILE")]
    pub(crate) proof_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    /// The key that ordered it, which alone opens a sealed answer.
    #[command(flatten)]
    pub(crate) key: KeyArguments,
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
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// Most that is paid to the provider, in TGRID; as it is if absent, which --genesis has to prove for the key of a file.
    #[arg(long, value_parser = amount, value_name = "TGRID", required_unless_present = "attempts")]
    pub(crate) max_price: Option<Amount>,
    /// Providers to try at most; as it is if absent.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) attempts: Option<u8>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    /// File of a session key that signs instead (`tensorgrid wallet session new`, scope order).
    #[arg(
        long,
        env = "TENSORGRID_SESSION",
        value_name = "FILE",
        conflicts_with = "key"
    )]
    pub(crate) session: Option<PathBuf>,
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
    /// File of a session key that signs instead (`tensorgrid wallet session new`, scope order).
    #[arg(
        long,
        env = "TENSORGRID_SESSION",
        value_name = "FILE",
        conflicts_with = "key"
    )]
    pub(crate) session: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// Values for the names in a job file.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobEnvArguments {
    /// Value for `$NAME` in the file, instead of what its `envs` say; without a value, that of the environment.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
}

/// `job validate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid job validate examples/jobs/*.yaml\n\nPrints what each file asks for, in words and as a command. \
                  Exit code 2 says that a file is refused: each reason has its line and column, and what to do."
)]
pub(crate) struct JobValidateArguments {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) envs: JobEnvArguments,
}

/// `job submit`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid job submit examples/jobs/digit.yaml --dry-run\n  tensorgrid job submit examples/jobs/digit.yaml --env FILE=examples/digit.json --yes\n\n\
                  The order is that of `infer`, `write`, `program submit` or `endpoint open`, which are said. Of several alternatives each is \
                  asked for its price, and the cheapest that is offered is ordered, or with `ordered` the first."
)]
pub(crate) struct JobSubmitArguments {
    /// The file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) envs: JobEnvArguments,
    /// Do not ask before spending.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Say what ordering would come to in the next block, and order nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The project that it is for: kept on this machine beside the key, for `job cost --project`.
    #[arg(long, value_parser = projects::name, value_name = "NAME")]
    pub(crate) project: Option<String>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `job cost`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid job cost\n  tensorgrid job cost --days 30 --csv > cost.csv\n  tensorgrid job cost --project\n\nDays are those of UTC in which jobs were ordered. Money \
                  that is locked for jobs that did not end is in a column of its own. Jobs that the grid's ledger has dropped are not in the sums."
)]
pub(crate) struct JobCostArguments {
    /// The account, by its address; that of --key or --account if absent.
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<String>,
    /// Only jobs of so many last days, today among them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3_650))]
    pub(crate) days: Option<u32>,
    /// Rows of each project by itself, or with =NAME of this one alone; those that jobs were ordered for on this machine with this key.
    #[arg(long, value_parser = projects::name, num_args = 0..=1, require_equals = true, value_name = "NAME")]
    pub(crate) project: Option<Option<String>>,
    /// Print rows of comma-separated values.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) clouds: CloudPriceArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// Whether a job is sealed.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SealArguments {
    /// Seal the input to the provider that is found, and the answer back: nobody else reads them, and nobody else checks the answer. A
    /// provider that is granted the key and then does not serve keeps it, and reads both too. The key of a file is granted only with
    /// --genesis. Each new lease needs a grant, within half a minute, by a command that runs: with --detach by `job grant` or `job fetch`.
    #[arg(long)]
    pub(crate) seal: bool,
    /// With --seal: run the model here too; if the answer is another one, or the provider says that its key opens nothing, show the key to
    /// everybody, so that validators look.
    #[arg(long, requires = "seal")]
    pub(crate) reveal: bool,
}

/// `job grant`.
#[derive(Debug, Args)]
#[command(
    after_help = "`infer --seal` grants by itself. This goes on where it was stopped, or after --detach: it grants the key to each provider that gets \
                  the job, and ends once one runs it, or it is over. A lease waits half a minute for the key, and each new lease, also one after a \
                  provider that began and is gone, needs a grant by a command that runs: `job fetch` stays until the end. The provider and its \
                  sealing key are proved (--genesis), but for development accounts.\n\nExample:\n  tensorgrid job grant 3fa1b2 --key alice.key --genesis genesis.bin"
)]
pub(crate) struct JobGrantArguments {
    /// The job's id, or the beginning of it; of mode sealed.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `job reveal`.
#[derive(Debug, Args)]
#[command(
    after_help = "Possible while its provider says that the key does not open the input: then it costs nothing, and whoever was wrong pays. Or while \
                  its result may be doubted, some ten seconds: then it costs the fee of mode recompute, which comes back out of the provider's \
                  collateral if validators find another answer. That it is so is proved before the key is shown (--genesis), but for development \
                  accounts.\n\nExample:\n  tensorgrid job reveal 3fa1b2 --key alice.key --genesis genesis.bin"
)]
pub(crate) struct JobRevealArguments {
    /// The job's id, or the beginning of it; of mode sealed.
    pub(crate) job: String,
    /// Do not ask before showing it.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}
