//! Arguments of the commands about models.

use std::path::PathBuf;

use clap::Args;
use tg_types::Amount;

use super::connect_args::{ApiArguments, KeyArguments};
use super::order_args::CloudPriceArguments;

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
