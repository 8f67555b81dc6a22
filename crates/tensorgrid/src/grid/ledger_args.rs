//! Arguments of the commands about the chain and what it has: money, rent, seats.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tg_console::needs::amount;
use tg_types::Amount;

use super::connect_args::{ApiArguments, KeyArguments, PassphraseArguments, TrustArguments};

/// `checkpoint`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid checkpoint --api http://10.0.0.7:7101\n  \
                  tensorgrid balance 0x52908400098527886E0F7030069857D2E4169EE7 --genesis genesis.bin --checkpoint 7300:0x5e...\n  \
                  tensorgrid checkpoint --genesis genesis.bin --kept\n\n\
                  Whoever begins at a checkpoint trusts where it comes from: a node of one's own, or several that do not know each other and say the same."
)]
pub(crate) struct CheckpointArguments {
    /// The height of the block; the newest final block if absent.
    #[arg(long, value_name = "HEIGHT", conflicts_with_all = ["genesis", "kept"])]
    pub(crate) height: Option<u64>,
    /// Print what earlier commands kept, and ask nobody.
    #[arg(long, requires = "genesis")]
    pub(crate) kept: bool,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
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
    after_help = "Examples:\n  tensorgrid balance\n  tensorgrid balance 0x52908400098527886E0F7030069857D2E4169EE7 --genesis tensorgrid-data/genesis.bin"
)]
pub(crate) struct BalanceArguments {
    /// An address; if absent, that of --key, or on a development network all funded accounts.
    pub(crate) address: Option<String>,
    /// File with the key of the account (64 hexadecimal digits, or under a passphrase).
    #[arg(long, env = "TENSORGRID_KEY", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `seat`.
#[derive(Debug, Subcommand)]
pub(crate) enum SeatCommand {
    /// Print who votes, who waits for a seat, and whose bond is not returned yet.
    List(SeatListArguments),
    /// Bond for a seat, with the keys of a validator's settings; its account must have the bond.
    Join(SeatJoinArguments),
    /// Give a seat, or a place in the queue for one, back.
    Leave(SeatLeaveArguments),
    /// Show the ledger certificates that contradict each other: each validator in two of them loses its stake.
    Report(SeatReportArguments),
}

/// `seat list`.
#[derive(Debug, Args)]
pub(crate) struct SeatListArguments {
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `seat join`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid network join my-validator --validator --genesis genesis.bin --api http://10.0.0.7:7101 --no-encryption\n  \
                  tensorgrid transfer ADDRESS 1001\n  tensorgrid seat join 10.0.0.9:7100 --config my-validator/validator.toml\n  \
                  tensorgrid validator --config my-validator/validator.toml"
)]
pub(crate) struct SeatJoinArguments {
    /// Where the other validators reach it: HOST:PORT.
    pub(crate) endpoint: String,
    /// The validator's settings, which name its keys.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Do not ask before bonding.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `seat leave`.
#[derive(Debug, Args)]
pub(crate) struct SeatLeaveArguments {
    /// The validator's settings, which name its keys.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `seat report`.
#[derive(Debug, Args)]
pub(crate) struct SeatReportArguments {
    /// Files with certificates, as commands that follow the chain leave them.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// File with the genesis of the network.
    #[arg(long, env = "TENSORGRID_GENESIS", value_name = "FILE")]
    pub(crate) genesis: PathBuf,
    /// Do not ask before sending.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `transfer`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid transfer 0x52908400098527886E0F7030069857D2E4169EE7 5 --yes"
)]
pub(crate) struct TransferArguments {
    /// Address of the account that is paid; it is made if there is none.
    pub(crate) to: String,
    /// How much, in TGRID.
    #[arg(value_parser = amount)]
    pub(crate) amount: Amount,
    /// Do not ask before paying.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}
