//! `tensorgrid demo`: ten handwritten digits, six providers of which three cheat, four validators, one summary.
//!
//! [`market`] is the other demo: the market alone.
//!
//! Read in this order: [`cheats`] (the three lies), [`cast`] (who takes part), [`story`] (what happens),
//! [`record`] (what happened, and whether promises were kept), [`screen`] (what is shown), [`folder`] and [`report`] (what is
//! left behind).

mod cast;
mod cheats;
mod folder;
pub(crate) mod market;
mod record;
mod report;
mod screen;
mod story;

use crate::cli::DemoArguments;
use crate::outcome::{Exit, Failure, Outcome, json, line};

/// Runs the demo.
pub(crate) fn run(arguments: &DemoArguments, as_json: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let story = runtime.block_on(story::tell(arguments, as_json))?;
    report::leave(&story)?;
    if as_json {
        json(&report::json(&story))?;
    } else {
        line(report::text(&story))?;
    }
    match story.broken_promise() {
        None => Ok(()),
        Some(promise) => Err(Failure::new(
            Exit::Failed,
            anyhow::anyhow!("the demo did not keep a promise: {promise}"),
        )),
    }
}
