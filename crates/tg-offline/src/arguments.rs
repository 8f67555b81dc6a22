//! Arguments of the commands that need no grid.

use clap::Args;
use std::path::PathBuf;

use crate::text::TextArguments;
use tg_console::draw::DrawArguments;
use tg_cuda::DeviceChoice;
use tg_ledger::WHOLE_RUN_MACS_USUAL;
use tg_types::resources::{GANG_MEMBERS_MAX, REPLICAS_USUAL};

/// A module with what a run of it may take.
#[derive(Debug, Clone, Args)]
pub struct ProgramFileArguments {
    /// The module (.wasm), or a program file that `program check --write` made.
    pub module: PathBuf,
    /// Fuel of a run at most: about one unit for an instruction. More than 200,000,000 is for mode optimistic alone.
    #[arg(long, default_value_t = tg_wasm::limits::FUEL_USUAL, value_parser = clap::value_parser!(u64).range(1..=tg_wasm::limits::FUEL_MAX))]
    pub fuel: u64,
    /// Memory of a run at most, in pages of 64 KiB; the most is usual: 512, and 191 of a run of more than 200,000,000 fuel.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(tg_wasm::limits::PAGES_MAX)))]
    pub pages: Option<u32>,
}

/// What a program is given.
#[derive(Debug, Clone, Args)]
pub struct ProgramInputArguments {
    /// A file of the input; each file is a chunk, in this order.
    #[arg(long = "input", value_name = "FILE", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Cut each file into so many chunks of nearly one length.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N")]
    pub chunks: u32,
    /// The files are outputs of other runs of this program: merge them.
    #[arg(long, conflicts_with = "chunks")]
    pub merge: bool,
    /// Write the output here.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `program check`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tensorgrid program check examples/programs/pi.wasm")]
pub struct ProgramCheckArguments {
    /// The program.
    #[command(flatten)]
    pub file: ProgramFileArguments,
    /// Write the program file: the module with its limits, as it is registered.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
}

/// `program run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid program run examples/programs/words.wasm --input README.md\n\n\
                  Exit code 3 says that the run ended before it finished; what it burned is printed all the same."
)]
pub struct ProgramRunArguments {
    /// The program.
    #[command(flatten)]
    pub file: ProgramFileArguments,
    /// What it is given.
    #[command(flatten)]
    pub given: ProgramInputArguments,
}

/// `market simulate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Machines: sn,cpu_milli,memory_mib,gpu,model. Arrivals: name,cpu_milli,memory_mib,num_gpu,gpu_milli,\
                        gpu_spec. Placements: pod,node,gpus (device numbers joined by '-'; a refused job has no node). The rule \
                        `tensorgrid` is what a block executes: it knows the machines and the jobs that came before, nothing of \
                        those to come; `fgd` takes the most frequent work of the whole trace as known, as in its publication."
)]
pub struct SimulateArguments {
    /// The machines.
    #[arg(long, value_name = "N.csv")]
    pub nodes: PathBuf,
    /// The jobs in the order of their arrival.
    #[arg(long, value_name = "A.csv")]
    pub arrivals: PathBuf,
    /// Where to write the placements.
    #[arg(long, value_name = "P.csv")]
    pub out: PathBuf,
    /// The placement rule: tensorgrid, fgd, best-fit, least-loaded, fifo, random or weighted.
    #[arg(long, default_value = "tensorgrid")]
    pub policy: String,
    /// Seed of the order among machines that are equally good.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `model compile`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid model compile lenet.onnx --calibrate digits/ -o lenet.tgm --public-out \
                        lenet.tgv\n\nThe .tgm file holds the weights: give it to providers only. The .tgv file holds \
                        the program, a commitment to the weights and a proof that they are in range: give it to anyone."
)]
pub struct CompileArguments {
    /// The model (ONNX, opset 7 to 28, shapes static or given by --axis; or a folder that Hugging Face's save_pretrained wrote).
    pub file: PathBuf,
    /// Typical inputs: a folder of .npy, .npz, .json or .png files, or one file with many rows; of a model of tokens also a .txt
    /// file with a text in each line. Arrays that no input reads are left out. A model without inputs needs none.
    #[arg(long, value_name = "DIR|FILE")]
    pub calibrate: Option<PathBuf>,
    /// Names of the classes, one per line, in the order of the output's elements; they become a part of the program's id.
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Where to write the program with its weights.
    #[arg(short, long, value_name = "F.tgm")]
    pub output: PathBuf,
    /// Where to write the public part, for a model that is proved.
    #[arg(long, value_name = "F.tgv")]
    pub public_out: Option<PathBuf>,
    /// Show nothing of the weights: make this secret, which proofs need and which counts them. Lost, the model cannot be
    /// proved; copied, its count is worth nothing.
    #[arg(long, requires = "public_out", value_name = "F.tgs")]
    pub private_weights: Option<PathBuf>,
    /// How many proofs private weights are for, at least; more cost larger commitments.
    #[arg(long, requires = "private_weights", default_value_t = tg_proof::private::PROOFS_DEFAULT as u32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=tg_proof::private::PROOFS_MAX as i64))]
    pub openings: u32,
    /// The model's name, a part of the program's id; by default the one in the file, or that of the file where its exporter calls every
    /// model the same.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub name: String,
    /// Let a language model end in so many greatest scores and their tokens instead of all scores: for `generate`.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=i64::from(tg_ir::sampling::KEEP_MAX)))]
    pub top_k: Option<u32>,
    /// How to import it.
    #[command(flatten)]
    pub import: ImportArguments,
}

/// `model explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid model explain lenet.onnx --calibrate digits/ --precision 8"
)]
pub struct ExplainArguments {
    /// The model (ONNX, opset 7 to 28, or a Hugging Face folder).
    pub file: PathBuf,
    /// Typical inputs: a folder of .npy, .npz, .json or .png files, or one file with many rows; of a model of tokens also a .txt
    /// file with a text in each line. Arrays that no input reads are left out. A model without inputs needs none.
    #[arg(long, value_name = "DIR|FILE")]
    pub calibrate: Option<PathBuf>,
    /// How to import it.
    #[command(flatten)]
    pub import: ImportArguments,
}

/// How an ONNX file becomes integers.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Bits of activations; auto takes the cheapest that measures well on the calibration inputs.
    #[arg(long, default_value = "auto", value_enum)]
    pub precision: PrecisionArgument,
    /// Size of a named axis, or of the axis INPUT.NUMBER; an unnamed first axis is a batch of 1.
    #[arg(long, value_name = "NAME=SIZE")]
    pub axis: Vec<String>,
    /// Give an input this value everywhere instead of taking it from callers.
    #[arg(long, value_name = "NAME=VALUE")]
    pub bind: Vec<String>,
    /// An output to keep, or a value on the way to one; may be repeated. By default all outputs that have a program (with
    /// --top-k the first that is not a label).
    #[arg(long, value_name = "NAME")]
    pub keep: Vec<String>,
    /// How far 8-bit activations reach: the greatest value seen, --percentile, or least squared error.
    #[arg(long, default_value = "greatest", value_enum)]
    pub reach: ReachArgument,
    /// Let activations beyond this percentile of the calibration saturate (100: the greatest value).
    #[arg(long, default_value_t = 100.0)]
    pub percentile: f64,
    /// Move this share (0 to 1) of what normalised activations have in outliers into the weights that multiply them.
    #[arg(long, value_name = "SHARE")]
    pub smooth: Option<f64>,
    /// Mean per channel of 8-bit images: x = (v / 255 - mean) / scale.
    #[arg(long, value_delimiter = ',', value_name = "M,..")]
    pub mean: Vec<f32>,
    /// Divisor per channel of 8-bit images, see --mean.
    #[arg(long, value_delimiter = ',', value_name = "S,..")]
    pub scale: Vec<f32>,
    /// What makes tokens of texts, a file of Hugging Face tokenizers; by default the tokenizer.json of a folder. The program names
    /// its digest, which becomes a part of the program's id.
    #[arg(long, value_name = "tokenizer.json")]
    pub tokenizer: Option<PathBuf>,
}

/// `run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid run lenet.tgm seven.png\n  tensorgrid run bert.onnx input_ids=ids.npy \
                        attention_mask=mask.npy -o out.npy\n  tensorgrid run FOLDER --text 'Hello world'\n  tensorgrid run bert.tgm --text \
                        'Hello world' --tokenizer tokenizer.json"
)]
pub struct RunArguments {
    /// A compiled model (.tgm), executed in exact integers, or an ONNX file or a Hugging Face folder, executed in reproducible
    /// floats.
    pub model: PathBuf,
    /// The input: one .npy, .npz, .json or .png file; or a .npy or .json file for each input, in the model's order or as
    /// NAME=FILE. An ONNX file and a folder take no .png.
    pub inputs: Vec<PathBuf>,
    /// The input as text.
    #[command(flatten)]
    pub text: TextArguments,
    /// Where to write the (first) output.
    #[arg(short, long, value_name = "F.npy")]
    pub output: Option<PathBuf>,
    /// Print the integers of the answer, as the program gives and stores them, instead of reals in the order of the file.
    #[arg(long)]
    pub raw: bool,
    /// Where a compiled model is executed: cpu, cuda:N (which runs the check of `device --check` first), or auto, the first
    /// GPU that passes it or else the CPU. The bits are the same.
    #[arg(long, default_value_t = DeviceChoice::Cpu, value_name = "DEVICE")]
    pub device: DeviceChoice,
}

/// `generate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid generate gpt.tgm --prompt 12,7,99 --tokens 20 --temperature 0.8\n  \
                        tensorgrid generate gpt.tgm --text 'Once ' --seed 00..ff -o story.bin\n  tensorgrid verify \
                        story.bin --model gpt.tgv\n\nThe model takes tokens, is causal and ends in its greatest \
                        scores: `tensorgrid model compile ... --top-k 8`. Tokens are drawn in integers from the seed, \
                        so that everybody draws the same; a proof says nothing about who chose the seed."
)]
pub struct GenerateArguments {
    /// The compiled model (.tgm).
    pub model: PathBuf,
    /// What is to be written.
    #[command(flatten)]
    pub what: DrawArguments,
    /// Prove it, and write sequence and proof here.
    #[arg(short, long, value_name = "F.bin")]
    pub output: Option<PathBuf>,
    /// Most memory in MiB: a proof that is estimated to need more is refused before it is begun.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub memory: Option<u64>,
    /// Where steps of the proof are kept.
    #[command(flatten)]
    pub partial: PartialArguments,
}

/// `prove`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid prove lenet.tgm seven.png -o proof.bin\n  tensorgrid prove lenet.tgm seven.png -o proof.bin \
                  --zk --input-mode committed --input-salt seven.salt\n\nA commitment is a function of tensor and salt: \
                  proofs that name one are about one tensor. A salt is as secret as the tensor; a missing salt file is made."
)]
pub struct ProveArguments {
    /// The compiled model (.tgm).
    pub model: PathBuf,
    /// The input: one .npy, .npz, .json or .png file; or a .npy or .json file for each input, in the model's order or as
    /// NAME=FILE.
    pub inputs: Vec<PathBuf>,
    /// The input as text.
    #[command(flatten)]
    pub text: TextArguments,
    /// Print the integers of the answer, as the program gives and stores them, instead of reals in the order of the file.
    #[arg(long)]
    pub raw: bool,
    /// Where to write the proof, with its input and output.
    #[arg(short, long, value_name = "proof.bin")]
    pub output: PathBuf,
    /// Most memory in MiB: a proof that is estimated to need more is refused before it is begun.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub memory: Option<u64>,
    /// Hide all that the model computes between input and output, and what the modes say of these. Weights are hidden if
    /// they were compiled as private.
    #[arg(long)]
    pub zk: bool,
    /// The secret of private weights (.tgs), which counts this proof.
    #[arg(long, requires = "zk", value_name = "F.tgs")]
    pub secret: Option<PathBuf>,
    /// What the proof shows of the input.
    #[arg(
        long,
        requires = "zk",
        value_enum,
        default_value = "hidden",
        value_name = "MODE"
    )]
    pub input_mode: Mode,
    /// What the proof shows of the output.
    #[arg(
        long,
        requires = "zk",
        value_enum,
        default_value = "public",
        value_name = "MODE"
    )]
    pub output_mode: Mode,
    /// Show this input or output, by its name in the model's file, whatever the modes above say of the others; may be repeated.
    /// `input:NAME` and `output:NAME` tell apart what has one name.
    #[arg(long, requires = "zk", value_name = "NAME")]
    pub show: Vec<String>,
    /// Show a commitment of this input or output, by its name; may be repeated.
    #[arg(long, requires = "zk", value_name = "NAME")]
    pub commit: Vec<String>,
    /// Show nothing of this input or output, by its name; may be repeated.
    #[arg(long, requires = "zk", value_name = "NAME")]
    pub hide: Vec<String>,
    /// The salt of the commitment of the input, or of those of several: a file of 32 bytes in hexadecimal, made if it is not
    /// there.
    #[arg(long, required_if_eq("input_mode", "committed"), value_name = "FILE")]
    pub input_salt: Option<PathBuf>,
    /// The same of outputs.
    #[arg(long, required_if_eq("output_mode", "committed"), value_name = "FILE")]
    pub output_salt: Option<PathBuf>,
    /// Where steps of the proof are kept.
    #[command(flatten)]
    pub partial: PartialArguments,
}

/// How the steps of a proof are kept until it is whole.
#[derive(Debug, Args)]
pub struct PartialArguments {
    /// Keep the steps of the proof here from the first one on; by default OUTPUT.partial, once it takes over ten seconds.
    /// After a crash the same command on the same input goes on from them (not with --zk).
    #[arg(long, value_name = "FILE")]
    pub partial: Option<PathBuf>,
    /// Begin anew, whatever an earlier run has kept.
    #[arg(long)]
    pub restart: bool,
}

/// What a proof in zero knowledge shows of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// All of it.
    Public,
    /// A commitment, by which proofs are linked.
    Committed,
    /// Nothing.
    Hidden,
}

/// `verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid verify proof.bin --model lenet.tgv --explain\n\nA rejected proof ends \
                        with exit code 3 and names the check that failed. With --and a second proof is verified, and both are \
                        compared:\n  tensorgrid verify a.bin --model a.tgv --and b.bin --same input"
)]
pub struct VerifyArguments {
    /// The proof file, or the sequence file of `generate`.
    pub proof: PathBuf,
    /// The public model (.tgv).
    #[arg(long, value_name = "F.tgv")]
    pub model: PathBuf,
    /// Print the integers of the answer, as the program gives and stores them, instead of reals in the order of the file.
    #[arg(long)]
    pub raw: bool,
    /// A second proof file, to be verified too.
    #[arg(long, value_name = "PROOF", requires = "same")]
    pub and: Option<PathBuf>,
    /// The public model of the second proof, if it is another.
    #[arg(long, value_name = "F.tgv", requires = "and")]
    pub and_model: Option<PathBuf>,
    /// What both proofs must share: by its digest if it is public, by its commitment if it is committed.
    #[arg(long, value_enum, requires = "and")]
    pub same: Option<Same>,
    /// Print the statement, the commitments, the security level with its terms, and what is not covered.
    #[arg(long)]
    pub explain: bool,
    /// Flip the lowest bit of this byte first, to see that the proof is then rejected.
    #[arg(long, value_name = "N")]
    pub flip_byte: Option<usize>,
}

/// What two proofs share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Same {
    /// The model: program and weights.
    Model,
    /// The inputs.
    Input,
    /// The outputs.
    Output,
    /// The outputs of the first are the inputs of the second.
    Chain,
}

/// `bench modes`.
#[derive(Debug, Args)]
pub struct BenchModesArguments {
    /// Runs per model and way of checking; the median is printed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Validators that the sums are for.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub validators: u16,
    /// Members of mode replicate that the sums are for.
    #[arg(long, default_value_t = REPLICAS_USUAL, value_parser = clap::value_parser!(u16).range(2..=i64::from(GANG_MEMBERS_MAX)))]
    pub members: u16,
    /// Most multiply-accumulates of a model whose results of mode sync a committee runs whole instead of drawn parts; of a
    /// program a 2048th as many units of fuel. 0: none, so that mode sync of every model is by drawn parts.
    #[arg(long, default_value_t = WHOLE_RUN_MACS_USUAL, value_name = "COUNT")]
    pub whole_run_macs: u64,
    /// Leave out ResNet-18, whose proofs take seconds.
    #[arg(long)]
    pub quick: bool,
}

/// `bench run`.
#[derive(Debug, Args)]
pub struct BenchRunArguments {
    /// The device beside the CPU: cuda:N, or auto, the first GPU that passes the check of `device --check`, if there is one.
    #[arg(long, default_value = "auto")]
    pub device: DeviceChoice,
    /// Runs per model; the median is printed.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Say how long the device takes for each operator.
    #[arg(long)]
    pub by_operator: bool,
    /// Leave out the models of the shape of GPT-2, which take seconds to make.
    #[arg(long)]
    pub quick: bool,
}

/// `bench prove`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// Runs per model; the median is printed.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Measure the suite instead: MLP, LeNet, CNN 264k, dense 4M, VGG-16, ResNet-18, two GPTs, with weights from a seed.
    #[arg(long)]
    pub suite: bool,
    /// Only rows of the suite that prove in less than five seconds.
    #[arg(long, requires = "suite")]
    pub quick: bool,
    /// Write the suite's page.
    #[arg(long, requires = "suite", value_name = "FILE", num_args = 0..=1, default_missing_value = "docs/BENCHMARKS.md")]
    pub write: Option<PathBuf>,
    /// Measure proofs in zero knowledge, with hidden inputs; with `--suite` of its first rows.
    #[arg(long)]
    pub zk: bool,
    /// Measure one row in this process: what the suite calls for each.
    #[arg(long, requires = "suite", hide = true)]
    pub row: Option<usize>,
}

/// `market replay`.
#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// The journal.
    #[arg(value_name = "JOURNAL")]
    pub journal: PathBuf,
}

/// Bits of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PrecisionArgument {
    /// The cheapest that measures well.
    Auto,
    /// 8 everywhere.
    #[value(name = "8")]
    Bits8,
    /// 8 where weights multiply, 16 in sums and normalisations.
    Mixed,
    /// 16 everywhere.
    #[value(name = "16")]
    Bits16,
}

/// How far 8-bit activations reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReachArgument {
    /// The greatest value seen, or --percentile.
    Greatest,
    /// The reach with the least squared error.
    Mse,
}
