//! Arguments of the commands about programs of WebAssembly.

use clap::Args;
use tg_console::verify::{VerifyChoice, VerifyParser};
use tg_offline::arguments::{ProgramFileArguments, ProgramInputArguments};

use super::connect_args::{ApiArguments, KeyArguments, TrustArguments};
use super::order_args::{ACCOUNT, OrderArguments, TRUST};

/// `program add`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid program add examples/programs/pi.wasm --name pi --fuel 20000000\n\n\
                  The fuel belongs to the program: an order is priced by it and pays for what was burned, at least a quarter."
)]
pub(crate) struct ProgramAddArguments {
    #[command(flatten)]
    pub(crate) file: ProgramFileArguments,
    /// Name on the grid; that of the file if absent.
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `program submit`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example:\n  tensorgrid program submit words --input README.md --chunks 4 --yes\n\n\
                  The program is run here again and the answer compared, unless --trust leaves that to the validators. Exit \
                  code 3 says that the job was rejected, that the answer is wrong, or that the run did not finish."
)]
pub(crate) struct ProgramSubmitArguments {
    /// The program: its name, its id, or the beginning of its id.
    pub(crate) program: String,
    #[command(flatten)]
    pub(crate) given: ProgramInputArguments,
    /// Run it as so many jobs at the same time, each with some of the chunks, and merge their outputs by one more.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64), value_name = "N", conflicts_with = "merge")]
    pub(crate) parts: u16,
    /// Believe the validators that ran it again, or drawn parts of it, and do not run it here.
    #[arg(long)]
    pub(crate) trust: bool,
    /// How the result is checked. If absent: by sync where an offer has the stake for it, else by recompute.
    #[arg(long, value_parser = VerifyParser::PROGRAMS)]
    pub(crate) verify: Option<VerifyChoice>,
    #[command(flatten)]
    pub(crate) order: OrderArguments,
    #[command(flatten, next_help_heading = TRUST)]
    pub(crate) chain: TrustArguments,
    #[command(flatten, next_help_heading = ACCOUNT)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}
