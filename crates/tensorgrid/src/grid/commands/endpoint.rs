//! `tensorgrid endpoint`: a provider serves a model for some time, and is asked and paid directly.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tg_sdk::dto::{
    DryRunDto, JobDto, JobStateDto, LeaseDto, MeterDto, ModeDto, ModelDto, QuoteDto,
};
use tg_sdk::endpoint::funds::{self, LockedBefore};
use tg_sdk::endpoint::record::GroupRecord;
use tg_sdk::endpoint::session::serving_lease;
use tg_sdk::jobs::{self, Followed};
use tg_sdk::{Client, JobFilter, clock};
use tg_types::{Amount, JobId};

use super::endpoint_files::GroupFiles;
use super::endpoint_shared::{asked, failed, prices};
use super::interrupted::{LeftRunning, unless_interrupted};
use super::order::{describe_wait, dry_run, offers, print_dry_run};
use super::{ask_to_proceed, json_of, say_unproved, unproved_json};
use super::{endpoint_ask, endpoint_group};
use crate::grid::connect::{self, Calling as _, OfJob as _};
use crate::grid::endpoint_args::{
    EndpointCommand, EndpointJobArguments, EndpointListArguments, EndpointOpenArguments,
    EndpointTopUpArguments,
};
use crate::grid::projects::{ProjectNote, tell_ordered};
use crate::grid::trust::Trusting;
use tg_console::outcome::{Exit, Failure, Outcome, line, say};
use tg_console::table::{Table, brief, brief_prefix, short};

/// How often a job is asked that something is waited for.
const POLL: Duration = Duration::from_millis(150);

/// Jobs among which those of an account are looked for: the most that a server lists.
const JOBS_LOOKED_AT: u32 = 1_000;

/// Runs a command about endpoints.
pub(crate) async fn run(command: &EndpointCommand, as_json: bool) -> Outcome {
    match command {
        EndpointCommand::Open(arguments) => open(arguments, as_json).await,
        EndpointCommand::List(arguments) => list(arguments, as_json).await,
        EndpointCommand::Ask(arguments) => endpoint_ask::ask(arguments, as_json).await,
        EndpointCommand::Write(arguments) => endpoint_ask::write(arguments, as_json).await,
        EndpointCommand::TopUp(arguments) => top_up(arguments, as_json).await,
        EndpointCommand::Close(arguments) => close(arguments, as_json).await,
    }
}

/// What the order of some arguments would come to in the next block.
pub(crate) async fn quote(arguments: &EndpointOpenArguments) -> Result<DryRunDto, Failure> {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let (model, _, terms) = asked(&client, arguments).await?;
    dry_run(&client, &wallet, (model.id, &[]), terms).await
}

/// Shows the offers and asks before spending.
fn confirm(arguments: &EndpointOpenArguments, model: &ModelDto, quotes: &[QuoteDto]) -> Outcome {
    say(offers(quotes));
    if let Some((minute, run)) = quotes.iter().find(|it| it.chosen).and_then(prices) {
        say(format_args!(
            "an endpoint of {}: {} TGRID a minute and {} for each answer; {} are locked for {} h at most{}",
            model.name,
            short(minute),
            short(run),
            short(arguments.money),
            arguments.hours,
            match arguments.money.get().checked_div(minute.get()) {
                Some(minutes) => format!(", and last {minutes} min if nothing is asked"),
                None => String::new(),
            }
        ));
    }
    ask_to_proceed("nothing was ordered", "--yes orders without asking")
}

/// Orders an endpoint, and waits until it is served.
pub(crate) async fn open(arguments: &EndpointOpenArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let project = ProjectNote::of(arguments.project.as_deref(), &arguments.key)?;
    let (model, quotes, terms) = asked(&client, arguments).await?;
    if arguments.dry_run {
        let answer = dry_run(&client, &wallet, (model.id, &[]), terms).await?;
        return print_dry_run(&answer, as_json);
    }
    if !arguments.yes {
        confirm(arguments, &model, &quotes)?;
    }
    if let Some(bounds) = arguments.replicas.replicas {
        let asked = (&model, quotes.as_slice(), terms);
        return endpoint_group::open((&client, &wallet), arguments, (bounds, asked), as_json).await;
    }
    let id = jobs::order_endpoint(&client, &wallet, model.id, terms).await;
    let id = id.of_job()?;
    tell_ordered("", id, project.as_ref());
    let wait = Box::pin(wait_until_served(&client, id));
    let left = || vec![LeftRunning::Endpoint(id)];
    let job = unless_interrupted((&client, None), left, wait).await?;
    if as_json {
        return json_of(&job);
    }
    line(format_args!("{id}"))?;
    let lease = serving_lease(&job).map_err(failed)?;
    say(format_args!(
        "served by {}: {}",
        brief(lease.provider),
        describe_prices(lease)
    ));
    if let Some(meter) = &lease.meter {
        say(format_args!(
            "its money lasts {} if nothing is asked; tensorgrid endpoint top-up adds to it",
            lasts(&job, meter)
        ));
    }
    let short_id = brief_prefix(id);
    let api = connect::api_flag(&client);
    say(format_args!(
        "next: tensorgrid endpoint ask {short_id} INPUT{api}, or endpoint write; tensorgrid endpoint close {short_id}{api}"
    ));
    Ok(())
}

fn describe_prices(lease: &LeaseDto) -> String {
    let minute = lease.meter.as_ref().map_or(Amount::ZERO, |it| it.minute);
    format!(
        "{} TGRID a minute, {} a run of the model",
        short(minute),
        short(lease.price)
    )
}

/// Follows an endpoint until somebody serves it, or it ended.
async fn wait_until_served(client: &Client, id: JobId) -> Result<JobDto, Failure> {
    jobs::wait_for_order(client, id).await.of_job()?;
    let (mut shown, mut waits) = (0, String::new());
    let mut asked = Instant::now();
    loop {
        let job = client.job(id).await.calling("ask for the job")?;
        for step in job.history.iter().skip(shown) {
            say(format_args!("  {}", step.state));
        }
        shown = job.history.len();
        match job.state {
            JobStateDto::Running => return Ok(job),
            JobStateDto::Paid
            | JobStateDto::Refunded
            | JobStateDto::Expired
            | JobStateDto::Cancelled => {
                let text = format!("the endpoint ended: {}", job.reason.unwrap_or_default());
                return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
            }
            _ => {}
        }
        if asked.elapsed() > Duration::from_secs(2)
            && let Ok(why) = client.job_why(id).await
        {
            asked = Instant::now();
            let text = describe_wait(&why);
            if text != waits {
                say(format_args!("             {text}"));
                waits = text;
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn list(arguments: &EndpointListArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let files = GroupFiles::of(&arguments.key, &arguments.groups);
    let groups: Vec<GroupRecord> = match &arguments.group {
        Some(name) => vec![files.named(name)?.1],
        None => files.all()?,
    };
    let groups = groups.into_iter();
    let groups: Vec<_> = groups.filter(|it| it.account == wallet.address()).collect();
    let replicas = groups.iter().flat_map(|group| {
        let jobs = group.replicas.iter();
        jobs.map(|it| (it.job, group.name.as_str()))
    });
    let replicas: BTreeMap<JobId, &str> = replicas.collect();
    let filter = JobFilter {
        requestor: Some(wallet.address()),
        provider: None,
        mode: Some(ModeDto::Endpoint),
        limit: Some(JOBS_LOOKED_AT),
    };
    let jobs = client.jobs(filter).await.calling("list the jobs")?;
    let mine = jobs.into_iter().filter(|job| {
        let is_asked = arguments.group.is_none() || replicas.contains_key(&job.id);
        job.settlement.is_none() && is_asked
    });
    let mine: Vec<(JobDto, Option<&str>)> = mine
        .map(|job| {
            let group = replicas.get(&job.id).copied();
            (job, group)
        })
        .collect();
    if as_json {
        return list_json(&mine);
    }
    say_unproved(&client);
    line(endpoints(&mine))?;
    if !groups.is_empty() {
        line(endpoint_group::table(&groups))?;
    }
    Ok(())
}

/// The endpoints as JSON: each job, with the group that it is a replica of.
fn list_json(jobs: &[(JobDto, Option<&str>)]) -> Outcome {
    let mut listed = Vec::with_capacity(jobs.len());
    for (job, group) in jobs {
        let mut value = serde_json::to_value(job).map_err(anyhow::Error::from)?;
        value["group"] = serde_json::json!(group);
        listed.push(value);
    }
    unproved_json(&listed)
}

fn endpoints(jobs: &[(JobDto, Option<&str>)]) -> Table {
    let mut table = Table::new(&[
        "job",
        "group",
        "state",
        "model",
        "provider",
        "a minute",
        "a run",
        "answers claimed",
        "paid",
        "left",
        "lasts",
    ]);
    for (job, group) in jobs {
        let lease = job.leases.iter().find(|it| it.end.is_none());
        let meter = lease.and_then(|it| it.meter.as_ref());
        let dash = || "-".to_owned();
        table.row(vec![
            brief(job.id),
            group.map_or_else(dash, str::to_owned),
            standing(job, meter),
            brief(job.model),
            lease.map_or_else(dash, |it| brief(it.provider)),
            meter.map_or_else(dash, |it| short(it.minute)),
            lease.map_or_else(dash, |it| short(it.price)),
            meter.map_or_else(dash, |it| it.answered.to_string()),
            short(job.served),
            short(job.escrow),
            meter.map_or_else(dash, |it| lasts(job, it)),
        ]);
    }
    table
}

/// Where an endpoint stands, in its own words.
fn standing(job: &JobDto, meter: Option<&MeterDto>) -> String {
    match job.state {
        JobStateDto::Running if meter.is_some_and(|it| it.ends_ms.is_some()) => "ends".to_owned(),
        JobStateDto::Running => "served".to_owned(),
        // Whatever its offers ask, without money it waits for more.
        JobStateDto::Queued if job.escrow.is_zero() => "waits for money".to_owned(),
        other => other.to_string(),
    }
}

/// How long the money of an endpoint lasts if nothing is asked, and until when it may last.
fn lasts(job: &JobDto, meter: &MeterDto) -> String {
    let now = clock::now().get();
    let until = job.deadline_ms.saturating_sub(now) / 60_000;
    let minutes = match meter.minute.get() {
        0 => u128::from(until),
        minute => job.escrow.get() / minute,
    };
    format!("{} min", minutes.min(u128::from(until)))
}

async fn top_up(arguments: &EndpointTopUpArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let files = GroupFiles::of(&arguments.key, &arguments.groups);
    if files.find(&arguments.job)?.is_some() {
        return endpoint_group::top_up((&client, &wallet), arguments, as_json).await;
    }
    let id = connect::job(&client, &arguments.job).await?;
    let locked = match Trusting::begin(&client, &arguments.trust).await? {
        Some(mut trusting) => {
            let order = trusting.order(id).await?;
            trusting.keep();
            LockedBefore::Known(order.max_price)
        }
        None if client.is_own_node() => LockedBefore::AsTold,
        None => {
            let text = format!(
                "how much was locked for endpoint {id} before is only what {} says: nothing was signed on its word",
                client.url()
            );
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
                "--genesis FILE has it proved; or `tensorgrid job raise JOB --max-price N`, which states the new sum",
            ));
        }
    };
    let raised = funds::top_up(&client, &wallet, id, arguments.money, locked).await;
    let job = raised.of_job()?;
    if as_json {
        return json_of(&job);
    }
    Ok(line(format_args!(
        "endpoint {id} has {} TGRID left, of {} in all",
        short(job.escrow),
        short(job.max_price)
    ))?)
}

async fn close(arguments: &EndpointJobArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let files = GroupFiles::of(&arguments.key, &arguments.groups);
    if files.find(&arguments.job)?.is_some() {
        return endpoint_group::close((&client, &wallet), arguments, as_json).await;
    }
    let id = connect::job(&client, &arguments.job).await?;
    funds::close(&client, &wallet, id).await.of_job()?;
    say("its provider has some seconds for its last claim");
    let mut tell = |news: Followed<'_>| {
        if let Followed::Changed(job) = news {
            say(format_args!("  {}", job.state));
        }
    };
    let job = jobs::follow(&client, id, &mut tell).await.of_job()?;
    if as_json {
        return json_of(&job);
    }
    let settled = job.settlement.as_ref();
    Ok(line(format_args!(
        "endpoint {id} is {}: {} TGRID for what was served, {} came back",
        job.state,
        settled.map_or_else(|| short(Amount::ZERO), |it| short(it.price)),
        settled.map_or_else(|| short(Amount::ZERO), |it| short(it.refund)),
    ))?)
}
