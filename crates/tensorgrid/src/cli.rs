//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

use crate::grid::account_args::{DoctorArguments, FaucetArguments, WalletCommand};
use crate::grid::endpoint_args::EndpointCommand;
use crate::grid::{
    connect_args, infer_args, job_args, ledger_args, model_args, node_args, program_args,
};
use tg_cuda::DeviceChoice;
use tg_offline::arguments::{
    BenchArguments, BenchModesArguments, BenchRunArguments, CompileArguments, ExplainArguments,
    GenerateArguments, ProgramCheckArguments, ProgramRunArguments, ProveArguments, ReplayArguments,
    RunArguments, SimulateArguments, VerifyArguments,
};

/// A grid of GPUs owned by strangers: send a model and an input, get the answer and a receipt anyone can check.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong command line or file, 3 rejected (a proof, receipt or job), \
                  4 not found, 5 the grid cannot be reached, 130 interrupted (Ctrl-C) while it waited for a job, which goes on.\n\
                  Environment: TENSORGRID_CPU=scalar|avx2|avx512-vnni executes at another level of the processor than its \
                  best (the results are the same); RUST_LOG=info prints a log (with --json an object a line); \
                  OTEL_EXPORTER_OTLP_ENDPOINT=http://HOST:4318 sends traces to a collector; SSL_CERT_FILE=FILE names the certificates \
                  that are trusted."
)]
pub(crate) struct Cli {
    /// Print data as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print the ids and hashes of receipts whole: program, model, input, output and evidence.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
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
    Up(node_args::UpArguments),
    /// Make the files of a network of separate processes.
    #[command(subcommand)]
    Network(node_args::NetworkCommand),
    /// Run one validator of a network whose others run elsewhere.
    Validator(node_args::ValidatorArguments),
    /// Run a node without a vote: it follows the chain, checks it, and serves the HTTP API.
    Gateway(node_args::GatewayArguments),
    /// List the validators, ask for a seat among them, and give it back.
    #[command(subcommand)]
    Seat(ledger_args::SeatCommand),
    /// Run a model on the grid, check the result as --verify says, and print it.
    Infer(infer_args::InferArguments),
    /// Let a language model of the grid write what follows a prompt.
    Write(infer_args::WriteArguments),
    /// Have a provider serve a model for some time, and ask it: answers at once, paid by the minute and for each answer.
    #[command(subcommand)]
    Endpoint(EndpointCommand),
    /// Keys of the OpenAI routes.
    #[command(subcommand, name = "api-key")]
    ApiKey(infer_args::ApiKeyCommand),
    /// Offer this machine to the grid, or list the offers.
    Provider(node_args::ProviderArguments),
    /// List, explain and take back jobs.
    #[command(subcommand)]
    Job(job_args::JobCommand),
    /// Show and pay what keeps a model, an offer, a job or a provider's record on the grid.
    #[command(subcommand)]
    Rent(ledger_args::RentCommand),
    /// Print what accounts have.
    Balance(ledger_args::BalanceArguments),
    /// Make key files, show whose they are, and copy them to a safe place.
    #[command(subcommand)]
    Wallet(WalletCommand),
    /// Get play money on a development network.
    Faucet(FaucetArguments),
    /// Pay another account.
    Transfer(ledger_args::TransferArguments),
    /// Print a final block from which clients can follow the chain.
    Checkpoint(ledger_args::CheckpointArguments),
    /// Print where the grid stands and where all money is.
    Status(ledger_args::StatusArguments),
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
    Add(model_args::ModelAddArguments),
    /// Register the models that are built into this program.
    AddBuiltin(model_args::ModelAddBuiltinArguments),
    /// List the grid's models, as the API tells them: nothing proves a list.
    List(connect_args::ApiArguments),
    /// Show one of the grid's models.
    Show(model_args::ModelShowArguments),
    /// Show what each way of checking a result would cost for a model, and what it assures.
    Modes(model_args::ModelModesArguments),
}

/// Commands about programs.
#[derive(Debug, Subcommand)]
pub(crate) enum ProgramCommand {
    /// Say what a module exports and what a run of it may take, or why it is refused.
    Check(ProgramCheckArguments),
    /// Run a module on an input, without a grid: the answer, the bill and the trace are those of every machine.
    Run(ProgramRunArguments),
    /// Register a program with the grid.
    Add(program_args::ProgramAddArguments),
    /// Run a program on the grid, where validators run it again before the provider is paid.
    Submit(Box<program_args::ProgramSubmitArguments>),
}

/// Commands about placing work.
#[derive(Debug, Subcommand)]
pub(crate) enum MarketCommand {
    /// Place the jobs of a trace one after the other and write where each went.
    Simulate(SimulateArguments),
    /// Execute a journal of blocks again, and compare every decision.
    Replay(ReplayArguments),
    /// Write a file of cloud prices, each with its day and page, for --cloud-prices of quotes.
    CloudPrices(CloudPricesArguments),
}

/// `market cloud-prices`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid market cloud-prices cloud-prices.toml\n  tensorgrid model modes --cloud-prices cloud-prices.toml\n\nThe rows \
                  are those that this release came with, as old as they say: change them to what you pay."
)]
pub(crate) struct CloudPricesArguments {
    /// The file to write; printed if absent. A file that is there stays as it is.
    pub(crate) file: Option<PathBuf>,
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
    /// Parts of the seed's draw to leave out, as its lines name them: fault3,seat1,provider2,requestor0,newcomer0,leaver0,client0,gateway0,links,orders,clocks,release,lapse.
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
    /// Move blobs from one node to another beside a bare stream of the same bytes: time, CPU time, memory, what a kill costs.
    Transfer(BenchTransferArguments),
    /// Compare a ledger of very many accounts with one of 1,000: CPU time of transfers, and what a newcomer's join takes.
    Accounts(BenchAccountsArguments),
    /// Simulate validators in ten regions of the world: how soon blocks are final, by published round trips.
    Regions(BenchRegionsArguments),
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

/// `bench transfer`.
#[derive(Debug, Args)]
#[command(
    after_help = "The data lie in the current folder while it runs, four times: use a disk, not memory. Blobs have at most \
                  256 MiB; more is several."
)]
pub(crate) struct BenchTransferArguments {
    /// How much is moved.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(4..=8192), value_name = "MIB")]
    pub(crate) mib: u32,
    /// Fetch from a node: what the second process does.
    #[arg(long, hide = true, requires = "into")]
    pub(crate) receive: Option<String>,
    /// Fetch from a bare connection: what the second process does.
    #[arg(long, hide = true, requires = "into")]
    pub(crate) bare: Option<std::net::SocketAddr>,
    /// Where to.
    #[arg(long, hide = true)]
    pub(crate) into: Option<PathBuf>,
    /// Which blobs.
    #[arg(hide = true, value_parser = parse_digest)]
    pub(crate) blobs: Vec<tg_types::Digest>,
}

/// `bench accounts`.
#[derive(Debug, Args)]
#[command(
    after_help = "CPU time is that of a whole block: signatures, execution and the state root. The newcomer is a second process that begins at a \
                  snapshot of this one over HTTP on loopback, as a gateway does, and follows until it is as far as this one was. The data lie in the \
                  current folder while it runs: use a disk, not memory."
)]
pub(crate) struct BenchAccountsArguments {
    /// Accounts of the large ledger.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    pub(crate) accounts: u32,
    /// Transfers of one run, in blocks of 100.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) transactions: u32,
    /// Runs on each ledger; the median is printed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) runs: u32,
    /// Begin at a node's snapshot: what the second process does.
    #[arg(long, hide = true, requires = "into")]
    pub(crate) join: Option<String>,
    /// The folder of its data.
    #[arg(long, hide = true)]
    pub(crate) into: Option<PathBuf>,
    /// Until which height it follows.
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) height: u64,
    /// When the network was founded, in milliseconds.
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) founded: u64,
}

/// `bench regions`.
#[derive(Debug, Args)]
#[command(
    after_help = "The validators, their consensus and their blocks are those of production; time and the network are simulated. A message takes half of the \
                  published round trip between the regions of both seats. Nothing is lost, blocks are empty, and no time is spent on work but \
                  --step-us for each turn of the runtime."
)]
pub(crate) struct BenchRegionsArguments {
    /// Validators in each of the ten regions.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(tg_sim::regions::SEATS_PER_REGION_MAX)))]
    pub(crate) seats_per_region: u8,
    /// Blocks that are counted.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) blocks: u32,
    /// The seed of the run: the same one gives the same figures.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Standard deviation of a message's way, in milliseconds: the table of round trips has none.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(crate) jitter_ms: u32,
    /// Simulated time of one turn of the runtime, in microseconds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) step_us: u32,
}

/// A digest in hexadecimal digits.
fn parse_digest(text: &str) -> Result<tg_types::Digest, String> {
    tg_types::Digest::from_hex(text.trim_start_matches("0x")).ok_or_else(|| "no digest".to_owned())
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
