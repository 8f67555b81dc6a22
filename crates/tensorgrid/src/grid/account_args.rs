//! The command line of wallets, of the faucet and of the doctor.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tg_console::needs::amount;
use tg_types::Amount;

use super::connect_args::{ApiArguments, KeyArguments};
use super::session_file::SessionSetting;

/// Commands about key files.
#[derive(Debug, Subcommand)]
pub(crate) enum WalletCommand {
    /// Make a key file with a fresh key.
    New(WalletNewArguments),
    /// Print the address of a key file, and how the file is kept.
    Show(WalletShowArguments),
    /// Copy a key under a passphrase to another place, and check that the copy can be read back.
    Backup(WalletBackupArguments),
    /// Put a key file under a passphrase, under another one, or under none.
    Passphrase(WalletPassphraseArguments),
    /// Keys that sign what machines send, for a while and up to an amount.
    #[command(subcommand)]
    Session(SessionCommand),
}

/// `wallet new`.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("lock").required(true),
    after_help = "Example:\n  tensorgrid wallet new my.key --passphrase-file secret\n\nWhoever has the file, and its passphrase if it has one, has the account's \
                  money. Nobody can make a lost key again."
)]
pub(crate) struct WalletNewArguments {
    /// The file to make; one that exists is left.
    pub(crate) file: PathBuf,
    /// Put the key under the passphrase in the first line of this file.
    #[arg(long, value_name = "FILE", group = "lock")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Write the key as it is, readable for this user only.
    #[arg(long, group = "lock")]
    pub(crate) no_encryption: bool,
}

/// `wallet show`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid wallet show --key my.key\n\nThe secret is not printed."
)]
pub(crate) struct WalletShowArguments {
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `wallet backup`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid wallet backup /media/stick/my.key --key my.key --backup-passphrase-file secret\n\n\
                  The copy is a key file as any other: `--key COPY --passphrase-file FILE` signs with it. Keep the passphrase elsewhere than the copy."
)]
pub(crate) struct WalletBackupArguments {
    /// The file to make, on another disk or machine; one that exists is left.
    pub(crate) to: PathBuf,
    /// File whose first line is the passphrase of the copy; that of the key file if absent and it has one.
    #[arg(long, value_name = "FILE")]
    pub(crate) backup_passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `wallet passphrase`.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("lock").required(true),
    after_help = "Examples:\n  tensorgrid wallet passphrase --key my.key --new-passphrase-file secret\n  \
                  tensorgrid wallet passphrase --key my.key --passphrase-file secret --new-passphrase-file other\n\n\
                  The file is replaced whole or not at all, and holds the same key. Copies of it keep the passphrase that they were made with."
)]
pub(crate) struct WalletPassphraseArguments {
    /// File whose first line is the passphrase from now on.
    #[arg(long, value_name = "FILE", group = "lock")]
    pub(crate) new_passphrase_file: Option<PathBuf>,
    /// Write the key as it is, readable for this user only.
    #[arg(long, group = "lock")]
    pub(crate) no_encryption: bool,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `wallet session`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Make a session key and register it.
    New(SessionNewArguments),
    /// Print the session keys of an account and what they have cost.
    List(SessionListArguments),
    /// Take a session key back: nothing that it signed holds after that.
    Revoke(SessionRevokeArguments),
}

/// `wallet session new`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid wallet session new gateway.session --scope order --cap 20 --hours 24 --key my.key\n\n\
                  A machine has the file, and the account's key stays elsewhere. A session key moves no money to other accounts, makes no keys and votes on nothing."
)]
pub(crate) struct SessionNewArguments {
    /// The file to make; one that exists is left.
    pub(crate) file: PathBuf,
    /// What it may sign: serve (starts, receipts, evidence and claims of a provider) or order (orders of jobs, and what changes them).
    #[arg(long, value_name = "serve|order")]
    pub(crate) scope: String,
    /// What it may cost in all, in TGRID: fees, what orders lock, deposits, and collateral that is at risk or lost.
    #[arg(long, value_name = "TGRID", value_parser = amount)]
    pub(crate) cap: Amount,
    /// For how many hours it signs, 720 at most.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=720))]
    pub(crate) hours: u32,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `wallet session list`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tensorgrid wallet session list --key my.key")]
pub(crate) struct SessionListArguments {
    /// An address; that of --key or --account if absent.
    pub(crate) address: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// `wallet session revoke`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tensorgrid wallet session revoke gateway.session --key my.key")]
pub(crate) struct SessionRevokeArguments {
    /// Its file, or the public key.
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// Which session key signs for a provider.
#[derive(Debug, Args)]
pub(crate) struct ServingSessionArguments {
    /// Which session key signs what serves leases: own (made, registered and replaced by itself), off (the account's key signs), or the file of one of scope
    /// serve (`tensorgrid wallet session new`). Offers, uploads and heartbeats are the account's.
    #[arg(long, default_value_t = SessionSetting::Own, value_name = "own|off|FILE")]
    pub(crate) session: SessionSetting,
}

/// Which session key signs for the accounts of API keys.
#[derive(Debug, Args)]
pub(crate) struct OrderingSessionArguments {
    /// Which session keys sign the orders of API keys, instead of what the settings say: own (made, registered and replaced by itself), off (the accounts'
    /// keys sign), or the file of one of scope order (`tensorgrid wallet session new`). Uploads are the account's.
    #[arg(long, value_name = "own|off|FILE")]
    pub(crate) session: Option<SessionSetting>,
}

/// `faucet`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid faucet\n  tensorgrid faucet 0x52908400098527886E0F7030069857D2E4169EE7 50\n\nOnly development networks have a faucet: their \
                  money is play money."
)]
pub(crate) struct FaucetArguments {
    /// Address of the account that gets the money, that of --key or --account if absent; and how much, in TGRID, 10 if absent.
    #[arg(value_names = ["ADDRESS", "AMOUNT"], num_args = 0..=2)]
    pub(crate) asked: Vec<String>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid doctor\n  tensorgrid doctor --api http://10.0.0.7:7101 --key my.key --data-dir /var/lib/grid\n\n\
                  Each line is ok, warn or fail, with what to do. Exit code 1 says that something fails."
)]
pub(crate) struct DoctorArguments {
    /// Folder of a grid's state, whose disk is looked at.
    #[arg(long, default_value = "./tensorgrid-data", value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}
