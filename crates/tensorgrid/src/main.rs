//! The `tensorgrid` program.
//!
//! Read in this order: [`cli`] (what can be asked), [`tg_console::outcome`] (how a command ends),
//! [`tg_offline`] (models and proofs without a grid), [`grid`] (everything that speaks to a grid, or is one), [`network`] (a
//! grid of separate processes), [`tg_jobfile`] (job files), [`demo`] (all of it in a minute).

mod bench_regions;
mod cli;
mod demo;
mod grid;
mod network;
mod shell;
mod sim;
mod telemetry;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use cli::{Cli, Command, ModelCommand, ProgramCommand};
use grid::node_args::ProviderArguments;
use std::ffi::OsString;
use std::process::ExitCode;
use tg_console::outcome::{Exit, OrFail as _, Outcome, PrintedDetail, set_detail};
use tg_exec::kernels::SimdLevel;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are data and succeed; a wrong command line is talk and ends with 2.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            return if error.print().is_ok() {
                ExitCode::from(code)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let json = cli.json;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            let exit = failure.exit as u8;
            // A closed error stream is nobody to report to; the exit code still tells.
            let _closed = failure.report(json);
            ExitCode::from(exit)
        }
    }
}

fn run(cli: Cli) -> Outcome {
    use grid::commands::{
        balance, block_on, checkpoint, doctor, endpoint, faucet, gateway, infer, job, network,
        rent, seat, transfer, up, validator, wallet, write,
    };
    SimdLevel::forced().or_fail(Exit::Usage, "choose the processor's level")?;
    let json = cli.json;
    if cli.verbose {
        set_detail(PrintedDetail::Full);
    }
    // The settings of these say what they log.
    let has_settings = matches!(cli.command, Command::Validator(_) | Command::Gateway(_));
    let telemetry = (!has_settings).then(|| telemetry::start(None, json));
    let _telemetry = telemetry.transpose()?;
    match cli.command {
        Command::Demo(arguments) => match &arguments.which {
            Some(cli::DemoCommand::Market(market)) => demo::market::run(market, json),
            None => demo::run(&arguments, json),
        },
        Command::Up(arguments) => block_on(up::run(&arguments, json)),
        Command::Network(command) => block_on(network::run(&command, json)),
        Command::Validator(arguments) => block_on(validator::run(&arguments, json)),
        Command::Gateway(arguments) => block_on(gateway::run(&arguments, json)),
        Command::Seat(command) => block_on(seat::run(&command, json)),
        Command::Infer(arguments) => block_on(infer::run(&arguments, json)),
        Command::Write(arguments) => block_on(write::run(&arguments, json)),
        Command::Endpoint(command) => block_on(endpoint::run(&command, json)),
        Command::ApiKey(grid::infer_args::ApiKeyCommand::New(arguments)) => {
            grid::commands::api_key::make(&arguments, json)
        }
        Command::Provider(arguments) => of_provider(&arguments, json),
        Command::Job(command) => block_on(job::run(&command, json)),
        Command::Rent(command) => block_on(rent::run(&command, json)),
        Command::Checkpoint(arguments) => block_on(checkpoint::run(&arguments, json)),
        Command::Balance(arguments) => block_on(balance::run(&arguments, json)),
        Command::Wallet(command) => wallet::run(&command, json),
        Command::Faucet(arguments) => block_on(faucet::run(&arguments, json)),
        Command::Doctor(arguments) => block_on(doctor::run(&arguments, json)),
        Command::Completions(arguments) => shell::completions(&arguments, Cli::command()),
        Command::Man(arguments) => shell::manual(&arguments, Cli::command()),
        Command::Transfer(arguments) => block_on(transfer::run(&arguments, json)),
        Command::Status(arguments) => block_on(balance::status(&arguments, json)),
        Command::Model(command) => of_models(command, json),
        Command::Program(command) => of_programs(&command, json),
        Command::Run(arguments) => tg_offline::run::run(&arguments, json),
        Command::Generate(arguments) => tg_offline::generate::run(&arguments, json),
        Command::Prove(arguments) => tg_offline::prove::run(&arguments, json),
        Command::Verify(arguments) => tg_offline::verify::run(&arguments, json),
        Command::Market(cli::MarketCommand::Simulate(arguments)) => {
            tg_offline::market::run(&arguments, json)
        }
        Command::Market(cli::MarketCommand::CloudPrices(arguments)) => {
            grid::cloud_prices::write_sample(arguments.file.as_deref())
        }
        Command::Market(cli::MarketCommand::Replay(arguments)) => {
            tg_offline::market::replay(&arguments, json)
        }
        Command::Sim(arguments) => sim::run(&arguments, json),
        Command::Device(arguments) if arguments.check => {
            tg_offline::device_check::run(arguments.device, json)
        }
        Command::Device(_) => tg_offline::device::run(json),
        Command::Bench(command) => of_measurements(&command, json),
    }
}

/// Runs a command about providers; where settings are named, what they say takes the place of what flags are by themselves.
fn of_provider(arguments: &ProviderArguments, json: bool) -> Outcome {
    use grid::commands::{block_on, provider};
    let is_other = arguments.sample || arguments.command.is_some();
    let Some(file) = arguments.config.as_deref().filter(|_| !is_other) else {
        return block_on(provider::run(arguments, json));
    };
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = network::provider::matches(file, Cli::command(), &words)?;
    let again = Cli::from_arg_matches(&matches).or_fail(Exit::Usage, "read the settings")?;
    match again.command {
        Command::Provider(arguments) => block_on(provider::run(&arguments, json)),
        _ => unreachable!("the same words are the same command"),
    }
}

fn of_measurements(command: &cli::BenchCommand, json: bool) -> Outcome {
    use cli::BenchCommand;
    use grid::commands::{bench_accounts, bench_grid, bench_transfer, block_on};
    match command {
        BenchCommand::Grid(arguments) => block_on(bench_grid::run(arguments, json)),
        BenchCommand::Transfer(arguments) => block_on(bench_transfer::run(arguments, json)),
        BenchCommand::Accounts(arguments) => block_on(bench_accounts::run(arguments, json)),
        BenchCommand::Regions(arguments) => bench_regions::run(arguments, json),
        BenchCommand::Modes(arguments) => tg_offline::bench_modes::run(arguments, json),
        BenchCommand::Run(arguments) => tg_offline::bench_run::run(arguments, json),
        BenchCommand::Prove(arguments) => tg_offline::bench::run(arguments, json),
    }
}

fn of_models(command: ModelCommand, json: bool) -> Outcome {
    use grid::commands::{block_on, model, modes};
    match command {
        ModelCommand::Add(arguments) => block_on(model::add(&arguments, json)),
        ModelCommand::AddBuiltin(arguments) => block_on(model::add_builtin(&arguments, json)),
        ModelCommand::List(arguments) => block_on(model::list(&arguments, json)),
        ModelCommand::Show(arguments) => block_on(model::show(&arguments, json)),
        ModelCommand::Modes(arguments) => block_on(modes::run(&arguments, json)),
        ModelCommand::Compile(arguments) => tg_offline::compile::run(&arguments, json),
        ModelCommand::Explain(arguments) => tg_offline::compile::explain(&arguments, json),
    }
}

fn of_programs(command: &ProgramCommand, json: bool) -> Outcome {
    use grid::commands::{block_on, program};
    match command {
        ProgramCommand::Check(arguments) => tg_offline::program::check(arguments, json),
        ProgramCommand::Run(arguments) => tg_offline::program::run(arguments, json),
        ProgramCommand::Add(arguments) => block_on(program::add(arguments, json)),
        ProgramCommand::Submit(arguments) => block_on(program::submit(arguments, json)),
    }
}
