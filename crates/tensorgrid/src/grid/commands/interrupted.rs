//! Ctrl-C while a command waits for what it ordered: that goes on, and it is said how to go on with it.

use std::future::Future;
use std::io::{self, BufRead, IsTerminal};

use tg_sdk::dto::ModeDto;
use tg_sdk::jobs::{self, OrderedJob};
use tg_sdk::{Client, Wallet};
use tg_types::{JobId, Transaction};

use super::Signals;
use super::order::order_text;
use crate::grid::connect::{self, OfJob as _};
use tg_console::outcome::{Exit, Failure, say};

/// What goes on when the command that waits for it is interrupted.
#[derive(Debug, Clone, Copy)]
pub(super) enum LeftRunning {
    /// A job of which it is known here what was ordered.
    Ordered(OrderedJob),
    /// A job of which only the API tells what was ordered.
    Told(JobId),
    /// An endpoint.
    Endpoint(JobId),
}

impl LeftRunning {
    const fn job(self) -> JobId {
        match self {
            Self::Ordered(ordered) => ordered.job,
            Self::Told(job) | Self::Endpoint(job) => job,
        }
    }

    /// The commands that go on with it, and end it.
    fn commands(self, api: &str) -> String {
        let id = self.job();
        let order = match self {
            Self::Endpoint(_) => {
                return format!(
                    "tensorgrid endpoint ask {id} INPUT{api} asks it once it is served; tensorgrid endpoint close {id}{api} ends it, and what is \
                     left of its money comes back"
                );
            }
            Self::Ordered(ordered) => format!(" --order {}", order_text(&ordered)),
            Self::Told(_) => String::new(),
        };
        let is_sealed = matches!(self, Self::Ordered(ordered) if ordered.mode == ModeDto::Sealed);
        let grants = match is_sealed {
            true => " and grants its key",
            false => "",
        };
        format!(
            "tensorgrid job fetch {id}{order}{api} waits for its answer{grants}; tensorgrid job cancel {id}{api} takes it back, with the key that \
             ordered it"
        )
    }
}

/// Waits for what was ordered, until Ctrl-C. `left` says what goes on then; with a wallet whoever sits at the terminal may cancel it.
///
/// # Errors
/// As `wait`; if it was interrupted, what becomes of what was ordered.
pub(super) async fn unless_interrupted<T>(
    (client, wallet): (&Client, Option<&Wallet>),
    left: impl Fn() -> Vec<LeftRunning>,
    wait: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut signals = Signals::new()?;
    tokio::select! {
        ended = wait => return ended,
        () = signals.stop() => {}
    }
    let left = left();
    if let Some(wallet) = wallet
        && asks_to_cancel(&left, &mut signals).await
    {
        return Err(cancel((client, wallet), &left).await?);
    }
    Err(described(&left, &connect::api_flag(client)))
}

/// How the command ends that leaves something running.
fn described(left: &[LeftRunning], api: &str) -> Failure {
    let text = match left {
        [] => "stopped while a job was being ordered, which may have been".to_owned(),
        [LeftRunning::Endpoint(id)] => {
            format!("nobody waits any more for endpoint {id}, which goes on")
        }
        [one] => format!("nobody waits any more for job {}, which goes on", one.job()),
        several => format!(
            "nobody waits any more for {} jobs, which go on",
            several.len()
        ),
    };
    let commands: Vec<String> = left.iter().map(|it| it.commands(api)).collect();
    let hint = match left {
        [] => format!("tensorgrid job list{api} shows whether it was"),
        _ => commands.join("\n"),
    };
    Failure::new(Exit::Interrupted, anyhow::anyhow!(text)).hint(hint)
}

/// Asks whoever sits at the terminal whether to cancel jobs; of endpoints the command is said that closes them.
async fn asks_to_cancel(left: &[LeftRunning], signals: &mut Signals) -> bool {
    let is_endpoint = |it: &LeftRunning| matches!(it, LeftRunning::Endpoint(_));
    if left.is_empty() || left.iter().any(is_endpoint) || !io::stdin().is_terminal() {
        return false;
    }
    for one in left {
        say(format_args!(
            "job {} goes on without this command.",
            one.job()
        ));
    }
    say("Cancel? [y/N]");
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    let answer = tokio::select! {
        answer = read => answer.ok().and_then(Result::ok),
        () = signals.stop() => None,
    };
    let answer = answer.unwrap_or_default();
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Takes jobs back; how the command ends then.
///
/// # Errors
/// If one cannot be taken back.
async fn cancel(
    (client, wallet): (&Client, &Wallet),
    left: &[LeftRunning],
) -> Result<Failure, Failure> {
    for one in left {
        let cancel = Transaction::CancelJob { job: one.job() };
        let sent = jobs::submit(client, wallet, &cancel, "cancel the job").await;
        sent.of_job()?;
    }
    let mut ends = Vec::with_capacity(left.len());
    for one in left {
        let ended = jobs::follow(client, one.job(), &mut |_| {})
            .await
            .of_job()?;
        ends.push(format!("job {} is {}", one.job(), ended.state));
    }
    let text = format!("{}, as you cancelled", ends.join(", "));
    Ok(Failure::new(Exit::Interrupted, anyhow::anyhow!(text)))
}

#[cfg(test)]
mod tests {
    use tg_types::ModelId;

    use super::*;

    fn ordered(mode: ModeDto) -> LeftRunning {
        let (job, model) = (JobId::new([1; 32]), ModelId::new([2; 32]));
        LeftRunning::Ordered(OrderedJob::new(job, model, b"input", mode))
    }

    #[test]
    fn what_is_left_running_is_said_with_the_commands_that_go_on_with_it() {
        let id = JobId::new([1; 32]);
        let api = " --api http://127.0.0.1:7171";
        let check = |left: &[LeftRunning], words: &[&str]| {
            let failure = described(left, api);
            assert_eq!(failure.exit, Exit::Interrupted);
            let said = format!("{:#} {}", failure.error, failure.hint.unwrap_or_default());
            for word in words {
                assert!(said.contains(word), "{word}: {said}");
            }
        };
        let (fetch, cancel) = (
            format!("tensorgrid job fetch {id} --order 0x"),
            format!("tensorgrid job cancel {id}{api}"),
        );
        check(&[ordered(ModeDto::Proof)], &[&fetch, &cancel, "job 0x"]);
        check(&[ordered(ModeDto::Sealed)], &[&fetch, "grants its key"]);
        // Nothing that the API tells is said as if it were known here.
        let told = format!("tensorgrid job fetch {id}{api} ");
        check(&[LeftRunning::Told(id)], &[&told, &cancel]);
        let close = format!("tensorgrid endpoint close {id}{api}");
        check(&[LeftRunning::Endpoint(id)], &[&close]);
        check(&[ordered(ModeDto::Sync); 3], &["3 jobs", &fetch]);
        check(&[], &["tensorgrid job list --api"]);
    }
}
