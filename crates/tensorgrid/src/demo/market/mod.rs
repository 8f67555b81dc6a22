//! `tensorgrid demo market`: the market of the ledger with 200 simulated providers and 1,000 jobs of all lanes.
//!
//! The providers are simulated: they start leases and hand in receipts after the time their machines would take, and
//! compute nothing; the jobs are of mode `none`. Everything else is the ledger: four replicas of it execute each
//! block, as four validators do, and must agree on the state and on the schedule root. Read in this order: [`participants`] (who
//! takes part), [`grid`] (four replicas and their blocks), [`orders`] (what is ordered), [`scenario`] (what happens),
//! [`report`] (what was promised and kept).

mod grid;
mod orders;
mod participants;
mod report;
mod scenario;

use crate::cli::DemoMarketArguments;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, Outcome, json, line};

/// Runs the demo of the market.
pub(crate) fn run(arguments: &DemoMarketArguments, as_json: bool) -> Outcome {
    let run = scenario::run(!as_json)?;
    if let Some(path) = &arguments.journal {
        files::write(path, &run.journal)?;
    }
    if as_json {
        json(&report::json(&run))?;
    } else {
        line(report::text(&run))?;
    }
    match run.checks.iter().find(|check| !check.holds) {
        None => Ok(()),
        Some(check) => Err(Failure::new(
            Exit::Failed,
            anyhow::anyhow!("the market did not keep a promise: {}", check.promise),
        )),
    }
}
