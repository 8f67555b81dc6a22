//! Ctrl-C while a command waits for a job that it ordered: the job goes on, and it is said how to go on with it.

use std::future::Future;
use std::io::{self, BufRead, IsTerminal};

use tg_sdk::jobs::{self, OrderedJob};
use tg_sdk::{Client, Wallet};
use tg_types::Transaction;

use super::Signals;
use super::order::order_text;
use crate::grid::connect::{self, OfJob as _};
use tg_console::outcome::{Exit, Failure, Outcome, say};

/// Waits for an ordered job, until Ctrl-C.
///
/// # Errors
/// As `wait`; if it was interrupted, what becomes of the job.
pub(super) async fn unless_interrupted(
    (client, wallet): (&Client, &Wallet),
    ordered: &OrderedJob,
    wait: impl Future<Output = Outcome>,
) -> Outcome {
    let mut signals = Signals::new()?;
    tokio::select! {
        ended = wait => return ended,
        () = signals.stop() => {}
    }
    leave((client, wallet), ordered, &mut signals).await
}

/// Asks whoever sits at the terminal whether to cancel the job; else says how to.
async fn leave(
    (client, wallet): (&Client, &Wallet),
    ordered: &OrderedJob,
    signals: &mut Signals,
) -> Outcome {
    let id = ordered.job;
    if io::stdin().is_terminal() {
        say(format_args!(
            "job {id} goes on without this command. Cancel it? [y/N]"
        ));
        let read = tokio::task::spawn_blocking(|| {
            let mut answer = String::new();
            io::stdin().lock().read_line(&mut answer).map(|_| answer)
        });
        let answer = tokio::select! {
            answer = read => answer.ok().and_then(Result::ok),
            () = signals.stop() => None,
        };
        let answer = answer.unwrap_or_default();
        if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return cancel((client, wallet), ordered).await;
        }
    }
    let api = connect::api_flag(client);
    let order = order_text(ordered);
    let text = format!("nobody waits any more for job {id}, which goes on");
    Err(
        Failure::new(Exit::Failed, anyhow::anyhow!(text)).hint(format!(
            "tensorgrid job fetch {id} --order {order}{api} waits for its answer; tensorgrid job cancel {id}{api} takes it back, with the key that \
             ordered it"
        )),
    )
}

async fn cancel((client, wallet): (&Client, &Wallet), ordered: &OrderedJob) -> Outcome {
    let job = ordered.job;
    let cancel = Transaction::CancelJob { job };
    let sent = jobs::submit(client, wallet, &cancel, "cancel the job").await;
    sent.of_job()?;
    let ended = jobs::follow(client, job, &mut |_| {}).await.of_job()?;
    let text = format!("job {job} is {}, as you cancelled it", ended.state);
    Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)))
}
