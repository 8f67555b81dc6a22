//! Arguments of the commands that run a model, and of keys by which others order.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tg_console::accounts::REQUESTOR;
use tg_console::draw::DrawArguments;
use tg_console::needs::amount;
use tg_console::verify::{VerifyChoice, VerifyParser};
use tg_offline::text::TextArguments;
use tg_types::Amount;

use super::connect_args::{ApiArguments, KeyArguments, TrustArguments};
use super::job_args::SealArguments;
use super::order_args::{ACCOUNT, ORDER, OrderArguments, TRUST};

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
