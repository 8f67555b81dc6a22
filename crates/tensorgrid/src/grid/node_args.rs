//! Arguments of the processes of nodes, and of commands that make networks and show providers.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tg_api::{HostName, TlsFiles};
use tg_console::needs::{MachineArguments, amount};
use tg_console::outcome::Failure;
use tg_cuda::DeviceChoice;
use tg_ledger::{REPEATED_MACS_USUAL, WHOLE_RUN_MACS_USUAL};
use tg_sdk::dto::CloudPricesDto;
use tg_types::Amount;
use tg_types::chain::Checkpoint;

use super::account_args::{OrderingSessionArguments, ServingSessionArguments};
use super::cloud_prices;
use super::connect_args::{ApiArguments, PassphraseArguments, TrustArguments};
use super::serve_args::{ProviderStatusArguments, ServeArguments};
use crate::network::process::ApiSetting;
use crate::network::tls::TlsPlace;

/// Where an API speaks TLS, beside where it does not.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsArguments {
    /// A second address of the API, where it speaks TLS. It needs a certificate and its key.
    #[arg(
        long,
        env = "TENSORGRID_TLS_LISTEN",
        value_name = "ADDRESS",
        requires_all = ["tls_certificate", "tls_key"]
    )]
    pub(crate) tls_listen: Option<SocketAddr>,
    /// File of the certificate in PEM, and after it those by which it is signed. It is read again when it changes.
    #[arg(
        long,
        env = "TENSORGRID_TLS_CERTIFICATE",
        value_name = "FILE",
        requires = "tls_listen"
    )]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// File of the certificate's key in PEM.
    #[arg(
        long,
        env = "TENSORGRID_TLS_KEY",
        value_name = "FILE",
        requires = "tls_listen"
    )]
    pub(crate) tls_key: Option<PathBuf>,
}

impl TlsArguments {
    /// The place, if one is named: clap has seen that all of it is.
    pub(crate) fn place(&self) -> Option<TlsPlace> {
        Some(TlsPlace {
            listen: self.tls_listen?,
            files: TlsFiles {
                certificate: self.tls_certificate.clone()?,
                key: self.tls_key.clone()?,
            },
        })
    }
}

/// By which names an API is called.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct NameArguments {
    /// A name by which the API is called, such as that of a proxy before it, once for each; with a port, or for all of them. On loopback it answers
    /// to names of loopback and addresses beside them; elsewhere to any name if none is given.
    #[arg(
        long,
        env = "TENSORGRID_ALLOWED_HOSTS",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(crate) allowed_host: Vec<HostName>,
}

/// What stands beside the quotes of an API.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CloudTableArguments {
    /// File of the cloud prices that the API and its dashboard show beside quotes, as `tensorgrid market cloud-prices` writes it;
    /// without it, the rows that the program comes with.
    #[arg(long, value_name = "FILE", env = "TENSORGRID_CLOUD_PRICES")]
    pub(crate) cloud_prices: Option<PathBuf>,
}

impl CloudTableArguments {
    /// The rows.
    pub(crate) fn told(&self) -> Result<CloudPricesDto, Failure> {
        cloud_prices::told(self.cloud_prices.as_deref())
    }
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
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    #[command(flatten)]
    pub(crate) names: NameArguments,
    #[command(flatten)]
    pub(crate) clouds: CloudTableArguments,
    /// Validators in this process; the number is fixed at the first start.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(crate) validators: u16,
    /// Most multiply-accumulates of a model whose runs every validator repeats, fixed at the first start; of a float model four times as many
    /// units of work. Disputes of mode optimistic about runs above 2^26, or above a sixteenth as many units of fuel, end at a part of the run anyway.
    #[arg(long, default_value_t = REPEATED_MACS_USUAL, value_name = "COUNT")]
    pub(crate) repeat_macs: u64,
    /// Most multiply-accumulates of a model whose results of mode sync a committee runs whole instead of drawn parts, fixed at the first start; of a
    /// float model a quarter as many units of work, of a program a 2048th as many units of fuel. 0: none.
    #[arg(long, default_value_t = WHOLE_RUN_MACS_USUAL, value_name = "COUNT")]
    pub(crate) whole_run_macs: u64,
    /// Providers in this process.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=6))]
    pub(crate) providers: u16,
    /// File of the API keys of the OpenAI routes (`tensorgrid api-key new`). Without it the key `tensorgrid-development` orders
    /// by the requestor's account.
    #[arg(long, value_name = "FILE")]
    pub(crate) openai_keys: Option<PathBuf>,
    /// Folder of tokenizers by which the OpenAI routes make tokens of texts: files *.json, and folders with a tokenizer.json,
    /// such as those of models. A program names its tokenizer by digest.
    #[arg(long, value_name = "DIR")]
    pub(crate) tokenizers: Option<PathBuf>,
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
                  tensorgrid provider --config my-network/provider-1/provider.toml\n  \
                  tensorgrid provider --serve-openai llama3.2=http://127.0.0.1:11434/v1 --prompt-price 0.1 --completion-price 0.4\n  \
                  tensorgrid provider list\n\nA provider locks its collateral with every lease, and loses it if its \
                  result is rejected or late. Ctrl-C withdraws the offer and finishes what was started. Flags come before variables of the environment, these \
                  before the file of --config."
)]
pub(crate) struct ProviderArguments {
    /// Commands about providers; without one, this machine becomes one.
    #[command(subcommand)]
    pub(crate) command: Option<ProviderCommand>,
    /// Its settings, each named as its flag; `tensorgrid network new` and `network join` write them.
    #[arg(long, env = "TENSORGRID_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print sample settings, each below what it means, and do nothing else.
    #[arg(long)]
    pub(crate) sample: bool,
    /// Copy the settings, the key, and for which networks it signs, into a folder that is made, and do nothing else.
    #[arg(
        long,
        value_name = "TO",
        requires = "config",
        conflicts_with = "sample"
    )]
    pub(crate) backup: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    /// Price of a job in TGRID.
    #[arg(long, env = "TENSORGRID_PRICE", default_value = "0.02", value_parser = amount, value_name = "TGRID")]
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
    #[arg(
        long,
        env = "TENSORGRID_PROVIDER_KEY",
        default_value = "./tensorgrid-provider/key",
        value_name = "FILE"
    )]
    pub(crate) key: PathBuf,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArguments,
    #[command(flatten)]
    pub(crate) session: ServingSessionArguments,
    #[command(flatten)]
    pub(crate) serve: ServeArguments,
}

/// `validator`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid validator --config validator-1/validator.toml\n  tensorgrid validator --sample > validator.toml\n\n\
                  Flags come before variables of the environment, these before the file. SIGINT and SIGTERM stop it cleanly; \
                  a second one stops at once. Nothing that was final is lost by either, nor by SIGKILL."
)]
pub(crate) struct ValidatorArguments {
    /// Its settings; `tensorgrid network new` writes them.
    #[arg(
        long,
        env = "TENSORGRID_CONFIG",
        value_name = "FILE",
        required_unless_present = "sample"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Print sample settings, each below what it means, and do nothing else.
    #[arg(long)]
    pub(crate) sample: bool,
    /// Copy settings, genesis, keys, chain and blobs of a validator that does not run into a folder that is made, and do nothing else. The
    /// journal of votes is left out: whoever is started of the copy signs nothing for a while, and so nothing that contradicts what
    /// was signed after it was made. Never start it while the other runs.
    #[arg(long, value_name = "TO", conflicts_with = "sample")]
    pub(crate) backup: Option<PathBuf>,
    /// Where it listens for the other validators, instead of what the settings say.
    #[arg(long, env = "TENSORGRID_LISTEN", value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Where its API listens, or off, instead of what the settings say.
    #[arg(long, env = "TENSORGRID_API_LISTEN", value_name = "ADDRESS|off")]
    pub(crate) api_listen: Option<ApiSetting>,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    #[command(flatten)]
    pub(crate) names: NameArguments,
    #[command(flatten)]
    pub(crate) clouds: CloudTableArguments,
    /// Folder of its chain, votes and blobs, instead of what the settings say.
    #[arg(long, env = "TENSORGRID_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// A final block that somebody vouches for, as `tensorgrid checkpoint` prints it, instead of what the settings say.
    #[arg(long, env = "TENSORGRID_CHECKPOINT", value_name = "HEIGHT:ID")]
    pub(crate) checkpoint: Option<Checkpoint>,
    /// What is logged to the error stream, instead of what RUST_LOG and the settings say.
    #[arg(long, env = "TENSORGRID_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

/// `gateway`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid gateway --config my-network/gateway-1/gateway.toml\n  \
                  tensorgrid network join my-gateway --gateway --genesis genesis.bin --api http://10.0.0.7:7101\n\n\
                  It checks every block and every state by itself, needs no key unless it orders for callers (--openai-keys), can be stopped at any time, \
                  and is filled again by its sources."
)]
pub(crate) struct GatewayArguments {
    /// Its settings; `tensorgrid network new` and `network join --gateway` write them.
    #[arg(
        long,
        env = "TENSORGRID_CONFIG",
        value_name = "FILE",
        required_unless_present = "sample"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Print sample settings, each below what it means, and do nothing else.
    #[arg(long)]
    pub(crate) sample: bool,
    /// Copy settings, genesis, and what the OpenAI routes keep (files, batches, with --openai-keys that file and what its keys spent, not the
    /// accounts' key files that it names) of a gateway that does not run into a folder that is made, and do nothing else. Its chain
    /// and blobs come from its sources.
    #[arg(long, value_name = "TO", conflicts_with = "sample")]
    pub(crate) backup: Option<PathBuf>,
    /// API of a validator or another gateway, once for each, instead of those in the settings.
    #[arg(
        long,
        env = "TENSORGRID_SOURCES",
        value_name = "URL",
        value_delimiter = ','
    )]
    pub(crate) source: Vec<String>,
    /// Where its API listens, instead of what the settings say.
    #[arg(long, env = "TENSORGRID_API_LISTEN", value_name = "ADDRESS")]
    pub(crate) api_listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    #[command(flatten)]
    pub(crate) names: NameArguments,
    #[command(flatten)]
    pub(crate) clouds: CloudTableArguments,
    /// Event streams at once, instead of what the settings say.
    #[arg(long, env = "TENSORGRID_STREAMS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) streams: Option<u32>,
    /// File of the API keys of the OpenAI routes (`tensorgrid api-key new`); without it, they order for nobody.
    #[arg(long, env = "TENSORGRID_OPENAI_KEYS", value_name = "FILE")]
    pub(crate) openai_keys: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) session: OrderingSessionArguments,
    /// Folder of tokenizers by which the OpenAI routes make tokens of texts: files *.json, and folders with a tokenizer.json,
    /// such as those of models. A program names its tokenizer by digest.
    #[arg(long, env = "TENSORGRID_TOKENIZERS", value_name = "DIR")]
    pub(crate) tokenizers: Option<PathBuf>,
    /// Folder of its chain and blobs, instead of what the settings say.
    #[arg(long, env = "TENSORGRID_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// A final block that somebody vouches for, as `tensorgrid checkpoint` prints it, instead of what the settings say.
    #[arg(long, env = "TENSORGRID_CHECKPOINT", value_name = "HEIGHT:ID")]
    pub(crate) checkpoint: Option<Checkpoint>,
    /// What is logged to the error stream, instead of what RUST_LOG and the settings say.
    #[arg(long, env = "TENSORGRID_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

/// Commands about networks.
#[derive(Debug, Subcommand)]
pub(crate) enum NetworkCommand {
    /// Make a folder with genesis, keys, settings and scripts for the processes of a new network.
    New(NetworkNewArguments),
    /// Make a folder with what a provider or a gateway needs that joins a network.
    Join(NetworkJoinArguments),
}

/// How new keys are kept.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeepingArguments {
    /// Put new keys under the passphrase in the first line of this file.
    #[arg(long, value_name = "FILE", conflicts_with = "no_encryption")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Write new keys as they are, readable for this user only.
    #[arg(long)]
    pub(crate) no_encryption: bool,
}

/// `network join`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid network join my-provider --genesis genesis.bin --api http://10.0.0.7:7101 --no-encryption\n  \
                  tensorgrid network join my-gateway --gateway --genesis genesis.bin --api http://10.0.0.7:7101\n\n\
                  The folder must be empty. For a provider, fund the address that it prints, by `tensorgrid transfer`, before the provider starts."
)]
pub(crate) struct NetworkJoinArguments {
    /// The folder to make.
    pub(crate) folder: PathBuf,
    /// The network's genesis, from someone you trust: the API must be of that network.
    #[arg(long, value_name = "FILE")]
    pub(crate) genesis: PathBuf,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    /// Join as a gateway, a node without a vote and without keys, rather than as a provider.
    #[arg(long, conflicts_with_all = ["passphrase_file", "no_encryption"])]
    pub(crate) gateway: bool,
    /// Join as a validator: keys and settings of one that asks for a seat with `tensorgrid seat join`. The API must be a validator's.
    #[arg(long, conflicts_with = "gateway")]
    pub(crate) validator: bool,
    /// Port on which the validator listens for the others; its API takes the next one.
    #[arg(long, default_value_t = 7100, requires = "validator", value_parser = clap::value_parser!(u16).range(1..65_535), value_name = "PORT")]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) keeping: KeepingArguments,
}

/// `network new`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid network new my-network --no-encryption && my-network/start.sh\n  \
                  tensorgrid network new my-network --host a.example.org --host b.example.org --host c.example.org \
                  --host d.example.org --passphrase-file secret\n\n\
                  Keys are drawn from the operating system's randomness. The folder must be empty: nothing is overwritten."
)]
pub(crate) struct NetworkNewArguments {
    /// The folder to make.
    pub(crate) folder: PathBuf,
    /// Validators. From 4 on one of them may fail, from 7 on two, and so on.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) validators: u16,
    /// How many validators the network may have one day. More need longer waits, which a network keeps for ever: a batch auction takes 9 s with 6, 18 s with 10, 32 s with 19.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=64), value_name = "COUNT")]
    pub(crate) grow_to: u16,
    /// Most multiply-accumulates of a model whose runs every validator repeats; of a float model four times as many units of work. Disputes of
    /// mode optimistic about runs above 2^26, or above a sixteenth as many units of fuel, end at a part of the run anyway.
    #[arg(long, default_value_t = REPEATED_MACS_USUAL, value_name = "COUNT")]
    pub(crate) repeat_macs: u64,
    /// Most multiply-accumulates of a model whose results of mode sync a committee runs whole instead of drawn parts; of a
    /// float model a quarter as many units of work, of a program a 2048th as many units of fuel. 0: none.
    #[arg(long, default_value_t = WHOLE_RUN_MACS_USUAL, value_name = "COUNT")]
    pub(crate) whole_run_macs: u64,
    /// Gateways, which clients and providers ask instead of the validators.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(crate) gateways: u16,
    /// Providers that get a key and a funded account.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(crate) providers: u16,
    /// Name or IP address at which the others reach a validator: once for all, or once for each; this machine if absent.
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Port on which the first validator of a host listens. Its API takes the next one, the next validator the two after that, and gateways those after all validators.
    #[arg(long, default_value_t = 7100, value_parser = clap::value_parser!(u16).range(1..65_535), value_name = "PORT")]
    pub(crate) first_port: u16,
    #[command(flatten)]
    pub(crate) keeping: KeepingArguments,
    /// Let orders ask that nobody checks their result (--verify none).
    #[arg(long)]
    pub(crate) allow_unverified: bool,
}

/// Commands about providers.
#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// List the open offers, as the API tells them: nothing proves a list.
    List(ApiArguments),
    /// Show an offer: what it asks, of which machine, and what its provider did so far.
    Show(ProviderShowArguments),
    /// Say what a provider has earned and lost, and what its offers do now; this machine's, if none is named.
    Status(ProviderStatusArguments),
}

/// `provider show`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid provider show 3fa1b2c4 --genesis genesis.bin\n\nWith a genesis, whose offer it is, its terms and how many leases \
                  run on it are compared with what a final state has; of the provider's history the API's word is shown."
)]
pub(crate) struct ProviderShowArguments {
    /// The offer's id, or the beginning of it.
    pub(crate) offer: String,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}
