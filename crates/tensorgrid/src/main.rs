//! The `tensorgrid` program.
//!
//! Read in this order: [`cli`] (what can be asked), [`outcome`] (how a command ends), [`bundled`] (what is built in),
//! [`offline`] (models and proofs without a grid).

mod bundled;
mod cli;
mod offline;
mod outcome;

use clap::Parser;
use cli::{Cli, Command, ModelCommand};
use std::process::ExitCode;

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

fn run(cli: Cli) -> outcome::Outcome {
    let json = cli.json;
    match cli.command {
        Command::Model(ModelCommand::Compile(arguments)) => offline::compile::run(&arguments, json),
        Command::Prove(arguments) => offline::prove::run(&arguments, json),
        Command::Verify(arguments) => offline::verify::run(&arguments, json),
        Command::Bench(cli::BenchCommand::Prove(arguments)) => {
            offline::bench::run(&arguments, json)
        }
    }
}
