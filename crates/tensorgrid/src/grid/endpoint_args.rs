//! The command line of endpoints.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tg_types::Amount;

use super::connect_args::{ApiArguments, KeyArguments, TrustArguments};
use tg_console::draw::DrawArguments;
use tg_console::needs::{NeedsArguments, amount};

/// Commands about endpoints.
#[derive(Debug, Subcommand)]
pub(crate) enum EndpointCommand {
    /// Order an endpoint, and wait until a provider serves it.
    Open(EndpointOpenArguments),
    /// List the endpoints of an account that did not end: who serves them, what they cost, how long their money lasts.
    List(EndpointListArguments),
    /// Ask an endpoint, once or many times, and say how long answers took.
    Ask(EndpointAskArguments),
    /// Have an endpoint write what follows a prompt, as it is written.
    Write(EndpointWriteArguments),
    /// Lock more money for an endpoint; one that waits for money goes on.
    TopUp(EndpointTopUpArguments),
    /// End an endpoint: what it served is paid, the rest comes back.
    Close(EndpointJobArguments),
}

/// `endpoint open`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example:\n  tensorgrid endpoint open mlp-digits --money 75 --hours 2 --yes\n\nThe provider is paid forty times its base price and \
                  its GPU time for each minute, and the price of the work for each answer, as this account signs for it. \
                  Nobody checks the answers but you: they are signed by the provider."
)]
pub(crate) struct EndpointOpenArguments {
    /// The model: its name, its id, or the beginning of its id.
    pub(crate) model: String,
    /// What is locked for it, in TGRID; what is not used comes back.
    #[arg(long, value_parser = amount, value_name = "TGRID")]
    pub(crate) money: Amount,
    /// How long it may last, in hours.
    #[arg(long, default_value_t = 1.0, value_name = "HOURS")]
    pub(crate) hours: f64,
    #[command(flatten)]
    pub(crate) needs: NeedsArguments,
    /// Do not ask before spending.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Say what ordering would come to in the next block, and order nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `endpoint list`.
#[derive(Debug, Args)]
pub(crate) struct EndpointListArguments {
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `endpoint ask`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid endpoint ask 0x1234 examples/digit.json\n  tensorgrid endpoint ask 0x1234 examples/digit.json --times 1000 --parallel 8"
)]
pub(crate) struct EndpointAskArguments {
    /// The endpoint's job: its id, or the beginning of it.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// Files of the input, as `infer` takes them.
    #[arg(required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// How often to ask.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) times: u32,
    /// How many requests are under way at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) parallel: u16,
    /// Ask for a proof of each answer and check it here, for as much as a minute and a run: an answer that is not proved is not
    /// owed. Four are under way at once at most.
    #[arg(long)]
    pub(crate) prove: bool,
    /// Draw one in N of the answers after they came, have these proved and checked here: the provider does not know which ones
    /// it will have to prove. Each costs as much as one with --prove. One that was wrong ends the command with 3.
    #[arg(long, value_name = "N", conflicts_with = "prove", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) prove_one_in: Option<u32>,
    /// Print stored integers instead of real values.
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `endpoint write`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tensorgrid endpoint write 0x1234 --text 'KING RICHARD:'")]
pub(crate) struct EndpointWriteArguments {
    /// The endpoint's job: its id, or the beginning of it.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) what: DrawArguments,
    /// With --json: print each piece of the text as it comes, an object `{"piece": ..}` on a line, and last the whole on one line.
    #[arg(long, requires = "json")]
    pub(crate) stream: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `endpoint top-up`.
#[derive(Debug, Args)]
pub(crate) struct EndpointTopUpArguments {
    /// The endpoint's job: its id, or the beginning of it.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// How much more is locked, in TGRID.
    #[arg(value_parser = amount, value_name = "TGRID")]
    pub(crate) money: Amount,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `endpoint close`.
#[derive(Debug, Args)]
pub(crate) struct EndpointJobArguments {
    /// The endpoint's job: its id, or the beginning of it.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}
