//! Arguments of the commands that speak to a grid.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tg_api::{HostName, TlsFiles};
use tg_console::accounts::REQUESTOR;
use tg_console::draw::DrawArguments;
use tg_console::needs::{MachineArguments, amount};
use tg_console::verify::{VerifyChoice, VerifyParser};
use tg_cuda::DeviceChoice;
use tg_ledger::{REPEATED_MACS_USUAL, WHOLE_RUN_MACS_USUAL};
use tg_offline::text::TextArguments;
use tg_types::Amount;
use tg_types::chain::Checkpoint;

use super::account_args::{OrderingSessionArguments, ServingSessionArguments};
pub(crate) use super::connect_args::{
    ApiArguments, KeyArguments, PassphraseArguments, TrustArguments,
};
use super::job_args::{
    JobCostArguments, JobGrantArguments, JobRevealArguments, JobSubmitArguments,
    JobValidateArguments, SealArguments,
};
use super::order_args::{ACCOUNT, CloudPriceArguments, ORDER, OrderArguments, TRUST};
use super::serve_args::{ProviderStatusArguments, ServeArguments};
use crate::network::process::ApiSetting;
use crate::network::tls::TlsPlace;

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

/// `model add-builtin`.
#[derive(Debug, Args)]
#[command(
    after_help = "The models that `tensorgrid up` registers by itself: mlp-digits, lenet-digits and gpt-bytes."
)]
pub(crate) struct ModelAddBuiltinArguments {
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
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

/// `infer`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid infer lenet-digits seven.png\n  tensorgrid infer mlp-digits digit.npy --verify none --max-price 0.05 --yes\n  \
                  tensorgrid infer lenet-digits seven.png --gpu-share 250 --gpu-seconds 2 --max-price 1 --dry-run\n\n\
                  A proof is verified here again, against the public model: the grid is not trusted. `tensorgrid model modes MODEL` \
                  says what each way of checking would cost and assure. Exit code 3 says that a proof, the job or the order was \
                  rejected."
)]
pub(crate) struct InferArguments {
    /// The model: its name, its id, or the beginning of its id.
    pub(crate) model: String,
    /// The input: one .npy, .npz, .json or .png file; or a .npy or .json file for each input, in the model's order or as
    /// NAME=FILE.
    pub(crate) inputs: Vec<PathBuf>,
    /// How the result is checked. If absent: by sync where an offer has the stake for it, else by a proof; by a proof with
    /// --proof-out and of a sealed bid.
    #[arg(long, value_parser = VerifyParser::MODELS)]
    pub(crate) verify: Option<VerifyChoice>,
    /// Order, print the job's id, and do not wait: `job fetch` gives the result.
    #[arg(long, conflicts_with_all = ["dry_run", "proof_out"])]
    pub(crate) detach: bool,
    /// Write the proof, with its input and output, for `tensorgrid verify`.
    #[arg(long, value_name = "FILE")]
    pub(crate) proof_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) order: OrderArguments,
    /// What a sealed bid locks until it is opened (--class batch), in TGRID; the network's least if absent.
    #[arg(long, value_parser = amount, value_name = "TGRID", help_heading = ORDER)]
    pub(crate) deposit: Option<Amount>,
    #[command(flatten, next_help_heading = "Input as text")]
    pub(crate) text: TextArguments,
    /// Print the integers of the answer, as the program gives and stores them, instead of reals in the order of the file.
    #[arg(long, help_heading = "Answer")]
    pub(crate) raw: bool,
    /// Of a float model (TGF-1), and in mode optimistic of any: believe the validators, do not run it here, and challenge nothing.
    #[arg(long, help_heading = "Answer")]
    pub(crate) trust: bool,
    #[command(flatten, next_help_heading = "Sealed input and answer")]
    pub(crate) seal: SealArguments,
    #[command(flatten, next_help_heading = TRUST)]
    pub(crate) chain: TrustArguments,
    #[command(flatten, next_help_heading = ACCOUNT)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// Commands about keys of the OpenAI routes.
#[derive(Debug, Subcommand)]
pub(crate) enum ApiKeyCommand {
    /// Make a key that orders by an account up to a limit.
    New(ApiKeyNewArguments),
}

/// `api-key new`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid api-key new keys.json --name alice --limit 5\n\nThe key is printed once; the file has its \
                  BLAKE3 digest. What a key has spent is written beside the file."
)]
pub(crate) struct ApiKeyNewArguments {
    /// The file; it is made if it is missing.
    pub(crate) file: PathBuf,
    /// What the key is called, in the file and in messages.
    #[arg(long)]
    pub(crate) name: String,
    /// Most that orders with it may cost together, in TGRID.
    #[arg(long, value_parser = amount, value_name = "TGRID")]
    pub(crate) limit: Amount,
    /// File with the key of the account that pays; without it the development account.
    #[arg(long, value_name = "FILE")]
    pub(crate) wallet: Option<PathBuf>,
    /// Development account that pays if there is no file.
    #[arg(long, default_value = REQUESTOR, value_name = "NAME")]
    pub(crate) account: String,
}

/// `write`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example:\n  tensorgrid write gpt-bytes --text 'KING RICHARD:' --yes\n\nThe prompt and how tokens are drawn are the \
                  order's input: whoever runs the job can change neither. With --verify proof every written token is \
                  proved, and the proof is checked here."
)]
pub(crate) struct WriteArguments {
    /// The model: its name, its id, or the beginning of its id.
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) what: DrawArguments,
    /// How the result is checked.
    #[arg(long, value_parser = VerifyParser::MODELS, default_value = "none")]
    pub(crate) verify: VerifyChoice,
    /// Write sequence and proof, for `tensorgrid verify`.
    #[arg(long, value_name = "FILE")]
    pub(crate) proof_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) order: OrderArguments,
    #[command(flatten, next_help_heading = TRUST)]
    pub(crate) chain: TrustArguments,
    #[command(flatten, next_help_heading = ACCOUNT)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// A tier that takes ONNX files as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FloatTier {
    /// TGF-1: floats in a fixed order.
    Tgf1,
}

/// `model add`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid model add lenet.tgm lenet.tgv --name my-lenet\n  tensorgrid model add any.onnx --tier tgf1\n\n\
                  A model of tier tgf1 is the ONNX file as it is, in floats, with the same bits on every machine: every validator runs \
                  its jobs again. Its work is part of the model: an order is priced by it and pays for what was taken, at least a quarter."
)]
pub(crate) struct ModelAddArguments {
    /// The program with its weights (.tgm), or an ONNX file for tier tgf1; the grid's providers will see it.
    pub(crate) model: PathBuf,
    /// Its public part (.tgv); of tier tgf1 there is none.
    #[arg(required_unless_present = "tier", conflicts_with = "tier")]
    pub(crate) public: Option<PathBuf>,
    /// Execute an ONNX file in reproducible floats, without compiling it.
    #[arg(long, value_enum)]
    pub(crate) tier: Option<FloatTier>,
    /// Units of work that a run may take (tier tgf1); twice those of a run on zeros if absent.
    #[arg(long, requires = "tier", value_name = "UNITS", value_parser = clap::value_parser!(u64).range(1..=tg_float::job::limits::WORK_MAX))]
    pub(crate) work: Option<u64>,
    /// The tokenizer that the program was compiled with: it is stored on the grid for ten minutes, in which nodes that serve the
    /// OpenAI routes take it. If absent, a tokenizer.json beside the program, if it is that one.
    #[arg(long, value_name = "tokenizer.json", conflicts_with = "tier")]
    pub(crate) tokenizer: Option<PathBuf>,
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

/// `model modes`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid model modes\n  tensorgrid model modes lenet-digits"
)]
pub(crate) struct ModelModesArguments {
    /// Models: names, ids, or beginnings of ids; all of the grid if absent.
    pub(crate) models: Vec<String>,
    /// What a wrong answer would cost you beside the price.
    #[arg(long, default_value_t = Amount::ZERO, value_name = "TGRID")]
    pub(crate) value_at_risk: Amount,
    #[command(flatten)]
    pub(crate) clouds: CloudPriceArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

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
