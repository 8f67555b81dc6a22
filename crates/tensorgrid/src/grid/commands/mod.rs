//! The commands that speak to a grid, one file per subject.

pub(crate) mod api_key;
mod ask_stored;
pub(crate) mod balance;
pub(crate) mod bench_accounts;
pub(crate) mod bench_grid;
pub(crate) mod bench_transfer;
mod bench_wire;
mod challenge;
pub(crate) mod checkpoint;
pub(crate) mod doctor;
pub(crate) mod endpoint;
mod endpoint_ask;
mod endpoint_files;
mod endpoint_group;
mod endpoint_shared;
pub(crate) mod faucet;
pub(crate) mod float;
pub(crate) mod gateway;
pub(crate) mod infer;
mod interrupted;
pub(crate) mod job;
mod job_cost;
pub(crate) mod job_file;
mod job_words;
pub(crate) mod model;
pub(crate) mod modes;
pub(crate) mod network;
mod order;
pub(crate) mod program;
mod proved;
mod proved_job;
pub(crate) mod provider;
mod provider_show;
pub(crate) mod rent;
mod sealed;
mod sealed_shared;
pub(crate) mod seat;
mod seat_report;
pub(crate) mod session;
pub(crate) mod transfer;
pub(crate) mod up;
pub(crate) mod validator;
pub(crate) mod wallet;
pub(crate) mod write;

use std::future::Future;
use std::io::{self, BufRead, IsTerminal};

use serde_json::Value;
use tg_console::outcome::{Exit, Failure, Outcome, json, say};

/// What a process says that is told to stop a second time.
pub(crate) fn stopped_at_once() -> anyhow::Error {
    anyhow::anyhow!("a second signal stopped it before it had finished; what is final is on disk")
}

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

/// Asks whoever sits at the terminal whether to go on. `undone` says what a *no* leaves as it was, `otherwise` how to
/// go on without being asked.
fn ask_to_proceed(undone: &str, otherwise: &str) -> Outcome {
    if !io::stdin().is_terminal() {
        let text = "nobody is here to confirm the price";
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(otherwise));
    }
    say("Proceed? [Y/n]");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") {
        return Ok(());
    }
    let text = format!("not confirmed: {undone}");
    Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)))
}

/// Prints any data as JSON.
fn json_of(data: &impl serde::Serialize) -> Outcome {
    Ok(json(&serde_json::to_value(data)?)?)
}

/// Prints a list as JSON: each row, or the object that has its rows, says that nothing shows it, nor that no other is left out.
fn unproved_json(list: &impl serde::Serialize) -> Outcome {
    let mut value = serde_json::to_value(list)?;
    let marked = match &mut value {
        Value::Array(rows) => rows.as_mut_slice(),
        whole => std::slice::from_mut(whole),
    };
    for one in marked {
        if let Some(one) = one.as_object_mut() {
            one.insert("proved".to_owned(), false.into());
        }
    }
    Ok(json(&value)?)
}

/// Says whose word a list is.
fn say_unproved(client: &tg_sdk::Client) {
    say(format_args!("unproved list: as {} says", client.url()));
}

/// Ctrl-C, and the polite signal of the operating system.
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Listens from now on.
    pub(crate) fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Returns at the next signal.
    pub(crate) async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Listens from now on.
    pub(crate) const fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Returns at the next signal.
    pub(crate) async fn stop(&mut self) {
        // An error means that nothing can be listened to: then nothing stops but by force.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
