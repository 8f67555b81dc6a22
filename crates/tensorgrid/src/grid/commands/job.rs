//! `tensorgrid job list`, `show`, `why`, `receipt`, `raise` and `cancel`; the others are elsewhere.

use std::time::{Duration, Instant};
use tg_console::files;

use tg_proof::ProofFile;
use tg_sdk::dto::{JobDto, ModeDto};
use tg_sdk::jobs;
use tg_sdk::light::LightClient;
use tg_sdk::{Client, JobFilter};
use tg_types::{Amount, JobId, Transaction};

use super::proved_job::ProvedJob;
use super::{
    ask_stored, challenge, job_cost, job_file, json_of, say_unproved, sealed, unproved_json,
};
use crate::grid::connect::{self, Calling, OfJob};
use crate::grid::describe::{
    BesideReceipt, describe_lease, describe_money, describe_receipt, describe_why,
};
use crate::grid::job_args::{
    JobArguments, JobCancelArguments, JobCommand, JobListArguments, JobRaiseArguments,
    JobReceiptArguments, JobShowArguments,
};
use crate::grid::trust::Trusting;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_console::table::{Table, brief, short};

/// Runs a command about jobs.
pub(crate) async fn run(command: &JobCommand, as_json: bool) -> Outcome {
    match command {
        JobCommand::List(arguments) => list(arguments, as_json).await,
        JobCommand::Show(arguments) => show(arguments, as_json).await,
        JobCommand::Why(arguments) => why(arguments, as_json).await,
        JobCommand::Receipt(arguments) => receipt(arguments, as_json).await,
        JobCommand::Raise(arguments) => raise(arguments, as_json).await,
        JobCommand::Cancel(arguments) => cancel(arguments, as_json).await,
        JobCommand::Challenge(arguments) => challenge::run(arguments, as_json).await,
        JobCommand::AskStored(arguments) => ask_stored::run(arguments, as_json).await,
        JobCommand::Grant(arguments) => Box::pin(sealed::grant(arguments, as_json)).await,
        JobCommand::Reveal(arguments) => Box::pin(sealed::reveal(arguments, as_json)).await,
        JobCommand::Fetch(arguments) => super::infer::fetch(arguments, as_json).await,
        JobCommand::Validate(arguments) => job_file::validate(arguments, as_json),
        JobCommand::Submit(arguments) => job_file::submit(arguments, as_json).await,
        JobCommand::Schema => job_file::print_schema(),
        JobCommand::Cost(arguments) => job_cost::run(arguments, as_json).await,
    }
}

async fn list(arguments: &JobListArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let filter = JobFilter {
        requestor: None,
        provider: None,
        mode: None,
        limit: Some(arguments.limit),
    };
    let jobs = client.jobs(filter).await.calling("list the jobs")?;
    if as_json {
        return unproved_json(&jobs);
    }
    say_unproved(&client);
    let mut table = Table::new(&["job", "state", "verify", "model", "max price", "leases"]);
    for job in jobs {
        table.row(vec![
            brief(job.id),
            job.state.to_string(),
            job.mode.to_string(),
            brief(job.model),
            short(job.max_price),
            attempts(&job).to_string(),
        ]);
    }
    Ok(line(table)?)
}

async fn show(arguments: &JobShowArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let id = connect::job(&client, &arguments.job).await?;
    let (job, proved) = match Trusting::begin_to_show(&client, &arguments.trust).await? {
        Some(mut trusting) => {
            let both = told_and_proved(&client, trusting.light(), id).await?;
            trusting.keep();
            both
        }
        None => (client.job(id).await.calling("ask for the job")?, None),
    };
    if as_json {
        let mut value = serde_json::to_value(&job)?;
        if let Some(proved) = &proved {
            value["proved"] = proved.json();
        }
        return Ok(json(&value)?);
    }
    if let Some(proved) = proved {
        line(format_args!(
            "{}\nand as the API says:",
            proved.describe(id)
        ))?;
    }
    Ok(line(describe(&job))?)
}

/// How often a job is asked for again that changed between what the API told and what was proved.
const PROVED_TRIES: u32 = 5;

/// A job as the API tells it, and what a final state has of it, which must agree.
async fn told_and_proved(
    client: &Client,
    light: &mut LightClient,
    id: JobId,
) -> Result<(JobDto, Option<ProvedJob>), Failure> {
    let mut tries = 0;
    loop {
        let job = client.job(id).await.calling("ask for the job")?;
        let proved = ProvedJob::of(light, id).await?;
        let Some(differs) = proved.differs(&job) else {
            return Ok((job, Some(proved)));
        };
        tries += 1;
        if tries >= PROVED_TRIES {
            let text = format!(
                "{} tells of job {id} that {differs}: {}",
                client.url(),
                proved.describe(id).replace('\n', "; ")
            );
            return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text))
                .hint("the API lies or is behind: ask another one with --api"));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A job in lines.
fn describe(job: &JobDto) -> String {
    let mut lines = vec![
        format!("job        {}", job.id),
        format!("state      {}", job.state),
        format!("requestor  {}", job.requestor),
        format!("model      {}", job.model),
        format!("input      {} ({} bytes)", job.input, job.input_len),
        format!("verify     {}", job.mode),
        format!("max price  {} TGRID", short(job.max_price)),
        format!("escrow     {} TGRID", short(job.escrow)),
    ];
    lines.extend(
        job.reason
            .as_ref()
            .map(|reason| format!("ended      {reason}")),
    );
    let money = job.settlement.as_ref();
    lines.extend(money.map(|money| format!("money      {}", describe_money(money))));
    lines.extend(ask_stored::describe_kept(job));
    let first = job.history.first().map_or(0, |step| step.at_ms);
    let steps = job.history.iter().map(|step| {
        let after = step.at_ms.saturating_sub(first);
        format!(
            "  {:<10} block {:<8} +{after} ms",
            step.state.as_str(),
            step.height
        )
    });
    lines.push("history".to_owned());
    lines.extend(steps);
    lines.push("leases".to_owned());
    lines.extend(
        job.leases
            .iter()
            .map(|lease| format!("  {}", describe_lease(lease))),
    );
    lines.join("\n")
}

/// How many leases it had, a gang's counted as one.
fn attempts(job: &JobDto) -> usize {
    job.leases.iter().filter(|it| it.lead.is_none()).count()
}

async fn why(arguments: &JobArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let id = connect::job(&client, &arguments.job).await?;
    let why = client.job_why(id).await.calling("ask why")?;
    if as_json {
        return json_of(&why);
    }
    line(describe_why(&why))?;
    if !why.hint.is_empty() {
        say(format_args!("hint: {}", why.hint));
    }
    Ok(())
}

async fn receipt(arguments: &JobReceiptArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let id = connect::job(&client, &arguments.job).await?;
    let receipt = client
        .job_receipt(id)
        .await
        .calling("ask for the receipt")?;
    let mut proof = None;
    // A program's evidence is its answer.
    let is_proved = receipt.job.mode == ModeDto::Proof;
    if let Some(evidence) = receipt.evidence.filter(|_| is_proved) {
        let bytes = client.blob(evidence, tg_proof::PROOF_FILE_MAX).await;
        // A receipt outlives its proof's blob; who asks for the proof hears why it is not there.
        proof = match bytes.calling("fetch the proof") {
            Err(_) if arguments.proof_out.is_none() => None,
            bytes => Some(bytes?),
        };
    }
    if let Some(path) = &arguments.proof_out {
        let Some(proof) = &proof else {
            let text = format!(
                "the job has no proof: it was ordered with mode {}",
                receipt.job.mode
            );
            return Err(Failure::new(Exit::NotFound, anyhow::anyhow!(text)));
        };
        files::write(path, proof)?;
        say(format_args!("wrote {}", path.display()));
    }
    let file = proof.map(|bytes| ProofFile::read(&bytes)).transpose();
    let file = file.or_fail(Exit::Rejected, "read the proof")?;
    let zk = file.map(|file| file.statement.zk.is_some());
    if as_json {
        let mut value = serde_json::to_value(&receipt)?;
        value["zk"] = zk.into();
        return Ok(json(&value)?);
    }
    let beside = BesideReceipt { zk, tiles: None };
    Ok(line(describe_receipt(&receipt, beside))?)
}

/// How long a transaction may take to be in a final block.
const RAISE_MAX: Duration = Duration::from_secs(30);

/// How often the job is asked.
const POLL: Duration = Duration::from_millis(150);

/// The terms of a job that a raise begins at: as a final state has them, or as the API says where nothing is lost by its lies. Without
/// either the maximum has to be stated: what it is now would be the API's word.
async fn terms_before(
    client: &Client,
    id: JobId,
    arguments: &JobRaiseArguments,
) -> Result<(Amount, u8), Failure> {
    if let Some(mut trusting) = Trusting::begin(client, &arguments.trust).await? {
        let order = trusting.order(id).await?;
        trusting.keep();
        return Ok((order.max_price, order.max_attempts));
    }
    let before = client.job(id).await.calling("ask for the job")?;
    if arguments.max_price.is_none() && !client.is_own_node() {
        let text = format!(
            "the maximum price of job {id} is {} TGRID as the API says: nothing was signed on its word",
            before.max_price
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("--max-price N states it, or --genesis FILE proves it"));
    }
    Ok((before.max_price, before.max_attempts))
}

async fn raise(arguments: &JobRaiseArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let key = connect::signing(&client, &arguments.key, arguments.session.as_deref()).await?;
    let id = connect::job(&client, &arguments.job).await?;
    let (price, attempts) = terms_before(&client, id, arguments).await?;
    let max_price = arguments.max_price.unwrap_or(price);
    let max_attempts = arguments.attempts.unwrap_or(attempts);
    let raise = Transaction::RaiseJob {
        job: id,
        max_price,
        max_attempts,
    };
    let raised = jobs::submit(&client, key.signer(), &raise, "raise the job").await;
    raised.of_job()?;
    let sent = Instant::now();
    let job = loop {
        let job = client.job(id).await.calling("ask for the job")?;
        if job.max_price >= max_price && job.max_attempts >= max_attempts {
            break job;
        }
        if sent.elapsed() > RAISE_MAX {
            let text = "the transaction was taken and is in no block yet";
            return Err(Failure::new(Exit::Unavailable, anyhow::anyhow!(text)));
        }
        tokio::time::sleep(POLL).await;
    };
    if as_json {
        return json_of(&job);
    }
    Ok(line(format_args!(
        "job {} is {}: at most {} TGRID, {} attempts",
        job.id,
        job.state,
        short(job.max_price),
        job.max_attempts
    ))?)
}

async fn cancel(arguments: &JobCancelArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let key = connect::signing(&client, &arguments.key, arguments.session.as_deref()).await?;
    let job = connect::job(&client, &arguments.job).await?;
    let cancel = Transaction::CancelJob { job };
    let sent = jobs::submit(&client, key.signer(), &cancel, "cancel the job").await;
    sent.of_job()?;
    let job = jobs::follow(&client, job, &mut |_| {}).await.of_job()?;
    if as_json {
        return json_of(&job);
    }
    Ok(line(format_args!("job {} is {}", job.id, job.state))?)
}
