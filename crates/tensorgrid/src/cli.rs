//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

use crate::grid::account_args::{DoctorArguments, FaucetArguments, WalletCommand};
use crate::grid::args;
use crate::grid::draw::DrawArguments;
use crate::grid::endpoint_args::EndpointCommand;
use crate::offline::text::TextArguments;
use tg_cuda::DeviceChoice;
use tg_types::resources::{GANG_MEMBERS_MAX, REPLICAS_USUAL};

/// A grid of GPUs owned by strangers: send a model and an input, get the answer and a receipt anyone can check.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong command line or file, 3 rejected (a proof, receipt or job), \
                  4 not found, 5 the grid cannot be reached.\n\
                  Environment: TENSORGRID_CPU=scalar|avx2|avx512-vnni executes at another level of the processor than its \
                  best (the results are the same); RUST_LOG=info prints a log (with --json an object a line); \
                  OTEL_EXPORTER_OTLP_ENDPOINT=http://HOST:4318 sends traces to a collector; SSL_CERT_FILE=FILE names the certificates \
                  that are trusted."
)]
pub(crate) struct Cli {
    /// Print data as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See the whole product in a minute: ten digits, six providers of which three cheat, four validators.
    Demo(DemoArguments),
    /// Run a grid that stays: validators, providers, the built-in models and an HTTP API.
    Up(args::UpArguments),
    /// Make the files of a network of separate processes.
    #[command(subcommand)]
    Network(args::NetworkCommand),
    /// Run one validator of a network whose others run elsewhere.
    Validator(args::ValidatorArguments),
    /// Run a node without a vote: it follows the chain, checks it, and serves the HTTP API.
    Gateway(args::GatewayArguments),
    /// List the validators, ask for a seat among them, and give it back.
    #[command(subcommand)]
    Seat(args::SeatCommand),
    /// Run a model on the grid, check the proof that comes back, and print the result.
    Infer(args::InferArguments),
    /// Let a language model of the grid write what follows a prompt.
    Write(args::WriteArguments),
    /// Have a provider serve a model for some time, and ask it: answers at once, paid by the minute and for each answer.
    #[command(subcommand)]
    Endpoint(EndpointCommand),
    /// Keys of the OpenAI routes.
    #[command(subcommand, name = "api-key")]
    ApiKey(args::ApiKeyCommand),
    /// Offer this machine to the grid, or list the offers.
    Provider(args::ProviderArguments),
    /// List, explain and take back jobs.
    #[command(subcommand)]
    Job(args::JobCommand),
    /// Show and pay what keeps a model, an offer, a job or a provider's record on the grid.
    #[command(subcommand)]
    Rent(args::RentCommand),
    /// Print what accounts have.
    Balance(args::BalanceArguments),
    /// Make key files, show whose they are, and copy them to a safe place.
    #[command(subcommand)]
    Wallet(WalletCommand),
    /// Get play money on a development network.
    Faucet(FaucetArguments),
    /// Pay another account.
    Transfer(args::TransferArguments),
    /// Print where the grid stands and where all money is.
    Status(args::StatusArguments),
    /// Say what is wrong with this machine, its settings or the grid it uses, and what to do.
    Doctor(DoctorArguments),
    /// Compile models, and add them to a grid.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Run programs of WebAssembly, here or on the grid, and add them to a grid.
    #[command(subcommand)]
    Program(ProgramCommand),
    /// Run a model on an input, without a grid and without a proof.
    Run(RunArguments),
    /// Let a language model write what follows a prompt, and prove that it did, without a grid.
    Generate(GenerateArguments),
    /// Run a compiled model on an input and prove the result, without a grid.
    Prove(ProveArguments),
    /// Check a proof against a public model, without a grid.
    Verify(VerifyArguments),
    /// Try placement rules on a trace, without a grid.
    #[command(subcommand)]
    Market(MarketCommand),
    /// Simulate whole grids from seeds, with faults and hostile parties, and check every block.
    Sim(SimArguments),
    /// Print what this machine computes with: processor, instructions in use, measured rates, GPUs.
    Device(DeviceArguments),
    /// Measure.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Print the script by which a shell completes commands.
    Completions(CompletionsArguments),
    /// Print the manual page, or write those of all commands to a folder.
    Man(ManArguments),
}

/// A shell that completes commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CompletingShell {
    /// Bash, 4.4 or newer.
    Bash,
    /// Zsh.
    Zsh,
    /// Fish.
    Fish,
    /// PowerShell.
    #[value(name = "powershell")]
    PowerShell,
    /// Elvish.
    Elvish,
}

/// `completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid completions bash > ~/.local/share/bash-completion/completions/tensorgrid\n  \
                  tensorgrid completions zsh > ~/.zfunc/_tensorgrid\n  tensorgrid completions fish > ~/.config/fish/completions/tensorgrid.fish"
)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    pub(crate) shell: CompletingShell,
}

/// `man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tensorgrid man ~/.local/share/man/man1")]
pub(crate) struct ManArguments {
    /// Folder to write a page for each command to; without it the page of the program is printed.
    pub(crate) folder: Option<PathBuf>,
}

/// Commands about models.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Compile an ONNX file to an integer program with weights (.tgm) and its public part (.tgv).
    Compile(CompileArguments),
    /// Show an ONNX file as a graph and as an integer program: shapes, scales, bounds, cost and error by layer.
    Explain(ExplainArguments),
    /// Register a compiled model with the grid.
    Add(args::ModelAddArguments),
    /// Register the models that are built into this program.
    AddBuiltin(args::ModelAddBuiltinArguments),
    /// List the grid's models.
    List(args::ApiArguments),
    /// Show one of the grid's models.
    Show(args::ModelShowArguments),
    /// Show what each way of checking a result would cost for a model, and what it assures.
    Modes(args::ModelModesArguments),
}

/// Commands about programs.
#[derive(Debug, Subcommand)]
pub(crate) enum ProgramCommand {
    /// Say what a module exports and what a run of it may take, or why it is refused.
    Check(ProgramCheckArguments),
    /// Run a module on an input, without a grid: the answer, the bill and the trace are those of every machine.
    Run(ProgramRunArguments),
    /// Register a program with the grid.
    Add(args::ProgramAddArguments),
    /// Run a program on the grid, where validators run it again before the provider is paid.
    Submit(Box<args::ProgramSubmitArguments>),
}

/// `program check`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tensorgrid program check examples/programs/pi.wasm")]
pub(crate) struct ProgramCheckArguments {
    #[command(flatten)]
    pub(crate) file: args::ProgramFileArguments,
    /// Write the program file: the module with its limits, as it is registered.
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}

/// `program run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid program run examples/programs/words.wasm --input README.md\n\n\
                  Exit code 3 says that the run ended before it finished; what it burned is printed all the same."
)]
pub(crate) struct ProgramRunArguments {
    #[command(flatten)]
    pub(crate) file: args::ProgramFileArguments,
    #[command(flatten)]
    pub(crate) given: args::ProgramInputArguments,
}

/// Commands about placing work.
#[derive(Debug, Subcommand)]
pub(crate) enum MarketCommand {
    /// Place the jobs of a trace one after the other and write where each went.
    Simulate(SimulateArguments),
    /// Execute a journal of blocks again, and compare every decision.
    Replay(ReplayArguments),
}

/// `market simulate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Machines: sn,cpu_milli,memory_mib,gpu,model. Arrivals: name,cpu_milli,memory_mib,num_gpu,gpu_milli,\
                        gpu_spec. Placements: pod,node,gpus (device numbers joined by '-'; a refused job has no node). The rule \
                        `tensorgrid` is what a block executes: it knows the machines and the jobs that came before, nothing of \
                        those to come; `fgd` takes the most frequent work of the whole trace as known, as in its publication."
)]
pub(crate) struct SimulateArguments {
    /// The machines.
    #[arg(long, value_name = "N.csv")]
    pub(crate) nodes: PathBuf,
    /// The jobs in the order of their arrival.
    #[arg(long, value_name = "A.csv")]
    pub(crate) arrivals: PathBuf,
    /// Where to write the placements.
    #[arg(long, value_name = "P.csv")]
    pub(crate) out: PathBuf,
    /// The placement rule: tensorgrid, fgd, best-fit, least-loaded, fifo, random or weighted.
    #[arg(long, default_value = "tensorgrid")]
    pub(crate) policy: String,
    /// Seed of the order among machines that are equally good.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// `sim`.
#[derive(Debug, Args)]
#[command(
    after_help = "A seed draws who takes part, who of them lies in which way, the links, and what fails when: half a minute of \
                  faults, then none until all is done. The last line of a run is the hash of its events, the same for the same \
                  seed and program. Evidence is simulated, and the log says so, unless --real-prover is given. A run that breaks \
                  a rule ends the command with 3, with the line that runs it again."
)]
pub(crate) struct SimArguments {
    /// The seed of one run.
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["seeds", "cheats"],
        required_unless_present = "seeds"
    )]
    pub(crate) seed: Option<u64>,
    /// Runs from one seed up to, not including, another.
    #[arg(long, value_name = "A..B")]
    pub(crate) seeds: Option<String>,
    /// Runs at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Parts of the seed's draw to leave out, as its lines name them: fault3,seat1,provider2,requestor0,links,orders.
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub(crate) without: Vec<tg_sim::PlanPart>,
    /// Print one line for each event.
    #[arg(long)]
    pub(crate) log: bool,
    /// Prove and verify results as in production.
    #[arg(long)]
    pub(crate) real_prover: bool,
    /// Run every seed twice and compare the hashes.
    #[arg(long)]
    pub(crate) twice: bool,
    /// Look for the smallest part of a failing run that still fails.
    #[arg(long)]
    pub(crate) shrink: bool,
    /// Measure each cheat against each way of checking, in runs of these seeds with nothing else that fails.
    #[arg(long, conflicts_with_all = ["without", "log", "twice", "shrink"])]
    pub(crate) cheats: bool,
}

/// Commands that measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Prove and verify the built-in models, or the suite: medians of 20 runs, memory, bytes.
    Prove(BenchArguments),
    /// Execute the suite's models on the CPU and on a GPU, without proofs: medians, with every bit compared.
    Run(BenchRunArguments),
    /// Compare the ways of checking: what each costs the providers and the validators, beside a run that nobody checks.
    Modes(BenchModesArguments),
    /// Run a grid in this process under load: jobs that settle in a second, how soon orders are final, CPU time.
    Grid(BenchGridArguments),
}

/// `model compile`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid model compile lenet.onnx --calibrate digits/ -o lenet.tgm --public-out \
                        lenet.tgv\n\nThe .tgm file holds the weights: give it to providers only. The .tgv file holds \
                        the program, a commitment to the weights and a proof that they are in range: give it to anyone."
)]
pub(crate) struct CompileArguments {
    /// The model (ONNX, opset 7 to 28, shapes static or given by --axis; or a folder that Hugging Face's save_pretrained wrote).
    pub(crate) file: PathBuf,
    /// Typical inputs: a folder of .npy, .npz, .json or .png files, or one file with many rows; of a model of tokens also a .txt
    /// file with a text in each line. Arrays that no input reads are left out. A model without inputs needs none.
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) calibrate: Option<PathBuf>,
    /// Names of the classes, one per line, in the order of the output's elements; they become a part of the program's id.
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// Where to write the program with its weights.
    #[arg(short, long, value_name = "F.tgm")]
    pub(crate) output: PathBuf,
    /// Where to write the public part, for a model that is proved.
    #[arg(long, value_name = "F.tgv")]
    pub(crate) public_out: Option<PathBuf>,
    /// Show nothing of the weights: make this secret, which proofs need and which counts them. Lost, the model cannot be
    /// proved; copied, its count is worth nothing.
    #[arg(long, requires = "public_out", value_name = "F.tgs")]
    pub(crate) private_weights: Option<PathBuf>,
    /// How many proofs private weights are for, at least; more cost larger commitments.
    #[arg(long, requires = "private_weights", default_value_t = tg_proof::private::PROOFS_DEFAULT as u32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=tg_proof::private::PROOFS_MAX as i64))]
    pub(crate) openings: u32,
    /// The model's name; by default the one in the file.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) name: String,
    /// Let a language model end in so many greatest scores and their tokens instead of all scores: for `generate`.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=i64::from(tg_ir::sampling::KEEP_MAX)))]
    pub(crate) top_k: Option<u32>,
    /// How to import it.
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

/// `model explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tensorgrid model explain lenet.onnx --calibrate digits/ --precision 8"
)]
pub(crate) struct ExplainArguments {
    /// The model (ONNX, opset 7 to 28, or a Hugging Face folder).
    pub(crate) file: PathBuf,
    /// Typical inputs: a folder of .npy, .npz, .json or .png files, or one file with many rows; of a model of tokens also a .txt
    /// file with a text in each line. Arrays that no input reads are left out. A model without inputs needs none.
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) calibrate: Option<PathBuf>,
    /// How to import it.
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

/// How an ONNX file becomes integers.
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// Bits of activations; auto takes the cheapest that measures well on the calibration inputs.
    #[arg(long, default_value = "auto", value_enum)]
    pub(crate) precision: PrecisionArgument,
    /// Size of a named axis, or of the axis INPUT.NUMBER; an unnamed first axis is a batch of 1.
    #[arg(long, value_name = "NAME=SIZE")]
    pub(crate) axis: Vec<String>,
    /// Give an input this value everywhere instead of taking it from callers.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) bind: Vec<String>,
    /// An output to keep, or a value on the way to one; may be repeated. By default all outputs that have a program (with
    /// --top-k the first that is not a label).
    #[arg(long, value_name = "NAME")]
    pub(crate) keep: Vec<String>,
    /// How far 8-bit activations reach: the greatest value seen, --percentile, or least squared error.
    #[arg(long, default_value = "greatest", value_enum)]
    pub(crate) reach: ReachArgument,
    /// Let activations beyond this percentile of the calibration saturate (100: the greatest value).
    #[arg(long, default_value_t = 100.0)]
    pub(crate) percentile: f64,
    /// Move this share (0 to 1) of what normalised activations have in outliers into the weights that multiply them.
    #[arg(long, value_name = "SHARE")]
    pub(crate) smooth: Option<f64>,
    /// Mean per channel of 8-bit images: x = (v / 255 - mean) / scale.
    #[arg(long, value_delimiter = ',', value_name = "M,..")]
    pub(crate) mean: Vec<f32>,
    /// Divisor per channel of 8-bit images, see --mean.
    #[arg(long, value_delimiter = ',', value_name = "S,..")]
    pub(crate) scale: Vec<f32>,
    /// What makes tokens of texts, a file of Hugging Face tokenizers; by default the tokenizer.json of a folder. The program names
    /// its digest, which becomes a part of the program's id.
    #[arg(long, value_name = "tokenizer.json")]
    pub(crate) tokenizer: Option<PathBuf>,
}

/// Bits of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PrecisionArgument {
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
pub(crate) enum ReachArgument {
    /// The greatest value seen, or --percentile.
    Greatest,
    /// The reach with the least squared error.
    Mse,
}

/// `run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid run lenet.tgm seven.png\n  tensorgrid run bert.onnx input_ids=ids.npy \
                        attention_mask=mask.npy -o out.npy\n  tensorgrid run FOLDER --text 'Hello world'\n  tensorgrid run bert.tgm --text \
                        'Hello world' --tokenizer tokenizer.json"
)]
pub(crate) struct RunArguments {
    /// A compiled model (.tgm), executed in exact integers, or an ONNX file or a Hugging Face folder, executed in reproducible
    /// floats.
    pub(crate) model: PathBuf,
    /// The input: one .npy, .npz, .json or .png file; or a .npy or .json file for each input, in the model's order or as
    /// NAME=FILE. An ONNX file and a folder take no .png.
    pub(crate) inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) text: TextArguments,
    /// Where to write the (first) output.
    #[arg(short, long, value_name = "F.npy")]
    pub(crate) output: Option<PathBuf>,
    /// Print the integers of the answer, as the program gives and stores them, instead of reals in the order of the file.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Where a compiled model is executed: cpu, cuda:N (which runs the check of `device --check` first), or auto, the first
    /// GPU that passes it or else the CPU. The bits are the same.
    #[arg(long, default_value_t = DeviceChoice::Cpu, value_name = "DEVICE")]
    pub(crate) device: DeviceChoice,
}

/// `device`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid device\n  tensorgrid device --check --device cuda:0 > check.txt\n\nThe check runs programs \
                        for every operator on the GPU and on the CPU and compares each bit. It prints the device, the \
                        date, the driver and a line for each family of operators, and ends with exit code 1 if any bit \
                        differs; 4 says that there is no GPU to check."
)]
pub(crate) struct DeviceArguments {
    /// Check that GPUs compute what the CPU computes, and print a report.
    #[arg(long)]
    pub(crate) check: bool,
    /// The GPU to check: cuda:N, counted as the driver does, which goes by CUDA_VISIBLE_DEVICES; auto: every one.
    #[arg(long, requires = "check", default_value_t = DeviceChoice::Auto, value_name = "DEVICE")]
    pub(crate) device: DeviceChoice,
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
pub(crate) struct GenerateArguments {
    /// The compiled model (.tgm).
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) what: DrawArguments,
    /// Prove it, and write sequence and proof here.
    #[arg(short, long, value_name = "F.bin")]
    pub(crate) output: Option<PathBuf>,
    /// Most memory in MiB: a proof that is estimated to need more is refused before it is begun.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(crate) memory: Option<u64>,
    #[command(flatten)]
    pub(crate) partial: PartialArguments,
}

/// `prove`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid prove lenet.tgm seven.png -o proof.bin\n  tensorgrid prove lenet.tgm seven.png -o proof.bin \
                  --zk --input-mode committed --input-salt seven.salt\n\nA commitment is a function of tensor and salt: \
                  proofs that name one are about one tensor. A salt is as secret as the tensor; a missing salt file is made."
)]
pub(crate) struct ProveArguments {
    /// The compiled model (.tgm).
    pub(crate) model: PathBuf,
    /// The input: one .npy, .npz, .json or .png file; or a .npy or .json file for each input, in the model's order or as
    /// NAME=FILE.
    pub(crate) inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) text: TextArguments,
    /// Print the integers of the answer, as the program gives and stores them, instead of reals in the order of the file.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Where to write the proof, with its input and output.
    #[arg(short, long, value_name = "proof.bin")]
    pub(crate) output: PathBuf,
    /// Most memory in MiB: a proof that is estimated to need more is refused before it is begun.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(crate) memory: Option<u64>,
    /// Hide all that the model computes between input and output, and what the modes say of these. Weights are hidden if
    /// they were compiled as private.
    #[arg(long)]
    pub(crate) zk: bool,
    /// The secret of private weights (.tgs), which counts this proof.
    #[arg(long, requires = "zk", value_name = "F.tgs")]
    pub(crate) secret: Option<PathBuf>,
    /// What the proof shows of the input.
    #[arg(
        long,
        requires = "zk",
        value_enum,
        default_value = "hidden",
        value_name = "MODE"
    )]
    pub(crate) input_mode: Mode,
    /// What the proof shows of the output.
    #[arg(
        long,
        requires = "zk",
        value_enum,
        default_value = "public",
        value_name = "MODE"
    )]
    pub(crate) output_mode: Mode,
    /// Show this input or output, by its name in the model's file, whatever the modes above say of the others; may be repeated.
    /// `input:NAME` and `output:NAME` tell apart what has one name.
    #[arg(long, requires = "zk", value_name = "NAME")]
    pub(crate) show: Vec<String>,
    /// Show a commitment of this input or output, by its name; may be repeated.
    #[arg(long, requires = "zk", value_name = "NAME")]
    pub(crate) commit: Vec<String>,
    /// Show nothing of this input or output, by its name; may be repeated.
    #[arg(long, requires = "zk", value_name = "NAME")]
    pub(crate) hide: Vec<String>,
    /// The salt of the commitment of the input, or of those of several: a file of 32 bytes in hexadecimal, made if it is not
    /// there.
    #[arg(long, required_if_eq("input_mode", "committed"), value_name = "FILE")]
    pub(crate) input_salt: Option<PathBuf>,
    /// The same of outputs.
    #[arg(long, required_if_eq("output_mode", "committed"), value_name = "FILE")]
    pub(crate) output_salt: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) partial: PartialArguments,
}

/// How the steps of a proof are kept until it is whole.
#[derive(Debug, Args)]
pub(crate) struct PartialArguments {
    /// Keep the steps of the proof here from the first one on; by default OUTPUT.partial, once it takes over ten seconds.
    /// After a crash the same command on the same input goes on from them (not with --zk).
    #[arg(long, value_name = "FILE")]
    pub(crate) partial: Option<PathBuf>,
    /// Begin anew, whatever an earlier run has kept.
    #[arg(long)]
    pub(crate) restart: bool,
}

/// What a proof in zero knowledge shows of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
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
pub(crate) struct VerifyArguments {
    /// The proof file, or the sequence file of `generate`.
    pub(crate) proof: PathBuf,
    /// The public model (.tgv).
    #[arg(long, value_name = "F.tgv")]
    pub(crate) model: PathBuf,
    /// Print the integers of the answer, as the program gives and stores them, instead of reals in the order of the file.
    #[arg(long)]
    pub(crate) raw: bool,
    /// A second proof file, to be verified too.
    #[arg(long, value_name = "PROOF", requires = "same")]
    pub(crate) and: Option<PathBuf>,
    /// The public model of the second proof, if it is another.
    #[arg(long, value_name = "F.tgv", requires = "and")]
    pub(crate) and_model: Option<PathBuf>,
    /// What both proofs must share: by its digest if it is public, by its commitment if it is committed.
    #[arg(long, value_enum, requires = "and")]
    pub(crate) same: Option<Same>,
    /// Print the statement, the commitments, the security level with its terms, and what is not covered.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Flip the lowest bit of this byte first, to see that the proof is then rejected.
    #[arg(long, value_name = "N")]
    pub(crate) flip_byte: Option<usize>,
}

/// What two proofs share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Same {
    /// The model: program and weights.
    Model,
    /// The inputs.
    Input,
    /// The outputs.
    Output,
    /// The outputs of the first are the inputs of the second.
    Chain,
}

/// `bench grid`.
#[derive(Debug, Args)]
#[command(
    after_help = "Jobs ask for --verify none and are answered at once, so that ordering, matching, settling and storing them is \
                  all that is measured. The data lie in the current folder while it runs: use a disk, not memory."
)]
pub(crate) struct BenchGridArguments {
    /// Validators.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(crate) validators: u16,
    /// Jobs on their way at once while the most is found.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) window: u32,
    /// Seconds of each phase.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
}

/// `bench modes`.
#[derive(Debug, Args)]
pub(crate) struct BenchModesArguments {
    /// Runs per model and way of checking; the median is printed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Validators that the sums are for.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) validators: u16,
    /// Members of mode replicate that the sums are for.
    #[arg(long, default_value_t = REPLICAS_USUAL, value_parser = clap::value_parser!(u16).range(2..=i64::from(GANG_MEMBERS_MAX)))]
    pub(crate) members: u16,
    /// Leave out ResNet-18, whose proofs take seconds.
    #[arg(long)]
    pub(crate) quick: bool,
}

/// `bench run`.
#[derive(Debug, Args)]
pub(crate) struct BenchRunArguments {
    /// The device beside the CPU: cuda:N, or auto, the first GPU that passes the check of `device --check`, if there is one.
    #[arg(long, default_value = "auto")]
    pub(crate) device: DeviceChoice,
    /// Runs per model; the median is printed.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Say how long the device takes for each operator.
    #[arg(long)]
    pub(crate) by_operator: bool,
    /// Leave out the models of the shape of GPT-2, which take seconds to make.
    #[arg(long)]
    pub(crate) quick: bool,
}

/// `bench prove`.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// Runs per model; the median is printed.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Measure the suite instead: MLP, LeNet, CNN 264k, dense 4M, VGG-16, ResNet-18, two GPTs, with weights from a seed.
    #[arg(long)]
    pub(crate) suite: bool,
    /// Only rows of the suite that prove in less than five seconds.
    #[arg(long, requires = "suite")]
    pub(crate) quick: bool,
    /// Write the suite's page.
    #[arg(long, requires = "suite", value_name = "FILE", num_args = 0..=1, default_missing_value = "docs/BENCHMARKS.md")]
    pub(crate) write: Option<PathBuf>,
    /// Measure proofs in zero knowledge, with hidden inputs; with `--suite` of its first rows.
    #[arg(long)]
    pub(crate) zk: bool,
    /// Measure one row in this process: what the suite calls for each.
    #[arg(long, requires = "suite", hide = true)]
    pub(crate) row: Option<usize>,
}

/// Other demos.
#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Show the market: 200 simulated providers, 1,000 jobs of all lanes, four replicas of the ledger.
    Market(DemoMarketArguments),
}

/// `demo market`.
#[derive(Debug, Args)]
#[command(
    after_help = "The providers are simulated: they take the time their machines would take and compute nothing. Ends \
                  with exit code 0 if every promise was kept."
)]
pub(crate) struct DemoMarketArguments {
    /// Where to write the journal of all blocks and decisions, for `market replay`.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
}

/// `market replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The journal.
    #[arg(value_name = "JOURNAL")]
    pub(crate) journal: PathBuf,
}

/// `demo`.
#[derive(Debug, Args)]
#[command(
    after_help = "Runs a whole grid in this process, labelled development, with play money. Ends with exit code 0 if \
                  every promise was kept: all digits paid for with verified proofs, each cheat slashed once, money \
                  conserved."
)]
pub(crate) struct DemoArguments {
    /// Another demo.
    #[command(subcommand)]
    pub(crate) which: Option<DemoCommand>,
    /// Where to leave receipts, proofs, digits and the public model.
    #[arg(long, value_name = "DIR", default_value = "./tensorgrid-demo")]
    pub(crate) out: PathBuf,
}
