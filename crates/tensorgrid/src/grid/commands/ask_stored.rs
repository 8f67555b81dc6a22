//! `tensorgrid job ask-stored`: whether a validator has the answer that it stated to keep.

use std::time::{Duration, Instant};

use tg_console::outcome::{Exit, Failure, Outcome, line, say};
use tg_console::table::short;
use tg_sdk::dto::{AskedSeatDto, JobDto, KeptAnswerDto};
use tg_sdk::text::FromText as _;
use tg_sdk::{Client, jobs};
use tg_types::{Address, JobId, Transaction};

use super::json_of;
use crate::grid::connect::{self, Calling, OfJob};
use crate::grid::job_args::JobAskStoredArguments;

/// Between two looks at the job.
const POLL: Duration = Duration::from_millis(300);

/// How long this command waits for what the others find: who gives the answer is done by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks, and waits for a while for what comes of it.
pub(super) async fn run(arguments: &JobAskStoredArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let seat = Address::from_text(&arguments.seat).ok_or_else(|| {
        let text = format!("{:?} is not {}", arguments.seat, Address::EXPECTED);
        Failure::new(Exit::Usage, anyhow::anyhow!(text))
    })?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let id = connect::job(&client, &arguments.job).await?;
    let ask = Transaction::AskStored { job: id, seat };
    let sent = jobs::submit(&client, &wallet, &ask, "ask for the answer").await;
    sent.of_job()?;
    say("asked; the fee comes back if the validator does not have the answer");
    let job = follow(&client, id, seat).await?;
    if as_json {
        return json_of(&job);
    }
    let kept = job.kept.as_ref();
    let open = kept.and_then(|it| it.asked.iter().find(|it| it.seat == seat));
    let is_kept = kept.is_some_and(|it| it.seats.contains(&seat));
    line(match open {
        Some(open) => format!("{}\nlater: tensorgrid job show {id}", describe_asked(open)),
        None if is_kept => format!("{seat} gave the answer of job {id} to the others"),
        None => format!("{seat} does not keep the answer of job {id} any more"),
    })?;
    Ok(())
}

/// Looks at the job until the question was there and is over, or for some time.
async fn follow(client: &Client, id: JobId, seat: Address) -> Result<JobDto, Failure> {
    let started = Instant::now();
    let mut was_open = false;
    loop {
        let job = client.job(id).await.calling("ask for the job")?;
        let asked = job.kept.iter().flat_map(|it| &it.asked);
        let is_open = asked.clone().any(|it| it.seat == seat);
        was_open |= is_open;
        if was_open && !is_open || started.elapsed() > PATIENCE {
            return Ok(job);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What the others say of a validator that is asked.
fn describe_asked(asked: &AskedSeatDto) -> String {
    format!(
        "{} is asked for it, for {} TGRID: {} others got it, {} did not",
        asked.seat,
        short(asked.fee),
        asked.got,
        asked.missing
    )
}

/// Who keeps the answer of a job, in lines.
pub(super) fn describe_kept(job: &JobDto) -> Vec<String> {
    let Some(kept) = &job.kept else {
        return match job.retention_ms {
            0 => vec!["kept       by nobody: its order does not ask for it".to_owned()],
            time => vec![format!("kept       for {} s once it is paid", time / 1_000)],
        };
    };
    let KeptAnswerDto {
        answer,
        until_ms,
        seats,
        validators,
        asked,
    } = kept;
    let mut lines = vec![
        format!("answer     {answer}"),
        format!(
            "kept       until {until_ms} ms, by {} of {validators} validators",
            seats.len()
        ),
    ];
    lines.extend(seats.iter().map(|it| format!("  {it}")));
    lines.extend(asked.iter().map(|it| format!("  {}", describe_asked(it))));
    lines
}
