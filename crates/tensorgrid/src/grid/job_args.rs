//! The command line of job files and of what jobs cost.

use std::path::PathBuf;

use clap::Args;

use super::connect_args::{ApiArguments, KeyArguments, TrustArguments};
use super::order_args::CloudPriceArguments;
use super::projects;

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
