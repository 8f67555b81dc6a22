//! `tensorgrid endpoint`: a provider serves a model for some time, and is asked and paid directly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tg_offline::models;

use tg_sdk::dto::{
    DryRunDto, JobDto, JobStateDto, LeaseDto, MeterDto, ModeDto, ModelDto, QuoteDto,
};
use tg_sdk::endpoint::funds::{self, LockedBefore};
use tg_sdk::endpoint::session::{
    EndpointAnswer, EndpointError, EndpointSession, ProvedLease, ServedBy, serving_lease,
};
use tg_sdk::jobs::{self, Followed};
use tg_sdk::{CheckedModel, Client, JobFilter, OrderTerms, Wallet, clock};
use tg_types::{Amount, BASE_PRICES_PER_MINUTE, JobId};

use super::order::{describe_wait, dry_run, offers, print_dry_run};
use super::{ask_to_proceed, json_of};
use crate::grid::connect::{self, Calling as _, OfJob as _};
use crate::grid::connect_args::TrustArguments;
use crate::grid::endpoint_args::{
    EndpointAskArguments, EndpointCommand, EndpointJobArguments, EndpointListArguments,
    EndpointOpenArguments, EndpointTopUpArguments, EndpointWriteArguments,
};
use crate::grid::trust::{self, Trusting};
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, json, line, part, say};
use tg_console::table::{Table, brief, brief_prefix, short};
use tg_offline::answer::ShownAnswer as _;
use tg_offline::generate::{TokenCoding, request};

/// How often a job is asked that something is waited for.
const POLL: Duration = Duration::from_millis(150);

/// Jobs among which those of an account are looked for: the most that a server lists.
const JOBS_LOOKED_AT: u32 = 1_000;

/// Runs a command about endpoints.
pub(crate) async fn run(command: &EndpointCommand, as_json: bool) -> Outcome {
    match command {
        EndpointCommand::Open(arguments) => open(arguments, as_json).await,
        EndpointCommand::List(arguments) => list(arguments, as_json).await,
        EndpointCommand::Ask(arguments) => ask(arguments, as_json).await,
        EndpointCommand::Write(arguments) => write(arguments, as_json).await,
        EndpointCommand::TopUp(arguments) => top_up(arguments, as_json).await,
        EndpointCommand::Close(arguments) => close(arguments, as_json).await,
    }
}

/// A call to an endpoint that failed, as a person reads it.
fn failed(error: EndpointError) -> Failure {
    let (exit, hint) = match &error {
        EndpointError::Client(inner) => (connect::exit_of_call(inner), inner.hint().to_owned()),
        EndpointError::NoEndpoint { .. } => (
            Exit::Usage,
            "`tensorgrid endpoint list` shows the endpoints".to_owned(),
        ),
        EndpointError::NotServed { .. } => (
            Exit::Unavailable,
            "`tensorgrid job why` says why; `endpoint top-up` if its money is spent".to_owned(),
        ),
        EndpointError::Refused { .. } => (Exit::Rejected, String::new()),
        EndpointError::Silent => (
            Exit::Unavailable,
            "ask again; a provider that is gone is replaced after half a minute".to_owned(),
        ),
        EndpointError::OtherLease { .. } | EndpointError::OtherServer { .. } => (
            Exit::Rejected,
            "nothing was asked and no voucher signed: the API is damaged or lies; ask another one with --api".to_owned(),
        ),
        EndpointError::Lied { .. } => (
            Exit::Rejected,
            "believe none of its answers; `endpoint close` ends the endpoint".to_owned(),
        ),
        EndpointError::NotTheirs { .. }
        | EndpointError::Unproved(_)
        | EndpointError::Overcharged(_)
        | EndpointError::Card(_)
        | EndpointError::Seal(_)
        | EndpointError::Overflow => (
            Exit::Rejected,
            "nothing is owed for it; `endpoint close` ends the endpoint".to_owned(),
        ),
    };
    let failure = Failure::new(exit, error);
    match hint.as_str() {
        "" => failure,
        hint => failure.hint(hint),
    }
}

/// The model, what offers ask, and the terms of an order.
async fn asked(
    client: &Client,
    arguments: &EndpointOpenArguments,
) -> Result<(ModelDto, Vec<QuoteDto>, OrderTerms), Failure> {
    let model = connect::model(client, &arguments.model).await?;
    if !model.is_served() {
        // What cannot be asked is not opened: its minutes would be paid for nothing.
        let checked = jobs::public_model(client, &model).await.of_job();
        checked.map_err(|failure| {
            failure.hint("endpoints serve models of integers (tier TGX-1); graphs of floats and programs are jobs: `infer`, `program submit`")
        })?;
    }
    let seconds = arguments.hours * 3_600.0;
    if !(1.0..=3_600.0 * 24.0 * 366.0).contains(&seconds) {
        let text = format!("--hours {}: more than 0, a year at most", arguments.hours);
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    let quotes = jobs::patiently(|| client.quotes(model.id, ModeDto::Endpoint)).await;
    let quotes = quotes.calling("ask for prices")?;
    if arguments.needs.are_usual() && jobs::usual_max_price(&quotes).is_none() {
        return Err(connect::no_offer());
    }
    let terms = OrderTerms {
        mode: ModeDto::Endpoint.into(),
        deadline: Duration::from_secs_f64(seconds),
        needs: arguments.needs.needs(),
        ..OrderTerms::new(arguments.money)
    };
    Ok((model, quotes, terms))
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
    let (model, quotes, terms) = asked(&client, arguments).await?;
    if arguments.dry_run {
        let answer = dry_run(&client, &wallet, (model.id, &[]), terms).await?;
        return print_dry_run(&answer, as_json);
    }
    if !arguments.yes {
        confirm(arguments, &model, &quotes)?;
    }
    let id = jobs::order_endpoint(&client, &wallet, model.id, terms).await;
    let id = id.of_job()?;
    say(format_args!("job {id}"));
    let job = wait_until_served(&client, id).await?;
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
    say(format_args!(
        "next: tensorgrid endpoint ask {short_id} INPUT, or endpoint write; tensorgrid endpoint close {short_id}"
    ));
    Ok(())
}

/// What an offer asks a minute and for an answer, without GPU time: what its terms say.
fn prices(quote: &QuoteDto) -> Option<(Amount, Amount)> {
    let base = quote.offer.terms.price_base;
    let minute = base.checked_mul_div_ceil(BASE_PRICES_PER_MINUTE, 1)?;
    Some((minute, quote.price?.saturating_sub(base)))
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
    let filter = JobFilter {
        requestor: Some(wallet.address()),
        mode: Some(ModeDto::Endpoint),
        limit: Some(JOBS_LOOKED_AT),
    };
    let jobs = client.jobs(filter).await.calling("list the jobs")?;
    let mine = jobs.into_iter().filter(|job| job.settlement.is_none());
    let mine: Vec<JobDto> = mine.collect();
    if as_json {
        return json_of(&mine);
    }
    let mut table = Table::new(&[
        "job",
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
    for job in &mine {
        let lease = job.leases.iter().find(|it| it.end.is_none());
        let meter = lease.and_then(|it| it.meter.as_ref());
        let dash = || "-".to_owned();
        table.row(vec![
            brief(job.id),
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
    Ok(line(table)?)
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

/// An endpoint with the model that it serves.
struct OpenEndpoint {
    session: EndpointSession,
    checked: CheckedModel,
}

/// On whose word it is who serves an endpoint, and at which prices: of a final state if a genesis is named, of the API where nothing is
/// lost by its lies.
async fn served_by(
    client: &Client,
    (id, job): (JobId, &JobDto),
    arguments: &TrustArguments,
) -> Result<ServedBy, Failure> {
    let lease = serving_lease(job).map_err(failed)?;
    let Some(mut trusting) = Trusting::begin(client, arguments).await? else {
        if client.is_own_node() {
            return Ok(ServedBy::AsTold);
        }
        let text = format!(
            "that {} serves endpoint {id} is only what {} says: nothing was sealed to it and no voucher signed",
            lease.provider,
            client.url()
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
            "--genesis FILE (or TENSORGRID_GENESIS) has it proved by the validators; the file comes from whoever runs the network",
        ));
    };
    let order = trusting.order(id).await?;
    let shown = trusting.lease(lease.id).await?;
    trusting.keep();
    let proved = trust::proved(&shown);
    let found = shown.value.filter(|it| it.job == id && it.end().is_none());
    let found = found.and_then(|it| it.meter.map(|meter| (it, meter)));
    let Some((found, meter)) = found else {
        let text = format!(
            "no final state has lease {} of endpoint {id}, which {} tells ({proved})",
            lease.id,
            client.url()
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
            "the API lies, or is ahead of its proofs: try again, or ask another one with --api",
        ));
    };
    Ok(ServedBy::Proved(ProvedLease {
        lease: found.id,
        provider: found.provider,
        model: order.model,
        price: found.price,
        minute: meter.minute,
        answered: meter.answered,
        vouchers: meter.vouchers,
    }))
}

async fn served(
    client: &Client,
    wallet: &Wallet,
    (job, trust): (&str, &TrustArguments),
) -> Result<OpenEndpoint, Failure> {
    let id = connect::job(client, job).await?;
    let job = client.job(id).await.calling("ask for the job")?;
    let by = served_by(client, (id, &job), trust).await?;
    let model = match &by {
        ServedBy::Proved(lease) => lease.model,
        ServedBy::AsTold => job.model,
    };
    let model = client.model(model).await.calling("find the model")?;
    if model.is_served() {
        let text = format!("`{}` is served by a provider's own server", model.name);
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
            "it is asked by the OpenAI API of a gateway, http://HOST/openai/v1, which uses this endpoint by itself",
        ));
    }
    let checked = jobs::public_model(client, &model).await.of_job()?;
    let session = EndpointSession::open(client, wallet, id, &by).await;
    let session = session.map_err(failed)?;
    Ok(OpenEndpoint { session, checked })
}

async fn ask(arguments: &EndpointAskArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let OpenEndpoint { session, checked } =
        served(&client, &wallet, (&arguments.job, &arguments.trust)).await?;
    let reals = models::inputs(&arguments.inputs, checked.program())?;
    let input = checked.stored_input(&reals);
    let input = input.or_fail(Exit::Usage, "take the input")?;
    let (session, checked) = (Arc::new(session), Arc::new(checked));
    let asked = ask_often(&session, (&checked, &input), arguments).await;
    // What came is paid, whatever became of the rest.
    let paid = session.pay().await;
    let AskedOften {
        last,
        mut times,
        checked: samples,
        elapsed,
    } = asked?;
    paid.map_err(failed)?;
    let values = checked.output(&last.output);
    let values = values.or_fail(Exit::Rejected, "read the answer")?;
    let answers = checked.answers(&values);
    times.sort_unstable();
    let at = |permille: usize| {
        let index = (times.len().saturating_sub(1)) * permille / 1_000;
        times.get(index).map_or(0.0, |it| it.as_secs_f64() * 1e3)
    };
    let rate = times.len() as f64 / elapsed.as_secs_f64();
    let owed = session.owed();
    if as_json {
        return Ok(json(&serde_json::json!({
            "job": session.job().to_string(), "lease": session.lease().to_string(),
            "provider": session.provider().to_string(), "values": values, "answer": answers.json(),
            "asked": times.len(), "per_second": rate, "p50_ms": at(500), "p99_ms": at(990),
            "owed": owed.amount.to_string(), "answered": owed.answered,
            "number": last.number, "price": last.price.to_string(),
            "signature": hex(&last.signature.to_rsv()),
            "proof_bytes": last.proof.as_ref().map(Vec::len),
            "proved_afterwards": samples,
        }))?);
    }
    for text in answers.lines(arguments.raw) {
        line(text)?;
    }
    let checked = match (&last.proof, arguments.prove_one_in) {
        (Some(proof), _) => format!(
            "each proved and checked here ({} bytes the last one)",
            proof.len()
        ),
        (None, Some(_)) => format!("{samples} of them drawn afterwards, proved and checked here"),
        (None, None) => "checked by nobody but you".to_owned(),
    };
    line(format_args!(
        "{} answers, {:.0} a second; p50 {:.1} ms, p99 {:.1} ms; signed by {}, {checked}",
        times.len(),
        rate,
        at(500),
        at(990),
        brief(session.provider())
    ))?;
    Ok(line(format_args!(
        "{} TGRID for the last one, {} for all {} of this lease so far",
        short(last.price),
        short(owed.amount),
        owed.answered
    ))?)
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("0x{}", digits.collect::<String>())
}

/// What came of asking an input many times.
struct AskedOften {
    last: EndpointAnswer,
    times: Vec<Duration>,
    /// How many answers were drawn after they came, and proved.
    checked: u32,
    elapsed: Duration,
}

/// Asks an input as often as the arguments say, so many at once.
async fn ask_often(
    session: &Arc<EndpointSession>,
    (model, input): (&Arc<CheckedModel>, &[u8]),
    arguments: &EndpointAskArguments,
) -> Result<AskedOften, Failure> {
    let (started, left) = (Instant::now(), Arc::new(AtomicU32::new(arguments.times)));
    let mut tasks = tokio::task::JoinSet::new();
    let proofs = match (arguments.prove, arguments.prove_one_in) {
        (true, _) => Proofs::Each,
        (false, Some(one_in)) => Proofs::OneIn(one_in),
        (false, None) => Proofs::None,
    };
    // A provider has no more proofs under way that are not paid for.
    let most = if proofs == Proofs::None { u32::MAX } else { 4 };
    let parallel = u32::from(arguments.parallel).min(most);
    for _ in 0..parallel.min(arguments.times) {
        let (session, left) = (Arc::clone(session), Arc::clone(&left));
        let (model, input) = (Arc::clone(model), input.to_vec());
        tasks.spawn(async move {
            let mut done = (Vec::new(), None, 0);
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1))
                .is_ok()
            {
                let asked = Instant::now();
                let answer = match proofs {
                    Proofs::Each => session.ask_proved(input.clone(), &model).await,
                    _ => session.ask(input.clone(), &mut |_| {}).await,
                };
                let answer = answer.map_err(failed)?;
                done.0.push(asked.elapsed());
                if proofs.draws()? {
                    let proved = session.prove_afterwards(input.clone(), &answer, &model);
                    proved.await.map_err(failed)?;
                    done.2 += 1;
                }
                done.1 = Some(answer);
            }
            Ok::<_, Failure>(done)
        });
    }
    let (mut times, mut last, mut checked) = (Vec::new(), None, 0);
    while let Some(ended) = tasks.join_next().await {
        let (some, one, samples) =
            ended.map_err(|error| anyhow::anyhow!("a request failed: {error}"))??;
        times.extend(some);
        checked += samples;
        last = one.or(last);
    }
    let last = last.ok_or_else(|| anyhow::anyhow!("nothing was asked"))?;
    Ok(AskedOften {
        last,
        times,
        checked,
        elapsed: started.elapsed(),
    })
}

/// Which answers of an endpoint are proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proofs {
    None,
    Each,
    /// One in so many, drawn after they came.
    OneIn(u32),
}

impl Proofs {
    /// Draws whether an answer that has come is proved afterwards.
    fn draws(self) -> Result<bool, Failure> {
        let Self::OneIn(one_in) = self else {
            return Ok(false);
        };
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)
            .map_err(|error| anyhow::anyhow!("draw which answers are checked: {error}"))?;
        Ok(u64::from_le_bytes(bytes) % u64::from(one_in) == 0)
    }
}

async fn write(arguments: &EndpointWriteArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let OpenEndpoint { session, checked } =
        served(&client, &wallet, (&arguments.job, &arguments.trust)).await?;
    let generator = checked.generator();
    let generator = generator.or_fail(Exit::Usage, "the model cannot write")?;
    let coding = TokenCoding::of(&arguments.what, checked.program(), &generator)?;
    let request = request(&arguments.what, &generator, &coding)?;
    let input = checked.request(&request);
    let input = input.or_fail(Exit::Usage, "take the prompt")?;
    let started = Instant::now();
    let (mut pieces, mut first) = (Vec::new(), None);
    let mut shown = String::new();
    let mut piece = |bytes: &[u8]| {
        first.get_or_insert_with(|| started.elapsed());
        pieces.extend_from_slice(bytes);
        // Only what is whole text so far is shown; the answer says all of it.
        let is_shown = !as_json || arguments.stream;
        if is_shown && let Some(text) = text_so_far(&coding, &request.prompt, &pieces) {
            let new = text.strip_prefix(shown.as_str()).unwrap_or_default();
            if !new.is_empty() && !new.ends_with(char::REPLACEMENT_CHARACTER) {
                show_piece(new, as_json);
                shown = text;
            }
        }
    };
    let answer = session.ask(input, &mut piece).await;
    let paid = session.pay().await;
    let answer = answer.map_err(failed)?;
    paid.map_err(failed)?;
    let tokens = checked.written(&answer.output);
    let tokens = tokens.or_fail(Exit::Rejected, "read the answer")?;
    let text = coding.text(&request.prompt, &tokens)?;
    let elapsed = started.elapsed();
    if as_json {
        let whole = serde_json::json!({
            "job": session.job().to_string(), "provider": session.provider().to_string(),
            "prompt": request.prompt, "tokens": tokens, "text": text,
            "price": answer.price.to_string(), "first_ms": first.map(|it| it.as_secs_f64() * 1e3),
            "elapsed_ms": elapsed.as_secs_f64() * 1e3, "signature": hex(&answer.signature.to_rsv()),
        });
        if !arguments.stream {
            return Ok(json(&whole)?);
        }
        if let Some(rest) = text
            .as_deref()
            .and_then(|it| it.strip_prefix(shown.as_str()))
        {
            show_piece(rest, as_json);
        }
        return Ok(line(whole)?);
    }
    match text {
        Some(text) => line(text.strip_prefix(shown.as_str()).unwrap_or(&text))?,
        None => {
            let tokens: Vec<String> = tokens.iter().map(u32::to_string).collect();
            line(tokens.join(","))?;
        }
    }
    say(format_args!(
        "{} tokens in {:.2} s, the first after {:.0} ms; {} TGRID",
        tokens.len(),
        elapsed.as_secs_f64(),
        first.unwrap_or(elapsed).as_secs_f64() * 1e3,
        short(answer.price)
    ));
    Ok(())
}

/// Shows what was written since the last piece.
fn show_piece(text: &str, as_json: bool) {
    if text.is_empty() {
        return;
    }
    // Nobody may read any more: what is computed is paid all the same.
    let _gone = match as_json {
        true => part(format_args!("{}\n", serde_json::json!({ "piece": text }))),
        false => part(text),
    };
}

/// What pieces of an answer say so far, if tokens are text.
fn text_so_far(coding: &TokenCoding, prompt: &[u32], pieces: &[u8]) -> Option<String> {
    let (words, _) = pieces.as_chunks::<4>();
    let tokens: Vec<u32> = words.iter().map(|it| u32::from_le_bytes(*it)).collect();
    coding.text(prompt, &tokens).ok().flatten()
}

async fn top_up(arguments: &EndpointTopUpArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
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
