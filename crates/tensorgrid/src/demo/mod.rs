//! `tensorgrid demo`: ten handwritten digits, six providers of which three cheat, four validators, one summary.
//!
//! [`market`] is the other demo: the market alone.
//!
//! Read in this order: [`cheats`] (the three lies), [`participants`] (who takes part), [`scenario`] (what happens),
//! [`record`] (what happened, and whether promises were kept), [`screen`] (what is shown), [`folder`] and [`report`] (what is
//! left behind).

mod cheats;
mod folder;
pub(crate) mod market;
mod participants;
mod record;
mod report;
mod scenario;
mod screen;

use crate::cli::DemoArguments;
use tg_console::outcome::{Exit, Failure, Outcome, json, line};

/// Runs the demo.
pub(crate) fn run(arguments: &DemoArguments, as_json: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let run = runtime.block_on(scenario::run(arguments, as_json))?;
    report::leave(&run)?;
    if as_json {
        json(&report::json(&run))?;
    } else {
        line(report::text(&run))?;
    }
    match run.broken_promise() {
        None => Ok(()),
        Some(promise) => Err(Failure::new(
            Exit::Failed,
            anyhow::anyhow!("the demo did not keep a promise: {promise}"),
        )),
    }
}
