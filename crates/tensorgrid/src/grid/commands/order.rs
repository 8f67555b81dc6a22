//! What is shown and asked before an order, and while its job waits.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tg_sdk::dto::{DryRunDto, JobWhyDto, ModeDto, ModelDto, QuoteDto};
use tg_sdk::jobs::{self, OrderedJob};
use tg_sdk::text::FromText as _;
use tg_sdk::{Client, Digest, OrderTerms, Wallet};
use tg_types::resources::REPLICAS_USUAL;
use tg_types::{Address, Amount, JobId, JobNeeds, Lane, ModelId, VerificationMode};

use super::{ask_to_proceed, json_of};
use crate::grid::cloud_prices;
use crate::grid::connect::{self, Calling as _, OfJob as _};
use crate::grid::describe::{describe_lease, describe_why};
use crate::grid::order_args::OrderArguments;
use tg_console::outcome::{Exit, Failure, Outcome, json, line, say};
use tg_console::table::{Table, brief, short};
use tg_console::verify::VerifyChoice;

/// What offers ask for a run of a model that is checked so, with what clouds would take if a file says it.
pub(super) async fn quotes(
    client: &Client,
    (model, mode): (&ModelDto, ModeDto),
    order: &OrderArguments,
) -> Result<Vec<QuoteDto>, Failure> {
    let clouds = order.clouds.read()?;
    let at_risk = order.needs.value_at_risk;
    let quotes = jobs::patiently(|| client.quotes_at_risk(model.id, mode, at_risk)).await;
    let quotes = quotes.calling("ask for prices")?;
    let gpus = order.needs.needs().gpus;
    if let Some(text) = clouds.and_then(|it| cloud_prices::beside(&it, &quotes, gpus)) {
        say(text);
    }
    Ok(quotes)
}

/// The terms of an order for a run on `input`, at the maximum price that was named or the usual one. For needs that the quotes do not
/// know (GPU time, priorities, gangs) a dry run says what it comes to.
pub(super) async fn terms(
    client: &Client,
    wallet: &Wallet,
    (mode, asked, order): (ModeDto, Option<VerifyChoice>, &OrderArguments),
    quotes: &[QuoteDto],
    input: (ModelId, &[u8]),
) -> Result<OrderTerms, Failure> {
    let needs = needs_of(mode, asked, order)?;
    let at = |max_price: Amount| terms_at(mode, order, (max_price, needs));
    if mode == ModeDto::Replicate && order.max_price.is_none() && !order.dry_run {
        check_members(needs.gang, quotes)?;
    }
    let usual = jobs::usual_max_price(quotes).and_then(|it| match mode {
        // Quotes are of the usual number of members.
        ModeDto::Replicate => {
            it.checked_mul_div_ceil(u64::from(needs.gang), u64::from(REPLICAS_USUAL))
        }
        _ => Some(it),
    });
    let is_usual = order.needs.are_usual();
    if let Some(max_price) = order.max_price.or(usual.filter(|_| is_usual)) {
        return Ok(at(max_price));
    }
    if (is_usual || quotes.is_empty()) && !order.dry_run {
        return Err(connect::no_offer());
    }
    if needs.lane() == Lane::Auction && !order.dry_run {
        return Err(no_bid());
    }
    let trial = at(price_to_try(client, wallet).await?);
    if order.dry_run {
        return Ok(trial);
    }
    Ok(at(price_of_trial(
        &dry_run(client, wallet, input, trial).await?,
    )?))
}

/// What an order says, at a maximum price.
fn terms_at(
    mode: ModeDto,
    order: &OrderArguments,
    (max_price, needs): (Amount, JobNeeds),
) -> OrderTerms {
    OrderTerms {
        mode: mode.into(),
        max_price,
        deadline: Duration::from_secs(order.deadline_s),
        max_attempts: order.attempts,
        retention: order.retention,
        needs,
    }
}

/// A maximum price for a dry run: any that the account can pay will do.
async fn price_to_try(client: &Client, wallet: &Wallet) -> Result<Amount, Failure> {
    let account = client.account(wallet.address()).await;
    let balance = account.calling("ask for the balance")?.balance;
    Ok(Amount::new(balance.get() / 2))
}

/// What an order would come to if it were checked by a committee (mode sync).
pub(super) async fn trial_of_sync(
    client: &Client,
    wallet: &Wallet,
    order: &OrderArguments,
    input: (ModelId, &[u8]),
) -> Result<DryRunDto, Failure> {
    let max_price = match order.max_price {
        Some(price) => price,
        None => price_to_try(client, wallet).await?,
    };
    let terms = terms_at(ModeDto::Sync, order, (max_price, order.needs.needs()));
    dry_run(client, wallet, input, terms).await
}

/// What the job needs, and of mode replicate how many members it has.
fn needs_of(
    mode: ModeDto,
    asked: Option<VerifyChoice>,
    order: &OrderArguments,
) -> Result<JobNeeds, Failure> {
    let needs = order.needs.needs();
    if mode != ModeDto::Replicate {
        return Ok(needs);
    }
    let members = asked.and_then(VerifyChoice::members);
    let gang = match (members, needs.gang) {
        (None, 1) => REPLICAS_USUAL,
        (None, gang) | (Some(gang), 1) => gang,
        (Some(members), gang) if members == gang => gang,
        (Some(members), gang) => {
            let text =
                format!("--verify replicate:{members} and --gang {gang} contradict each other");
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("keep one of them"));
        }
    };
    Ok(JobNeeds { gang, ..needs })
}

/// Whether as many providers as members could serve an order whose members are of distinct providers. Who names a price may wait for more.
fn check_members(members: u16, quotes: &[QuoteDto]) -> Outcome {
    let serving = quotes.iter().filter(|it| it.serves);
    let providers: BTreeSet<Address> = serving.map(|it| it.offer.provider).collect();
    let found = providers.len();
    if found == 0 || found >= usize::from(members) {
        return Ok(());
    }
    let text = format!(
        "{members} members would be of {members} distinct providers, and {found} {} an offer that fits",
        if found == 1 { "has" } else { "have" }
    );
    let fewer = match found {
        1 => String::new(),
        _ => format!("--verify replicate:{found}, or "),
    };
    Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(format!(
        "nothing was ordered; {fewer}--max-price N, with which the order waits for more until its deadline"
    )))
}

/// A bid without a price.
fn no_bid() -> Failure {
    let text = "batch work bids in a sealed auction, and the maximum price is the bid: name one";
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
        .hint("--max-price N bounds what is spent; with --dry-run it says what would be charged")
}

/// Refuses a sealed bid for what is not ordered by one.
pub(super) fn refuse_sealed_bid(terms: OrderTerms, what: &str) -> Outcome {
    if terms.needs.lane() != Lane::Auction {
        return Ok(());
    }
    let text = format!("{what} is not ordered by a sealed bid yet");
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("leave out --class batch"))
}

/// How long a dry run is asked again that says nothing of any offer: validators do not hold a new model's files at once.
const DRY_RUN_MAX: Duration = Duration::from_secs(5);

/// Asks what an order would come to in the next block.
pub(super) async fn dry_run(
    client: &Client,
    wallet: &Wallet,
    (model, input): (ModelId, &[u8]),
    terms: OrderTerms,
) -> Result<DryRunDto, Failure> {
    let started = Instant::now();
    loop {
        let status = client.status().await.calling("ask for the grid's time")?;
        let order = terms.order(model, input, status.ledger_time_ms);
        let answer = client.dry_run(wallet.address(), &order).await;
        let answer = answer.calling("ask what the order would come to")?;
        // Of a gang that is larger than what fits it, no offer lacks anything.
        let is_told = answer.charge.is_some() || !answer.why.offers.is_empty();
        if is_told || started.elapsed() > DRY_RUN_MAX {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Prints what an order would come to.
pub(super) fn print_dry_run(answer: &DryRunDto, as_json: bool) -> Outcome {
    match as_json {
        true => json_of(answer),
        false => Ok(line(describe_dry_run(answer))?),
    }
}

/// What an order would come to, in lines.
fn describe_dry_run(answer: &DryRunDto) -> String {
    let DryRunDto {
        job,
        why,
        charge,
        charge_max,
    } = answer;
    let mut lines = vec!["nothing was ordered; in the next block:".to_owned()];
    let leases = job.leases.iter();
    lines.extend(leases.map(|lease| format!("  {}", describe_lease(lease))));
    lines.push(match charge {
        Some(charge) => format!(
            "{} TGRID would be charged for an accepted result, with verification; {} at most, whatever happens",
            short(*charge),
            short(*charge_max)
        ),
        None => format!("{} TGRID at most would be charged", short(*charge_max)),
    });
    if job.leases.is_empty() {
        lines.push(describe_why(why));
    }
    lines.join("\n")
}

/// A maximum price for an order whose needs the quotes do not know, by what a dry run of it came to: twice the charge, since prices
/// move until it is placed.
///
/// # Errors
/// If no offer serves it, with the reason.
fn price_of_trial(answer: &DryRunDto) -> Result<Amount, Failure> {
    if let Some(charge) = answer.charge {
        return Ok(charge.saturating_add(charge));
    }
    let text = format!(
        "no offer serves this order now: {}",
        describe_why(&answer.why)
    );
    Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
        "nothing was ordered; change what it asks, or order it with --max-price N: it then waits until its deadline",
    ))
}

/// Shows the offers and asks before spending.
pub(super) fn confirm(model: &ModelDto, quotes: &[QuoteDto], terms: OrderTerms) -> Outcome {
    say(offers(quotes));
    say(format_args!(
        "run {} with verify {} for at most {} TGRID plus the verification fee",
        model.name,
        ModeDto::from(terms.mode),
        short(terms.max_price)
    ));
    if terms.retention.get() > 0 {
        say(format_args!(
            "validators keep the answer for {} s; what that costs burns when the job is paid",
            terms.retention.get() / 1_000
        ));
    }
    if terms.needs.lane() == Lane::Auction {
        say(
            "as a sealed bid: a deposit is locked, and lost unless this command runs until the bid is opened",
        );
    }
    if terms.mode == VerificationMode::Replicate {
        say(format_args!(
            "{} providers run it, drawn among those that ask no more than an equal part of that",
            terms.needs.gang
        ));
    }
    ask_to_proceed(
        "nothing was ordered",
        "--yes orders without asking; --max-price bounds what is spent",
    )
}

/// What every offer would ask.
pub(super) fn offers(quotes: &[QuoteDto]) -> Table {
    let mut table = Table::new(&[
        "provider",
        "hardware",
        "price",
        "verification",
        "ETA",
        "accepted",
        "failed",
        "",
    ]);
    for quote in quotes {
        let reputation = &quote.offer.reputation;
        let failed = reputation.rejected + reputation.late + reputation.abandoned;
        let note = if quote.chosen {
            "<- cheapest that fits".to_owned()
        } else {
            quote.lacks.join("; ")
        };
        table.row(vec![
            brief(quote.offer.provider),
            quote.offer.terms.hardware.clone(),
            quote.price.map_or_else(|| "-".to_owned(), short),
            short(quote.verification_fee),
            format!("{}.{} s", quote.eta_ms / 1000, quote.eta_ms % 1000 / 100),
            reputation.accepted.to_string(),
            failed.to_string(),
            note,
        ]);
    }
    table
}

/// Why a job waits, in one line.
pub(super) fn describe_wait(why: &JobWhyDto) -> String {
    let mut parts = vec![why.summary.clone()];
    let constraints = why.constraints.iter().take(REASONS_SHOWN);
    parts.extend(constraints.map(|it| format!("{} {}", it.rejected, it.constraint)));
    parts.extend(why.relaxations.first().cloned());
    if let Some(position) = why.queue_position.filter(|it| *it > 0) {
        parts.push(format!("{position} jobs are before it"));
    }
    parts.join("; ")
}

/// Constraints that are named while a job waits.
const REASONS_SHOWN: usize = 3;

/// Waits until an order is final, and prints what `job fetch` takes.
pub(super) async fn detached(client: &Client, ordered: &OrderedJob, as_json: bool) -> Outcome {
    // Whoever is given the id may ask for the job at once.
    let id = ordered.job;
    jobs::wait_for_order(client, id).await.of_job()?;
    let order = order_text(ordered);
    if as_json {
        let printed = serde_json::json!({ "job": id.to_string(), "order": order });
        return Ok(json(&printed)?);
    }
    say(format_args!(
        "next: tensorgrid job fetch {id} --order {order}{}",
        connect::api_flag(client)
    ));
    Ok(line(id)?)
}

/// An order as one word: `MODEL:INPUT:MODE`.
pub(super) fn order_text(ordered: &OrderedJob) -> String {
    let OrderedJob {
        job: _,
        model,
        input,
        mode,
    } = ordered;
    format!("{model}:{input}:{mode}")
}

/// The order that one word says; nothing if it says none.
pub(super) fn order_of_text(job: JobId, text: &str) -> Option<OrderedJob> {
    let mut words = text.split(':');
    let (model, input, mode) = (words.next()?, words.next()?, words.next()?);
    let mode = serde_json::from_value(serde_json::Value::from(mode)).ok()?;
    words.next().is_none().then_some(OrderedJob {
        job,
        model: ModelId::from_text(model)?,
        input: Digest::from_text(input)?,
        mode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_being_printed() {
        let ordered = OrderedJob::new(
            JobId::new([1; 32]),
            ModelId::new([2; 32]),
            b"input",
            ModeDto::Proof,
        );
        let text = order_text(&ordered);
        assert_eq!(order_of_text(ordered.job, &text), Some(ordered));
        for wrong in ["", "1:2:proof", &format!("{text}:x"), &text[..70]] {
            assert_eq!(order_of_text(ordered.job, wrong), None, "{wrong}");
        }
    }
}
