//! The commands that speak to a grid, one file per subject.

pub(crate) mod balance;
pub(crate) mod infer;
pub(crate) mod job;
pub(crate) mod model;
pub(crate) mod provider;
pub(crate) mod up;

use std::future::Future;

use crate::outcome::{Outcome, json};

/// Runs an asynchronous command.
pub(crate) fn block_on(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(command);
    // Work that still runs on its own threads has nobody left to report to.
    runtime.shutdown_background();
    outcome
}

/// Prints any data as JSON.
fn json_of(data: &impl serde::Serialize) -> Outcome {
    Ok(json(&serde_json::to_value(data)?)?)
}
