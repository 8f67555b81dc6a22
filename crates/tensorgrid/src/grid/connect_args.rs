//! Which grid, whom to trust, and who signs: arguments of every command that speaks to a grid.

use std::path::PathBuf;

use clap::Args;
use tg_types::chain::Checkpoint;

use tg_console::accounts::REQUESTOR;

/// The API of a grid on this machine that was started without flags.
pub(crate) const API_USUAL: &str = "http://127.0.0.1:7070";

/// Which grid.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApiArguments {
    /// Address of the grid's API.
    #[arg(
        long,
        env = "TENSORGRID_API",
        default_value = API_USUAL,
        value_name = "URL"
    )]
    pub(crate) api: String,
}

/// Whom to trust.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrustArguments {
    /// File with the genesis of the network. With it nothing of this answer is believed that its validators did not make
    /// final.
    #[arg(long, env = "TENSORGRID_GENESIS", value_name = "FILE")]
    pub(crate) genesis: Option<PathBuf>,
    /// A final block from somebody you trust, as `tensorgrid checkpoint` prints it: needed if what is known of the chain is so old that bonds no longer
    /// answer for it.
    #[arg(
        long,
        env = "TENSORGRID_CHECKPOINT",
        value_name = "HEIGHT:ID",
        requires = "genesis"
    )]
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Where the newest block that is known to be final is kept for later commands; beside the genesis, with the ending
    /// `.trusted`, if absent.
    #[arg(
        long,
        env = "TENSORGRID_TRUSTED",
        value_name = "FILE",
        requires = "genesis"
    )]
    pub(crate) trusted: Option<PathBuf>,
    /// Show what the API says unproved, and say so. Without it and without --genesis, only an API on this machine (loopback) is believed.
    #[arg(long, conflicts_with = "genesis")]
    pub(crate) trust_gateway: bool,
}

/// Who signs.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeyArguments {
    /// File with the key that signs (64 hexadecimal digits, or under a passphrase).
    #[arg(long, env = "TENSORGRID_KEY", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Funded account of a development network that signs if there is no key file.
    #[arg(long, default_value = REQUESTOR, value_name = "NAME")]
    pub(crate) account: String,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,
}

/// What a key file is locked with.
#[derive(Debug, Clone, Args)]
pub(crate) struct PassphraseArguments {
    /// File whose first line is the passphrase of the key file, if it is under one.
    #[arg(long, env = "TENSORGRID_PASSPHRASE_FILE", value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}
